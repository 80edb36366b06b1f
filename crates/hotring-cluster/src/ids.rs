//! The names and numbers that nodes tell each other: nodes, starts of nodes, epochs, positions, stores.

use std::fmt;
use std::time::Duration;

/// The number of a record in the stream of a shard, which is its primary's log. 0 is before the first.
pub type Lsn = u64;

/// A reading of the node's own clock, which must count the time that the machine was suspended. Readings
/// of two nodes must never be compared.
pub type Moment = Duration;

/// What identifies the data of a store, and seeds its hash. Told only over authenticated links.
pub type StoreId = [u8; 16];

/// A number that every promotion and every start of a primary raises. 0 is before the first primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// No epoch of another node may be higher, so that there is always a next one, whatever a peer sends.
    pub const MAX: Self = Epoch(u64::MAX / 2);

    /// The epoch after this one.
    pub fn next(self) -> Self {
        Epoch(self.0 + 1)
    }
}

/// One start of a node: a random number that is drawn at each start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The start of 16 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_whole = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_whole).map(Incarnation)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A node's own name, which it keeps over restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; 20]);

impl NodeId {
    /// The node of 40 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 40 {
            return None;
        }
        let mut id = [0; 20];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Some(NodeId(id))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A node in one of its starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// The start.
    pub incarnation: Incarnation,
}
