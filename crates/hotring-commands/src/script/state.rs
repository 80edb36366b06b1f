//! The limits of a script's run, and the reasons to end it.
//!
//! Lua asks here every [`EVERY`] instructions, and so do functions that take long, by steps of their own. Once a run
//! is to end, it is asked at each instruction of each coroutine, and each answer is an error: there is no `pcall`
//! behind which a script could go on. Where the instructions turn out to be slow ones, calls of functions that Lua
//! has in C, it is asked more often.
//!
//! A run that has had its [`SLICE`] lets the thread's other connections have a turn. All that is known of it is its
//! own: they may run scripts meanwhile, each by an interpreter of its own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_protocol::Version;
use mlua::{Error, HookTriggers, Lua, VmState};

use super::pattern::Steps;
use crate::host::clock;
use crate::host::fiber::{SLICE, give_turn};
use crate::settings::config::{Config, memory};
use crate::state::failure::Failure;

use crate::state::scripts::{Lines, Running, Scripts, Slow};

/// Instructions between two looks; about 10 µs.
const EVERY: u32 = 1_000;

/// The same where they are slow, and the text that says so.
const EVERY_SLOW: u32 = 10;
const SLOW: Duration = Duration::from_millis(5);

/// Why a run ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It uses keys that are not held, and has written nothing.
    NeedsAll,
    /// SCRIPT KILL.
    Killed,
    /// Its time is over.
    Time,
    /// It has run through too many instructions.
    Instructions,
}

impl Stop {
    /// The error for the client.
    pub(super) fn failure(self, has_written: bool, name: &str, config: &Config) -> Failure {
        let why = match self {
            Stop::NeedsAll => "uses keys that it was not given".to_owned(),
            Stop::Killed => "killed by user with SCRIPT KILL".to_owned(),
            Stop::Time => format!("ended after {} ms (lua-time-limit)", config.lua_time_ms),
            Stop::Instructions => {
                format!("ended after {} instructions (lua-instruction-limit)", config.lua_steps_max)
            }
        };
        let stays = if has_written { "; what it has written stays" } else { "" };
        format!("ERR Script {why}{stays}. script: {name}").into()
    }
}

/// One run's state, for the hook, the prelude's functions and `redis.call`.
pub(super) struct State {
    running: Arc<Running>,
    /// Of the log, and how many there may be in a second.
    lines: Arc<Lines>,
    lines_max: Cell<u64>,
    stop: Cell<Option<Stop>>,
    deadline: Cell<Option<Instant>>,
    /// How many scripts are slow, and whether this is one of them.
    slow: Arc<Slow>,
    is_slow: Cell<bool>,
    /// Instructions that are left.
    steps: Cell<u64>,
    /// Steps of functions that are not looked at yet.
    pending: Cell<u32>,
    /// When it was last looked at, and when the present slice began.
    looked: Cell<Instant>,
    slice: Cell<Instant>,
    /// Instructions after which Lua asks; 0 before it does.
    asks: Cell<u32>,
    /// The memory that Lua may take.
    memory_max: Cell<usize>,
    /// The memory that the scripts of all threads may take.
    all_max: Cell<usize>,
    /// The version of the protocol in which the script sees replies.
    version: Cell<Version>,
    /// The 48 bits of `math.random`.
    random: Cell<u64>,
    /// It has used keys that it was not given.
    wide: Cell<bool>,
}

impl State {
    pub(super) fn new(scripts: &Scripts) -> State {
        State {
            running: scripts.show(),
            slow: Arc::clone(&scripts.slow),
            is_slow: Cell::new(false),
            lines: Arc::clone(&scripts.lines),
            lines_max: Cell::new(0),
            stop: Cell::new(None),
            deadline: Cell::new(None),
            steps: Cell::new(u64::MAX),
            pending: Cell::new(0),
            looked: Cell::new(clock::monotonic()),
            slice: Cell::new(clock::monotonic()),
            asks: Cell::new(0),
            memory_max: Cell::new(usize::MAX),
            all_max: Cell::new(usize::MAX),
            version: Cell::new(Version::Resp2),
            random: Cell::new(0),
            wide: Cell::new(false),
        }
    }

    /// Begins a run.
    pub(super) fn begin(&self, config: &Config) {
        self.running.begin();
        self.stop.set(None);
        let time = Duration::from_millis(config.lua_time_ms);
        let now = clock::monotonic();
        self.looked.set(now);
        self.slice.set(now);
        self.pending.set(0);
        self.lines_max.set(config.lua_log_max);
        self.memory_max.set(config.lua_memory());
        self.all_max.set(memory::part_of(config.memory_max));
        let deadline = now.checked_add(time);
        self.deadline.set(deadline.filter(|_| config.lua_time_ms > 0));
        self.steps.set(if config.lua_steps_max == 0 { u64::MAX } else { config.lua_steps_max });
        self.version.set(Version::Resp2);
        self.wide.set(false);
        self.seed(0);
    }

    /// Records the memory of Lua between two runs.
    pub(super) fn note_memory(&self, bytes: usize) {
        self.running.take_note(bytes);
    }

