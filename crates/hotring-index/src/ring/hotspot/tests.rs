//! The effect of the paper's strategies on the head of one arc. No other test sees it: with the head in the
//! wrong place every lookup would still find its key.

use fastrand::Rng;

use super::*;
use crate::core::config::{Config, Growth};
use crate::{Bytes, Expiry, HotRing, NewValue, Session, U64};

/// No R-th access but those that a test asks for.
const RARELY: u32 = 1_000_000;

fn config(strategy: Strategy) -> Config {
    let growth = Some(Growth::Fixed);
    let base = Config { strategy, growth, slots_initial: 1, slots_max: 1, ..Config::default() };
    Config { period: Some(RARELY), huge_pages: false, ..base }
}

/// A table of one slot, hence with one arc.
struct Arc<K: Kind> {
    index: HotRing<K, 1>,
    session: Session<K, Ring<1>>,
}

impl<K: Kind> Arc<K> {
    fn new(config: Config) -> Self {
        let index = HotRing::new(config).expect("a valid configuration");
        let session = index.session();
        Self { index, session }
    }

    /// The strategy's action at the next access.
    fn next_is_rth(&mut self) {
        self.session.local().countdown = 1;
    }

    fn items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        self.session.pin().arc(0, |item| items.push(item));
        items
    }

    fn word(&mut self) -> u64 {
        // ORDERING: Relaxed, there is one thread.
        self.session.pin().engine.table.slot(0).hints[0].load(Ordering::Relaxed)
    }

    /// The item under the head, from 0 on.
    fn head(&mut self) -> Option<usize> {
        let address = Hint(self.word() & !head::ACTIVE).address();
        self.items().iter().position(|item| item.address() == address)
    }

    /// Samples that are still to be taken, if a round is under way.
    fn samples(&mut self) -> Option<u64> {
        let word = self.word();
        (word & head::ACTIVE != 0).then(|| head::left(word))
    }

    /// The counts of each item.
    fn counts(&mut self) -> Vec<u64> {
        // ORDERING: Relaxed, there is one thread.
        let count = |item: &Item| Next(item.next().load(Ordering::Relaxed)).count();
        self.items().iter().map(count).collect()
    }
}

/// An arc of this many keys, and they in its order.
fn numbers(config: Config, count: u64) -> (Arc<U64>, Vec<u64>) {
    let mut arc = Arc::new(config);
    (0..count).for_each(|key| assert!(arc.session.insert(key, key)));
    let key = |item: &Item| *<U64 as Kind>::key(*item);
    // More items than one look at an arc covers, in no order.
    let mut keys: Vec<u64> = arc.items().iter().map(key).collect();
    keys.extend((0..count).filter(|key| !keys.contains(key)).collect::<Vec<_>>());
    (arc, keys)
}

// --- HotRing-r

#[test]
fn the_rth_access_takes_the_head() {
    let (mut arc, keys) = numbers(config(Strategy::Random), 8);
    for at in [5, 0, 7, 3] {
        let before = arc.head();
        let other = keys[(at + 1) % 8];
        (0..100).for_each(|_| assert_eq!(arc.session.get(other), Some(other)));
        assert_eq!(arc.head(), before, "none of them was the R-th");
        arc.next_is_rth();
        assert_eq!(arc.session.get(keys[at]), Some(keys[at]));
        assert_eq!(arc.head(), Some(at));
    }
    assert_eq!(arc.index.stats().head_moves, 4);
}

#[test]
fn a_hot_access_leaves_the_head_alone() {
    let (mut arc, keys) = numbers(config(Strategy::Random), 8);
    for _ in 0..10 {
        arc.next_is_rth();
        arc.session.get(keys[4]);
    }
    assert_eq!((arc.head(), arc.index.stats().head_moves), (Some(4), 1));
}

