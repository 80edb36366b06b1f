//! The machine of a measurement: its properties, the memory of processes, and pinning to cores.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The circumstances of a figure besides the code.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Main memory in GiB.
    pub memory_gib: f64,
    /// The kernel's release.
    pub kernel: String,
    /// The setting of transparent huge pages.
    pub huge_pages: String,
    /// The compiler.
    pub rustc: &'static str,
    /// The commit that this tool was built from.
    pub commit: &'static str,
    /// The cargo profile, `release` for figures that count.
    pub profile: &'static str,
}

impl Machine {
    /// Reads the kernel's description of this machine; missing facts stay "unknown".
    pub fn here() -> Self {
        let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into());
        let kib: f64 = field("/proc/meminfo", "MemTotal")
            .and_then(|value| value.trim_end_matches(" kB").parse().ok())
            .unwrap_or_default();
        Machine {
            cpu,
            cores: cores().len(),
            memory_gib: (kib / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            kernel: line("/proc/sys/kernel/osrelease"),
            huge_pages: huge_pages(),
            rustc: env!("BENCH_RUSTC"),
            commit: env!("BENCH_COMMIT"),
            profile: env!("BENCH_PROFILE"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "machine: {}, {} cores, {} GiB", self.cpu, self.cores, self.memory_gib)?;
        writeln!(f, "kernel: {}, transparent huge pages: {}", self.kernel, self.huge_pages)?;
        writeln!(f, "built by: {}, {} profile, commit {}", self.rustc, self.profile, self.commit)
    }
}

/// The environment variable with glibc's settings, then the name of the setting for huge pages.
const TUNABLES: &str = "GLIBC_TUNABLES";
const TUNABLE: &str = "glibc.malloc.hugetlb";

/// Makes the C library request huge pages, as our engines do, so that other maps have them too. Restarts the
/// process if the setting was absent at its start.
pub fn huge_pages_for_all() -> Result<()> {
    let current = std::env::var(TUNABLES).unwrap_or_default();
    if current.contains(TUNABLE) || cfg!(not(target_env = "gnu")) {
        return Ok(());
    }
    let tunables = format!("{TUNABLE}=1{}{current}", if current.is_empty() { "" } else { ":" });
    let this = std::env::current_exe().context("this program's file is unknown")?;
    let mut restarted = Command::new(this);
    let refusal = restarted.args(std::env::args_os().skip(1)).env(TUNABLES, tunables).exec();
    Err(refusal).context("cannot restart with huge pages")
}

/// The cores that this process may run on, in ascending order.
pub fn cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// Pins the calling thread to the usable core at `index`, modulo their number.
pub fn pin(index: usize) -> Result<()> {
    pin_to(index..index + 1)
}

/// Pins the calling thread, and threads that it starts later, to the usable cores at `indexes`, modulo their
/// number.
pub fn pin_to(indexes: Range<usize>) -> Result<()> {
    let cores = cores();
    let mut set = CpuSet::new();
    for index in indexes {
        set.set(*cores.get(index % cores.len().max(1)).context("no core to pin to")?);
    }
    sched_setaffinity(None, &set).context("cannot pin a thread")
}

/// The memory that is available without swapping, in bytes.
pub fn memory_available() -> Result<u64> {
    let kib = field("/proc/meminfo", "MemAvailable").context("the kernel does not say")?;
    let kib: u64 = kib.trim_end_matches(" kB").parse().with_context(|| format!("it says {kib}"))?;
    Ok(kib * 1024)
}

/// The processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The memory that this process has in use, in bytes.
pub fn resident() -> Result<u64> {
    resident_at("/proc/self/statm")
}

/// The peak of this process's resident memory, in bytes.
pub fn resident_peak() -> Result<u64> {
    peak_at("/proc/self/status")
}

/// The peak of another process's resident memory since its start or the last [`reset_peak_of`], in bytes.
pub fn resident_peak_of(pid: u32) -> Result<u64> {
    peak_at(&format!("/proc/{pid}/status"))
}

fn peak_at(path: &str) -> Result<u64> {
    let kib = field(path, "VmHWM").context("the kernel counts no peak memory")?;
    let kib: u64 = kib.trim_end_matches(" kB").parse().with_context(|| format!("VmHWM {kib}"))?;
    Ok(kib * 1024)
}

/// Resets the peak of another process to its current memory.
pub fn reset_peak_of(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
}

/// The memory that another process has in use, in bytes.
pub fn resident_of(pid: u32) -> Result<u64> {
    resident_at(&format!("/proc/{pid}/statm"))
}

/// The memory that a process and the children of its main thread have in use, in bytes. Pages that they share, as after
/// a fork, count once (`Pss`). The kernel walks all their pages for it, at which they cannot map or unmap any.
pub fn memory_of_family(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let share = |pid: &str| {
        let value = field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")?;
        value.trim_end_matches(" kB").trim().parse::<u64>().ok()
    };
    let own =
        share(&pid.to_string()).context("the kernel does not tell the memory of a process")?;
    // A child that has ended meanwhile has no memory.
    Ok((own + children.split_whitespace().filter_map(share).sum::<u64>()) * 1024)
}

fn resident_at(path: &str) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let pages: u64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .with_context(|| format!("{path} says {text:?}"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// When the kernel gives huge pages, and whether the C library requests them.
fn huge_pages() -> String {
    let kernel = chosen(&line("/sys/kernel/mm/transparent_hugepage/enabled"));
    let asks = std::env::var(TUNABLES).is_ok_and(|current| current.contains(TUNABLE));
    if asks { format!("{kernel}, asked for by malloc too") } else { kernel }
}

fn line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|_| "unknown".into());
    text.trim().to_owned()
}

/// The word in brackets, by which the kernel marks the current setting.
fn chosen(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(word, _)| word).to_owned()
}

/// The value of the first `name: value` line of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim_start_matches([' ', '\t', ':']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_in_force_is_the_bracketed_one() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("unknown"), "unknown");
    }

    #[test]
    fn memory_in_use_follows_touched_pages() {
        let before = resident().unwrap();
        // Far more than the concurrent tests may free meanwhile.
        let block = std::hint::black_box(vec![1_u8; 512 << 20]);
        let after = resident_of(std::process::id()).unwrap();
        let family = memory_of_family(std::process::id()).unwrap();
        assert!(family >= 256 << 20, "{family}");
        assert!(after >= before + (256 << 20), "{before} to {after} with {} more", block.len());
    }

    #[test]
    fn a_pinned_thread_has_one_core() {
        let seen = std::thread::spawn(|| pin(0).map(|()| cores())).join().unwrap().unwrap();
        assert_eq!(seen, [cores()[0]]);
    }
}
