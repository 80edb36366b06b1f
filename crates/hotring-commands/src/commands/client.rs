//! CLIENT: lists, describes and closes connections.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hotring_protocol::parse_i64;

use crate::state::client::{BROADCASTS, BROKEN_REDIRECT, ClientShared, Closing, KILLED, TRACKING};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::{CommandId, commands, quoted, subcommands};

pub(crate) fn id(c: &mut Context<'_>) -> Outcome {
    c.reply.int(c.client.shared.id as i64);
    Ok(())
}

pub(crate) fn getname(c: &mut Context<'_>) -> Outcome {
    let name = c.client.shared.labels().name;
    if name.is_empty() {
        c.reply.null();
    } else {
        c.reply.bulk(name.as_bytes());
    }
    Ok(())
}

pub(crate) fn setname(c: &mut Context<'_>) -> Outcome {
    let name = check_label("Client names", c.args.at(2))?;
    c.client.shared.relabel(|labels| labels.name = name.into());
    c.reply.ok();
    Ok(())
}

pub(crate) fn setinfo(c: &mut Context<'_>) -> Outcome {
    let option = String::from_utf8_lossy(&c.args[2]).to_ascii_lowercase();
    match option.as_str() {
        "lib-name" => {
            let value = check_label("lib-name", c.args.at(3))?;
            c.client.shared.relabel(|labels| labels.lib_name = value.into());
        }
        "lib-ver" => {
            let value = check_label("lib-ver", c.args.at(3))?;
            c.client.shared.relabel(|labels| labels.lib_ver = value.into());
        }
        _ => {
            let shown = quoted(&c.args[2]);
            return Err(format!("ERR Unrecognized option '{shown}'").into());
        }
    }
    c.reply.ok();
    Ok(())
}

/// Longest name or library label of a connection, in bytes: CLIENT LIST repeats it for every connection.
const LABEL_LEN_MAX: usize = 1024;

/// Checks a label. It must not contain spaces, because clients split the lines of CLIENT LIST at them.
pub(super) fn check_label(label: &str, text: &[u8]) -> Result<String, Failure> {
    if text.len() > LABEL_LEN_MAX {
        Err(format!("ERR {label} cannot be longer than {LABEL_LEN_MAX} bytes.").into())
    } else if text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        Ok(String::from_utf8_lossy(text).into_owned())
    } else {
        Err(format!("ERR {label} cannot contain spaces, newlines or special characters.").into())
    }
}

pub(crate) fn no_evict(c: &mut Context<'_>) -> Outcome {
    let on = on_off(&c.args[2])?;
    // ORDERING: Relaxed, only this connection's thread acts on it.
    c.client.shared.no_evict.store(on, Ordering::Relaxed);
    c.reply.ok();
    Ok(())
}

pub(crate) fn no_touch(c: &mut Context<'_>) -> Outcome {
    let on = on_off(&c.args[2])?;
    // ORDERING: Relaxed, only this connection's thread acts on it.
    c.client.shared.no_touch.store(on, Ordering::Relaxed);
    c.mark_accesses(!on);
    c.reply.ok();
    Ok(())
}

fn on_off(word: &[u8]) -> Result<bool, Failure> {
    if word.eq_ignore_ascii_case(b"on") {
        Ok(true)
    } else if word.eq_ignore_ascii_case(b"off") {
        Ok(false)
    } else {
        Err(Failure::Syntax)
    }
}

pub(crate) fn info(c: &mut Context<'_>) -> Outcome {
    let mut text = String::new();
    c.client.shared.ran(CommandId::ClientInfo);
    let is_dirty = is_dirty(&c.client.shared.clone(), c);
    describe(&c.client.shared, is_dirty, c.now, &mut text);
    c.reply.verbatim("txt", &text);
    Ok(())
}

pub(crate) fn list(c: &mut Context<'_>) -> Outcome {
    let mut clients = clients(c);
    match c.args.get(2) {
        None => {}
        Some(word) if word.eq_ignore_ascii_case(b"type") && c.args.len() == 4 => {
            let wanted = ClientType::parse(c.args.at(3))?;
            clients.retain(|client| wanted.has(client));
        }
        Some(word) if word.eq_ignore_ascii_case(b"id") && c.args.len() > 3 => {
            let wanted: Option<HashSet<i64>> = c.args.tail(3).iter().map(parse_i64).collect();
            let wanted = wanted.ok_or(Failure::text("ERR Invalid client ID"))?;
            clients.retain(|client| wanted.contains(&(client.id as i64)));
        }
        Some(_) => return Err(Failure::Syntax),
    }
    let mut text = String::new();
    c.client.shared.ran(CommandId::ClientList);
    for client in clients {
        let is_dirty = is_dirty(&client, c);
        describe(&client, is_dirty, c.now, &mut text);
        if text.len() > c.reply_left() {
            return Err(Failure::ReplyTooLong);
        }
    }
    c.reply.verbatim("txt", &text);
    Ok(())
}

