//! `cjson`: JSON for scripts, in the form of lua-cjson with its defaults.

use mlua::{Lua, MultiValue, Table, Value};
use serde_json::Value as Json;

use super::redis::refused;

/// Tables within tables that are encoded.
const DEPTH_MAX: usize = 128;

/// An array may have so many places for each of its items, beyond the first few.
const SPARSE_RATIO: usize = 2;
const SPARSE_SAFE: usize = 10;

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("encode", lua.create_function(|lua, args| encode(lua, &args))?)?;
    library.raw_set("decode", lua.create_function(|lua, args| decode(lua, &args))?)?;
    Ok(library)
}

fn encode(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    if args.len() != 1 {
        return refused(lua, "bad argument #1 to 'encode' (expected 1 argument)");
    }
    let mut text = Vec::new();
    match write(lua, &args[0], 0, &mut text) {
        Ok(()) => Ok(Value::String(lua.create_string(&text)?)),
        Err(why) => refused(lua, why),
    }
}

fn write(lua: &Lua, value: &Value, depth: usize, text: &mut Vec<u8>) -> Result<(), String> {
    match value {
        Value::Nil => text.extend_from_slice(b"null"),
        null if *null == Value::NULL => text.extend_from_slice(b"null"),
        Value::Boolean(truth) => text.extend_from_slice(truth.to_string().as_bytes()),
        Value::Integer(_) | Value::Number(_) => write_number(lua, value, text)?,
        Value::String(string) => write_string(&string.as_bytes(), text),
        Value::Table(_) if depth >= DEPTH_MAX => {
            return Err(format!("Cannot serialise, excessive depth ({})", depth + 1));
        }
        Value::Table(table) => match array_len(table)? {
            0 => write_object(lua, table, depth, text)?,
            len => write_array(lua, table, len, depth, text)?,
        },
        other => {
            return Err(format!("Cannot serialise {}: type not supported", other.type_name()));
        }
    }
    Ok(())
}

fn write_number(lua: &Lua, value: &Value, text: &mut Vec<u8>) -> Result<(), String> {
    if value.as_f64().is_some_and(|number| !number.is_finite()) {
        return Err("Cannot serialise number: must not be NaN or Inf".to_owned());
    }
    // As Lua writes numbers, with 14 digits.
    match lua.coerce_string(value.clone()) {
        Ok(Some(number)) => text.extend_from_slice(&number.as_bytes()),
        _ => return Err("Cannot serialise number".to_owned()),
    }
    Ok(())
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

/// The last index of a table that is an array; 0 of one that is an object.
fn array_len(table: &Table) -> Result<usize, String> {
    let (mut last, mut items) = (0, 0);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair.map_err(|error| error.to_string())?;
        match key {
            Value::Integer(index) if index > 0 => last = last.max(index as usize),
            _ => return Ok(0),
        }
        items += 1;
    }
    if last > items * SPARSE_RATIO && last > SPARSE_SAFE {
        return Err("Cannot serialise table: excessively sparse array".to_owned());
    }
    Ok(last)
}

fn write_array(
    lua: &Lua,
    table: &Table,
    len: usize,
    depth: usize,
    text: &mut Vec<u8>,
) -> Result<(), String> {
    text.push(b'[');
    for i in 1..=len {
        if i > 1 {
            text.push(b',');
        }
        let item = table.raw_get::<Value>(i).map_err(|error| error.to_string())?;
        write(lua, &item, depth + 1, text)?;
    }
    text.push(b']');
    Ok(())
}

fn write_object(lua: &Lua, table: &Table, depth: usize, text: &mut Vec<u8>) -> Result<(), String> {
    text.push(b'{');
    let start = text.len();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        if text.len() > start {
            text.push(b',');
        }
        match &key {
            Value::String(key) => write_string(&key.as_bytes(), text),
            Value::Integer(_) | Value::Number(_) => {
                text.push(b'"');
                write_number(lua, &key, text)?;
                text.push(b'"');
            }
            _ => {
                return Err(
                    "Cannot serialise table: table key must be a number or string".to_owned()
                );
            }
        }
        text.push(b':');
        write(lua, &value, depth + 1, text)?;
    }
    text.push(b'}');
    Ok(())
}

fn decode(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    let text = match args.front() {
        Some(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_)))
            if args.len() == 1 =>
        {
            lua.coerce_string(value.clone())?.expect("strings and numbers have a text")
        }
        _ => return refused(lua, "bad argument #1 to 'decode' (string expected)"),
    };
    let json: Json = match serde_json::from_slice(&text.as_bytes()) {
        Ok(json) => json,
        Err(error) => return refused(lua, format!("Expected valid JSON: {error}")),
    };
    read(lua, &json)
}

/// No deeper than the parser allows, which is 128.
fn read(lua: &Lua, json: &Json) -> mlua::Result<Value> {
    Ok(match json {
        Json::Null => Value::NULL,
        Json::Bool(truth) => Value::Boolean(*truth),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (i, item) in items.iter().enumerate() {
                table.raw_set(i + 1, read(lua, item)?)?;
            }
            Value::Table(table)
        }
        Json::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, field) in fields {
                table.raw_set(lua.create_string(name)?, read(lua, field)?)?;
            }
            Value::Table(table)
        }
    })
}
