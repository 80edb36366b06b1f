//! The operations of a [`Session`](crate::Session), one family per file. The header of each file says how its
//! operations use the gate.

pub(crate) mod bit_fields;
pub(crate) mod bits;
mod changes;
mod container;
pub(crate) mod content;
pub(crate) mod counter;
mod database;
mod evict;
pub(crate) mod expire;
pub(crate) mod expire_due;
pub(crate) mod fields;
pub(crate) mod grounds;
mod hash;
mod history;
mod idle;
pub(crate) mod item;
pub(crate) mod key_state;
mod keyspace;
pub(crate) mod list;
mod log;
mod number;
mod pins;
pub(crate) mod read;
pub(crate) mod reply_capacity;
mod role;
pub(crate) mod scored;
pub(crate) mod scored_inputs;
pub(crate) mod set;
pub(crate) mod sets;
pub(crate) mod several;
pub(crate) mod text;
pub(crate) mod watch;

#[cfg(test)]
#[path = "."]
mod plain {
    const HISTORY: usize = 0;
    mod tests;
}

#[cfg(test)]
#[path = "."]
mod with_history {
    const HISTORY: usize = 3;
    #[allow(clippy::duplicate_mod)]
    mod tests;
}
