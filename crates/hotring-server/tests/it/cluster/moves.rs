//! Slots move between two shards while clients use them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hotring_cluster::directory::{MoveId, Wanted, move_name, move_value};
use hotring_cluster::{ShardId, SlotSet, slot_of};
use hotring_log::wire::{FrameWriter, Kind, WIRE_VERSION};

use super::coordinator::AtCommit;
use super::*;
use crate::wire::bulk;

/// Two shards, of a primary and a replica each.
pub(super) struct Shards {
    pub(super) keeper: Keeper,
    /// The nodes: a primary and its replica, and those of the other shard.
    pub(super) nodes: [Node; 4],
}

impl Shards {
    pub(super) fn new(name: &str) -> Shards {
        let keeper = Keeper::new();
        let nodes = ["a", "b", "c", "d"];
        let nodes = nodes.map(|part| Node::new(&keeper, &format!("move-{name}-{part}"), None));
        let [a, b, c, d] = &nodes;
        found(&keeper, &[vec![a, b], vec![c, d]]);
        for primary in [a, c] {
            wait_until_it_serves(primary);
        }
        Shards { keeper, nodes }
    }

    /// Wants slots moved.
    pub(super) fn order(&self, id: MoveId, from: ShardId, to: ShardId, slots: &SlotSet) {
        let value = move_value(&Wanted { from, to, slots: slots.clone() });
        self.change(Change::Put { name: move_name(id), value, lease: None });
    }

    pub(super) fn cancel(&self, id: MoveId) {
        self.change(Change::Delete { name: move_name(id) });
    }

    pub(super) fn change(&self, change: Change) {
        let transaction = Transaction { expect: Vec::new(), changes: vec![change] };
        let done = self.keeper.transact(transaction);
        assert!(matches!(done, Ok(Outcome::Done(_))), "{done:?}");
    }

    pub(super) fn wait_until_moved(&self, to: ShardId, slots: &SlotSet) {
        let has =
            |directory: &Directory| slots.iter().all(|slot| directory.owners.of(slot) == Some(to));
        wait_for("the slots are moved", || has(&self.keeper.directory()));
    }

    /// Moves slots and waits for that.
    pub(super) fn move_slots(&self, id: MoveId, from: ShardId, to: ShardId, slots: &SlotSet) {
        self.order(id, from, to, slots);
        self.wait_until_moved(to, slots);
    }

    fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    pub(super) fn client(&self) -> Client {
        Client { ports: self.ports(), at: self.nodes[0].port, wires: BTreeMap::new(), next: 0 }
    }

    /// The node that leads a shard by the records.
    pub(super) fn primary(&self, shard: ShardId) -> usize {
        let directory = self.keeper.directory();
        let primary = directory.shards[&shard].1.primary.node;
        let port = directory.node(primary).unwrap().port;
        self.nodes.iter().position(|node| node.port == port).unwrap()
    }
}

/// A client that follows redirections.
pub(super) struct Client {
    ports: Vec<u16>,
    at: u16,
    wires: BTreeMap<u16, Wire>,
    /// The node to ask next if the present one is gone.
    next: usize,
}

impl Client {
    /// Asks until there is a reply that is no redirection and no refusal. Returns it with the number of requests that
    /// may have been done without a reply.
    fn insist(&mut self, line: &str) -> (Reply, u64) {
        let (begun, mut open) = (Instant::now(), 0);
        loop {
            assert!(begun.elapsed() < PATIENCE, "{line}: no answer");
            match self.ask(line) {
                Some(Reply::Error(why)) => self.heed(&why),
                Some(reply) => return (reply, open),
                None => open += 1,
            }
        }
    }

    pub(super) fn say(&mut self, line: &str) -> Reply {
        self.insist(line).0
    }

    fn ask(&mut self, line: &str) -> Option<Reply> {
        let at = self.at;
        let address = SocketAddr::from(([127, 0, 0, 1], at));
        if let Entry::Vacant(place) = self.wires.entry(at)
            && TcpStream::connect(address).is_ok()
        {
            place.insert(Wire::connect(address));
        }
        let said = self.wires.get_mut(&at).map(|wire| wire.try_say(line));
        if let Some(Ok(reply)) = said {
            return Some(reply);
        }
        self.wires.remove(&at);
        self.at = self.ports[self.next % self.ports.len()];
        self.next += 1;
        std::thread::sleep(Duration::from_millis(5));
        None
    }

