//! The only import of atomics in this crate, so that a model checker can take their place.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU64, Ordering, compiler_fence, fence,
};
pub(crate) use std::sync::{Arc, Mutex};