#[test]
fn one_access_in_r_is_the_rth() {
    for r in [1u32, 2, 5, 64] {
        let config = Config { period: Some(r), ..config(Strategy::Random) };
        let (mut arc, keys) = numbers(config, 2);
        let before = arc.index.stats().lookups_sampled;
        // Each of them would take the head from the other key.
        let accesses = 1_000 * u64::from(r);
        (0..accesses).for_each(|i| _ = arc.session.get(keys[i as usize % 2]));
        let rth = arc.index.stats().lookups_sampled - before;
        assert!((900..=1_100).contains(&rth), "{rth} R-th accesses of {accesses}, R = {r}");
    }
}

// --- HotRing-s

/// One round: an R-th access to a cold item begins it, then the items are accessed so often.
fn round(arc: &mut Arc<U64>, keys: &[u64], cold: usize, counts: &[u64]) {
    arc.next_is_rth();
    arc.session.get(keys[cold]);
    assert_eq!(arc.samples(), Some(keys.len() as u64), "a sample for each item");
    assert_eq!(counts.iter().sum::<u64>(), keys.len() as u64, "a round's accesses");
    // In turn, so that the last access decides nothing.
    let mut left = counts.to_vec();
    while left.iter().any(|&left| left > 0) {
        for (at, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
            arc.session.get(keys[at]);
            *left -= 1;
        }
    }
    assert_eq!(arc.samples(), None, "the round is over");
}

/// Visits of all accesses with the head at an item, by the walk: the head is looked at first; from there on, or from
/// the anchor if the item comes before it.
fn cost(counts: &[u64], head: usize) -> u64 {
    let visits = |at: usize| if at >= head { at - head + 1 } else { 1 + at + 1 };
    counts.iter().enumerate().map(|(at, n)| n * visits(at) as u64).sum()
}

#[test]
fn a_round_moves_the_head_to_where_accesses_cost_least() {
    // Two hot items: the hotter one is close to the anchor anyway; items that are followed by hot ones; the last of
    // several hot ones.
    let cases: [([u64; 8], usize); 6] = [
        ([0, 5, 0, 0, 0, 0, 0, 3], 7),
        ([0, 0, 4, 0, 0, 0, 4, 0], 6),
        ([0, 0, 0, 0, 3, 0, 3, 2], 4),
        ([5, 0, 0, 0, 0, 0, 2, 1], 6),
        ([1, 1, 1, 1, 1, 1, 1, 1], 3),
        ([8, 0, 0, 0, 0, 0, 0, 0], 0),
    ];
    for (counts, best) in cases {
        let (mut arc, keys) = numbers(config(Strategy::Sampling), 8);
        round(&mut arc, &keys, 7, &counts);
        let head = arc.head().expect("somewhere");
        let least = (0..8).map(|at| cost(&counts, at)).min();
        assert_eq!(Some(cost(&counts, head)), least, "{counts:?}: item {head}");
        assert!(cost(&counts, best) == cost(&counts, head), "{counts:?}: item {head}, not {best}");
    }
}

#[test]
fn a_round_moves_the_head_right_for_all_counts() {
    let mut random = Rng::with_seed(1);
    for _ in 0..100 {
        let mut counts = [0; 12];
        for _ in 0..12 {
            // Skewed.
            counts[random.usize(..12) * random.usize(..12) % 12] += 1;
        }
        let (mut arc, keys) = numbers(config(Strategy::Sampling), 12);
        round(&mut arc, &keys, 11, &counts);
        let head = arc.head().expect("somewhere");
        let least = (0..12).map(|at| cost(&counts, at)).min();
        assert_eq!(Some(cost(&counts, head)), least, "{counts:?}: item {head}");
    }
}

#[test]
fn a_round_counts_as_many_accesses_as_there_are_items() {
    // Of a longer arc only the first part is looked at.
    for (items, samples) in [(1, 1), (5, 5), (64, 64), (100, 64)] {
        let (mut arc, keys) = numbers(config(Strategy::Sampling), items);
        arc.session.get(keys[0]);
        assert_eq!(arc.samples(), None, "it was not the R-th");
        arc.next_is_rth();
        arc.session.get(keys[0]);
        for left in (1..=samples).rev() {
            assert_eq!(arc.samples(), Some(left), "{items} items");
            arc.session.get(keys[0]);
        }
        assert_eq!((arc.samples(), arc.head()), (None, Some(0)), "{items} items");
        assert_eq!(arc.index.stats().sampling_rounds, 1);
    }
}

