//! How many records of a stream a replica applies a second, by itself and with workers.
//!
//! ```console
//! cargo run --release -p hotring-store --example apply_rate
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_log::storage::Memory;
use hotring_log::{Effect, Log, Options as LogOptions, Recovered, Storage, When, Writer, read};
use hotring_store::{Applier, Options, Role, Session, Store};

const NOW: u64 = 1_700_000_000_000;
/// Bytes before the records of a segment.
const SEGMENT_HEAD: usize = 64;
/// Bytes of a group, as a primary under load sends them.
const GROUP_LEN: usize = 256 << 10;
const COUNT: u64 = 2_000_000;
const KEYS: u64 = 500_000;

/// The groups of a store's stream, and their records.
fn groups(write: impl FnOnce(&mut Session)) -> (Vec<Arc<Vec<u8>>>, u64) {
    let (memory, id) = (Memory::new(), [1; 16]);
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let log = Arc::new(Log::new(0, When::Handed, 64 << 20));
    let (mut writer, _syncer) =
        Writer::new(log.clone(), storage, LogOptions::new(id), &Recovered::nothing(1));
    let store = Store::new(Options::default()).expect("it fits");
    let mut session = store.session();
    assert!(store.set_log(log.clone()) && session.switch_log(true));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while writer.step(Duration::ZERO) {
                writer.wait();
            }
        });
        write(&mut session);
        log.close();
    });
    let mut names = memory.list().expect("it is memory");
    names.retain(|name| name.ends_with(".hrl"));
    names.sort_unstable();
    let (mut groups, mut group, mut count) = (Vec::new(), Vec::new(), 0);
    for name in names {
        let content = memory.content(&name).expect("it is listed");
        let mut rest = &content[SEGMENT_HEAD..];
        while let Ok(found) = read(rest) {
            let (record, behind) = rest.split_at(found.len);
            rest = behind;
            if !matches!(found.effect, Effect::Durable { .. }) {
                group.extend_from_slice(record);
                count += 1;
                if group.len() >= GROUP_LEN && !found.more {
                    groups.push(Arc::new(std::mem::take(&mut group)));
                }
            }
        }
    }
    groups.push(Arc::new(group));
    (groups, count)
}

fn measure(name: &str, (groups, count): &(Vec<Arc<Vec<u8>>>, u64)) {
    for workers in [0, 1, 2] {
        let store = Store::new(Options::default()).expect("it fits");
        store.session().switch_role(Role::Replica, NOW);
        let (mut applier, lanes) = Applier::new(&store, 0, workers);
        let cpu = cpu_time();
        let elapsed = std::thread::scope(|scope| {
            for worker in lanes {
                scope.spawn(move || worker.run(|_| ()));
            }
            let begun = Instant::now();
            for group in groups {
                applier.apply(group, NOW).expect("it follows");
            }
            applier.settle().expect("all forms are known");
            drop(applier);
            begun.elapsed()
        });
        let [rate, of_core] =
            [elapsed, cpu_time() - cpu].map(|t| *count as f64 / t.as_secs_f64() / 1e6);
        println!(
            "{name:12} {workers} workers: {rate:.2} M records/s, {of_core:.2} M a second of a core"
        );
    }
}

/// The time that this process has run on a core, as Linux counts it.
fn cpu_time() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks =
        stat.rsplit(") ").next().into_iter().flat_map(|rest| rest.split(' ').skip(11).take(2));
    TICK * ticks.filter_map(|ticks| ticks.parse::<u32>().ok()).sum::<u32>()
}

fn main() {
    let key = |n: u64| format!("key:{:012}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS);
    let sets = groups(|session| {
        for n in 0..COUNT {
            let value = [n as u8; 32];
            session.set(key(n).as_bytes(), &value, Default::default(), NOW).expect("room");
        }
    });
    measure("SET", &sets);
    let batches = groups(|session| {
        for n in (0..COUNT / 4).step_by(10) {
            let keys: Vec<String> = (n..n + 10).map(key).collect();
            let value = [n as u8; 32];
            let pairs: Vec<_> = keys.iter().map(|key| (key.as_bytes(), &value[..])).collect();
            session.mset(&pairs, NOW).expect("room");
        }
    });
    measure("MSET of 10", &batches);
}
