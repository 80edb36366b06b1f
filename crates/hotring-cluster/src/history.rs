//! The epochs of a stream, and the last point that two streams have in common.
//!
//! Each epoch begins with a record of its own, which names the primary that began it. A start of a node
//! begins an epoch at most once, so two streams with the same beginning of an epoch are equal up to
//! there, and within that epoch up to where the shorter one ends or leaves it. Equal numbers of records
//! alone say nothing: after a failover two nodes have different records under one number.

use crate::ids::{Epoch, Incarnation, Lsn, NodeId};

/// The beginning of an epoch. The stream has it as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The epoch.
    pub epoch: Epoch,
    /// The primary that began it.
    pub node: NodeId,
    /// That primary's start.
    pub incarnation: Incarnation,
    /// The number of the epoch's first record, which states all this.
    pub first: Lsn,
}

/// The epochs of a stream, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    starts: Vec<Start>,
}

/// The reason why epochs are no history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder;

impl History {
    /// Most epochs that are kept; older ones are forgotten. A replica that knows only older ones needs a
    /// full copy.
    pub const LENGTH_MAX: usize = 512;

    /// The history of a stream without a primary yet.
    pub const fn new() -> Self {
        History { starts: Vec::new() }
    }

    /// The history of these epochs, as another node told them.
    pub fn of(starts: &[Start]) -> Result<Self, OutOfOrder> {
        let mut history = History::new();
        starts.iter().try_for_each(|start| history.learn(*start))?;
        Ok(history)
    }

    /// The epochs, oldest first.
    pub fn starts(&self) -> &[Start] {
        &self.starts
    }

    /// The beginning of the present epoch.
    pub fn last_start(&self) -> Option<&Start> {
        self.starts.last()
    }

    /// The present epoch.
    pub fn epoch(&self) -> Epoch {
        self.last_start().map_or(Epoch(0), |start| start.epoch)
    }

    /// Adds an epoch that another node has begun.
    pub fn learn(&mut self, start: Start) -> Result<(), OutOfOrder> {
        if start.epoch > Epoch::MAX { Err(OutOfOrder) } else { self.begin(start) }
    }

    /// Adds an epoch that this node begins. It may be the one after [`Epoch::MAX`], if a peer has told of that one.
    pub fn begin(&mut self, start: Start) -> Result<(), OutOfOrder> {
        let (epoch, first) = self.last_start().map_or((Epoch(0), 0), |s| (s.epoch, s.first));
        if start.epoch <= epoch || start.first <= first {
            return Err(OutOfOrder);
        }
        if self.starts.len() == Self::LENGTH_MAX {
            self.starts.remove(0);
        }
        self.starts.push(start);
        Ok(())
    }

    /// Forgets the epochs that begin after `last`: the stream was cut there.
    pub fn cut(&mut self, last: Lsn) {
        self.starts.retain(|start| start.first <= last);
    }

    /// The last record that is the same in this stream, which ends at `last`, and in another one. None
    /// if no record is known to be.
    pub fn common(&self, last: Lsn, other: &History, other_last: Lsn) -> Option<Lsn> {
        wrong!(LsnsAlone => return Some(last.min(other_last)));
        let (here, there) = self.starts.iter().enumerate().rev().find_map(|(here, start)| {
            Some((here, other.starts.iter().rposition(|other| other == start)?))
        })?;
        Some(self.end(here, last).min(other.end(there, other_last)))
    }

    /// The last record of an epoch, in a stream that ends at `last`.
    fn end(&self, epoch: usize, last: Lsn) -> Lsn {
        self.starts.get(epoch + 1).map_or(last, |next| next.first - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(epoch: u64, node: u8, first: Lsn) -> Start {
        let node = NodeId([node; 20]);
        Start { epoch: Epoch(epoch), node, incarnation: Incarnation(epoch), first }
    }

    fn history(starts: &[(u64, u8, Lsn)]) -> History {
        let starts: Vec<Start> = starts.iter().map(|(e, n, first)| start(*e, *n, *first)).collect();
        History::of(&starts).unwrap()
    }

    #[test]
    fn a_shorter_stream_of_the_same_epochs_is_a_prefix() {
        let a = history(&[(1, 1, 1), (2, 2, 10)]);
        assert_eq!(a.common(20, &a, 15), Some(15));
        assert_eq!(a.common(20, &history(&[(1, 1, 1)]), 5), Some(5));
        assert_eq!(history(&[(1, 1, 1)]).common(5, &a, 20), Some(5));
    }

    #[test]
    fn a_tail_that_the_new_primary_lacks_is_divergent() {
        // Node 1 went on to 14 after node 2 had begun epoch 2 with record 10.
        let (old, new) = (history(&[(1, 1, 1)]), history(&[(1, 1, 1), (2, 2, 10)]));
        assert_eq!(new.common(12, &old, 14), Some(9));
        assert_eq!(old.common(14, &new, 12), Some(9));
    }

    #[test]
    fn two_nodes_that_began_the_same_epoch_part_before_it() {
        let (a, b) = (history(&[(1, 1, 1), (2, 1, 8)]), history(&[(1, 1, 1), (2, 2, 8)]));
        assert_eq!(a.common(30, &b, 30), Some(7));
        let (a, b) = (history(&[(1, 1, 1)]), history(&[(1, 2, 1)]));
        assert_eq!(a.common(30, &b, 30), None);
    }

    #[test]
    fn empty_histories_have_nothing_in_common() {
        assert_eq!(History::new().common(0, &history(&[(1, 1, 1)]), 9), None);
        assert_eq!(History::new().common(7, &History::new(), 7), None);
    }

    #[test]
    fn old_epochs_are_forgotten_and_later_ones_still_meet() {
        let mut long = History::new();
        for i in 1..=History::LENGTH_MAX as u64 + 10 {
            long.begin(start(i, 1, 10 * i)).unwrap();
        }
        assert_eq!(long.starts().len(), History::LENGTH_MAX);
        let mut cut = long.clone();
        cut.cut(4000);
        assert_eq!(long.common(9999, &cut, 4003), Some(4003));
        assert_eq!(long.common(9999, &history(&[(1, 1, 10)]), 12), None);
    }

    #[test]
    fn a_history_never_goes_back_nor_past_the_last_epoch() {
        assert_eq!(History::of(&[start(u64::MAX / 2 + 1, 1, 5)]), Err(OutOfOrder));
        assert_eq!(History::of(&[start(1, 1, 0)]), Err(OutOfOrder));
        let mut h = history(&[(3, 1, 5)]);
        assert_eq!(h.begin(start(3, 2, 9)), Err(OutOfOrder));
        assert_eq!(h.begin(start(4, 2, 5)), Err(OutOfOrder));
        assert_eq!(h.epoch(), Epoch(3));
    }
}
