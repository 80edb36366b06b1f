//! Atomics for shuttle: the real ones, with a scheduling point before each access.
//!
//! Shuttle's own atomics carry a clock, so they are larger than the real ones. Items and slots have fixed
//! layouts and need atomics of the real size. Shuttle treats every access as sequentially consistent
//! anyway; loom checks the memory orders.

use shuttle::thread::sleep as switch;
use std::cell::Cell;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

// ORDERING: SeqCst, the only order that shuttle models.
const ORDER: Ordering = Ordering::SeqCst;

thread_local! {
    /// Whether the running code counts as one step, to model a hardware transaction.
    static ONE_STEP: Cell<bool> = const { Cell::new(false) };
}

/// Begins (true) or ends (false) a section whose accesses are one step.
pub fn one_step(is_one: bool) {
    ONE_STEP.set(is_one);
}

/// Lets the schedule switch to another thread. Does nothing during a panic: the run is over, and switching
/// from destructors would only run the other threads in vain.
fn point() {
    if !std::thread::panicking() && !ONE_STEP.get() {
        // Under shuttle a sleep has no duration; it is only a switch.
        switch(Duration::ZERO);
    }
}

pub fn fence(_order: Ordering) {
    point();
}

macro_rules! atomic {
    ($name:ident $(<$T:ident>)?, $value:ty) => {
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name $(<$T>)? (atomic::$name $(<$T>)?);

        #[allow(dead_code)]
        impl $(<$T>)? $name $(<$T>)? {
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub fn load(&self, _: Ordering) -> $value {
                point();
                self.0.load(ORDER)
            }

            pub fn store(&self, value: $value, _: Ordering) {
                point();
                self.0.store(value, ORDER);
            }

            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                point();
                self.0.swap(value, ORDER)
            }

            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(old, new, ORDER, ORDER)
            }

            pub fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(old, new, success, failure)
            }
        }
    };
}

atomic!(AtomicU64, u64);
atomic!(AtomicBool, bool);
atomic!(AtomicPtr<T>, *mut T);

impl AtomicU64 {
    pub fn fetch_or(&self, bits: u64, _: Ordering) -> u64 {
        point();
        self.0.fetch_or(bits, ORDER)
    }

    pub fn fetch_and(&self, bits: u64, _: Ordering) -> u64 {
        point();
        self.0.fetch_and(bits, ORDER)
    }

    pub fn fetch_add(&self, by: u64, _: Ordering) -> u64 {
        point();
        self.0.fetch_add(by, ORDER)
    }
}
