//! Values that stand for objects: shared with readers, changed in place, counted, and taken apart in
//! steps.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hotring_index::{
    Action, Block, Bytes, Config, Expiry, HotRing, HotRingSession, NewValue, Object, Shared,
    Visitor, Visitors,
};

/// Some numbers, all equal outside of a change.
struct Numbers {
    shared: Shared<Vec<u64>>,
    /// Parts to be freed, and those that are.
    left: usize,
    freed: Arc<AtomicU64>,
}

impl Object for Numbers {
    fn dismantle(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        // ORDERING: Relaxed, read by a thread that has joined or is this one.
        self.freed.fetch_add(1, Ordering::Relaxed);
        Some(1000)
    }
}

const KEY: &[u8] = b"numbers";

fn index() -> HotRing<Bytes> {
    HotRing::new(Config::default()).expect("the default is possible")
}

fn numbers(index: &HotRing<Bytes>, visitors: &Arc<Visitors>, freed: &Arc<AtomicU64>) -> Block {
    let shared = Shared::new(visitors, vec![0; 64]);
    index.object(Box::new(Numbers { shared, left: 5, freed: freed.clone() }), 5000)
}

fn put(session: &mut HotRingSession<Bytes>, block: Block) {
    session.put(KEY, NewValue::Block { kind: 3, block }, Expiry::Never, 1);
}

fn with<R>(
    session: &mut HotRingSession<Bytes>,
    visitor: &mut Visitor,
    f: impl FnOnce(&Shared<Vec<u64>>, &mut Visitor) -> R,
) -> R {
    let found = session.get(KEY, 1, |entry| {
        let object = entry.block().expect("a block").object().expect("an object");
        let numbers: &dyn Any = object;
        f(&numbers.downcast_ref::<Numbers>().expect("what was put").shared, visitor)
    });
    found.expect("it is there")
}

#[test]
fn objects_are_read_while_they_change() {
    let (index, visitors) = (index(), Visitors::new());
    let freed = Arc::default();
    put(&mut index.session(), numbers(&index, &visitors, &freed));
    let rounds = 2_000;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut session, mut visitor) = (index.session(), visitors.visitor());
                for _ in 0..rounds {
                    with(&mut session, &mut visitor, |shared, visitor| {
                        shared.write(visitor, |numbers| numbers.iter_mut().for_each(|n| *n += 1));
                    });
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut session, mut last) = (index.session(), 0);
                for round in 0..rounds {
                    // Visitors come and go.
                    let mut visitor = visitors.visitor();
                    with(&mut session, &mut visitor, |shared, visitor| {
                        shared.read(visitor, |numbers| {
                            assert!(
                                numbers.iter().all(|n| *n == numbers[0]),
                                "{round}: half a change"
                            );
                            assert!(numbers[0] >= last, "{round}: went back");
                            last = numbers[0];
                        });
                    });
                }
            });
        }
    });
    let (mut session, mut visitor) = (index.session(), visitors.visitor());
    let sum = with(&mut session, &mut visitor, |shared, visitor| shared.read(visitor, |n| n[0]));
    assert_eq!(sum, 2 * rounds);
}

#[test]
fn objects_are_counted_and_taken_apart_in_steps() {
    let (index, visitors) = (index(), Visitors::new());
    let freed: Arc<AtomicU64> = Arc::default();
    let mut session = index.session();
    let before = index.stats().block_bytes;
    put(&mut session, numbers(&index, &visitors, &freed));
    let counted = index.stats().block_bytes - before;
    assert!((5000..5300).contains(&counted), "{counted}");
    session.get(KEY, 1, |entry| {
        assert!(entry.footprint > 5000, "{}", entry.footprint);
        entry.block().expect("a block").set_object_bytes(9001);
    });
    // An odd number would be taken for a mark of items that have nothing elsewhere.
    assert_eq!(index.stats().block_bytes - before, counted + 4000 + 8);
    // Another expiry makes another item of the same object.
    session.update(KEY, 1, |_| (Action::Expire(Expiry::At(5)), ()));
    // ORDERING: Relaxed, nothing has been freed or it was by this thread; so for all below.
    assert_eq!(freed.load(Ordering::Relaxed), 0);
    session.remove(KEY, 1);
    let mut seen = Vec::new();
    for _ in 0..100 {
        session.collect();
        let now = freed.load(Ordering::Relaxed);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen.last(), Some(&5), "{seen:?}");
    assert!(seen.len() > 2, "in steps: {seen:?}");
    assert_eq!(index.stats().block_bytes, before);
}
