//! The whole server without sockets: requests as bytes in, replies as bytes out.

use std::sync::{Arc, Mutex, PoisonError};

use hotring_store::{Options, Watched};

use super::{Conversation, Executor, Fed, WaitEnd};
use crate::commands::command::ONLY_HOLDS;
use crate::settings::config::Config;
use crate::settings::config::Secret;
use crate::state::batching::{BATCH_LEN, TURN_LEN};
use crate::state::client::Closing;
use crate::state::server::{Parts, Server};
use crate::state::warnings::STALLING;
use crate::table;

pub(super) const NOW: u64 = 1_700_000_000_000;

pub(super) fn server(config: Config) -> Arc<Server> {
    Arc::new(Server::new(Parts::unconnected(Options::default(), config)))
}

pub(super) fn talk(server: &Arc<Server>) -> (Executor, Conversation) {
    server.threads[0].connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let shared = server.clients.enter("peer".into(), "local".into(), 0);
    (Executor::new(server.clone(), 0, 1), Conversation::new(shared, server))
}

/// Feeds `input` in pieces that end at `cuts`, as a socket does; returns all replies.
fn replies(input: &[u8], cuts: &[usize]) -> Vec<u8> {
    let server = server(Config::default());
    let (mut executor, mut conversation) = talk(&server);
    let (mut out, mut start) = (Vec::new(), 0);
    for end in cuts.iter().copied().chain([input.len()]) {
        let fed = executor.feed(&mut conversation, &input[start..end], NOW, &mut out);
        assert!(!fed.stalled);
        start += fed.consumed;
    }
    out
}

