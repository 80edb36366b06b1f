//! Builds complete sets: the results of operations on several sets, and values that are stored in full.

use hotring_index::{AnyIndex, NewValue};

use super::large::Members;
use super::{Change, Set};
use crate::container::large::{new_value, value_of};
use crate::container::{ContainerOptions, Contents, Parts, Type};
use crate::error::StoreError;

/// Bytes of members below which duplicates are not removed yet.
const SLACK: usize = 1 << 20;

/// Collects the members of a new set. Sorts them by hash, so that a large set is built without a lookup for each
/// member.
pub(crate) struct Builder<'a> {
    options: &'a ContainerOptions,
    /// An empty set, which has the hash function.
    empty: Members,
    /// All members in sequence.
    data: Vec<u8>,
    ranges: Vec<MemberRange>,
    /// Bytes of members and ranges above which duplicates are removed: a member of many sets must not take memory for
    /// each.
    full: usize,
}

/// The position of a member in `data`.
#[derive(Clone, Copy)]
struct MemberRange {
    hash: u32,
    len: u32,
    start: usize,
}

impl MemberRange {
    fn of(self, data: &[u8]) -> &[u8] {
        &data[self.start..self.start + self.len as usize]
    }
}

impl<'a> Builder<'a> {
    pub(crate) fn new(options: &'a ContainerOptions) -> Builder<'a> {
        let empty = Members::new(options.keys);
        Builder { options, empty, data: Vec::new(), ranges: Vec::new(), full: SLACK }
    }

    /// Adds a member, which may be a duplicate.
    pub(crate) fn add(&mut self, member: &[u8]) {
        let len = u32::try_from(member.len()).expect("members are shorter than 4 GiB");
        self.ranges.push(MemberRange {
            hash: self.empty.hash(member),
            len,
            start: self.data.len(),
        });
        self.data.extend_from_slice(member);
        if self.footprint() > self.full {
            self.sort();
            self.full = 2 * self.footprint().max(SLACK / 2);
        }
    }

    fn footprint(&self) -> usize {
        self.data.len() + self.ranges.len() * size_of::<MemberRange>()
    }

    /// Sorts the members by hash and removes duplicates.
    fn sort(&mut self) {
        let Builder { data, ranges, .. } = self;
        ranges
            .sort_unstable_by(|a, b| a.hash.cmp(&b.hash).then_with(|| a.of(data).cmp(b.of(data))));
        let before = ranges.len();
        ranges.dedup_by(|a, b| a.hash == b.hash && a.of(data) == b.of(data));
        if ranges.len() == before {
            return;
        }
        let mut kept = Vec::with_capacity(ranges.iter().map(|range| range.len as usize).sum());
        for range in ranges {
            let start = kept.len();
            kept.extend_from_slice(range.of(data));
            range.start = start;
        }
        *data = kept;
    }

    /// Builds the value, and returns it with its number of members; None without members. `check` gets an upper bound
    /// of the bytes of the set in a log record.
    ///
    /// # Errors
    /// Those of `check`.
    pub(crate) fn finish(
        mut self,
        index: &AnyIndex,
        check: impl FnOnce(usize) -> Result<(), StoreError>,
    ) -> Result<Option<(NewValue<'static>, usize)>, StoreError> {
        let packed_max = self.options.set_ints.entries().max(self.options.set.entries());
        if self.ranges.len() > packed_max {
            self.sort();
        }
        let Builder { options, empty, data, ranges, .. } = self;
        check(data.len() + ranges.len() * super::LEN_MAX)?;
        if ranges.len() > packed_max && options.takes_objects {
            let members = ranges.iter().map(|range| (range.hash, range.of(&data)));
            let contents = Contents { number: 1, parts: Parts::Set(empty.filled(members)) };
            return Ok(Some((new_value(contents, index), ranges.len())));
        }
        let changes: Vec<Change<'_>> =
            ranges.iter().map(|range| Change::add(range.of(&data))).collect();
        let (tally, held) = Set::changed(Set::packed(&[]), &changes);
        Ok(held.map(|held| (value_of::<Set>(held, &changes, options, index), tally.added)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SUNIONSTORE of one set a thousand times once took the memory of a thousand.
    #[test]
    fn equal_members_do_not_pile_up() {
        let options = ContainerOptions::new(true, [1, 2]);
        let mut builder = Builder::new(&options);
        let mut most = 0;
        for i in 0..100_000_usize {
            builder.add(&[(i % 50) as u8; 1_000]);
            most = most.max(builder.footprint());
        }
        assert!(most < SLACK + 2_000, "{most}");
        builder.sort();
        assert_eq!((builder.ranges.len(), builder.data.len()), (50, 50_000));
    }

    #[test]
    fn members_that_differ_all_stay() {
        let options = ContainerOptions::new(true, [1, 2]);
        let mut builder = Builder::new(&options);
        // More than once beyond the slack, with each member twice.
        for i in 0..400_000_u32 {
            builder.add(&(i / 2).to_le_bytes());
        }
        builder.sort();
        let mut members: Vec<&[u8]> = builder.ranges.iter().map(|p| p.of(&builder.data)).collect();
        members.sort_unstable();
        members.dedup();
        assert_eq!((members.len(), builder.ranges.len()), (200_000, 200_000));
        assert!(builder.ranges.is_sorted_by_key(|range| range.hash));
    }
}
