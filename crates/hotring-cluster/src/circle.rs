//! The circle of consistent hashing: 64-bit numbers, on which each member has identifiers.
//!
//! An identifier owns the places after its predecessor up to and including itself, `(predecessor, identifier]`,
//! and the first one also those after the last one, as in the paper of the durable store (section 3.2).

/// The identifiers of a usual member.
pub const IDENTIFIERS: u32 = 128;

/// The weight of a usual member.
pub const USUAL_WEIGHT: u32 = 100;

/// How a place is made of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// FNV-1a, then a mixing step, so that each byte of the key changes all bits.
    Mixed,
    /// FNV-1 alone, as in the paper. The last byte hardly changes the upper bits, so numbered keys lie together.
    Fnv1,
    /// FNV-1a alone, the other form of the paper's hash: the last byte reaches upper bits, by one multiplication.
    Fnv1a,
}

impl Placement {
    /// The place of a key.
    pub fn place(self, key: &[u8]) -> u64 {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        let bytes = key.iter().map(|&byte| u64::from(byte));
        match self {
            Placement::Mixed => mix(Placement::Fnv1a.place(key)),
            Placement::Fnv1 => bytes.fold(BASIS, |hash, byte| hash.wrapping_mul(PRIME) ^ byte),
            Placement::Fnv1a => bytes.fold(BASIS, |hash, byte| (hash ^ byte).wrapping_mul(PRIME)),
        }
    }
}

/// The last step of SplitMix64: each bit of `x` changes about half of the bits of the result.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Identifiers drawn at random: an endless sequence of a seed and a member's number, by SplitMix64.
pub fn drawn(seed: u64, member: u32) -> impl Iterator<Item = u64> {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let begin = mix(mix(seed.wrapping_add(STEP)) ^ u64::from(member));
    (1..).map(move |at: u64| mix(begin.wrapping_add(at.wrapping_mul(STEP))))
}

/// The number of identifiers that suit a weight.
pub fn identifiers(weight: u32) -> usize {
    (u64::from(IDENTIFIERS) * u64::from(weight) / u64::from(USUAL_WEIGHT)).max(1) as usize
}

/// Identifiers and the members that have them.
#[derive(Clone, Debug, Default)]
pub struct Circle {
    /// Ascending, no identifier twice.
    points: Vec<(u64, u32)>,
}

/// Two members have the same identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SameIdentifier {
    /// The identifier.
    pub id: u64,
    /// The members, which may be one.
    pub members: (u32, u32),
}

impl Circle {
    /// A circle of identifiers with their members.
    pub fn new(points: impl IntoIterator<Item = (u64, u32)>) -> Result<Self, SameIdentifier> {
        let mut points: Vec<(u64, u32)> = points.into_iter().collect();
        points.sort_unstable();
        match points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(SameIdentifier { id: pair[0].0, members: (pair[0].1, pair[1].1) }),
            None => Ok(Circle { points }),
        }
    }

    /// The member that owns a place.
    pub fn owner(&self, place: u64) -> Option<u32> {
        self.next(place).map(|(_, member)| member)
    }

    /// The first identifier at or after a place: its distance and its member.
    pub(crate) fn next(&self, place: u64) -> Option<(u64, u32)> {
        let before =
            |&(id, _): &(u64, u32)| if wrong!(ClosedRange) { id <= place } else { id < place };
        let at = self.points.partition_point(before);
        wrong!(NoWrap => return self.points.get(at).or(self.points.last()).map(|&(id, m)| (id, m)));
        let (id, member) = *self.points.get(at).or(self.points.first())?;
        Some((id.wrapping_sub(place), member))
    }

    /// The circle of some of the members.
    pub(crate) fn of_those(&self, mut is_in: impl FnMut(u32) -> bool) -> Self {
        let points = self.points.iter().copied().filter(|&(_, member)| is_in(member));
        Circle { points: points.collect() }
    }
}
