//! The positions of keys among the arguments of a request, and the use of each key.

use super::{CommandId, Flags, Group, Spec};
use hotring_protocol::ArgsView;
use hotring_protocol::parse_i64;

/// A range of arguments that are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Index of the first key; the command's name has index 0.
    pub first: u8,
    /// Index of the last key. -1 is the last argument, and further negative numbers count from the end. With
    /// [`KeyRange::COUNTED`], the argument before the first key is the number of keys. With [`KeyRange::STORED`] and
    /// [`KeyRange::UNKNOWN`], `first` does not locate a key. With [`KeyRange::STORE`] and [`KeyRange::STOREDIST`], the
    /// key follows that word, which is searched for from `first` on.
    pub last: i8,
    /// The distance from one key to the next.
    pub step: u8,
    /// The use of the keys.
    pub access: Access,
}

/// The use that a command makes of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads the values.
    Read,
    /// Reads the values, and may keep derived results with them.
    ReadCached,
    /// Looks at the keys, but not at the contents of the values.
    Look,
    /// Reads and changes the values.
    Modify,
    /// As `Modify` or `Overwrite`, depending on the options.
    Vary,
    /// As `Read` or `Modify`, depending on the subcommands.
    VaryFields,
    /// Reads and removes the value or a part of it.
    Take,
    /// Removes a part of the value without reading it.
    Reduce,
    /// Replaces the value, regardless of the old one.
    Overwrite,
    /// Creates keys, and leaves existing keys unchanged.
    Create,
    /// Adds to the value without reading it.
    Extend,
    /// Reads the value and adds to it.
    Merge,
    /// Changes a part or a property without reading.
    Adjust,
    /// Removes the key, regardless of the value.
    Remove,
    /// As `Remove` or `Take`, depending on the options.
    RemoveIf,
    /// Any use, as a script decides.
    Script,
    /// The argument is a channel's name, not a key.
    Channel,
}

impl Access {
    /// Redis's names for the use, as the flags of a key specification.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["RO", "access"],
            Self::ReadCached => &["RW", "access"],
            Self::Look => &["RO"],
            Self::Modify | Self::Script => &["RW", "access", "update"],
            Self::Vary | Self::VaryFields => &["RW", "access", "update", "variable_flags"],
            Self::Take => &["RW", "access", "delete"],
            Self::Reduce => &["RW", "delete"],
            Self::Overwrite => &["OW", "update"],
            Self::Create => &["OW", "insert"],
            Self::Extend => &["RW", "insert"],
            Self::Merge => &["RW", "access", "insert"],
            Self::Adjust => &["RW", "update"],
            Self::Remove => &["RM", "delete"],
            Self::RemoveIf => &["RW", "delete", "variable_flags"],
            Self::Channel => &["not_key"],
        }
    }

    /// Whether the use reveals something about the values.
    pub fn reads(self) -> bool {
        self.names().contains(&"access")
    }

    /// Whether the use changes or removes the values.
    pub fn writes(self) -> bool {
        ["update", "insert", "delete"].iter().any(|what| self.names().contains(what))
    }

    /// The use in this request, which may depend on the options.
    fn in_request(self, request: ArgsView<'_>) -> Self {
        match self {
            Self::Vary if !request.tail(3).iter().any(is_question) => Self::Overwrite,
            Self::Vary => Self::Modify,
            Self::VaryFields if !request.tail(2).iter().any(is_change) => Self::Read,
            Self::VaryFields => Self::Modify,
            // With further arguments the reply reveals whether the value equals the given one.
            Self::RemoveIf if request.len() > 2 => Self::Take,
            Self::RemoveIf => Self::Remove,
            other => other,
        }
    }
}

/// Whether this option makes the reply of SET reveal something about the old value.
fn is_question(option: &[u8]) -> bool {
    let questions = [&b"get"[..], b"ifeq", b"ifne", b"ifdeq", b"ifdne"];
    questions.iter().any(|question| option.eq_ignore_ascii_case(question))
}

/// Whether this subcommand of BITFIELD writes.
fn is_change(option: &[u8]) -> bool {
    [&b"set"[..], b"incrby"].iter().any(|change| option.eq_ignore_ascii_case(change))
}

