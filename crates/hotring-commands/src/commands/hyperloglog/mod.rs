//! HyperLogLog commands: PFADD, PFCOUNT, PFMERGE. The value is a string in Redis's format, so that either server can
//! read the other's sketches.

mod estimate;
mod sketch;

use hotring_store::{Session, SetExpiry, SetOptions};

use super::multi::with_keys;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use estimate::estimate;
use sketch::{Corrupt, Registers, Sketch};

impl From<Corrupt> for Failure {
    fn from(Corrupt: Corrupt) -> Self {
        Failure::text("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The sketch of a key; None if the key is missing.
fn sketch(store: &mut Session, key: &[u8], now: u64) -> Result<Option<Sketch>, Failure> {
    let Some(bytes) = store.get_string(key, now, |value| value.to_vec())? else { return Ok(None) };
    let sketch = Sketch::of(bytes);
    sketch.map(Some).ok_or(Failure::text("WRONGTYPE Key is not a valid HyperLogLog string value."))
}

fn put(store: &mut Session, key: &[u8], sketch: &Sketch, now: u64) -> Outcome {
    let options = SetOptions { expiry: SetExpiry::Keep, ..SetOptions::default() };
    store.set(key, sketch.bytes(), options, now)?;
    Ok(())
}

pub(crate) fn pfadd(c: &mut Context<'_>) -> Outcome {
    let sparse_max = c.server.settings.config().hll_sparse_max;
    let (key, elements, now) = (c.args.at(1), c.args.tail(2), c.now);
    let has_changed = c.store.exclusive(&[key], |store| {
        let old = sketch(store, key, now)?;
        let mut has_changed = old.is_none();
        let mut sketch = old.unwrap_or_default();
        for element in elements.iter() {
            // As in Redis, registers that changed before the error stay changed.
            match sketch.add(element, sparse_max) {
                Ok(changed) => has_changed |= changed,
                Err(corrupt) => {
                    if has_changed {
                        put(store, key, &sketch, now)?;
                    }
                    return Err(corrupt.into());
                }
            }
        }
        if has_changed {
            sketch.forget_count();
            put(store, key, &sketch, now)?;
        }
        Ok::<_, Failure>(has_changed)
    })?;
    c.reply.int(has_changed.into());
    Ok(())
}

pub(crate) fn pfcount(c: &mut Context<'_>) -> Outcome {
    let (keys, now, counters) = (c.args.tail(1), c.now, c.counters);
    let count = match keys.len() {
        1 => count_of(c)?,
        _ => with_keys(keys, |keys| {
            c.store.exclusive(keys, |store| {
                let mut registers = Registers::default();
                for key in keys {
                    let sketch = sketch(store, key, now)?;
                    let counter = match sketch {
                        Some(_) => &counters.keyspace_hits,
                        None => &counters.keyspace_misses,
                    };
                    counter.add(1);
                    sketch.map_or(Ok(()), |sketch| registers.merge(&sketch))?;
                }
                Ok::<_, Failure>(estimate(&registers.histogram()))
            })
        })?,
    };
    c.reply.int(count as i64);
    Ok(())
}

/// Counts one sketch, and caches the count in it for the next call.
fn count_of(c: &mut Context<'_>) -> Result<u64, Failure> {
    let (key, now) = (c.args.at(1), c.now);
    let count = c.store.get_string(key, now, |value| value.with_bytes(sketch::kept_count))?;
    match count {
        None => c.miss(),
        Some(_) => c.hit(),
    }
    match count {
        None => return Ok(0),
        Some(Some(count)) => return Ok(count),
        Some(None) => {}
    }
    c.store.exclusive(&[key], |store| {
        let Some(mut sketch) = sketch(store, key, now)? else { return Ok(0) };
        let count = estimate(&sketch.histogram()?);
        // Not while writes of the key wait: mirrors may answer with the sketch as it is.
        if store.may_write_key(key) {
            sketch.keep_count(count);
            // A failure to write only means that the next call counts again.
            let _ = put(store, key, &sketch, now);
        }
        Ok(count)
    })
}

pub(crate) fn pfmerge(c: &mut Context<'_>) -> Outcome {
    let sparse_max = c.server.settings.config().hll_sparse_max;
    let (to, now) = (c.args.at(1), c.now);
    with_keys(c.args.tail(1), |keys| {
        c.store.exclusive(keys, |store| {
            let (mut registers, mut is_dense) = (Registers::default(), false);
            for key in keys {
                if let Some(sketch) = sketch(store, key, now)? {
                    is_dense |= sketch.is_dense();
                    registers.merge(&sketch)?;
                }
            }
            let mut merged = sketch(store, to, now)?.unwrap_or_default();
            if is_dense {
                merged.make_dense()?;
            }
            merged.raise(&registers, sparse_max)?;
            merged.forget_count();
            put(store, to, &merged, now)
        })
    })?;
    c.reply.ok();
    Ok(())
}
