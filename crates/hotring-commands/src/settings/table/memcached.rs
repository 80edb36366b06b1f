//! Settings of memcached's protocol.

use std::path::PathBuf;

use crate::settings::setting::{Change, Setting};
use crate::settings::values::{number, size};

pub(super) static MEMCACHED: &[Setting] = &[
    Setting {
        name: "memcached",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Addresses for memcached's text protocol, over the same data, separated by spaces",
        change: Change::Start,
        get: |c| c.memcached.listen.join(" "),
        set: |c, v| {
            c.memcached.listen = v.split_whitespace().map(str::to_string).collect();
            Ok(())
        },
    },
    Setting {
        name: "memcached-auth-file",
        alias: "",
        placeholder: "PATH",
        help: "File of name:password lines; if set, memcached clients must authenticate",
        change: Change::Start,
        get: |c| {
            let path = c.memcached.auth_file.as_ref();
            path.map(|path| path.display().to_string()).unwrap_or_default()
        },
        set: |c, v| {
            c.memcached.auth_file = (!v.is_empty()).then(|| PathBuf::from(v));
            Ok(())
        },
    },
    Setting {
        name: "memcached-max-item-size",
        alias: "",
        placeholder: "SIZE",
        help: "Longest value that memcached's commands store",
        change: Change::Running,
        get: |c| c.memcached.value_len_max.to_string(),
        set: |c, v| {
            let n = size(v, 1 << 10)?;
            if n > VALUE_LEN_LIMIT {
                return Err("must be at most 512mb".to_string());
            }
            c.memcached.value_len_max = n;
            Ok(())
        },
    },
    Setting {
        name: "memcached-max-line",
        alias: "",
        placeholder: "SIZE",
        help: "Longest line of memcached's get, gets, gat and gats; other lines are limited to 2048 bytes",
        change: Change::Running,
        get: |c| c.memcached.line_len_max.to_string(),
        set: |c, v| size(v, 2 << 10).map(|n| c.memcached.line_len_max = n),
    },
    Setting {
        name: "memcached-max-prefixes",
        alias: "",
        placeholder: "N",
        help: "Key prefixes counted by memcached's stats detail",
        change: Change::Running,
        get: |c| c.memcached.prefixes_max.to_string(),
        set: |c, v| number(v, 0, 1 << 30).map(|n| c.memcached.prefixes_max = n),
    },
];

/// The store's own limit for one value.
const VALUE_LEN_LIMIT: usize = 512 << 20;
