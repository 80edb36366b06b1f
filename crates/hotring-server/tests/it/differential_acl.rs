//! Compares users' rights with a real `redis-server`: random rules, and many requests for each.
//!
//! Not compared: the words of a refusal, which differ between versions of Redis (only its code and
//! the refused name are), and, for the same reason, the order of listed rules.

use crate::differential::{Raw, Redis, n_seeds};
use crate::requests::{Random, random_request, show};
use crate::wire::TestServer;

/// Rules of which any user may consist; some are wrong, some come too late.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">one",
    ">two",
    "<one",
    "<two",
    "#badhash",
    "allkeys",
    "~*",
    "resetkeys",
    "~k*",
    "~k[0-2]",
    "%R~k1",
    "%W~k2*",
    "%RW~k3",
    "%~k",
    "%X~k",
    "%RR~k",
    "~h*",
    "allchannels",
    "&*",
    "resetchannels",
    "&news.*",
    "&a",
    "allcommands",
    "+@all",
    "-@all",
    "nocommands",
    "+@read",
    "+@write",
    "-@write",
    "+@string",
    "+@hash",
    "-@hash",
    "+@keyspace",
    "-@dangerous",
    "+@fast",
    "-@slow",
    "+@pubsub",
    "+@connection",
    "-@connection",
    "+@transaction",
    "+@nonsense",
    "+get",
    "-get",
    "+set",
    "-SET",
    "+mget",
    "+copy",
    "+nonsense",
    "-nonsense",
    "+config|get",
    "-config|set",
    "+config",
    "-client",
    "+client|id",
    "+client|nonsense",
    "+select|0",
    "+config|get|x",
    "+select|",
    "+ping",
    "-ping",
    "",
    "(+get ~h*)",
    "(+@all %R~*)",
    "(+set",
    "~x)",
    "(nonsense)",
    "clearselectors",
    "reset",
    "sanitize-payload",
    "skip-sanitize-payload",
    "nonsense",
    "+",
    "-",
    "~",
    "&",
    ">",
    "@",
    "-@",
    "+@",
];

/// Requests beside the random ones on keys.
const REQUESTS: &[&str] = &[
    "PING",
    "AUTH x y",
    "CLIENT ID",
    "CLIENT LIST",
    "CONFIG GET port",
    "CONFIG SET port 1",
    "FLUSHALL",
    "KEYS *",
    "SCAN 0",
    "MULTI",
    "EXEC",
    "SELECT 0",
    "SELECT 1",
    "PUBLISH a x",
    "PUBLISH news.1 x",
    "SUBSCRIBE a",
    "SUBSCRIBE a b",
    "PSUBSCRIBE a",
    "PSUBSCRIBE news.*",
    "PSUBSCRIBE *",
    "UNSUBSCRIBE x",
    "SPUBLISH a x",
    "SPUBLISH news.1 x",
    "SSUBSCRIBE a",
    "SSUBSCRIBE a b",
    "SSUBSCRIBE *",
    "SUNSUBSCRIBE x",
    "LOLWUT",
    "MEMORY MALLOC-STATS",
    "COMMAND",
    "COMMAND DOCS",
    "INFO",
    "WATCH k1 h1",
    "RENAME k1 h1",
    "COPY k1 k2",
    "SET k2 v GET",
    "SET k2 v",
    "GETEX k1 PERSIST",
    "DBSIZE",
    "OBJECT ENCODING k1",
    "MEMORY USAGE h1",
    "ACL WHOAMI",
    "ACL LIST",
    "SLOWLOG LEN",
    "BITOP AND k2 k1 h1",
    "NONSENSE",
    "GET",
    "CLIENT NONSENSE",
];

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
}

/// The part of a reply that does not depend on the version: allowed, or the code of the refusal.
fn verdict(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    match text.as_bytes() {
        [b'+' | b'-', ..] => text.into_owned(),
        // DRYRUN returns the refusal as a string that ends with the refused name.
        _ => match text.split_once("permissions to ") {
            Some((_, what)) => what.replace(" or its subcommand", ""),
            None => text.into_owned(),
        },
    }
}

