//! The functions of `include/hotring.h`, which documents them: a client of messages for C.
//!
//! A C client is a [`Shared`](hotring_messages::Shared): any number of threads use it. What C gets to free (values,
//! results, queues, clients) is a `Box` that its own function takes back. A panic ends the process, as Rust has it for
//! functions that C calls.
//!
//! # Safety
//!
//! What holds for all functions, and is said nowhere else: a pointer with a length leads to as many bytes, which stay
//! the same during the call; a text ends with a zero byte; a pointer to an object is NULL or came from this library and
//! was not freed; a pointer through which something is given back leads to room for it.
#![allow(unsafe_code)]
// The contract of all of them is above.
#![allow(clippy::missing_safety_doc)]

mod client;
mod input;
mod operations;
mod output;
mod queue;
mod status;

pub use client::{hotring_batch, hotring_close, hotring_connect, hotring_submit};
pub use input::{Operation, Options};
pub use operations::{
    hotring_add, hotring_compare_and_set, hotring_delete, hotring_expire, hotring_get, hotring_set,
    hotring_update, hotring_wait, hotring_wait_for,
};
pub use output::{Answer, Outcome, Value, hotring_result_free, hotring_value_free};
pub use queue::{Queue, hotring_poll, hotring_queue_free, hotring_queue_new};
pub use status::{hotring_error, hotring_text};
