//! The meta commands of memcached: mg, ms, md, ma, me and mn, with all of their flags.

use std::borrow::Cow;

use hotring_protocol::memcached::{MetaFlags, MetaKey, Writer, parse_i32};
use hotring_store::{Access, ItemAction, Metadata, SetExpiry, StoreError, ValueRef};

use super::access::{fetched, is_due};
use super::block;
use super::classic::{NOT_A_NUMBER, count_change, not_stored};
use super::context::{Context, Outcome, Refusal, check_key};
use super::item::{Change, Changed, Mode, Put, Stored};
use crate::state::memcached::Count;
use crate::state::memcached::Done;

/// Parses the key and the flags of a line; `first` is the index of the first flag.
fn parse<'a>(c: &Context<'a>, first: usize) -> Result<(MetaKey<'a>, MetaFlags<'a>), Refusal> {
    let word = check_key(c.args.get(1).ok_or(Refusal::ERROR)?)?;
    let flags = MetaFlags::parse(c.args.tail(first))?;
    Ok((MetaKey::parse(word, flags.has(b'b'))?, flags))
}

/// An item as mg shows and changes it.
struct Item<'a> {
    value: ValueRef<'a>,
    metadata: Metadata,
    /// Unix milliseconds.
    expire_at: Option<u64>,
    is_new: bool,
}

/// The request of mg.
#[derive(Clone, Copy)]
struct GetRequest<'a> {
    key: MetaKey<'a>,
    flags: MetaFlags<'a>,
    /// The time in Unix milliseconds and in seconds.
    now: u64,
    second: u32,
    /// The times of the flags N, T and R.
    vivified_at: Option<u64>,
    expires_at: Option<u64>,
    recached_at: Option<u64>,
    wants_access: bool,
    /// The request counts as a fetch.
    fetches: bool,
    /// A win can be stored, so that no other client wins as well.
    may_win: bool,
}

impl<'a> GetRequest<'a> {
    fn new(c: &Context<'_>, key: MetaKey<'a>, flags: MetaFlags<'a>) -> Self {
        let at = |time: Option<i32>| time.and_then(|time| moment(c.expiry(time)));
        GetRequest {
            key,
            flags,
            now: c.now,
            second: c.second(),
            vivified_at: at(flags.vivify),
            expires_at: at(flags.ttl),
            recached_at: at(flags.recache),
            wants_access: flags.has(b'h') || flags.has(b'l'),
            fetches: !flags.has(b'u'),
            may_win: true,
        }
    }

    /// Whether the item must be written before it is shown.
    fn writes(&self, metadata: Metadata) -> bool {
        let numbers = self.flags.has(b'c') && metadata.unique.is_none();
        let remembers = self.wants_access && metadata.access.is_none();
        numbers || remembers || (metadata.stale && !metadata.claimed)
    }

    /// Writes the reply for an item. Flags take effect in the order of the request.
    fn answer(&self, reply: &mut Writer<'_>, item: &mut Item<'_>) {
        let was_won = item.metadata.claimed;
        let mut wins = false;
        // With flag C, the client wants the value only if its version differs.
        let is_known = self.flags.cas.is_some() && self.flags.cas == item.metadata.unique;
        let shows = self.flags.has(b'v') && !is_known;
        reply.text(if shows { "VA " } else { "HD" });
        if shows {
            reply.number(item.value.len());
        }
        for word in self.flags.iter() {
            match word[0] {
                b'T' => item.expire_at = self.expires_at,
                b'N' if item.is_new => (item.expire_at, wins) = (self.vivified_at, true),
                b'R' => wins |= !was_won && !item.is_new && self.is_to_renew(item.expire_at),
                b's' => reply.flag(b's', item.value.len()),
                b't' => ttl(reply, item.expire_at, self.now),
                b'c' => reply.flag(b'c', item.metadata.unique.unwrap_or(0)),
                b'f' => reply.flag(b'f', item.metadata.flags),
                b'l' => {
                    let at = item.metadata.access.map_or(self.second, |access| access.at);
                    reply.flag(b'l', self.second.saturating_sub(at));
                }
                b'h' => {
                    let fetched = item.metadata.access.is_some_and(|access| access.fetched);
                    reply.flag(b'h', u8::from(fetched));
                }
                _ => echo(reply, word, &self.key),
            }
        }
        if was_won {
            reply.text(" Z");
        }
        if item.metadata.stale {
            reply.text(" X");
            wins |= !was_won;
        }
        if wins && self.may_win {
            reply.text(" W");
            item.metadata.claimed = true;
        }
        reply.end();
        if shows {
            item.value.with_bytes(|value| reply.data(value));
        }
    }

