//! Batches: many lookups in flight, so that the memory they wait for is fetched in parallel.
//!
//! Lookups move on a *conveyor* of fixed distance d: while key i prefetches its bucket, key i - d
//! reads its bucket and prefetches the first item, and key i - 2d looks at that item. Keys whose
//! item comes later in the chain are collected and continue in turns, one item each.

use crate::chaining::Chaining;
use crate::chaining::search::Home;
use crate::chaining::word::Head;
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Batch, Hit, KeyGoal};
use hotring_index::toolkit::{prefetch, prefetch_item};

/// The most lookups that can be in flight.
const IN_FLIGHT_MAX: usize = 64;

/// A lookup on its way through a chain.
#[derive(Clone, Copy)]
struct Walk {
    /// The index of the key in the batch.
    key: usize,
    home: Home,
    /// The next item, which has been prefetched; 0 at the end of the chain.
    at: u64,
    visits: u32,
}

const IDLE: Walk =
    Walk { key: 0, home: Home { index: 0, head: Head::new(0, 0) }, at: 0, visits: 0 };

/// The lookups that continue in turns.
struct Walks {
    walks: [Walk; IN_FLIGHT_MAX],
    n: usize,
}

impl Walks {
    fn new() -> Self {
        Self { walks: [IDLE; IN_FLIGHT_MAX], n: 0 }
    }

    /// Adds a lookup; true if the list is full then.
    fn push(&mut self, walk: Walk) -> bool {
        self.walks[self.n] = walk;
        self.n += 1;
        self.n == IN_FLIGHT_MAX
    }
}

/// The result of a step of a walk.
type StepResult = Option<Option<Hit>>;

impl Batch for Chaining {
    #[inline(always)]
    fn pipeline<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
        mut done: impl FnMut(usize, Option<Hit>),
    ) where
        K::Key: 'k,
    {
        let distance = p.shared.config.pipeline_depth / 2;
        let mut belt = [IDLE; IN_FLIGHT_MAX];
        let mut walks = Walks::new();
        for i in 0..n + 2 * distance {
            if i < n {
                Self::prefetch_bucket(p, goal(&p.shared.kind, i).hash);
            }
            if i >= distance && i - distance < n {
                let key = i - distance;
                belt[key % IN_FLIGHT_MAX] =
                    Self::start_lookup(p, key, goal(&p.shared.kind, key).hash);
            }
            if i >= 2 * distance {
                let mut walk = belt[(i - 2 * distance) % IN_FLIGHT_MAX];
                match Self::step_walk(p, goal(&p.shared.kind, walk.key), &mut walk) {
                    Some(hit) => {
                        Self::access(p, walk.visits);
                        done(walk.key, hit);
                    }
                    None if walks.push(walk) => Self::advance(p, &mut walks, &goal, &mut done),
                    None => {}
                }
            }
        }
        Self::advance(p, &mut walks, &goal, &mut done);
    }

    #[inline(always)]
    fn warm<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
    ) where
        K::Key: 'k,
    {
        debug_assert!(n <= IN_FLIGHT_MAX);
        for i in 0..n {
            Self::prefetch_bucket(p, goal(&p.shared.kind, i).hash);
        }
        let mut walks = Walks::new();
        for i in 0..n {
            walks.push(Self::start_lookup(p, i, goal(&p.shared.kind, i).hash));
        }
        while walks.n > 0 {
            Self::round(p, &mut walks, &goal, |_, _| {});
        }
    }
}

impl Chaining {
    /// Prefetches the word of a hash's bucket.
    #[inline(always)]
    fn prefetch_bucket<K: Kind>(p: &Pinned<'_, K, Self>, hash: u64) {
        let index = hash & p.engine.table.mask();
        prefetch(std::ptr::from_ref(p.engine.table.word(index)).cast());
    }

    /// Reads the bucket, and prefetches its first item.
    #[inline(always)]
    fn start_lookup<K: Kind>(p: &Pinned<'_, K, Self>, key: usize, hash: u64) -> Walk {
        let home = Self::home(p, hash);
        let at = home.head.first();
        prefetch_item::<K>(at);
        Walk { key, home, at, visits: 0 }
    }

    /// Looks at one item, and prefetches the next. Returns the hit or the miss if the lookup ends
    /// here.
    #[inline(always)]
    fn step_walk<K: Kind>(
        p: &Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
        walk: &mut Walk,
    ) -> StepResult {
        if walk.at != 0 {
            walk.visits += 1;
            let (hit, next) = Self::look_at(p, goal, walk.at);
            if hit.is_some() {
                return Some(hit);
            }
            walk.at = next;
        }
        if walk.at == 0 {
            walk.home = match Self::moved_on(p, walk.home, goal.hash) {
                Some(home) => home,
                None => return Some(None),
            };
            walk.at = walk.home.head.first();
        }
        prefetch_item::<K>(walk.at);
        None
    }

    #[inline(never)]
    fn advance<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        walks: &mut Walks,
        goal: &impl Fn(&K, usize) -> KeyGoal<'k, K>,
        done: &mut impl FnMut(usize, Option<Hit>),
    ) where
        K::Key: 'k,
    {
        while walks.n > 0 {
            let mut visits = [0u32; IN_FLIGHT_MAX];
            let mut ended = 0;
            Self::round(p, walks, goal, |walk, hit| {
                visits[ended] = walk.visits;
                ended += 1;
                done(walk.key, hit);
            });
            visits[..ended].iter().for_each(|&visits| Self::access(p, visits));
        }
    }

    /// Does one step of each lookup.
    #[inline(always)]
    fn round<'k, K: Kind>(
        p: &Pinned<'_, K, Self>,
        walks: &mut Walks,
        goal: &impl Fn(&K, usize) -> KeyGoal<'k, K>,
        mut done: impl FnMut(&Walk, Option<Hit>),
    ) where
        K::Key: 'k,
    {
        let mut left = 0;
        for i in 0..walks.n {
            let mut walk = walks.walks[i];
            match Self::step_walk(p, goal(&p.shared.kind, walk.key), &mut walk) {
                Some(hit) => done(&walk, hit),
                None => {
                    walks.walks[left] = walk;
                    left += 1;
                }
            }
        }
        walks.n = left;
    }
}
