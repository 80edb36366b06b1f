//! The cache of scripts, shared by all threads, and the state of running scripts.
//!
//! The cache holds the texts; each thread compiles a script when it first runs the script ([`crate::script`]). Scripts
//! of EVAL are evicted to make space for others, least recently used first. Scripts of SCRIPT LOAD must stay, because
//! clients rely on them; a full cache refuses new ones.

mod lines;
mod running;
mod script;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::state::failure::Failure;

pub use lines::Lines;
pub(crate) use running::Kill;
pub use running::{Running, Slow};
pub(crate) use script::{DIGEST_LEN, Script, Sha, digest, digest_text, parse_digest};

/// The label of a session that holds keys for a script.
pub(crate) const HOLDER: u32 = 1;

/// The error of a request whose keys a script has held longer than `busy-reply-threshold`.
pub(crate) const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// The cache.
#[derive(Debug, Default)]
pub struct Scripts {
    cache: Mutex<Cache>,
    /// Changes when scripts leave the cache.
    version: AtomicU64,
    /// The activity of each interpreter, while it exists.
    running: Mutex<Vec<Weak<Running>>>,
    /// Memory of all interpreters.
    interpreters: Arc<AtomicUsize>,
    /// Number of slow scripts.
    pub slow: Arc<Slow>,
    /// The lines that scripts write to the server's log.
    pub lines: Arc<Lines>,
}

#[derive(Debug, Default)]
struct Cache {
    scripts: HashMap<Sha, Arc<Script>>,
    /// Total memory of the cached scripts.
    len: usize,
}

impl Scripts {
    /// The version of the cache, which changes when scripts leave it: threads must then drop their compiled scripts.
    pub(crate) fn version(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `left`: a thread that sees the new version does not find the
        // removed scripts.
        self.version.load(Ordering::Acquire)
    }

    /// The script with this digest.
    pub(crate) fn find(&self, sha: &Sha) -> Option<Arc<Script>> {
        self.lock().scripts.get(sha).cloned()
    }

    /// Adds a script of EVAL, if it fits next to the scripts that must stay.
    pub(crate) fn add(&self, sha: Sha, script: &Arc<Script>, len_max: usize) {
        let mut cache = self.lock();
        if cache.evict_for(script.len(), len_max) {
            self.left();
        }
        if cache.len + script.len() <= len_max {
            cache.insert(sha, script);
        }
    }

