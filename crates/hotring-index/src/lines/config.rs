//! The settings of a map of lines.

use super::lane::Form;

/// How a [`Lines`](super::Lines) is built.
#[derive(Clone, Debug)]
pub struct LinesConfig {
    /// The secret of the permutation of keys: take it from the system's random numbers.
    pub seed: [u64; 2],
    /// Items for which there is room from the start. The map never shrinks below that.
    pub capacity: u64,
    /// The share of lanes that may be taken before the table grows, 0.6 to 0.9.
    pub load_max: f64,
    /// By what the table grows, 1.1 to 8: a smaller factor takes less memory and moves items more often.
    pub factor: f64,
    /// Whether the table shrinks by itself.
    pub shrinks: bool,
    /// Whether huge pages are asked for: for the first table, and where
    /// [`LinesSession::maintain`](super::LinesSession::maintain) is called.
    pub huge_pages: bool,
    /// The instructions with which lines are searched; the best that the processor has if `None`.
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
