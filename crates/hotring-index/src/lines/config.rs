//! The settings of a map of lines.

use super::lane::Form;

/// The settings of a [`Lines`](super::Lines).
#[derive(Clone, Debug)]
pub struct LinesConfig {
    /// The secret of the permutation of keys: take it from the system's random numbers.
    pub seed: [u64; 2],
    /// The number of items for which the first table has capacity. The map never shrinks below it.
    pub capacity: u64,
    /// The share of lanes that may be taken before the table grows, 0.6 to 0.9.
    pub load_max: f64,
    /// The factor by which the table grows, 1.1 to 8: a smaller factor takes less memory and moves items more often.
    pub factor: f64,
    /// Whether the table shrinks automatically.
    pub shrinks: bool,
    /// Whether huge pages are requested. A write that reaches a new huge page while the table grows waits until the
    /// system has filled its 2 MiB with zeros, unless a thread that calls
    /// [`LinesSession::maintain`](super::LinesSession::maintain) has been there before.
    pub huge_pages: bool,
    /// The instructions that search lines; `None` picks the best that the processor has.
    pub form: Option<Form>,
    /// A wrong variant, for model checkers.
    #[cfg(loom)]
    pub fault: crate::core::faults::Fault,
}

impl Default for LinesConfig {
    fn default() -> Self {
        Self {
            seed: [0; 2],
            capacity: 0,
            load_max: 0.75,
            factor: 2.0,
            shrinks: true,
            huge_pages: true,
            form: None,
            #[cfg(loom)]
            fault: crate::core::faults::Fault::None,
        }
    }
}
