//! Each policy on accesses that were traced by hand, and the exact policies against models that search.

use fastrand::Rng;

use super::lists::Lists;
use super::policies::CONTESTANTS;
use super::policy::Setting;
use crate::workload::trace::{Format, Trace};

fn trace(keys: &[u32]) -> Trace {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    Trace::parse(bytes.as_slice(), Format::U32le, u64::MAX).unwrap()
}

fn hits(policy: &str, trace: &Trace, items: usize) -> u64 {
    let contestant = CONTESTANTS.iter().find(|contestant| contestant.name == policy).unwrap();
    Setting { trace, items }.hits(contestant)
}

/// Accesses most of which go to few keys, with occasional scans.
fn mixed(seed: u64) -> Trace {
    let mut random = Rng::with_seed(seed);
    let key = |access: u64, random: &mut Rng| match access % 50 {
        0..10 => 100 + access,
        _ => random.u64(..8) * random.u64(..8),
    };
    trace(&(0..4_000).map(|access| key(access, &mut random) as u32).collect::<Vec<_>>())
}

/// Hits of a cache that keeps its items in a list and evicts the one that `victim` chooses. `victim` gets the accesses
/// so far, those to come, and the items in the order of their insertion.
fn model(trace: &Trace, items: usize, victim: impl Fn(&[u32], &[u32], &[u32]) -> usize) -> u64 {
    let (mut cache, mut hits) = (Vec::new(), 0);
    for (now, key) in trace.accesses().iter().enumerate() {
        if cache.contains(key) {
            hits += 1;
            continue;
        }
        if cache.len() == items {
            let (past, future) = trace.accesses().split_at(now);
            cache.remove(victim(past, future, &cache));
        }
        cache.push(*key);
    }
    hits
}

/// The index of the item for which `f` is least.
fn least<T: Ord>(cache: &[u32], f: impl Fn(u32) -> T) -> usize {
    (0..cache.len()).min_by_key(|&position| f(cache[position])).unwrap()
}

fn last(past: &[u32], key: u32) -> Option<usize> {
    past.iter().rposition(|&other| other == key)
}

#[test]
fn exact_policies_count_as_models_that_search() {
    for seed in 0..3 {
        let trace = mixed(seed);
        for items in [1, 2, 7, 20] {
            let fifo = model(&trace, items, |_, _, _| 0);
            assert_eq!(hits("fifo", &trace, items), fifo, "seed {seed}, {items} items");
            let lru = model(&trace, items, |past, _, cache| least(cache, |key| last(past, key)));
            assert_eq!(hits("lru", &trace, items), lru, "seed {seed}, {items} items");
            let next = |future: &[u32], key| {
                future.iter().position(|&other| other == key).unwrap_or(usize::MAX)
            };
            let optimum = model(&trace, items, |_, future, cache| {
                least(cache, |key| std::cmp::Reverse(next(future, key)))
            });
            assert_eq!(hits("optimum", &trace, items), optimum, "seed {seed}, {items} items");
        }
    }
}

/// LFU, CLOCK and SIEVE against plain implementations of their definitions.
#[test]
fn lfu_clock_and_sieve_count_as_models_that_search() {
    for seed in 0..3 {
        let trace = mixed(seed);
        for items in [1, 2, 7, 20] {
            assert_eq!(hits("lfu", &trace, items), naive_lfu(&trace, items), "{seed}, {items}");
            assert_eq!(hits("clock", &trace, items), naive_hand(&trace, items, true), "{items}");
            assert_eq!(hits("sieve", &trace, items), naive_hand(&trace, items, false), "{items}");
        }
    }
}

fn naive_lfu(trace: &Trace, items: usize) -> u64 {
    let (mut cache, mut hits): (Vec<(u32, usize, usize)>, _) = (Vec::new(), 0);
    for (now, &key) in trace.accesses().iter().enumerate() {
        if let Some((_, count, last)) = cache.iter_mut().find(|(other, ..)| *other == key) {
            (*count, *last, hits) = (*count + 1, now, hits + 1);
            continue;
        }
        if cache.len() == items {
            let least = cache.iter().map(|&(_, count, last)| (count, last)).min().unwrap();
            cache.retain(|&(_, count, last)| (count, last) != least);
        }
        cache.push((key, 1, now));
    }
    hits
}

