//! What a run of a script may still do, and why it has to end.
//!
//! Lua asks here every [`EVERY`] instructions. Once a run is to end, it is asked at each instruction of
//! each coroutine, and each answer is an error: there is no `pcall` behind which a script could go on.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_protocol::Version;
use mlua::{Error, HookTriggers, Lua, VmState};

use crate::clock;
use crate::config::Config;
use crate::failure::Failure;
use crate::scripts::Running;

/// Instructions between two looks; about 10 µs.
const EVERY: u32 = 1_000;

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
    /// What the client is told.
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
    stop: Cell<Option<Stop>>,
    deadline: Cell<Option<Instant>>,
    /// Instructions that are left.
    steps: Cell<u64>,
    /// The version of the protocol in which the script sees replies.
    version: Cell<Version>,
    /// The 48 bits of `math.random`.
    random: Cell<u64>,
    /// It has used keys that it was not given.
    wide: Cell<bool>,
}

impl State {
    pub(super) fn new(running: Arc<Running>) -> State {
        State {
            running,
            stop: Cell::new(None),
            deadline: Cell::new(None),
            steps: Cell::new(u64::MAX),
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
        let deadline = clock::monotonic().checked_add(time);
        self.deadline.set(deadline.filter(|_| config.lua_time_ms > 0));
        self.steps.set(if config.lua_steps_max == 0 { u64::MAX } else { config.lua_steps_max });
        self.version.set(Version::Resp2);
        self.wide.set(false);
        self.seed(0);
    }

    pub(super) fn end(&self) {
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
        let is_over = |deadline: Instant| clock::monotonic() >= deadline;
        if self.running.is_killed() {
            self.stop(Stop::Killed);
        } else if left == 0 {
            self.stop(Stop::Instructions);
        } else if self.deadline.get().is_some_and(is_over) {
            self.stop(Stop::Time);
        }
        self.stop.get().is_none()
    }
}

/// The error that nothing in a script can get past.
pub(super) fn stopped() -> Error {
    Error::runtime("the script has to end")
}

/// Has the interpreter ask.
pub(super) fn watch(lua: &Lua, state: &Rc<State>) -> mlua::Result<()> {
    watch_every(EVERY, lua, state)
}

fn watch_every(every: u32, lua: &Lua, state: &Rc<State>) -> mlua::Result<()> {
    let own = Rc::clone(state);
    let triggers = HookTriggers::new().every_nth_instruction(every);
    lua.set_global_hook(triggers, move |lua, _| {
        if own.step(every) {
            return Ok(VmState::Continue);
        }
        // For the coroutine that asks; the others ask in their own time.
        watch_every(1, lua, &own)?;
        Err(stopped())
    })
}
