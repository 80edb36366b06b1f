//! What clients see while slots of their node move.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hotring_cluster::SlotSet;
use hotring_cluster::directory::MoveId;
use hotring_log::{Effect, Records, pack};
use hotring_protocol::Version;
use hotring_store::{Importer, Session, Watched};

use super::cluster::{node_of, publish};
use crate::exec::dialogue::Dialogue;
use crate::exec::{Conversation, Executor, WaitEnd};
use crate::host::fiber::{Batch, Fiber, Step};
use crate::state::client::Wait;
use crate::state::cluster::Held;
use crate::state::cluster::tests::{node, tenure};
use crate::state::server::Server;

/// The slot of `b`.
const SLOT: &str = "3300";
const MOVE: MoveId = 7;
const MOVED: &str = "-MOVED 3300 10.0.0.3:7003¶";

fn slots(text: &str) -> SlotSet {
    text.parse().unwrap()
}

/// Node 1, the primary of shard 1, whose store obeys the records.
fn primary() -> (Dialogue, Arc<Server>, Session) {
    let dialogue = node_of(1, Version::Resp2);
    let server = dialogue.server();
    let mut session = server.store.session();
    server.renew_grounds(&mut session);
    (dialogue, server, session)
}

fn hold(server: &Server, session: &mut Session, reads: Option<bool>) {
    let held = reads.map(|reads| Held { slots: slots(SLOT), reads });
    server.hold_slots(MOVE, held, session);
}

/// Gives the slot to shard 2.
fn give_away(dialogue: &Dialogue, server: &Server, session: &mut Session) {
    publish(dialogue, |directory| directory.owners.give(3300, 2));
    server.renew_grounds(session);
}

/// A key as a part of another store has it.
fn part(key: &[u8]) -> Vec<u8> {
    let (mut scratch, mut packed) = (Records::new(), Vec::new());
    let put = Effect::Put { key, form: 0, expire_at: None, value: b"1" };
    pack(&put, &mut scratch, &mut packed);
    packed
}

#[test]
fn requests_for_slots_that_are_held_wait_and_then_go_on_or_elsewhere() {
    let writes = [
        "SET b 2",
        "MSET b 1 {b}x 2",
        "DEL b",
        "RPOPLPUSH {b}l {b}m",
        "BLPOP {b}l 1",
        "EVAL 'return redis.call(\"set\",KEYS[1],1)' 1 b",
        "EVAL 'return 1' 0",
        "FLUSHALL",
        "FLUSHDB",
    ];
    let reads = ["GET b", "MGET b {b}x", "EVAL_RO 'return redis.call(\"get\",KEYS[1])' 1 b"];
    let others = ["SET bar 1", "GET bar", "DBSIZE", "PING", "PUBLISH b x", "SPUBLISH b x"];
    for line in writes.iter().chain(&reads).chain(&others) {
        for all_wait in [false, true] {
            let (mut dialogue, server, mut session) = primary();
            assert_eq!(dialogue.say("SET b 1"), "+OK¶");
            hold(&server, &mut session, Some(all_wait));
            let waits = writes.contains(line) || all_wait && reads.contains(line);
            assert_eq!(dialogue.offer(line).is_none(), waits, "{line}, {all_wait}");
            if !waits {
                continue;
            }
            assert!(!dialogue.may_go_on(), "{line}");
            // It looks again after a while, and waits on.
            dialogue.pass(100);
            assert!(dialogue.may_go_on() && dialogue.offer(line).is_none(), "{line}");
            let back = line.len() % 2 == 0;
            match back {
                true => hold(&server, &mut session, None),
                false => give_away(&dialogue, &server, &mut session),
            }
            assert!(dialogue.may_go_on(), "{line}");
            if !back {
                hold(&server, &mut session, None);
                let reply = dialogue.offer(line).unwrap_or_default();
                let has_key = line.contains(" b") || line.contains("{b}");
                assert_eq!(reply == MOVED, has_key, "{line}: {reply}");
            } else if !line.starts_with("BLPOP") {
                let reply = dialogue.offer(line).expect("nothing is held");
                assert!(!reply.starts_with('-'), "{line}: {reply}");
            }
        }
    }
}

