//! Copies the keys of moved slots from their old servers to their new ones, beside clients.
//!
//! A key is read at the old server, stored at the new one unless that has it already, and then removed from the old
//! one. What clients want comes first.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hotring_protocol::memcached::ReplyForm;
use hotring_protocol::{Part, parse_i64, read_part};

use super::copying::{Copying, Way};
use super::pool::Foreign;
use super::server::{Kind, Server};
use super::to_memcached::{is_key, time};
use super::translation::{flag_of, value_of};
use crate::link::{Link, Login};
use crate::plan::write_request;
use crate::reply::Form;
use crate::shared::Shared;

/// Keys that come over at once.
const BATCH: usize = 64;

/// Failures in a row after which the rest of an old server's keys is left.
const TRIES: u32 = 20;

/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(250);

/// Limit of the time for one reply.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Pause while threads have requests by the old layout.
const READY_PAUSE: Duration = Duration::from_millis(10);

/// Lines of a list that are read at once.
const LINES: usize = 256;

const LINE: Form = Form::Memcached { form: ReplyForm::Line, is_silent: false };

const META: Form = Form::Memcached { form: ReplyForm::Meta, is_silent: false };

/// Copies whenever the pool wants it. Never ends.
pub(crate) async fn keep_copying(shared: &Arc<Shared>, pool: &Foreign) {
    loop {
        pool.copy_begun().await;
        let Some(copying) = pool.copying() else { continue };
        while copying.ready() < shared.settings.threads.max(1) {
            tokio::time::sleep(READY_PAUSE).await;
        }
        let mut copier = Copier { shared, copying: &copying, links: HashMap::new() };
        let failures = copier.copy_all().await;
        let (copied, cold) = (copying.copied.value(), copying.cold.value());
        let how = match failures.is_empty() {
            true => format!("done,copied={copied},cold={cold}"),
            false => format!("gave_up,copied={copied},cold={cold},servers={}", failures.join(" ")),
        };
        tracing::info!("copying keys has ended: {how}");
        pool.end_copy(how, |layout| shared.publish(layout));
    }
}

struct Copier<'c> {
    shared: &'c Arc<Shared>,
    copying: &'c Arc<Copying>,
    links: HashMap<Arc<str>, Link>,
}

/// Where a walk over the keys of a server is.
enum Walk {
    /// The cursor of SCAN.
    Cursor(Vec<u8>),
    /// A connection on which memcached lists its keys.
    Listing(Box<Link>),
    NotListed,
    End,
}

impl Walk {
    fn of(source: &Server) -> Self {
        match source.kind {
            Kind::Memcached => Walk::NotListed,
            Kind::Redis | Kind::Hotring => Walk::Cursor(b"0".to_vec()),
        }
    }
}

/// A key with its value, on its way.
enum Item {
    /// As DUMP gives it; milliseconds to its end, 0 for never.
    Dump { payload: Vec<u8>, ttl: i64 },
    /// A string; milliseconds to its end, 0 for never.
    Text { value: Vec<u8>, flags: i64, ttl: i64 },
    /// There is no such key.
    Gone,
    /// A value that the new server cannot have.
    Unfit,
}