    pub(super) fn end(&self) {
        if self.is_slow.replace(false) {
            self.slow.end();
        }
        self.running.end();
    }

    /// Why the run had to end, if it had to.
    pub(super) fn stopped(&self) -> Option<Stop> {
        self.stop.get()
    }

    pub(super) fn stop(&self, stop: Stop) {
        self.stop.set(Some(stop));
    }

    /// Notes that the script is about to write; false if it was killed.
    pub(super) fn write(&self) -> bool {
        let may = self.running.write();
        if !may {
            self.stop(Stop::Killed);
        }
        may
    }

    pub(super) fn has_written(&self) -> bool {
        self.running.has_written()
    }

    pub(super) fn version(&self) -> Version {
        self.version.get()
    }

    pub(super) fn set_version(&self, version: Version) {
        self.version.set(version);
    }

    pub(super) fn is_wide(&self) -> bool {
        self.wide.get()
    }

    pub(super) fn set_wide(&self) {
        self.wide.set(true);
    }

    /// Starts the numbers of `math.random`, as srand48 does.
    pub(super) fn seed(&self, seed: u32) {
        self.random.set(u64::from(seed) << 16 | 0x330e);
    }

    /// The next of them from 0 up to 1, as Redis makes it of lrand48.
    pub(super) fn random(&self) -> f64 {
        let next =
            self.random.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        self.random.set(next);
        let max = f64::from(i32::MAX);
        (next >> 17) as f64 % max / max
    }

    /// Counts instructions; false if the run has to end.
    fn step(&self, n: u32) -> bool {
        if self.stop.get().is_some() {
            return false;
        }
        let left = self.steps.get().saturating_sub(u64::from(n));
        self.steps.set(left);
        let mut now = clock::monotonic();
        if now.duration_since(self.slice.get()) >= SLICE {
            if !self.is_slow.replace(true) {
                self.slow.begin();
            }
            give_turn();
            now = clock::monotonic();
            self.slice.set(now);
        }
        self.looked.set(now);
        if self.running.is_killed() {
            self.stop(Stop::Killed);
        } else if left == 0 {
            self.stop(Stop::Instructions);
        } else if self.deadline.get().is_some_and(|deadline| now >= deadline) {
            self.stop(Stop::Time);
        }
        self.stop.get().is_none()
    }

    /// Whether the log may have another line, and how many it has not had since the last one.
    pub(super) fn next_line(&self) -> Option<u64> {
        self.lines.next(clock::monotonic(), self.lines_max.get())
    }

    /// Counts the steps of a function; an error if the run has to end.
    pub(super) fn must_spend(&self, n: usize) -> mlua::Result<()> {
        if self.spend(n) { Ok(()) } else { Err(stopped()) }
    }

    /// An error if there is no room for this many bytes more.
    pub(super) fn must_fit(&self, lua: &Lua, len: usize) -> mlua::Result<()> {
        if lua.used_memory().saturating_add(len) > self.memory_max.get() {
            return Err(Error::MemoryError("not enough memory".to_owned()));
        }
        Ok(())
    }

    /// Records the memory of Lua; fails if it exceeds its share of the common limit.
    fn must_share(&self, lua: &Lua) -> mlua::Result<()> {
        let memory = lua.used_memory();
        self.running.take_note(memory);
        if memory > self.running.share(self.all_max.get()) {
            return Err(Error::MemoryError("not enough memory".to_owned()));
        }
        Ok(())
    }

    /// How often Lua is to ask from now on.
    fn every(&self, every: u32) -> u32 {
        let is_slow = every > EVERY_SLOW && self.looked.get().elapsed() >= SLOW;
        if is_slow { EVERY_SLOW } else { every }
    }
}

impl Steps for State {
    fn spend(&self, n: usize) -> bool {
        let pending = self.pending.get().saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
        if pending < EVERY {
            self.pending.set(pending);
            return true;
        }
        self.pending.set(0);
        self.step(pending)
    }
}

/// The error that nothing in a script can get past.
pub(super) fn stopped() -> Error {
    Error::runtime("the script has to end")
}

/// Has the interpreter ask, from the next run on as often as at first.
pub(super) fn watch(lua: &Lua, state: &Rc<State>) -> mlua::Result<()> {
    if state.asks.replace(EVERY) != EVERY {
        watch_every(EVERY, lua, state)?;
    }
    Ok(())
}

fn watch_every(every: u32, lua: &Lua, state: &Rc<State>) -> mlua::Result<()> {
    state.asks.set(every);
    let shared = Rc::clone(state);
    let triggers = HookTriggers::new().every_nth_instruction(every);
    lua.set_global_hook(triggers, move |lua, _| {
        let next = shared.every(every);
        shared.must_share(lua)?;
        if shared.step(every) {
            if next != every {
                watch_every(next, lua, &shared)?;
            }
            return Ok(VmState::Continue);
        }
        // For the coroutine that asks; the others ask in their own time.
        watch_every(1, lua, &shared)?;
        Err(stopped())
    })
}