/// The keys of slots that are about to come are to go, too.
#[test]
fn what_removes_all_keys_waits_for_slots_that_come_any_moment() {
    let (mut dialogue, server, mut session) = primary();
    let moves = &server.cluster.as_ref().unwrap().moves;
    moves.expect(MOVE, slots("9000"));
    assert_eq!(dialogue.offer("FLUSHALL"), None);
    dialogue.pass(100);
    assert!(dialogue.may_go_on());
    assert_eq!(dialogue.offer("FLUSHDB"), None);
    dialogue.pass(100);
    assert!(dialogue.may_go_on());
    assert_eq!(dialogue.say("SET b 1\r\nDBSIZE\r\nEVAL 'return 1' 0"), "+OK¶:1¶:1¶");
    // And it ends an attempt to give others away.
    let before = moves.flushes();
    hold(&server, &mut session, Some(false));
    assert_eq!((dialogue.offer("EVAL 'return 1' 0"), moves.flushes()), (None, before));
    moves.expect_no_more(MOVE);
    dialogue.pass(100);
    assert!(dialogue.may_go_on());
    assert_eq!(dialogue.offer("FLUSHALL"), None);
    assert!(moves.flushes() > before);
    hold(&server, &mut session, None);
    assert!(dialogue.may_go_on());
    assert_eq!(dialogue.offer("FLUSHALL").as_deref(), Some("+OK¶"));
    let multi = "MULTI\r\nFLUSHALL";
    assert_eq!(dialogue.say(multi), "+OK¶+QUEUED¶");
    moves.expect(MOVE, slots("9000"));
    assert_eq!(dialogue.offer("EXEC"), None);
}

#[test]
fn a_transaction_waits_as_a_whole() {
    let (mut dialogue, server, mut session) = primary();
    assert_eq!(dialogue.say("MULTI\r\nSET b 1\r\nGET b"), "+OK¶+QUEUED¶+QUEUED¶");
    hold(&server, &mut session, Some(false));
    assert_eq!(dialogue.offer("EXEC"), None);
    hold(&server, &mut session, None);
    assert!(dialogue.may_go_on());
    assert_eq!(dialogue.offer("EXEC").as_deref(), Some("*2¶+OK¶$1¶1¶"));
    assert_eq!(dialogue.say("MULTI\r\nGET b"), "+OK¶+QUEUED¶");
    hold(&server, &mut session, Some(false));
    assert_eq!(dialogue.offer("EXEC").as_deref(), Some("*1¶$1¶1¶"), "reads go on");
}

/// Between the table and what the store hides by it, a transaction took a watched key for unchanged that its new owner
/// had changed.
#[test]
fn a_transaction_fails_once_the_table_gives_its_watched_key_away() {
    let (mut dialogue, _, _) = primary();
    let begins = "SET b 1\r\nWATCH b\r\nMULTI\r\nSET bar 1";
    assert_eq!(dialogue.say(begins), "+OK¶+OK¶+OK¶+QUEUED¶");
    publish(&dialogue, |directory| directory.owners.give(3300, 2));
    assert_eq!(dialogue.say("EXEC\r\nEXISTS bar"), "*-1¶:0¶");
}

/// A script without flags may use keys that it does not name, and cannot wait in its middle.
#[test]
fn a_script_gets_an_error_for_a_held_key_that_it_has_not_named() {
    let (mut dialogue, server, mut session) = primary();
    hold(&server, &mut session, Some(false));
    let reply = dialogue.say("EVAL \"return redis.call('set','b',1)\" 1 bar");
    assert!(reply.starts_with("-TRYAGAIN "), "{reply}");
    let reply = dialogue.say("EVAL \"return redis.call('get','b')\" 1 bar");
    assert_eq!(reply, "$-1¶");
}

/// The watched key is another node's when EXEC comes: that node may have changed it.
#[test]
fn a_watch_ends_when_its_key_is_given_away() {
    for (line, other) in [("SET b 1", "watched there"), ("PING", "watched where it is absent")] {
        let (mut dialogue, server, mut session) = primary();
        dialogue.say(line);
        assert_eq!(dialogue.say("WATCH b\r\nMULTI\r\nSET bar 1"), "+OK¶+OK¶+QUEUED¶");
        give_away(&dialogue, &server, &mut session);
        assert_eq!(dialogue.say("EXEC"), "*-1¶", "{other}");
    }
    let (mut dialogue, server, mut session) = primary();
    assert_eq!(dialogue.say("SET b 1\r\nWAITKEY b 0"), "+OK¶");
    assert_eq!(dialogue.ended_wait(), "");
    give_away(&dialogue, &server, &mut session);
    assert_eq!(dialogue.ended_wait(), "-MOVED 3300 10.0.0.3:7003¶", "it may have changed there");
}

