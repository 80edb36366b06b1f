//! `/metrics`: the server's metrics in Prometheus's text format.
//!
//! The table `PARTS` defines each metric with its kind, its meaning and the source of its value. For a group of
//! counters it has only the position on the page: their names and meanings are in the table `COUNTED`. The page of
//! documentation and the check of dashboards use the same tables. Units are base units: seconds, bytes. Counters
//! start with the process, and CONFIG RESETSTAT must not reset them.

mod cluster;
mod replication;

use std::fmt::Write as _;

use hotring_commands::observe::by_command::CommandTotals;
use hotring_commands::observe::counters::{COUNTED, Group, Totals};
use hotring_commands::observe::histogram::{BOUNDS, Distribution, bound_ns};
use hotring_commands::state::cluster_facts::ClusterFacts;
use hotring_commands::state::facts::{Facts, cpu_seconds, rss_bytes};
use hotring_commands::state::snapshots::SnapshotStatus;

/// The content type of this format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The values that the metrics are computed from.
pub(super) struct Figures<'a> {
    pub facts: Facts<'a>,
    /// The figures of a node of a cluster.
    pub cluster: Option<ClusterFacts>,
    /// Counters since process start.
    pub totals: Totals,
    /// Only commands that have been used.
    pub commands: Vec<CommandFigures>,
}

impl Figures<'_> {
    fn snapshot(&self) -> Option<SnapshotStatus> {
        Some(self.facts.server.persist.durability.snapshots()?.status())
    }
}

/// The counters of one command.
pub(super) struct CommandFigures {
    pub name: &'static str,
    /// `redis` or `memcached`.
    pub protocol: &'static str,
    pub totals: CommandTotals,
}

impl CommandFigures {
    fn labels(&self) -> [(&'static str, &'static str); 2] {
        [("cmd", self.name), ("protocol", self.protocol)]
    }
}

/// The Prometheus type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
pub(super) struct Metric {
    /// Without the prefix `hotring_`.
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    write: Write,
}

type WriteFigures = fn(&Figures<'_>, &mut Lines<'_>);

/// The source of a metric's sample lines.
#[derive(Clone, Copy)]
enum Write {
    Figures(WriteFigures),
    /// From the counters with the metric's name.
    Counters,
}

/// A part of the page.
enum Part {
    One(Metric),
    /// All counters of a group.
    Counters(Group),
}

const fn counter(name: &'static str, help: &'static str, write: WriteFigures) -> Part {
    Part::One(Metric { name, kind: Kind::Counter, help, write: Write::Figures(write) })
}

const fn gauge(name: &'static str, help: &'static str, write: WriteFigures) -> Part {
    Part::One(Metric { name, kind: Kind::Gauge, help, write: Write::Figures(write) })
}

const fn histogram(name: &'static str, help: &'static str, write: WriteFigures) -> Part {
    Part::One(Metric { name, kind: Kind::Histogram, help, write: Write::Figures(write) })
}

