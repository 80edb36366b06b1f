//! Keeps the process within `maxmemory`: compares the memory of all parts, and of the process, with the
//! limit, and makes the parts take less.
//!
//! ```text
//!   items, table, long values    the index counts by itself
//!   buffers, lists, scripts, ... are added up here          --> the store's limit: writes evict, or are refused
//!   the process beyond all that  is seen by the kernel alone
//! ```
//! Memory of the process that no part counts (kept by its allocator, or taken by a running script) counts
//! as used, too. It is the growth of resident anonymous memory since the server was empty, minus the memory
//! held for counted parts. It can be measured only if the process belongs to the server alone
//! ([`Config::owns_process`]).
//!
//! Free memory between items is treated separately: evictions add to it until compaction has moved items
//! together. Compaction must keep it below a bound. If the process stays above that bound for more than
//! `PATIENCE` ticks, a growing part of the free memory counts, until evictions have freed enough.
//!
//! The thread checks every [`LOOK`] if there is a limit, and does nothing more while the process has hardly
//! changed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hotring_store::{EvictionPolicy, Origin, Session};

use super::background::compact;
use hotring_commands::host::clock;
use hotring_commands::settings::config::Config;
use hotring_commands::settings::config::memory::{SMALL, WASTE_COUNTED};
use hotring_commands::state::notify;
use hotring_commands::state::server::Server;

/// The name of the thread and of its session.
pub(crate) const THREAD: &str = "hotring-memory";

/// Time between two checks of the process, and the longest between two checks of all parts.
const LOOK: Duration = Duration::from_millis(5);
const TICK: Duration = Duration::from_millis(100);
/// Time between two checks without a limit: what is counted is only shown.
const UNLIMITED: Duration = Duration::from_secs(1);
/// A change of the process by up to 1/`CHANGE_PARTS` of `maxmemory` is ignored.
const CHANGE_PARTS: u64 = 256;
/// Time limit for the evictions of a check.
const EVICT_MAX: Duration = Duration::from_millis(20);
/// Time limit of compaction per check while the process exceeds its bound.
const MOVE_MAX: Duration = Duration::from_millis(5);
/// The same while the process exceeds its bound by more than 1/`MUCH_PARTS` of the limit.
const MOVE_MUCH: Duration = Duration::from_millis(40);
const MUCH_PARTS: u64 = 16;

/// Free memory between items that `counted_waste` leaves out: 1/`WASTE_SPARED` of `maxmemory`, plus a chunk.
const WASTE_SPARED: u64 = 100;
const CHUNK: u64 = 2 << 20;
/// After more than `PATIENCE` ticks above the bound, each tick raises the memory that counts by up to
/// 1/`RAISE_PARTS` of `maxmemory`, to half of `maxmemory` at most.
const PATIENCE: u32 = 3;
const RAISE_PARTS: u64 = 50;
/// Unused memory that the allocator may keep, plus 1/`KEPT_PARTS` of the limit: less is not worth a walk
/// over its complete heap.
const KEPT: u64 = 1 << 20;
const KEPT_PARTS: u64 = 128;
/// Time to the next trim if the last one left much. It doubles while a trim returns little.
const AGAIN: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(64);

/// The permitted excess of the process over the limit at rest.
fn promised(max: u64) -> u64 {
    max / WASTE_COUNTED + CHUNK
}

/// Runs until the server stops.
pub(crate) fn run(server: &Server) {
    let _ = server.tasks.bound.thread.set(std::thread::current());
    let mut store = server.store.session_named(THREAD);
    let mut guard = Guard::new(server);
    while !server.process.is_stopping() {
        guard.check(server, &mut store);
        let has_limit = server.settings.config().memory_max != 0;
        std::thread::park_timeout(if has_limit { LOOK } else { UNLIMITED });
    }
}

struct Guard {
    process: Option<Process>,
    /// The growth of the process at the last check of all parts, in bytes.
    resident: u64,
    is_over: bool,
    checked_at: Instant,
    raise: Raise,
    trim: Trim,
}

impl Guard {
    fn new(server: &Server) -> Self {
        let counted = held(server, parts(server));
        let process =
            server.settings.config().owns_process.then(|| Process::open(counted)).flatten();
        let (raise, trim) = (Raise::default(), Trim::default());
        Guard { process, resident: 0, is_over: false, checked_at: clock::monotonic(), raise, trim }
    }