/// A hand that begins at the oldest item. An item that it passes moves to the end, or stays in its position.
fn naive_hand(trace: &Trace, items: usize, to_end: bool) -> u64 {
    let (mut cache, mut hand, mut hits): (Vec<(u32, bool)>, _, _) = (Vec::new(), 0, 0);
    for &key in trace.accesses() {
        if let Some((_, visited)) = cache.iter_mut().find(|(other, _)| *other == key) {
            *visited = true;
            hits += 1;
            continue;
        }
        while cache.len() == items {
            let (at, visited) = cache[hand];
            if !visited || to_end {
                cache.remove(hand);
            } else {
                cache[hand].1 = false;
                hand += 1;
            }
            if visited && to_end {
                cache.push((at, false));
            }
            hand %= cache.len().max(1);
        }
        cache.push((key, false));
    }
    hits
}

#[test]
fn policies_with_ghosts_have_known_hits() {
    // Four items. 1 and 2 are visited, so that S3-FIFO's queue of one promotes them; a scan; they are still there.
    let keys = [1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2];
    assert_eq!(hits("s3-fifo", &trace(&keys), 4), 6);
    assert_eq!(hits("lru", &trace(&keys), 4), 4);
    // 3 comes back while it is a ghost, and then survives: the main queue has room for two.
    let keys = [1, 2, 3, 4, 5, 3, 6, 7, 8, 9, 3];
    assert_eq!(hits("s3-fifo", &trace(&keys), 4), 1);
    // 2Q: hits in its FIFO move nothing, so that 1 goes, is a ghost, and is kept when it comes back.
    let keys = [1, 1, 2, 3, 4, 5, 1, 6, 7, 8, 1];
    assert_eq!(hits("2q", &trace(&keys), 4), 2);
    // ARC: items requested twice outlive a scan.
    let keys = [1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2];
    assert_eq!(hits("arc", &trace(&keys), 4), 4);
    assert_eq!(hits("lru", &trace(&keys), 4), 2);
}

#[test]
fn no_policy_beats_the_optimum_and_all_keep_a_fitting_set() {
    // These may refuse requested items, which the optimum does not.
    const MAY_REFUSE: [&str; 3] = ["moka", "quick_cache", "foyer lfu"];
    let trace = mixed(9);
    for contestant in CONTESTANTS {
        let counted = |items| hits(contestant.name, &trace, items);
        let refuses = MAY_REFUSE.contains(&contestant.name);
        for items in [1, 2, 3, 10, 40] {
            let (counted, most) = (counted(items), hits("optimum", &trace, items));
            assert!(refuses || counted <= most, "{} has {counted} of {most}", contestant.name);
        }
        let all = (trace.accesses().len() - trace.distinct()) as u64;
        let least = if refuses { all * 9 / 10 } else { all };
        assert!(counted(trace.distinct()) >= least, "{}", contestant.name);
    }
}

#[test]
fn policies_that_know_more_than_chance_beat_it() {
    let mut random = Rng::with_seed(4);
    let keys: Vec<u32> =
        (0..20_000).map(|_| (random.u64(..40) * random.u64(..40)) as u32).collect();
    let (trace, items) = (trace(&keys), 100);
    let chance = hits("random", &trace, items);
    for policy in ["heat", "s3-fifo", "sieve", "arc", "2q", "lru", "lfu", "redis lru", "redis lfu"]
    {
        let counted = hits(policy, &trace, items);
        assert!(counted > chance, "{policy} has {counted} hits, chance {chance}");
    }
    let (exact, sampled) = (hits("lru", &trace, items), hits("redis lru", &trace, items));
    assert!(sampled.abs_diff(exact) < exact / 20, "{sampled} hits by samples, {exact} exactly");
}

#[test]
fn lists_keep_their_order_through_any_change() {
    let mut lists: Lists<2> = Lists::new(10);
    let mut model = [Vec::new(), Vec::new()];
    let mut random = Rng::with_seed(3);
    for _ in 0..5_000 {
        let (list, key) = (random.usize(..2), random.u64(..10) as u32);
        match random.u64(..4) {
            0 => assert_eq!(
                lists.pop(list),
                (!model[list].is_empty()).then(|| model[list].remove(0))
            ),
            1 => {
                lists.remove(key);
                model.iter_mut().for_each(|keys| keys.retain(|&other| other != key));
            }
            _ => {
                lists.push(list, key);
                model.iter_mut().for_each(|keys| keys.retain(|&other| other != key));
                model[list].push(key);
            }
        }
        for (list, keys) in model.iter().enumerate() {
            assert_eq!((lists.len(list), lists.oldest(list)), (keys.len(), keys.first().copied()));
            for pair in keys.windows(2) {
                assert_eq!(lists.newer(pair[0]), Some(pair[1]));
            }
        }
        assert_eq!(lists.list_of(key), model.iter().position(|keys| keys.contains(&key)));
    }
}
