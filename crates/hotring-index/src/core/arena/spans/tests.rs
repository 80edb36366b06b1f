//! The arena against patterns in its blocks, and its held memory against bounds.

use super::local::BATCH;
use super::pool::FREE_CHUNKS_KEPT;
use super::*;
use crate::core::arena::classes::{FINE_MAX, UNIT, Width};
use crate::core::memory::HUGE_PAGE;
use crate::core::sync::Arc;
use std::collections::BTreeSet;
#[cfg(debug_assertions)]
use std::mem::ManuallyDrop;
use std::sync::mpsc::TrySendError;

use fastrand::Rng;

/// Held memory without any use.
const FLOOR: usize = FREE_CHUNKS_KEPT * HUGE_PAGE;

fn arena() -> Arc<Arena> {
    Arc::new(Arena::new(false, false))
}

/// One whose sessions share chunks, and one whose sessions do not.
fn both() -> [Arc<Arena>; 2] {
    [false, true].map(|whole_chunks| Arc::new(Arena::new(false, whole_chunks)))
}

/// From HOTRING_SEED, or a fixed one; printed, for the log of a failure.
fn seed_of_test() -> u64 {
    let seed = std::env::var("HOTRING_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    println!("HOTRING_SEED={seed}");
    seed
}

fn random_of_test() -> Rng {
    Rng::with_seed(seed_of_test())
}

/// A block, all of it filled with a number of its own.
struct Block {
    at: NonNull<u8>,
    size: usize,
    mark: u8,
}

// SAFETY: a block is its owner's.
unsafe impl Send for Block {}

impl Block {
    fn new(local: &mut LocalArena, size: usize, mark: u8) -> Self {
        let at = local.alloc(size);
        assert!(at.as_ptr().addr().is_multiple_of(8), "aligned");
        // SAFETY: `size` bytes were allocated.
        unsafe { at.write_bytes(mark, size) };
        Self { at, size, mark }
    }

    fn free(self, local: &mut LocalArena) {
        // SAFETY: written in full by `new`.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.size) };
        assert!(bytes.iter().all(|&byte| byte == self.mark), "somebody else wrote to a block");
        // SAFETY: allocated with this size, and given up here.
        unsafe { local.free(self.at, self.size) };
    }
}

fn blocks(local: &mut LocalArena, count: usize, size: usize) -> Vec<Block> {
    (0..count).map(|i| Block::new(local, size, i as u8)).collect()
}

/// As `/proc` tells it.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).expect("a second field").parse().expect("a number");
    pages * 4096
}

#[test]
fn freed_memory_goes_back_to_the_system() {
    const BYTES: usize = 128 << 20;
    for huge_pages in [false, true] {
        let arena = Arc::new(Arena::new(huge_pages, huge_pages));
        let mut local = LocalArena::new(arena.clone());
        let mut held = blocks(&mut local, BYTES / 256, 256);
        let (full, resident_full) = (arena.held_bytes(), resident());
        assert!((BYTES..BYTES + BYTES / 50).contains(&full), "{full} bytes held for {BYTES}");
        random_of_test().shuffle(&mut held);
        held.into_iter().for_each(|block| block.free(&mut local));
        local.give_back();
        assert_eq!(arena.held_bytes(), FLOOR);
        assert!(arena.mapped_bytes() >= full, "address space stays");
        // Other tests use memory at the same time, but less than this leaves.
        assert!(resident() + BYTES / 4 < resident_full, "resident memory did not fall");
        // Returned memory is used again.
        let held = blocks(&mut local, BYTES / 256, 256);
        assert_eq!(arena.held_bytes(), full);
        held.into_iter().for_each(|block| block.free(&mut local));
    }
}

#[test]
fn freed_memory_serves_other_classes() {
    let arena = arena();
    let mut local = LocalArena::new(arena.clone());
    let mut most = 0;
    for size in (8..FINE_MAX).step_by(40).chain((FINE_MAX..=CLASSED_MAX).step_by(2_600)) {
        let held = blocks(&mut local, (4 << 20) / size, size);
        most = most.max(arena.held_bytes());
        held.into_iter().for_each(|block| block.free(&mut local));
        local.give_back();
    }
    assert!(most <= (4 << 20) + 3 * HUGE_PAGE, "{most} bytes held for 4 MiB at a time");
    assert_eq!(arena.held_bytes(), FLOOR);
}