impl Copier<'_> {
    /// The names of the old servers that had to be given up.
    async fn copy_all(&mut self) -> Vec<String> {
        let mut given_up = Vec::new();
        for source in self.copying.sources() {
            let mut walk = Walk::of(&source);
            let mut failures = 0;
            while !matches!(walk, Walk::End) && !self.copying.has_given_up(&source) {
                self.serve_wanted().await;
                match self.go_on(&source, &mut walk).await {
                    Ok(()) => failures = 0,
                    Err(why) => {
                        failures += 1;
                        tracing::warn!(server = source.name, "cannot copy keys: {why}");
                        if failures == TRIES {
                            self.copying.give_up(&source);
                        }
                        if matches!(walk, Walk::Listing(_)) {
                            // A list cannot go on. What has come over is not in the next one.
                            walk = Walk::NotListed;
                        }
                        self.links.clear();
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
            if self.copying.has_given_up(&source) {
                given_up.push(source.name.clone());
            }
        }
        self.serve_wanted().await;
        given_up
    }

    /// Brings what clients want. Keys of a server that fails are tried again, and left in the end.
    async fn serve_wanted(&mut self) {
        let mut failures = 0;
        loop {
            let keys = self.copying.take_wanted(BATCH);
            if keys.is_empty() {
                return;
            }
            while let Err((source, why)) = self.bring(&keys).await {
                failures += 1;
                tracing::warn!(server = source.name, "cannot copy a key that is wanted: {why}");
                if failures >= TRIES {
                    self.copying.give_up(&source);
                    failures = 0;
                }
                self.links.clear();
                tokio::time::sleep(PAUSE).await;
            }
            self.copying.settle(&keys);
        }
    }

    /// Brings the next keys of a walk.
    async fn go_on(&mut self, source: &Arc<Server>, walk: &mut Walk) -> Result<(), String> {
        let next;
        let keys = match walk {
            Walk::End => return Ok(()),
            Walk::NotListed => {
                // Its own connection, since the list stays behind while its keys come over.
                let mut listing = self.dial(source).await.map_err(|why| why.to_string())?;
                let asked = listing.send(b"lru_crawler metadump all\r\n").await;
                asked.map_err(|why| why.to_string())?;
                *walk = Walk::Listing(Box::new(listing));
                return Ok(());
            }
            Walk::Listing(listing) => {
                let listed = self.listed(listing).await;
                let (keys, is_last) = listed.map_err(|why| why.to_string())?;
                next = is_last.then_some(Walk::End);
                keys
            }
            Walk::Cursor(cursor) => {
                let scanned = self.scan(source, cursor).await;
                let (keys, cursor) = scanned.map_err(|why| why.to_string())?;
                next = Some(if cursor == b"0" { Walk::End } else { Walk::Cursor(cursor) });
                keys
            }
        };
        let is_moved = |key: &Vec<u8>| {
            self.copying.way_of(key).is_some_and(|way| way.from.address == source.address)
        };
        let keys: Vec<_> = keys.into_iter().filter(is_moved).collect();
        for keys in keys.chunks(BATCH) {
            self.bring(keys).await.map_err(|(_, why)| why)?;
        }
        if let Some(next) = next {
            *walk = next;
        }
        Ok(())
    }

    /// Brings keys over. An error names the old server of those that did not come.
    async fn bring(&mut self, keys: &[Vec<u8>]) -> Result<(), (Arc<Server>, String)> {
        let mut ways: Vec<(Way, Vec<&[u8]>)> = Vec::new();
        for key in keys {
            let Some(way) = self.copying.way_of(key) else { continue };
            if self.copying.has_given_up(&way.from) {
                continue;
            }
            let is_same = |(known, _): &&mut (Way, Vec<&[u8]>)| {
                known.from.address == way.from.address && known.to.address == way.to.address
            };
            match ways.iter_mut().find(is_same) {
                Some((_, keys)) => keys.push(key),
                None => ways.push((way.clone(), vec![key])),
            }
        }
        for (way, keys) in ways {
            let brought = self.bring_along(&way, &keys).await;
            brought.map_err(|why| (way.from.clone(), why.to_string()))?;
        }
        Ok(())
    }

    async fn bring_along(&mut self, way: &Way, keys: &[&[u8]]) -> io::Result<()> {
        let items = self.fetch(way, keys).await?;
        let mut stored = Vec::new();
        for (key, fate) in keys.iter().zip(self.store(way, keys, &items).await?) {
            match fate {
                Fate::Nothing => {}
                Fate::There => stored.push(*key),
                Fate::Unfit => _ = self.copying.cold.add(1),
            }
        }
        // Only now: if this is cut short, the next try finds the keys at both servers.
        self.remove(&way.from, &stored).await?;
        self.copying.copied.add(stored.len() as u64);
        Ok(())
    }

    /// Reads keys at their old server.
    async fn fetch(&mut self, way: &Way, keys: &[&[u8]]) -> io::Result<Vec<Item>> {
        let (source, is_text) = (&way.from, way.to.kind == Kind::Memcached);
        let mut request = Vec::new();
        if source.kind == Kind::Memcached {
            // Other keys, which clients of Redis may name, cannot be there.
            let keys: Vec<_> = keys.iter().map(|key| is_key(key).then_some(*key)).collect();
            let asked = keys.iter().flatten();
            asked.clone().for_each(|key| line(&[b"mg ", key, b" v f t"], &mut request));
            let replies = self.ask(source, &request, META, asked.count()).await?;
            let mut replies = replies.iter();
            let item = |reply: Option<&Vec<u8>>| reply.map_or(Item::Gone, |it| memcached_item(it));
            return Ok(keys.iter().map(|key| item(key.and_then(|_| replies.next()))).collect());
        }
        for key in keys {
            write_request([b"PTTL", *key].into_iter(), &mut request);
            let verb: &[u8] = if is_text { b"GET" } else { b"DUMP" };
            write_request([verb, *key].into_iter(), &mut request);
        }
        let replies = self.ask(source, &request, Form::Resp, keys.len() * 2).await?;
        replies.chunks(2).map(|pair| redis_item(&pair[0], &pair[1], is_text)).collect()
    }

    /// Stores items at their new server, unless that has these keys.
    async fn store(&mut self, way: &Way, keys: &[&[u8]], items: &[Item]) -> io::Result<Vec<Fate>> {
        let target = &way.to;
        let mut request = Vec::new();
        let mut asked = Vec::new();
        for (key, item) in keys.iter().zip(items) {
            asked.push(write_store(target.kind, key, item, &mut request));
        }
        let form = if target.kind == Kind::Memcached { META } else { Form::Resp };
        let n = asked.iter().filter(|asked| **asked).count();
        let mut replies = self.ask(target, &request, form, n).await?.into_iter();
        let fates = items.iter().zip(asked).map(|(item, asked)| match (asked, item) {
            (true, _) => fate(&replies.next().unwrap_or_default()),
            (false, Item::Gone) => Ok(Fate::Nothing),
            (false, _) => Ok(Fate::Unfit),
        });
        fates.collect()
    }

    async fn remove(&mut self, source: &Arc<Server>, keys: &[&[u8]]) -> io::Result<()> {
        let mut request = Vec::new();
        let form = if source.kind == Kind::Memcached { META } else { Form::Resp };
        for key in keys {
            match source.kind {
                Kind::Memcached => line(&[b"md ", key], &mut request),
                Kind::Redis | Kind::Hotring => {
                    write_request([b"DEL", *key].into_iter(), &mut request);
                }
            }
        }
        for reply in self.ask(source, &request, form, keys.len()).await? {
            if !matches!(reply.first(), Some(b':' | b'H' | b'N')) {
                return Err(refused("it does not remove a key", &reply));
            }
        }
        Ok(())
    }

    /// A page of SCAN: keys, and the next cursor.
    async fn scan(
        &mut self,
        source: &Arc<Server>,
        cursor: &[u8],
    ) -> io::Result<(Vec<Vec<u8>>, Vec<u8>)> {
        let mut request = Vec::new();
        write_request([b"SCAN", cursor, b"COUNT", b"512"].into_iter(), &mut request);
        let reply = self.ask(source, &request, Form::Resp, 1).await?.remove(0);
        let read = || {
            let mut rest = &reply[..];
            let Some(Part::Array(2)) = read_part(&mut rest) else { return None };
            let Some(Part::Bulk(cursor)) = read_part(&mut rest) else { return None };
            let Some(Part::Array(n)) = read_part(&mut rest) else { return None };
            let mut key = || match read_part(&mut rest)? {
                Part::Bulk(key) => Some(key.to_vec()),
                _ => None,
            };
            Some(((0..n).map(|_| key()).collect::<Option<Vec<_>>>()?, cursor.to_vec()))
        };
        read().ok_or_else(|| refused("it does not list its keys", &reply))
    }

    /// The next keys that a memcached lists. True: these are the last ones.
    async fn listed(&self, listing: &mut Link) -> io::Result<(Vec<Vec<u8>>, bool)> {
        let mut keys = Vec::new();
        for _ in 0..LINES {
            let line = listing.next_within(LINE, ANSWER_MAX).await?;
            let line = line.trim_ascii_end();
            if line == b"END" {
                return Ok((keys, true));
            }
            let word =
                line.strip_prefix(b"key=").and_then(|rest| rest.split(|b| *b == b' ').next());
            keys.push(word.and_then(decoded).ok_or_else(|| refused("it lists no keys", line))?);
        }
        Ok((keys, false))
    }

    /// Sends requests, and returns their replies.
    async fn ask(
        &mut self,
        server: &Arc<Server>,
        request: &[u8],
        form: Form,
        n: usize,
    ) -> io::Result<Vec<Vec<u8>>> {
        if n == 0 {
            return Ok(Vec::new());
        }
        let link = self.link(server).await?;
        // A server that does not read would hold this up as long as the kernel lets it.
        let sent = tokio::time::timeout(ANSWER_MAX, link.send(request)).await;
        sent.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let mut replies = Vec::with_capacity(n);
        for _ in 0..n {
            replies.push(link.next_within(form, ANSWER_MAX).await?);
        }
        Ok(replies)
    }

    async fn dial(&self, server: &Server) -> io::Result<Link> {
        let dialled = Link::dial(self.shared, &server.address, &Login::default()).await;
        dialled.map_err(|why| io::Error::other(format!("{}: {why}", server.name)))
    }

    async fn link(&mut self, server: &Arc<Server>) -> io::Result<&mut Link> {
        if !self.links.contains_key(&server.address) {
            let dialled = Link::dial(self.shared, &server.address, &Login::default()).await;
            let link =
                dialled.map_err(|why| io::Error::other(format!("{}: {why}", server.name)))?;
            self.links.insert(server.address.clone(), link);
        }
        Ok(self.links.get_mut(&server.address).expect("it was added"))
    }
}

/// What became of a key.
enum Fate {
    /// There was none.
    Nothing,
    /// The new server has it.
    There,
    /// It stays where it is.
    Unfit,
}

fn refused(what: &str, reply: &[u8]) -> io::Error {
    let reply = String::from_utf8_lossy(&reply[..reply.len().min(100)]);
    io::Error::other(format!("{what}: {}", reply.trim_end()))
}

fn line(words: &[&[u8]], out: &mut Vec<u8>) {
    words.iter().for_each(|word| out.extend_from_slice(word));
    out.extend_from_slice(b"\r\n");
}

fn memcached_item(reply: &[u8]) -> Item {
    let Some(value) = value_of(reply) else { return Item::Gone };
    let ttl = match flag_of(reply, b't') {
        None | Some(-1) => 0,
        Some(seconds) => seconds.saturating_mul(1_000).max(1),
    };
    // The flags of the line alone: the value may hold anything.
    Item::Text { value: value.to_vec(), flags: flag_of(reply, b'f').unwrap_or(0), ttl }
}

/// Of the replies to PTTL, and to DUMP or GET.
fn redis_item(ttl: &[u8], value: &[u8], is_text: bool) -> io::Result<Item> {
    let ttl = ttl.strip_prefix(b":").and_then(|text| parse_i64(text.trim_ascii_end()));
    let ttl = match ttl {
        None => return Err(refused("it does not tell when a key expires", value)),
        Some(-1) => 0,
        Some(ms) => ms.max(1),
    };
    match read_part(&mut &value[..]) {
        Some(Part::Absent | Part::Null) => Ok(Item::Gone),
        Some(Part::Bulk(value)) if is_text => {
            Ok(Item::Text { value: value.to_vec(), flags: 0, ttl })
        }
        Some(Part::Bulk(payload)) => Ok(Item::Dump { payload: payload.to_vec(), ttl }),
        Some(Part::Error(error)) if error.starts_with(b"WRONGTYPE") => Ok(Item::Unfit),
        _ => Err(refused("it does not give a key away", value)),
    }
}

/// Writes the request that stores an item if its key is not there. False: there is nothing that can be stored.
fn write_store(target: Kind, key: &[u8], item: &Item, out: &mut Vec<u8>) -> bool {
    match (item, target) {
        (Item::Gone | Item::Unfit, _) => return false,
        (Item::Dump { payload, ttl }, Kind::Redis | Kind::Hotring) => {
            let ttl = ttl.to_string();
            let words: [&[u8]; 4] = [b"RESTORE", key, ttl.as_bytes(), payload];
            write_request(words.into_iter(), out);
        }
        (Item::Dump { .. }, Kind::Memcached) => return false,
        (Item::Text { .. }, Kind::Memcached) if !is_key(key) => return false,
        (Item::Text { value, flags, ttl }, Kind::Memcached) => {
            let ttl = if *ttl == 0 { 0 } else { time(*ttl) };
            let head = format!(" {} F{flags} T{ttl} ME\r\n", value.len());
            line(&[b"ms ", key, head.as_bytes(), value], out);
        }
        // Redis keeps no flags.
        (Item::Text { flags: 1.., .. }, _) => return false,
        (Item::Text { value, ttl, .. }, _) => {
            let ttl = ttl.to_string();
            let words: [&[u8]; 6] = [b"SET", key, value, b"NX", b"PX", ttl.as_bytes()];
            let n = if ttl == "0" { 4 } else { 6 };
            write_request(words[..n].iter().copied(), out);
        }
    }
    true
}

fn fate(reply: &[u8]) -> io::Result<Fate> {
    match reply {
        // It was stored, or a client has stored a newer one.
        [b'+', ..] | [b'H', b'D', ..] | [b'N', b'S', ..] | [b'$', ..] | [b'_', ..] => {
            Ok(Fate::There)
        }
        _ if reply.starts_with(b"-BUSYKEY") => Ok(Fate::There),
        _ if reply.starts_with(b"-ERR DUMP payload")
            || reply.starts_with(b"-ERR Bad data format")
            || reply.starts_with(b"SERVER_ERROR object too large")
            || reply.starts_with(b"CLIENT_ERROR") =>
        {
            Ok(Fate::Unfit)
        }
        _ => Err(refused("the new server does not take a key", reply)),
    }
}

/// A key as memcached lists it, with bytes as %41.
fn decoded(word: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            key.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        key.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(key)
}
