//! The interface through which the torture works on its subject: the index with words, or the store with byte strings.

use anyhow::Result;
use hotring_engines::EngineChoice;
use hotring_index::{Config, Engine, Index, U64};
use hotring_store::{Options, SetCondition, SetOptions, Store, ValueRef};

use super::ledger::Stamp;
use super::worker::Flaw;
use crate::workload::mix::mix;

/// A map that several threads share.
pub trait Subject: Send + Sync + Sized {
    /// One thread's access.
    type Session: Session;

    /// An empty subject with the smallest table, so that it has to grow.
    fn fresh(engine: EngineChoice, seed: u64) -> Result<Self>;
    /// Opens a session.
    fn session(&self) -> Self::Session;
    /// The contents of the subject.
    fn usage(&self) -> Usage;
}

/// The contents of a subject.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// The number of keys.
    pub items: u64,
    /// Bytes of present keys, and of removed ones that wait for readers.
    pub bytes: u64,
    /// Bytes of removed keys that wait for readers.
    pub limbo_bytes: u64,
    /// Slots of the table.
    pub slots: u64,
}

impl From<hotring_index::Stats> for Usage {
    fn from(stats: hotring_index::Stats) -> Self {
        let hotring_index::Stats { items, bytes, limbo_bytes, slots, .. } = stats;
        Usage { items, bytes, limbo_bytes, slots }
    }
}

/// One thread's access. A value that is no stamp is a flaw.
pub trait Session {
    /// Reads a key.
    fn get(&mut self, key: u64) -> Result<Option<Stamp>, Flaw>;
    /// Reads several keys together.
    fn get_many(&mut self, keys: &[u64]) -> Result<Vec<Option<Stamp>>, Flaw>;
    /// Sets a key. Returns true if the key was present.
    fn put(&mut self, stamp: Stamp) -> Result<bool, Flaw>;
    /// Sets a key if it is absent. Returns true if it was.
    fn insert(&mut self, stamp: Stamp) -> Result<bool, Flaw>;
    /// Sets a key if it has the value of `old`. Returns true if it had.
    fn replace(&mut self, old: Stamp, new: Stamp) -> Result<bool, Flaw>;
    /// Removes a key. Returns true if the key was present.
    fn remove(&mut self, key: u64) -> bool;
    /// Removes a key and returns its value.
    fn take(&mut self, key: u64) -> Result<Option<Stamp>, Flaw>;
    /// Adds 1 to a counter, which starts at 0, and returns the new value.
    fn count(&mut self, key: u64) -> Result<u64, Flaw>;
    /// Reads a counter.
    fn counted(&mut self, key: u64) -> Result<Option<u64>, Flaw>;
    /// Visits every key with its value, `None` for a value that is no stamp.
    fn scan(&mut self, visit: impl FnMut(u64, Option<Stamp>));
}

/// Keys that a scan requests at a time.
const SCANNED_TOGETHER: usize = 500;

impl<E: Engine> Subject for Index<U64, E> {
    type Session = hotring_index::Session<U64, E>;

    fn fresh(_engine: EngineChoice, seed: u64) -> Result<Self> {
        let seed = [mix(seed), mix(!seed)];
        Ok(Self::new(Config { seed, slots_initial: 1, ..Config::default() })?)
    }

    fn session(&self) -> Self::Session {
        Index::session(self)
    }

    fn usage(&self) -> Usage {
        self.stats().into()
    }
}

impl<E: Engine> Session for hotring_index::Session<U64, E> {
    fn get(&mut self, key: u64) -> Result<Option<Stamp>, Flaw> {
        Ok(Self::get(self, key).map(Stamp::of))
    }

    fn get_many(&mut self, keys: &[u64]) -> Result<Vec<Option<Stamp>>, Flaw> {
        let mut words = vec![None; keys.len()];
        Self::get_many(self, keys, &mut words);
        Ok(words.into_iter().map(|word| word.map(Stamp::of)).collect())
    }

    fn put(&mut self, stamp: Stamp) -> Result<bool, Flaw> {
        Ok(Self::put(self, stamp.key, stamp.word()))
    }

