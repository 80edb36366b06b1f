//! Requests beyond containers: of several keys, counters, scripts, transactions and long values.

use anyhow::{Result, ensure};

use super::cases::{Answer, Case, Sizes};
use crate::resp::{Client, Reply};

/// Keys of one MGET or MSET.
const AT_ONCE: u64 = 10;
/// Commands of one transaction.
const COMMANDS: u64 = 5;
/// Bytes of a usual value.
const USUAL: usize = 32;
/// The long values in kB, and how much less often they are asked for than other values.
const LONG: [(usize, u64); 2] = [(1, 1), (64, 20)];
/// Keys with a value of each of these lengths.
const LONG_KEYS: u64 = 100;

/// A write and a read, as scripts of locks and limiters have, and its digest.
const SCRIPT: &str = "redis.call('SET',KEYS[1],ARGV[1]) return redis.call('GET',KEYS[1])";
const DIGEST: &str = "1d3076c195221ddd0cd80e2161a3e7ee53a5a7ea";

fn key(number: u64) -> String {
    format!("key:{number:012}")
}

fn long_key(kilobytes: usize, number: u64) -> String {
    format!("{kilobytes:02}kB:{number:011}")
}

/// All requests.
pub fn all(sizes: Sizes) -> Vec<Case> {
    let keys = sizes.keys();
    let mut all = vec![
        Case::new(format!("MGET of {AT_ONCE}"), Answer::Strings(AT_ONCE), move |client, draw| {
            client.begin(1 + AT_ONCE as usize);
            client.arg(b"MGET");
            (0..AT_ONCE).for_each(|_| client.arg(key(draw.below(keys)).as_bytes()));
        }),
        Case::new(format!("MSET of {AT_ONCE}"), Answer::Done, move |client, draw| {
            client.begin(1 + 2 * AT_ONCE as usize);
            client.arg(b"MSET");
            for _ in 0..AT_ONCE {
                client.arg(key(draw.below(keys)).as_bytes());
                client.arg(&[b'v'; USUAL]);
            }
        }),
        Case::new(format!("INCR of {keys} keys"), Answer::Number, move |client, draw| {
            client.push(&[b"INCR", format!("number:{:09}", draw.below(keys)).as_bytes()]);
        }),
        script("EVAL", SCRIPT, keys),
        script("EVALSHA", DIGEST, keys),
        transaction(keys),
    ];
    all.extend(LONG.into_iter().map(|(kilobytes, share)| set(kilobytes, share)));
    let (kilobytes, share) = LONG[1];
    let get = Case::new(format!("GET of {kilobytes} kB"), Answer::Text, move |client, draw| {
        client.push(&[b"GET", long_key(kilobytes, draw.below(LONG_KEYS)).as_bytes()]);
    });
    all.push(Case { share, ..get });
    all
}

fn script(command: &'static str, script: &'static str, keys: u64) -> Case {
    Case::new(format!("{command} of two commands"), Answer::Text, move |client, draw| {
        let key = key(draw.below(keys));
        let words = [command.as_bytes(), script.as_bytes(), b"1", key.as_bytes(), &[b'v'; USUAL]];
        client.push(&words);
    })
}

fn transaction(keys: u64) -> Case {
    let name = format!("MULTI, {COMMANDS} SET, EXEC");
    let case = Case::new(name, Answer::Transaction(COMMANDS), move |client, draw| {
        client.push(&[b"MULTI"]);
        for _ in 0..COMMANDS {
            client.push(&[b"SET", key(draw.below(keys)).as_bytes(), &[b'v'; USUAL]]);
        }
        client.push(&[b"EXEC"]);
    });
    Case { share: 2, ..case }
}

fn set(kilobytes: usize, share: u64) -> Case {
    let value = vec![b'v'; kilobytes * 1_000];
    let case = Case::new(format!("SET of {kilobytes} kB"), Answer::Done, move |client, draw| {
        client.push(&[b"SET", long_key(kilobytes, draw.below(LONG_KEYS)).as_bytes(), &value]);
    });
    Case { share, ..case }
}

/// Fills all keys that are read.
pub fn load(client: &mut Client, sizes: Sizes) -> Result<()> {
    let (kilobytes, _) = LONG[1];
    let longest = vec![b'v'; kilobytes * 1_000];
    for number in 0..LONG_KEYS {
        client.call(&[b"SET", long_key(kilobytes, number).as_bytes(), &longest])?;
    }
    fill(client, sizes.keys())?;
    let is_known = client.call(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()])?
        == Reply::Bulk(Some(DIGEST.as_bytes()));
    ensure!(is_known, "the digest of the script is another one");
    Ok(())
}

/// Sets this many keys to a usual value.
pub fn fill(client: &mut Client, keys: u64) -> Result<()> {
    super::cases::fill(
        client,
        &[b"MSET"],
        keys,
        |client, number| {
            client.arg(key(number).as_bytes());
            client.arg(&[b'v'; USUAL]);
        },
        2,
    )
}
