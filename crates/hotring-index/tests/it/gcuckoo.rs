//! Properties of G-Cuckoo alone: pages that split, stashes, atomicity modes, the cache of recent items.

use crate::colliding;
use fastrand::Rng;
use hotring_engines::{Atomicity, GCuckooConfig, GCuckooHash, GCuckooStats};
use hotring_index::{Bytes, Config, ConfigError, Expiry, Growth, Kind, NewValue, Session, U64};
use std::collections::HashMap;

fn config(settings: GCuckooConfig) -> Config {
    let engine = settings.into();
    Config { slots_initial: 1, slots_max: 1 << 24, seed: [3, 4], engine, ..Config::default() }
}

fn small(page_buckets: usize) -> Config {
    config(GCuckooConfig { page_buckets, ..GCuckooConfig::default() })
}

fn index<K: Kind, const S: usize>(config: Config) -> GCuckooHash<K, S> {
    GCuckooHash::new(config).expect("a valid configuration")
}

fn stats<K: Kind, const S: usize>(index: &GCuckooHash<K, S>) -> GCuckooStats {
    GCuckooStats::of(&index.stats().engine).expect("it is G-Cuckoo")
}

const STEPS: u64 = 60_000;

fn model_u64s<const S: usize>(config: Config, keys: u64, seed: u64, steps: u64) -> GCuckooStats {
    let index = index::<U64, S>(config);
    // Two sessions that take turns: each removes the items that the other has in its cache.
    let mut sessions = [index.session(), index.session()];
    let (mut model, mut random) = (HashMap::new(), Rng::with_seed(seed));
    for step in 0..steps {
        let session = &mut sessions[random.u64(..2) as usize];
        let key = random.u64(..if step % 3 == 0 { keys } else { 50 });
        let value = random.u64(..) >> random.u64(..3);
        match random.u64(..9) {
            0 | 1 => assert_eq!(session.put(key, value), model.insert(key, value).is_some()),
            2 => {
                assert_eq!(session.insert(key, value), !model.contains_key(&key));
                model.entry(key).or_insert(value);
            }
            3 => assert_eq!(session.remove(key), model.remove(&key).is_some()),
            4 => assert_eq!(session.take(key), model.remove(&key)),
            5 => {
                let sum = model.get_mut(&key).map(|old| {
                    *old = value.wrapping_add(*old);
                    *old
                });
                assert_eq!(session.fetch_add(key, value), sum);
            }
            _ => assert_eq!(session.get(key), model.get(&key).copied(), "step {step} key {key}"),
        }
    }
    assert_eq!(index.len(), model.len());
    let mut met = HashMap::new();
    let mut cursor = 0;
    loop {
        cursor = sessions[0].scan(cursor, 10, |key, value| {
            assert!(met.insert(key, value).is_none(), "a key is visited once");
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(met, model);
    sessions[1].clear();
    assert!(index.is_empty());
    stats(&index)
}

#[test]
fn it_answers_like_a_map() {
    for page_buckets in [1, 4, 64, 0] {
        let one = model_u64s::<1>(small(page_buckets), 20_000, 1, STEPS);
        let four = model_u64s::<4>(small(page_buckets), 20_000, 2, STEPS);
        println!("{page_buckets} buckets:\n{one:?}\n{four:?}");
        assert!(one.splits > 0 && four.splits > 0, "the tables grow");
        assert!((one.kicks > 0 && four.kicks > 0) || page_buckets == 1, "items were moved");
        assert_eq!((one.kicks_wasted, four.kicks_wasted), (0, 0));
        assert_eq!((one.stash, four.stash), (0, 0), "nothing is left");
    }
}

#[test]
fn a_table_that_does_not_grow_takes_all_that_comes() {
    // A search passes by all that is stashed, so fewer steps.
    let fixed = |page_buckets| Config { growth: Some(Growth::Fixed), ..small(page_buckets) };
    for page_buckets in [1, 8, 64] {
        let one = model_u64s::<1>(fixed(page_buckets), 1000, 3, STEPS / 3);
        let four = model_u64s::<4>(fixed(page_buckets), 1000, 4, STEPS / 3);
        assert_eq!((one.splits, four.splits, one.pages, four.pages), (0, 0, 1, 1));
        assert!(one.stashed > 0 && one.predetermined > 0, "what has no room is stashed");
        assert!(one.unstashed > 0, "and comes back when there is room");
        assert!(page_buckets > 8 || (four.stashed > 0 && four.unstashed > 0));
        assert_eq!((one.kicks_wasted, four.kicks_wasted), (0, 0));
    }
}

#[test]
fn the_cache_answers_and_never_an_old_value() {
    let cached = |page_buckets| {
        config(GCuckooConfig { cache_entries: 64, page_buckets, ..GCuckooConfig::default() })
    };
    for page_buckets in [4, 0] {
        let one = model_u64s::<1>(cached(page_buckets), 20_000, 5, STEPS);
        let four = model_u64s::<4>(cached(page_buckets), 20_000, 6, STEPS);
        for stats in [one, four] {
            println!("{} of {} from the cache", stats.cache_hits, stats.cache_lookups);
            assert!(stats.cache_hits > 1000 && stats.cache_hits < stats.cache_lookups);
        }
    }
}

#[test]
fn byte_strings_with_expiries() {
    let index = index::<Bytes, 4>(small(16));
    let (mut session, mut random) = (index.session(), Rng::with_seed(7));
    let mut model: HashMap<Vec<u8>, (u64, Option<u64>)> = HashMap::new();
    for now in 1..40_000u64 {
        let key = format!("key:{}", random.u64(..3000)).into_bytes();
        let expiry = random.u64(..4) == 0;
        let expire_at = expiry.then(|| now + random.u64(..5000));
        let live = |entry: Option<&(u64, Option<u64>)>| {
            entry.filter(|e| e.1.is_none_or(|at| at > now)).map(|e| e.0)
        };
        match random.u64(..5) {
            0 | 1 => {
                let value = NewValue::Word { kind: 1, word: now };
                let expiry = expire_at.map_or(Expiry::Never, Expiry::At);
                let had = live(model.get(&key)).is_some();
                assert_eq!(session.put(&key, value, expiry, now), had);
                model.insert(key, (now, expire_at.map(|at| at.max(1))));
            }
            2 => {
                let had = live(model.get(&key)).is_some();
                assert_eq!(session.remove(&key, now), had);
                model.remove(&key);
            }
            3 if random.u64(..100) == 0 => {
                session.expire_step(500, now);
            }
            _ => {
                let seen = session.get(&key, now, |entry| match entry.value {
                    hotring_index::Value::Word { word, .. } => word,
                    hotring_index::Value::Bytes { .. } => unreachable!("words only"),
                });
                assert_eq!(seen, live(model.get(&key)));
            }
        }
    }
    assert!(stats(&index).splits > 10);
}

/// Keys whose hashes agree in the bits that choose pages cannot be parted by splitting. They fill
/// the stash, and the table stays in proportion to them.
#[test]
fn keys_that_no_split_can_part() {
    fn flood<const S: usize>() {
        let index = index::<U64, S>(small(0));
        let mut session = index.session();
        let keys: Vec<u64> =
            (0..6000u64).map(|i| colliding::u64_key(i << 50 | 0x2_dead_beef_1234)).collect();
        for &key in &keys {
            assert!(session.insert(key, key));
        }
        let (stats, table) = (stats(&index), index.stats().table_bytes);
        println!("{S} slots: {} pages, {} stashed, {table} bytes", stats.pages, stats.stash);
        assert!(keys.iter().all(|&key| session.get(key) == Some(key)));
        assert!(stats.pages <= 80, "a few splits in vain, then no more");
        assert!(keys.iter().all(|&key| session.remove(key)));
        assert!(index.is_empty());
        for key in 0..20_000 {
            session.insert(key, 1);
        }
        assert!((0..20_000).all(|key| session.get(key) == Some(1)));
    }
    flood::<1>();
    flood::<4>();
}

/// With one bucket in each table all keys share theirs.
#[test]
fn keys_that_share_both_buckets() {
    let index = index::<U64, 4>(Config { slots_max: 1, ..small(1) });
    let mut session = index.session();
    for key in 0..1000 {
        assert!(session.insert(key, key));
    }
    assert_eq!((stats(&index).pages, stats(&index).stash), (1, 992));
    assert!((0..1000).all(|key| session.take(key) == Some(key)));
    assert_eq!(stats(&index).stash, 0);
}

fn in_threads(n: u64, f: impl Fn(u64) + Sync) {
    let f = &f;
    std::thread::scope(|scope| (0..n).for_each(|thread| drop(scope.spawn(move || f(thread)))));
}

/// Adds to shared counters, while other keys come and go and pages split.
fn sums_of<const S: usize>(config: Config, rounds: u64) -> GCuckooStats {
    const COUNTERS: u64 = 16;
    let index = index::<U64, S>(config);
    let mut session = index.session();
    (0..COUNTERS).for_each(|key| assert!(session.insert(key, 0)));
    in_threads(4, |thread| {
        let (mut session, mut random) = (index.session(), Rng::with_seed(thread + 1));
        for i in 0..rounds {
            let own = (thread + 1) << 32 | i;
            assert!(session.insert(own, i));
            let counter = random.u64(..COUNTERS);
            assert!(session.fetch_add(counter, 1).is_some(), "a counter was lost");
            // A copy in its place, now and then.
            if random.u64(..8) == 0 {
                let old = session.get(counter).expect("a counter was lost");
                let _ = session.compare_exchange(counter, old, old | 1 << 63);
            }
            assert_eq!(session.get(own), Some(i));
            if i % 3 != 0 {
                assert!(session.remove(own));
            }
        }
    });
    let sum: u64 = (0..COUNTERS).map(|key| session.get(key).expect("lost") & !(1 << 63)).sum();
    assert_eq!(sum, 4 * rounds);
    assert_eq!(index.len() as u64, COUNTERS + 4 * rounds.div_ceil(3));
    for thread in 1..=4 {
        for i in 0..rounds {
            assert_eq!(session.get(thread << 32 | i), (i % 3 == 0).then_some(i));
        }
    }
    stats(&index)
}

#[test]
fn nothing_is_lost_between_threads_in_any_mode() {
    for atomicity in [Atomicity::Optimistic, Atomicity::Lock, Atomicity::Hle, Atomicity::Rtm] {
        let try_it = config(GCuckooConfig { atomicity, ..Default::default() });
        if GCuckooHash::<U64, 4>::new(try_it).is_err() {
            println!("{atomicity:?} is skipped: not on this processor");
            continue;
        }
        for page_buckets in [2, 32, 0] {
            let config = config(GCuckooConfig { atomicity, page_buckets, ..Default::default() });
            let one = sums_of::<1>(config.clone(), 3000);
            let four = sums_of::<4>(config, 3000);
            for stats in [one, four] {
                println!("{atomicity:?}, {page_buckets}: {stats:?}");
                assert!(stats.splits > 0 && stats.kicks_wasted == 0);
                let transactions = stats.htm_commits + stats.htm_fallbacks;
                assert_eq!(transactions > 0, atomicity == Atomicity::Rtm);
            }
        }
    }
}

/// A key that is present throughout is visited once, while others come and go and pages split.
#[test]
fn a_scan_meets_each_key_once_while_the_table_grows() {
    fn scans<const S: usize>() {
        let index = index::<U64, S>(small(8));
        let mut session = index.session();
        (0..2000).for_each(|key| assert!(session.insert(key, 0)));
        in_threads(3, |thread| {
            let mut session = index.session();
            if thread > 0 {
                for i in 0..20_000 {
                    let key = thread << 32 | i;
                    session.insert(key, 0);
                    session.remove(key.wrapping_sub(100));
                }
                return;
            }
            for round in 0..20 {
                let (mut met, mut cursor) = (vec![0; 2000], 0);
                loop {
                    cursor = session.scan(cursor, 1 + 7 * round, |key, _| {
                        if let Some(times) = met.get_mut(key as usize) {
                            *times += 1;
                        }
                    });
                    if cursor == 0 {
                        break;
                    }
                }
                assert!(met.iter().all(|&times| times == 1), "round {round}: {met:?}");
            }
        });
        assert!(stats(&index).splits > 10);
    }
    scans::<1>();
    scans::<4>();
}

#[test]
fn grow_doubles_the_pages() {
    let index = index::<U64, 4>(small(16));
    let mut session: Session<U64, _> = index.session();
    (0..1000).for_each(|key| assert!(session.insert(key, key)));
    let before = stats(&index).pages;
    assert!(session.grow());
    assert_eq!(stats(&index).pages, 2 * before);
    assert!((0..1000).all(|key| session.get(key) == Some(key)));
    session.collect();
}

#[test]
fn unsupported_options_are_refused_with_the_supported_ones() {
    let refused = |config: Config| match GCuckooHash::<U64, 4>::new(config) {
        Err(ConfigError::Unsupported(why)) => why,
        _ => panic!("not refused"),
    };
    let rtm = config(GCuckooConfig { atomicity: Atomicity::Rtm, ..Default::default() });
    if !stats(&index::<U64, 4>(small(0))).htm_supported {
        assert!(refused(rtm).contains("optimistic"));
    }
    assert!(refused(small(3)).contains("2^k"));
    let bytes = Config { growth: Some(Growth::BytesPerKey(8.0)), ..small(0) };
    assert!(refused(bytes).contains("growth"));
    let cache = config(GCuckooConfig { cache_entries: 3, ..Default::default() });
    assert!(refused(cache).contains("2^k"));
    assert!(refused(Config { period: Some(7), ..small(0) }).contains("hotring"));
    assert!(GCuckooHash::<U64, 2>::new(small(0)).is_err());
}

/// Set where XBEGIN can be executed although the processor has no transactions.
const UNDER_VALGRIND: &str = "HOTRING_UNDER_VALGRIND";

/// The path of aborts: valgrind executes XBEGIN, and aborts each time. Every operation must then
/// have been done with the locks taken. That path is all that can be tested without hardware; the
/// other one is run over a mock, in `htm.rs`.
#[test]
fn all_transactions_fall_back() {
    if std::env::var_os(UNDER_VALGRIND).is_none() {
        return println!("skipped: only the test below runs it, under valgrind");
    }
    for page_buckets in [2, 0] {
        let config = config(GCuckooConfig {
            atomicity: Atomicity::Rtm,
            page_buckets,
            force_rtm: true,
            ..Default::default()
        });
        for stats in [sums_of::<1>(config.clone(), 200), sums_of::<4>(config, 200)] {
            println!("{stats:?}");
            assert!(stats.htm_enabled && stats.htm_commits == 0);
            // Each of the 800 rounds has an insertion, an addition and a lookup, at least.
            assert!(stats.htm_fallbacks >= 2400, "{} operations", stats.htm_fallbacks);
            assert_eq!(stats.htm_aborts, stats.htm_fallbacks, "no abort was tried again");
        }
    }
}

#[test]
fn transactions_that_abort_lose_nothing() {
    use std::process::Command;
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: only x86-64 has these transactions");
    }
    if cfg!(hotring_plain_arena) {
        return println!("skipped: valgrind does not run what a sanitizer has instrumented");
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        return println!("skipped: there is no valgrind here; it is in the package of that name");
    }
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=none"]).arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", "gcuckoo::all_transactions_fall_back", "--nocapture"]);
    let output = command.env(UNDER_VALGRIND, "1").output().expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("htm_commits: 0"), "{}", output.status);
}
