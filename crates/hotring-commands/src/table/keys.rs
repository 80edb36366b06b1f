//! Which arguments of a request are keys.

use super::{CommandId, Flags, Group, Spec};
use hotring_protocol::ArgsView;
use hotring_protocol::parse_i64;

/// A run of arguments that are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Index of the first key; the command's name has index 0.
    pub first: u8,
    /// Index of the last key; -1 is the last argument, [`KeyRange::COUNTED`] as many as the argument
    /// before the first says. With [`KeyRange::STORED`] and [`KeyRange::UNKNOWN`] the request tells the first, too;
    /// with [`KeyRange::STORE`] and [`KeyRange::STOREDIST`] the key is behind that word, which is looked for from the
    /// first on.
    pub last: i8,
    /// From one key to the next.
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
    /// Looks at the keys, not at the values.
    Look,
    /// Reads and changes the values.
    Modify,
    /// As `Modify`, or only one of both, depending on the options.
    Vary,
    /// Reads, and with some subcommands changes the values.
    VaryFields,
    /// Reads and removes.
    Take,
    /// Removes a part of the value without reading it.
    Reduce,
    /// Replaces, whatever the value was.
    Overwrite,
    /// Creates keys, and leaves existing ones.
    Create,
    /// Adds to the value without reading it.
    Extend,
    /// Reads the value and adds to it.
    Merge,
    /// Changes a part or a property without reading.
    Adjust,
    /// Removes, whatever the value was.
    Remove,
    /// Removes, with some options only if the value is a certain one.
    RemoveIf,
    /// Whatever a script does with it.
    Script,
    /// It is a channel's name, not a key.
    Channel,
}

impl Access {
    /// Redis's names for it, as the flags of a key specification.
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

    /// Does it tell something of the values?
    pub fn reads(self) -> bool {
        self.names().contains(&"access")
    }

    /// Does it change the values, or remove them?
    pub fn writes(self) -> bool {
        ["update", "insert", "delete"].iter().any(|what| self.names().contains(what))
    }

    /// The use in this request, where that depends on the options.
    fn in_request(self, request: ArgsView<'_>) -> Self {
        match self {
            Self::Vary if !request.tail(3).iter().any(is_question) => Self::Overwrite,
            Self::Vary => Self::Modify,
            Self::VaryFields if !request.tail(2).iter().any(is_change) => Self::Read,
            Self::VaryFields => Self::Modify,
            // With more than the key it answers whether the value is the given one.
            Self::RemoveIf if request.len() > 2 => Self::Take,
            Self::RemoveIf => Self::Remove,
            other => other,
        }
    }
}

/// Is it an option of SET that makes it tell of the value that was there?
fn is_question(option: &[u8]) -> bool {
    let questions = [&b"get"[..], b"ifeq", b"ifne", b"ifdeq", b"ifdne"];
    questions.iter().any(|question| option.eq_ignore_ascii_case(question))
}

/// Is it a subcommand of BITFIELD that writes?
fn is_change(option: &[u8]) -> bool {
    [&b"set"[..], b"incrby"].iter().any(|change| option.eq_ignore_ascii_case(change))
}

impl KeyRange {
    /// In place of the last key: the argument before the first key is the number of keys.
    pub const COUNTED: i8 = i8::MIN;
    /// The same: the key is behind the last STORE among the options of SORT.
    pub const STORED: i8 = i8::MIN + 1;
    /// The same: the keys are not among the arguments.
    pub const UNKNOWN: i8 = i8::MIN + 2;
    /// The same: behind the word STORE.
    pub const STORE: i8 = i8::MIN + 3;
    /// The same: behind the word STOREDIST.
    pub const STOREDIST: i8 = i8::MIN + 4;

    /// Whether the table does not say where the keys are.
    pub fn is_unknown(self) -> bool {
        matches!(self.last, Self::STORED | Self::UNKNOWN)
    }