impl KeyRange {
    /// Value of `last`: the argument before the first key is the number of keys.
    pub const COUNTED: i8 = i8::MIN;
    /// Value of `last`: the key follows the last STORE among the options of SORT.
    pub const STORED: i8 = i8::MIN + 1;
    /// Value of `last`: the keys are not among the arguments.
    pub const UNKNOWN: i8 = i8::MIN + 2;
    /// Value of `last`: the key follows the word STORE.
    pub const STORE: i8 = i8::MIN + 3;
    /// Value of `last`: the key follows the word STOREDIST.
    pub const STOREDIST: i8 = i8::MIN + 4;

    /// Whether the table does not specify the positions of the keys.
    pub fn is_unknown(self) -> bool {
        matches!(self.last, Self::STORED | Self::UNKNOWN)
    }

    /// The word that precedes the key, if there is one.
    pub fn keyword(self) -> Option<&'static str> {
        match self.last {
            Self::STORE => Some("STORE"),
            Self::STOREDIST => Some("STOREDIST"),
            _ => None,
        }
    }

    /// The range of argument positions from the first key to the last. It may extend beyond the request's end.
    #[inline]
    fn positions(self, request: ArgsView<'_>) -> std::ops::Range<usize> {
        match usize::try_from(self.last) {
            Ok(last) => usize::from(self.first)..last + 1,
            Err(_) => self.moving_positions(request),
        }
    }

    #[cold]
    fn moving_positions(self, request: ArgsView<'_>) -> std::ops::Range<usize> {
        match self.last {
            Self::UNKNOWN => 0..0,
            Self::STORED => {
                stored_position(request).map_or(0..0, |position| position..position + 1)
            }
            Self::STORE | Self::STOREDIST => {
                let word = self.keyword().expect("it has one").as_bytes();
                let position = last_store(request, self.first.into());
                let position = position.filter(|at| request.at(at - 1).eq_ignore_ascii_case(word));
                position.map_or(0..0, |position| position..position + 1)
            }
            _ => usize::from(self.first)..self.moving_last_idx(request) + 1,
        }
    }

    /// The index of the last key, if it depends on the request. Not inlined, because most commands do not need it.
    fn moving_last_idx(self, request: ArgsView<'_>) -> usize {
        if self.last != Self::COUNTED {
            return request.len().saturating_sub(usize::from(self.last.unsigned_abs()));
        }
        let first = usize::from(self.first);
        let count = request.get(first - 1).and_then(parse_i64).unwrap_or(0);
        let count = usize::try_from(count).unwrap_or(0).min(request.len());
        // Without keys, the last index is before the first.
        (first + count * usize::from(self.step)).saturating_sub(usize::from(self.step))
    }
}

/// The position of the key that follows the last STORE or STOREDIST, searched for from `first` on.
fn last_store(request: ArgsView<'_>, first: usize) -> Option<usize> {
    let (mut position, mut i) = (None, first);
    while i + 1 < request.len() {
        let word = request.at(i);
        let is_one = [&b"store"[..], b"storedist"].iter().any(|w| word.eq_ignore_ascii_case(w));
        if is_one {
            position = Some(i + 1);
        }
        i += if is_one { 2 } else { 1 };
    }
    position
}

/// The key in which GEORADIUS and GEORADIUSBYMEMBER store their result, if the request names one.
pub(crate) fn stored_key(request: ArgsView<'_>, first: usize) -> Option<&[u8]> {
    last_store(request, first).map(|position| request.at(position))
}

/// The position of SORT's destination key among its arguments.
fn stored_position(request: ArgsView<'_>) -> Option<usize> {
    let (mut position, mut i) = (None, 2);
    while let Some(word) = request.get(i) {
        i += match word.to_ascii_lowercase().as_slice() {
            b"limit" => 3,
            b"by" | b"get" => 2,
            b"store" => {
                position = Some(i + 1);
                2
            }
            _ => 1,
        };
    }
    position.filter(|position| *position < request.len())
}

impl Spec {
    /// First, last and step over all keys, as in the reply of `COMMAND`; zeros if there are no keys, or if an argument
    /// is the number of keys.
    pub fn key_positions(&self) -> (i64, i64, i64) {
        let ranges = self.routing();
        match (ranges.first(), ranges.last()) {
            (Some(first), _) if first.last == KeyRange::COUNTED => (0, 0, 0),
            // As in Redis, keys without fixed positions are left out.
            (Some(first), Some(last))
                if last.last == KeyRange::COUNTED
                    || last.is_unknown()
                    || last.keyword().is_some() =>
            {
                (first.first.into(), first.last.into(), first.step.into())
            }
            (Some(first), Some(last)) => (first.first.into(), last.last.into(), first.step.into()),
            _ => (0, 0, 0),
        }
    }

