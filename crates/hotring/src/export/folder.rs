//! Reads all keys of a stopped server's folder: loads the newest snapshot and the log into a store,
//! as the server does at its start. Must not change anything in the folder.

use std::path::Path;

use hotring_log::{ALL, Disk, Effect, Snapshot, check};
use hotring_protocol::glob_match;
use hotring_store::{Options, Session, Store, ValueRef};

use super::{Output, Wanted};
use crate::transfer::{Item, Value, now};

/// Keys copied out of the store at a time.
const STEP_KEYS: usize = 256;

/// Selects database 0, with which each block and each batch begins.
const FIRST: Effect<'static> = Effect::Database { number: 0 };

/// Hands out all keys.
pub(super) fn export(
    folder: &Path,
    wanted: &Wanted<'_>,
    output: &mut Output<'_>,
) -> Result<(), String> {
    let store = Store::new(Options::default()).map_err(|error| error.to_string())?;
    let mut session = store.session();
    load(folder, &mut session, output)?;
    for (number, ..) in store.keyspaces() {
        session.select(number);
        export_database(&mut session, wanted, output)?;
    }
    Ok(())
}

/// Hands out all keys of the selected database.
fn export_database(
    session: &mut Session,
    wanted: &Wanted<'_>,
    output: &mut Output<'_>,
) -> Result<(), String> {
    let database = session.selected();
    let (now, mut cursor, mut items) = (now(), 0, Vec::new());
    loop {
        cursor = session.scan(cursor, STEP_KEYS, now, |key, value| {
            if wanted.pattern.is_none_or(|pattern| glob_match(pattern.as_bytes(), key)) {
                items.push((key.to_vec(), owned(value)));
            }
        });
        for (key, value) in items.drain(..) {
            // No other session uses the store, so the key exists.
            let expire_at = session.expiry(&key, now).flatten();
            let is_pinned = wanted.pins && session.is_pinned(&key);
            output.add(&Item { database, key, value, expire_at, is_pinned })?;
        }
        if cursor == 0 {
            return Ok(());
        }
    }
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Hash(hash) if hash.expires() => {
            let own = |(f, v, at): (&[u8], &[u8], _)| ((f.to_vec(), v.to_vec()), at);
            Value::HashUntil(hash.iter_with_expiry().map(own).collect())
        }
        ValueRef::Hash(hash) => Value::Hash(
            hash.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect(),
        ),
        ValueRef::List(list) => Value::List(list.iter().map(<[u8]>::to_vec).collect()),
        ValueRef::Set(set) => Value::Set(set.iter().map(|member| member.to_vec()).collect()),
        ValueRef::Scored(scored) => {
            let mut members = Vec::new();
            scored.each_of_all(|entry| members.push((entry.member.to_vec(), entry.score)));
            Value::Scored(members)
        }
        text => Value::String(text.to_vec()),
    }
}

/// Loads the snapshot and the log into the store.
fn load(folder: &Path, session: &mut Session, output: &Output<'_>) -> Result<(), String> {
    if !folder.is_dir() {
        return Err(format!("there is no folder {}", folder.display()));
    }
    if !Disk::holds_data(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        return Err(format!("{} has neither a snapshot nor a log", folder.display()));
    }
    let disk = Disk::open_to_read(folder).map_err(|error| error.to_string())?;
    let snapshot = Snapshot::newest(&disk).map_err(|error| error.to_string())?;
    let (now, mut unknown) = (now(), None);
    let mut replay = |effect: &Effect<'_>| {
        if let Err(form) = session.replay(effect, now) {
            unknown.get_or_insert(form);
        }
    };
    if let Some(snapshot) = &snapshot {
        let mut buffer = Vec::new();
        loop {
            // A block names its database unless that is the first one.
            replay(&FIRST);
            let mut replay = |effects: &[Effect<'_>]| effects.iter().for_each(&mut replay);
            let read = snapshot.read_block(ALL, &mut buffer, &mut replay);
            if read.map_err(|error| error.to_string())?.is_none() {
                break;
            }
        }
    }
    let (after, end) = snapshot.as_ref().map_or((0, 0), |s| (s.after(), s.end()));
    let id = snapshot.as_ref().map(Snapshot::id);
    let mut apply = |_, effects: &[Effect<'_>]| {
        // A batch, too, names its database unless that is the first one.
        replay(&FIRST);
        effects.iter().for_each(&mut replay);
    };
    let checked = check(&disk, id, after + 1, &mut apply).map_err(|error| error.to_string())?;
    if let Some(form) = unknown {
        return Err(format!("{}: {form}", folder.display()));
    }
    if let Some(error) = checked.error {
        return Err(error.to_string());
    }
    if checked.last < end {
        return Err(format!(
            "{}: the log ends at record {}, the snapshot needs it up to {end}",
            folder.display(),
            checked.last
        ));
    }
    if let Some((segment, at, damage)) = checked.torn {
        output.progress.print(&format!(
            "{segment} ends at byte {at}, within a write ({damage}), as after a crash: everything before that is used"
        ));
    }
    Ok(())
}
