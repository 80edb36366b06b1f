//! Short operations of the index for callgrind to count, for `cargo xtask instructions`.

#[path = "counting/mod.rs"]
mod counting;

use std::hint::black_box;

use hotring_engines::{Chaining, GCuckoo, Mercury};
use hotring_index::{
    Bytes, Config, ConfigError, Engine, Expiry, Growth, Index, Key, NewValue, Ring, Session,
    Strategy, U64, Value,
};

/// Operations of one case; a multiple of `BATCH`.
const OPS: u64 = 2048;
/// Keys of one batch.
const BATCH: usize = 64;
/// Keys of a table.
const KEYS: u64 = 4096;
/// Keys a slot where hits are to lie behind its head.
const CROWD: u64 = 32;
/// Bytes of a value that is replaced as a whole.
const VALUE_BYTES: usize = 100;
/// Nothing expires here.
const NOW: u64 = 1;

fn main() -> Result<(), ConfigError> {
    engine::<Ring<7>>("hotring", Config::default())?;
    let sampling = Config { strategy: Strategy::Sampling, ..Config::default() };
    engine::<Ring<1>>("hotring-s", sampling)?;
    engine::<Chaining>("chaining", Config::default())?;
    engine::<Mercury>("mercury", Config::default())?;
    engine::<GCuckoo<4>>("gcuckoo", Config::default())
}

/// Runs a case.
fn case(engine: &str, operation: &str, work: impl FnMut()) {
    counting::case(engine, operation, OPS, work);
}

/// All cases of one engine.
fn engine<E: Engine>(name: &str, config: Config) -> Result<(), ConfigError> {
    let roomy = Index::<U64, E>::new(config.clone())?;
    let session = &mut loaded(&roomy, KEYS);
    let keys: Vec<u64> = (0..OPS).map(|turn| turn.wrapping_mul(37) % KEYS).collect();
    let hot = keys[1];
    // Hot enough for any strategy to have noticed.
    (0..OPS).for_each(|_| see(session.get(hot)));
    case(name, "get at the head", || (0..OPS).for_each(|_| see(session.get(black_box(hot)))));
    case(name, "get of keys in turn", || keys.iter().for_each(|&key| see(session.get(key))));
    case(name, "get under a guard", || {
        let mut guard = session.guard();
        keys.iter().for_each(|&key| see(guard.get(key)));
    });
    let absent = KEYS << 32;
    // Often enough for lines to have become complete, where there are such.
    (0..8).for_each(|_| keys.iter().for_each(|&key| see(session.get(absent + key))));
    case(name, "miss", || keys.iter().for_each(|&key| see(session.get(absent + key))));
    let mut values = [None; BATCH];
    case(name, "batched get", || {
        for batch in keys.chunks(BATCH) {
            session.get_many(batch, &mut values);
            black_box(&values);
        }
    });
    case(name, "put in place", || {
        keys.iter().for_each(|&key| {
            black_box(session.put(key, key));
        });
    });
    case(name, "insert", || {
        keys.iter().enumerate().for_each(|(turn, &key)| {
            black_box(session.insert(KEYS + turn as u64, key));
        });
    });
    crowded::<E>(name, config.clone())?;
    ahead::<E>(name, config.clone())?;
    copied::<E>(name, config)
}

/// Keys of bytes that are asked for ahead, as a server does it with a pipeline.
fn ahead<E: Engine>(name: &str, config: Config) -> Result<(), ConfigError> {
    let index = Index::<Bytes, E>::new(config)?;
    let session = &mut index.session();
    let names: Vec<String> = (0..KEYS).map(|number| format!("key:{number:012}")).collect();
    for name in &names {
        session.put(name, NewValue::Word { kind: 0, word: 1 }, Expiry::Never, NOW);
    }
    let turns: Vec<&String> = (0..OPS).map(|turn| &names[(turn * 37 % KEYS) as usize]).collect();
    case(name, "get asked for ahead", || {
        for batch in turns.chunks(BATCH) {
            let mut keys: [Key; BATCH] = std::array::from_fn(|i| batch[i].into());
            session.prefetch(&mut keys);
            for key in keys {
                black_box(session.get(key, NOW, |entry| matches!(entry.value, Value::Word { .. })));
            }
        }
    });
    Ok(())
}

/// Hits that lie behind others of their slot, where an engine has slots that can be crowded.
fn crowded<E: Engine>(name: &str, config: Config) -> Result<(), ConfigError> {
    // G-Cuckoo's table has no chains.
    if E::NAME == "gcuckoo" {
        return Ok(());
    }
    let slots_initial = (KEYS / CROWD) as usize;
    let config = Config { growth: Some(Growth::Fixed), slots_initial, ..config };
    let index = Index::<U64, E>::new(config)?;
    let session = &mut loaded(&index, KEYS);
    case(name, "get behind the head", || {
        (0..OPS).for_each(|turn| see(session.get(turn.wrapping_mul(37) % KEYS)));
    });
    Ok(())
}

/// Writes that put a copy in the place of an item.
fn copied<E: Engine>(name: &str, config: Config) -> Result<(), ConfigError> {
    let index = Index::<Bytes, E>::new(config)?;
    let session = &mut index.session();
    let put = |session: &mut Session<Bytes, E>, number: u64| {
        let bytes = [number as u8; VALUE_BYTES];
        let value = NewValue::Bytes { kind: 0, bytes: (&bytes).into() };
        session.put(&(number % KEYS).to_le_bytes(), value, Expiry::Never, NOW);
    };
    (0..KEYS).for_each(|number| put(session, number));
    case(name, "put of a copy", || (0..OPS).for_each(|number| put(session, number)));
    Ok(())
}

fn loaded<E: Engine>(index: &Index<U64, E>, keys: u64) -> Session<U64, E> {
    let mut session = index.session();
    (0..keys).for_each(|key| assert!(session.insert(key, key), "{key} was there"));
    session
}

fn see(value: Option<u64>) {
    black_box(value);
}