#[test]
fn a_session_frees_what_another_allocated() {
    let arena = arena();
    let mut maker = LocalArena::new(arena.clone());
    let mut eater = LocalArena::new(arena.clone());
    for round in 0..100 {
        for block in blocks(&mut maker, 3000 + round, 40) {
            block.free(&mut eater);
        }
        assert!(arena.held_bytes() <= HUGE_PAGE, "round {round}");
    }
    eater.give_back();
    maker.give_back();
    assert_eq!(arena.held_bytes(), FLOOR);
}

#[test]
fn sessions_that_end_give_all_back() {
    let arena = arena();
    for round in 0..200 {
        // Together they take turns in carving a span, so that runs go back in any order.
        let mut locals: Vec<_> = (0..5).map(|_| LocalArena::new(arena.clone())).collect();
        let mut held = Vec::new();
        for size in [8, 24, 48, 200, 1000, 1024] {
            for local in &mut locals {
                held.extend(blocks(local, 1 + round % 7, size));
            }
        }
        let count = locals.len();
        locals.rotate_left(round % count);
        held.into_iter().for_each(|block| block.free(&mut locals[0]));
        drop(locals);
        assert_eq!(arena.held_bytes(), FLOOR, "round {round}");
    }
    let mut local = LocalArena::new(arena.clone());
    let all = blocks(&mut local, (UNIT - 2112) / 1024, 1024);
    assert!(arena.class(128).is_empty(), "the first span, whole again, was carved from its start");
    all.into_iter().for_each(|block| block.free(&mut local));
}

/// With such chunks; and they go back when it goes idle, however little it has used of them.
#[test]
fn a_session_has_chunks_of_its_own() {
    let [shared, own] = both();
    let chunk = |block: &Block| block.at.as_ptr().addr() / HUGE_PAGE;
    for (arena, is_own) in [(shared, false), (own, true)] {
        let mut locals: Vec<_> = (0..3).map(|_| LocalArena::new(arena.clone())).collect();
        let mut held: Vec<Vec<Block>> = locals.iter().map(|_| Vec::new()).collect();
        // By turns, of many classes: five chunks each.
        for turn in 0..10_000 {
            for (local, held) in locals.iter_mut().zip(&mut held) {
                held.push(Block::new(local, 24 + turn * 8 % 1000, turn as u8));
            }
        }
        let chunks = |held: &[Block]| held.iter().map(chunk).collect::<BTreeSet<usize>>();
        let [a, b, c] = [0, 1, 2].map(|n| chunks(&held[n]));
        assert_eq!(a.is_disjoint(&b) && b.is_disjoint(&c) && c.is_disjoint(&a), is_own);
        // Blocks freed by another session are its own, and then go back to all.
        locals.rotate_left(1);
        for (local, held) in locals.iter_mut().zip(held) {
            held.into_iter().for_each(|block| block.free(local));
        }
        assert!(arena.held_bytes() > FLOOR, "caches");
        locals.iter_mut().for_each(LocalArena::give_back);
        assert_eq!(arena.held_bytes(), FLOOR);
        // A span of a new lot is in use, and the others have left the session.
        let [one, other] = [0, 1].map(|n| Block::new(&mut locals[n], 8, n as u8));
        assert_eq!(chunk(&one) == chunk(&other), !is_own);
        locals[0].give_back();
        let third = Block::new(&mut locals[2], 16, 9);
        assert_eq!(chunk(&third), chunk(&one), "the fullest that has room");
        third.free(&mut locals[2]);
        one.free(&mut locals[2]);
        other.free(&mut locals[2]);
        drop(locals);
        assert_eq!(arena.held_bytes(), FLOOR);
    }
}

#[test]
fn a_run_that_goes_back_to_its_place_stays_untouched() {
    let arena = arena();
    let mut local = LocalArena::new(arena.clone());
    let first = Block::new(&mut local, 24, 1);
    // SAFETY: the block is out, and no other thread is here.
    let span = unsafe { pool::span_of(first.at, Width::Narrow) };
    let (listed, fresh, all) = span.counts();
    assert_eq!((listed, all - fresh), (0, 4096 / 24), "a run of a page is out");
    local.give_back();
    assert_eq!(span.counts(), (0, all - 1, all));
    first.free(&mut local);
}

/// Old blocks at the bottom of a cache kept chunks that were free but for them.
#[test]
fn a_busy_session_gives_up_old_blocks_in_time() {
    let arena = arena();
    let mut local = LocalArena::new(arena.clone());
    let mut held = blocks(&mut local, (16 << 20) / 24, 24);
    random_of_test().shuffle(&mut held);
    held.into_iter().for_each(|block| block.free(&mut local));
    assert!(arena.held_bytes() > 8 << 20, "{BATCH} blocks and more are anywhere");
    for step in 0..CLASSES {
        Block::new(&mut local, 24, step as u8).free(&mut local);
        local.age();
    }
    assert!(arena.held_bytes() <= FLOOR + HUGE_PAGE, "{} bytes held", arena.held_bytes());
}