#[test]
fn hidden_keys_are_in_no_list() {
    let (mut dialogue, server, mut session) = primary();
    for n in 0..50 {
        dialogue.say(&format!("SET {{b}}{n} 1\r\nSET {{bar}}{n} 1"));
    }
    assert_eq!(dialogue.say("DBSIZE"), ":100¶");
    assert_eq!(dialogue.say("CLUSTER COUNTKEYSINSLOT 3300"), ":50¶");
    give_away(&dialogue, &server, &mut session);
    let shows_none = |dialogue: &mut Dialogue| {
        let keys = dialogue.say("KEYS *") + &dialogue.say("SCAN 0 COUNT 1000");
        assert!(!keys.contains("{b}"), "{keys}");
        assert_eq!(keys.matches("{bar}").count(), 100);
        for _ in 0..200 {
            assert!(dialogue.say("RANDOMKEY").contains("{bar}"));
        }
        assert_eq!(dialogue.say("DBSIZE"), ":50¶");
        assert_eq!(dialogue.say("CLUSTER COUNTKEYSINSLOT 3300"), ":0¶");
        assert_eq!(dialogue.say("CLUSTER GETKEYSINSLOT 3300 9"), "*0¶");
        assert_eq!(dialogue.say("CLUSTER COUNTKEYSINSLOT 5061"), ":50¶");
    };
    assert_eq!(server.store.len(), 100, "they are there");
    shows_none(&mut dialogue);
    assert!(server.shows()(b"{bar}1") && !server.shows()(b"{b}1"));
    let mut cursor = 0;
    loop {
        let all = server.begin_to_forget(&session);
        cursor = server.forget_some(&mut session, &all, (cursor, 10), |_| false).next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(server.store.len(), 50);
    shows_none(&mut dialogue);
    // And what comes, until it is this shard's.
    server.import_slots(MOVE, Some(slots(SLOT)), &mut session);
    let mut importer = Importer::new(&server.store);
    for n in 0..50 {
        importer.take_part(&part(format!("{{b}}{n}").as_bytes()), 0).unwrap();
    }
    assert_eq!(server.store.len(), 100);
    shows_none(&mut dialogue);
    assert_eq!(dialogue.say("FLUSHALL"), "+OK¶");
    assert_eq!((dialogue.say("DBSIZE"), server.store.len()), (":0¶".into(), 50));
    publish(&dialogue, |_| ());
    server.renew_grounds(&mut session);
    server.import_slots(MOVE, None, &mut session);
    assert_eq!(dialogue.say("DBSIZE\r\nGET {b}1"), ":50¶$1¶1¶");
}

#[test]
fn dbsize_walks_only_while_keys_may_be_hidden() {
    let (mut dialogue, server, mut session) = primary();
    let cluster = server.cluster.as_ref().unwrap();
    dialogue.say("SET b 1");
    assert!(!cluster.is_clean(session.grounds_version()));
    assert_eq!(dialogue.say("DBSIZE"), ":1¶");
    assert!(cluster.is_clean(session.grounds_version()));
    give_away(&dialogue, &server, &mut session);
    for _ in 0..2 {
        assert_eq!(dialogue.say("DBSIZE"), ":0¶");
        assert!(!cluster.is_clean(session.grounds_version()));
    }
    let all = server.begin_to_forget(&session);
    server.forget_some(&mut session, &all, (0, 100), |_| false);
    server.import_slots(MOVE, Some(slots(SLOT)), &mut session);
    assert_eq!(dialogue.say("DBSIZE"), ":0¶");
    assert!(!cluster.is_clean(session.grounds_version()), "some may come");
    server.import_slots(MOVE, None, &mut session);
    assert_eq!(dialogue.say("DBSIZE"), ":0¶");
    assert!(cluster.is_clean(session.grounds_version()));
}

/// Publications that change nothing of the own slots delay no write.
#[test]
fn the_grounds_change_only_if_the_own_slots_do() {
    let (dialogue, server, mut session) = primary();
    let version = session.grounds_version();
    publish(&dialogue, |directory| directory.alive.clear());
    server.renew_grounds(&mut session);
    publish(&dialogue, |directory| directory.owners.give(7365, 3));
    server.renew_grounds(&mut session);
    assert_eq!(session.grounds_version(), version);
    give_away(&dialogue, &server, &mut session);
    assert!(session.grounds_version() > version);
}

/// Ends other threads, also if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A client of a thread of its own.
struct Client {
    server: Arc<Server>,
    executor: Executor,
    conversation: Conversation,
    now: u64,
    /// Requests that stopped a batch in its middle.
    stopped: u64,
}

impl Client {
    fn new(server: &Arc<Server>, now: u64) -> Client {
        let shared = server.clients.enter("peer".into(), "local".into(), 0);
        let (executor, conversation) =
            (Executor::new(server.clone(), 0, 1), Conversation::new(shared, server));
        Client { server: server.clone(), executor, conversation, now, stopped: 0 }
    }

    /// The replies to these requests, all of which wait if they must.
    fn ask(&mut self, input: &[u8]) -> Vec<u8> {
        let (mut at, mut out) = (0, Vec::new());
        while at < input.len() {
            self.now += 1;
            let fed = self.executor.feed(&mut self.conversation, &input[at..], self.now, &mut out);
            at += fed.consumed;
            if let Some(Wait::Moving { .. }) = self.conversation.client.wait() {
                self.stopped += u64::from(fed.consumed > 0);
                while self.executor.poll_wait(&self.conversation, self.now) != Watched::Fired {
                    self.now += 1;
                    std::thread::sleep(Duration::from_micros(50));
                }
                let Client { executor, conversation, now, .. } = self;
                executor.end_wait(conversation, WaitEnd::Fired, *now, &mut out);
            }
            assert!(self.conversation.client.closing.is_none(), "{:?}", self.server.mode());
        }
        out
    }
}

/// Writes that were checked before a hold and take effect in it would be lost: they are in no record that the other
/// node gets. And each write takes effect once, whether it had to begin again or not.
#[test]
fn no_write_takes_effect_in_a_hold_and_none_is_lost_or_doubled() {
    let (dialogue, server, mut session) = primary();
    let mut listener = dialogue.with_version(Version::Resp2);
    listener.say("SUBSCRIBE news");
    let (ends, counted) = (AtomicBool::new(false), [(); 4].map(|()| AtomicU64::new(0)));
    let requests: [&[u8]; 4] = [
        &b"INCR b\r\n".repeat(64),
        &b"MULTI\r\nPUBLISH news x\r\nINCR b\r\nINCR {b}2\r\nEXEC\r\n".repeat(16),
        &b"EVAL \"redis.call('incr','{b}3') return redis.call('incr',KEYS[1])\" 1 b\r\n".repeat(16),
        &b"MULTI\r\nINCR b\r\nEXEC\r\n".repeat(20),
    ];
    let counts = [64, 16, 16, 20];
    // Requests that stopped a batch in its middle.
    let stopped = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _end = Ends(&ends);
        for (n, (request, count)) in requests.into_iter().zip(counts).enumerate() {
            let (server, ends, counted, stopped) = (&server, &ends, &counted[n], &stopped);
            scope.spawn(move || {
                let mut client = Client::new(server, 1_700_000_000_000);
                while !ends.load(Relaxed) {
                    let reply = client.ask(request);
                    assert!(!reply.contains(&b'-'), "{}", reply.escape_ascii());
                    counted.fetch_add(count, Relaxed);
                    stopped.fetch_max(client.stopped, Relaxed);
                }
            });
        }
        let value = |session: &mut Session| session.get(b"b", 0, |value| value.to_vec());
        // However little of a processor the clients get.
        for round in (0..30_000).take_while(|round| *round < 150 || stopped.load(Relaxed) == 0) {
            std::thread::sleep(Duration::from_micros(500));
            hold(&server, &mut session, Some(round % 3 == 0));
            let before = value(&mut session);
            std::thread::sleep(Duration::from_micros(500));
            assert_eq!(value(&mut session), before, "round {round}");
            hold(&server, &mut session, None);
        }
    });
    println!("{stopped:?} batches of a client were in the middle");
    assert!(stopped.into_inner() > 0, "no batch was ever in the middle");
    let last = session.get(b"b", 0, |value| value.to_vec()).unwrap();
    let counted = counted.map(|counted| counted.into_inner());
    assert_eq!(String::from_utf8(last).unwrap(), counted.iter().sum::<u64>().to_string());
    let messages = listener.messages().matches("$4¶news¶$1¶x¶").count();
    assert_eq!(messages as u64, counted[1], "a transaction that began again has published twice");
}