    /// The word that the key is behind, if it is behind one.
    pub fn keyword(self) -> Option<&'static str> {
        match self.last {
            Self::STORE => Some("STORE"),
            Self::STOREDIST => Some("STOREDIST"),
            _ => None,
        }
    }

    /// Index of the first key of a request, and the one behind the last key; they may be behind the request's end.
    #[inline]
    fn places(self, request: ArgsView<'_>) -> std::ops::Range<usize> {
        match usize::try_from(self.last) {
            Ok(last) => usize::from(self.first)..last + 1,
            Err(_) => self.moving_places(request),
        }
    }

    #[cold]
    fn moving_places(self, request: ArgsView<'_>) -> std::ops::Range<usize> {
        match self.last {
            Self::UNKNOWN => 0..0,
            Self::STORED => stored_place(request).map_or(0..0, |place| place..place + 1),
            Self::STORE | Self::STOREDIST => {
                let word = self.keyword().expect("it has one").as_bytes();
                let place = last_store(request, self.first.into());
                let place = place.filter(|at| request.at(at - 1).eq_ignore_ascii_case(word));
                place.map_or(0..0, |place| place..place + 1)
            }
            _ => usize::from(self.first)..self.moving_last_idx(request) + 1,
        }
    }

    /// Where that depends on the request: kept out of the code inlined for all commands.
    fn moving_last_idx(self, request: ArgsView<'_>) -> usize {
        if self.last != Self::COUNTED {
            return request.len().saturating_sub(usize::from(self.last.unsigned_abs()));
        }
        let first = usize::from(self.first);
        let count = request.get(first - 1).and_then(parse_i64).unwrap_or(0);
        let count = usize::try_from(count).unwrap_or(0).min(request.len());
        // No keys end before the first.
        (first + count * usize::from(self.step)).saturating_sub(usize::from(self.step))
    }
}

/// Where the key is behind the last STORE or STOREDIST, which are looked for from `first` on.
fn last_store(request: ArgsView<'_>, first: usize) -> Option<usize> {
    let (mut place, mut i) = (None, first);
    while i + 1 < request.len() {
        let word = request.at(i);
        let is_one = [&b"store"[..], b"storedist"].iter().any(|w| word.eq_ignore_ascii_case(w));
        if is_one {
            place = Some(i + 1);
        }
        i += if is_one { 2 } else { 1 };
    }
    place
}

/// The key in which GEORADIUS and GEORADIUSBYMEMBER store their result, if asked to.
pub(crate) fn stored_key(request: ArgsView<'_>, first: usize) -> Option<&[u8]> {
    last_store(request, first).map(|place| request.at(place))
}

/// Where SORT's destination is among its arguments.
fn stored_place(request: ArgsView<'_>) -> Option<usize> {
    let (mut place, mut i) = (None, 2);
    while let Some(word) = request.get(i) {
        i += match word.to_ascii_lowercase().as_slice() {
            b"limit" => 3,
            b"by" | b"get" => 2,
            b"store" => {
                place = Some(i + 1);
                2
            }
            _ => 1,
        };
    }
    place.filter(|place| *place < request.len())
}

impl Spec {
    /// First, last and step over all keys, as `COMMAND` gives them; zeros without keys,
    /// or where the request says how many there are.
    pub fn key_positions(&self) -> (i64, i64, i64) {
        let ranges = if self.keys.is_empty() { self.routed_by } else { self.keys };
        match (ranges.first(), ranges.last()) {
            (Some(first), _) if first.last == KeyRange::COUNTED => (0, 0, 0),
            // As in Redis, those that the table has no places for are left out.
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
        let touches = self.flags.contains(Flags::READONLY) || self.flags.contains(Flags::WRITE);
        let observes = matches!(self.id, CommandId::ClientTracking | CommandId::ClientList);
        let has_patterns = matches!(self.id, CommandId::Sort | CommandId::SortRo);
        self.group == Group::Scripting
            || observes
            || has_patterns
            || self.keys.is_empty() && touches
    }

    /// Whether a request of this many arguments may access keys of another database than the one that was selected
    /// before it.
    pub(crate) fn may_leave_database(&self, n_args: usize) -> bool {
        match self.id {
            CommandId::Select | CommandId::Move => true,
            // COPY from to DB n
            CommandId::Copy => n_args > 4,
            _ => false,
        }
    }

    /// The keys of a request of this command, in order; used to prefetch them.
    #[inline]
    pub fn keys_of<'a>(&self, request: ArgsView<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        Keys { request, ranges: self.keys, at: 0, end: 0, step: 0 }
    }
}

impl Spec {
    /// Where the keys of a request are among its arguments, and the use of each.
    pub fn uses_of(&self, request: ArgsView<'_>) -> impl Iterator<Item = (usize, Access)> {
        self.keys.iter().flat_map(move |range| {
            let places = range.places(request);
            let places = places.start..places.end.min(request.len());
            let places = places.step_by(usize::from(range.step));
            places.map(move |place| (place, range.access.in_request(request)))
        })
    }
}

/// The keys of one request. Written out, because every request of a batch passes here: adapters of
/// iterators take twice as many instructions.
struct Keys<'a> {
    request: ArgsView<'a>,
    /// The arguments behind the present range.
    ranges: &'static [KeyRange],
    /// The next key, if it is before the end of the present range.
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
            let places = range.places(self.request);
            self.at = places.start;
            self.end = places.end.min(self.request.len());
            self.step = usize::from(range.step);
        }
        let key = self.request.at(self.at);
        self.at += self.step;
        Some(key)
    }
}
