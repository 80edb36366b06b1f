//! Copies the keys of moved slots from their old servers to their new ones, beside clients.
//!
//! First the new servers are cleared: what they have of moved slots is old, and is overwritten or deleted. Then the old
//! servers' keys are listed. A key is read at the old server, stored at the new one, and then removed from the old one.
//! What clients want comes first.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_protocol::memcached::ReplyForm;

use super::copying::{Copying, Way};
use super::item::{
    Fate, Item, fate, line, memcached_item, meta_key, redis_item, refused, write_store,
};
use super::listing::{LIST, Listed, listed, page};
use super::pool::Foreign;
use super::server::{Kind, Server};
use crate::link::{Link, Login};
use crate::plan::write_request;
use crate::reply::Form;
use crate::shared::Shared;

/// Keys that come over at once.
const BATCH: usize = 64;

/// Failures in a row after which a server is given up.
const TRIES: u32 = 20;

/// How often keys that their new server does not take are tried again.
const KEY_TRIES: u32 = 3;

/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(250);

/// Limit of the time for all that is asked of a server at once.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);

/// Pause between looks at whether a server that owes replies is ejected.
const EJECTION_LOOK: Duration = Duration::from_millis(50);

/// How long a memcached whose crawler is busy is asked again.
const BUSY_MAX: Duration = Duration::from_secs(600);

/// Why the keys of a memcached are not copied.
const NO_LIST: &str =
    "it does not list its keys, for which it must be 1.6.13 or later with its LRU crawler on";

/// Pause while threads have requests by the old layout.
const READY_PAUSE: Duration = Duration::from_millis(10);

const META: Form = Form::Memcached { form: ReplyForm::Meta, is_silent: false };

/// Copies whenever the pool wants it. Never ends.
pub(crate) async fn keep_copying(shared: &Arc<Shared>, pool: &Foreign) {
    loop {
        pool.copy_begun().await;
        let Some(copying) = pool.copying() else { continue };
        while copying.ready() < shared.settings.threads.max(1) && !copying.is_stopped() {
            tokio::time::sleep(READY_PAUSE).await;
        }
        let (links, stored) = (HashMap::new(), HashSet::new());
        let why = String::new();
        let mut copier =
            Copier { shared, copying: &copying, links, refusals: 0, stored, why, is_cut: false };
        let failures = copier.copy_all().await;
        let why = copier.why.replace(['\r', '\n', ','], " ");
        let numbers = format!("copied={},cold={}", copying.copied.value(), copying.cold.value());
        let how = match failures.is_empty() {
            _ if copier.is_cut => format!("stopped,{numbers}"),
            true => format!("done,{numbers}"),
            false => format!("gave_up,{numbers},servers={},why={why}", failures.join(" ")),
        };
        tracing::info!("copying keys has ended: {how}");
        pool.end_copy(how, |layout| shared.publish(layout));
    }
}

struct Copier<'c> {
    shared: &'c Arc<Shared>,
    copying: &'c Arc<Copying>,
    links: HashMap<Arc<str>, Link>,
    /// Batches in a row with keys that their new server did not take.
    refusals: u32,
    /// Keys that their new server has, and that the old one may have lost already.
    stored: HashSet<Vec<u8>>,
    /// Why a server was given up last.
    why: String,
    /// It was stopped before it had all keys.
    is_cut: bool,
}

/// A server that does not do its part.
struct Failure {
    server: Arc<Server>,
    why: String,
}

/// Which end of a key's way a server is.
#[derive(Clone, Copy)]
enum End {
    From,
    To,
}

impl End {
    fn of(self, way: &Way) -> &Arc<Server> {
        match self {
            End::From => &way.from,
            End::To => &way.to,
        }
    }
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

/// How far a walk has come.
enum Went {
    /// Keys have come over.
    On,
    /// It has begun.
    Out,
    /// The server lists its keys later.
    Nowhere,
    /// The server never lists them, as it says.
    Refused(String),
}

impl Walk {
    fn of(source: &Server) -> Self {
        match source.kind {
            Kind::Memcached => Walk::NotListed,
            Kind::Redis | Kind::Hotring => Walk::Cursor(b"0".to_vec()),
        }
    }
}

impl Copier<'_> {
    /// The names of the servers that had to be given up.
    async fn copy_all(&mut self) -> Vec<String> {
        let (targets, sources) = (self.copying.targets(), self.copying.sources());
        for target in &targets {
            self.walk(target, End::To).await;
        }
        self.copying.end_clearing();
        for source in &sources {
            self.walk(source, End::From).await;
        }
        self.serve_wanted().await;
        let given_up = sources.iter().chain(&targets).filter(|it| self.copying.has_given_up(it));
        let names: BTreeSet<_> = given_up.map(|server| server.name.clone()).collect();
        names.into_iter().collect()
    }