/// Elements and clients that wait for them never stay side by side, though the element came a moment before the hold.
#[test]
fn clients_that_wait_for_elements_are_served_in_spite_of_holds() {
    let (dialogue, server, mut session) = primary();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = Ends(&ends);
        let holder = scope.spawn(|| {
            while !ends.load(Relaxed) {
                hold(&server, &mut session, Some(false));
                std::thread::sleep(Duration::from_micros(200));
                hold(&server, &mut session, None);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let mut pusher = Client::new(&server, 1_700_000_000_000);
        for round in 0..300 {
            let mut waiter = dialogue.with_version(Version::Resp2);
            let waits = loop {
                match waiter.offer_waiting("BLPOP {b}l 0") {
                    Some(waits) => break waits,
                    None => waiter.pass(10),
                }
            };
            assert!(waits, "round {round}");
            assert_eq!(pusher.ask(b"RPUSH {b}l x\r\n"), b":1\r\n");
            let served = waiter.ended_wait();
            assert_eq!(served, "*2¶$4¶{b}l¶$1¶x¶", "round {round}");
        }
        drop(end);
        holder.join().unwrap();
    });
}

/// A batch that was checked while the key was this node's, and stopped in its middle.
struct Stopped(Client, Vec<u8>);

impl Batch for Stopped {
    fn run(&mut self) {
        let Client { executor, conversation, now, .. } = &mut self.0;
        executor.feed(conversation, b"CLUSTER COUNTKEYSINSLOT 1\r\nGET b\r\n", *now, &mut self.1);
    }
}

/// Whether what such a batch has read is dropped if this happens in its middle.
#[track_caller]
fn is_dropped(client: Client, happens: impl FnOnce()) -> bool {
    let mut fiber = Fiber::new();
    let mut step = fiber.start(Box::new(Stopped(client, Vec::new())));
    assert!(matches!(step, Step::Turn), "it is not done");
    happens();
    let done = loop {
        match step {
            Step::Done(work) => break work,
            Step::Turn => step = fiber.resume(),
            Step::Asks | Step::Waits => panic!("no key is held"),
        }
    };
    let work: Box<dyn Any> = done;
    let Stopped(client, reply) = *work.downcast::<Stopped>().unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let is_lost = reply.contains("-TRYAGAIN") || client.conversation.client.closing.is_some();
    assert_ne!(is_lost, reply.contains("$1\r\n1"), "{reply}");
    is_lost
}

/// Node 1 with enough keys for a walk that gives other connections a turn.
fn filled() -> (Dialogue, Arc<Server>, Session) {
    let (mut dialogue, server, session) = primary();
    let sets: Vec<_> = (0..20_000).map(|n| format!("SET {{bar}}{n} 1")).collect();
    sets.chunks(1_000).for_each(|sets| _ = dialogue.say(&sets.join("\r\n")));
    dialogue.say("SET b 1");
    (dialogue, server, session)
}

#[test]
fn a_batch_from_before_a_move_does_not_miss_keys_that_were_forgotten() {
    for forgets in [false, true] {
        let (dialogue, server, mut session) = filled();
        let client = Client::new(&server, 1_700_000_000_000);
        let dropped = is_dropped(client, || {
            give_away(&dialogue, &server, &mut session);
            if forgets {
                let all = server.begin_to_forget(&session);
                let forgotten = server.forget_some(&mut session, &all, (0, 100_000), |_| false);
                assert_eq!(forgotten.removed, 1);
            }
        });
        assert_eq!(dropped, forgets);
    }
}

#[test]
fn a_batch_at_a_replica_does_not_miss_keys_that_its_primary_gave_away() {
    for removes in [false, true] {
        let (dialogue, server, _) = filled();
        publish(&dialogue, |directory| {
            let shard = &mut directory.shards.get_mut(&1).unwrap().1;
            (shard.primary.node, shard.replicas) = (node(2), vec![node(1)]);
        });
        let mut client = Client::new(&server, 1_700_000_000_000);
        assert_eq!(client.ask(b"READONLY\r\n"), b"+OK\r\n");
        let dropped = is_dropped(client, || {
            let cluster = server.cluster.as_ref().unwrap();
            let gone = cluster.hear_tenure(tenure(&[(0, "3301-5460")]), 9).unwrap();
            if removes {
                cluster.note_forgetting(gone);
            }
        });
        assert_eq!(dropped, removes);
    }
}
