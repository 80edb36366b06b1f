//! A wrapper for secret settings, which prevents them from appearing in logs and errors.

use std::fmt;

/// A text that must not appear in any log or error.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: &str) -> Self {
        Secret(text.to_string())
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "(hidden)" })
    }
}