    fn check(&mut self, server: &Server, store: &mut Session) {
        let config = server.settings.config();
        let max = if config.memory_max == 0 { u64::MAX } else { config.memory_max as u64 };
        let resident = self.process.as_ref().map(Process::grown);
        let is_tick = self.checked_at.elapsed() >= TICK;
        let changed = resident.unwrap_or(0).abs_diff(self.resident) > max / CHANGE_PARTS;
        if !is_tick && !changed && !self.is_over {
            return;
        }
        if is_tick {
            self.checked_at = clock::monotonic();
        }
        self.resident = resident.unwrap_or(0);
        let parts = parts(server);
        let held = held(server, parts);
        let unexplained = match resident {
            Some(resident) if max != u64::MAX => {
                let process = &self.process;
                self.trim.run(clock::monotonic(), resident.saturating_sub(held), max, || {
                    hotring_store::index::trim_heap();
                    process.as_ref().map_or(0, Process::grown).saturating_sub(held)
                })
            }
            _ => 0,
        };
        let evicts = config.eviction.policy != EvictionPolicy::NoEviction;
        let index = server.store.stats().index;
        server.tasks.bound.note_used(index.used_bytes());
        let counted = if evicts { counted_waste(&index) } else { 0 };
        let over = resident.unwrap_or(held).saturating_sub(max.saturating_add(promised(max)));
        self.is_over = over > 0;
        if is_tick {
            self.raise.tick(if evicts && max >= SMALL { over } else { 0 }, max);
        }
        let waste = counted + self.raise.bytes;
        // ORDERING: Relaxed, figures.
        server.tasks.bound.unexplained.store(unexplained, Ordering::Relaxed);
        server.tasks.bound.waste.store(waste, Ordering::Relaxed);
        server.store.set_external_memory(parts + unexplained + waste);
        close_greediest(server, &config);
        // Items evicted before loading has finished would come back.
        if !server.persist.loading.is_on() && !server.replication.is_replica() {
            evict(server, store, &config);
        }
        if over > 0 && max != u64::MAX {
            let time = if over > max / MUCH_PARTS { MOVE_MUCH } else { MOVE_MAX };
            compact(store, clock::monotonic() + time);
        }
        store.collect();
    }
}

/// Bytes of the parts that the index does not count by itself.
fn parts(server: &Server) -> u64 {
    let figures = server.store.stats();
    let lists = server.clients.memory_outside_store() + server.scripts.counts().1;
    let tables = server.push.tracking.counts().table.memory + server.scripts.interpreters();
    let log = server.persist.durability.stream().map_or(0, |log| log.unwritten());
    (lists + tables + figures.eviction_bytes) as u64 + figures.expiry_bytes + log
}

/// Bytes held for counted parts.
fn held(server: &Server, parts: u64) -> u64 {
    let index = server.store.stats().index;
    index.held_bytes + index.table_bytes + parts
}

/// The resident memory of the process, as the kernel reports it.
struct Process {
    statm: File,
    /// Resident bytes at the start that no part counts.
    base: u64,
}

impl Process {
    /// `None` if the kernel does not report it.
    fn open(counted: u64) -> Option<Self> {
        let mut process = Process { statm: File::open("/proc/self/statm").ok()?, base: 0 };
        process.base = process.resident()?.saturating_sub(counted);
        Some(process)
    }

    /// Its resident memory, except mapped files.
    fn resident(&self) -> Option<u64> {
        let mut text = [0; 128];
        let len = self.statm.read_at(&mut text, 0).ok()?;
        let mut fields = std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace().skip(1);
        let mut pages = || fields.next()?.parse::<u64>().ok();
        let (resident, of_files) = (pages()?, pages()?);
        Some(resident.saturating_sub(of_files) * rustix::param::page_size() as u64)
    }

    /// Resident bytes beyond `base`: 0 if the kernel does not report them.
    fn grown(&self) -> u64 {
        self.resident().unwrap_or(0).saturating_sub(self.base)
    }
}

