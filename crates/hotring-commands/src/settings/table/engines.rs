//! Settings for research: engines other than the default one, and the parameters of the default engine that papers
//! tune. A server in production needs none of these settings.

use crate::settings::setting::{Change, Setting};
use crate::settings::values::{boolean, fraction, number, yes_no};

pub(super) static ENGINES: &[Setting] = &[
    Setting {
        name: "index",
        alias: "",
        placeholder: "ENGINE",
        help: "Index engine: hotring; lines, on x86-64; or one it is compared with: chaining, mercury or gcuckoo",
        change: Change::Start,
        get: |c| c.index.engine.to_string(),
        set: |c, v| v.parse().map(|engine| c.index.engine = engine),
    },
    Setting {
        name: "index-strategy",
        alias: "",
        placeholder: "STRATEGY",
        help: "How hotring finds hot keys: vote (auto), none, or with one head, as in the paper, random or sampling",
        change: Change::Start,
        get: |c| c.index.strategy.to_string(),
        set: |c, v| v.parse().map(|strategy| c.index.strategy = strategy),
    },
    Setting {
        name: "index-period",
        alias: "",
        placeholder: "R",
        help: "On average, one in R accesses of a thread may move a hint of hotring; 0: 5 for random and sampling, 32 \
               or more for vote",
        change: Change::Start,
        get: |c| c.index.period.to_string(),
        set: |c, v| number(v, 0, 1_000_000).map(|n| c.index.period = n),
    },
    Setting {
        name: "index-backoff",
        alias: "",
        placeholder: "yes|no",
        help: "Let sampling start fewer rounds where they bring no gain",
        change: Change::Start,
        get: |c| yes_no(c.index.backoff),
        set: |c, v| boolean(v).map(|on| c.index.backoff = on),
    },
    Setting {
        name: "index-rcu-counts",
        alias: "",
        placeholder: "item|predecessor",
        help: "Item for which sampling counts a replacing write: the item itself, or its predecessor as in the paper",
        change: Change::Start,
        get: |c| c.index.rcu_counts.to_string(),
        set: |c, v| v.parse().map(|counts| c.index.rcu_counts = counts),
    },
    Setting {
        name: "index-visits-max",
        alias: "",
        placeholder: "N",
        help: "Double hotring's table when lookups visit more items than this on average and it has index-items-min \
               items per slot; 0: 1.5",
        change: Change::Start,
        get: |c| c.index.visits_max.to_string(),
        set: |c, v| fraction(v, 1.0, 1000.0).map(|n| c.index.visits_max = n),
    },
    Setting {
        name: "index-items-min",
        alias: "",
        placeholder: "N",
        help: "Items per slot below which hotring's table never doubles; it halves below a quarter of that; 0: 6, or \
               2 with one head",
        change: Change::Start,
        get: |c| c.index.items_min.to_string(),
        set: |c, v| fraction(v, 1.0, 1000.0).map(|n| c.index.items_min = n),
    },
    Setting {
        name: "index-items-max",
        alias: "",
        placeholder: "N",
        help: "Items per slot above which hotring's table always doubles; 0: 8, or 4 with one head",
        change: Change::Start,
        get: |c| c.index.items_max.to_string(),
        set: |c, v| fraction(v, 1.0, 1000.0).map(|n| c.index.items_max = n),
    },
    Setting {
        name: "index-bytes-per-key",
        alias: "",
        placeholder: "BYTES",
        help: "Double the table of hotring or chaining when it has fewer bytes per key than this; 0: the engine's \
               default",
        change: Change::Start,
        get: |c| c.index.bytes_per_key.to_string(),
        set: |c, v| number(v, 0, 1024).map(|n| c.index.bytes_per_key = n),
    },
    Setting {
        name: "mercury-locking",
        alias: "",
        placeholder: "SCHEME",
        help: "Locks of mercury's buckets: test-and-set or mutex",
        change: Change::Start,
        get: |c| c.index.mercury_locking.to_string(),
        set: |c, v| v.parse().map(|locking| c.index.mercury_locking = locking),
    },
    Setting {
        name: "gcuckoo-slots",
        alias: "",
        placeholder: "1|4",
        help: "Slots per bucket of gcuckoo: 4, or 1 as in the paper",
        change: Change::Start,
        get: |c| c.index.gcuckoo_slots.to_string(),
        set: |c, v| match v {
            "1" | "4" => {
                c.index.gcuckoo_slots = if v == "1" { 1 } else { 4 };
                Ok(())
            }
            _ => Err("must be 1 or 4".to_string()),
        },
    },
    Setting {
        name: "gcuckoo-atomicity",
        alias: "",
        placeholder: "MODE",
        help: "How gcuckoo isolates operations: optimistic, lock, hle or rtm",
        change: Change::Start,
        get: |c| c.index.gcuckoo_atomicity.to_string(),
        set: |c, v| v.parse().map(|atomicity| c.index.gcuckoo_atomicity = atomicity),
    },
    Setting {
        name: "gcuckoo-cache",
        alias: "",
        placeholder: "N",
        help: "Entries of each thread's cache of recent keys in front of gcuckoo's tables, a power of two; 0: none",
        change: Change::Start,
        get: |c| c.index.gcuckoo_cache.to_string(),
        set: |c, v| match number(v, 0, 1 << 24)? {
            n if n == 0 || usize::is_power_of_two(n) => {
                c.index.gcuckoo_cache = n;
                Ok(())
            }
            _ => Err("must be a power of two, or 0".to_string()),
        },
    },
];
