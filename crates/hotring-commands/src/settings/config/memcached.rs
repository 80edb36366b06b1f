//! The settings of memcached's protocol.

use std::path::PathBuf;

/// The values of these settings.
#[derive(Clone, Debug, PartialEq)]
pub struct MemcachedSettings {
    /// `ADDR:PORT` of each listener; empty means none.
    pub listen: Vec<String>,
    /// Names and passwords.
    pub auth_file: Option<PathBuf>,
    /// Longest value that is stored by this protocol.
    pub value_len_max: usize,
    /// Longest line that names keys.
    pub line_len_max: usize,
    /// Prefixes of keys that are counted.
    pub prefixes_max: usize,
}

impl Default for MemcachedSettings {
    fn default() -> Self {
        MemcachedSettings {
            listen: Vec::new(),
            auth_file: None,
            value_len_max: 1 << 20,
            line_len_max: 1 << 20,
            prefixes_max: 10_000,
        }
    }
}
