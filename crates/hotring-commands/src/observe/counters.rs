//! The list of counters. One entry defines a counter, with its field, its sum over all threads, its reset, its line of
//! `INFO` and its metric.
//!
//! Each counter must be written by one thread only; readers sum the counters of all threads. Counters are atomics only
//! so that other threads may read them: the owner adds with a plain load and store, which cost no more than an ordinary
//! addition. No two threads write to the same cache line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::observe::by_command::{ByCommand, CommandTotals};
use crate::observe::error_kinds::ErrorKinds;
use crate::observe::histogram::Distribution;
use crate::table::COMMAND_IDS;

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call this: concurrent additions would be lost.
    #[inline]
    pub fn add(&self, n: u64) {
        // ORDERING: Relaxed, statistics only; no other memory is read through this value.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The current value.
    pub fn value(&self) -> u64 {
        // ORDERING: Relaxed, statistics only.
        self.0.load(Ordering::Relaxed)
    }
}

/// The section of the metrics page that a counter is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Requests,
    Keys,
    Refusals,
    Stalls,
    Accepts,
    Closes,
    Network,
    Cluster,
    Damage,
}

/// The presentation of a counter in INFO and the metrics.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub group: Group,
    /// The metric's name without the prefix `hotring_`, and its help. Counters with the same name differ in their
    /// labels.
    pub metric: (&'static str, &'static str),
    pub labels: &'static [(&'static str, &'static str)],
    /// The section of `INFO`, and the name there. Counters with the same name are added up.
    info: (&'static str, &'static str),
    pub value: fn(&Totals) -> u64,
}

impl Counted {
    const fn labelled(self, labels: &'static [(&'static str, &'static str)]) -> Self {
        Counted { labels, ..self }
    }

    /// Shown in the section `Stats`.
    const fn stat(self, name: &'static str) -> Self {
        self.info("Stats", name)
    }

    const fn info(self, section: &'static str, name: &'static str) -> Self {
        Counted { info: (section, name), ..self }
    }

    const fn of(self, value: fn(&Totals) -> u64) -> Self {
        Counted { value, ..self }
    }
}

const fn metric(group: Group, name: &'static str, help: &'static str) -> Counted {
    Counted { group, metric: (name, help), labels: &[], info: ("", ""), value: |_| 0 }
}

