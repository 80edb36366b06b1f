//! The figures behind INFO, the metrics and the status page, collected at one moment.

use std::sync::Arc;

use hotring_store::Stats;
use hotring_store::index::Stalled;

use crate::observe::counters::Totals;
use crate::settings::config::Config;
use crate::state::server::Server;

/// The state of the server at one moment.
pub struct Facts<'a> {
    pub server: &'a Server,
    /// The counters since the last CONFIG RESETSTAT.
    pub totals: Totals,
    pub store: Stats,
    /// The thread that prevents removed memory from being freed, if there is one.
    pub stalled: Option<Stalled>,
    pub config: Arc<Config>,
    /// Unix milliseconds.
    pub now: u64,
}

impl<'a> Facts<'a> {
    pub fn collect(server: &'a Server, now: u64) -> Self {
        Facts {
            server,
            totals: server.totals(),
            store: server.store.stats(),
            stalled: server.store.stalled(),
            config: server.settings.config(),
            now,
        }
    }

    /// Memory of items, table, connections and scripts: the figure that `maxmemory` limits.
    pub fn used_bytes(&self) -> u64 {
        self.store.index.used_bytes()
    }

    /// Memory of the present items.
    pub fn dataset_bytes(&self) -> u64 {
        // `bytes` counts removed items until their memory is free again.
        self.store.index.bytes.saturating_sub(self.store.index.limbo_bytes)
    }
}

/// Formats a size as Redis does: `1.50M`.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "K", "M", "G"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes}B") } else { format!("{size:.2}{}", UNITS[unit]) }
}

/// Resident memory of the process; 0 where the kernel does not report it.
pub fn rss_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Memory of the machine.
pub fn system_memory() -> u64 {
    let found = rustix::system::sysinfo();
    (found.totalram as u64).saturating_mul(found.mem_unit.into())
}

/// User and system CPU time of the process in seconds, where the kernel reports it.
pub fn cpu_seconds() -> Option<(f64, f64)> {
    seconds_in("/proc/self/stat")
}

/// As [`cpu_seconds`], for the first thread, which accepts connections and runs background tasks.
pub fn main_thread_seconds() -> Option<(f64, f64)> {
    let process = std::process::id();
    seconds_in(&format!("/proc/self/task/{process}/stat"))
}

fn seconds_in(path: &str) -> Option<(f64, f64)> {
    let text = std::fs::read_to_string(path).ok()?;
    // The second field is the program's name in parentheses and may hold spaces.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / per_second);
    Some((seconds()?, seconds()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_for_people() {
        assert_eq!(super::human(1023), "1023B");
        assert_eq!(super::human(1536), "1.50K");
        assert_eq!(super::human(3 << 30), "3.00G");
    }

    #[test]
    fn the_kernel_tells_memory_and_cpu_time() {
        assert!(super::rss_bytes() > 100_000);
        assert!(super::cpu_seconds().is_some());
    }
}
