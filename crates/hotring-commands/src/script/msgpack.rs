//! The `cmsgpack` library: MessagePack for scripts, in the dialect of lua-cmsgpack.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use super::args::function;
use super::redis::{refused, to_integer};
use super::state::State;

/// Deepest nesting of packed tables; deeper tables become nil.
const DEPTH_MAX: usize = 16;
/// Deepest nesting of arrays and maps that is unpacked.
const UNPACK_DEPTH_MAX: usize = 128;

pub(super) fn functions(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let add = |name: &str, f: fn(&Lua, &MultiValue, &State) -> mlua::Result<MultiValue>| {
        let shared = Rc::clone(state);
        library.raw_set(name, function(lua, move |lua, args| f(lua, args, &shared))?)
    };
    add("pack", pack)?;
    add("unpack", |lua, args, state| unpack(lua, args, state, usize::MAX, 0, false))?;
    add("unpack_one", |lua, args, state| {
        unpack(lua, args, state, 1, args.get(1).map_or(0, to_integer), true)
    })?;
    add("unpack_limit", |lua, args, state| {
        let count = args.get(1).map_or(0, to_integer);
        let start = args.get(2).map_or(0, to_integer);
        unpack(lua, args, state, usize::try_from(count).unwrap_or(0), start, true)
    })?;
    Ok(library)
}

fn pack(lua: &Lua, args: &MultiValue, state: &State) -> mlua::Result<MultiValue> {
    if args.is_empty() {
        return refused(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)");
    }
    let mut packer = Packer { lua, state, bytes: Vec::new() };
    for value in args {
        packer.write(value, 0)?;
    }
    Ok(MultiValue::from_vec(vec![Value::String(lua.create_string(&packer.bytes)?)]))
}

struct Packer<'a> {
    lua: &'a Lua,
    state: &'a State,
    bytes: Vec<u8>,
}

impl Packer<'_> {
    fn write(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.state.must_spend(1)?;
        self.state.must_fit(self.lua, self.bytes.len())?;
        let bytes = &mut self.bytes;
        match value {
            Value::Boolean(truth) => bytes.push(if *truth { 0xc3 } else { 0xc2 }),
            Value::Integer(number) => write_integer(*number, bytes),
            Value::Number(number) if f64::from(*number as f32) == *number => {
                sized(0xca, &(*number as f32).to_be_bytes(), bytes);
            }
            Value::Number(number) => sized(0xcb, &number.to_be_bytes(), bytes),
            Value::String(text) => {
                let text = text.as_bytes();
                match text.len() {
                    len @ 0..32 => bytes.push(0xa0 | len as u8),
                    len @ 32..0x100 => bytes.extend_from_slice(&[0xd9, len as u8]),
                    len => write_len(len, [0xda, 0xdb], bytes),
                }
                bytes.extend_from_slice(&text);
            }
            Value::Table(table) if depth < DEPTH_MAX => return self.write_table(table, depth),
            _ => bytes.push(0xc0),
        }
        Ok(())
    }

    /// Packs a table. Iterates over the table twice instead of collecting its contents: see [`super::args`].
    fn write_table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let (mut len, mut last, mut has_others) = (0, 0, false);
        for pair in table.pairs::<Value, Value>() {
            self.state.must_spend(1)?;
            match pair?.0 {
                Value::Integer(index) if index > 0 => last = last.max(index as usize),
                _ => has_others = true,
            }
            len += 1;
        }
        // A table is an array if its last index equals its number of items.
        let is_array = !has_others && last == len;
        let bytes = &mut self.bytes;
        match (is_array, len) {
            (true, len @ 0..16) => bytes.push(0x90 | len as u8),
            (true, len) => write_len(len, [0xdc, 0xdd], bytes),
            (false, len @ 0..16) => bytes.push(0x80 | len as u8),
            (false, len) => write_len(len, [0xde, 0xdf], bytes),
        }
        if is_array {
            return (1..=len).try_for_each(|i| self.write(&table.raw_get::<Value>(i)?, depth + 1));
        }
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.write(&key, depth + 1)?;
            self.write(&value, depth + 1)?;
        }
        Ok(())
    }
}

fn write_integer(number: i64, bytes: &mut Vec<u8>) {
    match number {
        0..0x80 => bytes.push(number as u8),
        -32..0 => bytes.push(number as i8 as u8),
        0x80..0x100 => bytes.extend_from_slice(&[0xcc, number as u8]),
        -0x80..-32 => bytes.extend_from_slice(&[0xd0, number as i8 as u8]),
        0x100..0x1_0000 => sized(0xcd, &(number as u16).to_be_bytes(), bytes),
        -0x8000..-0x80 => sized(0xd1, &(number as i16).to_be_bytes(), bytes),
        0x1_0000..0x1_0000_0000 => sized(0xce, &(number as u32).to_be_bytes(), bytes),
        -0x8000_0000..-0x8000 => sized(0xd2, &(number as i32).to_be_bytes(), bytes),
        0x1_0000_0000.. => sized(0xcf, &number.to_be_bytes(), bytes),
        _ => sized(0xd3, &number.to_be_bytes(), bytes),
    }
}

fn sized(kind: u8, number: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(kind);
    bytes.extend_from_slice(number);
}