/// Makes the structs of counters, [`Totals`] and [`COUNTED`] from the list. `with` introduces further fields of a
/// struct. `sums` are counted elsewhere and only presented here.
macro_rules! counters {
    (
        $($(#[$about:meta])* struct $owner:ident {
            $($(#[$doc:meta])* $name:ident = $shown:expr;)*
        } with {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        })*
        sums {
            $($(#[$sum_doc:meta])* $sum:ident = $sum_shown:expr;)*
        }
    ) => {
        $(
            #[derive(Debug, Default)]
            $(#[$about])*
            pub struct $owner {
                $($(#[$doc])* pub $name: Counter,)*
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl $owner {
                /// Adds these counters to `totals`.
                pub(crate) fn add_to(&self, totals: &mut Totals) {
                    $(totals.$name += self.$name.value();)*
                }
            }
        )*

        /// The sum of the counters of all threads.
        #[derive(Clone, Debug, Default)]
        pub struct Totals {
            $($($(#[$doc])* pub $name: u64,)*)*
            $($(#[$sum_doc])* pub $sum: u64,)*
            /// The delays between expiry and removal of items.
            pub expire_lag: Distribution,
        }

        impl Totals {
            pub(crate) fn subtract(&mut self, base: &Totals) {
                $($(self.$name = self.$name.saturating_sub(base.$name);)*)*
                $(self.$sum = self.$sum.saturating_sub(base.$sum);)*
                self.expire_lag.subtract(&base.expire_lag);
            }
        }

        /// All counters.
        pub static COUNTED: &[Counted] = &[
            $($($shown.of(|totals| totals.$name),)*)*
            $($sum_shown.of(|totals| totals.$sum),)*
        ];
    };
}

/// The presentation of a counter of connections refused before they sent anything.
const fn rejected(labels: &'static [(&'static str, &'static str)]) -> Counted {
    let help = "Connections refused because of maxclients, or by protected mode";
    // Redis counts both as one.
    metric(Group::Accepts, "connections_rejected_total", help)
        .labelled(labels)
        .stat("rejected_connections")
}

/// The presentation of a counter of connections closed because of a limit.
const fn closed(labels: &'static [(&'static str, &'static str)]) -> Counted {
    metric(Group::Closes, "connections_closed_total", "Connections closed because of a limit")
        .labelled(labels)
}

/// The presentation of a counter of requests that a node of a cluster did not serve.
const fn misplaced(labels: &'static [(&'static str, &'static str)]) -> Counted {
    let help = "Requests that this node of a cluster did not serve, by answer";
    metric(Group::Cluster, "cluster_refusals_total", help).labelled(labels)
}

counters! {
    /// The counters of one thread. Aligned so that two threads' counters never share a cache line pair.
    #[repr(align(128))]
    struct Counters {
        /// Commands executed, failed ones included.
        commands = metric(
            Group::Requests,
            "requests_total",
            "Requests of both protocols, including refused ones",
        ).stat("total_commands_processed");
        /// Commands that answered with an error.
        errors = metric(
            Group::Keys,
            "error_replies_total",
            "Requests that were answered with an error",
        ).stat("total_error_replies");
        /// Keys that a read found.
        keyspace_hits = metric(Group::Keys, "keyspace_hits_total", "Lookups that found their key")
            .stat("keyspace_hits");
        /// Keys that a read did not find.
        keyspace_misses = metric(
            Group::Keys,
            "keyspace_misses_total",
            "Lookups that did not find their key",
        ).stat("keyspace_misses");
        /// Expired items that the expirer removed. Items that a command met and removed or replaced do not count: the
        /// index does not report them.
        expired_keys = metric(
            Group::Keys,
            "expired_keys_total",
            "Expired keys removed by the expiry thread, not by a command that met them",
        ).stat("expired_keys");
        /// Commands refused because `maxmemory` is reached.
        rejected_maxmemory = metric(
            Group::Refusals,
            "maxmemory_rejections_total",
            "Writes refused because maxmemory is reached",
        ).stat("rejected_maxmemory");
        /// Commands refused because removed memory waits for a stalled thread.
        rejected_stalled = metric(
            Group::Stalls,
            "stalled_rejections_total",
            "Writes refused because reclamation is stalled",
        ).stat("rejected_stalled");
        /// Connections closed because a request was too large.
        input_limit_closed = closed(&[("limit", "query-buffer")])
            .stat("client_query_buffer_limit_disconnections");
        /// Connections closed because too many bytes were unsent.
        output_limit_closed = closed(&[("limit", "output-buffer")])
            .stat("client_output_buffer_limit_disconnections");
        /// Bytes received from clients.
        input_bytes = metric(
            Group::Network,
            "net_input_bytes_total",
            "Bytes received from clients",
        ).stat("total_net_input_bytes");
        /// Bytes sent to clients.
        output_bytes = metric(Group::Network, "net_output_bytes_total", "Bytes sent to clients")
            .stat("total_net_output_bytes");
        /// Read system calls that brought data.
        reads = metric(Group::Network, "net_reads_total", "Read system calls that brought data")
            .stat("total_reads_processed");
        /// Write system calls.
        writes = metric(Group::Network, "net_writes_total", "Write system calls")
            .stat("total_writes_processed");
        /// Replies, each with those behind it that left together, that waited for in-sync replicas.
        replica_waits = metric(
            Group::Network,
            "replica_waits_total",
            "Groups of replies that waited for in-sync replicas, because they show writes",
        ).stat("replica_waits");
        /// The microseconds for which they waited.
        replica_wait_us = metric(
            Group::Network,
            "replica_wait_microseconds_total",
            "Microseconds for which groups of replies waited for in-sync replicas",
        ).stat("replica_wait_usec");
        /// Requests that were sent to another node of the cluster.
        moved = misplaced(&[("answer", "MOVED")]).info("Cluster", "cluster_moved_replies");
        /// Requests with keys in several slots.
        across_slots =
            misplaced(&[("answer", "CROSSSLOT")]).info("Cluster", "cluster_crossslot_replies");
        /// Requests whose slot no shard serves, or that this node may not answer.
        cluster_down =
            misplaced(&[("answer", "CLUSTERDOWN")]).info("Cluster", "cluster_clusterdown_replies");
        /// Commands that met a damaged item.
        damaged_reads = metric(
            Group::Damage,
            "damaged_reads_total",
            "Commands that met an item with a wrong checksum",
        ).info("Checksums", "damaged_reads");
    } with {
        /// The error replies of RESP by kind.
        error_kinds: ErrorKinds,
        /// The counters of each command, by ID.
        by_command: ByCommand<COMMAND_IDS>,
    }

    /// The counters of connections that the accepting thread writes.
    struct AcceptCounters {
        /// Connections accepted since the start.
        accepted = metric(
            Group::Accepts,
            "connections_received_total",
            "Connections that were accepted",
        ).stat("total_connections_received");
        /// Connections refused because of `maxclients`.
        rejected = rejected(&[("reason", "maxclients")]);
        /// Connections refused by protected mode.
        protected = rejected(&[("reason", "protected-mode")]);
        /// Connections closed because of `maxmemory-clients`.
        evicted = closed(&[("limit", "maxmemory-clients")]).info("Clients", "evicted_clients");
    } with {}

    sums {
        /// Keys that the store has evicted.
        evicted_keys = metric(
            Group::Keys,
            "evicted_keys_total",
            "Keys evicted to free memory",
        ).stat("evicted_keys");
    }
}

impl Counters {
    /// Counts a request that is answered with this error.
    #[cold]
    pub(crate) fn error(&self, error: &str) {
        self.errors.add(1);
        self.error_kinds.note(error);
    }

    /// Counts a request that this node of a cluster does not serve.
    #[cold]
    pub(crate) fn misplaced(&self, error: &str) {
        self.error(error);
        match error.split_once(' ').map(|(code, _)| code) {
            Some("MOVED") => self.moved.add(1),
            Some("CROSSSLOT") => self.across_slots.add(1),
            _ => self.cluster_down.add(1),
        }
    }
}

impl Totals {
    /// The lines of a section of `INFO`.
    pub(crate) fn info(&self, section: &str) -> Vec<(&'static str, u64)> {
        let mut lines: Vec<(&'static str, u64)> = Vec::new();
        for counted in COUNTED.iter().filter(|counted| counted.info.0 == section) {
            let (name, value) = (counted.info.1, (counted.value)(self));
            match lines.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += value,
                None => lines.push((name, value)),
            }
        }
        lines
    }
}

/// The values of the counters at the last CONFIG RESETSTAT.
#[derive(Debug, Default)]
pub(crate) struct Base {
    pub totals: Totals,
    /// The totals of each command, by ID; empty before the first reset.
    pub commands: Vec<CommandTotals>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(totals: &Totals, section: &str, name: &str) -> Option<u64> {
        totals.info(section).into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    #[test]
    fn counters_are_summed_shown_and_reset() {
        let (one, other, accepts) =
            (Counters::default(), Counters::default(), AcceptCounters::default());
        one.reads.add(3);
        other.reads.add(4);
        other.damaged_reads.add(5);
        accepts.rejected.add(10);
        accepts.protected.add(20);
        let sum = || {
            let mut totals = Totals::default();
            [&one, &other].into_iter().for_each(|counters| counters.add_to(&mut totals));
            accepts.add_to(&mut totals);
            totals
        };
        let mut totals = sum();
        assert_eq!(line(&totals, "Stats", "total_reads_processed"), Some(7));
        assert_eq!(line(&totals, "Stats", "rejected_connections"), Some(30));
        assert_eq!(line(&totals, "Checksums", "damaged_reads"), Some(5));
        assert_eq!(line(&totals, "Stats", "damaged_reads"), None);
        let base = sum();
        one.reads.add(100);
        totals = sum();
        totals.subtract(&base);
        assert_eq!(totals.reads, 100);
        let others = COUNTED.iter().map(|counted| (counted.value)(&totals)).sum::<u64>();
        assert_eq!(others, 100, "all but the reads are 0 again");
    }

    #[test]
    fn every_counter_has_a_line_of_info() {
        for counted in COUNTED {
            let (section, name) = counted.info;
            assert!(!section.is_empty() && !name.is_empty(), "{}", counted.metric.0);
        }
    }
}
