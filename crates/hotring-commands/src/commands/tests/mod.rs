//! Requests and their exact replies, a file for each family of commands.

mod acl;
mod bits;
mod blocking;
mod compare;
mod counter;
mod dump;
mod expire;
mod fields;
mod hash;
mod history;
mod key;
mod latency;
mod list;
mod multi;
mod numeric;
mod object;
mod pubsub;
mod range;
mod scan;
mod script;
mod scrub;
mod set;
mod string;
mod tracking;
mod transaction;
mod zset;
