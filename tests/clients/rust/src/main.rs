//! Connects redis-rs with its defaults, and in RESP3, and checks that it gets what it expects.
#![forbid(unsafe_code)]

use redis::{Commands, Connection, ErrorKind, RedisResult, Value};

fn main() -> RedisResult<()> {
    let port = std::env::args().nth(1).expect("the port of the server");
    for protocol in ["", "?protocol=resp3"] {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/{protocol}"))?;
        let mut connection = client.get_connection()?;
        strings(&mut connection)?;
        pipelines(&mut connection)?;
        transactions(&mut connection)?;
        scan(&mut connection)?;
        errors(&mut connection);
        pubsub(&client, &mut connection)?;
        println!("ok: all of it {}", if protocol.is_empty() { "by default" } else { "in RESP3" });
    }
    Ok(())
}

fn strings(connection: &mut Connection) -> RedisResult<()> {
    let bytes: Vec<u8> = vec![0, 255, 13, 10, 36];
    let () = connection.set("rust:bytes", &bytes)?;
    assert_eq!(connection.get::<_, Vec<u8>>("rust:bytes")?, bytes);
    assert_eq!(connection.get::<_, Option<String>>("rust:missing")?, None);
    let () = connection.mset(&[("rust:a", 1), ("rust:b", 2)])?;
    let seen: Vec<Option<i64>> = connection.mget(&["rust:a", "rust:missing", "rust:b"])?;
    assert_eq!(seen, [Some(1), None, Some(2)]);
    assert_eq!(connection.incr::<_, _, i64>("rust:a", 41)?, 42);
    let () = connection.pset_ex("rust:short", "x", 60_000)?;
    let left: i64 = connection.pttl("rust:short")?;
    assert!((1..=60_000).contains(&left), "{left}");
    let () = connection.hset_multiple("rust:hash", &[("a", "1"), ("b", "2")])?;
    let hash: std::collections::BTreeMap<String, i64> = connection.hgetall("rust:hash")?;
    assert_eq!(hash.into_iter().collect::<Vec<_>>(), [("a".into(), 1), ("b".into(), 2)]);
    println!("ok: strings, expiry, hashes");
    Ok(())
}

fn pipelines(connection: &mut Connection) -> RedisResult<()> {
    let () = connection.del("rust:counter")?;
    let mut pipe = redis::pipe();
    (0..200).for_each(|_| {
        pipe.incr("rust:counter", 1);
    });
    let replies: Vec<i64> = pipe.query(connection)?;
    assert_eq!(replies, (1..=200).collect::<Vec<i64>>());
    println!("ok: a pipeline of 200 commands");
    Ok(())
}

fn transactions(connection: &mut Connection) -> RedisResult<()> {
    let () = connection.set("rust:to", 10)?;
    let (new,): (i64,) = redis::transaction(connection, &["rust:to"], |connection, pipe| {
        let old: i64 = connection.get("rust:to")?;
        pipe.set("rust:to", old * 2).ignore().get("rust:to").query(connection)
    })?;
    assert_eq!(new, 20);
    println!("ok: transactions and WATCH");
    Ok(())
}

fn scan(connection: &mut Connection) -> RedisResult<()> {
    for i in 0..100 {
        let () = connection.set(format!("rust:scan:{i}"), i)?;
    }
    let found: Vec<String> =
        connection.scan_match("rust:scan:*")?.collect::<RedisResult<Vec<String>>>()?;
    assert_eq!(found.len(), 100);
    println!("ok: SCAN");
    Ok(())
}

fn errors(connection: &mut Connection) {
    let _: RedisResult<()> = connection.set("rust:text", "abc");
    let error = connection.incr::<_, _, i64>("rust:text", 1).expect_err("it is no number");
    assert!(error.to_string().contains("not an integer"), "{error}");
    let unknown: RedisResult<Value> = redis::cmd("NONSENSE").query(connection);
    let error = unknown.expect_err("there is no such command");
    assert!(!matches!(error.kind(), ErrorKind::Io), "{error}");
    assert_eq!(redis::cmd("PING").query::<String>(connection).expect("it goes on"), "PONG");
    println!("ok: errors");
}

fn pubsub(client: &redis::Client, connection: &mut Connection) -> RedisResult<()> {
    let mut listener = client.get_connection()?;
    let mut pubsub = listener.as_pubsub();
    pubsub.subscribe("rust:news")?;
    assert_eq!(connection.publish::<_, _, i64>("rust:news", "hello")?, 1);
    assert_eq!(pubsub.get_message()?.get_payload::<String>()?, "hello");
    println!("ok: pub/sub");
    Ok(())
}