    fn insert(&mut self, stamp: Stamp) -> Result<bool, Flaw> {
        Ok(Self::insert(self, stamp.key, stamp.word()))
    }

    fn replace(&mut self, old: Stamp, new: Stamp) -> Result<bool, Flaw> {
        Ok(self.compare_exchange(old.key, old.word(), new.word()).is_ok())
    }

    fn remove(&mut self, key: u64) -> bool {
        Self::remove(self, key)
    }

    fn take(&mut self, key: u64) -> Result<Option<Stamp>, Flaw> {
        Ok(Self::take(self, key).map(Stamp::of))
    }

    fn count(&mut self, key: u64) -> Result<u64, Flaw> {
        loop {
            if let Some(value) = self.fetch_add(key, 1) {
                return Ok(value);
            }
            Self::insert(self, key, 0);
        }
    }

    fn counted(&mut self, key: u64) -> Result<Option<u64>, Flaw> {
        Ok(Self::get(self, key))
    }

    fn scan(&mut self, mut visit: impl FnMut(u64, Option<Stamp>)) {
        let mut cursor = 0;
        loop {
            let each = |key, word| visit(key, Some(Stamp::of(word)));
            cursor = Self::scan(self, cursor, SCANNED_TOGETHER, each);
            if cursor == 0 {
                return;
            }
        }
    }
}

/// The store as a subject, with keys and values of many lengths.
pub struct Bytes(Store);

/// A session of the store, with buffers for a key and a value.
pub struct BytesSession {
    session: hotring_store::Session,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The current time of all operations. Nothing expires here.
const NOW: u64 = 1;

impl Subject for Bytes {
    type Session = BytesSession;

    fn fresh(engine: EngineChoice, seed: u64) -> Result<Self> {
        let index = Config { slots_initial: 1, ..Config::default() };
        let seed = [mix(seed), mix(!seed)];
        let options = Options { seed, index, ..Options::default() };
        Ok(Bytes(Store::open_with(options, move |config| engine.open(config))?))
    }

    fn session(&self) -> BytesSession {
        BytesSession { session: self.0.session(), key: Vec::new(), value: Vec::new() }
    }

    fn usage(&self) -> Usage {
        self.0.stats().index.into()
    }
}

impl BytesSession {
    fn set(&mut self, stamp: Stamp, options: SetOptions<'_>) -> Result<bool, Flaw> {
        write_key(stamp.key, &mut self.key);
        write_value(stamp, &mut self.value);
        let outcome = self.session.set(&self.key, &self.value, options, NOW);
        outcome.map(|outcome| outcome.stored).map_err(|error| Flaw(format!("set: {error}")))
    }
}

impl Session for BytesSession {
    fn get(&mut self, key: u64) -> Result<Option<Stamp>, Flaw> {
        write_key(key, &mut self.key);
        self.session.get(&self.key, NOW, |value| value.with_bytes(read_value)).transpose()
    }

    fn get_many(&mut self, keys: &[u64]) -> Result<Vec<Option<Stamp>>, Flaw> {
        let texts = keys.iter().map(|&key| {
            let mut text = Vec::new();
            write_key(key, &mut text);
            text
        });
        let texts: Vec<Vec<u8>> = texts.collect();
        let borrowed: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let mut stamps = Vec::new();
        self.session.mget(&borrowed, NOW, |_, value| {
            stamps.push(value.map(|value| value.with_bytes(read_value)).transpose());
        });
        stamps.into_iter().collect()
    }

    fn put(&mut self, stamp: Stamp) -> Result<bool, Flaw> {
        // SET reports whether a value was replaced only with GET, which then returns it.
        let old = self.set_returning(stamp)?;
        Ok(old.is_some())
    }

    fn insert(&mut self, stamp: Stamp) -> Result<bool, Flaw> {
        self.set(stamp, SetOptions::if_absent())
    }

    fn replace(&mut self, old: Stamp, new: Stamp) -> Result<bool, Flaw> {
        let mut expected = Vec::new();
        write_value(old, &mut expected);
        let condition = SetCondition::IfEqual(&expected);
        self.set(new, SetOptions { condition, ..SetOptions::default() })
    }