/// With `mlock` the system refuses to take memory back.
#[test]
fn memory_that_the_system_refuses_is_reused() {
    const COUNT: usize = (8 << 20) / 1024;
    let arena = arena();
    let mut local = LocalArena::new(arena.clone());
    let held = blocks(&mut local, COUNT, 1024);
    let full = arena.held_bytes();
    // A page somewhere in each chunk.
    let some = held.iter().step_by(1000).chain(held.last());
    let pages: Vec<_> = some.map(|block| block.at.as_ptr()).collect();
    for &page in &pages {
        // SAFETY: the page is mapped, and its contents do not change.
        assert_eq!(unsafe { libc::mlock(page.cast(), 1) }, 0, "64 KiB can be locked anywhere");
    }
    held.into_iter().for_each(|block| block.free(&mut local));
    local.give_back();
    assert_eq!(arena.held_bytes(), full);
    let held = blocks(&mut local, COUNT, 1024);
    assert_eq!(arena.held_bytes(), full);
    for page in pages {
        // SAFETY: as above.
        unsafe { libc::munlock(page.cast(), 1) };
    }
    held.into_iter().for_each(|block| block.free(&mut local));
    local.give_back();
    assert_eq!(arena.held_bytes(), FLOOR);
}

#[test]
fn the_fullest_memory_serves_first() {
    let arena = arena();
    let mut local = LocalArena::new(arena.clone());
    // Three chunks and a bit, of which the second is used most, and the others a little.
    let held = blocks(&mut local, (6 << 20) / 1024 + 1, 1024);
    let chunk = |block: &Block| block.at.as_ptr().addr() / HUGE_PAGE;
    let second = chunk(&held[2048 + 300]);
    let (kept, freed): (Vec<_>, Vec<_>) = held
        .into_iter()
        .enumerate()
        .partition(|(i, block)| if chunk(block) == second { i % 2 == 0 } else { i % 500 == 0 });
    freed.into_iter().for_each(|(_, block)| block.free(&mut local));
    local.give_back();
    let again = blocks(&mut local, 900, 1024);
    for block in &again {
        assert_eq!(chunk(block), second);
    }
    let kept = kept.into_iter().map(|(_, block)| block);
    kept.chain(again).for_each(|block| block.free(&mut local));
}

#[test]
fn blocks_never_overlap_in_any_order_of_calls() {
    both().into_iter().for_each(use_in_any_order);
}

fn use_in_any_order(arena: Arc<Arena>) {
    let mut random = random_of_test();
    let mut locals: Vec<_> = (0..3).map(|_| LocalArena::new(arena.clone())).collect();
    let mut held: Vec<Block> = Vec::new();
    for step in 0..400_000usize {
        // The target rises and falls, so that spans and chunks come and go.
        let target = if step / 50_000 % 2 == 0 { 30_000 } else { 100 };
        let grow = random.usize(..held.len() + target) < target;
        let who = random.usize(..locals.len());
        let local = &mut locals[who];
        if grow {
            let size = match random.usize(..200) {
                0 => 1 + random.usize(..CLASSED_MAX + (64 << 10)),
                1..50 => 1 + random.usize(..2 * FINE_MAX),
                _ => 8 * (1 + random.usize(..6)),
            };
            held.push(Block::new(local, size, step as u8));
        } else if !held.is_empty() {
            held.swap_remove(random.usize(..held.len())).free(local);
        }
        match random.usize(..5_000) {
            0 => local.give_back(),
            1 => locals[who] = LocalArena::new(arena.clone()),
            2..100 => local.age(),
            _ => {}
        }
    }
    assert!(arena.has_large() == held.iter().any(|block| block.size > CLASSED_MAX));
    held.into_iter().for_each(|block| block.free(&mut locals[0]));
    drop(locals);
    assert!(!arena.has_large());
    assert_eq!(arena.held_bytes(), FLOOR);
}

#[test]
fn threads_share_an_arena() {
    both().into_iter().for_each(use_on_threads);
}