fn sample_requests() -> Vec<u8> {
    let mut input = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\nGET a\r\n\r\n".to_vec();
    input.extend_from_slice(b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n");
    input.extend_from_slice(b"*1\r\n$3\r\nGET\r\n*0\r\nINCR a\r\nMGET a b c\r\nnonsense 'x y'\r\n");
    input
}

const SAMPLE_REPLIES: &str = "+OK\r\n$2\r\n\r\n\r\n+OK\r\n\
    -ERR wrong number of arguments for 'get' command\r\n:2\r\n*3\r\n$1\r\n2\r\n$1\r\n2\r\n$-1\r\n\
    -ERR unknown command 'nonsense', with args beginning with: 'x y' \r\n";

#[test]
fn replies_are_the_same_wherever_the_input_is_cut() {
    let input = sample_requests();
    let whole = replies(&input, &[]);
    assert_eq!(String::from_utf8_lossy(&whole), SAMPLE_REPLIES);
    for cut in 0..input.len() {
        assert_eq!(replies(&input, &[cut]), whole, "cut at {cut}");
    }
    let every: Vec<usize> = (0..input.len()).collect();
    assert_eq!(replies(&input, &every), whole, "byte by byte");
}

#[test]
fn the_batch_size_shows_nowhere() {
    for n in [BATCH_LEN - 1, BATCH_LEN, BATCH_LEN + 1, 3 * BATCH_LEN] {
        let out = replies(&b"INCR n\r\n".repeat(n), &[]);
        let expected: String = (1..=n).map(|i| format!(":{i}\r\n")).collect();
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
    // More keys than are fetched ahead at one time.
    let keys: String = (0..3 * BATCH_LEN).map(|i| format!(" k{i}")).collect();
    let out = replies(format!("EXISTS{keys}\r\n").repeat(5).as_bytes(), &[]);
    assert_eq!(out, b":0\r\n".repeat(5));
}

#[test]
fn output_above_the_limit_stops_the_batch_and_later_goes_on() {
    let server = server(Config { output_soft_max: 5000, ..Config::default() });
    let (mut executor, mut conversation) = talk(&server);
    let value = "v".repeat(1000);
    let mut input = format!("SET a {value}\r\n").into_bytes();
    input.extend(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(30));
    // The start of another request: the decoder is in the middle of it when the batch stops.
    input.extend(b"*2\r\n$4\r\nECHO\r\n$5\r\n");
    let (mut all, mut rounds) = (Vec::new(), 0);
    loop {
        let mut out = Vec::new();
        let fed = executor.feed(&mut conversation, &input, NOW, &mut out);
        assert!(out.len() <= 5000 + 1100, "{} bytes at once", out.len());
        all.extend(out);
        input.drain(..fed.consumed);
        rounds += 1;
        if !fed.stalled {
            break;
        }
    }
    assert!(rounds > 3, "{rounds} rounds");
    input.extend(b"hello\r\n");
    let fed = executor.feed(&mut conversation, &input, NOW, &mut all);
    assert_eq!(fed, Fed { consumed: input.len(), stalled: false });
    assert!(all.ends_with(b"\r\n$5\r\nhello\r\n"));
    assert_eq!(all.len(), 5 + 30 * (1000 + "$1000\r\n\r\n".len()) + 11);
}

/// Replies up to the soft limit were once kept for unauthenticated clients.
#[test]
fn little_is_kept_before_authentication() {
    let requirepass = Secret::new("secret");
    let server = server(Config { requirepass, ..Config::default() });
    let (mut executor, mut conversation) = talk(&server);
    let pings = b"PING\r\n".repeat(1_000);
    let mut out = Vec::new();
    let fed = executor.feed(&mut conversation, &pings, NOW, &mut out);
    assert!(fed.stalled && out.len() < 5_000, "{} bytes at once", out.len());
    assert!(conversation.client.output_soft_max(executor.config()) < 5_000);
    // The limit ends with the password, even for requests sent along with it.
    out.clear();
    let input = [&b"PING\r\nAUTH secret\r\n"[..], &pings].concat();
    let fed = executor.feed(&mut conversation, &input, NOW, &mut out);
    assert_eq!(fed, Fed { consumed: input.len(), stalled: false });
    let expected =
        [b"-NOAUTH Authentication required.\r\n+OK\r\n", &b"+PONG\r\n".repeat(1_000)[..]];
    assert!(out == expected.concat());
}

/// Passwords that came at once were all tried before the first was answered.
#[test]
fn nothing_runs_behind_a_wrong_password_before_its_time_is_over() {
    for guess in ["AUTH wrong\r\n", "AUTH nobody secret\r\n", "HELLO 3 AUTH default wrong\r\n"] {
        let requirepass = Secret::new("secret");
        let server = server(Config { requirepass, ..Config::default() });
        let (mut executor, mut conversation) = talk(&server);
        let (behind, mut out) = ("AUTH secret\r\nSET k v\r\n", Vec::new());
        let input = format!("{guess}{behind}");
        let fed = executor.feed(&mut conversation, input.as_bytes(), NOW, &mut out);
        assert_eq!(fed, Fed { consumed: guess.len(), stalled: true });
        assert!(out.starts_with(b"-WRONGPASS "), "{}", out.escape_ascii());
        // As the socket does, which waits.
        assert!(!std::mem::take(&mut conversation.client.penalty).is_zero());
        out.clear();
        let fed = executor.feed(&mut conversation, behind.as_bytes(), NOW, &mut out);
        assert_eq!(fed, Fed { consumed: behind.len(), stalled: false });
        assert_eq!(out, b"+OK\r\n+OK\r\n");
    }
}

#[test]
fn nothing_runs_after_the_end_of_a_conversation() {
    for (end, why) in [
        ("QUIT", Closing::Asked),
        ("*x", Closing::Protocol),
        ("POST /", Closing::CrossProtocol),
        ("SHUTDOWN", Closing::Killed),
    ] {
        let server = server(Config::default());
        let (mut executor, mut conversation) = talk(&server);
        let input = format!("SET a 1\r\n{end}\r\nSET a 2\r\n");
        let mut out = Vec::new();
        let fed = executor.feed(&mut conversation, input.as_bytes(), NOW, &mut out);
        assert_eq!(fed, Fed { consumed: input.len(), stalled: false });
        assert_eq!(conversation.client.closing, Some(why));
        let (mut executor, mut conversation) = talk(&server);
        let mut out = Vec::new();
        executor.feed(&mut conversation, b"GET a\r\n", NOW, &mut out);
        assert_eq!(out, b"$1\r\n1\r\n", "after {end}");
    }
}

#[test]
fn requests_behind_a_wait_run_after_its_end() {
    let before = b"SET a 1\r\nWAITKEY k 0 VALUE 7\r\n";
    let behind = b"\r\nSET b 1\r\nGET k\r\nWAITKEY k 0\r\nGET b\r\nGE";
    let input = [&before[..], behind].concat();
    // The end of the input so far when the wait begins.
    for end in before.len()..=input.len() {
        let server = server(Config::default());
        let ((mut executor, mut waiting), (_, mut other)) = (talk(&server), talk(&server));
        let mut ask = |executor: &mut Executor, line: &str| say(executor, &mut other, line, NOW);
        let mut out = Vec::new();
        let fed = executor.feed(&mut waiting, &input[..end], NOW, &mut out);
        assert!(before.len() <= fed.consumed && fed.consumed <= before.len() + 2, "{end}: {fed:?}");
        assert_eq!(executor.poll_wait(&waiting, NOW), Watched::Waiting { until: None });
        assert_eq!(ask(&mut executor, "GET b"), "$-1\r\n", "the requests behind it wait");
        assert!(ask(&mut executor, "INFO clients").contains("\r\nblocked_clients:1\r\n"));
        assert_eq!(ask(&mut executor, "SET k 7"), "+OK\r\n");
        assert_eq!(executor.poll_wait(&waiting, NOW), Watched::Fired);
        executor.end_wait(&mut waiting, WaitEnd::Fired, NOW, &mut out);
        assert!(ask(&mut executor, "INFO clients").contains("\r\nblocked_clients:0\r\n"));
        let rest = &input[fed.consumed..];
        let fed = executor.feed(&mut waiting, rest, NOW, &mut out);
        assert_eq!(executor.poll_wait(&waiting, NOW), Watched::Waiting { until: None });
        executor.end_wait(&mut waiting, WaitEnd::TimedOut, NOW, &mut out);
        let fed = executor.feed(&mut waiting, &rest[fed.consumed..], NOW, &mut out);
        assert_eq!(fed, Fed { consumed: b"GET b\r\n".len(), stalled: false });
        let expected = "+OK\r\n:1\r\n+OK\r\n$1\r\n7\r\n:0\r\n$1\r\n1\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected, "{end}");
    }
}

#[test]
fn much_input_is_run_in_turns() {
    let server = server(Config::default());
    let (mut executor, mut conversation) = talk(&server);
    let requests = [set("k", &"v".repeat(3 * TURN_LEN)), b"INCR n\r\n\r\n".repeat(30_000)].concat();
    let (mut input, mut turns, mut out) = (&requests[..], 0, Vec::new());
    loop {
        let fed = executor.feed(&mut conversation, input, NOW, &mut out);
        let len_max = TURN_LEN + 10 * BATCH_LEN;
        assert!(turns == 0 || fed.consumed < len_max, "{} bytes", fed.consumed);
        input = &input[fed.consumed..];
        turns += 1;
        if !fed.stalled {
            break;
        }
    }
    assert_eq!((turns, input.len()), (1 + 5, 0));
    assert!(out.ends_with(b"\r\n:29999\r\n:30000\r\n"));
}

#[test]
fn time_is_the_argument_and_nothing_else() {
    let server = server(Config::default());
    let (mut executor, mut conversation) = talk(&server);
    let mut out = Vec::new();
    executor.feed(&mut conversation, b"SET a 1 PX 1000\r\nPTTL a\r\n", NOW, &mut out);
    executor.feed(&mut conversation, b"PTTL a\r\n", NOW + 400, &mut out);
    executor.feed(&mut conversation, b"GET a\r\n", NOW + 1000, &mut out);
    assert_eq!(String::from_utf8_lossy(&out), "+OK\r\n:1000\r\n:600\r\n$-1\r\n");
}

#[test]
fn every_command_of_the_table_is_served() {
    for spec in table::commands() {
        let subs = table::subcommands(spec.id);
        for spec in std::iter::once(spec).chain(subs) {
            let server = server(Config::default());
            let (mut executor, mut conversation) = talk(&server);
            let mut words: Vec<&str> = spec.name.split('|').collect();
            words.resize(usize::from(spec.arity.unsigned_abs()).max(words.len()), "1");
            let mut out = Vec::new();
            let line = format!("{}\r\n", words.join(" "));
            executor.feed(&mut conversation, line.as_bytes(), NOW, &mut out);
            // Those with an end for an argument refuse a 1.
            let waits =
                ["shutdown", "waitkey", "blpop", "brpop", "brpoplpush", "bzpopmin", "bzpopmax"];
            let silent = waits.contains(&spec.name);
            assert_eq!(out.is_empty(), silent, "{line}: {}", String::from_utf8_lossy(&out));
            assert!(!out.starts_with(b"-ERR unknown command"), "{line}");
            assert_ne!(out, format!("-{ONLY_HOLDS}\r\n").as_bytes(), "{line}");
        }
    }
}

fn set(key: &str, value: &str) -> Vec<u8> {
    let lens = (key.len(), value.len());
    format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n", lens.0, lens.1).into_bytes()
}

#[test]
fn a_reply_above_the_hard_limit_is_not_built() {
    const HARD_MAX: usize = 1 << 20;
    let server = server(Config { output_hard_max: HARD_MAX, ..Config::default() });
    let (mut executor, mut conversation) = talk(&server);
    let mut input = set("big", &"v".repeat(200_000));
    (0..3_000).for_each(|i| input.extend(set(&format!("{i:01000}"), "v")));
    let mut done = 0;
    while done < input.len() {
        done += executor.feed(&mut conversation, &input[done..], NOW, &mut Vec::new()).consumed;
    }
    for _ in 0..8_000 {
        server.clients.enter("peer".into(), "local".into(), 0);
    }
    for request in [
        format!("MGET{}", " big".repeat(500)),
        "KEYS *".to_string(),
        format!("COMMAND DOCS{}", " set".repeat(5_000)),
        format!("COMMAND INFO{}", " set".repeat(10_000)),
        "CLIENT LIST".to_string(),
    ] {
        let (_, mut conversation) = talk(&server);
        let mut out = Vec::new();
        let input = format!("{request}\r\nFLUSHALL\r\n");
        executor.feed(&mut conversation, input.as_bytes(), NOW, &mut out);
        let name = &request[..6];
        assert_eq!(conversation.client.closing, Some(Closing::OutputLimit), "{name}");
        assert!(out.is_empty(), "{name}: {} bytes", out.len());
        assert!(out.capacity() <= 4 * HARD_MAX, "{name}: room for {} bytes", out.capacity());
    }
    assert_eq!(server.store.len(), 3_001);
}

/// Collects log lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn that_name(&self, thread: &str) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains("WARN") && line.contains(thread)).count()
    }
}

