//! Runs single operations.

use hotring_messages::Given;
use hotring_messages::message::{Operation, Status};
use hotring_protocol::parse_i64;
use hotring_store::{
    ExpireCondition, Item, ItemAction, Metadata, NumberKind, Session, SetExpiry, StoreError,
};

use crate::observe::counters::Counters;
use crate::state::failure::Failure;

/// What one operation may use.
pub(super) struct Context<'a> {
    pub store: &'a mut Session,
    pub counters: &'a Counters,
    /// Unix milliseconds.
    pub now: u64,
    /// The longest value that an answer may have, in bytes.
    pub value_len_max: usize,
    /// Whether a read may give a value its number, which is a write.
    pub may_number: bool,
}

pub(super) type Outcome = Result<Given, Failure>;

const TOO_LONG: Failure = Failure::text("ERR the value is longer than fabric-max-message");

fn given(status: Status, version: u64, value: impl Into<Vec<u8>>) -> Given {
    Given { status, version, value: value.into() }
}

/// The answer about a key that is not there.
fn absent() -> Given {
    given(Status::Absent, 0, [])
}

/// Runs an operation that does not wait.
pub(super) fn run(operation: &Operation<'_>, c: &mut Context<'_>) -> Outcome {
    match *operation {
        Operation::Get { key } => get(c, key),
        Operation::Set { key, value, expiry_ms } => set(c, key, value, expiry_ms),
        Operation::Update { key, value } => {
            put(c, key, value, |item| item.map(|_| SetExpiry::Keep).ok_or(absent()))
        }
        Operation::CompareAndSet { key, value, version } => put(c, key, value, |item| {
            let present = item.ok_or(absent())?.metadata.unique;
            match present == Some(version) {
                true => Ok(SetExpiry::Keep),
                false => Err(given(Status::Conflict, present.unwrap_or(0), [])),
            }
        }),
        Operation::Delete { key } => {
            let was_there = c.store.remove(key, c.now);
            c.store.take_refused()?;
            Ok(if was_there { given(Status::Done, 0, []) } else { absent() })
        }
        Operation::Increment { key, by } => increment(c, key, by),
        Operation::Expire { key, after_ms } => expire(c, key, after_ms),
        Operation::History { key, count } => history(c, key, count),
        Operation::Rollback { key, version } => match c.store.roll_back(key, version, c.now)? {
            // Its number would be another step's, between which another value may come.
            true => Ok(given(Status::Done, 0, [])),
            false => Ok(absent()),
        },
        Operation::WaitForChange { .. } | Operation::WaitForValue { .. } => {
            Err(Failure::text("ERR a wait must be alone in its request"))
        }
    }
}

fn set(c: &mut Context<'_>, key: &[u8], value: &[u8], expiry_ms: u64) -> Outcome {
    let expiry = match expiry_ms {
        0 => SetExpiry::Clear,
        after => SetExpiry::At(c.now.saturating_add(after)),
    };
    let answer = put(c, key, value, |_| Ok(expiry))?;
    if c.store.take_damage().is_none() {
        return Ok(answer);
    }
    // It repairs a damaged item: the client did not ask for the old value.
    c.store.remove(key, c.now);
    c.store.take_refused()?;
    // The removal may have read the damaged item again, for change notifications.
    c.store.take_damage();
    put(c, key, value, |_| Ok(expiry))
}

fn get(c: &mut Context<'_>, key: &[u8]) -> Outcome {
    let len_max = c.value_len_max;
    let shown = c.store.item(key, c.now, |item| show(&item, len_max)).transpose()?;
    match shown {
        Some(_) => c.counters.keyspace_hits.add(1),
        None => c.counters.keyspace_misses.add(1),
    }
    let Some(shown) = shown else { return Ok(absent()) };
    if shown.version != 0 || !c.may_number {
        return Ok(shown);
    }
    // Value and number must be of one moment.
    let numbers = c.store.unique_numbers();
    let numbered = c.store.update_item(key, c.now, |item| {
        let Some(item) = item else { return (ItemAction::Keep, Ok(absent())) };
        let unique = item.metadata.unique.unwrap_or_else(|| numbers.next());
        let metadata = Metadata { unique: Some(unique), ..item.metadata };
        match show(&Item { metadata, ..item }, len_max) {
            Ok(shown) => (ItemAction::Amend { metadata, expiry: SetExpiry::Keep }, Ok(shown)),
            Err(failure) => (ItemAction::Keep, Err(failure)),
        }
    });
    match numbered {
        Err(error @ StoreError::Displaced) => Err(error.into()),
        // It can be read although it cannot be numbered.
        Err(_) => Ok(shown),
        Ok(numbered) => numbered,
    }
}

