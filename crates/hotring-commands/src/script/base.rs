//! Replaces Lua's `pairs`, `next`, `rawget` and `rawset`, so that scripts cannot change the tables of libraries. A
//! script sees only a stand-in of such a table; the original is behind it. The functions must be native ones: then the
//! line of their caller is known even if the call is a tail call.

use mlua::{Error, Function, Lua, MultiValue, Table, Value};

use super::args::{bad_argument, function, wrong_type};
use super::redis::Raised;

/// Keys in Lua's registry: of the map from stand-ins to originals, and of Lua's own `next`.
const BEHIND: &str = "tables behind others";
const NEXT: &str = "next";

/// The error of a change of a library's table.
const READ_ONLY: &str = "Attempt to modify a readonly table";

/// The functions for the prelude. `behind` is the map from stand-ins to originals.
pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let (behind, weak) = (lua.create_table()?, lua.create_table()?);
    weak.raw_set("__mode", "k")?;
    behind.set_metatable(Some(weak))?;
    lua.set_named_registry_value(BEHIND, &behind)?;
    lua.set_named_registry_value(NEXT, lua.globals().raw_get::<Function>("next")?)?;
    let base = lua.create_table()?;
    base.raw_set("behind", behind)?;
    base.raw_set("pairs", function(lua, pairs)?)?;
    base.raw_set("next", function(lua, next)?)?;
    base.raw_set("rawget", function(lua, rawget)?)?;
    base.raw_set("rawset", function(lua, rawset)?)?;
    Ok(base)
}

/// The first argument, which must be a table, and its original if the table is a stand-in.
fn table(lua: &Lua, args: &MultiValue) -> mlua::Result<(Table, Option<Table>)> {
    let Some(Value::Table(table)) = args.front() else { return wrong_type(lua, args, 0, "table") };
    Ok((table.clone(), original(lua, table)?))
}

/// The original of a stand-in; None for any other table.
fn original(lua: &Lua, table: &Table) -> mlua::Result<Option<Table>> {
    let behind: Table = lua.named_registry_value(BEHIND)?;
    behind.raw_get(table)
}

/// Raises an error if the table is a stand-in: all later scripts would find what is added to it.
pub(super) fn must_be_writable(lua: &Lua, table: &Table) -> mlua::Result<()> {
    // Each stand-in has a metatable, and few other tables have.
    if table.metatable().is_some() && original(lua, table)?.is_some() {
        return raised(READ_ONLY);
    }
    Ok(())
}

/// `pairs`. It iterates over a copy of a library's table, because scripts get the table that is iterated.
fn pairs(lua: &Lua, args: &MultiValue) -> mlua::Result<(Function, Table, Value)> {
    // A single nil looks like no argument, and is a common mistake in scripts, so the error names nil.
    if args.is_empty() {
        return bad_argument(lua, 0, "table expected, got nil");
    }
    let (mut walked, behind) = table(lua, args)?;
    if let Some(behind) = behind {
        walked = lua.create_table()?;
        behind.for_each(|key: Value, value: Value| walked.raw_set(key, value))?;
    }
    Ok((lua.named_registry_value(NEXT)?, walked, Value::Nil))
}

fn next(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let (shown, behind) = table(lua, args)?;
    let key = args.get(1).cloned().unwrap_or(Value::Nil);
    let next: Function = lua.named_registry_value(NEXT)?;
    let found = next.call((behind.unwrap_or(shown), key));
    found.or_else(|error| match error {
        Error::RuntimeError(_) => raised("invalid key to 'next'"),
        error => Err(error),
    })
}

fn rawget(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    let (shown, behind) = table(lua, args)?;
    match args.get(1) {
        Some(key) => behind.unwrap_or(shown).raw_get(key),
        None => bad_argument(lua, 1, "value expected"),
    }
}

fn rawset(lua: &Lua, args: &MultiValue) -> mlua::Result<Table> {
    let (shown, behind) = table(lua, args)?;
    if behind.is_some() {
        return raised(READ_ONLY);
    }
    match (args.get(1), args.get(2)) {
        (None, _) => bad_argument(lua, 1, "value expected"),
        (_, None) => bad_argument(lua, 2, "value expected"),
        (Some(Value::Nil), _) => raised("table index is nil"),
        (Some(Value::Number(number)), _) if number.is_nan() => raised("table index is NaN"),
        (Some(key), Some(value)) => {
            shown.raw_set(key, value)?;
            Ok(shown)
        }
    }
}

/// Raises an error without a line number, as Lua does for errors within its own C functions.
fn raised<T>(why: &str) -> mlua::Result<T> {
    Err(Error::external(Raised::Text(why.into())))
}
