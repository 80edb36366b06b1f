//! The limits of a script's run, and the reasons for stopping it.
//!
//! A hook of Lua calls [`State::step`] every [`EVERY`] instructions; native functions that may take long count steps of
//! their own. Once a run must stop, the hook runs at each instruction of each coroutine and always fails, so no `pcall`
//! can keep a script alive. If instructions turn out to be slow, because they call native functions, the hook runs more
//! often.
//!
//! A run that has used up its [`SLICE`] yields to the thread's other connections. These may run scripts meanwhile, with
//! other interpreters, so the state of a run must belong to that run alone.

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

/// Instructions between two checks; about 10 µs.
const EVERY: u32 = 1_000;

/// Instructions between two checks while they are slow, and the time between two checks that counts as slow.
const EVERY_SLOW: u32 = 10;
const SLOW: Duration = Duration::from_millis(5);

/// Values made of up to this many bytes need no look at the memory limit if this much of it is left: no byte takes more
/// than 64 as a part of a Lua value.
const FEW: usize = 4 << 10;
const FEW_ROOM: usize = 64 * FEW;

/// The reason for stopping a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The script uses keys that are not held, and has written nothing.
    NeedsAll,
    /// A client sent SCRIPT KILL.
    Killed,
    /// The time limit is exceeded.
    Time,
    /// The instruction limit is exceeded.
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

/// The state of one run, for the hook, the native functions and `redis.call`.
pub(super) struct State {
    running: Arc<Running>,
    /// Counts log lines; the limit is `lines_max` lines per second.
    lines: Arc<Lines>,
    lines_max: Cell<u64>,
    stop: Cell<Option<Stop>>,
    /// The run has met the common memory limit, in the hook.
    exceeds: Cell<bool>,
    deadline: Cell<Option<Instant>>,
    /// The number of slow scripts, and whether this run is among them.
    slow: Arc<Slow>,
    is_slow: Cell<bool>,
    /// Instructions left.
    steps: Cell<u64>,
    /// Steps of native functions that have not been checked yet.
    pending: Cell<u32>,
    /// The time of the last check, and the start of the current slice.
    looked: Cell<Instant>,
    slice: Cell<Instant>,
    /// The current interval of the hook in instructions; 0 before the hook is set.
    asks: Cell<u32>,
    /// Memory limit of the interpreter, in bytes.
    memory_max: Cell<usize>,
    /// Memory limit of the scripts of all threads together, in bytes.
    all_max: Cell<usize>,
    /// The RESP version of replies to the script.
    version: Cell<Version>,
    /// The state of `math.random`: 48 bits, as in `drand48`.
    random: Cell<u64>,
    /// The script has used undeclared keys.
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
            exceeds: Cell::new(false),
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
        self.exceeds.set(false);
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

    /// Whether an error may come from the hook: Lua runs its handler without one, so nothing could end the handler.
    pub(super) fn is_over(&self) -> bool {
        self.stopped().is_some() || self.exceeds.get()
    }

    /// Records the memory of the interpreter between two runs.
    pub(super) fn note_memory(&self, bytes: usize) {
        self.running.take_note(bytes);
    }

    pub(super) fn end(&self) {
        if self.is_slow.replace(false) {
            self.slow.end();
        }
        self.running.end();
    }

    /// The reason for which the run was stopped, if it was.
    pub(super) fn stopped(&self) -> Option<Stop> {
        self.stop.get()
    }

    pub(super) fn stop(&self, stop: Stop) {
        self.stop.set(Some(stop));
    }

    /// Records that the script is about to write. False if the script was killed.
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

    /// Seeds `math.random`, as srand48 does.
    pub(super) fn seed(&self, seed: u32) {
        self.random.set(u64::from(seed) << 16 | 0x330e);
    }

    /// The next random number in 0..1, as Redis derives it from lrand48.
    pub(super) fn random(&self) -> f64 {
        let next =
            self.random.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        self.random.set(next);
        let max = f64::from(i32::MAX);
        (next >> 17) as f64 % max / max
    }

    /// Counts instructions, and yields if the slice is over. False if the run must stop.
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

    /// None if the script may not log another line in this second; otherwise the number of lines dropped since the last
    /// one.
    pub(super) fn next_line(&self) -> Option<u64> {
        self.lines.next(clock::monotonic(), self.lines_max.get())
    }

    /// Counts the steps of a native function; an error if the run must stop.
    pub(super) fn must_spend(&self, n: usize) -> mlua::Result<()> {
        if self.spend(n) { Ok(()) } else { Err(stopped()) }
    }

    /// An error if this many more bytes would exceed the memory limit.
    pub(super) fn must_fit(&self, lua: &Lua, len: usize) -> mlua::Result<()> {
        if lua.used_memory().saturating_add(len) > self.memory_max.get() {
            return Err(Error::MemoryError("not enough memory".to_owned()));
        }
        Ok(())
    }

    /// Records the memory of the interpreter; an error if it exceeds its share of the common limit.
    fn must_share(&self, lua: &Lua) -> mlua::Result<()> {
        let memory = lua.used_memory();
        self.running.take_note(memory);
        if memory > self.running.share(self.all_max.get()) {
            self.exceeds.set(true);
            return Err(Error::MemoryError("not enough memory".to_owned()));
        }
        Ok(())
    }

    /// The next interval of the hook.
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

/// Runs `make`, which makes Lua values of `len` bytes. Under a memory limit, mlua protects each of its steps by a call
/// of Lua, which costs more than the step. So the limit is off meanwhile if the values fit in any case. `make` must
/// call no function of the script.
pub(super) fn exempt<R>(lua: &Lua, len: usize, make: impl FnOnce() -> R) -> R {
    let limit = if len <= FEW { lua.set_memory_limit(0).ok() } else { None };
    let fits = limit.is_some_and(|limit| lua.used_memory() + FEW_ROOM <= limit);
    let back = || _ = limit.map(|limit| lua.set_memory_limit(limit));
    if !fits {
        back();
        return make();
    }
    let made = make();
    back();
    made
}

/// The error that ends a run; no `pcall` can stop it.
pub(super) fn stopped() -> Error {
    Error::runtime("the script has to end")
}

/// Sets the hook, at the initial interval.
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
        // This reaches the running coroutine; the others follow when their own hook runs.
        watch_every(1, lua, &shared)?;
        Err(stopped())
    })
}