#[test]
fn a_round_begins_with_a_cold_access_alone_and_once() {
    let (mut arc, keys) = numbers(config(Strategy::Sampling), 4);
    round(&mut arc, &keys, 0, &[0, 0, 0, 4]);
    assert_eq!(arc.head(), Some(3));
    arc.next_is_rth();
    arc.session.get(keys[3]);
    assert_eq!(arc.samples(), None, "the access was hot");
    arc.next_is_rth();
    arc.session.get(keys[1]);
    assert_eq!(arc.samples(), Some(4));
    // The head is where it was until the round is over, and another R-th access begins no other.
    arc.session.get(keys[1]);
    arc.next_is_rth();
    arc.session.get(keys[1]);
    assert_eq!(
        (arc.samples(), arc.head(), arc.index.stats().sampling_rounds),
        (Some(2), Some(3), 2)
    );
}

#[test]
fn each_round_counts_from_zero() {
    let (mut arc, keys) = numbers(config(Strategy::Sampling), 8);
    round(&mut arc, &keys, 0, &[0, 0, 0, 0, 0, 0, 0, 8]);
    assert_eq!((arc.head(), arc.counts()), (Some(7), vec![0; 8]));
    round(&mut arc, &keys, 0, &[0, 0, 8, 0, 0, 0, 0, 0]);
    assert_eq!((arc.head(), arc.counts()), (Some(2), vec![0; 8]));
}

#[test]
fn rounds_back_off_where_they_bring_nothing() {
    let rounds = |backoff| {
        let config = Config { backoff, period: Some(1), ..config(Strategy::Sampling) };
        let (mut arc, keys) = numbers(config, 8);
        (0..8_000).for_each(|i| _ = arc.session.get(keys[i % 8]));
        arc.index.stats().sampling_rounds
    };
    let (always, seldom) = (rounds(false), rounds(true));
    assert!(always > 800 && seldom < always / 4, "{always} rounds, with back-off {seldom}");
}

// --- The item for which a read-copy-update write counts

/// Writes an item over and over while a round counts, and says where the head is then.
fn head_after_writes_of(at: usize, rcu_counts: RcuCounts) -> Option<usize> {
    let mut arc = Arc::<Bytes>::new(Config { rcu_counts, ..config(Strategy::Sampling) });
    let long = || NewValue::Bytes { kind: 0, bytes: b"too long to be changed in place"[..].into() };
    for key in 0..8u8 {
        arc.session.put(&[key][..], long(), Expiry::Never, 1);
    }
    let key = |item: &Item| <Bytes as Kind>::key(*item).to_vec();
    let keys: Vec<Vec<u8>> = arc.items().iter().map(key).collect();
    arc.next_is_rth();
    assert!(arc.session.get(&keys[1][..], 1, |_| ()).is_some());
    assert_eq!(arc.samples(), Some(8));
    (0..8).for_each(|_| _ = arc.session.put(&keys[at][..], long(), Expiry::Never, 1));
    if arc.samples().is_some() {
        return None;
    }
    Some(arc.head().expect("somewhere"))
}

#[test]
fn a_write_counts_for_its_item_or_its_predecessor() {
    assert_eq!(head_after_writes_of(5, RcuCounts::Item), Some(5));
    assert_eq!(head_after_writes_of(5, RcuCounts::Predecessor), Some(4));
    // The first item has none but the anchor, which is at hand anyway: nothing is counted.
    assert_eq!(head_after_writes_of(0, RcuCounts::Item), Some(0));
    assert_eq!(head_after_writes_of(0, RcuCounts::Predecessor), None);
}
