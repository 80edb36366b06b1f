//! Facts about a server's process from the kernel: its processor time, and the process that listens on an
//! address.

use std::collections::BTreeMap;
use std::fs;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::address::Endpoint;

/// The processor time of a process at one moment.
pub struct CpuTime {
    /// Nanoseconds of each thread.
    threads: BTreeMap<u32, u64>,
    /// User and system time of the entire process, in clock ticks.
    ticks: u64,
}

impl CpuTime {
    /// The current processor time of a process. The time of sleeping threads is exact to the nanosecond, that of
    /// running threads to the kernel's last tick.
    pub fn of(pid: u32) -> Result<Self> {
        let folder = format!("/proc/{pid}/task");
        let mut threads = BTreeMap::new();
        let tasks = fs::read_dir(&folder).with_context(|| format!("no process {pid}"))?;
        for task in tasks {
            let name = task?.file_name();
            let thread = name.to_str().and_then(|name| name.parse().ok());
            let thread: u32 = thread.with_context(|| format!("{folder} has {name:?}"))?;
            // A thread may end after it was listed, and the file is missing in some kernels.
            if let Ok(text) = fs::read_to_string(format!("{folder}/{thread}/schedstat")) {
                let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
                threads.insert(thread, nanoseconds.with_context(|| format!("schedstat {text:?}"))?);
            }
        }
        Ok(CpuTime { threads, ticks: ticks(pid)? })
    }

    /// The processor time used since an earlier moment.
    pub fn since(&self, earlier: &CpuTime) -> Duration {
        let taken = |(thread, nanoseconds): (&u32, &u64)| {
            nanoseconds - earlier.threads.get(thread).unwrap_or(&0)
        };
        let seen = Duration::from_nanos(self.threads.iter().map(taken).sum());
        let ended = earlier.threads.keys().any(|thread| !self.threads.contains_key(thread));
        if !ended && !self.threads.is_empty() {
            return seen;
        }
        // Only the process's ticks, which are coarse, include the time of ended threads.
        let ticks = self.ticks.saturating_sub(earlier.ticks);
        let second = rustix::param::clock_ticks_per_second();
        seen.max(Duration::from_secs_f64(ticks as f64 / second as f64))
    }
}

fn ticks(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in brackets, may contain spaces; utime and stime are the 12th and 13th word after it.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let words: Vec<&str> = behind.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    number(11).zip(number(12)).map(|(user, system)| user + system).context("odd /proc/PID/stat")
}

/// The process that listens on an endpoint of this machine, if the kernel permits us to see it.
pub fn listener(endpoint: &Endpoint) -> Option<u32> {
    let inode = match endpoint {
        Endpoint::Tcp(endpoint) => {
            let address = endpoint.to_socket_addrs().ok()?.next()?;
            let local = address.ip().is_loopback() || address.ip().is_unspecified();
            tcp_inode(local.then_some(address.port())?)?
        }
        Endpoint::Unix(path) => unix_inode(path)?,
    };
    let wanted = format!("socket:[{inode}]");
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|file| file == Path::new(&wanted))
    };
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(holds)
}

fn tcp_inode(port: u16) -> Option<String> {
    const LISTENS: &str = "0A";
    let port = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).ok());
    tables.iter().flatten().flat_map(|table| table.lines()).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let listens = words.get(1)?.ends_with(&port) && *words.get(3)? == LISTENS;
        if listens { words.get(9).map(|&inode| inode.to_owned()) } else { None }
    })
}

fn unix_inode(path: &Path) -> Option<String> {
    const ACCEPTS: &str = "00010000";
    let table = fs::read_to_string("/proc/net/unix").ok()?;
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let listens = *words.get(3)? == ACCEPTS && Path::new(words.get(7)?) == path;
        if listens { words.get(6).map(|&inode| inode.to_owned()) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_process_is_found_by_where_it_listens() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Tcp(tcp.local_addr().unwrap().to_string());
        assert_eq!(listener(&endpoint), Some(std::process::id()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let unix = UnixListener::bind(&path).unwrap();
        assert_eq!(listener(&Endpoint::Unix(path.clone())), Some(std::process::id()));
        drop((tcp, unix));
        assert_eq!(listener(&Endpoint::Unix(path)), None);
    }

    #[test]
    fn processor_time_includes_all_threads() {
        let me = std::process::id();
        let before = CpuTime::of(me).unwrap();
        let work = |share: Duration| {
            // By the thread's own clock: on a busy machine it may take far longer than that.
            let clock = || {
                Duration::try_from(rustix::time::clock_gettime(
                    rustix::time::ClockId::ThreadCPUTime,
                ))
            };
            let start = clock().unwrap();
            while clock().unwrap() - start < share {
                std::hint::black_box(Instant::now());
            }
        };
        let share = Duration::from_millis(50);
        let (done, is_done) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            work(share);
            done.send(()).unwrap();
            // Still there when the time is taken.
            std::thread::park();
        });
        work(share);
        is_done.recv().unwrap();
        let taken = CpuTime::of(me).unwrap().since(&before);
        other.thread().unpark();
        other.join().unwrap();
        // Either thread may lack a tick, which is 10 ms at most; one alone would not be enough.
        assert!(taken >= 2 * share - Duration::from_millis(25), "{taken:?}");
    }

    #[test]
    fn the_time_of_ended_threads_is_not_lost() {
        let earlier = CpuTime { threads: BTreeMap::from([(1, 5), (2, 7)]), ticks: 100 };
        let later = CpuTime { threads: BTreeMap::from([(1, 6), (3, 9)]), ticks: 300 };
        let second = rustix::param::clock_ticks_per_second();
        let ticks = later.since(&earlier).as_secs_f64() * second as f64;
        assert!((ticks - 200.0).abs() < 1e-6, "{ticks}");
        let later = CpuTime { threads: BTreeMap::from([(1, 6), (2, 9), (3, 4)]), ticks: 300 };
        assert_eq!(later.since(&earlier), Duration::from_nanos(1 + 2 + 4));
        // Too short for a tick: a lower bound is visible.
        let later = CpuTime { threads: BTreeMap::from([(1, 6), (3, 9)]), ticks: 100 };
        assert_eq!(later.since(&earlier), Duration::from_nanos(1 + 9));
    }
}
