//! Settings of the log and of snapshots.

use std::path::PathBuf;

use hotring_log::AckWhen;

use crate::settings::config::{OnError, SavePoint};
use crate::settings::setting::{Change, Setting};
use crate::settings::values::{boolean, number, one_of, size, yes_no};

pub(super) static DURABILITY: &[Setting] = &[
    Setting {
        name: "log",
        alias: "",
        placeholder: "WHEN",
        help: "Write-ahead log: off; async acknowledges a write at once; everysec once it is in the file, which is \
               synced every second; sync once it is on disk",
        change: Change::Running,
        get: |c| c.log.name().to_string(),
        set: |c, v| {
            c.log.is_on = !v.eq_ignore_ascii_case("off");
            c.log.when = match v.to_ascii_lowercase().as_str() {
                "off" => c.log.when,
                "async" => AckWhen::Handed,
                "everysec" => AckWhen::Written,
                "sync" => AckWhen::Synced,
                _ => return Err("must be 'off', 'async', 'everysec' or 'sync'".to_string()),
            };
            Ok(())
        },
    },
    Setting {
        name: "appendonly",
        alias: "",
        placeholder: "yes|no",
        help: "Redis's name for the log: yes turns it on as appendfsync says",
        change: Change::Running,
        get: |c| yes_no(c.log.is_on),
        set: |c, v| boolean(v).map(|on| c.log.is_on = on),
    },
    Setting {
        name: "appendfsync",
        alias: "",
        placeholder: "WHEN",
        help: "Redis's name for the log's mode: everysec, or always (sync); no counts as everysec",
        change: Change::Running,
        get: |c| if c.log.when == AckWhen::Synced { "always" } else { "everysec" }.to_string(),
        set: |c, v| {
            c.log.when = match one_of(v, &["everysec", "always", "no"])? {
                "always" => AckWhen::Synced,
                _ => AckWhen::Written,
            };
            Ok(())
        },
    },
    Setting {
        name: "data",
        alias: "dir",
        placeholder: "DIR",
        help: "Folder of the log and the snapshots; only one server may use it at a time",
        change: Change::Start,
        get: |c| c.log.data.display().to_string(),
        set: |c, v| {
            if v.is_empty() {
                return Err("must name a folder".to_string());
            }
            c.log.data = PathBuf::from(v);
            Ok(())
        },
    },
    Setting {
        name: "log-segment",
        alias: "",
        placeholder: "SIZE",
        help: "Size at which the log begins another file",
        change: Change::Start,
        get: |c| c.log.segment_len.to_string(),
        set: |c, v| size(v, 64 << 10).map(|n| c.log.segment_len = n),
    },
    Setting {
        name: "log-queue-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Most bytes that may wait to be written to the log; above it writes wait, reads do not",
        change: Change::Running,
        get: |c| c.log.queue_max.to_string(),
        set: |c, v| size(v, 64 << 10).map(|n| c.log.queue_max = n),
    },
    Setting {
        name: "log-on-error",
        alias: "",
        placeholder: "stop|continue",
        help: "While the log cannot be written: refuse writes (stop), or accept them in memory only (continue)",
        change: Change::Running,
        get: |c| if c.log.on_error == OnError::Stop { "stop" } else { "continue" }.to_string(),
        set: |c, v| {
            c.log.on_error = match v.to_ascii_lowercase().as_str() {
                "stop" => OnError::Stop,
                "continue" => OnError::Continue,
                _ => return Err("must be 'stop' or 'continue'".to_string()),
            };
            Ok(())
        },
    },
    Setting {
        name: "save",
        alias: "",
        placeholder: "SECONDS CHANGES ...",
        help: "Write a snapshot SECONDS after the last one if at least CHANGES were made; several pairs are allowed; \
               none: only on request. Needs a log",
        change: Change::Running,
        get: |c| {
            let points = c.log.snapshots.points.iter();
            let pair = |point: &SavePoint| format!("{} {}", point.seconds, point.changes);
            points.map(pair).collect::<Vec<_>>().join(" ")
        },
        set: |c, v| save_points(v).map(|points| c.log.snapshots.points = points),
    },
    Setting {
        name: "auto-aof-rewrite-percentage",
        alias: "",
        placeholder: "PERCENT",
        help: "Write a snapshot when the log since the last one exceeds this percentage of the snapshot; this bounds the \
               log; 0: never",
        change: Change::Running,
        get: |c| c.log.snapshots.log_percent.to_string(),
        set: |c, v| number(v, 0, 1_000_000).map(|n| c.log.snapshots.log_percent = n),
    },
    Setting {
        name: "auto-aof-rewrite-min-size",
        alias: "",
        placeholder: "SIZE",
        help: "Log size below which auto-aof-rewrite-percentage does not apply",
        change: Change::Running,
        get: |c| c.log.snapshots.log_min.to_string(),
        set: |c, v| size(v, 0).map(|n| c.log.snapshots.log_min = n),
    },
    Setting {
        name: "snapshot-rate",
        alias: "",
        placeholder: "SIZE",
        help: "Most bytes of a snapshot written per second; 0: no limit",
        change: Change::Running,
        get: |c| c.log.snapshots.rate.to_string(),
        set: |c, v| size(v, 0).map(|n| c.log.snapshots.rate = n),
    },
];

fn save_points(text: &str) -> Result<Vec<SavePoint>, String> {
    const WRONG: &str = "Invalid save parameters";
    let numbers = text.split_ascii_whitespace().map(str::parse);
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().map_err(|_| WRONG.to_string())?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() || pairs.iter().any(|[seconds, _]| *seconds == 0) {
        return Err(WRONG.to_string());
    }
    Ok(pairs.iter().map(|&[seconds, changes]| SavePoint { seconds, changes }).collect())
}
