//! The interface to the operating system: time, files, threads, fibers, and errors at the start.

pub mod clock;
pub mod fiber;
pub mod files;
pub mod start_error;
pub mod threads;