static PARTS: &[Part] = &[
    gauge("build_info", "1, with the version and the index engine as labels", |f, l| {
        let engine = f.facts.server.store.engine();
        l.labelled(&[("version", env!("CARGO_PKG_VERSION")), ("engine", engine)], 1);
    }),
    gauge("start_time_seconds", "When the server started, in Unix seconds", |f, l| {
        l.value(format_args!("{:.3}", f.facts.server.process.started_at as f64 / 1000.0));
    }),
    gauge("threads", "I/O threads", |f, l| {
        l.value(f.facts.server.threads.len());
    }),
    counter("cpu_seconds_total", "CPU time of the process", |_, l| {
        if let Some((user, system)) = cpu_seconds() {
            l.labelled(&[("mode", "user")], user);
            l.labelled(&[("mode", "system")], system);
        }
    }),
    gauge("open_files", "Open file descriptors", |_, l| {
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            l.value(files.count());
        }
    }),
    Part::Counters(Group::Requests),
    counter("commands_total", "Commands that ran", |f, l| {
        f.commands.iter().for_each(|c| l.labelled(&c.labels(), c.totals.calls));
    }),
    counter("command_failures_total", "Commands that ran and answered with an error", |f, l| {
        f.commands.iter().for_each(|c| l.labelled(&c.labels(), c.totals.failed));
    }),
    counter(
        "command_rejections_total",
        "Commands refused before they ran, as for a wrong number of arguments or a missing permission",
        |f, l| f.commands.iter().for_each(|c| l.labelled(&c.labels(), c.totals.rejected)),
    ),
    histogram(
        "command_duration_seconds",
        "Time that commands took inside the server. Every call of a potentially slow command is \
               timed; of fast commands such as GET and SET, and of memcached's, those in one of about 256 \
               reads from a connection",
        |f, l| f.commands.iter().for_each(|c| l.histogram(&c.labels(), &c.totals.times)),
    ),
    Part::Counters(Group::Keys),
    Part::Counters(Group::Refusals),
    gauge("pinned_keys", "Keys that PIN protects from eviction", |f, l| {
        l.value(f.facts.store.pinned.keys);
    }),
    gauge("pinned_bytes", "Memory of pinned keys: their items and names", |f, l| {
        l.value(f.facts.store.pinned.bytes);
    }),
    histogram(
        "expire_lag_seconds",
        "Delay between a key's expiry time and its removal and expired event",
        |f, l| l.histogram(&[], &f.totals.expire_lag),
    ),
    gauge("db_keys", "Keys, including expired ones that are not yet removed", |f, l| {
        l.labelled(&[("db", "0")], f.facts.store.index.items);
    }),
    gauge("db_keys_expiring", "Keys with an expiry time", |f, l| {
        l.labelled(&[("db", "0")], f.facts.store.index.expiring);
    }),
    gauge("memory_used_bytes", "Memory of items, table, connections and scripts", |f, l| {
        l.value(f.facts.used_bytes());
    }),
    gauge("memory_dataset_bytes", "Memory of live items", |f, l| {
        l.value(f.facts.dataset_bytes());
    }),
    gauge("memory_table_bytes", "Memory of the index's table", |f, l| {
        l.value(f.facts.store.index.table_bytes);
    }),
    gauge("memory_expiry_bytes", "Memory of the timing wheel for expiry", |f, l| {
        l.value(f.facts.store.expiry_bytes);
    }),
    gauge(
        "memory_unreclaimed_bytes",
        "Memory of removed items that is not yet reclaimed",
        |f, l| {
            l.value(f.facts.store.index.limbo_bytes);
        },
    ),
    gauge("memory_unreclaimed_limit_bytes", "The setting unreclaimed-limit; 0 for none", |f, l| {
        l.value(f.facts.config.unreclaimed_max);
    }),
    gauge("memory_max_bytes", "The setting maxmemory; 0 for none", |f, l| {
        l.value(f.facts.config.memory_max);
    }),
    gauge("log_enabled", "1 if writes are logged", |f, l| {
        l.value(u8::from(f.facts.server.persist.durability.log().is_some()));
    }),
    gauge("log_failing", "1 while the log cannot be written", |f, l| {
        l.value(u8::from(f.facts.server.persist.durability.is_failing()));
    }),
    counter("log_records_total", "Records handed to the log since it was created", |f, l| {
        l.value(f.facts.server.persist.durability.log().map_or(0, |log| log.handed()));
    }),
    counter(
        "log_records_synced_total",
        "Records synced to disk, which a power cut cannot lose",
        |f, l| {
            l.value(f.facts.server.persist.durability.log().map_or(0, |log| log.synced()));
        },
    ),
    counter("log_syncs_total", "Syncs of the log since the start", |f, l| {
        l.value(f.facts.server.persist.durability.log().map_or(0, |log| log.syncs()));
    }),
    gauge("log_unwritten_bytes", "Bytes queued for the log", |f, l| {
        l.value(f.facts.server.persist.durability.log().map_or(0, |log| log.unwritten()));
    }),
    gauge("loading", "1 while the data on disk is being loaded", |f, l| {
        l.value(u8::from(f.facts.server.persist.loading.is_on()));
    }),
    gauge("snapshot_running", "1 while a snapshot is being written", |f, l| {
        l.value(u8::from(f.snapshot().is_some_and(|s| s.running.is_some())));
    }),
    gauge("snapshot_progress", "Progress of the running snapshot, from 0 to 1", |f, l| {
        l.value(f.snapshot().map_or(0.0, |s| s.progress));
    }),
    gauge("snapshot_failed", "1 if the last snapshot failed", |f, l| {
        l.value(u8::from(f.snapshot().is_some_and(|s| matches!(s.last, Some(Err(_))))));
    }),
    gauge("snapshot_seconds", "Duration of the last successful snapshot", |f, l| {
        let took = f.snapshot().and_then(|s| s.last?.ok());
        l.value(took.map_or(0.0, |took| took.as_secs_f64()));
    }),
    gauge(
        "snapshot_unix_seconds",
        "When the last snapshot was completed; 0 if none since the start",
        |f, l| {
            l.value(f.snapshot().and_then(|s| s.saved_at).unwrap_or(0) / 1000);
        },
    ),
    gauge("snapshot_bytes", "Size of the last snapshot", |f, l| {
        l.value(f.snapshot().map_or(0, |s| s.len));
    }),
    gauge("log_bytes", "Size of the log since the last snapshot", |f, l| {
        l.value(f.snapshot().map_or(0, |s| s.log_len));
    }),
    gauge("snapshot_changes", "Log records since the last snapshot", |f, l| {
        l.value(f.snapshot().map_or(0, |s| s.changes));
    }),
    gauge("memory_rss_bytes", "Resident memory of the process", |_, l| l.value(rss_bytes())),
    gauge(
        "stalled",
        "1 while a thread stuck in a command keeps memory from being reclaimed",
        |f, l| {
            l.value(u8::from(f.facts.stalled.is_some()));
        },
    ),
    Part::Counters(Group::Stalls),
    gauge("connected_clients", "Open connections", |f, l| {
        l.value(f.facts.server.clients.len());
    }),
    gauge("max_clients", "The setting maxclients", |f, l| l.value(f.facts.config.maxclients)),
    gauge(
        "blocked_clients",
        "Connections whose requests wait for a key, a pause or the like",
        |f, l| {
            l.value(f.facts.server.clients.blocked());
        },
    ),
    Part::Counters(Group::Accepts),
    Part::Counters(Group::Closes),
    Part::Counters(Group::Network),
    gauge("pubsub_channels", "Channels with subscribers", |f, l| {
        l.value(f.facts.server.push.pubsub.counts().channels);
    }),
    gauge("pubsub_patterns", "Patterns with subscribers", |f, l| {
        l.value(f.facts.server.push.pubsub.counts().patterns);
    }),
    gauge("slowlog_length", "Entries of the slow log", |f, l| {
        l.value(f.facts.server.observe.slowlog.len());
    }),
    gauge("index_slots", "Slots of the index's table", |f, l| l.value(f.facts.store.index.slots)),
    counter("index_lookups_sampled_total", "Lookups whose visits were counted", |f, l| {
        l.value(f.facts.store.index.lookups_sampled);
    }),
    counter("index_visits_sampled_total", "Items that these lookups visited", |f, l| {
        l.value(f.facts.store.index.visits_sampled);
    }),
    counter("index_head_moves_total", "Times a hint was pointed at a hot item", |f, l| {
        l.value(f.facts.store.index.head_moves);
    }),
    Part::Counters(Group::Damage),
    gauge("scrub_progress_ratio", "Progress of the last scrub, from 0 to 1", |f, l| {
        l.value(f.facts.server.tasks.scrubber.status().progress);
    }),
    gauge("scrub_damaged_items", "Damaged items found by the last scrub", |f, l| {
        l.value(f.facts.server.tasks.scrubber.status().counts.damaged);
    }),
];

