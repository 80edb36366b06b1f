//! Produces the contents of a snapshot: one effect for each key that stores its present value, read in steps while
//! writers continue. It also determines the range of the log that completes the snapshot. `hotring-log` writes the
//! files.
//!
//! Keys are read at different moments of the walk, so a snapshot is not the state of one moment. The log compensates
//! for that. A write whose record is at or before [`Session::log_position`], taken before the walk, was applied by
//! then, so the walk sees it; the records of later writes are in the log after that position. And everything that the
//! walk has seen is in the log up to [`Session::log_end`], taken after the walk.
//!
//! Expired keys are included: a writer whose clock is behind may be about to extend the expiry of such a key, and the
//! record of that change has no value.

use std::cell::Cell;
use std::fmt;
use std::io;

use hotring_index::{Damaged, Entry};
use hotring_log::{ALL, Effect, HOTTEST, Lsn, SnapshotWriter};

use crate::container::large::LongValue;
use crate::gate::Hold;
use crate::holds::Keys;
use crate::logged::with_form;
use crate::session::Session;

/// A time at which nothing has expired.
const NO_TIME: u64 = 0;

/// Target size of a step in bytes, and its maximum number of items.
const STEP_LEN: usize = 256 << 10;
const STEP_ITEMS: usize = 256;

/// Takes what a walk reads.
pub trait WalkSink {
    /// Adds an item, in memory.
    fn push(&mut self, effect: &Effect<'_>);
    /// Whether the items in memory are enough for a block.
    fn is_full(&self) -> bool;
    /// Passes the items in memory on as a block, if there are any.
    fn write_block(&mut self) -> io::Result<()>;
    /// Starts a block of this class.
    fn set_class(&mut self, class: u8) -> io::Result<()>;
    /// Starts a block of this database.
    fn set_database(&mut self, number: u8) -> io::Result<()>;
}

impl WalkSink for SnapshotWriter {
    fn push(&mut self, effect: &Effect<'_>) {
        self.push(effect);
    }

    fn is_full(&self) -> bool {
        self.is_full()
    }

    fn write_block(&mut self) -> io::Result<()> {
        self.write_block()
    }

    fn set_class(&mut self, class: u8) -> io::Result<()> {
        self.set_class(class)
    }

    fn set_database(&mut self, number: u8) -> io::Result<()> {
        self.set_database(number)
    }
}

/// Says which keys a walk takes.
type Wanted = Box<dyn Fn(&[u8]) -> bool + Send>;

/// The progress of a snapshot through the store.
pub struct SnapshotWalk {
    /// None if it takes all keys.
    wanted: Option<Wanted>,
    hottest: std::vec::IntoIter<Box<[u8]>>,
    /// IDs of the remaining databases; None before the first step.
    databases: Option<std::vec::IntoIter<u8>>,
    database_id: u8,
    stage: Stage,
    /// Number of items of the next step.
    count: usize,
    met: u64,
    looked_at: u64,
}

enum Stage {
    /// Pins after this key.
    Pins(Option<Box<[u8]>>),
    Hottest,
    /// All items, from this cursor on.
    All(u64),
    Done,
}

/// Why a snapshot was not written.
#[derive(Debug)]
pub enum SnapshotFailed {
    /// Writing the file failed.
    Io(io::Error),
    /// An item is damaged in memory, and the snapshot would lack it.
    Damaged(Damaged),
}

impl fmt::Display for SnapshotFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotFailed::Io(error) => error.fmt(f),
            SnapshotFailed::Damaged(damaged) => {
                let key = damaged.key.as_deref().unwrap_or(b"?");
                write!(f, "an item is damaged in memory, of the key {}", key.escape_ascii())
            }
        }
    }
}

impl std::error::Error for SnapshotFailed {}

impl From<io::Error> for SnapshotFailed {
    fn from(error: io::Error) -> SnapshotFailed {
        SnapshotFailed::Io(error)
    }
}

impl SnapshotWalk {
    /// Begins with the pins and these keys, and continues with all keys, including these.
    pub fn new(hottest: Vec<Box<[u8]>>) -> SnapshotWalk {
        let hottest = hottest.into_iter();
        SnapshotWalk {
            wanted: None,
            hottest,
            databases: None,
            database_id: 0,
            stage: Stage::Pins(None),
            count: 1,
            met: 0,
            looked_at: 0,
        }
    }

