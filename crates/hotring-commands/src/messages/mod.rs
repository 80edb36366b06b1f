//! Operations of messages (`docs/design/messages.md`), over the same data as RESP.
//!
//! A request is a batch, as in the other protocols: its keys are prefetched in parallel, then its operations run in
//! order ([`executor`], [`operation`]). Each counts as the command of RESP that does the same, is allowed to the same
//! users, and is told to the same listeners. Versions are memcached's unique numbers ([`hotring_store::Metadata`]).

mod executor;
mod login;
mod operation;

pub use executor::{Executor, Held, Ran, Waited, take_back};
pub use login::log_in;

#[cfg(test)]
mod tests;
