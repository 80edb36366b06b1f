//! Which items go when memory is short: policies that know hashes and a few bits of each item, and own
//! neither items nor memory. Who has the items shows them to a policy by the trait [`heat::Items`].

mod ghosts;
pub mod heat;
mod queue;
