//! MEMORY: memory usage of values and of the entire server.

use std::fmt::Write;
use std::time::Duration;

use hotring_protocol::parse_i64;
use hotring_store::index::Stats;

use crate::host::clock;
use crate::observe::big_keys::BigKey;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::hot_keys::hottest;

/// Number of keys in each list of MEMORY STATS.
const KEYS_SHOWN: usize = 10;

/// With less memory than this, in bytes, DOCTOR gives no advice.
const LITTLE: u64 = 5 << 20;

/// Time limit of PURGE, and the number of items that it visits between two clock readings.
const PURGE_MAX: Duration = Duration::from_millis(20);
const PURGE_ITEMS: usize = 256;

/// The reason that formatting cannot fail.
const WRITES: &str = "a String takes every write";

/// Replies with the exact size of an item; nothing is sampled.
pub(crate) fn usage(c: &mut Context<'_>) -> Outcome {
    let options = c.args.tail(3);
    for i in (0..options.len()).step_by(2) {
        let count = options.get(i + 1).filter(|_| options.at(i).eq_ignore_ascii_case(b"samples"));
        let count = parse_i64(count.ok_or(Failure::Syntax)?).ok_or(Failure::NotAnInteger)?;
        if count < 0 {
            return Err(Failure::Syntax);
        }
    }
    match c.store.memory(&c.args[2], c.now) {
        Some(bytes) => c.reply.count(bytes),
        None => c.reply.null(),
    }
    Ok(())
}

/// Frees memory and compacts items for at most [`PURGE_MAX`]; the background task does the rest.
pub(crate) fn purge(c: &mut Context<'_>) -> Outcome {
    let deadline = clock::monotonic() + PURGE_MAX;
    while c.store.compact_step(PURGE_ITEMS).visited > 0 && clock::monotonic() < deadline {}
    c.store.collect();
    c.reply.ok();
    Ok(())
}

/// Bytes of live items, without removed ones whose memory is not free yet.
fn dataset(index: &Stats) -> u64 {
    index.bytes.saturating_sub(index.limbo_bytes)
}

/// Replies with those of Redis's fields that apply to hotring.
pub(crate) fn stats(c: &mut Context<'_>) -> Outcome {
    let store = c.server.store.stats();
    let index = store.index;
    let (_, scripts) = c.server.scripts.counts();
    let total = index.used_bytes();
    let dataset = dataset(&index);
    let numbers = [
        ("total.allocated", total),
        ("lua.caches", scripts as u64),
        ("overhead.total", total - dataset),
        ("keys.count", index.items),
        ("keys.bytes-per-key", total / index.items.max(1)),
        ("dataset.bytes", dataset),
        ("overhead.eviction", store.eviction_bytes as u64),
        ("keys.pinned", store.pinned.keys as u64),
        ("pinned.bytes", store.pinned.bytes as u64),
    ];
    c.reply.map(numbers.len() + 4);
    for (name, number) in numbers {
        c.reply.bulk(name.as_bytes());
        c.reply.int(number as i64);
    }
    c.reply.bulk(b"dataset.percentage");
    c.reply.double(dataset as f64 * 100.0 / total.max(1) as f64);
    notable_keys(c);
    c.reply.bulk(b"db.0");
    c.reply.map(2);
    c.reply.bulk(b"overhead.hashtable.main");
    c.reply.int(index.table_bytes as i64);
    c.reply.bulk(b"overhead.hashtable.expires");
    c.reply.int(store.expiry_bytes as i64);
    Ok(())
}

/// Reports the memory of items, which no allocator manages. In Redis this is the allocator's report.
pub(crate) fn malloc_stats(c: &mut Context<'_>) -> Outcome {
    let index = c.server.store.stats().index;
    let mut text = String::from("Memory of items, in bytes:\n");
    for (name, bytes) in [
        ("mapped", index.mapped_bytes),
        ("held", index.held_bytes),
        ("used", index.bytes),
        ("used by long values and buffers", index.block_bytes),
        ("waiting to be freed", index.limbo_bytes),
        ("table", index.table_bytes),
        ("outside the index", index.external_bytes),
    ] {
        writeln!(text, "{name}: {bytes}").expect(WRITES);
    }
    let fragmentation = index.fragmentation();
    writeln!(text, "held / used: {fragmentation:.2}").expect(WRITES);
    c.reply.verbatim("txt", &text);
    Ok(())
}