    fn heed(&mut self, why: &str) {
        let moved = why.strip_prefix("MOVED ").and_then(|rest| rest.rsplit_once(':'));
        if let Some((_, port)) = moved {
            self.at = port.parse().unwrap();
        } else {
            let may_pass =
                ["CLUSTERDOWN", "LOADING", "READONLY", "NOREPLICAS", "TRYAGAIN", "UNKNOWN"];
            assert!(may_pass.iter().any(|word| why.starts_with(word)), "{why}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

pub(super) fn slots(names: &[&str]) -> SlotSet {
    names.iter().map(|name| slot_of(name.as_bytes())).collect()
}

/// The tags of a shard: those of even slots are shard 0's.
pub(super) fn tags_of(shard: ShardId, count: usize) -> Vec<String> {
    let all = (0..).map(|n: u32| format!("t{n}"));
    all.filter(|tag| u32::from(slot_of(tag.as_bytes())) % 2 == shard).take(count).collect()
}

#[test]
fn every_kind_of_value_moves_with_its_slot() {
    let shards = Shards::new("kinds");
    let tag = &tags_of(0, 1)[0];
    let mut client = shards.client();
    let long = "x".repeat(100_000);
    let writes = [
        "SET {T}s text".to_string(),
        format!("SET {{T}}long {long}"),
        "SET {T}number 41".to_string(),
        "SET {T}e text PX 10000000".to_string(),
        "RPUSH {T}l a b c".to_string(),
        "SADD {T}set x y z".to_string(),
        "SADD {T}ints 1 2 3".to_string(),
        "ZADD {T}z 1 one 2 two".to_string(),
        "HSET {T}h f v g w".to_string(),
        "PFADD {T}hll a b c".to_string(),
        "SETBIT {T}bits 77 1".to_string(),
        "GEOADD {T}geo 13.361389 38.115556 Palermo".to_string(),
        "PIN {T}s".to_string(),
    ];
    for write in &writes {
        let reply = client.say(&write.replace("{T}", &format!("{{{tag}}}")));
        assert!(!reply.is_error(), "{write:.40}: {reply:?}");
    }
    for n in 0..1000 {
        for write in ["RPUSH {T}L e", "SADD {T}S e", "ZADD {T}Z 1 e", "HSET {T}H e 1"] {
            client.say(&format!("{}{n}", write.replace("{T}", &format!("{{{tag}}}"))));
        }
    }
    let reads = [
        "GET {T}s",
        "STRLEN {T}long",
        "GET {T}number",
        "GET {T}e",
        "LRANGE {T}l 0 -1",
        "SCARD {T}set",
        "SISMEMBER {T}set y",
        "SMEMBERS {T}ints",
        "ZRANGE {T}z 0 -1 WITHSCORES",
        "HGET {T}h g",
        "HLEN {T}h",
        "PFCOUNT {T}hll",
        "GETBIT {T}bits 77",
        "GEOPOS {T}geo Palermo",
        "LRANGE {T}L 0 -1",
        "SCARD {T}S",
        "ZRANGE {T}Z 0 -1",
        "HLEN {T}H",
        "HGET {T}H e7",
        "PEXPIRETIME {T}e",
        "OBJECT ENCODING {T}L",
        "PINNED",
    ];
    let read = |client: &mut Client| {
        reads.map(|read| (read, client.say(&read.replace("{T}", &format!("{{{tag}}}")))))
    };
    let before = read(&mut client);
    let source = shards.nodes[0].port;
    assert_eq!(client.at, source);
    shards.move_slots(1, 0, 1, &slots(&[tag]));
    assert_eq!(read(&mut client), before);
    assert_eq!(client.at, shards.nodes[2].port);
    assert_eq!(client.say(&format!("INCR {{{tag}}}number")), Reply::Int(42));
    // What was given away is gone there, and what came counts here, at replicas too.
    let mut wires = shards.nodes.each_ref().map(Node::wire);
    let sizes = |wires: &mut [Wire; 4]| wires.each_mut().map(|wire| wire.say("DBSIZE").int());
    // Each shard's primary has had one more key written, to see that it serves.
    wait_for("the source forgets the keys", || sizes(&mut wires)[..2] == [1, 1]);
    wait_for("the target shows the keys", || sizes(&mut wires)[2..] == [17, 17]);
    // And back.
    shards.move_slots(2, 1, 0, &slots(&[tag]));
    assert_eq!(client.say(&format!("INCR {{{tag}}}number")), Reply::Int(43));
    assert_eq!(client.at, source);
    wait_for("the target forgets the keys", || sizes(&mut wires) == [17, 17, 1, 1]);
}

/// What a writer counts with: by the kinds of values that are logged as a whole and as changes.
#[derive(Clone, Copy, Debug)]
enum Counter {
    Number,
    /// A field of a hash with many others.
    Field,
    /// The length of a long list.
    Length,
}

/// Elements of a hash or list that is too long to be one value.
const LARGE: u64 = 600;

impl Counter {
    fn first(self) -> u64 {
        if matches!(self, Counter::Length) { LARGE } else { 0 }
    }

    fn prepare(self, key: &str, client: &mut Client) {
        let items = (0..LARGE).map(|n| format!(" f{n} v"));
        match self {
            Counter::Number => return,
            Counter::Field => client.say(&format!("HSET {key}{}", items.collect::<String>())),
            Counter::Length => client.say(&format!("RPUSH {key}{}", " e".repeat(LARGE as usize))),
        };
    }

    fn write(self, key: &str) -> String {
        match self {
            Counter::Number => format!("INCR {key}"),
            Counter::Field => format!("HINCRBY {key} n 1"),
            Counter::Length => format!("RPUSH {key} e"),
        }
    }

    fn read(self, key: &str) -> String {
        match self {
            Counter::Number => format!("GET {key}"),
            Counter::Field => format!("HGET {key} n"),
            Counter::Length => format!("LLEN {key}"),
        }
    }
}

/// Writers count up, each its own key, and readers must see no older number.
struct Load {
    keys: Vec<(String, Counter)>,
    acknowledged: Vec<AtomicU64>,
    requests: AtomicU64,
    /// The longest time between two acknowledgements of a key, in milliseconds.
    gap: AtomicU64,
    ends: AtomicBool,
}

impl Load {
    fn new(keys: Vec<(String, Counter)>) -> Load {
        let acknowledged = keys.iter().map(|(_, kind)| AtomicU64::new(kind.first())).collect();
        let (requests, gap, ends) = Default::default();
        Load { keys, acknowledged, requests, gap, ends }
    }

    /// Runs `work` beside the clients.
    fn beside<R>(&self, shards: &mut Shards, work: impl FnOnce(&mut Shards) -> R) -> R {
        let mut client = shards.client();
        self.keys.iter().for_each(|(key, kind)| kind.prepare(key, &mut client));
        let clients: Vec<_> = (0..2 * self.keys.len()).map(|_| shards.client()).collect();
        std::thread::scope(|scope| {
            for (at, client) in clients.into_iter().enumerate() {
                scope.spawn(move || match at < self.keys.len() {
                    true => self.write(at, client),
                    false => self.read(at - self.keys.len(), client),
                });
            }
            struct Ends<'a>(&'a AtomicBool);
            impl Drop for Ends<'_> {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
            let _ends = Ends(&self.ends);
            let result = work(shards);
            // The clients go on a while after the last event.
            self.wait_for_more(200);
            result
        })
    }

    fn wait_for_more(&self, more: u64) {
        let before: Vec<u64> = self.now();
        wait_for("all clients go on", || {
            self.now().iter().zip(&before).all(|(now, before)| *now >= before + more / 20)
        });
    }

    fn now(&self) -> Vec<u64> {
        self.acknowledged.iter().map(|number| number.load(Ordering::SeqCst)).collect()
    }

    fn write(&self, at: usize, mut client: Client) {
        let (key, kind) = &self.keys[at];
        let (mut last, mut since) = (kind.first(), Instant::now());
        while !self.ends.load(Ordering::Relaxed) {
            let (reply, open) = client.insist(&kind.write(key));
            let now = reply.int() as u64;
            assert!(
                (last + 1..=last + 1 + open).contains(&now),
                "{key}: {now} after {last}, {open} open"
            );
            self.acknowledged[at].fetch_max(now, Ordering::SeqCst);
            self.gap.fetch_max(since.elapsed().as_millis() as u64, Ordering::Relaxed);
            self.requests.fetch_add(1, Ordering::Relaxed);
            (last, since) = (now, Instant::now());
        }
    }

    fn read(&self, at: usize, mut client: Client) {
        let (key, kind) = &self.keys[at];
        while !self.ends.load(Ordering::Relaxed) {
            let before = self.acknowledged[at].load(Ordering::SeqCst);
            let reply = client.say(&kind.read(key));
            let seen = match &reply {
                Reply::Bulk(text) => String::from_utf8_lossy(text).parse().unwrap(),
                Reply::Int(number) => *number as u64,
                Reply::Null => 0,
                other => panic!("{kind:?} {key}: {other:?}"),
            };
            assert!(seen >= before, "{key}: {reply:?} after {before} was acknowledged");
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Keys of some slots of each shard, and these slots.
fn loaded() -> (Vec<(String, Counter)>, [SlotSet; 2]) {
    let tags = [tags_of(0, 3), tags_of(1, 3)];
    let slots = tags
        .each_ref()
        .map(|tags| tags.iter().map(|tag| slot_of(tag.as_bytes())).collect::<SlotSet>());
    let kinds = [Counter::Number, Counter::Field, Counter::Length];
    let keys = tags.iter().flatten().zip(kinds.into_iter().cycle());
    (keys.map(|(tag, kind)| (format!("{{{tag}}}n"), kind)).collect(), slots)
}

#[test]
fn slots_move_both_ways_at_once_under_load() {
    let mut shards = Shards::new("load");
    let (keys, [even, odd]) = loaded();
    let load = Load::new(keys);
    load.beside(&mut shards, |shards| {
        load.wait_for_more(100);
        for round in 0..4 {
            let (of_even, of_odd) = (round % 2, 1 - round % 2);
            shards.order(2 * u64::from(round), of_even, of_odd, &even);
            shards.order(2 * u64::from(round) + 1, of_odd, of_even, &odd);
            shards.wait_until_moved(of_odd, &even);
            shards.wait_until_moved(of_even, &odd);
            load.wait_for_more(100);
        }
    });
    let (requests, gap) = (load.requests.into_inner(), load.gap.into_inner());
    println!("{requests} requests, the longest wait of a client was {gap} ms");
}

/// Each outcome of the transaction that changes the owner, in turn.
fn move_with(name: &str, outcomes: &[AtCommit]) {
    let mut shards = Shards::new(name);
    let (keys, [even, _]) = loaded();
    let load = Load::new(keys);
    load.beside(&mut shards, |shards| {
        for (round, at_commit) in (0..).zip(outcomes) {
            let (from, to) = (round % 2, 1 - round % 2);
            let source = &shards.nodes[shards.primary(from)].door;
            source.at_next_commit(*at_commit);
            let before = source.commits();
            shards.move_slots(round.into(), from, to, &even);
            assert!(source.commits() > before);
            load.wait_for_more(100);
        }
    });
}

#[test]
fn an_unknown_outcome_is_read_until_it_is_known() {
    move_with("unknown", &[AtCommit::Lost, AtCommit::Late, AtCommit::Lost]);
}

/// The request panicked, and the move waited for its answer for ever, and with it its clients.
#[test]
fn a_panic_on_the_way_to_the_coordinator_loses_no_move() {
    move_with("panic", &[AtCommit::Panics, AtCommit::Panics]);
}

#[test]
fn a_move_that_is_cancelled_at_any_time_leaves_nothing() {
    let mut shards = Shards::new("cancel");
    let (keys, [even, _]) = loaded();
    let load = Load::new(keys);
    load.beside(&mut shards, |shards| {
        let mut random = fastrand::Rng::with_seed(7);
        for id in 0..20 {
            shards.order(id, 0, 1, &even);
            std::thread::sleep(Duration::from_millis(random.u64(0..60)));
            shards.cancel(id);
            let directory = shards.keeper.directory();
            if even.iter().all(|slot| directory.owners.of(slot) == Some(1)) {
                shards.move_slots(100 + id, 1, 0, &even);
            }
        }
        // Keys that came in vain are removed. The other keys of the target are its own: three counters, and the one
        // by which it showed that it serves.
        let mut target = shards.nodes[2].wire();
        wait_for("nothing is left", || target.say("DBSIZE") == Reply::Int(4));
        shards.move_slots(200, 0, 1, &even);
    });
}

/// Kills the primary of a shard at a step of a move. The move completes after the failover.
fn killed(name: &str, doomed: ShardId, at_commit: Option<AtCommit>) {
    let mut shards = Shards::new(name);
    let (keys, [even, _]) = loaded();
    let load = Load::new(keys);
    load.beside(&mut shards, |shards| {
        load.wait_for_more(100);
        wait_for("the replicas may take over", || all_in_sync(&shards.keeper.directory()));
        let (source, victim) = (shards.primary(0), shards.primary(doomed));
        if let Some(at_commit) = at_commit {
            shards.nodes[source].door.at_next_commit(at_commit);
        }
        let before = shards.nodes[source].door.commits();
        shards.order(1, 0, 1, &even);
        match at_commit {
            Some(_) => wait_for("the commit", || shards.nodes[source].door.commits() > before),
            None => std::thread::sleep(Duration::from_millis(10)),
        }
        shards.nodes[victim].kill();
        shards.wait_until_moved(1, &even);
        load.wait_for_more(100);
    });
    println!("{name}: the longest wait of a client was {} ms", load.gap.into_inner());
}

#[test]
fn a_move_goes_on_after_the_death_of_its_source() {
    killed("source-copy", 0, None);
}

#[test]
fn a_move_goes_on_after_the_death_of_its_source_before_the_commit() {
    killed("source-before", 0, Some(AtCommit::Before));
}

#[test]
fn a_move_is_through_after_the_death_of_its_source_behind_the_commit() {
    killed("source-behind", 0, Some(AtCommit::Behind));
}

#[test]
fn a_move_goes_on_after_the_death_of_its_target() {
    killed("target-copy", 1, None);
}

#[test]
fn a_move_is_through_after_the_death_of_its_target_behind_the_commit() {
    killed("target-late", 1, Some(AtCommit::Lost));
}

/// The error that sends clients of a slot to the second shard.
fn moved(shards: &Shards, tag: &str) -> Reply {
    let port = shards.nodes[2].port;
    Reply::Error(format!("MOVED {} 127.0.0.1:{port}", slot_of(tag.as_bytes())))
}

#[test]
fn clients_that_wait_for_keys_are_sent_to_the_new_owner() {
    let shards = Shards::new("waiting");
    let tags = tags_of(0, 2);
    let (tag, other) = (&tags[0], &tags[1]);
    let source = &shards.nodes[0];
    let mut wires = [0; 3].map(|_| source.wire());
    let [popper, waiter, stays] = &mut wires;
    popper.send(format!("BLPOP {{{tag}}}l 0\r\n").as_bytes());
    waiter.send(format!("WAITKEY {{{tag}}}w 0\r\n").as_bytes());
    stays.send(format!("BLPOP {{{other}}}l 0\r\n").as_bytes());
    std::thread::sleep(Duration::from_millis(100));
    shards.move_slots(1, 0, 1, &slots(&[tag]));
    assert_eq!([popper.reply(), waiter.reply()], [0; 2].map(|_| moved(&shards, tag)));
    assert_eq!(source.wire().say(&format!("RPUSH {{{other}}}l e")), Reply::Int(1));
    assert_eq!(stays.reply().items()[1], bulk("e"));
}

/// A key that is another shard's now may have been changed there.
#[test]
fn a_transaction_that_watches_a_key_of_another_shard_fails() {
    let shards = Shards::new("watching");
    let tags = tags_of(0, 2);
    let (tag, other) = (&tags[0], &tags[1]);
    let mut watcher = shards.nodes[0].wire();
    for line in [format!("SET {{{tag}}}k 1"), format!("WATCH {{{tag}}}k"), "MULTI".to_string()] {
        assert_eq!(watcher.say(&line), ok());
    }
    assert_eq!(watcher.say(&format!("SET {{{other}}}k 1")), Reply::Simple("QUEUED".into()));
    shards.move_slots(1, 0, 1, &slots(&[tag]));
    let new = format!("SET {{{tag}}}k 2");
    wait_for("the new owner serves", || shards.nodes[2].wire().say(&new) == ok());
    assert_eq!(watcher.say("EXEC"), Reply::Null);
    assert_eq!(watcher.say(&format!("EXISTS {{{other}}}k")), Reply::Int(0));
}

#[test]
fn clients_that_listen_or_keep_copies_hear_of_a_move() {
    let shards = Shards::new("listening");
    let tag = &tags_of(0, 1)[0];
    let [mut listener, mut tracker] = [0; 2].map(|_| shards.nodes[0].wire());
    for line in [&format!("SSUBSCRIBE {{{tag}}}c"), "HELLO 3", "CLIENT TRACKING ON"] {
        let wire = if line.starts_with("SSUB") { &mut listener } else { &mut tracker };
        assert!(!wire.say(line).is_error());
    }
    tracker.say(&format!("GET {{{tag}}}k"));
    shards.move_slots(1, 0, 1, &slots(&[tag]));
    let pushed = tracker.reply();
    assert!(matches!(&pushed, Reply::Push(items) if items[0] == bulk("invalidate")), "{pushed:?}");
    assert!(listener.is_closed());
}

/// Only the source of a move that the records have may bring keys, and nothing that it sends ends the server.
#[test]
fn links_of_moves_are_refused_or_end() {
    let shards = Shards::new("links");
    // The slots are the target's already, so the source itself does not begin.
    shards.order(7, 0, 1, &slots(&[&tags_of(1, 1)[0]]));
    let [target, replica] = [&shards.nodes[2], &shards.nodes[3]];
    let begins = format!("HOTRING.IMPORT {WIRE_VERSION} 7 0");
    wait_for("the record is seen", || target.wire().say(&begins) == ok());
    for (node, wrong, why) in [
        (target, "HOTRING.IMPORT 1 7 0", "upgrade"),
        (target, &begins.replace(" 7 0", " 8 0"), "no such move"),
        (target, &begins.replace(" 7 0", " 7 1"), "no such move"),
        (&shards.nodes[0], &begins, "no such move"),
        (replica, &begins, "not the primary"),
    ] {
        wait_for(why, || node.wire().say(wrong).text().contains(why));
    }
    let alone = TestServer::new();
    assert!(alone.connect().say(&begins).text().contains("cluster support disabled"));
    let nonsense: [&[u8]; 3] = [&[0; 64], &[255; 64], b"PING\r\nPING\r\nPING\r\nPING\r\n"];
    let frame = |kind, body: &[u8]| {
        let mut bytes = Vec::new();
        FrameWriter::default().message(&mut bytes, kind, body);
        bytes
    };
    let frames = [frame(Kind::Message, b"?"), frame(Kind::CopyBegin, &[0; 16])];
    let frames = frames.iter().map(|frame| &frame[..]);
    for bytes in nonsense.into_iter().chain(frames) {
        let mut link = target.wire();
        assert_eq!(link.say(&begins), ok());
        link.send(bytes);
        assert!(link.is_closed(), "{}", bytes.escape_ascii());
    }
    let mut admin = target.wire();
    assert_eq!(admin.say("ACL SETUSER u on >pw +hotring.import"), ok());
    let mut link = target.wire();
    assert_eq!([link.say("AUTH u pw"), link.say(&begins)], [ok(), ok()]);
    assert_eq!(admin.say("ACL DELUSER u"), Reply::Int(1));
    assert!(link.is_closed());
}