    /// Adds a script of SCRIPT LOAD, which must stay.
    pub(crate) fn load(
        &self,
        sha: Sha,
        script: Arc<Script>,
        len_max: usize,
    ) -> Result<(), Failure> {
        let mut cache = self.lock();
        if let Some(known) = cache.scripts.get(&sha) {
            known.kept.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if cache.evict_for(script.len(), len_max) {
            self.left();
        }
        if cache.len + script.len() > len_max {
            return Err(Failure::text("ERR no room for another script (script-cache-limit)"));
        }
        script.kept.store(true, Ordering::Relaxed);
        cache.insert(sha, &script);
        Ok(())
    }

    /// Removes all scripts.
    pub(crate) fn clear(&self) {
        *self.lock() = Cache::default();
        self.left();
    }

    /// Registers an interpreter; its activity is reported through the result.
    pub fn show(&self) -> Arc<Running> {
        let shown = Arc::new(Running::of(&self.interpreters));
        let mut running = self.running();
        running.retain(|other| other.strong_count() > 0);
        running.push(Arc::downgrade(&shown));
        shown
    }

    /// Asks all running scripts to end; returns the most significant outcome.
    pub(crate) fn kill(&self) -> Kill {
        let kills: Vec<Kill> =
            self.running().iter().filter_map(Weak::upgrade).map(|running| running.kill()).collect();
        let is = |kill: &Kill| kills.contains(kill);
        [Kill::Killed, Kill::TooLate].into_iter().find(is).unwrap_or(Kill::Nothing)
    }

    /// Memory of all interpreters.
    pub fn interpreters(&self) -> usize {
        // ORDERING: Relaxed, a figure.
        self.interpreters.load(Ordering::Relaxed)
    }

    fn running(&self) -> MutexGuard<'_, Vec<Weak<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number and memory of the cached scripts.
    pub fn counts(&self) -> (usize, usize) {
        let cache = self.lock();
        (cache.scripts.len(), cache.len)
    }

    fn left(&self) {
        // ORDERING: Release pairs with the Acquire in `version`.
        self.version.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // A panic during a change leaves the map consistent.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn insert(&mut self, sha: Sha, script: &Arc<Script>) {
        if self.scripts.insert(sha, Arc::clone(script)).is_none() {
            self.len += script.len();
        }
    }

    /// Evicts scripts, least recently used first, if `more` bytes do not fit. Frees at least an eighth of the limit,
    /// because each eviction visits all scripts. True if any script was evicted.
    fn evict_for(&mut self, more: usize, len_max: usize) -> bool {
        if self.len + more <= len_max || more > len_max {
            return false;
        }
        let wanted = (self.len + more).saturating_sub(len_max).max(len_max / 8);
        let mut going: Vec<(u64, Sha, usize)> = Vec::new();
        for (sha, script) in &self.scripts {
            if !script.kept.load(Ordering::Relaxed) {
                going.push((script.used_at.load(Ordering::Relaxed), *sha, script.len()));
            }
        }
        going.sort_unstable();
        let mut freed = 0;
        for (_, sha, len) in going {
            if freed >= wanted {
                break;
            }
            self.scripts.remove(&sha);
            freed += len;
        }
        self.len -= freed;
        freed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::script::ENTRY_LEN;
    use super::*;

    fn script(text: &str) -> (Sha, Arc<Script>) {
        let sha = digest(text.as_bytes());
        (sha, Arc::new(Script::new(&sha, text.as_bytes()).unwrap()))
    }

    #[test]
    fn scripts_that_are_long_unused_make_room() {
        let scripts = Scripts::default();
        let (first, loaded) = script("return 'loaded'");
        scripts.load(first, loaded, 10 * ENTRY_LEN).unwrap();
        let version = scripts.version();
        let shas: Vec<Sha> = (0..20)
            .map(|i| {
                let (sha, script) = script(&format!("return {i}"));
                script.note_use(i);
                scripts.add(sha, &script, 10 * ENTRY_LEN);
                sha
            })
            .collect();
        assert!(scripts.find(&first).is_some(), "what was loaded stays");
        assert!(scripts.find(&shas[19]).is_some() && scripts.find(&shas[18]).is_some());
        assert!(scripts.find(&shas[0]).is_none());
        assert!(scripts.version() > version);
        let (n, len) = scripts.counts();
        assert!((5..10).contains(&n) && len <= 10 * ENTRY_LEN, "{n} of {len} bytes");
        let (sha, long) = script(&format!("return '{}'", "x".repeat(10 * ENTRY_LEN)));
        scripts.add(sha, &long, 10 * ENTRY_LEN);
        assert!(scripts.find(&sha).is_none());
        let error = scripts.load(sha, long, 10 * ENTRY_LEN).unwrap_err();
        assert!(error.message().contains("script-cache-limit"));
        scripts.clear();
        assert_eq!(scripts.counts(), (0, 0));
    }

    #[test]
    fn all_that_run_are_killed() {
        let scripts = Scripts::default();
        assert_eq!(scripts.kill(), Kill::Nothing);
        let (one, other) = (scripts.show(), scripts.show());
        assert_eq!(scripts.kill(), Kill::Nothing);
        one.begin();
        assert!(one.write());
        assert_eq!(scripts.kill(), Kill::TooLate);
        other.begin();
        assert_eq!(scripts.kill(), Kill::Killed);
        assert!(other.is_killed() && !one.is_killed());
        drop((one, other));
        assert_eq!(scripts.kill(), Kill::Nothing);
    }
}
