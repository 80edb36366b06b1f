//! The process and its machine: time, random numbers, files, threads, fibers.

pub(crate) mod clock;
pub(crate) mod fiber;
pub(crate) mod files;
pub(crate) mod random;
pub(crate) mod start_error;
pub(crate) mod threads;
