//! Sets that are made whole: by operations on several sets, and by values from elsewhere.

use hotring_index::{AnyIndex, NewValue};

use super::large::Members;
use super::{Change, Set};
use crate::container::large::{new_value, value_of};
use crate::container::{ContainerOptions, Contents, Parts, Type};

/// A set that gets its members one by one. It is large as soon as it cannot be packed any more.
pub(crate) struct Builder<'a> {
    options: &'a ContainerOptions,
    /// The first members, unless there are `many`.
    few: Vec<Vec<u8>>,
    many: Option<Members>,
    /// Bytes of all members, equal ones as often as they came.
    len: usize,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(options: &'a ContainerOptions) -> Builder<'a> {
        Builder { options, few: Vec::new(), many: None, len: 0 }
    }

    pub(crate) fn add(&mut self, member: &[u8]) {
        self.len += member.len() + super::LEN_MAX;
        if let Some(members) = &mut self.many {
            members.add(member);
            return;
        }
        self.few.push(member.to_vec());
        let packed_max = self.options.set_ints.entries().max(self.options.set.entries());
        if self.few.len() > packed_max && self.options.takes_objects {
            let mut members = Members::new(self.options.keys);
            self.few.drain(..).for_each(|member| _ = members.add(&member));
            self.many = Some(members);
        }
    }

    /// Bytes that a record of the log takes of it, at most.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value, and its number of members; None without members.
    pub(crate) fn finish(self, index: &AnyIndex) -> Option<(NewValue<'static>, usize)> {
        if let Some(members) = self.many {
            let count = members.len();
            let contents = Contents { number: 1, parts: Parts::Set(members) };
            return Some((new_value(contents, index), count));
        }
        let changes: Vec<Change<'_>> = self.few.iter().map(|member| Change::add(member)).collect();
        let (tally, held) = Set::changed(Set::packed(&[]), &changes);
        Some((value_of::<Set>(held?, &changes, self.options, index), tally.added))
    }
}