/// Redis's types of connections, except replicas, which hotring does not have.
#[derive(Clone, Copy)]
enum ClientType {
    Normal,
    PubSub,
    Replica,
}

impl ClientType {
    fn parse(name: &[u8]) -> Result<Self, Failure> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::PubSub),
            b"master" | b"slave" | b"replica" => Ok(Self::Replica),
            _ => {
                let shown = quoted(name);
                Err(format!("ERR Unknown client type '{shown}'").into())
            }
        }
    }

    fn has(self, client: &ClientShared) -> bool {
        match self {
            Self::Normal => !client.listens(),
            Self::PubSub => client.listens(),
            Self::Replica => false,
        }
    }
}

/// Whether a watched key has changed, so that EXEC will run nothing.
fn is_dirty(client: &ClientShared, c: &mut Context<'_>) -> bool {
    client.watched().iter().any(|stamp| !c.store.is_unchanged(stamp, c.now))
}

/// A line of CLIENT LIST without the line end. It does not tell whether watched keys have changed.
pub(crate) fn line(client: &ClientShared, now: u64) -> String {
    let mut text = String::new();
    describe(client, false, now, &mut text);
    text.truncate(text.trim_end().len());
    text
}

/// Appends a line of CLIENT LIST, with those of Redis's fields that apply to hotring.
fn describe(client: &ClientShared, is_dirty: bool, now: u64, text: &mut String) {
    let labels = client.labels();
    let seconds_since = |then: u64| now.saturating_sub(then) / 1000;
    // ORDERING: Relaxed throughout: figures for people, each published on its own.
    let input_len = client.input_len.load(Ordering::Relaxed);
    let input_free = client.input_free.load(Ordering::Relaxed);
    let unsent_len = client.unsent_len.load(Ordering::Relaxed);
    let queued = client.queued.load(Ordering::Relaxed);
    let queued_len = client.queued_len.load(Ordering::Relaxed);
    writeln!(
        text,
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} \
         multi={queued} watch={} qbuf={} qbuf-free={} argv-mem=0 multi-mem={queued_len} rbs=0 rbp=0 obl=0 oll={} \
         omem={} tot-mem={} events={} cmd={} user={} redir={} resp={} lib-name={} lib-ver={} \
         io-thread={}",
        client.id,
        client.peer,
        client.local,
        labels.name,
        seconds_since(client.connected_at),
        seconds_since(client.active_at.load(Ordering::Relaxed)),
        flags(client, is_dirty),
        client.database.load(Ordering::Relaxed),
        client.channels.load(Ordering::Relaxed),
        client.patterns.load(Ordering::Relaxed),
        client.shards.load(Ordering::Relaxed),
        client.watched_len(),
        input_len,
        input_free,
        usize::from(unsent_len > 0),
        unsent_len,
        client.own_memory() + std::mem::size_of::<ClientShared>(),
        if unsent_len > 0 { "rw" } else { "r" },
        command_name(client.last_command.load(Ordering::Relaxed)),
        labels.user,
        client.redirect.load(Ordering::Relaxed),
        client.protocol.load(Ordering::Relaxed),
        labels.lib_name,
        labels.lib_ver,
        client.thread,
    )
    .expect("writing to a string cannot fail");
}

/// The `flags` field of a connection: one letter for each flag, or N for none.
fn flags(client: &ClientShared, is_dirty: bool) -> String {
    // ORDERING: Relaxed throughout, as in `describe`.
    let tracking = client.tracking.load(Ordering::Relaxed);
    let letters = [
        ('O', client.monitors.load(Ordering::Relaxed)),
        ('P', client.listens()),
        ('x', client.queued.load(Ordering::Relaxed) >= 0),
        ('b', client.is_blocked()),
        ('t', tracking & TRACKING != 0),
        ('R', tracking & BROKEN_REDIRECT != 0),
        ('B', tracking & BROADCASTS != 0),
        ('d', is_dirty),
        ('c', client.closes.load(Ordering::Relaxed)),
        ('r', client.reads_copies.load(Ordering::Relaxed)),
        ('U', client.peer.starts_with('/')),
        ('e', client.no_evict.load(Ordering::Relaxed)),
        ('T', client.no_touch.load(Ordering::Relaxed)),
    ];
    let flags: String = letters.iter().filter(|(_, is_so)| *is_so).map(|(c, _)| c).collect();
    if flags.is_empty() { "N".to_string() } else { flags }
}

