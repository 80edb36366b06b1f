//! Frees a thread from a lock in shared memory whose owner was killed.
//!
//! The provider `shm` of libfabric 1.17 has a spin lock in the memory of each endpoint, which whoever sends to it
//! takes. A process that is killed within these few instructions leaves it locked, and the next sender spins for ever.
//! What the lock protects is changed last by one store, so it is whole. Therefore a thread beside watches the calls: if
//! one takes very long and a lock of the memory that it may use is never seen free, it opens the lock.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::leftovers::FOLDER;

/// The version of the library whose memory is known here, and the version of the memory, its first byte.
pub const LIBRARY: (u32, u32) = (1, 17);
const MEMORY: u8 = 4;

/// Where the number of the owner's process and the lock are.
const OWNER_AT: usize = 4;
const LOCK_AT: usize = 24;

/// The lock while it is free. Otherwise it is 0 or less.
const FREE: i32 = 1;

/// A call that takes longer than this is stuck.
const CALL_MAX: Duration = Duration::from_millis(500);

/// So often a lock must be found locked, with pauses between.
const LOOKS: usize = 20;
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// What the thread beside knows.
#[derive(Debug, Default)]
pub struct Calls {
    /// Odd while a call runs.
    count: AtomicU64,
    is_over: AtomicBool,
    /// The memory that a call may use, by its name.
    memory: Mutex<Vec<(String, File)>>,
}

impl Calls {
    /// Runs a call. One thread does so.
    pub fn run<T>(&self, call: impl FnOnce() -> T) -> T {
        // ORDERING: Relaxed here and below: a count to be compared with itself, by which nothing is published.
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
        let result = call();
        self.count.store(count + 2, Ordering::Relaxed);
        result
    }

    /// Adds memory of an endpoint.
    pub fn add(&self, name: &str) {
        // Who may not write to it cannot have mapped it, either.
        let file = File::options().read(true).write(true).open(Path::new(FOLDER).join(name));
        if let Ok(file) = file {
            self.memory().push((name.to_string(), file));
        }
    }

    /// Removes memory of an endpoint.
    pub fn remove(&self, name: &str) {
        self.memory().retain(|(known, _)| known != name);
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Vec<(String, File)>> {
        // A list is whole after a panic, too.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut last = 0;
        // ORDERING: Relaxed: it is looked at again.
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::park_timeout(CALL_MAX);
            let count = self.count.load(Ordering::Relaxed);
            if count % 2 == 1 && count == last {
                self.memory().iter().for_each(|(_, file)| release(file));
            }
            last = count;
        }
    }
}

/// Opens the lock unless it is seen free.
fn release(file: &File) {
    for _ in 0..LOOKS {
        if !is_locked(file) {
            return;
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    // Without the memory there is nothing to open.
    let _ = file.write_all_at(&FREE.to_ne_bytes(), LOCK_AT as u64);
}

fn is_locked(file: &File) -> bool {
    let mut head = [0; LOCK_AT + 4];
    let is_known = file.read_exact_at(&mut head, 0).is_ok() && head[0] == MEMORY;
    let has_owner = head[OWNER_AT..OWNER_AT + 4] != [0; 4];
    let lock = head.last_chunk().map_or(FREE, |lock| i32::from_ne_bytes(*lock));
    is_known && has_owner && lock <= 0
}

/// The thread beside. It ends on drop.
#[derive(Debug)]
pub struct Guard {
    calls: Arc<Calls>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    /// Begins to watch.
    pub fn new(calls: &Arc<Calls>) -> std::io::Result<Guard> {
        let (calls, watched) = (calls.clone(), calls.clone());
        let thread = std::thread::Builder::new().name("fabric-guard".into());
        let thread = Some(thread.spawn(move || watched.watch())?);
        Ok(Guard { calls, thread })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // ORDERING: Relaxed: the thread is waited for.
        self.calls.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has no result.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Memory as the library makes it.
    fn memory(version: u8, lock: i32) -> (tempfile::NamedTempFile, Calls) {
        let mut head = vec![version, 0, 1, 0, 7, 0, 0, 0];
        head.resize(LOCK_AT, 0);
        head.extend(lock.to_ne_bytes());
        head.resize(4096, 0);
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), head).expect("there is room");
        let calls = Calls::default();
        let again = File::options().read(true).write(true).open(file.path()).expect("it is there");
        calls.memory().push(("memory".to_string(), again));
        (file, calls)
    }

    fn lock_of(file: &tempfile::NamedTempFile) -> i32 {
        let bytes = fs::read(file.path()).expect("it is there");
        i32::from_ne_bytes(bytes[LOCK_AT..LOCK_AT + 4].try_into().expect("four"))
    }

    /// Runs a call beside a guard until the lock is free or the time is over.
    fn stuck(file: &tempfile::NamedTempFile, calls: Calls, time: Duration) {
        let calls = Arc::new(calls);
        let _guard = Guard::new(&calls).expect("a thread");
        let begun = std::time::Instant::now();
        calls.run(|| {
            while lock_of(file) != FREE && begun.elapsed() < time {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    }

    #[test]
    fn a_lock_that_holds_up_a_call_for_long_is_opened() {
        for lock in [0, -3] {
            let (file, calls) = memory(MEMORY, lock);
            stuck(&file, calls, LONG);
            assert_eq!(lock_of(&file), FREE);
        }
    }

    #[test]
    fn memory_of_another_version_is_left_alone() {
        let (file, calls) = memory(MEMORY + 1, 0);
        stuck(&file, calls, CALL_MAX * 4);
        assert_eq!(lock_of(&file), 0);
    }

    #[test]
    fn short_calls_open_nothing() {
        let (file, calls) = memory(MEMORY, 0);
        let calls = Arc::new(calls);
        let guard = Guard::new(&calls).expect("a thread");
        let begun = std::time::Instant::now();
        while begun.elapsed() < CALL_MAX * 4 {
            calls.run(|| std::thread::sleep(Duration::from_millis(1)));
        }
        drop(guard);
        assert_eq!(lock_of(&file), 0);
    }

    /// The owner works while another thread waits very long for its turn.
    #[test]
    fn a_lock_that_is_seen_free_is_left_to_its_owner() {
        let (file, _calls) = memory(MEMORY, 0);
        let other = File::options().write(true).open(file.path()).expect("it is there");
        let (begin, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                begun.recv().expect("it begins");
                std::thread::sleep(LOOK_PAUSE * 3);
                other.write_all_at(&FREE.to_ne_bytes(), LOCK_AT as u64).expect("there is room");
                std::thread::sleep(LOOK_PAUSE * 3);
                other.write_all_at(&7_i32.to_ne_bytes(), LOCK_AT as u64).expect("there is room");
            });
            begin.send(()).expect("it waits");
            release(&File::options().read(true).write(true).open(file.path()).expect("a file"));
        });
        assert_eq!(lock_of(&file), 7, "only its owner has written");
    }
}
