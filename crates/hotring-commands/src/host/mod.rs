//! The process and its machine: time, random numbers, files, threads, fibers.

pub mod clock;
pub mod fiber;
pub mod files;
pub mod start_error;
pub mod threads;
