//! HOTRING.MIRROR: how proxies hold mirrors of a node's hot keys ([`crate::state::mirrors`]).
//!
//! ```text
//! ASK [key hits ...]         [[key epoch number milliseconds] ...] [key ...]    what is granted, what else is mirrored
//! DROPPED key epoch number   +OK
//! LIST                       [[key holders] ...]
//! >hotring.mirror key epoch number                                             a push: drop the key
//! ```
//! Whoever asks must read the values behind that on the same connection, and must drop keys before it writes them
//! there. Keys are shown to those who may read them.

use std::collections::HashMap;
use std::time::Duration;

use hotring_cluster::Epoch;
use hotring_cluster::mirrors::{ASK_MAX, Ask, Dropped, Key, Version};
use hotring_protocol::parse_i64;

use super::cluster::cluster;
use crate::host::clock;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::routes::NOBODY;

/// Most hits of a key between two questions, which are hardly a tenth of a second apart.
const HITS_MAX: i64 = 1 << 20;

pub(crate) fn hotring_mirror(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    let word = c.args.at(1).to_ascii_lowercase();
    match (&word[..], c.args.len()) {
        (b"ask", len) if len % 2 == 0 && len <= 2 + 2 * ASK_MAX => ask(c),
        (b"dropped", 5) => dropped(c),
        (b"list", 2) => list(c),
        _ => Err(Failure::Syntax),
    }
}

fn ask(c: &mut Context<'_>) -> Outcome {
    let mirrors = &cluster(c)?.mirrors;
    let user = c.client.access().user().clone();
    let (mut keys, mut lives, mut versions) = (Vec::new(), HashMap::new(), HashMap::new());
    for at in (2..c.args.len()).step_by(2) {
        let (key, hits) =
            (c.args.at(at), parse_i64(c.args.at(at + 1)).ok_or(Failure::NotAnInteger)?);
        if !user.may_read(key)
            || !c.locals.routes.as_ref().is_some_and(|routes| routes.has_key(key))
        {
            continue;
        }
        // Without a grant there was no hit.
        if mirrors.is_held(key, c.client.shared.id) {
            note_hits(key, hits.clamp(0, HITS_MAX) as u32, c);
        }
        // Before its guard began, a key could have got another expiry than is read here.
        versions.extend(mirrors.version(key).map(|version| (key, version)));
        match c.store.expiry(key, c.now) {
            Some(None) => {}
            Some(Some(at)) => {
                // Not by the time of the batch: the key would live longer.
                let left = at.saturating_sub(clock::unix_ms());
                lives.insert(key, Duration::from_millis(left));
            }
            // It may have expired, and is removed once it is mirrored no more. The asker may hold it by another clock.
            None => {
                mirrors.want(key, NOBODY);
                continue;
            }
        }
        keys.push(Key::from(key));
    }
    c.store.take_damage();
    let ask = Ask { number: 0, keys };
    let replication = &c.server.replication;
    let right = (replication.led_epoch(), replication.leads_until());
    let expires_in = |key: &[u8]| lives.get(key).copied();
    let mut granted = mirrors.ask(&c.client.shared, &ask, right, expires_in).grants;
    granted.retain(|(key, grant)| versions.get(&**key) == Some(&grant.version));
    c.reply.array(2);
    c.reply.array(granted.len());
    for (key, grant) in &granted {
        c.reply.array(4);
        c.reply.bulk(key);
        c.reply.int(grant.version.epoch.0 as i64);
        c.reply.int(grant.version.number as i64);
        c.reply.int(grant.lasts.as_millis() as i64);
    }
    let others: Vec<Key> = mirrors.keys().into_iter().map(|(key, _)| key).collect();
    let is_new = |key: &&Key| user.may_read(key) && !ask.keys.contains(*key);
    let others: Vec<&Key> = others.iter().filter(is_new).collect();
    c.reply.array(others.len());
    others.iter().for_each(|key| c.reply.bulk(key));
    Ok(())
}

/// Notes reads of a key that a mirror has answered, as if they had come here.
fn note_hits(key: &[u8], hits: u32, c: &mut Context<'_>) {
    if hits == 0 {
        return;
    }
    let (shared, keys) = (c.server.thread(c.client.shared.thread), || std::iter::once(key));
    shared.slot_accesses.note(keys(), hits.into());
    shared.hot_keys.note(0, keys, hits.into(), c.locals.random.u64(..), c.now);
    c.server.cluster.iter().for_each(|cluster| cluster.mirrors.note_hits(hits.into()));
}

fn dropped(c: &mut Context<'_>) -> Outcome {
    let number = |at: usize| {
        let number = parse_i64(c.args.at(at)).and_then(|number| u64::try_from(number).ok());
        number.ok_or(Failure::NotAnInteger)
    };
    let version = Version { epoch: Epoch(number(3)?), number: number(4)? };
    let dropped = Dropped { key: c.args.at(2).into(), version };
    cluster(c)?.mirrors.dropped(c.client.shared.id, &dropped);
    c.reply.ok();
    Ok(())
}

fn list(c: &mut Context<'_>) -> Outcome {
    let user = c.client.access().user();
    let mut keys = cluster(c)?.mirrors.keys();
    keys.retain(|(key, _)| user.may_read(key));
    c.reply.array(keys.len());
    for (key, holders) in keys {
        c.reply.array(2);
        c.reply.bulk(&key);
        c.reply.count(holders);
    }
    Ok(())
}
