//! The policy over a plain map.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;

/// Items by reversed hash, and the requests made about them.
#[derive(Default)]
struct Cache {
    items: BTreeMap<u64, Marks>,
    looks: usize,
    calls: usize,
}

/// Reversed, a hash of 48 bits has all of them at the top.
fn position(hash: u64) -> u64 {
    hash.reverse_bits()
}

impl Items for Cache {
    fn count(&self) -> usize {
        self.items.len()
    }

    fn judge(&mut self, hash: u64, mut verdict: impl FnMut(Marks) -> Verdict) -> Judged {
        self.calls += 1;
        let Some(marks) = self.items.get_mut(&position(hash)) else { return Judged::Absent };
        self.looks += 1;
        match verdict(*marks) {
            Verdict::Keep(kept) => {
                *marks = kept;
                Judged::Kept
            }
            Verdict::Evict => {
                self.items.remove(&position(hash));
                Judged::Evicted
            }
        }
    }

    fn judge_next(
        &mut self,
        hand: u64,
        looks: usize,
        mut verdict: impl FnMut(u64, Marks) -> Verdict,
    ) -> (u64, Judged) {
        self.calls += 1;
        let positions: Vec<u64> = self.items.range(hand..).take(looks).map(|(&at, _)| at).collect();
        for &at in &positions {
            self.looks += 1;
            match verdict(at.reverse_bits(), self.items[&at]) {
                Verdict::Keep(marks) => *self.items.get_mut(&at).expect("just seen") = marks,
                Verdict::Evict => {
                    self.items.remove(&at);
                    return (at + 1, Judged::Evicted);
                }
            }
        }
        let judged = if positions.is_empty() { Judged::Absent } else { Judged::Kept };
        let end = positions.len() < looks;
        (if end { 0 } else { positions.last().map_or(0, |at| at + 1) }, judged)
    }
}

/// A hash of 48 bits without a pattern; different numbers have different ones.
fn hash(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & ((1 << 48) - 1)
}

impl Cache {
    fn add(&mut self, heat: &mut Heat, number: u64) {
        let young = heat.entered(hash(number));
        self.items.insert(position(hash(number)), Marks { visits: 0, young });
    }

    fn marks(&mut self, number: u64) -> Option<&mut Marks> {
        self.items.get_mut(&position(hash(number)))
    }

    /// A read-through access to a cache of `room` items; true for a hit.
    fn access(&mut self, heat: &mut Heat, number: u64, capacity: usize) -> bool {
        if let Some(marks) = self.marks(number) {
            marks.visits = (marks.visits + 1).min(VISITS_MAX);
            return true;
        }
        if self.items.len() == capacity {
            assert!(heat.evict(self), "there are items");
            assert_eq!(self.items.len(), capacity - 1, "exactly one goes");
        }
        self.add(heat, number);
        false
    }
}

#[test]
fn a_scan_does_not_evict_visited_items() {
    let (mut heat, mut cache) = (Heat::new(), Cache::default());
    for round in 0..200 {
        for hot in 0..50 {
            let hit = cache.access(&mut heat, hot, 100);
            assert!(hit || round < 3, "round {round} misses {hot}");
        }
        for cold in 0..40 {
            assert!(!cache.access(&mut heat, 1_000 + round * 40 + cold, 100));
        }
    }
}

#[test]
fn the_young_go_as_they_came_unless_visited() {
    let (mut heat, mut cache) = (Heat::new(), Cache::default());
    (0..10).for_each(|number| cache.add(&mut heat, number));
    cache.marks(0).unwrap().visits = 1;
    assert!(heat.evict(&mut cache));
    assert_eq!(cache.marks(0), Some(&mut Marks { visits: 0, young: false }), "visited: old");
    assert_eq!(cache.marks(1), None, "the oldest of the others");
    assert!(heat.evict(&mut cache));
    assert_eq!(cache.marks(2), None);
    assert!(heat.entered(hash(77)) && !heat.entered(hash(2)), "a ghost begins old");
    assert!(heat.entered(hash(2)), "once");
}

#[test]
fn old_items_lose_a_visit_a_round_and_then_go() {
    let (mut heat, mut cache) = (Heat::new(), Cache::default());
    let old = |visits| Marks { visits, young: false };
    for visits in 0..=2 {
        cache.items.insert(position(1 + u64::from(visits)), old(visits));
    }
    assert!(heat.evict(&mut cache));
    assert!(!cache.items.contains_key(&position(1)));
    heat.share = 0.5;
    assert!(
        !heat.entered(1) && heat.share < 0.5,
        "a ghost of the old, which wants more capacity for them"
    );
    // Whatever the hand has passed on the way here, the one with fewer visits goes first.
    assert!(heat.evict(&mut cache));
    assert!(cache.items.contains_key(&position(3)));
    assert!(heat.evict(&mut cache) && !heat.evict(&mut cache), "nothing is left");
}