/// Makes the allocator return unused memory to the system once there may be enough of it.
#[derive(Default)]
struct Trim {
    /// The unexplained memory after the last trim. A small increase must not cause another one.
    left: u64,
    /// When to try again although it has not increased: what was removed counts no longer, but is freed in steps, and
    /// the last trim may have come before the last step.
    again: Option<Instant>,
    /// The time from the last trim to that one.
    pause: Duration,
}

impl Trim {
    /// Returns the unexplained memory afterwards.
    fn run(
        &mut self,
        now: Instant,
        unexplained: u64,
        max: u64,
        mut trim: impl FnMut() -> u64,
    ) -> u64 {
        let kept = max / KEPT_PARTS + KEPT;
        self.left = self.left.min(unexplained);
        let is_again = unexplained > kept && self.again.is_some_and(|again| now >= again);
        if unexplained <= self.left + kept && !is_again {
            return unexplained;
        }
        self.left = trim();
        self.pause = match is_again && self.left + kept > unexplained {
            true => (2 * self.pause).min(AGAIN_MAX),
            false => AGAIN,
        };
        self.again = Some(now + self.pause);
        self.left
    }
}

/// Free memory between items that counts because compaction could not reclaim it.
#[derive(Default)]
struct Raise {
    bytes: u64,
    ticks: u32,
}

impl Raise {
    /// Raises the count if the process is `over` bytes above its limit.
    fn tick(&mut self, over: u64, max: u64) {
        let step = max / RAISE_PARTS;
        if over == 0 {
            self.ticks = 0;
            self.bytes = self.bytes.saturating_sub(step / 4);
            return;
        }
        self.ticks += 1;
        if self.ticks > PATIENCE {
            self.bytes = (self.bytes + over.min(step)).min(max / 2);
        }
    }
}

/// Free bytes between items that count as used, so that the process keeps to `maxmemory`. A small amount
/// does not count, because it would shrink small stores. A large amount does not count either: evictions
/// only add to it until compaction has moved items together, so it must not cause more of them. Without
/// eviction nothing counts, because a client that removes something must be able to use that memory at
/// once.
fn counted_waste(index: &hotring_store::index::Stats) -> u64 {
    let max = index.memory_max;
    if max == u64::MAX {
        return 0;
    }
    let waste = index.held_bytes.saturating_sub(index.bytes);
    waste.saturating_sub(max / WASTE_SPARED + CHUNK).min(max / WASTE_COUNTED)
}

/// Evicts while the store is above its limit, for example after the limit has been lowered.
fn evict(server: &Server, store: &mut Session, config: &Config) {
    let deadline = clock::monotonic() + EVICT_MAX;
    let origin = Origin { records_changes: config.notify.is_on(), ..Origin::default() };
    let ((), effects) = store.act_within(origin, |store| {
        while store.evict_some() && clock::monotonic() < deadline {}
        notify::notify_evicted(store, server, config);
    });
    // No reply waits for the log.
    drop(effects);
}

