//! Hardware transactional memory (RHKV section 4.6): transactions and lock elision by inline
//! assembly, and the policy that decides when the lock is taken instead.
//!
//! A transaction reads the lock words first, so that a session that takes one of these locks aborts
//! it. A transaction must not allocate or call the system. After an abort it is retried only if the
//! processor says that this may help, or if we aborted it ourselves because a lock was held.
//!
//! The path of aborts was tested under valgrind, which executes XBEGIN as an abort. **The path of
//! commits has never run on hardware**: no machine used for development has transactions. A mock
//! tests the policy (`tests`), and under shuttle the engine itself commits: there a transaction is
//! one step without interruption, as hardware promises.

use super::counts::Counts;
use super::lock::{FROZEN, LOCKED};
use hotring_index::sync::AtomicU64;
#[cfg(any(not(target_arch = "x86_64"), loom, shuttle, miri))]
use hotring_index::sync::Ordering;
use hotring_index::sync::spin::SpinWait;

/// Retries after the first attempt.
const RETRIES_MAX: u32 = 5;
/// The code of our own aborts.
const BUSY: u32 = 0xff;
/// Rounds that a transaction waits for a lock to become free before it is restarted.
const ROUNDS_MAX: u32 = 8;

/// The reason why a transaction did not commit, as in EAX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abort(pub(crate) u32);

impl Abort {
    const EXPLICIT: u32 = 1;
    const RETRY: u32 = 1 << 1;
    /// Our own abort: a lock was held.
    pub(crate) const LOCK_HELD: Self = Self(Self::EXPLICIT | BUSY << 24);

    fn may_retry(self) -> bool {
        self.0 & Self::RETRY != 0 || self.is_ours()
    }

    fn is_ours(self) -> bool {
        self.0 & Self::EXPLICIT != 0 && self.0 >> 24 == BUSY
    }
}

/// The three instructions, as a trait so that a mock can replace them.
pub(crate) trait Htm {
    /// Begins a transaction. An abort later on returns from here a second time.
    fn begin(&self) -> Result<(), Abort>;
    /// Commits: makes all changes since `begin` visible at once.
    fn end(&self);
    /// Aborts because a lock is held. Hardware continues at `begin`; a mock returns the same result,
    /// without having done anything in between.
    fn abort(&self) -> Abort;
}

/// Runs `body` as a transaction that depends on all of `locks` being free. None: it could not be
/// committed, nothing has happened, and the locks have to be taken.
pub(crate) fn elide<R>(
    htm: &impl Htm,
    locks: impl Fn() -> u64,
    counts: &Counts,
    mut body: impl FnMut(bool) -> R,
) -> Option<R> {
    for _ in 0..=RETRIES_MAX {
        let status = match htm.begin() {
            Ok(()) => {
                let state = locks();
                if state & LOCKED == 0 {
                    let result = body(state & FROZEN != 0);
                    htm.end();
                    counts.htm_commits.add(1);
                    return Some(result);
                }
                htm.abort()
            }
            Err(status) => status,
        };
        counts.htm_aborts.add(1);
        if !status.may_retry() {
            break;
        }
        let mut wait = SpinWait::default();
        for _ in 0..if status.is_ours() { ROUNDS_MAX } else { 0 } {
            if locks() & LOCKED == 0 {
                break;
            }
            wait.wait();
        }
    }
    counts.htm_fallbacks.add(1);
    None
}

/// Whether this processor runs transactions: CPUID leaf 7 reports RTM, and does not report that all
/// of them abort.
pub(crate) fn is_supported() -> bool {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const RTM: u32 = 1 << 11;
        const RTM_ALWAYS_ABORT: u32 = 1 << 11;
        if __cpuid(0).eax < 7 {
            return false;
        }
        let leaf = __cpuid_count(7, 0);
        leaf.ebx & RTM != 0 && leaf.edx & RTM_ALWAYS_ABORT == 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    false
}

/// Whether the instructions exist at all.
pub(crate) const IS_X86: bool = cfg!(target_arch = "x86_64");

/// The instructions of the processor.
pub(crate) struct Hardware;

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
impl Htm for Hardware {
    #[inline(always)]
    fn begin(&self) -> Result<(), Abort> {
        const STARTED: u32 = u32::MAX;
        let status: u32;
        // SAFETY: an abort restores memory and registers to their state here and sets EAX to the reason; no
        // other register changes. The compiler must not move memory accesses across the block.
        unsafe {
            std::arch::asm!("xbegin 2f", "2:", inout("eax") STARTED => status, options(nostack));
        }
        if status == STARTED { Ok(()) } else { Err(Abort(status)) }
    }

    #[inline(always)]
    fn end(&self) {
        // SAFETY: `begin` said that a transaction is running.
        unsafe { std::arch::asm!("xend", options(nostack)) };
    }

    #[inline(always)]
    fn abort(&self) -> Abort {
        // SAFETY: ends the running transaction; execution continues in `begin`.
        unsafe { std::arch::asm!("xabort 0xff", options(nostack)) };
        Abort::LOCK_HELD
    }
}

/// Simulates the processor: a transaction is one step of the schedule, and some abort.
#[cfg(shuttle)]
impl Htm for Hardware {
    fn begin(&self) -> Result<(), Abort> {
        use shuttle::rand::{RngCore, thread_rng};
        let random = thread_rng().next_u64();
        if random.is_multiple_of(4) {
            return Err(Abort(random as u32 >> 8 & Abort::RETRY));
        }
        hotring_index::sync::one_step(true);
        Ok(())
    }

    fn end(&self) {
        hotring_index::sync::one_step(false);
    }

