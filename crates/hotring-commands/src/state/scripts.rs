//! The cache of scripts, shared by all threads, and the state of running scripts.
//!
//! The cache holds the texts; each thread compiles a script when it first runs the script ([`crate::script`]). Scripts
//! of EVAL are evicted to make space for others, least recently used first. Scripts of SCRIPT LOAD must stay, because
//! clients rely on them; a full cache refuses new ones.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sha1::{Digest, Sha1};

use crate::state::failure::Failure;
use crate::state::reach;

/// The label of a session that holds keys for a script.
pub(crate) const HOLDER: u32 = 1;

/// The error of a request whose keys a script has held longer than `busy-reply-threshold`.
pub(crate) const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// The SHA1 digest of a script's text.
pub(crate) type Sha = [u8; 20];

/// Length of a digest in hexadecimal.
pub(crate) const DIGEST_LEN: usize = 2 * size_of::<Sha>();

/// Approximate memory of a cached script beyond its text.
const ENTRY_LEN: usize = 512;

/// A cached script.
#[derive(Debug)]
pub(crate) struct Script {
    /// The digest in hexadecimal.
    pub name: String,
    /// The text for Lua.
    pub code: Box<[u8]>,
    /// The script's flags declare that it writes nothing (`no-writes`).
    pub no_writes: bool,
    /// The script has a line of flags without `no-writes`.
    pub writes: bool,
    /// The script uses only the keys that it declares, as far as is known.
    is_declared: AtomicBool,
    /// The script was loaded by SCRIPT LOAD.
    kept: AtomicBool,
    /// Unix milliseconds of the last use.
    used_at: AtomicU64,
}

/// The digest of a script's text.
pub(crate) fn digest(text: &[u8]) -> Sha {
    Sha1::digest(text).into()
}