fn use_on_threads(arena: Arc<Arena>) {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<Block>>(4);
    let receiver = std::sync::Mutex::new(receiver);
    let seed = seed_of_test();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (sender, receiver, arena) = (sender.clone(), &receiver, &arena);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed + thread);
                let mut local = LocalArena::new(arena.clone());
                for round in 0..300 {
                    let size = 8 * (1 + random.usize(..12));
                    let count = random.usize(..3_000);
                    let mut made = blocks(&mut local, count, size);
                    random.shuffle(&mut made);
                    let keep = made.split_off(made.len() / 2);
                    if let Err(TrySendError::Full(made)) = sender.try_send(made) {
                        let other = receiver.lock().expect("no panic").try_recv();
                        let all = made.into_iter().chain(other.into_iter().flatten());
                        all.for_each(|block| block.free(&mut local));
                    }
                    keep.into_iter().for_each(|block| block.free(&mut local));
                    if round % 100 == 99 {
                        local.give_back();
                    }
                }
            });
        }
        drop(sender);
    });
    let mut local = LocalArena::new(arena.clone());
    let left = receiver.into_inner().expect("no panic");
    left.into_iter().flatten().for_each(|block| block.free(&mut local));
    drop(local);
    assert_eq!(arena.held_bytes(), FLOOR);
}

/// An item that is longer than the longest class has pages of its own.
#[test]
fn long_blocks_are_held_as_long_as_they_are_out() {
    let arena = arena();
    let mut local = LocalArena::new(arena.clone());
    let (mapped, sizes) = (arena.mapped_bytes(), [CLASSED_MAX + 1, 1 << 20, (5 << 20) + 8]);
    let held: Vec<Block> = sizes.iter().map(|&size| Block::new(&mut local, size, 3)).collect();
    let all = sizes.map(footprint).iter().sum::<usize>();
    assert_eq!((arena.held_bytes(), arena.mapped_bytes()), (all, mapped + all));
    assert!(arena.has_large());
    held.into_iter().for_each(|block| block.free(&mut local));
    assert_eq!((arena.held_bytes(), arena.has_large()), (0, false));
}

/// Little is held beyond the allocated blocks, whatever the size.
#[test]
fn sizes_of_all_kinds_are_held_without_much_beside() {
    for (from, to) in [(16, 4096), (4096, 64 << 10), (64 << 10, CLASSED_MAX)] {
        let arena = arena();
        let mut local = LocalArena::new(arena.clone());
        let mut random = random_of_test();
        let (mut held, mut out) = (Vec::new(), 0);
        while out < 128 << 20 {
            let size = from + random.usize(..to - from);
            out += footprint(size);
            held.push(Block::new(&mut local, size, held.len() as u8));
        }
        let beside = arena.held_bytes() - out;
        assert!(beside < out / 7, "{beside} bytes beside {out} of blocks from {from} to {to}");
        held.into_iter().for_each(|block| block.free(&mut local));
        local.give_back();
        assert_eq!(arena.held_bytes(), FLOOR);
    }
}

/// A block of a fresh arena that was given back, and the cache that has it, which does not drop, as its
/// lists are going to be damaged.
#[cfg(debug_assertions)]
fn freed(size: usize) -> (ManuallyDrop<LocalArena>, NonNull<u8>) {
    let mut local = ManuallyDrop::new(LocalArena::new(arena()));
    let block = local.alloc(size);
    // SAFETY: allocated with this size, and given up here.
    unsafe { local.free(block, size) };
    (local, block)
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "of 24 bytes at")]
fn a_block_that_is_freed_twice_is_noticed() {
    let (mut local, block) = freed(24);
    // SAFETY: none, but the block is still the cache's.
    unsafe { local.free(block, 24) };
}

#[test]
#[cfg(debug_assertions)]
fn a_write_after_the_free_is_noticed_at_each_byte() {
    for size in [16, 24, 1000, 1600] {
        for at in [8, 9, size / 2, size - 1] {
            let (mut local, block) = freed(size);
            // SAFETY: none, but the byte is still the cache's.
            unsafe { block.as_ptr().add(at).write(7) };
            let again = std::panic::AssertUnwindSafe(|| local.alloc(size));
            let noticed = std::panic::catch_unwind(again).is_err();
            // Beyond that nothing is looked at.
            assert_eq!(noticed, at < 512, "byte {at} of {size}");
        }
    }
}

/// Whether the cache complains before it gives the block out.
#[cfg(debug_assertions)]
fn complains(local: &mut LocalArena, block: NonNull<u8>, size: usize) -> bool {
    loop {
        let again = std::panic::AssertUnwindSafe(|| local.alloc(size));
        match std::panic::catch_unwind(again) {
            Err(_) => return true,
            Ok(again) if again == block => return false,
            Ok(_) => {}
        }
    }
}

