//! The `struct` library: packs numbers and strings into bytes of a given layout, as Lua's library of that name does.
//!
//! ```text
//!   > < =   big, little, native order          x   one byte of padding
//!   !n      alignment to at most n             b B h H i I l L T    integers; in and In have n bytes
//!   f d     floating point                     s   a string that ends with a zero byte
//!                                              cn  n bytes; c0 as many as the number before says
//! ```

use mlua::{Lua, MultiValue, Table, Value};

use super::args::function;
use super::redis::{refused, to_integer};

/// Widest integer, in bytes.
const INT_LEN_MAX: usize = 8;
/// Alignment of `!` without a number, in bytes.
const ALIGN_DEFAULT: usize = 8;

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("pack", function(lua, pack)?)?;
    library.raw_set("unpack", function(lua, unpack)?)?;
    library.raw_set("size", function(lua, size)?)?;
    Ok(library)
}

/// One item of a format.
#[derive(Clone, Copy)]
enum Item {
    Padding,
    Int {
        len: usize,
        signed: bool,
    },
    Float,
    Double,
    /// A string that ends with a zero byte.
    Text,
    /// Bytes of this length. 0 means the entire string when packing, and the length in the previous number when
    /// unpacking.
    Bytes(usize),
}

/// A parser of formats.
struct Format<'a> {
    rest: &'a [u8],
    is_little: bool,
    align: usize,
}

impl<'a> Format<'a> {
    fn new(format: &'a [u8]) -> Self {
        Format { rest: format, is_little: cfg!(target_endian = "little"), align: 1 }
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        // A number with too many digits becomes the maximum, which no data can satisfy.
        let number = std::str::from_utf8(text).ok().map(|text| text.parse().unwrap_or(usize::MAX));
        number.filter(|_| digits > 0)
    }

    /// The next item; None at the end.
    fn next(&mut self) -> Result<Option<Item>, String> {
        loop {
            let Some((letter, rest)) = self.rest.split_first() else { return Ok(None) };
            self.rest = rest;
            let int = |len, signed| Ok(Some(Item::Int { len, signed }));
            return match letter {
                b' ' => continue,
                b'<' | b'>' | b'=' => {
                    self.is_little = match letter {
                        b'=' => cfg!(target_endian = "little"),
                        letter => *letter == b'<',
                    };
                    continue;
                }
                b'!' => {
                    self.align = self.number().unwrap_or(ALIGN_DEFAULT);
                    if !self.align.is_power_of_two() {
                        return Err("alignment is not a power of 2".to_owned());
                    }
                    continue;
                }
                b'x' => Ok(Some(Item::Padding)),
                b'b' => int(1, true),
                b'B' => int(1, false),
                b'h' => int(2, true),
                b'H' => int(2, false),
                b'l' => int(8, true),
                b'L' | b'T' => int(8, false),
                b'i' | b'I' => match self.number().unwrap_or(4) {
                    len @ 1..=INT_LEN_MAX => int(len, *letter == b'i'),
                    len => {
                        Err(format!("integral size {len} is larger than limit of {INT_LEN_MAX}"))
                    }
                },
                b'f' => Ok(Some(Item::Float)),
                b'd' => Ok(Some(Item::Double)),
                b's' => Ok(Some(Item::Text)),
                b'c' => Ok(Some(Item::Bytes(self.number().unwrap_or(1)))),
                other => Err(format!("invalid format option '{}'", other.escape_ascii())),
            };
        }
    }

    /// Number of padding bytes before an item at offset `at`.
    fn padding(&self, item: Item, at: usize) -> usize {
        let len = match item {
            Item::Int { len, .. } => len,
            Item::Float => 4,
            Item::Double => 8,
            _ => return 0,
        };
        let align = len.min(self.align);
        if align > 1 && align.is_power_of_two() { at.wrapping_neg() & (align - 1) } else { 0 }
    }
}

/// The first argument, the format.
fn format(args: &MultiValue) -> Option<Vec<u8>> {
    match args.front() {
        Some(Value::String(format)) => Some(format.as_bytes().to_vec()),
        _ => None,
    }
}

fn no_format(lua: &Lua, name: &str) -> mlua::Result<Value> {
    refused(lua, format!("bad argument #1 to '{name}' (string expected)"))
}

fn pack(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    let Some(text) = format(args) else { return no_format(lua, "pack") };
    let mut format = Format::new(&text);
    let mut bytes = Vec::new();
    let mut values = args.iter().skip(1);
    loop {
        let item = match format.next() {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(Value::String(lua.create_string(&bytes)?)),
            Err(why) => return refused(lua, why),
        };
        bytes.resize(bytes.len() + format.padding(item, bytes.len()), 0);
        if matches!(item, Item::Padding) {
            bytes.push(0);
            continue;
        }
        let Some(value) = values.next() else {
            return refused(lua, "bad argument to 'pack' (no value)");
        };
        if let Err(why) = put(lua, item, value, format.is_little, &mut bytes) {
            return refused(lua, why);
        }
    }
}