    fn remove(&mut self, key: u64) -> bool {
        write_key(key, &mut self.key);
        self.session.remove(&self.key, NOW)
    }

    fn take(&mut self, key: u64) -> Result<Option<Stamp>, Flaw> {
        write_key(key, &mut self.key);
        let value = self.session.get_del(&self.key, NOW);
        let value = value.map_err(|error| Flaw(format!("get_del: {error}")))?;
        value.map(|value| read_value(&value)).transpose()
    }

    fn count(&mut self, key: u64) -> Result<u64, Flaw> {
        write_key(key, &mut self.key);
        let value = self.session.incr_by(&self.key, 1, NOW);
        value.map(i64::cast_unsigned).map_err(|error| Flaw(format!("incr_by: {error}")))
    }

    fn counted(&mut self, key: u64) -> Result<Option<u64>, Flaw> {
        write_key(key, &mut self.key);
        let number = |value: ValueRef<'_>| match value {
            ValueRef::Int(number) => Ok(number.cast_unsigned()),
            other => Err(Flaw(format!("counter {key} holds {other:?}"))),
        };
        self.session.get(&self.key, NOW, number).transpose()
    }

    fn scan(&mut self, mut visit: impl FnMut(u64, Option<Stamp>)) {
        let mut cursor = 0;
        loop {
            cursor = self.session.scan(cursor, SCANNED_TOGETHER, NOW, |key, value| {
                visit(read_key(key), value.with_bytes(read_value).ok());
            });
            if cursor == 0 {
                return;
            }
        }
    }
}

impl BytesSession {
    fn set_returning(&mut self, stamp: Stamp) -> Result<Option<Stamp>, Flaw> {
        write_key(stamp.key, &mut self.key);
        write_value(stamp, &mut self.value);
        let old = self.session.get_set(&self.key, &self.value, NOW);
        let old = old.map_err(|error| Flaw(format!("get_set: {error}")))?;
        old.map(|old| read_value(&old)).transpose()
    }
}

/// Writes a key as decimal text, every fourth one with a long tail.
fn write_key(key: u64, text: &mut Vec<u8>) {
    text.clear();
    text.extend_from_slice(format!("{key:07}").as_bytes());
    if key.is_multiple_of(4) {
        text.resize(80, b'.');
    }
}

fn read_key(text: &[u8]) -> u64 {
    let digits = text.get(..7).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX)
}

/// Writes a value: the stamp's word, followed by bytes whose number and content follow from the stamp, so that
/// any mix of two writes is detected. Some values are so short that the store packs them into a word.
fn write_value(stamp: Stamp, value: &mut Vec<u8>) {
    let word = stamp.word();
    let tail = mix(word);
    value.clear();
    value.extend_from_slice(&word.to_le_bytes());
    if tail & 3 != 0 {
        let bytes = (0..tail % 250).map(|at| (tail >> (at % 8 * 8)) as u8 ^ at as u8);
        value.extend(bytes);
    }
}

fn read_value(value: &[u8]) -> Result<Stamp, Flaw> {
    let torn = || Flaw(format!("a value that no thread wrote: {value:?}"));
    let head = value.first_chunk::<8>().ok_or_else(torn)?;
    let stamp = Stamp::of(u64::from_le_bytes(*head));
    let mut whole = Vec::new();
    write_value(stamp, &mut whole);
    if whole == value { Ok(stamp) } else { Err(torn()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_value_is_noticed() {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for sequence in 0..200 {
            let stamp = Stamp { key: 77, writer: 3, sequence };
            write_value(stamp, &mut one);
            assert_eq!(read_value(&one).unwrap(), stamp);
            write_value(Stamp { sequence: sequence + 1, ..stamp }, &mut other);
            for cut in 1..one.len().min(other.len()) {
                let mixed = [&one[..cut], &other[cut..]].concat();
                assert!(mixed == one || mixed == other || read_value(&mixed).is_err(), "{mixed:?}");
            }
        }
    }

    #[test]
    fn keys_read_back() {
        for key in [0, 3, 4, 1 << 22] {
            let mut text = Vec::new();
            write_key(key, &mut text);
            assert_eq!(read_key(&text), key);
        }
    }
}