fn compare(seed: u64) {
    const USERS: usize = 150;
    const RULES_MAX: u64 = 8;
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let mut raws = [Raw::connect(server.address), Raw::connect(redis.address)];
    let mut random = Random::new(seed);
    let mut both = |args: &[Vec<u8>]| {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        raws.each_mut().map(|raw| raw.ask(&args))
    };
    let (mut n_refused, mut n_allowed) = (0, 0);
    for user in 0..USERS {
        let name = format!("user{}", user % 20);
        let mut args = words(&format!("ACL SETUSER {name}"));
        for _ in 0..random.below(RULES_MAX) {
            let rule = RULES[random.below(RULES.len() as u64) as usize];
            args.push(rule.as_bytes().to_vec());
        }
        let [ours, theirs] = both(&args);
        assert_eq!(
            ours.escape_ascii().to_string(),
            theirs.escape_ascii().to_string(),
            "{}",
            show(&args)
        );
        for i in 0..REQUESTS.len() + 20 {
            let request = match REQUESTS.get(i) {
                Some(line) => words(line),
                None => random_request(&mut random),
            };
            let asked = [words(&format!("ACL DRYRUN {name}")), request].concat();
            // Redis ends a repeated key at a zero byte, and its pattern * does not match the empty
            // key.
            let is_odd = |arg: &Vec<u8>| arg.is_empty() || arg.contains(&0);
            if asked.len() < 4 || asked.iter().any(is_odd) {
                continue;
            }
            let [ours, theirs] = both(&asked).map(|reply| verdict(&reply));
            n_allowed += usize::from(theirs.starts_with("+OK"));
            n_refused += usize::from(theirs.contains(" command"));
            assert_eq!(ours, theirs, "seed {seed}: {} after {}", show(&asked), show(&args));
        }
    }
    assert!(n_allowed > 200 && n_refused > 200, "{n_allowed} allowed, {n_refused} refused");
}

#[test]
fn users_have_the_permissions_of_redis() {
    for seed in 0..n_seeds() {
        compare(seed + 40);
    }
}

/// Logins and later requests, line by line; without refusals by rights, whose words differ.
const LOGINS: [&str; 4] = [
    "AUTH x|AUTH default x|AUTH a b c|AUTH|ACL WHOAMI|ACL USERS|ACL SETUSER u on >pw +@all ~*|AUTH u no|AUTH u pw|\
     ACL WHOAMI|AUTH default|RESET|ACL WHOAMI|ACL DELUSER u none|ACL DELUSER default|ACL GETUSER none",
    "CONFIG SET requirepass pw|GET k|RESET|GET k|NONSENSE|GET|MULTI|SUBSCRIBE x|AUTH no|AUTH default no|\
     AUTH nobody pw|HELLO 2|HELLO 9|HELLO 2 AUTH default no|QUIT",
    "CONFIG SET requirepass pw|RESET|AUTH pw|MULTI|AUTH no|GET k|RESET|EXEC|AUTH pw|CONFIG GET requirepass|\
     CONFIG SET requirepass \"\"|RESET|GET k",
    "ACL SETUSER|ACL GETUSER|ACL SETUSER \"a b\"|ACL CAT nonsense|ACL GENPASS 0|ACL GENPASS x|ACL GENPASS 4097|\
     ACL LOG x|ACL LOG RESET|ACL LOG|ACL DRYRUN none GET k|ACL DRYRUN default GET|ACL DRYRUN default NONSENSE|\
     ACL NONSENSE|ACL WHOAMI x|ACL LOG 1 2|ACL GENPASS 1 2|ACL CAT 1 2|CLIENT KILL USER nobody",
];

#[test]
fn logins_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    for lines in LOGINS {
        let server = TestServer::with(|c| c.auth_failure_delay_ms = 1);
        let input = format!("{}\r\n", lines.replace('|', "\r\n"));
        let ask = |address| {
            let replies = crate::differential::converse(address, input.as_bytes());
            // Later versions also name the protocol's version.
            replies.escape_ascii().to_string().replace("HELLO <proto> AUTH", "HELLO AUTH")
        };
        assert_eq!(ask(server.address), ask(redis.address), "{input}");
        let mut admin = Raw::connect(redis.address);
        admin.ask(&[b"AUTH", b"default", b"pw"]);
        admin.ask(&[b"CONFIG", b"SET", b"requirepass", b""]);
    }
}
