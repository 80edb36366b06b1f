//! Where accesses come from: skewed distributions, the scattering of hot keys, recorded traces.

pub mod random;
pub mod scramble;
pub mod trace;
pub mod zipf;
