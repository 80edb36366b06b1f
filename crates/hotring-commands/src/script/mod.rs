//! Runs Lua scripts: one Lua 5.1 interpreter per thread, which compiles scripts, runs them, and converts their results
//! to replies.
//!
//! ```text
//!   commands/script.rs --> Interpreter::run --> prelude.lua --> the script
//!                                                    ^             | redis.call
//!                                                    |             v
//!                                 values.rs <-- call.rs --> answer(), as any request
//! ```
//! `prelude.lua` is the sandbox: no files, no modules, no bytecode, and globals that no script can change. Time,
//! instructions and memory of a run are bounded ([`state`]). An interpreter whose run has exceeded a bound must not run
//! again: the next script gets a new one.
//!
//! The caller must hold the script's keys; this makes the script atomic.

mod args;
mod base;
mod bit;
mod call;
mod json;
mod msgpack;
mod pack;
mod pattern;
mod redis;
mod state;
mod text;
mod values;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use hotring_protocol::KeptArgs;
use mlua::{ChunkMode, Error, Function, Lua, LuaOptions, StdLib, Table, Value};

use crate::settings::config::Config;
use crate::state::context::Context;
use crate::state::failure::Failure;
use crate::state::interpreter::{Ended, Interpreter, Run};
use crate::state::scripts::{Script, Scripts, Sha};
use crate::table::lookup;
use args::Bounded;
use call::Caller;
use state::{State, Stop};

/// The Lua source of the sandbox.
const PRELUDE: &str = include_str!("prelude.lua");

/// The chunk name of scripts in error messages, as in Redis.
const CHUNK: &str = "user_script";

/// Most scripts that stay compiled. Beyond this number all are dropped, and compiled again on their next use.
const COMPILED_MAX: usize = 1_000;

/// Memory in bytes that an interpreter may keep between two runs without a garbage collection.
const IDLE_LEN_MAX: usize = 4 << 20;

/// The interpreter of one thread.
struct LuaInterpreter {
    lua: Lua,
    /// The function that runs a script in the sandbox, and the environment of all scripts. The prelude returns both.
    run: Function,
    environment: Table,
    state: Rc<State>,
    compiled: HashMap<Sha, Arc<Script>>,
    /// The compiled functions by script name. They are in a Lua table, because mlua's reference slots are few.
    functions: Table,
    /// The version of the script cache for which `compiled` is valid.
    version: u64,
    /// The buffers of `redis.call`, reused by all calls.
    request: KeptArgs,
    reply: Vec<u8>,
    is_spent: bool,
}

/// Creates a Lua interpreter, which reports its runs to `scripts`.
pub(crate) fn interpreter(
    config: &Config,
    scripts: &Scripts,
) -> Result<Box<dyn Interpreter>, Failure> {
    let build = || {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let state = Rc::new(State::new(scripts));
        args::prepare(&lua)?;
        let native = redis::functions(&lua, &state)?;
        native.set("cjson", json::functions(&lua, &state)?)?;
        native.set("cmsgpack", msgpack::functions(&lua, &state)?)?;
        native.set("struct", pack::functions(&lua)?)?;
        native.set("bit", bit::functions(&lua)?)?;
        let functions = lua.create_table()?;
        let (run, environment) = lua.load(PRELUDE).set_name("=prelude").call(native)?;
        state::watch(&lua, &state)?;
        lua.set_memory_limit(config.lua_memory())?;
        Ok(LuaInterpreter {
            lua,
            run,
            environment,
            state,
            compiled: HashMap::new(),
            functions,
            version: 0,
            request: KeptArgs::default(),
            reply: Vec::new(),
            is_spent: false,
        })
    };
    match build() {
        Ok(interpreter) => Ok(Box::new(interpreter)),
        Err(error) => Err(failure(&error)),
    }
}

impl Interpreter for LuaInterpreter {
    fn find(&mut self, sha: &Sha, scripts: &Scripts) -> Option<Arc<Script>> {
        let version = scripts.version();
        if version != self.version {
            self.version = version;
            self.forget();
        }
        self.compiled.get(sha).cloned()
    }

