//! The `bit` library: bitwise operations on numbers, as in LuaJIT's BitOp.

use mlua::{Lua, MultiValue, Table, Value};

use super::args::{function, wrong_type};

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add(lua, &library, "tobit", |args| args.first().copied())?;
    add(lua, &library, "bnot", |args| args.first().map(|n| !n))?;
    add(lua, &library, "bswap", |args| args.first().map(|n| n.swap_bytes()))?;
    add(lua, &library, "band", |args| args.iter().copied().reduce(|a, b| a & b))?;
    add(lua, &library, "bor", |args| args.iter().copied().reduce(|a, b| a | b))?;
    add(lua, &library, "bxor", |args| args.iter().copied().reduce(|a, b| a ^ b))?;
    add(lua, &library, "lshift", |args| shift(args, |n, by| n << by))?;
    add(lua, &library, "rshift", |args| shift(args, |n, by| n >> by))?;
    add(lua, &library, "arshift", |args| shift(args, |n, by| (n as i32 >> by) as u32))?;
    add(lua, &library, "rol", |args| shift(args, u32::rotate_left))?;
    add(lua, &library, "ror", |args| shift(args, u32::rotate_right))?;
    library.raw_set("tohex", function(lua, tohex)?)?;
    Ok(library)
}

/// Shift distances are taken modulo 32.
fn shift(args: &[u32], f: impl Fn(u32, u32) -> u32) -> Option<u32> {
    args.first().zip(args.get(1)).map(|(n, by)| f(*n, by & 31))
}

fn add(
    lua: &Lua,
    library: &Table,
    name: &str,
    f: impl Fn(&[u32]) -> Option<u32> + 'static,
) -> mlua::Result<()> {
    let run = move |lua: &Lua, args: &MultiValue| -> mlua::Result<Value> {
        let mut numbers = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            match bits(lua, arg) {
                Some(number) => numbers.push(number),
                None => return wrong_type(lua, args, i, "number"),
            }
        }
        match f(&numbers) {
            Some(result) => Ok(Value::Number(f64::from(result as i32))),
            None => wrong_type(lua, args, numbers.len(), "number"),
        }
    };
    library.raw_set(name, function(lua, run)?)
}

/// The lowest 32 bits of a number, or of a string that contains a number.
fn bits(lua: &Lua, value: &Value) -> Option<u32> {
    let number = lua.coerce_number(value.clone()).ok().flatten()?;
    Some(number.round_ties_even() as i64 as u32)
}

/// `bit.tohex`. A negative number of digits asks for upper case.
fn tohex(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    let Some(n) = args.front().and_then(|arg| bits(lua, arg)) else {
        return wrong_type(lua, args, 0, "number");
    };
    let digits = match args.get(1) {
        None => 8,
        Some(arg) => match bits(lua, arg) {
            Some(digits) => digits as i32,
            None => return wrong_type(lua, args, 1, "number"),
        },
    };
    let len = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{n:08X}") } else { format!("{n:08x}") };
    Ok(Value::String(lua.create_string(&text[8 - len..])?))
}