    /// Brings all keys that a server has and that are on this end of their way.
    async fn walk(&mut self, server: &Arc<Server>, end: End) {
        let mut walk = Walk::of(server);
        let mut failures = 0;
        let mut busy_since = None;
        while !matches!(walk, Walk::End) && !self.copying.has_ended_for(server) {
            self.serve_wanted().await;
            match self.go_on(server, end, &mut walk).await {
                Ok(Went::On) => (failures, busy_since) = (0, None),
                Ok(Went::Out) => {}
                Ok(Went::Nowhere) => {
                    let since = *busy_since.get_or_insert_with(Instant::now);
                    match since.elapsed() < BUSY_MAX {
                        true => self.let_time_pass().await,
                        false => self.give_up(server, "its crawler is busy".to_string()),
                    }
                }
                Ok(Went::Refused(line)) => self.give_up(server, format!("{NO_LIST}: {line}")),
                Err(failure) => {
                    if matches!(walk, Walk::Listing(_)) {
                        // A list cannot go on. What has come over is not in the next one.
                        walk = Walk::NotListed;
                    }
                    self.get_over(failure, &mut failures).await;
                }
            }
        }
        let is_done = matches!(walk, Walk::End) || self.copying.has_given_up(server);
        self.is_cut |= !is_done && self.copying.is_stopped();
    }

    /// Brings what clients want.
    async fn serve_wanted(&mut self) {
        let mut failures = 0;
        loop {
            let keys = self.copying.take_wanted(BATCH);
            if keys.is_empty() {
                return;
            }
            while !self.copying.is_stopped()
                && let Err(failure) = self.bring(&keys).await
            {
                self.get_over(failure, &mut failures).await;
            }
        }
    }

    /// Pauses after a failure. A server that is ejected, or fails too often, is given up.
    async fn get_over(&mut self, Failure { server, why }: Failure, failures: &mut u32) {
        *failures += 1;
        tracing::warn!(server = server.name, "cannot copy keys: {why}");
        self.links.remove(&server.address);
        if server.health.is_ejected() || *failures >= TRIES {
            *failures = 0;
            return self.give_up(&server, why);
        }
        tokio::time::sleep(PAUSE).await;
    }

    /// Waits for another list to end. Clients do not wait for that.
    async fn let_time_pass(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < PAUSE {
            self.serve_wanted().await;
            tokio::time::sleep(READY_PAUSE).await;
        }
    }

    fn give_up(&mut self, server: &Server, why: String) {
        tracing::warn!(server = server.name, "its keys are not copied: {why}");
        self.copying.give_up(server);
        self.why = why;
    }

    /// Brings the next keys of a walk.
    async fn go_on(
        &mut self,
        server: &Arc<Server>,
        end: End,
        walk: &mut Walk,
    ) -> Result<Went, Failure> {
        let next;
        let mut keys = match walk {
            Walk::End => return Ok(Went::On),
            Walk::NotListed => {
                // Its own connection, since the list stays behind while its keys come over.
                *walk = Walk::Listing(Box::new(self.list(server).await?));
                return Ok(Went::Out);
            }
            Walk::Listing(listing) => match self.within(server, listed(listing)).await? {
                Listed::More(keys) => {
                    next = None;
                    keys
                }
                Listed::Last(keys) => {
                    next = Some(Walk::End);
                    keys
                }
                Listed::Busy => {
                    *walk = Walk::NotListed;
                    return Ok(Went::Nowhere);
                }
                Listed::Never(line) => return Ok(Went::Refused(line)),
            },
            Walk::Cursor(cursor) => {
                let (keys, cursor) = self.scan(server, cursor).await?;
                next = Some(if cursor == b"0" { Walk::End } else { Walk::Cursor(cursor) });
                keys
            }
        };
        let is_of = |way: &Way| end.of(way).address == server.address;
        keys.retain(|key| self.copying.way_of(key).is_some_and(is_of));
        keys.sort_unstable();
        keys.dedup();
        for keys in keys.chunks(BATCH) {
            if self.copying.has_ended_for(server) {
                return Ok(Went::On);
            }
            self.bring(keys).await?;
        }
        if let Some(next) = next {
            *walk = next;
        }
        Ok(Went::On)
    }