/// All metrics in the order of the page.
fn metrics() -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for part in PARTS.iter().chain(replication::PARTS).chain(cluster::PARTS) {
        match part {
            Part::One(Metric { name, kind, help, write }) => {
                metrics.push(Metric { name, kind: *kind, help, write: *write });
            }
            Part::Counters(group) => {
                for counted in COUNTED.iter().filter(|counted| counted.group == *group) {
                    let (name, help) = counted.metric;
                    if metrics.iter().all(|metric| metric.name != name) {
                        let (kind, write) = (Kind::Counter, Write::Counters);
                        metrics.push(Metric { name, kind, help, write });
                    }
                }
            }
        }
    }
    metrics
}

fn counters(figures: &Figures<'_>, lines: &mut Lines<'_>) {
    let name = lines.name;
    for counted in COUNTED.iter().filter(|counted| counted.metric.0 == name) {
        lines.labelled(counted.labels, (counted.value)(&figures.totals));
    }
}

/// Renders the page.
pub(super) fn page(figures: &Figures<'_>) -> String {
    let mut text = String::new();
    for Metric { name, kind, help, write } in metrics() {
        push(&mut text, format_args!("# HELP hotring_{name} {help}\n"));
        push(&mut text, format_args!("# TYPE hotring_{name} {}\n", kind.name()));
        let mut lines = Lines { text: &mut text, name };
        match write {
            Write::Figures(write) => write(figures, &mut lines),
            Write::Counters => counters(figures, &mut lines),
        }
    }
    text
}