/// The answer that shows an item.
fn show(item: &Item<'_>, len_max: usize) -> Outcome {
    if !item.value.is_string() {
        return Err(StoreError::WrongType.into());
    }
    if item.value.len() > len_max {
        return Err(TOO_LONG);
    }
    let value = item.value.with_bytes(<[u8]>::to_vec);
    Ok(given(Status::Done, item.metadata.unique.unwrap_or(0), value))
}

/// Writes a value, unless `decide` answers instead.
fn put(
    c: &mut Context<'_>,
    key: &[u8],
    value: &[u8],
    decide: impl Fn(Option<&Item<'_>>) -> Result<SetExpiry, Given>,
) -> Outcome {
    let numbers = c.store.unique_numbers();
    c.store.admit_bytes(value.len())?;
    Ok(c.store.update_item(key, c.now, |item| {
        let expiry = match decide(item.as_ref()) {
            Ok(expiry) => expiry,
            Err(answer) => return (ItemAction::Keep, answer),
        };
        let old = item.and_then(|item| item.metadata.unique);
        let unique = numbers.next_after(old);
        let metadata = Metadata { unique: Some(unique), ..Metadata::default() };
        let answer = given(Status::Done, unique, []);
        (ItemAction::Put { value: value.into(), metadata, expiry }, answer)
    })?)
}

fn increment(c: &mut Context<'_>, key: &[u8], by: i64) -> Outcome {
    let numbers = c.store.unique_numbers();
    let sum = |item: Option<&Item<'_>>| {
        let old = match item {
            None => 0,
            Some(item) if !item.value.is_string() => return Err(StoreError::WrongType),
            Some(item) => item
                .value
                .with_bytes(parse_i64)
                .ok_or(StoreError::NotANumber(NumberKind::Integer))?,
        };
        old.checked_add(by).ok_or(StoreError::Overflow(NumberKind::Integer))
    };
    let summed = c.store.update_item(key, c.now, |item| {
        let sum = match sum(item.as_ref()) {
            Ok(sum) => sum.to_string().into_bytes(),
            Err(error) => return (ItemAction::Keep, Err(error)),
        };
        let old = item.map(|item| item.metadata).unwrap_or_default();
        let unique = numbers.next_after(old.unique);
        let metadata = Metadata { unique: Some(unique), ..old };
        let answer = given(Status::Done, unique, sum.clone());
        let expiry = SetExpiry::Keep;
        (ItemAction::Put { value: sum.into(), metadata, expiry }, Ok(answer))
    })?;
    Ok(summed?)
}

/// As `PEXPIRE`: it needs little memory and a short record. The value stays, and so does its version.
fn expire(c: &mut Context<'_>, key: &[u8], after_ms: u64) -> Outcome {
    let at = c.now.saturating_add(after_ms).min(i64::MAX as u64);
    match c.store.expire_at(key, at, ExpireCondition::Always, c.now)? {
        true => Ok(given(Status::Done, 0, [])),
        false => Ok(absent()),
    }
}

/// Earlier values, newest first: `version u64 | Unix milliseconds of its replacement u64 | length u32 | value` each.
fn history(c: &mut Context<'_>, key: &[u8], count: u64) -> Outcome {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let len_max = c.value_len_max;
    let found = c.store.history(key, c.now, |history| {
        let mut out = Vec::new();
        for earlier in history.earlier().take(count) {
            if out.len() + HISTORY_HEAD_LEN + earlier.value.len() > len_max {
                break;
            }
            out.extend_from_slice(&earlier.version.to_le_bytes());
            out.extend_from_slice(&earlier.replaced_at.to_le_bytes());
            out.extend_from_slice(&(earlier.value.len() as u32).to_le_bytes());
            out.extend_from_slice(earlier.value);
        }
        given(Status::Done, history.version(), out)
    });
    match found {
        Some(_) => c.counters.keyspace_hits.add(1),
        None => c.counters.keyspace_misses.add(1),
    }
    Ok(found.unwrap_or_else(absent))
}

const HISTORY_HEAD_LEN: usize = 8 + 8 + 4;