fn put(
    lua: &Lua,
    item: Item,
    value: &Value,
    is_little: bool,
    bytes: &mut Vec<u8>,
) -> Result<(), String> {
    let wrong = |kind: &str| format!("bad argument to 'pack' ({kind} expected)");
    let number = || lua.coerce_number(value.clone()).ok().flatten().ok_or(wrong("number"));
    let mut add = |mut number: Vec<u8>| {
        if !is_little {
            number.reverse();
        }
        bytes.append(&mut number);
    };
    match item {
        // From 2^63 on, the `i64` holds the bits of an unsigned number, not its value.
        Item::Int { len, signed } => {
            let number = number()?;
            let number = if signed || number < 0.0 { number as i64 } else { number as u64 as i64 };
            add(number.to_le_bytes()[..len].to_vec());
        }
        Item::Float => add((number()? as f32).to_le_bytes().to_vec()),
        Item::Double => add(number()?.to_le_bytes().to_vec()),
        Item::Text | Item::Bytes(_) => {
            let text = lua.coerce_string(value.clone()).ok().flatten().ok_or(wrong("string"))?;
            let text = text.as_bytes();
            match item {
                Item::Bytes(0) => bytes.extend_from_slice(&text),
                Item::Bytes(len) => {
                    let part =
                        text.get(..len).ok_or("bad argument to 'pack' (string too short)")?;
                    bytes.extend_from_slice(part);
                }
                _ => {
                    bytes.extend_from_slice(&text);
                    bytes.push(0);
                }
            }
        }
        Item::Padding => {}
    }
    Ok(())
}

/// `struct.unpack`: returns the values, followed by the position of the next one.
fn unpack(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let refuse = |why: &str| refused(lua, why);
    let (Some(text), Some(Value::String(data))) = (format(args), args.get(1)) else {
        return refuse("bad argument to 'unpack' (string expected)");
    };
    let data = data.as_bytes();
    let start = args.get(2).map_or(1, to_integer);
    let Some(mut at) = usize::try_from(start - 1).ok().filter(|at| *at <= data.len()) else {
        return refuse("offset must be 1 or greater, and within the data");
    };
    let mut format = Format::new(&text);
    let mut values = Vec::new();
    loop {
        let item = match format.next() {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(why) => return refuse(&why),
        };
        at += format.padding(item, at);
        let rest = data.get(at..).unwrap_or(&[]);
        match get(lua, item, rest, format.is_little, &mut values)? {
            Some(len) => at += len,
            None => return refuse("data string too short"),
        }
        if values.len() > VALUES_MAX {
            return refuse("too many results");
        }
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(values))
}

/// Most results of one call: more values do not fit on Lua's stack.
const VALUES_MAX: usize = 7_000;

/// Reads one item. Returns its length, or None if the data is too short.
fn get(
    lua: &Lua,
    item: Item,
    rest: &[u8],
    is_little: bool,
    values: &mut Vec<Value>,
) -> mlua::Result<Option<usize>> {
    let len = match item {
        Item::Padding => return Ok((!rest.is_empty()).then_some(1)),
        Item::Int { len, .. } => len,
        Item::Float => 4,
        Item::Double => 8,
        Item::Text => match rest.iter().position(|byte| *byte == 0) {
            Some(len) => len,
            None => return Ok(None),
        },
        // The previous value is the length.
        Item::Bytes(0) => match values.pop() {
            Some(Value::Number(len)) if len >= 0.0 => len as usize,
            _ => return Ok(None),
        },
        Item::Bytes(len) => len,
    };
    let Some(bytes) = rest.get(..len) else { return Ok(None) };
    let mut padded = [0; INT_LEN_MAX];
    if let Some(padded) = padded.get_mut(..len) {
        padded.copy_from_slice(bytes);
        if !is_little {
            padded.reverse();
        }
    }
    let unsigned = u64::from_le_bytes(padded);
    values.push(match item {
        Item::Int { signed: true, .. } => {
            let unused = 64 - 8 * len as u32;
            Value::Number(((unsigned << unused) as i64 >> unused) as f64)
        }
        Item::Int { .. } => Value::Number(unsigned as f64),
        Item::Float => Value::Number(f64::from(f32::from_bits(unsigned as u32))),
        Item::Double => Value::Number(f64::from_bits(unsigned)),
        _ => Value::String(lua.create_string(bytes)?),
    });
    Ok(Some(if matches!(item, Item::Text) { len + 1 } else { len }))
}

fn size(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    let Some(text) = format(args) else { return no_format(lua, "size") };
    let mut format = Format::new(&text);
    let mut size = 0usize;
    loop {
        let item = match format.next() {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(Value::Number(size as f64)),
            Err(why) => return refused(lua, why),
        };
        let len = match item {
            Item::Padding => 1,
            Item::Int { len, .. } => len,
            Item::Float => 4,
            Item::Double => 8,
            Item::Bytes(len) if len > 0 => len,
            _ => return refused(lua, "variable-size format in 'size'"),
        };
        size = size.saturating_add(format.padding(item, size)).saturating_add(len);
    }
}
