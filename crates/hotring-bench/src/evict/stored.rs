//! The policies of hotring's store, in the store itself and in a server: with real keys and values, a limit in
//! bytes, and all other work of an eviction. They should reach the hits of the pure policies.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hotring_store::{
    EvictionOptions, EvictionPolicy, Options, Session, SetExpiry, SetOptions, Store,
};

use super::policy::Setting;
use crate::address::Address;
use crate::resp::{Client, Reply, info_field};

/// All policies that evict, by their names in a server.
pub const POLICIES: [(&str, EvictionPolicy); 8] = [
    ("heat", EvictionPolicy::Heat),
    ("allkeys-lru", EvictionPolicy::AllKeysLru),
    ("allkeys-lfu", EvictionPolicy::AllKeysLfu),
    ("allkeys-random", EvictionPolicy::AllKeysRandom),
    ("volatile-lru", EvictionPolicy::ExpiringLru),
    ("volatile-lfu", EvictionPolicy::ExpiringLfu),
    ("volatile-random", EvictionPolicy::ExpiringRandom),
    ("volatile-ttl", EvictionPolicy::ExpiringTtl),
];

/// The Unix time in milliseconds at which the first key is stored.
const NOW: u64 = 1_700_000_000_000;
/// Samples of a server's memory that must be alike, then the time between two of them.
const CALM: usize = 10;
const LOOK: Duration = Duration::from_millis(100);
/// The time to live of the first key. Under a policy that evicts only keys with an expiry, all keys get one that
/// lies after any replay, each a millisecond later than the key stored before it. Under other policies no key
/// gets an expiry, because the expiry entries of evicted keys would take the space of items.
const LIFE_MS: u64 = 1_000_000_000;

/// Counts hits in a store that holds about as many items as the setting says, with values of `value_len` bytes.
pub fn in_store(setting: &Setting<'_>, policy: EvictionPolicy, value_len: usize) -> Result<u64> {
    let store = Store::new(Options::default())?;
    let value = vec![0x55; value_len];
    let mut session = store.session();
    let empty = store.stats().index.used_bytes();
    put(&mut session, policy, setting.trace.key(0), &value, 0)?;
    let item = session.memory(setting.trace.key(0), NOW).context("it was stored")?;
    session.clear();
    store.set_eviction(EvictionOptions { policy, ..EvictionOptions::default() })?;
    store.set_memory_max(empty + (setting.items * item) as u64);
    let mut hits = 0;
    for (n, key) in setting.trace.accesses().iter().enumerate() {
        let key = setting.trace.key(*key);
        if session.get(key, NOW, |_| ()).is_some() {
            hits += 1;
        } else {
            put(&mut session, policy, key, &value, n as u64)?;
        }
        if n % 4096 == 0 {
            // The memory of the policy itself counts, too, as in a server.
            store.set_external_memory(store.stats().eviction_bytes as u64);
        }
    }
    Ok(hits)
}

fn put(
    session: &mut Session,
    policy: EvictionPolicy,
    key: &[u8],
    value: &[u8],
    n: u64,
) -> Result<()> {
    let expiry = if policy.takes_expiring_only() {
        SetExpiry::At(NOW + LIFE_MS + n)
    } else {
        SetExpiry::Clear
    };
    session.set(key, value, SetOptions { expiry, ..SetOptions::default() }, NOW)?;
    Ok(())
}

/// Counts hits over one connection to a server, one request at a time as a client does. The server must be empty.
/// Its memory settings are changed afterwards.
pub fn in_server(
    setting: &Setting<'_>,
    (name, policy): (&str, EvictionPolicy),
    value_len: usize,
    address: &Address,
) -> Result<u64> {
    let value = vec![0x55; value_len];
    let mut client = Client::connect(address)?;
    ensure!(matches!(client.call(&[b"DBSIZE"])?, Reply::Integer(0)), "{address} is not empty");
    set(&mut client, &[b"maxmemory", b"0"])?;
    let key = setting.trace.key(0);
    put_by(&mut client, policy, key, &value, 0)?;
    client.call(&[b"GET", key])?;
    let Reply::Integer(item) = client.call(&[b"MEMORY", b"USAGE", key])? else {
        anyhow::bail!("MEMORY USAGE answers no number")
    };
    client.call(&[b"DEL", key])?;
    // Includes the current buffers of the connection.
    let empty = settled(&mut client)?;
    let max = empty + setting.items as u64 * item as u64;
    set(&mut client, &[b"maxmemory-policy", name.as_bytes()])?;
    set(&mut client, &[b"maxmemory", max.to_string().as_bytes()])?;
    let mut hits = 0;
    for (n, key) in setting.trace.accesses().iter().enumerate() {
        let key = setting.trace.key(*key);
        if matches!(client.call(&[b"GET", key])?, Reply::Bulk(Some(_))) {
            hits += 1;
        } else {
            put_by(&mut client, policy, key, &value, n as u64)?;
        }
    }
    client.call(&[b"FLUSHALL"])?;
    Ok(hits)
}

fn put_by(
    client: &mut Client,
    policy: EvictionPolicy,
    key: &[u8],
    value: &[u8],
    n: u64,
) -> Result<()> {
    let seconds = ((LIFE_MS + n) / 1000).to_string();
    let request: [&[u8]; 5] = [b"SET", key, value, b"EX", seconds.as_bytes()];
    client.call(if policy.takes_expiring_only() { &request } else { &request[..3] })?;
    Ok(())
}

/// The memory that the server uses, once it is stable: the garbage of a replay is freed in the background.
fn settled(client: &mut Client) -> Result<u64> {
    let (mut last, mut calm) = (0, 0);
    while calm < CALM {
        std::thread::sleep(LOOK);
        client.call(&[b"MEMORY", b"PURGE"])?;
        let used = info_field(&client.info("memory")?, "used_memory")
            .context("INFO has no used_memory")?;
        calm = if used == last { calm + 1 } else { 0 };
        last = used;
    }
    Ok(last)
}

fn set(client: &mut Client, pairs: &[&[u8]]) -> Result<()> {
    client.call(&[&[&b"CONFIG"[..], b"SET"], pairs].concat())?;
    Ok(())
}