fn push(text: &mut String, content: std::fmt::Arguments<'_>) {
    text.write_fmt(content).expect("writing to a string cannot fail");
}

/// Writes the sample lines of one metric.
struct Lines<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Lines<'_> {
    fn value(&mut self, value: impl std::fmt::Display) {
        push(self.text, format_args!("hotring_{} {value}\n", self.name));
    }

    fn labelled(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.part("", labels, value);
    }

    /// Writes a sample line of a part of the metric. Label values must not contain a quote, a
    /// backslash or a line end.
    fn part(&mut self, part: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(n, v)| format!("{n}=\"{v}\"")).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        push(self.text, format_args!("hotring_{}{part}{labels} {value}\n", self.name));
    }

    fn histogram(&mut self, labels: &[(&str, &str)], times: &Distribution) {
        if times.count() == 0 {
            return;
        }
        let mut up_to = 0;
        for i in 0..BOUNDS {
            up_to += times.counts[i];
            let bound = bound_ns(i) as f64 / 1e9;
            self.bucket(labels, &bound.to_string(), up_to);
        }
        self.bucket(labels, "+Inf", times.count());
        self.part("_sum", labels, times.sum_ns as f64 / 1e9);
        self.part("_count", labels, times.count());
    }

    fn bucket(&mut self, labels: &[(&str, &str)], le: &str, count: u64) {
        self.part("_bucket", &[labels, &[("le", le)]].concat(), count);
    }
}

/// Renders the documentation page: every metric with its meaning.
pub fn markdown() -> String {
    let mut text = String::from(
        "| name | kind | what it says |\n\
         | --- | --- | --- |\n",
    );
    for Metric { name, kind, help, .. } in metrics() {
        push(&mut text, format_args!("| `hotring_{name}` | {} | {help} |\n", kind.name()));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use hotring_store::Options;

    use super::*;
    use hotring_commands::settings::config::Config;
    use hotring_commands::state::server::{Parts, Server};

    /// Regression test: the start time was once computed from the time of the request, so
    /// Prometheus saw a restart at every scrape.
    #[test]
    fn the_start_stays_where_it_was() {
        let server = Server::new(Parts::unconnected(Options::default(), Config::default()));
        let start = |now| {
            let facts = Facts::collect(&server, now);
            let page = page(&Figures {
                facts,
                cluster: None,
                totals: server.totals_since_start(),
                commands: Vec::new(),
            });
            let line = page.lines().find(|line| line.starts_with("hotring_start_time_seconds "));
            line.expect("it is there").to_string()
        };
        assert_eq!(start(server.process.started_at), start(server.process.started_at + 1_000));
    }

    #[test]
    fn every_counter_is_on_the_page() {
        let server = Server::new(Parts::unconnected(Options::default(), Config::default()));
        let mut totals = server.totals_since_start();
        totals.reads = 12_345;
        totals.protected = 678;
        let facts = Facts::collect(&server, server.process.started_at);
        let page = page(&Figures { facts, cluster: None, totals, commands: Vec::new() });
        for line in [
            "hotring_net_reads_total 12345",
            "hotring_connections_rejected_total{reason=\"maxclients\"} 0",
            "hotring_connections_rejected_total{reason=\"protected-mode\"} 678",
            "hotring_connections_closed_total{limit=\"maxmemory-clients\"} 0",
        ] {
            assert!(page.lines().any(|other| other == line), "{line}");
        }
        for counted in COUNTED {
            let line = format!("\nhotring_{}", counted.metric.0);
            let lines = page.matches(&format!("{line} ")).count()
                + page.matches(&format!("{line}{{")).count();
            let same = COUNTED.iter().filter(|other| other.metric.0 == counted.metric.0).count();
            assert_eq!(lines, same, "{line}");
        }
    }

    #[test]
    fn names_are_as_prometheus_wants_them() {
        let mut names = HashSet::new();
        for Metric { name, kind, help, .. } in metrics() {
            assert!(names.insert(name), "{name} twice");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            assert!(!help.contains(['\n', '\\', '|']), "{name}");
        }
    }
}