    /// Like [`new`](Self::new), of some keys only: nothing of the others is read but their names.
    pub fn of_some(
        mut hottest: Vec<Box<[u8]>>,
        is_wanted: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> SnapshotWalk {
        hottest.retain(|key| is_wanted(key));
        SnapshotWalk { wanted: Some(Box::new(is_wanted)), ..SnapshotWalk::new(hottest) }
    }

    /// Number of items that the walk over all keys has taken.
    pub fn met(&self) -> u64 {
        self.met
    }

    /// Number of items that it has looked at, taken or not.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Reads the next part of the store. False once everything has been read. The file is written between two reads,
    /// when no session waits for this one.
    pub fn step(
        &mut self,
        session: &mut Session,
        writer: &mut impl WalkSink,
    ) -> Result<bool, SnapshotFailed> {
        if self.databases.is_none() {
            let order = session.databases.order();
            if order.iter().zip(0..=u8::MAX).any(|(database_id, number)| *database_id != number) {
                writer.push(&Effect::Order { order: &order });
            }
            self.first_database(session);
        }
        let home = session.database_id();
        session.go_to(self.database_id);
        let stepped = self.step_here(session, writer);
        session.go_to(home);
        stepped
    }

    /// Goes to the first database, the only one with a list of its hottest keys.
    fn first_database(&mut self, session: &Session) {
        self.databases = Some(session.database_ids().into_iter());
        self.next_database();
    }

    /// Goes to the next database; false if there is none.
    fn next_database(&mut self) -> bool {
        let next = self.databases.as_mut().and_then(Iterator::next);
        self.database_id = next.unwrap_or(self.database_id);
        next.is_some()
    }

    fn step_here(
        &mut self,
        session: &mut Session,
        writer: &mut impl WalkSink,
    ) -> Result<bool, SnapshotFailed> {
        let mut longs = Vec::new();
        let wanted = &self.wanted;
        let is_wanted = |key: &[u8]| wanted.as_ref().is_none_or(|is_wanted| is_wanted(key));
        writer.set_database(self.database_id)?;
        match &mut self.stage {
            Stage::Pins(after) => {
                writer.set_class(HOTTEST)?;
                let last = session.pins_from(after.as_deref(), STEP_ITEMS, |pin| {
                    if pin.key().is_none_or(is_wanted) {
                        writer.push(pin);
                    }
                });
                self.stage = match last {
                    Some(last) => Stage::Pins(Some(last)),
                    // The pins of all databases come first, because the class of blocks must only rise.
                    None if self.next_database() => Stage::Pins(None),
                    None => Stage::Hottest,
                };
                if let Stage::Hottest = self.stage {
                    self.first_database(session);
                }
            }
            Stage::Hottest => match self.hottest.next() {
                Some(key) => session.value_of(&key, &mut longs, |put| writer.push(put))?,
                None => {
                    writer.set_class(ALL)?;
                    self.stage = Stage::All(0);
                }
            },
            Stage::All(cursor) => {
                let (mut bytes, mut items, looked_at) = (0, 0, Cell::new(0));
                let range = (*cursor, self.count);
                let looks_at = |key: &[u8]| {
                    looked_at.update(|count| count + 1);
                    is_wanted(key)
                };
                let next = session.values_from(range, looks_at, &mut longs, |put| {
                    if let Effect::Put { key, value, .. } = put {
                        bytes += key.len() + value.len();
                    }
                    items += 1;
                    writer.push(put);
                })?;
                items += longs.len();
                bytes += longs.iter().map(Long::len).sum::<usize>();
                self.met += items as u64;
                self.looked_at += looked_at.get();
                // The following items are likely to have similar lengths.
                let fit = STEP_LEN * items / bytes.max(1);
                let more = (2 * self.count).min(STEP_ITEMS);
                self.count = if items == 0 { more } else { fit.clamp(1, more) };
                self.stage = if next == 0 { Stage::Done } else { Stage::All(next) };
            }
            Stage::Done => {
                self.stage = Stage::All(0);
                return Ok(self.next_database());
            }
        }
        for long in longs {
            // A step may have many long values, each as long as memory allows.
            if writer.is_full() {
                writer.write_block()?;
            }
            long.put(|put| writer.push(put));
        }
        if writer.is_full() {
            writer.write_block()?;
        }
        Ok(true)
    }
}

impl Session {
    /// Whether writes are logged.
    pub fn is_logged(&self) -> bool {
        self.logged.is_on()
    }

    /// The position of the last record up to which all writes have been applied. None if there is no log.
    pub fn log_position(&self) -> Option<Lsn> {
        let handed = self.logged.log()?.handed();
        // A replica's records are in its log before they are applied.
        let is_replica = self.logged.modes.get().is_replica();
        Some(if is_replica { self.logged.modes.applied() } else { handed })
    }