    /// Whether a command may access keys that the table does not name: one that walks over all keys, a script, SORT,
    /// whose patterns name some, one that begins to observe all keys, or one that reports whether watched keys have
    /// changed.
    pub(crate) fn may_touch_any_key(&self) -> bool {
        let observes = matches!(self.id, CommandId::ClientTracking | CommandId::ClientList);
        self.group == Group::Scripting || observes || self.shows_any_key()
    }

    fn shows_any_key(&self) -> bool {
        matches!(self.id, CommandId::Sort | CommandId::SortRo) || self.uses_whole_store()
    }

    /// Whether a command reads or changes the data of its server without naming keys.
    pub(crate) fn uses_whole_store(&self) -> bool {
        let touches = self.flags.contains(Flags::READONLY) || self.flags.contains(Flags::WRITE);
        match self.id {
            CommandId::LolWut => false,
            // As in Redis, their flags do not say that they read.
            CommandId::ClusterCountKeysInSlot | CommandId::ClusterGetKeysInSlot => true,
            _ => touches && self.routing().is_empty(),
        }
    }

    /// Whether the reply to a request with this many arguments may show keys of the store that the table does not name.
    /// A script is no such command: it says by itself that it has used others than its own.
    pub(crate) fn may_show_any_key(&self, n_args: usize) -> bool {
        self.shows_any_key() || self.may_leave_database(n_args) && !self.keys.is_empty()
    }

    /// The position of the only key of the store that a reply can show; None if there may be others.
    #[inline]
    pub(crate) fn only_key_shown(&self) -> Option<usize> {
        self.sole_key().filter(|_| self.id != CommandId::Move)
    }

    /// Whether a request with this many arguments may access keys of another database than the selected one.
    pub(crate) fn may_leave_database(&self, n_args: usize) -> bool {
        match self.id {
            CommandId::Select | CommandId::Move => true,
            // COPY from to DB n
            CommandId::Copy => n_args > 4,
            _ => false,
        }
    }

    /// The arguments by whose slots a cluster chooses the shard of a request: its keys, or its shard channels.
    #[inline]
    pub fn routing_keys_of<'a>(
        &self,
        request: ArgsView<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        Keys { request, ranges: self.routing(), at: 0, end: 0, step: 0 }
    }

    /// Whether a cluster chooses the shard of a request by something else than a key.
    pub(crate) fn is_routed_by_channel(&self) -> bool {
        !self.routed_by.is_empty()
    }

    #[inline]
    fn routing(&self) -> &'static [KeyRange] {
        if self.keys.is_empty() { self.routed_by } else { self.keys }
    }

    /// The keys of a request of this command, in order.
    #[inline]
    pub fn keys_of<'a>(
        &self,
        request: ArgsView<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        Keys { request, ranges: self.keys, at: 0, end: 0, step: 0 }
    }
}

impl Spec {
    /// The positions of the keys among the arguments of a request, and the use of each key.
    pub fn uses_of(&self, request: ArgsView<'_>) -> impl Iterator<Item = (usize, Access)> {
        self.keys.iter().flat_map(move |range| {
            let positions = range.positions(request);
            let positions = positions.start..positions.end.min(request.len());
            let positions = positions.step_by(usize::from(range.step));
            positions.map(move |position| (position, range.access.in_request(request)))
        })
    }
}

/// Iterator over the keys of one request. Written by hand because every request of a batch runs it: iterator adapters
/// take twice as many instructions.
#[derive(Clone)]
struct Keys<'a> {
    request: ArgsView<'a>,
    /// The ranges after the current one.
    ranges: &'static [KeyRange],
    /// The position of the next key, if it is before `end`, the end of the current range.
    at: usize,
    end: usize,
    step: usize,
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while self.at >= self.end {
            let (range, rest) = self.ranges.split_first()?;
            self.ranges = rest;
            let positions = range.positions(self.request);
            self.at = positions.start;
            self.end = positions.end.min(self.request.len());
            self.step = usize::from(range.step);
        }
        let key = self.request.at(self.at);
        self.at += self.step;
        Some(key)
    }
}
