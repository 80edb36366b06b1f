//! Batches: prefetching for many keys at once.

use super::ItemLines;
use super::table::{Home, MASK};
use crate::core::item::Kind;
use crate::core::prefetch::{prefetch, prefetch_item};
use crate::engine::{Batch, KeyGoal};
use crate::lines::lane::{Form, Search, by_form};
use crate::session::Pinned;

/// The most lookups that can be in flight.
const FLIGHTS_MAX: usize = 64;

impl Batch for ItemLines {
    /// Prefetches the home lines, then in each line the first item whose tag matches.
    fn warm<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
    ) where
        K::Key: 'k,
    {
        debug_assert!(n <= FLIGHTS_MAX, "no more fit into the nearest cache");
        let shape = &p.engine.table().shape;
        let mut homes = [Home { index: 0, want: 0 }; FLIGHTS_MAX];
        for (i, home) in homes.iter_mut().enumerate().take(n) {
            *home = shape.home(goal(&p.shared.kind, i).hash.reverse_bits());
            prefetch(std::ptr::from_ref(shape.line(home.index)).cast());
        }
        by_form!(p.engine.form, S => {
            for home in &homes[..n] {
                let line = shape.line(home.index);
                if let Some(lane) = S::matches(line, home.want, &MASK).each(line).next() {
                    prefetch_item::<K>(lane.value());
                }
            }
        });
    }
}
