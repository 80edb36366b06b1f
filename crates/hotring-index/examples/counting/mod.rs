//! How the examples that `cargo xtask instructions` runs mark their cases.
//!
//! Alone such an example is of no use: it runs each case once and prints the names of the cases in order, with
//! their operations. Under callgrind, which is told to collect only inside of [`counted`] and to
//! write what it has before [`written`], each case becomes one file of counts. That needs neither a
//! crate for callgrind's requests, which would bring a C compiler and libclang into the build, nor
//! one that installs a program for running benchmarks.
//!
//! Counts do not depend on the machine's speed or load: one thread, fixed seeds, no system calls
//! that matter. They do depend on what the compiler inlines, and so each example is a program of its own
//! that changes with one crate alone. What they do not see: cache misses, and whatever waits.

use std::hint::black_box;

/// Runs a case of this many operations.
pub(crate) fn case(subject: &str, operation: &str, operations: u64, mut work: impl FnMut()) {
    println!("{subject},{operation},{operations}");
    counted(&mut work);
    written();
}

/// The code that callgrind counts.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    black_box(work)();
}

/// Where callgrind writes down what it has counted.
#[inline(never)]
fn written() {
    black_box(());
}