#[test]
fn ghosts_of_the_young_raise_the_share_and_those_of_the_old_lower_it() {
    let (mut heat, mut cache) = (Heat::new(), Cache::default());
    assert_eq!(heat.share, SHARE_MIN);
    // Each key twice, slightly too far apart for the least share; keys that enter old are not requested
    // again.
    for number in 0..6_000_u64 {
        cache.access(&mut heat, number, 100);
        cache.access(&mut heat, number.saturating_sub(24), 100);
    }
    let raised = heat.share;
    assert!(raised > 0.2, "{raised}");
    heat.old_ghosts.put(hash(1 << 40));
    assert!(!heat.entered(hash(1 << 40)), "known, too");
    assert!((heat.share - (raised - 0.01)).abs() < 1e-9, "one item of 100 less");
    heat.share = SHARE_MAX;
    heat.young_ghosts.put(hash(1));
    assert!(!heat.entered(hash(1)));
    assert_eq!(heat.share, SHARE_MAX, "and no further");
}

#[test]
fn an_eviction_looks_at_a_bounded_number_of_items() {
    for young in [false, true] {
        let (mut heat, mut cache) = (Heat::new(), Cache::default());
        (0..1_000).for_each(|number| cache.add(&mut heat, number));
        for _ in 0..900 {
            cache.items.values_mut().for_each(|marks| *marks = Marks { visits: 2, young });
            (cache.looks, cache.calls) = (0, 0);
            assert!(heat.evict(&mut cache), "visited or not, one goes");
            assert!(cache.looks <= LOOKS && cache.calls <= LOOKS, "{} looks", cache.looks);
        }
    }
}

#[test]
fn entries_of_removed_keys_are_bounded_and_drop_out() {
    let (mut heat, mut cache) = (Heat::new(), Cache::default());
    for number in 0..200_000 {
        heat.entered(hash(number));
    }
    assert_eq!(heat.queue.len(), QUEUE_FREE, "what enters beyond begins old");
    let bytes = heat.bytes();
    assert!(bytes < QUEUE_FREE * 9, "{bytes} bytes");
    (0..1_000).for_each(|number| cache.add(&mut heat, 1_000_000 + number));
    for left in (0..1_000).rev() {
        assert!(heat.evict(&mut cache), "however many entries are of no use");
        assert_eq!(cache.items.len(), left);
    }
    assert!(heat.queue.len() < 20_000 && heat.bytes() < bytes / 2, "{} entries", heat.queue.len());
    heat = Heat::new();
    assert_eq!(heat.bytes(), 0);
}

#[test]
fn a_young_item_without_an_entry_goes_at_last() {
    let (mut heat, mut cache) = (Heat::new(), Cache::default());
    let lost: Vec<u64> = (0..100).collect();
    for &number in &lost {
        cache.items.insert(position(hash(number)), Marks { visits: VISITS_MAX, young: true });
    }
    // All others are old, so that the hand goes round; the queue is never empty.
    for number in 1_000..70_000 {
        cache.access(&mut heat, number, 500);
        cache.access(&mut heat, number, 500);
        cache.access(&mut heat, number - number % 300, 500);
    }
    assert!(heat.round < 3 * ROUNDS && heat.queue.len() > 0, "{} rounds", heat.round);
    let left = lost.iter().filter(|&&number| cache.marks(number).is_some()).count();
    assert_eq!(left, 0, "of 100 after {} rounds", heat.round);
}

#[test]
fn each_step_evicts_one_deterministic_item() {
    let run = |seed: u64| {
        let (mut heat, mut cache) = (Heat::new(), Cache::default());
        let mut rng = Rng::with_seed(seed);
        let mut random = |bound: u64| rng.u64(..bound);
        let mut hits = 0;
        for step in 0..30_000_u64 {
            let number = random(40) * random(40) + step / 1_000;
            match random(20) {
                0 => drop(cache.items.remove(&position(hash(number)))),
                1 if step % 5_000 == 0 => heat = Heat::new(),
                _ if cache.items.len() > 200 => assert!(heat.evict(&mut cache), "seed {seed}"),
                _ => hits += u64::from(cache.access(&mut heat, number, 200)),
            }
            assert!((SHARE_MIN..=SHARE_MAX).contains(&heat.share), "seed {seed}");
        }
        hits
    };
    for seed in 0..8 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