/// Parses a digest.
pub(crate) fn parse_digest(text: &[u8]) -> Option<Sha> {
    let mut sha = Sha::default();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if text.len() != DIGEST_LEN {
        return None;
    }
    for (byte, pair) in sha.iter_mut().zip(text.chunks(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(sha)
}

/// A digest as 40 hexadecimal digits.
pub(crate) fn digest_text(sha: &Sha) -> String {
    sha.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Script {
    /// A script with this text, whose first line may hold flags (`#!lua flags=no-writes`).
    pub(crate) fn new(sha: &Sha, text: &[u8]) -> Result<Script, Failure> {
        let head = Head::parse(text)?;
        let code = &text[head.len..];
        let is_declared = !head.is_wide && reach::is_declared(code);
        Ok(Script {
            name: digest_text(sha),
            code: code.into(),
            no_writes: head.no_writes,
            writes: head.len > 0 && !head.no_writes,
            is_declared: AtomicBool::new(is_declared),
            kept: AtomicBool::new(false),
            used_at: AtomicU64::new(0),
        })
    }

    /// Whether the script is known to use only the keys that it declares.
    pub(crate) fn is_declared(&self) -> bool {
        // ORDERING: Relaxed, here and for the other fields: each is an independent hint.
        self.is_declared.load(Ordering::Relaxed)
    }

    /// Records that a run has used an undeclared key. This record is permanent.
    pub(crate) fn note_other_key(&self) {
        self.is_declared.store(false, Ordering::Relaxed);
    }

    /// Makes the next run hold only its declared keys, regardless of what the text proves.
    #[cfg(test)]
    pub(crate) fn believe(&self) {
        self.is_declared.store(true, Ordering::Relaxed);
    }

    /// Records a use.
    pub(crate) fn note_use(&self, now: u64) {
        // All threads read this cache line for each run: it must be written at most once a millisecond.
        if self.used_at.load(Ordering::Relaxed) != now {
            self.used_at.store(now, Ordering::Relaxed);
        }
    }

    fn len(&self) -> usize {
        self.code.len() + ENTRY_LEN
    }
}

/// The flags in a script's first line.
struct Head {
    /// Length of the flags, which Lua must not see; the line end stays, so that line numbers are right.
    len: usize,
    no_writes: bool,
    /// The script may use undeclared keys (`allow-cross-slot-keys`).
    is_wide: bool,
}

impl Head {
    fn parse(text: &[u8]) -> Result<Head, Failure> {
        let mut head = Head { len: 0, no_writes: false, is_wide: false };
        let Some(rest) = text.strip_prefix(b"#!") else { return Ok(head) };
        let end = rest.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or(Failure::text("ERR Invalid script shebang"))?;
        head.len = 2 + end;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        let mut words = line.split_ascii_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "lua" {
            return Err(format!("ERR Unexpected engine in script shebang: #!{engine}").into());
        }
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(format!("ERR Unknown lua shebang option: {word}").into());
            };
            // `flags=` alone is an empty list; otherwise each element must be a flag.
            for flag in flags.split(',').filter(|_| !flags.is_empty()) {
                match flag {
                    "no-writes" => head.no_writes = true,
                    "allow-cross-slot-keys" => head.is_wide = true,
                    "allow-oom" | "allow-stale" | "no-cluster" => {}
                    _ => {
                        return Err(format!("ERR Unexpected flag in script shebang: {flag}").into());
                    }
                }
            }
        }
        Ok(head)
    }
}

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

/// Number of running scripts that have used up their first time slice.
#[derive(Debug, Default)]
pub struct Slow(AtomicU64);

impl Slow {
    // ORDERING: Relaxed throughout: a thread that sees a slow script late waits for the script's keys in the gate.
    /// Whether there are slow scripts.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Counts a script that has become slow.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a slow script.
    pub(crate) fn end(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
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

/// The rate limit of the lines that scripts write to the server's log, and the count of dropped lines.
#[derive(Debug, Default)]
pub struct Lines(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    began: Option<Instant>,
    lines: u64,
    left_out: u64,
}

impl Lines {
    /// Some if another line is allowed, with at most `max` per second (0: no limit). The value is the number of lines
    /// that were dropped since the last allowed one.
    pub(crate) fn next(&self, now: Instant, max: u64) -> Option<u64> {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |began: Instant| now.duration_since(began) >= Duration::from_secs(1);
        if second.began.is_none_or(is_over) {
            second.began = Some(now);
            second.lines = 0;
        }
        if max > 0 && second.lines >= max {
            second.left_out += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.left_out))
    }
}

/// The activity of an interpreter, for SCRIPT KILL.
#[derive(Debug)]
pub struct Running {
    state: AtomicU8,
    /// Memory of the interpreter.
    memory: AtomicUsize,
    /// Memory of all interpreters.
    all: Arc<AtomicUsize>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.take_note(0);
    }
}

/// The minimum memory limit of an interpreter in bytes, even if the total is exhausted.
const LEAST: usize = 1 << 20;

const NOTHING: u8 = 0;
const READING: u8 = 1;
const WRITTEN: u8 = 2;
pub const KILLED: u8 = 3;

/// The outcome of SCRIPT KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// No script runs.
    Nothing,
    /// The script will end.
    Killed,
    /// The script has written and continues.
    TooLate,
}

// ORDERING: Relaxed throughout: the word is the entire message, and all threads see its changes in the same order.
impl Running {
    fn of(all: &Arc<AtomicUsize>) -> Self {
        Running { state: AtomicU8::new(NOTHING), memory: AtomicUsize::new(0), all: all.clone() }
    }

    /// Sets the memory of the interpreter.
    pub fn take_note(&self, memory: usize) {
        match self.memory.swap(memory, Ordering::Relaxed) {
            less if less < memory => self.all.fetch_add(memory - less, Ordering::Relaxed),
            more => self.all.fetch_sub(more - memory, Ordering::Relaxed),
        };
    }