    /// Whether the item expires before the time of flag R, compared in whole seconds as flag t shows them.
    fn is_to_renew(&self, expire_at: Option<u64>) -> bool {
        let seconds = |at: u64| seconds_left(at, self.now);
        let limit = self.recached_at.map_or(0, seconds);
        expire_at.is_some_and(|at| seconds(at) < limit)
    }
}

fn moment(expiry: SetExpiry) -> Option<u64> {
    match expiry {
        SetExpiry::At(at) => Some(at),
        SetExpiry::Clear | SetExpiry::Keep => None,
    }
}

/// Whole seconds until `at`, rounded up.
fn seconds_left(at: u64, now: u64) -> u64 {
    at.saturating_sub(now).div_ceil(1000)
}

/// Writes the time to live; -1 if the item does not expire.
fn ttl(reply: &mut Writer<'_>, expire_at: Option<u64>, now: u64) {
    match expire_at {
        Some(at) => reply.flag(b't', seconds_left(at, now)),
        None => reply.flag(b't', -1),
    }
}

/// Echoes a flag in the reply, if the protocol requires that.
fn echo(reply: &mut Writer<'_>, word: &[u8], key: &MetaKey<'_>) {
    match word[0] {
        b'O' => reply.word(word),
        b'k' => {
            reply.text(" k");
            reply.text(key.word());
            if key.is_encoded() {
                reply.text(" b");
            }
        }
        _ => {}
    }
}

/// The outcome of looking at an item.
enum Examined {
    Shown,
    /// The item is shown, and the fetch must be recorded.
    AndFetched,
    /// The item must be written before it is shown.
    Writes,
    /// The value has a type that this protocol lacks.
    Unknown,
}

pub(super) fn get(c: &mut Context<'_>) -> Outcome {
    let (key, flags) = parse(c, 2)?;
    let request = GetRequest::new(c, key, flags);
    if request.wants_access {
        c.remember_accesses();
    }
    let found =
        if flags.changes() { get_and_change(c, &request)? } else { get_plainly(c, &request)? };
    let touches = flags.ttl.is_some();
    let [all, hits, misses] = match touches {
        true => [Count::CmdTouch, Count::TouchHits, Count::TouchMisses],
        false => [Count::CmdGet, Count::GetHits, Count::GetMisses],
    };
    c.count(all);
    c.count(if found { hits } else { misses });
    if found {
        c.counters.keyspace_hits.add(1)
    } else {
        c.counters.keyspace_misses.add(1)
    }
    let done = if found { Done::Hit } else { Done::Miss };
    c.server.memcached.detail.note(key.bytes(), done, c.config.memcached.prefixes_max);
    if !found && !flags.has(b'q') {
        c.reply.text("EN");
        flags.iter().for_each(|word| echo(&mut c.reply, word, &key));
        c.reply.end();
    }
    c.check_reply_len()
}

