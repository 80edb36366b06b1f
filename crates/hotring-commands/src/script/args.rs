//! Collects and checks the arguments of Rust functions that scripts call, and raises Lua's errors for wrong ones.
//!
//! Each string or table that Rust holds occupies one of mlua's 8,000 reference slots. Running out of slots ends the
//! process, and so does filling Lua's stack completely. Hence every function must leave at least [`STACK_RESERVE`]
//! slots free, whatever its number of arguments, and must keep no reference after it returns.

use std::iter;

use mlua::{
    Error, FromLua, Function, IntoLua, IntoLuaMulti, Lua, MultiValue, String as Text, Value,
    Variadic,
};

use super::redis::{is_prelude, refused_at};

/// Slots that must stay free on Lua's stack and among the references: for the function itself, for its callers, and for
/// mlua's errors.
const STACK_RESERVE: usize = 300;

/// Wraps a function that scripts call with any arguments.
pub(super) fn function<R: IntoLuaMulti + 'static>(
    lua: &Lua,
    f: impl Fn(&Lua, &MultiValue) -> mlua::Result<R> + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, args: Bounded| f(lua, &collect(args)))
}

/// The arguments as mlua converts them. Converting the first one checks their number, before references to the others
/// exist.
pub(super) type Bounded = (First, MultiValue);

/// Collects all arguments. A call without arguments cannot be told from a call with a single nil.
pub(super) fn collect((First(first), mut rest): Bounded) -> MultiValue {
    if !(first.is_nil() && rest.is_empty()) {
        rest.push_front(first);
    }
    rest
}

/// As [`collect`], without moving the arguments.
pub(super) fn each((First(first), rest): &Bounded) -> impl Iterator<Item = &Value> {
    let is_nothing = first.is_nil() && rest.is_empty();
    iter::once(first).filter(move |_| !is_nothing).chain(rest)
}

/// The first argument.
pub(super) struct First(Value);

impl FromLua for First {
    fn from_lua(value: Value, lua: &Lua) -> mlua::Result<First> {
        if has_stack_space(lua)? {
            Ok(First(value))
        } else {
            super::redis::refused(lua, "too many arguments")
        }
    }
}

/// A function that only [`has_stack_space`] calls.
struct Probe(Function);

/// Creates the probe of [`has_stack_space`]; must run before any script.
pub(super) fn prepare(lua: &Lua) -> mlua::Result<()> {
    let probe = lua.create_function(|_, ()| Ok(()))?;
    lua.set_app_data(Probe(probe));
    Ok(())
}

/// Whether [`STACK_RESERVE`] more values fit on Lua's stack. mlua checks the space before it pushes the arguments of a
/// call; the first argument here fails to convert, which ends the call.
fn has_stack_space(lua: &Lua) -> mlua::Result<bool> {
    let probe = lua.app_data_ref::<Probe>().ok_or(Error::CallbackDestructed)?;
    let asked = probe.0.call::<()>(Variadic::from(vec![Nothing; STACK_RESERVE]));
    Ok(!matches!(asked, Err(Error::StackError)))
}

/// An argument whose conversion fails.
#[derive(Clone)]
struct Nothing;

impl IntoLua for Nothing {
    fn into_lua(self, _: &Lua) -> mlua::Result<Value> {
        Err(Error::CallbackDestructed)
    }
}

/// Raises Lua's error for argument `i`, counted from 0. As in Lua, a method call does not count its object.
pub(super) fn bad_argument<T>(lua: &Lua, i: usize, why: &str) -> mlua::Result<T> {
    // Find the function that the script called: functions of the prelude may lie in between.
    let level = (1..).take_while(|level| is_prelude(lua, *level)).last().unwrap_or(0);
    let names = lua.inspect_stack(level, |frame| {
        let names = frame.names();
        (names.name.map(|name| name.into_owned()), names.name_what == Some("method"))
    });
    let (name, is_method) = names.unwrap_or((None, false));
    let name = name.unwrap_or_else(|| "?".to_owned());
    let text = match i + usize::from(!is_method) {
        0 => format!("calling '{name}' on bad self ({why})"),
        number => format!("bad argument #{number} to '{name}' ({why})"),
    };
    refused_at(lua, level + 1, text)
}

pub(super) fn wrong_type<T>(
    lua: &Lua,
    args: &MultiValue,
    i: usize,
    expected: &str,
) -> mlua::Result<T> {
    let got = args.get(i).map_or("no value", type_name);
    bad_argument(lua, i, &format!("{expected} expected, got {got}"))
}

/// The type name that scripts see.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// Argument `i` as a string; a number is converted.
pub(super) fn text(lua: &Lua, args: &MultiValue, i: usize) -> mlua::Result<Text> {
    match args.get(i) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            Ok(lua.coerce_string(number.clone())?.expect("a number has a text"))
        }
        _ => wrong_type(lua, args, i, "string"),
    }
}

/// Argument `i` as an integer, converted as in C; `default` if the argument is missing.
pub(super) fn integer(
    lua: &Lua,
    args: &MultiValue,
    i: usize,
    default: Option<i64>,
) -> mlua::Result<i64> {
    match (args.get(i), default) {
        (None | Some(Value::Nil), Some(default)) => Ok(default),
        (Some(Value::Integer(number)), _) => Ok(*number),
        (Some(value @ (Value::Number(_) | Value::String(_))), _) => {
            match lua.coerce_number(value.clone())? {
                Some(number) if number.abs() < i64::MAX as f64 => Ok(number as i64),
                Some(_) => Ok(i64::MIN),
                None => wrong_type(lua, args, i, "number"),
            }
        }
        _ => wrong_type(lua, args, i, "number"),
    }
}
