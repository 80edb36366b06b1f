//! Converts Lua values to arguments and replies, and replies to Lua values, by Redis's rules.

use std::cell::Cell;
use std::fmt::Write;

use hotring_protocol::{ArgsView, KeptArgs, Part, Version, Writer, read_part};
use mlua::{Lua, Table, Value};

use crate::observe::counters::Counters;
use crate::state::failure::Failure;

/// Deepest nesting of tables in a reply. Redis stops where Lua's stack ends.
const DEPTH_MAX: usize = 128;

/// The field of an error table that tells that the error has been counted. Scripts may see it, so the name is Redis's.
const COUNTED: &str = "ignore_error_stats_update";

/// Approximate memory of a string in Lua beyond its bytes.
const STRING_LEN: usize = 32;

/// Approximate memory of a table of these strings.
pub(super) fn len(texts: ArgsView<'_>) -> usize {
    texts.iter().map(|text| STRING_LEN + text.len()).sum()
}

/// A table of strings.
pub(super) fn strings(lua: &Lua, texts: ArgsView<'_>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(texts.len(), 0)?;
    for (i, text) in texts.iter().enumerate() {
        table.raw_set(i + 1, lua.create_string(text)?)?;
    }
    Ok(table)
}

/// Adds a value to a request; false if it is neither a string nor a number.
pub(super) fn add_argument(value: &Value, request: &mut KeptArgs) -> bool {
    match value {
        Value::String(text) => request.add(&text.as_bytes()),
        Value::Integer(number) => request.add(number.to_string().as_bytes()),
        Value::Number(number) => request.add(decimal(*number).as_bytes()),
        _ => return false,
    }
    true
}