/// Shows an item without a write if possible. False if the key is missing.
fn get_plainly(c: &mut Context<'_>, request: &GetRequest<'_>) -> Result<bool, Refusal> {
    let reply = &mut c.reply;
    let examined = c.store.item(request.key.bytes(), c.now, |item| {
        if !item.value.is_string() {
            return Examined::Unknown;
        }
        if request.writes(item.metadata) {
            return Examined::Writes;
        }
        let (value, metadata, expire_at) = (item.value, item.metadata, item.expire_at);
        request.answer(reply, &mut Item { value, metadata, expire_at, is_new: false });
        if request.fetches && is_due(metadata, request.second) {
            Examined::AndFetched
        } else {
            Examined::Shown
        }
    });
    match examined {
        Some(Examined::Shown) => Ok(true),
        Some(Examined::AndFetched) => {
            c.mark_fetched(request.key.bytes());
            Ok(true)
        }
        Some(Examined::Writes) => get_and_change(c, request),
        Some(Examined::Unknown) | None => Ok(false),
    }
}

/// Shows an item and changes it. False if the key is missing and the request does not create it.
fn get_and_change(c: &mut Context<'_>, request: &GetRequest<'_>) -> Result<bool, Refusal> {
    let flags = &request.flags;
    let numbers = flags.has(b'c').then(|| c.store.unique_numbers());
    let stored = c.stored();
    let start = c.reply.written();
    let reply = &mut c.reply;
    let shown = c.store.update_item(request.key.bytes(), c.now, |item| {
        // The closure may run more than once.
        reply.forget(start);
        let mut item = match item {
            Some(item) if item.value.is_string() => {
                let (value, metadata, expire_at) = (item.value, item.metadata, item.expire_at);
                Item { value, metadata, expire_at, is_new: false }
            }
            None if flags.vivify.is_some() => {
                let metadata =
                    Metadata { unique: flags.new_cas, access: stored, ..Metadata::default() };
                Item { value: ValueRef::Bytes(b""), metadata, expire_at: None, is_new: true }
            }
            _ => return (ItemAction::Keep, false),
        };
        let metadata = &mut item.metadata;
        metadata.unique =
            metadata.unique.or_else(|| numbers.as_ref().map(|numbers| numbers.next()));
        let unknown = Access { at: request.second, fetched: false };
        metadata.access = metadata.access.or(request.wants_access.then_some(unknown));
        request.answer(reply, &mut item);
        if request.fetches {
            item.metadata.access = fetched(item.metadata.access, request.second);
        }
        let changes_expiry = item.is_new || flags.ttl.is_some();
        let expiry = match changes_expiry {
            true => item.expire_at.map_or(SetExpiry::Clear, SetExpiry::At),
            false => SetExpiry::Keep,
        };
        let metadata = item.metadata;
        let action = match item.is_new {
            true => ItemAction::Put { value: Cow::Borrowed(b""), metadata, expiry },
            false => ItemAction::Amend { metadata, expiry },
        };
        (action, true)
    });
    match shown {
        // Reads must succeed without free memory.
        Err(StoreError::Stalled(_) | StoreError::OutOfMemory(_))
            if !flags.changes() && numbers.is_none() =>
        {
            reply.forget(start);
            let request = GetRequest { may_win: false, ..*request };
            let shown = c.store.item(request.key.bytes(), c.now, |item| {
                if !item.value.is_string() {
                    return false;
                }
                let (value, metadata, expire_at) = (item.value, item.metadata, item.expire_at);
                request.answer(reply, &mut Item { value, metadata, expire_at, is_new: false });
                true
            });
            Ok(shown.unwrap_or(false))
        }
        shown => Ok(shown?),
    }
}

