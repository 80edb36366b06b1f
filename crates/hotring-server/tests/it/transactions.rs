//! Tests of transactions of many connections on several threads. No test depends on durations: each
//! does a fixed amount of work, and the invariants hold in any order.

use crate::wire::{Reply, TestServer, Wire, bulk, ok};

/// Sends `lines` as one transaction; returns the reply to EXEC.
fn transaction(wire: &mut Wire, lines: &[&str]) -> Reply {
    let input: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    wire.send(format!("MULTI\r\n{input}EXEC\r\n").as_bytes());
    assert_eq!(wire.reply(), ok());
    for line in lines {
        assert_eq!(wire.reply(), Reply::Simple("QUEUED".into()), "{line}");
    }
    wire.reply()
}

#[test]
fn no_client_sees_the_middle_of_a_transaction() {
    const ROUNDS: usize = 400;
    let server = TestServer::new();
    // Each round moves one from a to b; c changes twice and is even before and after.
    let moving = ["DECR a", "INCR c", "GET c", "INCR b", "INCR c"];
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut wire = server.connect();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let reply = transaction(&mut wire, &moving);
                    let c = reply.items()[2].text().parse::<i64>().unwrap();
                    assert_eq!(c % 2, 1, "what is written within is seen within: {reply:?}");
                    assert_eq!(
                        reply.items()[4],
                        Reply::Int(c + 1),
                        "no other session wrote in between"
                    );
                }
            });
        }
        let looks: [fn(&mut Wire) -> Vec<Reply>; 2] = [
            |wire| wire.say("MGET a b c").items().to_vec(),
            |wire| transaction(wire, &["GET a", "GET b", "GET c"]).items().to_vec(),
        ];
        for look in looks {
            let mut wire = server.connect();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let seen: Vec<i64> = look(&mut wire)
                        .iter()
                        .map(|reply| match reply {
                            Reply::Null => 0,
                            text => text.text().parse().unwrap(),
                        })
                        .collect();
                    assert_eq!((seen[0] + seen[1], seen[2] % 2), (0, 0), "{seen:?}");
                    // A read of a single key shows no intermediate state either.
                    let c = wire.say("INCRBY c 0").int();
                    assert_eq!(c % 2, 0);
                }
            });
        }
    });
    let mut wire = server.connect();
    let moved = (3 * ROUNDS).to_string();
    let c = (6 * ROUNDS).to_string();
    assert_eq!(
        wire.say("MGET a b c"),
        Reply::Array(vec![bulk(&format!("-{moved}")), bulk(&moved), bulk(&c)])
    );
}

#[test]
fn no_update_is_lost_between_watch_and_exec() {
    const EACH: usize = 150;
    const CONNECTIONS: usize = 4;
    let server = TestServer::new();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            let mut wire = server.connect();
            scope.spawn(move || {
                let mut done = 0;
                // Each failure is another connection's success, so this ends.
                while done < EACH {
                    assert_eq!(wire.say("WATCH n"), ok());
                    let n = match wire.say("GET n") {
                        Reply::Null => 0,
                        n => n.text().parse::<usize>().unwrap(),
                    };
                    match transaction(&mut wire, &[&format!("SET n {}", n + 1), "INCR log"]) {
                        Reply::Null => {}
                        reply => {
                            assert_eq!(reply.items()[0], ok());
                            done += 1;
                        }
                    }
                }
            });
        }
    });
    let mut wire = server.connect();
    let total = bulk(&(EACH * CONNECTIONS).to_string());
    assert_eq!(wire.say("MGET n log"), Reply::Array(vec![total.clone(), total]));
}

#[test]
fn transactions_on_all_keys_and_on_some_do_not_block_each_other_for_ever() {
    let server = TestServer::new();
    std::thread::scope(|scope| {
        for worker in 0..4usize {
            let mut wire = server.connect();
            scope.spawn(move || {
                for i in 0..100 {
                    let own = format!("SET k{worker} {i}");
                    let other = format!("GET k{}", (worker + i) % 4);
                    let lines: &[&str] = match (worker + i) % 4 {
                        0 => &[&own, "DBSIZE", "KEYS *"],
                        1 => &[&other, &own],
                        2 => &["FLUSHALL", &own],
                        _ => &[&own, "RENAME nothing x", "MGET k0 k1 k2 k3"],
                    };
                    assert_eq!(transaction(&mut wire, lines).items().len(), lines.len());
                }
            });
        }
    });
}

#[test]
fn a_connection_shows_its_transaction_and_its_end_leaves_nothing() {
    let server = TestServer::new();
    let (mut wire, mut other) = (server.connect(), server.connect());
    assert_eq!(wire.say("CLIENT SETNAME t"), ok());
    assert_eq!(wire.say("WATCH present absent"), ok());
    assert_eq!(wire.say("MULTI"), ok());
    assert_eq!(wire.say("SET a 1"), Reply::Simple("QUEUED".into()));
    let list = other.say("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains(" name=t ")).unwrap();
    assert!(line.contains(" flags=x ") && line.contains(" multi=1 watch=2 "), "{line}");
    assert!(!line.contains(" multi-mem=0 "), "{line}");
    drop(wire);
    assert_eq!(other.say("EXISTS a"), Reply::Int(0));
    assert_eq!(other.say("SET absent 1"), ok());
}

#[test]
fn a_transaction_may_be_split_anywhere_in_the_input() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let input =
        b"MULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\n1\r\n\r\nINCR a\r\nEXEC\r\nGET a\r\n";
    for cut in 1..input.len() {
        wire.send(&input[..cut]);
        wire.send(&input[cut..]);
        let replies: Vec<Reply> = (0..5).map(|_| wire.reply()).collect();
        assert_eq!(replies[3].items()[0], ok(), "cut at {cut}");
        assert!(replies[3].items()[1].is_error());
        assert_eq!(replies[4], bulk("1\r\n"));
    }
}