/// Closes the connections with the largest buffers until the others are within the limit.
fn close_greediest(server: &Server, config: &Config) {
    // Buffers may take half of the memory at most: otherwise nothing could be stored.
    let limits = [config.client_memory_max, config.memory_max / 2];
    let max = limits.into_iter().filter(|max| *max > 0).min().unwrap_or(0);
    if max == 0 || server.clients.buffers_memory() <= max {
        return;
    }
    let mut clients: Vec<_> =
        server.clients.all().into_iter().map(|client| (client.buffers_memory(), client)).collect();
    clients.sort_by_key(|(memory, _)| std::cmp::Reverse(*memory));
    // Measured again: a client must not be closed for replies that have been sent meanwhile.
    let mut total: usize = clients.iter().map(|(memory, _)| memory).sum();
    // ORDERING: Relaxed, a moment earlier or later does not matter.
    for (memory, client) in clients.into_iter().filter(|(_, c)| !c.no_evict.load(Ordering::Relaxed))
    {
        if total <= max {
            return;
        }
        tracing::warn!(
            client = client.id,
            peer = %client.peer,
            memory,
            "the buffers of all connections take more than maxmemory-clients: closing the one that \
             takes most"
        );
        server.observe.accepts.evicted.add(1);
        client.kill();
        total -= memory.min(total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_between_items_counts_within_bounds() {
        const MIB: u64 = 1 << 20;
        let stats = |memory_max, held_bytes, bytes| hotring_store::index::Stats {
            memory_max,
            held_bytes,
            bytes,
            ..Default::default()
        };
        let counted = |max, waste| counted_waste(&stats(max, MIB + waste, MIB));
        assert_eq!(counted(u64::MAX, 100 * MIB), 0, "without a limit");
        assert_eq!(counted(200 * MIB, 4 * MIB), 0, "a little");
        assert_eq!(counted(200 * MIB, 7 * MIB), 3 * MIB);
        assert_eq!(counted(200 * MIB, 100 * MIB), 200 * MIB / 32, "much");
        assert_eq!(counted_waste(&stats(MIB, 1, 2)), 0, "figures of different moments");
    }

    #[test]
    fn waste_that_compaction_cannot_free_counts_gradually() {
        const MAX: u64 = 100 << 20;
        let mut raise = Raise::default();
        (0..PATIENCE).for_each(|_| raise.tick(MAX, MAX));
        assert_eq!(raise.bytes, 0, "items are moved first");
        raise.tick(MAX, MAX);
        assert_eq!(raise.bytes, MAX / RAISE_PARTS);
        raise.tick(1000, MAX);
        assert_eq!(raise.bytes, MAX / RAISE_PARTS + 1000, "no more than is too much");
        (0..1000).for_each(|_| raise.tick(MAX, MAX));
        assert_eq!(raise.bytes, MAX / 2);
        (0..1000).for_each(|_| raise.tick(0, MAX));
        assert_eq!(raise.bytes, 0);
    }

    /// The memory of a long container that was removed stayed in the process, and counted as used for ever.
    #[test]
    fn memory_that_is_freed_in_steps_is_returned() {
        const MIB: u64 = 1 << 20;
        const MAX: u64 = 128 * MIB;
        let (mut trim, start) = (Trim::default(), clock::monotonic());
        let mut run = |after: Duration, unexplained, left| {
            let mut trims = 0;
            let found = trim.run(start + after, unexplained, MAX, || {
                trims += 1;
                left
            });
            assert_eq!(found, if trims > 0 { left } else { unexplained });
            trims
        };
        assert_eq!(run(Duration::ZERO, 2 * MIB, 0), 0, "a little");
        assert_eq!(run(Duration::ZERO, 100 * MIB, 99 * MIB), 1, "nothing is free yet");
        assert_eq!(run(AGAIN / 2, 100 * MIB, 0), 0, "too early");
        assert_eq!(run(AGAIN, 99 * MIB, 98 * MIB), 1, "the next try");
        assert_eq!(run(2 * AGAIN, 98 * MIB, 0), 0, "the pause has doubled");
        assert_eq!(run(3 * AGAIN, 98 * MIB, 0), 1);
        assert_eq!(run(1000 * AGAIN, MIB, 0), 0, "nothing is left");
    }

    #[test]
    fn all_parts_count() {
        use hotring_commands::state::server::Parts;
        use hotring_store::Options;
        let server = Server::new(Parts::unconnected(Options::default(), Config::default()));
        let before = parts(&server);
        let client = server.clients.enter("peer".into(), "local".into(), 0);
        client.deliver(0, |w| w.bulk(&[7; 10_000]));
        assert!(parts(&server) >= before + 10_000, "messages");
        let before = parts(&server);
        client.names_memory.store(10_000, Ordering::Relaxed);
        assert_eq!(parts(&server), before + 10_000, "names");
        let before = parts(&server);
        let running = server.scripts.show();
        running.take_note(10_000);
        assert_eq!(parts(&server), before + 10_000, "interpreters");
        drop(running);
        assert_eq!(parts(&server), before);
    }

    #[test]
    fn memory_that_nothing_counts_is_seen_in_the_process() {
        // Other tests of this process may free memory in the same moment, and more than there was at an earlier start.
        let is_seen = || {
            let process = Process::open(0).expect("Linux tells");
            let before = process.grown();
            let block = std::hint::black_box(vec![7u8; 64 << 20]);
            process.grown() >= before + (60 << 20) && !block.is_empty()
        };
        assert!((0..10).any(|_| is_seen()));
    }
}