/// Runs one request and returns its reply.
fn say(executor: &mut Executor, conversation: &mut Conversation, line: &str, now: u64) -> String {
    let mut out = Vec::new();
    executor.feed(conversation, format!("{line}\r\n").as_bytes(), now, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn writes_are_refused_while_a_thread_is_stalled() {
    let _alone = STALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server(Config::default());
    let (mut executor, mut conversation) = talk(&server);
    let mut ask = |line: &str, now| say(&mut executor, &mut conversation, line, now);
    assert_eq!(ask("CONFIG SET unreclaimed-limit 1mb", NOW), "+OK\r\n");
    let set = format!("SET a {}", "v".repeat(1000));
    assert_eq!(ask(&set, NOW), "+OK\r\n");
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _log = tracing::subscriber::set_default(subscriber.finish());
    let mut stalled = server.store.session_named("hotring-io-7");
    stalled.get(b"a", NOW, |_| {
        assert!(ask("INFO index", NOW).contains("index_stalled_session:none\r\n"));
        let refused = (0..10_000).map(|_| ask(&set, NOW)).find(|reply| reply != "+OK\r\n");
        let refused = refused.expect("10 MB were overwritten");
        assert!(refused.starts_with("-OOM command not allowed when "), "{refused}");
        assert!(refused.contains("thread 'hotring-io-7'"), "{refused}");
        assert!(refused.contains("the limit is 1048576 (unreclaimed-limit)"), "{refused}");
        // One line, however many are refused; another one when some time has passed.
        (0..50).for_each(|_| assert_eq!(ask(&set, NOW + 9_999), refused));
        assert_eq!(lines.that_name("thread=\"hotring-io-7\""), 1);
        assert!(ask("INCR n", NOW + 10_000).starts_with("-OOM "));
        assert_eq!(lines.that_name("thread=\"hotring-io-7\""), 2);
        let info = ask("INFO", NOW);
        assert!(info.contains("index_stalled_session:hotring-io-7\r\n"), "{info}");
        assert!(info.contains("index_unreclaimed_limit:1048576\r\n"), "{info}");
        assert!(info.contains("rejected_stalled:52\r\n"), "{info}");
        // The other requests go on, and the memory's owner can be named.
        assert!(ask("GET a", NOW).starts_with("$1000\r\n"));
        assert_eq!(ask("DEL a", NOW), ":1\r\n");
        assert_eq!(ask("CONFIG SET unreclaimed-limit 0", NOW), "+OK\r\n");
        assert_eq!(ask(&set, NOW), "+OK\r\n");
        assert_eq!(ask("CONFIG SET unreclaimed-limit 1mb", NOW), "+OK\r\n");
    });
    assert_eq!(ask(&set, NOW), "+OK\r\n");
    assert!(ask("INFO index", NOW).contains("index_stalled_session:none\r\nindex_stalled_bytes:0"));
}

/// A tool may say REPLICAOF again and again. A replica that keeps its data from a primary with other data gives it up
/// then, and the log said nothing of that.
#[test]
fn replicaof_says_what_is_given_up() {
    let server = server(Config::default());
    let (mut executor, mut conversation) = talk(&server);
    let mut ask = |line: &str| say(&mut executor, &mut conversation, line, NOW);
    assert_eq!(ask("MSET a 1 b 2"), "+OK\r\n");
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _log = tracing::subscriber::set_default(subscriber.finish());
    assert_eq!(ask("REPLICAOF h 7"), "+OK\r\n");
    assert_eq!(lines.that_name("gives up what its primary does not have"), 1);
    let nothing = "+OK Already connected to specified master\r\n";
    assert_eq!(ask("REPLICAOF h 7"), nothing);
    server.replication.update_link(|link| link.await_order());
    assert_eq!(ask("REPLICAOF h 7"), "+OK\r\n");
    assert_eq!(lines.that_name("REPLICAOF again: this replica gives up the data"), 1);
    assert_eq!(lines.that_name("primary=h 7 keys=2"), 2);
    assert_eq!(ask("REPLICAOF h 7"), nothing, "the order is given");
    assert_eq!(lines.that_name("REPLICAOF"), 2);
}

/// Refusals at maxmemory were once counted nowhere and not logged.
#[test]
fn refusals_at_maxmemory_are_counted_and_reported() {
    let _alone = STALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server(Config::default());
    let (mut executor, mut conversation) = talk(&server);
    let mut ask = |line: &str, now| say(&mut executor, &mut conversation, line, now);
    assert_eq!(ask(&format!("SET a {}", "v".repeat(60_000)), NOW), "+OK\r\n");
    (0..100).for_each(|i| _ = ask(&format!("COPY a a{i}"), NOW));
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _log = tracing::subscriber::set_default(subscriber.finish());
    let full = "CONFIG SET maxmemory-policy noeviction maxmemory 4mb";
    assert_eq!(ask(full, NOW), "+OK\r\n");
    (0..50).for_each(|_| assert!(ask("SET b v", NOW).starts_with("-OOM ")));
    assert_eq!(ask("MULTI\r\nSET b v\r\nEXEC", NOW).matches("OOM ").count(), 1);
    assert_eq!(lines.that_name("maxmemory is reached"), 1, "one line, however many are refused");
    assert!(ask("INCR n", NOW + 10_000).starts_with("-OOM "));
    assert_eq!(lines.that_name("policy=\"noeviction\""), 2);
    assert!(ask("INFO", NOW).contains("rejected_maxmemory:52\r\n"));
    assert_eq!(ask("CONFIG RESETSTAT", NOW), "+OK\r\n");
    assert!(ask("INFO", NOW).contains("rejected_maxmemory:0\r\n"));
}

#[test]
fn calls_are_counted_by_command_and_a_few_are_timed() {
    let server = server(Config::default());
    let (mut executor, mut conversation) = talk(&server);
    let mut feed = |input: &str| {
        executor.feed(&mut conversation, input.as_bytes(), NOW, &mut Vec::new());
    };
    let totals = |name: &str| {
        let all = server.command_totals();
        all.into_iter().find(|(spec, _)| spec.name == name).unwrap().1
    };
    // The first run is timed, and one in `SAMPLED_RUN` after it.
    feed("SET a x\r\nGET a\r\nINCR a\r\nGET\r\nECHO b\r\nnonsense\r\n");
    let get = totals("get");
    assert_eq!((get.calls, get.failed, get.rejected, get.times.count()), (1, 0, 1, 1));
    let incr = totals("incr");
    assert_eq!((incr.calls, incr.failed, incr.rejected, incr.times.count()), (1, 1, 0, 1));
    // Some commands are timed each time, and once.
    assert_eq!((totals("echo").calls, totals("echo").times.count()), (1, 1));
    let mut runs = 0;
    while totals("get").times.count() == 1 {
        feed("GET a\r\nGET a\r\nMULTI\r\nGET a\r\nEXEC\r\nCLIENT ID\r\n");
        runs += 1;
        assert!(runs < 2 * u64::from(crate::state::batching::SAMPLED_RUN));
    }
    assert_eq!((totals("get").calls, totals("get").times.count()), (1 + 3 * runs, 3));
    assert_eq!((totals("exec").calls, totals("exec").times.count()), (runs, runs));
    let id = totals("client|id");
    assert_eq!((id.calls, id.times.count()), (runs, runs));
    // Refusals in a transaction and in subscriber mode count as well.
    feed("MULTI\r\nSHUTDOWN\r\nDISCARD\r\nSUBSCRIBE c\r\nGET a\r\nUNSUBSCRIBE\r\n");
    assert_eq!((totals("shutdown").rejected, totals("get").rejected), (1, 2));
    // So do forbidden commands.
    feed("ACL SETUSER default -getdel\r\nGETDEL a\r\n");
    assert_eq!((totals("getdel").calls, totals("getdel").rejected), (0, 1));
    feed("CONFIG RESETSTAT\r\nGET a\r\n");
    assert_eq!((totals("get").calls, totals("get").rejected, totals("exec").calls), (1, 0, 0));
    assert!(
        server
            .command_totals_since_start()
            .iter()
            .any(|(s, t)| s.name == "exec" && t.calls == runs)
    );
}

/// Connections of memcached's protocol were closed for want of a password that they cannot give.
#[test]
fn the_password_of_redis_is_not_asked_of_memcached() {
    use std::sync::atomic::Ordering::Relaxed;
    let requirepass = crate::settings::config::Secret::new("secret");
    let server = server(Config { requirepass, ..Config::default() });
    let shared = server.clients.enter("peer".into(), "local".into(), 0);
    let mut conversation = Conversation::memcached(shared.clone(), &server);
    assert_eq!(shared.locked_since.load(Relaxed), 0);
    server.acl.set_default_password(&crate::settings::config::Secret::new("other"));
    assert!(conversation.client.renew_access(&server.acl));
    assert_eq!(shared.locked_since.load(Relaxed), 0);
    let (_, of_redis) = talk(&server);
    assert_ne!(of_redis.client.shared.locked_since.load(Relaxed), 0);
}

#[test]
fn a_request_runs_whatever_messages_come_before_it() {
    let server = server(Config { output_soft_max: 100, ..Config::default() });
    let (mut executor, mut listener) = talk(&server);
    let (_, mut speaker) = talk(&server);
    let mut out = Vec::new();
    for request in [&b"HELLO 3\r\n"[..], b"SUBSCRIBE c\r\n"] {
        executor.feed(&mut listener, request, NOW, &mut out);
        out.clear();
    }
    let message = "m".repeat(200);
    let publish = format!("PUBLISH c {message}\r\n");
    executor.feed(&mut speaker, publish.as_bytes(), NOW, &mut out);
    assert_eq!(out, b":1\r\n");
    out.clear();
    let fed = executor.feed(&mut listener, b"SET k v\r\nGET k\r\n", NOW, &mut out);
    let text = String::from_utf8_lossy(&out).into_owned();
    assert_eq!(fed, Fed { consumed: b"SET k v\r\n".len(), stalled: true }, "{text}");
    let text = String::from_utf8_lossy(&out).into_owned();
    assert!(text.contains(&message) && text.ends_with("+OK\r\n"), "{text}");
}

/// Reads that were under way when a repair or a full copy began went on while its keys were removed, and their replies
/// showed a part of the data. Now these are not sent.
#[test]
fn a_read_under_way_when_a_copy_begins_shows_no_part_of_the_data() {
    for (requests, ends) in [("GET a\r\nGET b\r\n", false), ("GET a\r\nECHO x\r\nGET b\r\n", true)]
    {
        let server = server(Config::default());
        let feed = |input: &[u8]| {
            let (mut executor, mut conversation) = talk(&server);
            let mut out = Vec::new();
            executor.feed(&mut conversation, input, NOW, &mut out);
            (String::from_utf8(out).unwrap(), conversation.client.closing)
        };
        assert_eq!(feed(b"MSET a 1 b 2\r\nGET a\r\n").0, "+OK\r\n$1\r\n1\r\n");
        let (replies, closing) = std::thread::scope(|threads| {
            let reading = server.store.session().exclusive(&[b"b"], |session| {
                let reading = threads.spawn(|| feed(requests.as_bytes()));
                // It reads `a`, and waits for `b`.
                std::thread::sleep(std::time::Duration::from_millis(200));
                server.persist.loading.begin_copy();
                server.settings.renew();
                assert!(session.remove(b"b", NOW));
                reading
            });
            reading.join().unwrap()
        });
        // On a machine that was too slow the requests began later.
        assert!(replies.is_empty() || replies.starts_with("-LOADING"), "{replies}");
        assert!(!replies.contains('$'), "{replies}");
        assert_eq!(replies.is_empty(), closing == Some(Closing::Killed));
        assert!(ends || !replies.is_empty());
    }
}

/// EXEC itself is allowed while data is loading, so a transaction that was queued before a repair ran in the middle.
#[test]
fn a_transaction_from_before_a_copy_is_refused_in_the_middle() {
    let server = server(Config::default());
    let (mut executor, mut conversation) = talk(&server);
    let mut say = |input: &[u8]| {
        let mut out = Vec::new();
        executor.feed(&mut conversation, input, NOW, &mut out);
        String::from_utf8(out).unwrap()
    };
    say(b"SET a 1\r\nMULTI\r\nGET a\r\n");
    server.persist.loading.begin_copy();
    server.settings.renew();
    let refused = say(b"EXEC\r\n");
    assert!(refused.starts_with("-EXECABORT") && refused.contains("LOADING"), "{refused}");
    say(b"MULTI\r\n");
    assert_eq!(say(b"EXEC\r\n"), "*0\r\n");
    server.persist.loading.end_copy();
    server.settings.renew();
    say(b"MULTI\r\nGET a\r\n");
    assert_eq!(say(b"EXEC\r\n"), "*1\r\n$1\r\n1\r\n");
}