/// The shortest text that parses to the same number, with an exponent where Redis uses one.
fn decimal(number: f64) -> String {
    if !number.is_finite() {
        let text = if number.is_nan() { "nan" } else { "inf" };
        return if number < 0.0 { format!("-{text}") } else { text.to_owned() };
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("and it is a number");
    let n_digits = digits.bytes().filter(u8::is_ascii_digit).count() as i32;
    let last = exponent - n_digits + 1;
    let is_short =
        if last >= 0 { exponent < n_digits + 7 } else { last > -7 || exponent.abs() < 4 };
    let sign = if exponent < 0 { '-' } else { '+' };
    if is_short { number.to_string() } else { format!("{digits}e{sign}{}", exponent.abs()) }
}

/// Converts an encoded reply to a Lua value.
pub(super) fn from_reply(lua: &Lua, mut reply: &[u8]) -> mlua::Result<Value> {
    read(lua, &mut reply)
}

fn read(lua: &Lua, rest: &mut &[u8]) -> mlua::Result<Value> {
    let part = read_part(rest).expect("what the server replies can be read");
    match part {
        Part::Simple(text) => tagged(lua, "ok", lua.create_string(text)?),
        Part::Error(text) => error_table(lua, text, true),
        // Lua 5.1 has no integers, only doubles.
        Part::Int(number) => Ok(Value::Number(number as f64)),
        Part::Bulk(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Part::Absent => Ok(Value::Boolean(false)),
        Part::Null => Ok(Value::Nil),
        Part::Boolean(truth) => Ok(Value::Boolean(truth)),
        Part::Double(number) => tagged(lua, "double", number),
        Part::BigNumber(digits) => tagged(lua, "big_number", lua.create_string(digits)?),
        Part::Verbatim(format, bytes) => {
            let text = lua.create_table()?;
            text.raw_set("format", lua.create_string(format)?)?;
            text.raw_set("string", lua.create_string(bytes)?)?;
            tagged(lua, "verbatim_string", text)
        }
        Part::Array(len) | Part::Push(len) => {
            let table = lua.create_table_with_capacity(len, 0)?;
            for i in 1..=len {
                table.raw_set(i, read(lua, rest)?)?;
            }
            Ok(Value::Table(table))
        }
        Part::Map(len) => {
            let map = lua.create_table()?;
            for _ in 0..len {
                let key = read(lua, rest)?;
                map.raw_set(key, read(lua, rest)?)?;
            }
            tagged(lua, "map", map)
        }
        Part::Set(len) => {
            let set = lua.create_table()?;
            for _ in 0..len {
                set.raw_set(read(lua, rest)?, true)?;
            }
            tagged(lua, "set", set)
        }
        Part::Attribute(_) => unreachable!("the server writes no attributes"),
    }
}

/// The error that `redis.call` raises and `redis.pcall` returns.
pub(super) fn error_table(lua: &Lua, text: &[u8], is_counted: bool) -> mlua::Result<Value> {
    let error = tagged(lua, "err", lua.create_string(text)?)?;
    if let (Value::Table(table), true) = (&error, is_counted) {
        table.raw_set(COUNTED, true)?;
    }
    Ok(error)
}

/// Whether an error has been counted with its command.
pub(super) fn is_counted(error: &Table) -> bool {
    matches!(error.raw_get(COUNTED), Ok(Value::Boolean(true)))
}

fn tagged(lua: &Lua, tag: &str, value: impl mlua::IntoLua) -> mlua::Result<Value> {
    Ok(Value::Table(lua.create_table_from([(tag, value)])?))
}

/// Writes the result of a script as a reply. `script` is the RESP version that the script uses. Returns whether the
/// result contains errors, which this function counts.
pub(super) fn write_reply(
    value: &Value,
    script: Version,
    len_max: usize,
    counters: &Counters,
    reply: &mut Writer<'_>,
) -> Result<bool, Failure> {
    let answer = Answer { script, len_max, counters, has_errors: Cell::new(false) };
    answer.write(value, 0, reply)?;
    Ok(answer.has_errors.get())
}

struct Answer<'a> {
    script: Version,
    len_max: usize,
    counters: &'a Counters,
    has_errors: Cell<bool>,
}

impl Answer<'_> {
    fn write(&self, value: &Value, depth: usize, reply: &mut Writer<'_>) -> Result<(), Failure> {
        if reply.written() > self.len_max {
            return Err(Failure::ReplyTooLong);
        }
        match value {
            Value::String(text) => reply.bulk(&text.as_bytes()),
            Value::Integer(number) => reply.int(*number),
            Value::Number(number) => reply.int(*number as i64),
            Value::Boolean(truth) if self.script == Version::Resp3 => reply.boolean(*truth),
            Value::Boolean(true) => reply.int(1),
            Value::Table(table) if depth < DEPTH_MAX => return self.table(table, depth, reply),
            Value::Table(_) => return Err(Failure::text("ERR reached lua stack limit")),
            _ => reply.null(),
        }
        Ok(())
    }

    fn table(&self, table: &Table, depth: usize, reply: &mut Writer<'_>) -> Result<(), Failure> {
        let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let Value::String(text) = field("err") {
            reply.error(&*text.as_bytes());
            self.has_errors.set(true);
            if !is_counted(table) {
                self.counters.error(&text.to_string_lossy());
            }
        } else if let Value::String(text) = field("ok") {
            reply.simple(&*text.as_bytes());
        } else if let Some(number) = number(&field("double")) {
            reply.double(number);
        } else if let Value::Table(map) = field("map") {
            self.pairs(&map, true, depth, reply)?;
        } else if let Value::Table(set) = field("set") {
            self.pairs(&set, false, depth, reply)?;
        } else if let Value::String(digits) = field("big_number") {
            reply.big_number(&digits.as_bytes());
        } else if let Value::Table(text) = field("verbatim_string") {
            verbatim(&text, reply);
        } else {
            self.sequence(table, depth, reply)?;
        }
        Ok(())
    }

    /// Writes an array of the elements before the first nil.
    fn sequence(&self, table: &Table, depth: usize, reply: &mut Writer<'_>) -> Result<(), Failure> {
        let item = |i: usize| table.raw_get::<Value>(i).unwrap_or(Value::Nil);
        let mut len = 0;
        while !item(len + 1).is_nil() {
            len += 1;
        }
        reply.array(len);
        (1..=len).try_for_each(|i| self.write(&item(i), depth + 1, reply))
    }

    /// Writes a map, or a set of its keys.
    fn pairs(
        &self,
        table: &Table,
        is_map: bool,
        depth: usize,
        reply: &mut Writer<'_>,
    ) -> Result<(), Failure> {
        let broken = |_| Failure::text("ERR a script's reply cannot be read");
        // The pairs are counted first, because they cannot all be kept: see `args`.
        let len = table.pairs::<Value, Value>().count();
        if is_map {
            reply.map(len);
        } else {
            reply.set(len);
        }
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(broken)?;
            self.write(&key, depth + 1, reply)?;
            if is_map {
                self.write(&value, depth + 1, reply)?;
            }
        }
        Ok(())
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

fn verbatim(text: &Table, reply: &mut Writer<'_>) {
    let field = |name: &str| match text.raw_get::<Value>(name) {
        Ok(Value::String(text)) => String::from_utf8_lossy(&text.as_bytes()).into_owned(),
        _ => String::new(),
    };
    let mut format = String::new();
    // RESP requires a format of three letters.
    write!(format, "{:.3}", field("format")).expect("a String takes every write");
    if format.len() == 3 {
        reply.verbatim(&format, &field("string"));
    } else {
        reply.verbatim("txt", &field("string"));
    }
}