    fn abort(&self) -> Abort {
        hotring_index::sync::one_step(false);
        Abort::LOCK_HELD
    }
}

#[cfg(any(loom, miri, all(not(target_arch = "x86_64"), not(shuttle))))]
impl Htm for Hardware {
    fn begin(&self) -> Result<(), Abort> {
        Err(Abort(0))
    }

    fn end(&self) {}

    fn abort(&self) -> Abort {
        Abort::LOCK_HELD
    }
}

/// A compare-exchange that also begins an elided section, if the processor supports that.
#[inline(always)]
pub(crate) fn acquire_elided(word: &AtomicU64, old: u64, new: u64) -> bool {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    {
        let done: u8;
        // SAFETY: an ordinary locked compare-exchange of an atomic word, sequentially consistent;
        // processors that do not know the prefix ignore it.
        unsafe {
            std::arch::asm!(
                "xacquire lock cmpxchg qword ptr [{word}], {new}",
                "sete {done}",
                word = in(reg) word.as_ptr(),
                new = in(reg) new,
                inout("rax") old => _,
                done = out(reg_byte) done,
                options(nostack),
            );
        }
        done != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    {
        // ORDERING: Acquire pairs with the Release in `release_elided`.
        word.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// A store that ends the section; elided only if it restores the previous word.
#[inline(always)]
pub(crate) fn release_elided(word: &AtomicU64, value: u64) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    // SAFETY: an ordinary store to an atomic word, which releases on this architecture; processors
    // that do not know the prefix ignore it.
    unsafe {
        std::arch::asm!(
            "xrelease mov qword ptr [{word}], {value}",
            word = in(reg) word.as_ptr(),
            value = in(reg) value,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    // ORDERING: Release pairs with the Acquire of the next session that locks.
    word.store(value, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotring_index::sync::Ordering;
    use std::cell::{Cell, RefCell};

    /// Answers `begin` from a list, then commits.
    #[derive(Default)]
    struct Mock {
        answers: RefCell<Vec<Result<(), Abort>>>,
        begun: Cell<u32>,
        ended: Cell<u32>,
        aborted: Cell<u32>,
    }

    impl Htm for Mock {
        fn begin(&self) -> Result<(), Abort> {
            self.begun.set(self.begun.get() + 1);
            self.answers.borrow_mut().pop().unwrap_or(Ok(()))
        }

        fn end(&self) {
            self.ended.set(self.ended.get() + 1);
        }

        fn abort(&self) -> Abort {
            self.aborted.set(self.aborted.get() + 1);
            Abort::LOCK_HELD
        }
    }

    fn always(status: u32) -> Mock {
        Mock { answers: RefCell::new(vec![Err(Abort(status)); 100]), ..Mock::default() }
    }

    #[test]
    fn a_transaction_commits_and_runs_its_body_once() {
        let (mock, counts) = (Mock::default(), Counts::default());
        let mut runs = 0;
        let result = elide(
            &mock,
            || 0,
            &counts,
            |frozen| {
                runs += 1;
                frozen
            },
        );
        assert_eq!((result, runs, mock.ended.get()), (Some(false), 1, 1));
        assert_eq!((counts.htm_commits.load(), counts.htm_fallbacks.load()), (1, 0));
        assert_eq!(elide(&mock, || FROZEN, &counts, |frozen| frozen), Some(true));
    }

    #[test]
    fn an_abort_with_the_hint_is_tried_again_five_times_at_most() {
        let (mock, counts) = (always(Abort::RETRY), Counts::default());
        assert_eq!(elide(&mock, || 0, &counts, |_| ()), None);
        assert_eq!(mock.begun.get(), 1 + RETRIES_MAX);
        assert_eq!((counts.htm_aborts.load(), counts.htm_fallbacks.load()), (6, 1));
        mock.answers.borrow_mut().truncate(2);
        assert_eq!(elide(&mock, || 0, &counts, |_| ()), Some(()), "the third try commits");
    }

    #[test]
    fn an_abort_without_hope_is_not_tried_again() {
        // None: a system call or the like. 8: capacity. 1 and another code: not ours.
        for status in [0, 8, Abort::EXPLICIT | 7 << 24] {
            let (mock, counts) = (always(status), Counts::default());
            assert_eq!(elide(&mock, || 0, &counts, |_| ()), None);
            assert_eq!((mock.begun.get(), counts.htm_aborts.load()), (1, 1), "status {status}");
        }
    }

    #[test]
    fn a_held_lock_aborts_before_the_body_and_is_waited_for() {
        let (mock, counts) = (Mock::default(), Counts::default());
        let looks = Cell::new(0);
        let locks = || {
            looks.set(looks.get() + 1);
            if looks.get() < 4 { LOCKED } else { 0 }
        };
        assert_eq!(elide(&mock, locks, &counts, |_| 7), Some(7));
        assert_eq!((mock.aborted.get(), mock.ended.get()), (1, 1));
        let runs = Cell::new(0);
        assert_eq!(elide(&mock, || LOCKED, &counts, |_| runs.set(1)), None);
        assert_eq!(runs.get(), 0, "the body does not run beside a lock's holder");
    }

    #[test]
    fn elided_locks_are_locks() {
        let word = AtomicU64::new(8);
        assert!(!acquire_elided(&word, 4, 5) && acquire_elided(&word, 8, 9));
        // ORDERING: one thread.
        assert_eq!(word.load(Ordering::Relaxed), 9);
        release_elided(&word, 8);
        // ORDERING: one thread.
        assert_eq!(word.load(Ordering::Relaxed), 8);
    }
}