/// Writes a length in 16 or 32 bits, after the type byte of that width.
fn write_len(len: usize, kinds: [u8; 2], bytes: &mut Vec<u8>) {
    match u16::try_from(len) {
        Ok(len) => sized(kinds[0], &len.to_be_bytes(), bytes),
        Err(_) => sized(kinds[1], &(len as u32).to_be_bytes(), bytes),
    }
}

/// Unpacks up to `count` values from `start` on. The first result is the offset of the next value if the script asked
/// for it, -1 at the end.
fn unpack(
    lua: &Lua,
    args: &MultiValue,
    state: &State,
    count: usize,
    start: i64,
    tells_next: bool,
) -> mlua::Result<MultiValue> {
    let refuse = |why: &str| refused(lua, why);
    let Some(Value::String(text)) = args.front() else {
        return refuse("bad argument #1 to 'unpack' (string expected)");
    };
    let text = text.as_bytes();
    let Some(mut rest) = usize::try_from(start).ok().and_then(|start| text.get(start..)) else {
        return refuse("Start offset greater than input length.");
    };
    let mut values = Vec::new();
    while !rest.is_empty() && values.len() < count {
        if values.len() >= VALUES_MAX {
            return refuse("too many values to unpack");
        }
        match read((lua, state), &mut rest, 0)? {
            Some(value) => values.push(value),
            None => return refuse("Bad data format in input."),
        }
    }
    let mut result = Vec::new();
    if tells_next {
        let next = if rest.is_empty() { -1 } else { (text.len() - rest.len()) as i64 };
        result.push(Value::Number(next as f64));
    }
    result.append(&mut values);
    Ok(MultiValue::from_vec(result))
}

/// Most results of one call: more values do not fit on Lua's stack.
const VALUES_MAX: usize = 7_000;

/// Reads one value. None if the data is invalid or truncated.
fn read(at: (&Lua, &State), rest: &mut &[u8], depth: usize) -> mlua::Result<Option<Value>> {
    at.1.must_spend(1)?;
    if depth > UNPACK_DEPTH_MAX {
        return Ok(None);
    }
    let Some([kind]) = take::<1>(rest) else { return Ok(None) };
    let number = |number: f64| Ok(Some(Value::Number(number)));
    macro_rules! fixed {
        ($type:ty) => {
            match take::<{ size_of::<$type>() }>(rest) {
                Some(bytes) => number(<$type>::from_be_bytes(bytes) as f64),
                None => Ok(None),
            }
        };
    }
    match kind {
        0..0x80 => number(f64::from(kind)),
        0xe0.. => number(f64::from(kind as i8)),
        0x80..0x90 => map(at, usize::from(kind & 0xf), rest, depth),
        0x90..0xa0 => array(at, usize::from(kind & 0xf), rest, depth),
        0xa0..0xc0 => string(at.0, Some(usize::from(kind & 0x1f)), rest),
        0xc0 => Ok(Some(Value::Nil)),
        0xc2 | 0xc3 => Ok(Some(Value::Boolean(kind == 0xc3))),
        0xca => fixed!(f32),
        0xcb => fixed!(f64),
        0xcc => fixed!(u8),
        0xcd => fixed!(u16),
        0xce => fixed!(u32),
        0xcf => fixed!(u64),
        0xd0 => fixed!(i8),
        0xd1 => fixed!(i16),
        0xd2 => fixed!(i32),
        0xd3 => fixed!(i64),
        0xc4 | 0xd9 => string(at.0, len::<1>(rest), rest),
        0xc5 | 0xda => string(at.0, len::<2>(rest), rest),
        0xc6 | 0xdb => string(at.0, len::<4>(rest), rest),
        0xdc | 0xdd => match if kind == 0xdc { len::<2>(rest) } else { len::<4>(rest) } {
            Some(len) => array(at, len, rest, depth),
            None => Ok(None),
        },
        0xde | 0xdf => match if kind == 0xde { len::<2>(rest) } else { len::<4>(rest) } {
            Some(len) => map(at, len, rest, depth),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

fn len<const N: usize>(rest: &mut &[u8]) -> Option<usize> {
    let bytes = take::<N>(rest)?;
    Some(bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
}

fn string(lua: &Lua, len: Option<usize>, rest: &mut &[u8]) -> mlua::Result<Option<Value>> {
    let Some((text, after)) = len.and_then(|len| rest.split_at_checked(len)) else {
        return Ok(None);
    };
    *rest = after;
    Ok(Some(Value::String(lua.create_string(text)?)))
}

fn array(
    at: (&Lua, &State),
    len: usize,
    rest: &mut &[u8],
    depth: usize,
) -> mlua::Result<Option<Value>> {
    let table = at.0.create_table()?;
    for i in 1..=len {
        let Some(item) = read(at, rest, depth + 1)? else { return Ok(None) };
        table.raw_set(i, item)?;
    }
    Ok(Some(Value::Table(table)))
}

fn map(
    at: (&Lua, &State),
    len: usize,
    rest: &mut &[u8],
    depth: usize,
) -> mlua::Result<Option<Value>> {
    let table = at.0.create_table()?;
    for _ in 0..len {
        let Some(key) = read(at, rest, depth + 1)? else { return Ok(None) };
        let Some(value) = read(at, rest, depth + 1)? else { return Ok(None) };
        if key.is_nil() || key.as_f64().is_some_and(f64::is_nan) {
            return Ok(None);
        }
        table.raw_set(key, value)?;
    }
    Ok(Some(Value::Table(table)))
}
