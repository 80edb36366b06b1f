//! x
#![cfg(loom)]