    fn compile(&mut self, sha: &Sha, script: &Arc<Script>) -> Result<(), Failure> {
        let chunk = self.lua.load(&*script.code).set_name(format!("@{CHUNK}"));
        let chunk = chunk.set_mode(ChunkMode::Text).set_environment(self.environment.clone());
        let function = chunk.into_function().map_err(|error| {
            let why = match error {
                Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            Failure::from(format!("ERR Error compiling script (new function): {why}"))
        })?;
        if self.compiled.len() >= COMPILED_MAX {
            self.forget();
        }
        let kept = self.functions.raw_set(script.name.as_str(), function);
        kept.map_err(|error| failure(&error))?;
        self.compiled.insert(*sha, Arc::clone(script));
        Ok(())
    }

    fn run(
        &mut self,
        script: &Script,
        run: Run<'_>,
        c: &mut Context<'_>,
    ) -> Result<Ended, Failure> {
        let config = c.server.settings.config();
        self.lua.set_memory_limit(config.lua_memory()).map_err(|error| failure(&error))?;
        state::watch(&self.lua, &self.state).map_err(|error| failure(&error))?;
        self.state.begin(&config);
        let outcome = self.enter(script, run, c);
        let written = self.state.has_written();
        self.state.end();
        let ended = match self.state.stopped() {
            Some(Stop::NeedsAll) => {
                self.is_spent = true;
                Ok(Ended::NeedsAll)
            }
            Some(stop) => {
                self.is_spent = true;
                Err(stop.failure(written, &script.name, &config))
            }
            None => self.finish(outcome, script, c),
        };
        if self.state.is_wide() {
            script.note_other_key();
        }
        if self.lua.used_memory() > IDLE_LEN_MAX.min(config.lua_memory() / 4) {
            self.is_spent |= self.lua.gc_collect().is_err();
        }
        self.state.note_memory(self.lua.used_memory());
        ended
    }

    fn is_spent(&self) -> bool {
        self.is_spent
    }
}

impl LuaInterpreter {
    /// Drops all compiled scripts.
    fn forget(&mut self) {
        self.compiled.clear();
        // Clearing the table does not reallocate, so it cannot fail for lack of memory.
        let _ = self.functions.clear();
    }

    fn enter(
        &mut self,
        script: &Script,
        run: Run<'_>,
        c: &mut Context<'_>,
    ) -> mlua::Result<(bool, Value)> {
        let LuaInterpreter { lua, run: enter, functions, state, request, reply, .. } = self;
        let (lua, enter, functions) = (&*lua, &*enter, &*functions);
        let mut caller = Caller::new(run, state, request, reply, c);
        let caller = &mut caller;
        lua.scope(move |scope| {
            let parameters =
                state::exempt(lua, values::len(run.keys) + values::len(run.args), || {
                    let function: Function = functions.raw_get(script.name.as_str())?;
                    let keys = values::strings(lua, run.keys)?;
                    let args = values::strings(lua, run.args)?;
                    let call = scope
                        .create_function_mut(move |lua, args: Bounded| caller.call(lua, &args))?;
                    Ok::<_, Error>((function, keys, args, call))
                })?;
            enter.call(parameters)
        })
    }

    /// Writes the reply for the result or error of a script.
    fn finish(
        &mut self,
        outcome: mlua::Result<(bool, Value)>,
        script: &Script,
        c: &mut Context<'_>,
    ) -> Result<Ended, Failure> {
        let (is_ok, value) = outcome.map_err(|error| {
            self.is_spent = true;
            failure(&error)
        })?;
        if !is_ok {
            // Errors from the handler are tables. A string comes from Lua itself, which is out of some resource then.
            self.is_spent |= value.is_string();
            return Err(raised(&value, &script.name));
        }
        let end = c.reply_len_max;
        let version = self.state.version();
        let write = || values::write_reply(&value, version, end, c.counters, &mut c.reply);
        if state::exempt(&self.lua, 0, write)? {
            let spec = lookup(c.args.at(0)).expect("only known commands run");
            c.counters.by_command.fail(spec.id as usize);
        }
        Ok(Ended::Replied)
    }
}

const OUT_OF_MEMORY: Failure = Failure::text("ERR Script needs more memory than lua-memory-limit");

/// Converts an error that a script raised.
fn raised(value: &Value, name: &str) -> Failure {
    let table = match value {
        Value::Table(table) => table,
        // Lua raises these errors without calling the handler.
        Value::String(text) if text.as_bytes().starts_with(b"not enough memory") => {
            return OUT_OF_MEMORY;
        }
        Value::String(text) => {
            return format!("ERR Error running script {name}, {}", text.to_string_lossy()).into();
        }
        _ => return format!("ERR Error running script {name}, execution failure").into(),
    };
    let text = |field: &str| match table.raw_get(field) {
        Ok(Value::String(text)) => Some(String::from_utf8_lossy(&text.as_bytes()).into_owned()),
        Ok(Value::Integer(number)) => Some(number.to_string()),
        _ => None,
    };
    let mut message = text("err").unwrap_or_else(|| "ERR unknown error".to_owned());
    if let (Some(source), Some(line)) = (text("source"), text("line")) {
        message.push_str(&format!(" script: {name}, on {source}:{line}."));
    }
    match values::is_counted(table) {
        true => Failure::Counted(message),
        false => message.into(),
    }
}

/// Converts an error from outside of the script's own code.
fn failure(error: &Error) -> Failure {
    match error {
        Error::MemoryError(_) => OUT_OF_MEMORY,
        Error::CallbackError { cause, .. } => failure(cause),
        other => format!("ERR Error running script: {other}").into(),
    }
}
