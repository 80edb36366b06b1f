//! CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT: the keys of a slot.
//!
//! The store has no list of a slot's keys, so both walk over all of them, in steps between which the thread serves
//! other connections.

use hotring_cluster::{Slot, slot_of};
use hotring_protocol::parse_i64;

use super::{cluster, slot};
use crate::host::fiber;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Keys of one step.
pub(super) const STEP_KEYS: u32 = 64;

pub(crate) fn countkeysinslot(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    let slot = parsed(c)?;
    let slot = slot.ok_or(Failure::text("ERR Invalid slot"))?;
    let mut count = 0;
    walk(slot, c, |_| {
        count += 1;
        true
    });
    c.reply.count(count);
    Ok(())
}

pub(crate) fn getkeysinslot(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    let slot = parsed(c)?;
    let max = parse_i64(c.args.at(3)).ok_or(Failure::NotAnInteger)?;
    let (Some(slot), Ok(max)) = (slot, usize::try_from(max)) else {
        return Err(Failure::text("ERR Invalid slot or number of keys"));
    };
    let (mut found, mut bytes, bytes_max) = (Vec::new(), 0, c.reply_left());
    if max > 0 {
        walk(slot, c, |key| {
            found.push(Box::<[u8]>::from(key));
            bytes += key.len();
            found.len() < max && bytes <= bytes_max
        });
    }
    c.reply.array(found.len());
    found.iter().for_each(|key| c.reply.bulk(key));
    c.check_reply_len()
}

/// The slot that the request names; an error unless it is a number.
fn parsed(c: &Context<'_>) -> Result<Option<Slot>, Failure> {
    parse_i64(c.args.at(2)).ok_or(Failure::NotAnInteger)?;
    Ok(slot(c.args.at(2)))
}

/// Calls `f` with each key of the slot until it returns false.
fn walk(slot: Slot, c: &mut Context<'_>, mut f: impl FnMut(&[u8]) -> bool) {
    let (mut cursor, mut goes_on) = (0, true);
    loop {
        // The slot may be given away meanwhile.
        if c.store.grounds().is_some_and(|grounds| grounds.standing_of(slot).is_hidden()) {
            return;
        }
        cursor = c.store.scan(cursor, STEP_KEYS as usize, c.now, |key, _| {
            if goes_on && slot_of(key) == slot {
                goes_on = f(key);
            }
        });
        // A damaged item's key is there; its value does not matter.
        c.store.take_damage();
        if cursor == 0 || !goes_on {
            return;
        }
        fiber::rest_after(STEP_KEYS);
    }
}
