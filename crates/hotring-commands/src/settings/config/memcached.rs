//! The settings of memcached's protocol.

use std::path::PathBuf;

/// The values of these settings.
#[derive(Clone, Debug, PartialEq)]
pub struct MemcachedSettings {
    /// `ADDR:PORT` of each listener; empty means none.
    pub listen: Vec<String>,
    /// The file of names and passwords; None if clients need not authenticate.
    pub auth_file: Option<PathBuf>,
    /// The maximum length of a value that this protocol stores, in bytes.
    pub value_len_max: usize,
    /// The maximum length of a line that names keys, in bytes.
    pub line_len_max: usize,
    /// The maximum number of key prefixes that `stats detail` counts.
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
