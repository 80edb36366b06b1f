//! The `cjson` library: JSON for scripts, in the dialect of lua-cjson with its default settings.
//!
//! Output counts against the time and memory of the run: a few nested tables, each of which occurs several times, can
//! expand to a text of exponential length. Input is converted to Lua values while it is parsed.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::args::function;
use super::redis::refused;
use super::state::State;

/// Deepest nesting of tables that is encoded.
const DEPTH_MAX: usize = 128;

/// A table is too sparse for an array if its last index exceeds both `SPARSE_SAFE` and this multiple of its number of
/// items.
const SPARSE_RATIO: usize = 2;
const SPARSE_SAFE: usize = 10;

pub(super) fn functions(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("null", Value::NULL)?;
    let shared = Rc::clone(state);
    library.raw_set("encode", function(lua, move |lua, args| encode(lua, args, &shared))?)?;
    let shared = Rc::clone(state);
    library.raw_set("decode", function(lua, move |lua, args| decode(lua, args, &shared))?)?;
    Ok(library)
}

fn encode(lua: &Lua, args: &MultiValue, state: &State) -> mlua::Result<Value> {
    if args.len() != 1 {
        return refused(lua, "bad argument #1 to 'encode' (expected 1 argument)");
    }
    let mut encoder = Encoder { lua, state, text: Vec::new() };
    encoder.write(&args[0], 0)?;
    Ok(Value::String(lua.create_string(&encoder.text)?))
}

struct Encoder<'a> {
    lua: &'a Lua,
    state: &'a State,
    text: Vec<u8>,
}

impl Encoder<'_> {
    fn write(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.state.must_spend(1)?;
        self.state.must_fit(self.lua, self.text.len())?;
        match value {
            Value::Nil => self.text.extend_from_slice(b"null"),
            null if *null == Value::NULL => self.text.extend_from_slice(b"null"),
            Value::Boolean(truth) => self.text.extend_from_slice(truth.to_string().as_bytes()),
            Value::Integer(_) | Value::Number(_) => self.write_number(value)?,
            Value::String(string) => write_string(&string.as_bytes(), &mut self.text),
            Value::Table(_) if depth >= DEPTH_MAX => {
                let why = format!("Cannot serialise, excessive depth ({})", depth + 1);
                return refused(self.lua, why);
            }
            Value::Table(table) => match self.array_len(table)? {
                0 => self.write_object(table, depth)?,
                len => self.write_array(table, len, depth)?,
            },
            other => {
                let kind = other.type_name();
                return refused(self.lua, format!("Cannot serialise {kind}: type not supported"));
            }
        }
        Ok(())
    }

    fn write_number(&mut self, value: &Value) -> mlua::Result<()> {
        if value.as_f64().is_some_and(|number| !number.is_finite()) {
            return refused(self.lua, "Cannot serialise number: must not be NaN or Inf");
        }
        // As Lua formats numbers, with 14 digits.
        let number = self.lua.coerce_string(value.clone())?.expect("a number has a text");
        self.text.extend_from_slice(&number.as_bytes());
        Ok(())
    }

    /// The last index of a table that is an array; 0 for one that is an object.
    fn array_len(&self, table: &Table) -> mlua::Result<usize> {
        let (mut last, mut items) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            self.state.must_spend(1)?;
            match pair?.0 {
                Value::Integer(index) if index > 0 => last = last.max(index as usize),
                _ => return Ok(0),
            }
            items += 1;
        }
        if last > items * SPARSE_RATIO && last > SPARSE_SAFE {
            return refused(self.lua, "Cannot serialise table: excessively sparse array");
        }
        Ok(last)
    }

    fn write_array(&mut self, table: &Table, len: usize, depth: usize) -> mlua::Result<()> {
        self.text.push(b'[');
        for i in 1..=len {
            if i > 1 {
                self.text.push(b',');
            }
            self.write(&table.raw_get::<Value>(i)?, depth + 1)?;
        }
        self.text.push(b']');
        Ok(())
    }

    fn write_object(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.text.push(b'{');
        let start = self.text.len();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if self.text.len() > start {
                self.text.push(b',');
            }
            match &key {
                Value::String(key) => write_string(&key.as_bytes(), &mut self.text),
                Value::Integer(_) | Value::Number(_) => {
                    self.text.push(b'"');
                    self.write_number(&key)?;
                    self.text.push(b'"');
                }
                _ => {
                    let why = "Cannot serialise table: table key must be a number or string";
                    return refused(self.lua, why);
                }
            }
            self.text.push(b':');
            self.write(&value, depth + 1)?;
        }
        self.text.push(b'}');
        Ok(())
    }
}

fn write_string(string: &[u8], text: &mut Vec<u8>) {
    text.push(b'"');
    for byte in string {
        match byte {
            b'"' | b'\\' | b'/' => text.extend_from_slice(&[b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            0x08 => text.extend_from_slice(b"\\b"),
            0x0c => text.extend_from_slice(b"\\f"),
            0..0x20 | 0x7f => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
}

fn decode(lua: &Lua, args: &MultiValue, state: &State) -> mlua::Result<Value> {
    let text = match args.front() {
        Some(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_)))
            if args.len() == 1 =>
        {
            lua.coerce_string(value.clone())?.expect("strings and numbers have a text")
        }
        _ => return refused(lua, "bad argument #1 to 'decode' (string expected)"),
    };
    let text = text.as_bytes();
    let mut json = serde_json::Deserializer::from_slice(&text);
    let ended = Cell::new(None);
    let decoder = Decoder { lua, state, ended: &ended };
    let decoded = decoder.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    match (decoded, ended.take()) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(error)) => Err(error),
        (Err(error), None) => refused(lua, format!("Expected valid JSON: {error}")),
    }
}

/// Converts JSON to Lua values while `serde_json` parses it. The parser limits the nesting to 128.
#[derive(Clone, Copy)]
struct Decoder<'a> {
    lua: &'a Lua,
    state: &'a State,
    /// The error to raise if the failure is not due to the JSON text.
    ended: &'a Cell<Option<mlua::Error>>,
}

impl Decoder<'_> {
    fn check<T, E: serde::de::Error>(self, result: mlua::Result<T>) -> Result<T, E> {
        result.map_err(|error| {
            self.ended.set(Some(error));
            E::custom("the script ends")
        })
    }
}

impl<'de> DeserializeSeed<'de> for Decoder<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.check(self.state.must_spend(1))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Decoder<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Boolean(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(self.check(self.lua.create_string(text))?))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let table = self.check(self.lua.create_table())?;
        let mut i = 0;
        while let Some(item) = items.next_element_seed(self)? {
            i += 1;
            self.check(table.raw_set(i, item))?;
        }
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let table = self.check(self.lua.create_table())?;
        while let Some(name) = fields.next_key_seed(self)? {
            let field = fields.next_value_seed(self)?;
            self.check(table.raw_set(name, field))?;
        }
        Ok(Value::Table(table))
    }
}