    /// Brings those keys over that have not come.
    async fn bring(&mut self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let mut ways: Vec<(Way, Vec<&[u8]>)> = Vec::new();
        for key in keys {
            let Some(way) = self.copying.way_of(key) else { continue };
            if !self.copying.lacks_key(key) {
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
        for (way, mut keys) in ways {
            while !keys.is_empty() {
                keys = self.bring_along(&way, &keys).await?;
            }
        }
        Ok(())
    }

    /// Returns those keys that must be tried again.
    async fn bring_along<'k>(
        &mut self,
        way: &Way,
        keys: &[&'k [u8]],
    ) -> Result<Vec<&'k [u8]>, Failure> {
        let items = self.fetch(way, keys).await?;
        let (mut stored, mut absent) = (Vec::new(), Vec::new());
        let (mut cold, mut again) = (Vec::new(), Vec::new());
        for (key, fate) in keys.iter().zip(self.store(way, keys, &items).await?) {
            match fate {
                // A try before this one was cut short.
                Fate::Nothing if self.stored.contains(*key) => stored.push(*key),
                Fate::Nothing => absent.push(*key),
                Fate::There => stored.push(*key),
                Fate::Unfit => cold.push(*key),
                Fate::Refused if self.refusals >= KEY_TRIES => cold.push(*key),
                Fate::Refused => again.push(*key),
            }
        }
        // Only now: if this is cut short, the next try finds the keys at both servers, or at the new one alone.
        self.stored.extend(stored.iter().map(|key| key.to_vec()));
        self.remove(&way.from, &stored, None).await?;
        if self.copying.clears() {
            let old = [&absent[..], &cold].concat();
            self.remove(&way.to, &old, Some(b"-NOPERM")).await?;
        }
        self.copying.copied.add(stored.len() as u64);
        self.copying.settle(&[&stored[..], &absent].concat());
        self.copying.leave(&way.from, &cold);
        stored.iter().for_each(|key| _ = self.stored.remove(*key));
        if !again.is_empty() {
            self.refusals += 1;
            tokio::time::sleep(PAUSE).await;
        } else if cold.is_empty() {
            self.refusals = 0;
        }
        Ok(again)
    }

    /// Reads keys at their old server.
    async fn fetch(&mut self, way: &Way, keys: &[&[u8]]) -> Result<Vec<Item>, Failure> {
        let (source, is_text) = (&way.from, way.to.kind == Kind::Memcached);
        let mut request = Vec::new();
        let refused = |why| Failure { server: source.clone(), why };
        if source.kind == Kind::Memcached {
            // Other keys, which clients of Redis may name, cannot be there.
            let words: Vec<_> = keys.iter().map(|key| meta_key(key)).collect();
            for (key, flag) in words.iter().flatten() {
                line(&[b"mg ", key, b" v f t", flag], &mut request);
            }
            let replies = self.ask(source, &request, META, words.iter().flatten().count()).await?;
            let mut replies = replies.iter();
            let item = |word: &Option<_>| match word.as_ref().and_then(|_| replies.next()) {
                Some(reply) => memcached_item(reply),
                None => Ok(Item::Gone),
            };
            return words.iter().map(item).collect::<Result<_, _>>().map_err(refused);
        }
        for key in keys {
            write_request([b"PTTL", *key].into_iter(), &mut request);
            let verb: &[u8] = if is_text { b"GET" } else { b"DUMP" };
            write_request([verb, *key].into_iter(), &mut request);
        }
        let replies = self.ask(source, &request, Form::Resp, keys.len() * 2).await?;
        let items = replies.chunks(2).map(|pair| redis_item(&pair[0], &pair[1], is_text));
        items.collect::<Result<_, _>>().map_err(refused)
    }

    /// Stores items at their new server.
    async fn store(
        &mut self,
        way: &Way,
        keys: &[&[u8]],
        items: &[Item],
    ) -> Result<Vec<Fate>, Failure> {
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
        let fates = fates.collect::<Result<_, _>>();
        fates.map_err(|why| Failure { server: target.clone(), why })
    }

    /// Removes keys. An excused error is none.
    async fn remove(
        &mut self,
        server: &Arc<Server>,
        keys: &[&[u8]],
        excused: Option<&[u8]>,
    ) -> Result<(), Failure> {
        let mut request = Vec::new();
        let is_memcached = server.kind == Kind::Memcached;
        let mut n = 0;
        for key in keys {
            match is_memcached.then(|| meta_key(key)) {
                Some(Some((key, flag))) => line(&[b"md ", &key, flag], &mut request),
                // It cannot be there.
                Some(None) => continue,
                None => write_request([b"DEL", *key].into_iter(), &mut request),
            }
            n += 1;
        }
        let form = if is_memcached { META } else { Form::Resp };
        let is_excused = |reply: &[u8]| excused.is_some_and(|error| reply.starts_with(error));
        for reply in self.ask(server, &request, form, n).await? {
            // What the proxy may not write it may not show either.
            if !matches!(reply.first(), Some(b':' | b'H' | b'N')) && !is_excused(&reply) {
                let why = refused("it does not remove a key", &reply);
                return Err(Failure { server: server.clone(), why });
            }
        }
        Ok(())
    }

    /// A page of SCAN: keys, and the next cursor.
    async fn scan(
        &mut self,
        source: &Arc<Server>,
        cursor: &[u8],
    ) -> Result<(Vec<Vec<u8>>, Vec<u8>), Failure> {
        let mut request = Vec::new();
        write_request([b"SCAN", cursor, b"COUNT", b"512"].into_iter(), &mut request);
        let reply = self.ask(source, &request, Form::Resp, 1).await?.remove(0);
        page(&reply).map_err(|why| Failure { server: source.clone(), why })
    }

    /// Has a memcached list its keys.
    async fn list(&mut self, server: &Arc<Server>) -> Result<Link, Failure> {
        let list = async {
            let mut listing = dial(self.shared, server).await?;
            listing.send(LIST).await?;
            Ok(listing)
        };
        self.within(server, list).await
    }

    /// Sends requests, and returns their replies.
    async fn ask(
        &mut self,
        server: &Arc<Server>,
        request: &[u8],
        form: Form,
        n: usize,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        if n == 0 {
            return Ok(Vec::new());
        }
        let known = self.links.remove(&server.address);
        let exchange = async {
            let mut link = match known {
                Some(link) => link,
                None => dial(self.shared, server).await?,
            };
            link.send(request).await?;
            let mut replies = Vec::with_capacity(n);
            for _ in 0..n {
                replies.push(link.next_of(form).await?);
            }
            Ok((link, replies))
        };
        let (link, replies) = self.within(server, exchange).await?;
        self.links.insert(server.address.clone(), link);
        Ok(replies)
    }

    /// Ends what takes too long, and at once what is asked of an ejected server.
    async fn within<T>(
        &self,
        server: &Arc<Server>,
        exchange: impl Future<Output = io::Result<T>>,
    ) -> Result<T, Failure> {
        let failed = |why: String| Failure { server: server.clone(), why };
        let ejected = async {
            while !server.health.is_ejected() {
                tokio::time::sleep(EJECTION_LOOK).await;
            }
        };
        let done = tokio::select! {
            biased;
            () = ejected => return Err(failed("it is ejected".to_string())),
            done = tokio::time::timeout(EXCHANGE_MAX, exchange) => done,
        };
        let done = done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        done.map_err(|why| {
            self.shared.note_failure(server, &format!("keys cannot be copied: {why}"));
            failed(why.to_string())
        })
    }
}

async fn dial(shared: &Shared, server: &Server) -> io::Result<Link> {
    let dialled = Link::dial(shared, &server.address, &Login::default()).await;
    dialled.map_err(|why| io::Error::other(why.to_string()))
}