fn command_name(number: u16) -> &'static str {
    let is_it = |id: CommandId| id as u16 + 1 == number;
    let all = commands().iter().flat_map(|spec| std::iter::once(spec).chain(subcommands(spec.id)));
    all.filter(|spec| is_it(spec.id)).map(|spec| spec.name).next().unwrap_or("NULL")
}

/// CLIENT KILL addr:port, or CLIENT KILL with ID, ADDR, LADDR, TYPE, USER, MAXAGE and SKIPME.
pub(crate) fn kill(c: &mut Context<'_>) -> Outcome {
    if c.args.len() == 3 {
        let victims = victims(c, &[Filter::Peer(text(c.args.at(2)))]);
        let victim = victims.first().ok_or(Failure::text("ERR No such client"))?;
        end(c, victim);
        c.reply.ok();
        return Ok(());
    }
    let (filters, skip_me) = filters(c)?;
    let mut killed = 0;
    for victim in victims(c, &filters) {
        if skip_me && victim.id == c.client.shared.id {
            continue;
        }
        end(c, &victim);
        killed += 1;
    }
    c.reply.int(killed);
    Ok(())
}

enum Filter {
    Id(u64),
    Peer(String),
    Local(String),
    Type(ClientType),
    User(String),
    /// Connections that are at least this old, in seconds.
    Age(u64),
}

fn filters(c: &Context<'_>) -> Result<(Vec<Filter>, bool), Failure> {
    let mut filters = Vec::new();
    let mut skip_me = true;
    let pairs = c.args.tail(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(Failure::Syntax);
    }
    for i in (0..pairs.len()).step_by(2) {
        let value = pairs.at(i + 1);
        match pairs.at(i).to_ascii_lowercase().as_slice() {
            b"id" => match parse_i64(value) {
                Some(id) if id > 0 => filters.push(Filter::Id(id as u64)),
                _ => return Err(Failure::text("ERR client-id should be greater than 0")),
            },
            b"addr" => filters.push(Filter::Peer(text(value))),
            b"laddr" => filters.push(Filter::Local(text(value))),
            b"type" => filters.push(Filter::Type(ClientType::parse(value)?)),
            b"user" if c.server.acl.user(value).is_some() => {
                filters.push(Filter::User(text(value)))
            }
            b"user" => {
                return Err(format!("ERR No such user '{}'", quoted(value)).into());
            }
            b"maxage" => match parse_i64(value) {
                Some(age) if age > 0 => filters.push(Filter::Age(age as u64)),
                Some(_) => return Err(Failure::text("ERR maxage should be greater than 0")),
                None => {
                    return Err(Failure::text("ERR maxage is not an integer or out of range"));
                }
            },
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => skip_me = true,
            b"skipme" if value.eq_ignore_ascii_case(b"no") => skip_me = false,
            _ => return Err(Failure::Syntax),
        }
    }
    Ok((filters, skip_me))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn victims(c: &Context<'_>, filters: &[Filter]) -> Vec<Arc<ClientShared>> {
    let fits = |client: &ClientShared| {
        filters.iter().all(|filter| match filter {
            Filter::Id(id) => client.id == *id,
            Filter::Peer(address) => *client.peer == **address,
            Filter::Local(address) => *client.local == **address,
            Filter::Type(wanted) => wanted.has(client),
            Filter::User(name) => client.labels().user == *name,
            Filter::Age(seconds) => c.now.saturating_sub(client.connected_at) / 1000 >= *seconds,
        })
    };
    clients(c).into_iter().filter(|client| fits(client)).collect()
}

/// All connections except those already killed, which their threads may not have closed yet.
fn clients(c: &Context<'_>) -> Vec<Arc<ClientShared>> {
    let mut clients = c.server.clients.all();
    clients.retain(|client| client.signals() & KILLED == 0);
    clients
}

/// Closes a connection. The caller's own connection closes after its reply.
fn end(c: &mut Context<'_>, victim: &ClientShared) {
    if victim.id == c.client.shared.id {
        c.client.closing = Some(Closing::Killed);
    } else {
        victim.kill();
    }
}
