//! `cmsgpack`: MessagePack for scripts, in the form of lua-cmsgpack.

use mlua::{Lua, MultiValue, Table, Value};

use super::redis::{refused, whole};

/// Tables within tables that are packed; what lies deeper becomes nil.
const DEPTH_MAX: usize = 16;
/// Arrays and maps within each other that are unpacked.
const UNPACK_DEPTH_MAX: usize = 128;

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("pack", lua.create_function(|lua, args| pack(lua, &args))?)?;
    let all = |lua: &Lua, args: MultiValue| unpack(lua, &args, usize::MAX, 0, false);
    library.raw_set("unpack", lua.create_function(all)?)?;
    let one = |lua: &Lua, args: MultiValue| {
        let start = args.get(1).map_or(0, whole);
        unpack(lua, &args, 1, start, true)
    };
    library.raw_set("unpack_one", lua.create_function(one)?)?;
    let some = |lua: &Lua, args: MultiValue| {
        let count = args.get(1).map_or(0, whole);
        let start = args.get(2).map_or(0, whole);
        unpack(lua, &args, usize::try_from(count).unwrap_or(0), start, true)
    };
    library.raw_set("unpack_limit", lua.create_function(some)?)?;
    Ok(library)
}

fn pack(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    if args.is_empty() {
        return refused(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)");
    }
    let mut bytes = Vec::new();
    for value in args {
        write(value, 0, &mut bytes)?;
    }
    Ok(Value::String(lua.create_string(&bytes)?))
}

fn write(value: &Value, depth: usize, bytes: &mut Vec<u8>) -> mlua::Result<()> {
    match value {
        Value::Boolean(truth) => bytes.push(if *truth { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => write_integer(*number, bytes),
        Value::Number(number) if f64::from(*number as f32) == *number => {
            bytes.push(0xca);
            bytes.extend_from_slice(&(*number as f32).to_be_bytes());
        }
        Value::Number(number) => {
            bytes.push(0xcb);
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        Value::String(text) => {
            let text = text.as_bytes();
            match text.len() {
                len @ 0..32 => bytes.push(0xa0 | len as u8),
                len @ 32..0x100 => bytes.extend_from_slice(&[0xd9, len as u8]),
                len => write_len(len, [0xda, 0xdb], bytes),
            }
            bytes.extend_from_slice(&text);
        }
        Value::Table(table) if depth < DEPTH_MAX => return write_table(table, depth, bytes),
        _ => bytes.push(0xc0),
    }
    Ok(())
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

/// A length in 16 or 32 bits.
fn write_len(len: usize, kinds: [u8; 2], bytes: &mut Vec<u8>) {
    match u16::try_from(len) {
        Ok(len) => sized(kinds[0], &len.to_be_bytes(), bytes),
        Err(_) => sized(kinds[1], &(len as u32).to_be_bytes(), bytes),
    }
}

fn write_table(table: &Table, depth: usize, bytes: &mut Vec<u8>) -> mlua::Result<()> {
    let pairs: Vec<(Value, Value)> = table.pairs().collect::<mlua::Result<_>>()?;
    let is_index =
        |key: &Value| matches!(key, Value::Integer(i) if (1..=pairs.len() as i64).contains(i));
    let is_array = pairs.iter().all(|(key, _)| is_index(key));
    match (is_array, pairs.len()) {
        (true, len @ 0..16) => bytes.push(0x90 | len as u8),
        (true, len) => write_len(len, [0xdc, 0xdd], bytes),
        (false, len @ 0..16) => bytes.push(0x80 | len as u8),
        (false, len) => write_len(len, [0xde, 0xdf], bytes),
    }
    if is_array {
        return (1..=pairs.len())
            .try_for_each(|i| write(&table.raw_get::<Value>(i)?, depth + 1, bytes));
    }
    for (key, value) in &pairs {
        write(key, depth + 1, bytes)?;
        write(value, depth + 1, bytes)?;
    }
    Ok(())
}

/// Unpacks up to `count` values from `start` on; where the next begins comes first, if it is asked for:
/// -1 at the end.
fn unpack(
    lua: &Lua,
    args: &MultiValue,
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
        match read(lua, &mut rest, 0)? {
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

/// More do not fit on Lua's stack.
const VALUES_MAX: usize = 7_000;

/// Reads one value; None if the data is not right or ends in the middle.
fn read(lua: &Lua, rest: &mut &[u8], depth: usize) -> mlua::Result<Option<Value>> {
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
        0x80..0x90 => map(lua, usize::from(kind & 0xf), rest, depth),
        0x90..0xa0 => array(lua, usize::from(kind & 0xf), rest, depth),
        0xa0..0xc0 => string(lua, Some(usize::from(kind & 0x1f)), rest),
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
        0xc4 | 0xd9 => string(lua, len::<1>(rest), rest),
        0xc5 | 0xda => string(lua, len::<2>(rest), rest),
        0xc6 | 0xdb => string(lua, len::<4>(rest), rest),
        0xdc | 0xdd => match if kind == 0xdc { len::<2>(rest) } else { len::<4>(rest) } {
            Some(len) => array(lua, len, rest, depth),
            None => Ok(None),
        },
        0xde | 0xdf => match if kind == 0xde { len::<2>(rest) } else { len::<4>(rest) } {
            Some(len) => map(lua, len, rest, depth),
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

fn array(lua: &Lua, len: usize, rest: &mut &[u8], depth: usize) -> mlua::Result<Option<Value>> {
    let table = lua.create_table()?;
    for i in 1..=len {
        let Some(item) = read(lua, rest, depth + 1)? else { return Ok(None) };
        table.raw_set(i, item)?;
    }
    Ok(Some(Value::Table(table)))
}

fn map(lua: &Lua, len: usize, rest: &mut &[u8], depth: usize) -> mlua::Result<Option<Value>> {
    let table = lua.create_table()?;
    for _ in 0..len {
        let Some(key) = read(lua, rest, depth + 1)? else { return Ok(None) };
        let Some(value) = read(lua, rest, depth + 1)? else { return Ok(None) };
        if key.is_nil() || key.as_f64().is_some_and(f64::is_nan) {
            return Ok(None);
        }
        table.raw_set(key, value)?;
    }
    Ok(Some(Value::Table(table)))
}
