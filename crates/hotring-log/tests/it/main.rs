//! Tests of the log as a whole, in one binary.

mod crash;
mod cut;
mod damage;
mod faults;
mod tail;
mod threads;
mod workload;

/// The number in a variable, or a default.
fn number(variable: &str, otherwise: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
