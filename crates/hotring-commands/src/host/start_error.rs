//! The error of a server that cannot start.

use std::fmt;

/// The reason why a server cannot start, printed for the operator.
#[derive(Debug, PartialEq, Eq)]
pub struct StartError(String);

impl StartError {
    pub fn new(message: impl Into<String>) -> Self {
        StartError(message.into())
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}
