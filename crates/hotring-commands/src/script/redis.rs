//! The functions of the `redis` library that run no command, and the helpers of the prelude.

use std::fmt;
use std::rc::Rc;

use hotring_protocol::Version;
use mlua::{Debug, Error, Lua, MultiValue, Table, Value};

use super::args::function;
use super::state::State;
use super::{CHUNK, OUT_OF_MEMORY, base, text, values};
use crate::state::scripts::{digest, digest_text};

/// The Redis version that scripts see, as text and as a number.
const VERSION: (&str, u32) = (crate::commands::REDIS_VERSION, 0x0007_0400);

/// Number of stack levels searched for the script's line: functions of Lua and of the prelude lie above it.
const LEVELS_MAX: usize = 8;

/// Longest log line of a script in bytes, as in Redis.
const LINE_MAX: usize = 1024;

/// The functions for the prelude.
pub(super) fn functions(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.raw_set("redis", library(lua, state)?)?;
    native.raw_set("text", text::functions(lua, state)?)?;
    native.raw_set("base", base::functions(lua)?)?;
    native.raw_set("line", lua.create_function(|lua, ()| Ok(line(lua)))?)?;
    native.raw_set("unwrap", lua.create_function(unwrap)?)?;
    let shared = Rc::clone(state);
    native.raw_set("is_over", lua.create_function(move |_, ()| Ok(shared.is_over()))?)?;
    let shared = Rc::clone(state);
    native.raw_set("random", function(lua, move |lua, args| random(lua, args, &shared))?)?;
    let shared = Rc::clone(state);
    let seed = move |lua: &Lua, args: &MultiValue| match args.front().and_then(|n| number(lua, n)) {
        Some(seed) => {
            shared.seed(seed as i64 as u32);
            Ok(())
        }
        None => refused(lua, "bad argument #1 to 'randomseed' (number expected)"),
    };
    native.raw_set("seed", function(lua, seed)?)?;
    let text = |lua: &Lua, text: mlua::String| lua.create_string(error_text(&text.as_bytes()));
    native.raw_set("error_text", lua.create_function(text)?)?;
    Ok(native)
}

/// A number truncated to an integer; 0 for any other value.
pub(super) fn to_integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        Value::Number(number) => *number as i64,
        _ => 0,
    }
}

fn library(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("REDIS_VERSION", VERSION.0)?;
    library.raw_set("REDIS_VERSION_NUM", VERSION.1)?;
    library.raw_set("sha1hex", function(lua, sha1hex)?)?;
    let shared = Rc::clone(state);
    library.raw_set("log", function(lua, move |_, args| log(args, &shared))?)?;
    let shared = Rc::clone(state);
    library.raw_set("setresp", function(lua, move |_, args| setresp(args, &shared))?)?;
    library.raw_set("set_repl", function(lua, |_, args| set_repl(args))?)?;
    Ok(library)
}

/// An error raised by a native function.
#[derive(Debug)]
pub(super) enum Raised {
    /// A string, as Lua's own functions raise it.
    Text(Vec<u8>),
    /// A table with the text as `err`, as `redis.call` raises it.
    Reply(Vec<u8>),
    /// As `Reply`, for an error that has been counted with its command.
    Counted(Vec<u8>),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Raised::Text(text) | Raised::Reply(text) | Raised::Counted(text)) = self;
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl std::error::Error for Raised {}

/// Raises an error. It names the line of the first function outside of the prelude, if that is the script.
pub(super) fn refused<T>(lua: &Lua, why: impl AsRef<[u8]>) -> mlua::Result<T> {
    let level = (1..).find(|level| !is_prelude(lua, *level)).unwrap_or(1);
    refused_at(lua, level, why)
}

/// As [`refused`], for a function at this level of the stack.
pub(super) fn refused_at<T>(lua: &Lua, level: usize, why: impl AsRef<[u8]>) -> mlua::Result<T> {
    let prefix = line_at(lua, level).map_or(String::new(), |line| format!("{CHUNK}:{line}: "));
    Err(Error::external(Raised::Text([prefix.as_bytes(), why.as_ref()].concat())))
}

/// Raises an error as `redis.call` does.
fn failed<T>(why: &str) -> mlua::Result<T> {
    Err(Error::external(Raised::Reply(format!("ERR {why}").into())))
}

/// Converts an error to the value that scripts see.
fn unwrap(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(error) = error else { return Ok(error) };
    let mut error = &*error;
    while let Error::CallbackError { cause, .. } | Error::BadArgument { cause, .. } = error {
        error = cause;
    }
    if let Error::MemoryError(_) = error {
        return values::error_table(lua, OUT_OF_MEMORY.message().as_bytes(), false);
    }
    match error.downcast_ref::<Raised>() {
        Some(Raised::Reply(text)) => values::error_table(lua, text, false),
        Some(Raised::Counted(text)) => values::error_table(lua, text, true),
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        None => Ok(Value::String(lua.create_string(error.to_string())?)),
    }
}

