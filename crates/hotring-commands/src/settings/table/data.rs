//! Settings of the storage of keys and values.

use hotring_store::index::Checksum;

use crate::settings::setting::{Change, Setting};
use crate::settings::values::{number, size};

pub(super) static DATA: &[Setting] = &[
    Setting {
        name: "databases",
        alias: "",
        placeholder: "N",
        help: "Number of databases; unused ones take no memory",
        change: Change::Start,
        get: |c| c.databases.to_string(),
        set: |c, v| number(v, 1, hotring_store::DATABASES_MAX).map(|n| c.databases = n),
    },
    Setting {
        name: "checksum",
        alias: "",
        placeholder: "off|write|verify",
        help: "CRC32C of each item: write (SCRUB checks it) or verify (each read checks it, too)",
        change: Change::Start,
        get: |c| c.checksum.name().to_string(),
        set: |c, v| {
            let named = |checksum: &Checksum| v.eq_ignore_ascii_case(checksum.name());
            let checksum = Checksum::ALL.into_iter().find(named);
            c.checksum = checksum.ok_or("must be 'off', 'write' or 'verify'")?;
            Ok(())
        },
    },
    Setting {
        name: "hash-max-listpack-entries",
        alias: "hash-max-ziplist-entries",
        placeholder: "N",
        help: "Most fields of a hash stored as one value; in a longer one, a change costs only its own size",
        change: Change::Running,
        get: |c| c.hash_packed_fields_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.hash_packed_fields_max = n),
    },
    Setting {
        name: "hash-max-listpack-value",
        alias: "hash-max-ziplist-value",
        placeholder: "SIZE",
        help: "Longest field or value in a hash stored as one value",
        change: Change::Running,
        get: |c| c.hash_packed_len_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.hash_packed_len_max = n),
    },
    Setting {
        name: "hll-sparse-max-bytes",
        alias: "",
        placeholder: "SIZE",
        help: "Longest sparse form of a PFADD estimate; a longer one takes 12304 bytes",
        change: Change::Running,
        get: |c| c.hll_sparse_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.hll_sparse_max = n),
    },
    Setting {
        name: "history",
        alias: "",
        placeholder: "N",
        help: "Earlier values kept per key for HISTORY and ROLLBACK, at most 16; 0: none",
        change: Change::Start,
        get: |c| c.history.to_string(),
        set: |c, v| number(v, 0, 16).map(|n| c.history = n),
    },
    Setting {
        name: "history-max-bytes",
        alias: "",
        placeholder: "SIZE",
        help: "Memory limit for the earlier values of one key, up to 1gb; the oldest go first",
        change: Change::Start,
        get: |c| c.history_bytes_max.to_string(),
        set: |c, v| {
            let n = size(v, 0)?;
            if n > HISTORY_BYTES_LIMIT {
                return Err("must be at most 1gb".to_string());
            }
            c.history_bytes_max = n;
            Ok(())
        },
    },
    Setting {
        name: "list-compress-depth",
        alias: "",
        placeholder: "N",
        help: "Accepted without effect: lists are not compressed",
        change: Change::Running,
        get: |c| c.list_compress_depth.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u32).map(|n| c.list_compress_depth = n),
    },
    Setting {
        name: "list-max-listpack-size",
        alias: "list-max-ziplist-size",
        placeholder: "N",
        help: "Most elements of a list stored as one value, or -1 to -5 for at most 4 KiB to 64 KiB; in a longer one, \
               a change costs only its own size",
        change: Change::Running,
        get: |c| c.list_packed_max.to_string(),
        set: |c, v| number(v, i32::MIN.into(), i32::MAX.into()).map(|n| c.list_packed_max = n),
    },
    Setting {
        name: "set-max-intset-entries",
        alias: "",
        placeholder: "N",
        help: "Most members of an all-integer set stored as one value; in a longer one, a change costs only its own \
               size",
        change: Change::Running,
        get: |c| c.set_packed_ints_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.set_packed_ints_max = n),
    },
    Setting {
        name: "set-max-listpack-entries",
        alias: "",
        placeholder: "N",
        help: "Most members of any other set stored as one value",
        change: Change::Running,
        get: |c| c.set_packed_members_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.set_packed_members_max = n),
    },
    Setting {
        name: "set-max-listpack-value",
        alias: "",
        placeholder: "SIZE",
        help: "Longest member of such a set",
        change: Change::Running,
        get: |c| c.set_packed_len_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.set_packed_len_max = n),
    },
    Setting {
        name: "string-max-plain-value",
        alias: "",
        placeholder: "SIZE",
        help: "Longest string rewritten as a whole when a part changes; in a longer one, a change costs only its own \
               size",
        change: Change::Running,
        get: |c| c.text_plain_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.text_plain_max = n),
    },
    Setting {
        name: "zset-max-listpack-entries",
        alias: "zset-max-ziplist-entries",
        placeholder: "N",
        help: "Most members of a sorted set stored as one value; in a longer one, a change costs only its own size",
        change: Change::Running,
        get: |c| c.scored_packed_members_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.scored_packed_members_max = n),
    },
    Setting {
        name: "zset-max-listpack-value",
        alias: "zset-max-ziplist-value",
        placeholder: "SIZE",
        help: "Longest member of a sorted set stored as one value",
        change: Change::Running,
        get: |c| c.scored_packed_len_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.scored_packed_len_max = n),
    },
];

/// Together with the longest value, this must stay below the 4 GiB that the store can hold for one key.
const HISTORY_BYTES_LIMIT: usize = 1 << 30;