pub(super) fn set(c: &mut Context<'_>) -> Outcome {
    if c.args.len() == 2 {
        return Err(Refusal::BAD_LINE);
    }
    let (key, flags) = parse(c, 3)?;
    let vivified = flags.vivify.map(|time| c.expiry(time));
    let mode = match flags.mode {
        None | Some(b'S') if flags.cas.is_none() => Mode::Set,
        Some(b'R') if flags.cas.is_none() => Mode::Replace,
        None | Some(b'S' | b'R') => Mode::Cas,
        Some(b'E') => Mode::Add,
        Some(b'A') => Mode::Append(vivified),
        Some(b'P') => Mode::Prepend(vivified),
        Some(_) => return Err("CLIENT_ERROR invalid mode for ms M token".into()),
    };
    let value = match block(c.data) {
        Ok(value) => value,
        Err(refusal) => return Err(not_stored(c, key.bytes(), Mode::Set, refusal)),
    };
    let put = Put {
        key: key.bytes(),
        value,
        len_max: c.config.memcached.value_len_max,
        flags: flags.client_flags,
        expiry: c.expiry(flags.ttl.unwrap_or(0)),
        mode,
        cas: flags.cas.unwrap_or(0),
        new_cas: flags.new_cas,
        wants_cas: flags.has(b'c'),
        takes_stale: flags.has(b'I'),
    };
    let stored = match c.put(put) {
        Ok(stored) => stored,
        Err(refusal) => return Err(not_stored(c, key.bytes(), mode, refusal)),
    };
    let (status, cas, len) = match stored {
        Stored::Yes { .. } if flags.has(b'q') => return Ok(()),
        Stored::Yes { cas, len } => ("HD", cas, len),
        Stored::No => ("NS", 0, value.len()),
        Stored::Exists => ("EX", 0, value.len()),
        Stored::NotFound => ("NF", 0, value.len()),
    };
    c.reply.text(status);
    for word in flags.iter() {
        match word[0] {
            b'c' => c.reply.flag(b'c', cas),
            b's' => c.reply.flag(b's', len),
            _ => echo(&mut c.reply, word, &key),
        }
    }
    c.reply.end();
    Ok(())
}

/// The outcome of md.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deleted {
    Yes,
    Exists,
    NotFound,
}

pub(super) fn delete(c: &mut Context<'_>) -> Outcome {
    let (key, flags) = parse(c, 2)?;
    let expiry = flags.ttl.map(|time| c.expiry(time));
    let access = c.stored();
    let deleted = c.store.update_item(key.bytes(), c.now, |item| {
        let Some(item) = item else { return (ItemAction::Keep, Deleted::NotFound) };
        if flags.cas.is_some() && flags.cas != item.metadata.unique {
            return (ItemAction::Keep, Deleted::Exists);
        }
        let (empties, is_stale) = (flags.has(b'x'), flags.has(b'I'));
        // Only a string can be emptied or marked as stale.
        let removes = !(empties || is_stale) || !item.value.is_string();
        if removes {
            return (ItemAction::Remove, Deleted::Yes);
        }
        let kept = if is_stale { None } else { item.metadata.unique };
        let metadata = Metadata {
            unique: flags.new_cas.or(kept),
            stale: is_stale,
            claimed: false,
            ..item.metadata
        };
        let action = match empties {
            true => {
                let metadata = Metadata { flags: flags.client_flags, access, ..metadata };
                let expiry = expiry.unwrap_or(SetExpiry::Clear);
                ItemAction::Put { value: Cow::Borrowed(b""), metadata, expiry }
            }
            false => ItemAction::Amend { metadata, expiry: expiry.unwrap_or(SetExpiry::Keep) },
        };
        (action, Deleted::Yes)
    })?;
    let prefixes_max = c.config.memcached.prefixes_max;
    c.server.memcached.detail.note(key.bytes(), Done::Delete, prefixes_max);
    let is_done = deleted == Deleted::Yes;
    c.count(if is_done { Count::DeleteHits } else { Count::DeleteMisses });
    if is_done && flags.has(b'q') {
        return Ok(());
    }
    c.reply.text(match deleted {
        Deleted::Yes => "HD",
        Deleted::Exists => "EX",
        Deleted::NotFound => "NF",
    });
    flags.iter().for_each(|word| echo(&mut c.reply, word, &key));
    c.reply.end();
    Ok(())
}