/// A number, or the number that a string contains.
pub(super) fn number(lua: &Lua, value: &Value) -> Option<f64> {
    lua.coerce_number(value.clone()).ok().flatten()
}

/// `math.random`, with the same sequence as in Redis.
fn random(lua: &Lua, args: &MultiValue, state: &State) -> mlua::Result<f64> {
    let drawn = state.random();
    let mut bounds = [1.0; 2];
    if args.len() > 2 {
        return refused(lua, "wrong number of arguments");
    }
    for (i, (bound, arg)) in bounds.iter_mut().rev().zip(args.iter().rev()).enumerate() {
        let Some(number) = number(lua, arg) else {
            let i = args.len() - i;
            return refused(lua, format!("bad argument #{i} to 'random' (number expected)"));
        };
        *bound = number.trunc();
    }
    let [low, high] = bounds;
    if low > high {
        let i = args.len();
        return refused(lua, format!("bad argument #{i} to 'random' (interval is empty)"));
    }
    Ok(if args.is_empty() { drawn } else { (drawn * (high - low + 1.0)).floor() + low })
}

fn sha1hex(lua: &Lua, args: &MultiValue) -> mlua::Result<mlua::String> {
    if args.len() != 1 {
        return failed("wrong number of arguments");
    }
    let sha = match &args[0] {
        Value::String(text) => digest(&text.as_bytes()),
        Value::Integer(_) | Value::Number(_) => digest(args[0].to_string()?.as_bytes()),
        _ => digest(b""),
    };
    lua.create_string(digest_text(&sha))
}

fn log(args: &MultiValue, state: &State) -> mlua::Result<()> {
    if args.len() < 2 {
        return failed("redis.log() requires two arguments or more.");
    }
    if !args[0].is_number() && !args[0].is_integer() {
        return failed("First argument must be a number (log level).");
    }
    let level = to_integer(&args[0]);
    if !(0..=3).contains(&level) {
        return failed("Invalid debug level.");
    }
    let Some(left_out) = state.next_line() else { return Ok(()) };
    if left_out > 0 {
        tracing::warn!("script: {left_out} lines were left out (lua-log-limit)");
    }
    let mut line = Vec::new();
    for word in args.iter().skip(1) {
        let space = if line.is_empty() { "" } else { " " };
        let left = LINE_MAX.saturating_sub(line.len() + space.len());
        match word {
            Value::String(text) => {
                let text = text.as_bytes();
                line.extend_from_slice(space.as_bytes());
                line.extend_from_slice(&text[..text.len().min(left)]);
            }
            Value::Integer(_) | Value::Number(_) => {
                line.extend_from_slice(space.as_bytes());
                line.extend_from_slice(word.to_string()?.as_bytes());
            }
            _ => {}
        }
    }
    line.truncate(LINE_MAX);
    // Escape line ends: a script must not be able to write several lines into the log.
    let text = String::from_utf8_lossy(&line).escape_debug().to_string();
    match level {
        0 => tracing::trace!("script: {text}"),
        1 => tracing::debug!("script: {text}"),
        2 => tracing::info!("script: {text}"),
        _ => tracing::warn!("script: {text}"),
    }
    Ok(())
}

fn setresp(args: &MultiValue, state: &State) -> mlua::Result<()> {
    if args.len() != 1 {
        return failed("redis.setresp() requires one argument.");
    }
    match to_integer(&args[0]) {
        2 => state.set_version(Version::Resp2),
        3 => state.set_version(Version::Resp3),
        _ => return failed("RESP version must be 2 or 3."),
    }
    Ok(())
}

/// `redis.set_repl`: checks its argument, and has no effect, because there are no replicas.
fn set_repl(args: &MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return failed("redis.set_repl() requires two arguments.");
    }
    match to_integer(&args[0]) {
        0..=3 => Ok(()),
        _ => {
            failed("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
        }
    }
}

/// The text of `redis.error_reply`. A text of one word gets the code ERR.
fn error_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let blank = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(0, |last| last + 1);
    let text = &text[..end];
    if text.contains(&b' ') { text.to_vec() } else { [b"ERR ", text].concat() }
}

/// Whether a function of the prelude runs at this level of the stack.
pub(super) fn is_prelude(lua: &Lua, level: usize) -> bool {
    let source = |frame: &Debug<'_>| frame.source().source.as_deref() == Some("=prelude");
    lua.inspect_stack(level, source).unwrap_or(false)
}

/// The current line of the script.
fn line(lua: &Lua) -> Option<usize> {
    (1..LEVELS_MAX).find_map(|level| line_at(lua, level))
}

/// The current line of the script, if the script runs at this level of the stack.
fn line_at(lua: &Lua, level: usize) -> Option<usize> {
    lua.inspect_stack(level, |frame| {
        let source = frame.source().source;
        let is_script = source.is_some_and(|source| source.strip_prefix('@') == Some(CHUNK));
        frame.current_line().filter(|_| is_script)
    })?
}