    /// The memory limit of this interpreter, if all interpreters together may take `all_max`. The limit shrinks with
    /// the unused part of that total.
    pub(crate) fn share(&self, all_max: usize) -> usize {
        all_max.saturating_sub(self.all.load(Ordering::Relaxed)).saturating_mul(2).max(LEAST)
    }

    pub(crate) fn begin(&self) {
        self.state.store(READING, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.state.store(NOTHING, Ordering::Relaxed);
    }

    /// Records that the script is about to write; false if it must not, because it was killed.
    pub(crate) fn write(&self) -> bool {
        let before =
            self.state.compare_exchange(READING, WRITTEN, Ordering::Relaxed, Ordering::Relaxed);
        before.is_ok() || before == Err(WRITTEN)
    }

    pub(crate) fn has_written(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WRITTEN
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == KILLED
    }

    /// Asks the script to end.
    pub(crate) fn kill(&self) -> Kill {
        match self.state.compare_exchange(READING, KILLED, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) | Err(KILLED) => Kill::Killed,
            Err(WRITTEN) => Kill::TooLate,
            Err(_) => Kill::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> (Sha, Arc<Script>) {
        let sha = digest(text.as_bytes());
        (sha, Arc::new(Script::new(&sha, text.as_bytes()).unwrap()))
    }

    #[test]
    fn digests_are_written_and_read() {
        let sha = digest(b"return 1");
        let text = digest_text(&sha);
        assert_eq!(text, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(parse_digest(text.as_bytes()), Some(sha));
        assert_eq!(parse_digest(text.to_uppercase().as_bytes()), Some(sha));
        assert_eq!(parse_digest(&text.as_bytes()[1..]), None);
        assert_eq!(parse_digest(text.replace('e', "+").as_bytes()), None);
    }

    #[test]
    fn the_first_line_says_what_a_script_does() {
        let of = |text: &str| Script::new(&digest(text.as_bytes()), text.as_bytes());
        let plain = of("return 1").unwrap();
        assert_eq!((&*plain.code, plain.no_writes), (&b"return 1"[..], false));
        assert!(plain.is_declared());
        let wide = of("#!lua flags=no-writes,allow-cross-slot-keys\nreturn 1").unwrap();
        assert_eq!((&*wide.code, wide.no_writes), (&b"\nreturn 1"[..], true));
        assert!(!wide.is_declared());
        for (text, error) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!perl\n", "ERR Unexpected engine in script shebang: #!perl"),
            ("#!lua flags=x\n", "ERR Unexpected flag in script shebang: x"),
            ("#!lua flags=no-writes,,allow-oom\n", "ERR Unexpected flag in script shebang: "),
            ("#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
        ] {
            assert_eq!(of(text).unwrap_err().message(), error);
        }
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

    /// A script once could fill the disk with lines of any length.
    #[test]
    fn lines_of_the_log_are_so_many_in_a_second() {
        let (lines, start) = (Lines::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let told: Vec<_> = (0..5).map(|i| lines.next(at(i), 2)).collect();
        assert_eq!(told, [Some(0), Some(0), None, None, None]);
        assert_eq!(lines.next(at(1000), 2), Some(3));
        assert_eq!(lines.next(at(1001), 2), Some(0));
        assert_eq!(lines.next(at(1002), 2), None);
        assert_eq!(lines.next(at(1002), 0), Some(1), "without a limit");
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

    #[test]
    fn a_script_that_has_written_cannot_be_killed() {
        let running = Running::of(&Arc::default());
        assert_eq!(running.kill(), Kill::Nothing);
        running.begin();
        assert!(running.write() && running.write() && running.has_written());
        assert_eq!(running.kill(), Kill::TooLate);
        running.begin();
        assert_eq!(running.kill(), Kill::Killed);
        assert!(running.is_killed() && !running.write() && !running.has_written());
        running.end();
        assert_eq!(running.kill(), Kill::Nothing);
    }
}
