//! State of memcached's protocol that connections and threads share. The protocol's commands are in
//! [`crate::memcached`].

mod counts;
mod detail;
mod shared;
mod users;

pub(crate) use counts::{COUNT_NAMES, Count, Counts};
pub(crate) use detail::Done;
pub(crate) use hotring_protocol::memcached::NAMES;
pub use shared::Shared;