    /// The log position at a moment when no write is between its change and its record: everything read before is in
    /// the log up to it. All writers wait until those within the gate have left it. None if writes are not logged.
    pub fn log_end(&mut self) -> Option<Lsn> {
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            // Changes made while logging was off have no records.
            session.is_logged().then(|| Some(session.logged.log()?.handed())).flatten()
        })
    }

    /// Passes the values of those among about `count` keys from `cursor` on that are wanted to `f`, long values to
    /// `longs`. Returns the next cursor, 0 at the end; begin with 0. Visits every key that exists from the first step
    /// to the last. Does not count as an access.
    ///
    /// # Errors
    /// An item is damaged; it was left out.
    fn values_from(
        &mut self,
        (cursor, count): (u64, usize),
        is_wanted: impl Fn(&[u8]) -> bool,
        longs: &mut Vec<Long>,
        mut f: impl FnMut(&Effect<'_>),
    ) -> Result<u64, SnapshotFailed> {
        let next = self.scan_index(cursor, count, NO_TIME, |entry| {
            if is_wanted(entry.key) {
                hand_out(&entry, longs, &mut f);
            }
        });
        match self.take_damage() {
            Some(damaged) => Err(SnapshotFailed::Damaged(damaged)),
            None => Ok(next),
        }
    }

    /// Passes the value of one key on, if it exists.
    pub(crate) fn value_of(
        &mut self,
        key: &[u8],
        longs: &mut Vec<Long>,
        mut f: impl FnMut(&Effect<'_>),
    ) -> Result<(), SnapshotFailed> {
        self.peek(key, NO_TIME, |entry| hand_out(&entry, longs, &mut f));
        self.take_damage().map_or(Ok(()), |damaged| Err(SnapshotFailed::Damaged(damaged)))
    }

    /// Passes up to `count` pins after the key `after` on. Returns the last of them.
    fn pins_from(
        &mut self,
        after: Option<&[u8]>,
        count: usize,
        mut f: impl FnMut(&Effect<'_>),
    ) -> Option<Box<[u8]>> {
        let keys = self.pinned_keys(after, count);
        keys.iter().for_each(|key| f(&Effect::Pin { key }));
        keys.into_iter().last()
    }
}

/// A long value, shared with the store, that is encoded later, when no session waits for this one.
pub(crate) struct Long {
    key: Box<[u8]>,
    form: u8,
    expire_at: Option<u64>,
    value: LongValue,
}

impl Long {
    fn len(&self) -> usize {
        match &self.value {
            LongValue::Block(block) => block.len(),
            LongValue::Container(contents) => contents.parts.len_of_all(),
        }
    }

    /// Passes the value to `f`.
    pub(crate) fn put(&self, f: impl FnOnce(&Effect<'_>)) {
        let Long { key, form, expire_at, value } = self;
        let bytes;
        let value = match value {
            LongValue::Block(block) => &block[..],
            LongValue::Container(contents) => {
                bytes = contents.to_packed();
                &bytes
            }
        };
        f(&Effect::Put { key, form: *form, expire_at: *expire_at, value });
    }
}

/// Passes one entry on. This runs within the gate, so a long value is only noted in `longs`: copying it would take too
/// long.
fn hand_out(entry: &Entry<'_>, longs: &mut Vec<Long>, f: &mut impl FnMut(&Effect<'_>)) {
    let Entry { key, expire_at, .. } = *entry;
    with_form(entry.value, |form, value| match entry.block() {
        Some(block) => {
            longs.push(Long { key: key.into(), form, expire_at, value: LongValue::of(block) });
        }
        None => f(&Effect::Put { key, form, expire_at, value }),
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hotring_log::storage::memory::{Memory, Step};

    use super::*;
    use crate::{Options, SetOptions, Store};

    /// A command on several keys waits for all sessions within the gate, and copying 500 MB takes half a
    /// second. A step meets many keys, but a block in memory must not contain more than one value that
    /// fills it.
    #[test]
    fn long_values_are_copied_outside_the_gate_and_one_by_one() {
        let store = Store::new(Options::default()).expect("it fits");
        let mut session = store.session();
        let long = vec![7; 1 << 20];
        for key in [b"long", b"more"] {
            session.set(key, &long, SetOptions::default(), 1).expect("room");
        }
        session.set(b"short", b"1", SetOptions::default(), 1).expect("room");
        let (mut longs, mut shorts) = (Vec::new(), 0);
        let mut within = |put: &Effect<'_>| {
            let Effect::Put { value, .. } = put else { panic!("{put:?}") };
            assert!(value.len() < long.len());
            shorts += 1;
        };
        session.value_of(b"long", &mut longs, &mut within).expect("it is whole");
        let next = session
            .values_from((0, 100), |_| true, &mut longs, &mut within)
            .expect("they are whole");
        assert_eq!((next, longs.len(), shorts), (0, 3, 1));
        assert!(
            longs
                .iter()
                .all(|met| matches!(&met.value, LongValue::Block(block) if **block == long[..]))
        );
        let memory = Memory::new();
        let mut writer =
            SnapshotWriter::create(Arc::new(memory.clone()), [1; 16], 0).expect("room");
        let writes = Arc::new(AtomicUsize::new(0));
        let counts = writes.clone();
        memory.before_each(move |_, step| {
            // ORDERING: Relaxed, read by the same thread.
            counts.fetch_add(usize::from(step == Step::Write), Ordering::Relaxed);
        });
        let mut walk = SnapshotWalk::new(Vec::new());
        walk.count = 100;
        while walk.step(&mut session, &mut writer).expect("room") {}
        // ORDERING: Relaxed, as above.
        assert_eq!(writes.load(Ordering::Relaxed), 2, "a block each");
    }
}