#[test]
#[cfg(debug_assertions)]
fn a_write_after_the_free_is_noticed_wherever_the_block_waits() {
    let alloc = |count: u32| {
        let mut local = ManuallyDrop::new(LocalArena::new(arena()));
        let blocks: Vec<_> = (0..count).map(|_| local.alloc(24)).collect();
        (local, blocks)
    };
    // SAFETY: none, but the byte is still the arena's.
    let damage = |block: NonNull<u8>| unsafe { block.as_ptr().add(20).write(7) };
    let free = |local: &mut LocalArena, blocks: &[NonNull<u8>]| {
        // SAFETY: allocated with this size, and given up here.
        blocks.iter().for_each(|block| unsafe { local.free(*block, 24) });
    };
    // In a full batch, which is put aside: it serves once the run has been used up.
    let (mut local, blocks) = alloc(BATCH);
    free(&mut local, &blocks);
    let last = *blocks.last().expect("some");
    damage(last);
    assert!(complains(&mut local, last, 24), "in the batch put aside");
    // In a span, some of whose blocks are out: the first that serves, and one that is stock then.
    for place in 1..4 {
        let (mut local, blocks) = alloc(10);
        free(&mut local, &blocks[1..]);
        local.give_back();
        damage(blocks[place]);
        assert!(complains(&mut local, blocks[place], 24), "number {place} in the span");
    }
}

/// Memory never given out is as free as returned memory.
#[test]
fn the_rest_of_a_run_serves_another_session() {
    let arena = arena();
    let [mut first, mut second, mut third] = [0; 3].map(|_| LocalArena::new(arena.clone()));
    // The second session has the memory behind, so that the first one's run goes back block by block.
    let [block, next] = [first.alloc(24), second.alloc(24)];
    first.give_back();
    // SAFETY: the second block of the run, of which the first session has given back all but one.
    let follows = unsafe { block.add(24) };
    let served: Vec<_> = (0..500).map(|_| third.alloc(24)).collect();
    assert!(served.contains(&follows), "it is of the same span");
    for block in served.into_iter().chain([block, next]) {
        // SAFETY: allocated with this size, and given up here.
        unsafe { third.free(block, 24) };
    }
}

#[test]
#[cfg(debug_assertions)]
fn a_new_block_hides_its_old_content() {
    for size in [16, 24, 1000, 1600] {
        let (mut local, block) = freed(size);
        let again = local.alloc(size);
        assert!(again == block, "the last that was freed is the first to serve");
        // SAFETY: the block is the caller's, and was filled when it was given out.
        let bytes = unsafe { std::slice::from_raw_parts(again.as_ptr(), size.min(512)) };
        assert!(bytes.iter().all(|byte| *byte == 0xa5), "{size} bytes: {bytes:?}");
    }
}

/// Other sessions change an item's word, so a late writer writes there.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "after it was freed")]
fn a_flag_that_is_set_after_the_free_is_noticed() {
    let (mut local, block) = freed(24);
    // SAFETY: none, but the word is still the cache's.
    unsafe { *block.cast::<u64>().as_ptr() |= crate::core::word::MARK };
    local.alloc(24);
}

#[test]
#[cfg(debug_assertions)]
fn a_write_past_the_end_by_one_is_noticed() {
    let arena = arena();
    let mut local = ManuallyDrop::new(LocalArena::new(arena.clone()));
    for size in [1, 25, 31, 1021, 1025, 5000] {
        let block = local.alloc(size);
        // SAFETY: allocated with this size; the second write is the fault.
        let looks = |past: usize| unsafe {
            block.as_ptr().write_bytes(1, size + past);
            std::panic::catch_unwind(|| arena.check_end(block, size)).is_ok()
        };
        assert!(looks(0) && !looks(1), "{size} bytes");
        // SAFETY: as above; the byte lies behind others that are left as they were.
        unsafe { block.as_ptr().add(size).write(0xc7) };
        assert!(looks(0), "{size} bytes");
        if crate::core::arena::footprint(size) > size + 2 {
            // SAFETY: as above; the write is the fault.
            unsafe { block.as_ptr().add(size + 2).write(1) };
            assert!(!looks(0), "{size} bytes");
        }
    }
    // One that fills its block; the block behind it is free.
    let [first, second] = [0; 2].map(|_| local.alloc(24));
    // SAFETY: it is the second block, which is given up; the write is the fault.
    unsafe {
        assert!(first.add(24) == second, "neighbours of a run");
        local.free(second, 24);
        first.as_ptr().add(24).write(1);
    }
    let again = std::panic::AssertUnwindSafe(|| local.alloc(24));
    assert!(std::panic::catch_unwind(again).is_err(), "the link was overwritten");
}