/// Writes the keys with the largest values and the keys that requests name most often. A user sees only the names of
/// keys whose values that user may read.
fn notable_keys(c: &mut Context<'_>) {
    let user = c.client.access().user();
    let mut largest = c.server.observe.big_keys.largest();
    let is_shown = c.server.shows();
    largest.retain(|big| user.may_read(&big.key) && is_shown(&big.key));
    let hottest =
        hottest(&c.server.threads, c.now, KEYS_SHOWN, |key| user.may_read(key) && is_shown(key));
    c.reply.bulk(b"keys.largest");
    c.reply.map(largest.len());
    for BigKey { bytes, key } in largest {
        c.reply.bulk(&key);
        c.reply.count(bytes);
    }
    c.reply.bulk(b"keys.hottest.percentage");
    c.reply.map(hottest.len());
    for hot in hottest {
        c.reply.bulk(&hot.name());
        c.reply.double(hot.share * 100.0);
    }
}

/// Explains the figures in sentences.
pub(crate) fn doctor(c: &mut Context<'_>) -> Outcome {
    let index = c.server.store.stats().index;
    let dataset = dataset(&index);
    let mut text = String::new();
    let mut say = |sentence: std::fmt::Arguments<'_>| {
        writeln!(text, "{sentence}").expect(WRITES);
    };
    if index.bytes + index.table_bytes < LITTLE {
        say(format_args!("This server holds very little data: there is nothing to report yet."));
    } else {
        if let Some(stalled) = c.server.store.stalled() {
            say(format_args!(
                "Thread '{}' is stuck in a command: {} bytes that others have removed since then cannot \
                 be freed.",
                stalled.session, stalled.held_bytes
            ));
        }
        if index.limbo_bytes > dataset {
            say(format_args!(
                "{} bytes of removed items wait to be freed, more than the {dataset} of live items.",
                index.limbo_bytes
            ));
        }
        if index.table_bytes > dataset {
            say(format_args!(
                "The table of the index takes {} bytes, more than the items, because there were more keys before. \
                 It shrinks while commands run.",
                index.table_bytes
            ));
        }
        if index.held_bytes > 2 * index.bytes + LITTLE {
            say(format_args!(
                "{} bytes are held for items that use {}: later items reuse the memory of removed items, or \
                 compaction returns it to the system.",
                index.held_bytes, index.bytes
            ));
        }
        if text.is_empty() {
            text.push_str("Nothing is out of the ordinary.\n");
        }
    }
    c.reply.verbatim("txt", &text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;

    use hotring_store::SetOptions;

    use crate::exec::dialogue::Dialogue;

    /// A Unix millisecond.
    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn memory_figures_and_advice() {
        let mut dialogue = Dialogue::new(Version::Resp3);
        let stats = dialogue.say("MEMORY STATS");
        assert!(stats.starts_with("%13¶") && stats.contains("$10¶keys.count¶:0¶"), "{stats}");
        assert!(dialogue.say("MEMORY DOCTOR").contains("very little data"));
        let report = dialogue.say("MEMORY MALLOC-STATS");
        assert!(
            report.starts_with("=") && report.contains("\nwaiting to be freed: 0\n"),
            "{report}"
        );
        dialogue.say(&format!("SET k {}", "v".repeat(60_000)));
        // A dialogue cannot send requests as long as this.
        let mut session = dialogue.server().store.session();
        let mut set_long = || {
            let long = vec![b'v'; 8_000_001];
            session.set(&b"long"[..], &long, SetOptions::default(), NOW).expect("room");
        };
        set_long();
        dialogue.server().observe.big_keys.step(&mut dialogue.server().store.session(), 0);
        let stats = dialogue.say("MEMORY STATS");
        assert!(stats.contains("$10¶keys.count¶:2¶"), "{stats}");
        assert!(stats.contains("$12¶keys.largest¶%2¶$4¶long¶:8000001¶$1¶k¶:60000¶"), "{stats}");
        assert!(dialogue.say("MEMORY DOCTOR").contains("out of the ordinary"));
        for _ in 0..3 {
            set_long();
        }
        let limbo = dialogue.server().store.stats().index.limbo_bytes;
        assert!(limbo > 8_000_000, "{limbo} bytes wait");
        assert!(dialogue.say("MEMORY DOCTOR").contains("bytes of removed items wait to be freed"));
    }
}