pub(super) fn arithmetic(c: &mut Context<'_>) -> Outcome {
    check_key(c.args.get(1).ok_or(Refusal::ERROR)?)?;
    let (key, flags) =
        parse(c, 2).map_err(|_| Refusal::Text("CLIENT_ERROR invalid or duplicate flag"))?;
    let subtracts = match flags.mode {
        None | Some(b'I' | b'+') => false,
        Some(b'D' | b'-') => true,
        Some(_) => return Err("CLIENT_ERROR invalid mode for ma M token".into()),
    };
    let expiry = flags.ttl.map(|time| c.expiry(time));
    // The last of the flags N and T sets the expiry of a new item.
    let time_of_new = flags.iter().filter(|word| matches!(word[0], b'N' | b'T')).last();
    let time_of_new = time_of_new.and_then(|word| parse_i32(&word[1..])).unwrap_or(0);
    let vivify = flags.vivify.map(|_| (flags.initial, c.expiry(time_of_new)));
    let changed = c.change(Change {
        key: key.bytes(),
        subtracts,
        delta: flags.delta,
        vivify,
        expiry: expiry.unwrap_or(SetExpiry::Keep),
        cas: flags.cas.unwrap_or(0),
        new_cas: flags.new_cas,
        wants_cas: flags.has(b'c'),
    })?;
    count_change(c, subtracts, changed);
    let (number, cas, expire_at, is_new) = match changed {
        Changed::NotANumber => return Err(NOT_A_NUMBER),
        Changed::To { .. } if flags.has(b'q') => return Ok(()),
        Changed::To { number, cas, expire_at, is_new } => (number, cas, expire_at, is_new),
        Changed::NotFound | Changed::Exists => {
            c.reply.text(if changed == Changed::NotFound { "NF" } else { "EX" });
            flags.iter().for_each(|word| echo(&mut c.reply, word, &key));
            c.reply.end();
            return Ok(());
        }
    };
    answer_number(c, &key, &flags, number, cas, expire_at, is_new);
    Ok(())
}

fn answer_number(
    c: &mut Context<'_>,
    key: &MetaKey<'_>,
    flags: &MetaFlags<'_>,
    number: u64,
    cas: u64,
    mut expire_at: Option<u64>,
    is_new: bool,
) {
    let text = number.to_string();
    c.reply.text(if flags.has(b'v') { "VA " } else { "HD" });
    if flags.has(b'v') {
        c.reply.number(text.len());
    }
    for word in flags.iter() {
        match word[0] {
            b'T' => expire_at = flags.ttl.and_then(|time| moment(c.expiry(time))),
            b'N' if is_new => expire_at = flags.vivify.and_then(|time| moment(c.expiry(time))),
            b'c' => c.reply.flag(b'c', cas),
            b't' => ttl(&mut c.reply, expire_at, c.now),
            _ => echo(&mut c.reply, word, key),
        }
    }
    c.reply.end();
    if flags.has(b'v') {
        c.reply.data(text.as_bytes());
    }
}

/// me: describes an item, for people.
pub(super) fn debug(c: &mut Context<'_>) -> Outcome {
    c.count(Count::CmdMeta);
    let word = check_key(c.args.get(1).ok_or(Refusal::BAD_LINE)?)?;
    let key = MetaKey::parse(word, c.args.get(2) == Some(b"b")).map_err(|_| Refusal::BAD_LINE)?;
    let (second, now) = (c.second(), c.now);
    let reply = &mut c.reply;
    let found = c.store.item(key.bytes(), now, |item| {
        // As in memcached: seconds since the expiry, negative before it.
        let past = item.expire_at.map_or(-1, |at| -seconds_left(at, now).cast_signed());
        let access = item.metadata.access.unwrap_or(Access { at: second, fetched: false });
        reply.text("ME ");
        reply.text(key.word());
        reply.line(format!(
            " exp={past} la={} cas={} fetch={} cls=1 size={}",
            second.saturating_sub(access.at),
            item.metadata.unique.unwrap_or(0),
            if access.fetched { "yes" } else { "no" },
            item.memory,
        ));
    });
    if found.is_none() {
        c.reply.line("EN");
    }
    Ok(())
}

/// mn: a reply that tells a client that all earlier requests have been answered.
pub(super) fn noop(c: &mut Context<'_>) -> Outcome {
    c.reply.line("MN");
    Ok(())
}
