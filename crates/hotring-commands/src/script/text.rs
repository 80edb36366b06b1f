//! Replaces the functions of `string` and `table` whose C versions a script can make arbitrarily slow. The replacements
//! count steps, and fail once the script's time is over.

use std::rc::Rc;

use memchr::memmem;
use mlua::{Function, Lua, MultiValue, String as Text, Table, Value};

use super::args::{bad_argument, function, integer, text, type_name};
use super::base::must_be_writable;
use super::pattern::{Captured, Fault, Found, Matcher};
use super::redis::{refused, refused_at};
use super::state::{State, stopped};

/// A pattern without any of these bytes is plain text.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// Number of bytes that a step of a plain search covers.
const BYTES_PER_STEP: usize = 64;

/// Creates the iterator that `gmatch` returns. Its text and pattern belong to Lua, because mlua's reference slots are
/// few.
const ITERATOR: &str = "local search = ...
    return function(s, p)
        local at = 0
        local function pass(from, to, ...)
            if from == nil then return end
            at = to > from and to or to + 1
            return ...
        end
        return function() return pass(search(s, p, at, false)) end
    end";

/// The functions that the prelude puts into `string` and `table`.
pub(super) fn functions(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let add = |name: &str, f: fn(&Lua, &MultiValue, &State) -> mlua::Result<MultiValue>| {
        let shared = Rc::clone(state);
        library.raw_set(name, function(lua, move |lua, args| f(lua, args, &shared))?)
    };
    add("find", |lua, args, state| find(lua, args, state, true))?;
    add("match", |lua, args, state| find(lua, args, state, false))?;
    add("search", search)?;
    add("gsub", substitute)?;
    add("gsub_args", substitute_args)?;
    add("rep", repeat)?;
    let search: Function = library.raw_get("search")?;
    let iterator: Function = lua.load(ITERATOR).set_name("=prelude").call(search)?;
    lua.set_named_registry_value(ITERATOR_KEY, iterator)?;
    add("gmatch", iterate)?;
    for name in ["insert", "remove"] {
        let original: Function = lua.globals().get::<Table>("table")?.raw_get(name)?;
        lua.set_named_registry_value(name, original)?;
    }
    add("insert", |lua, args, state| shift(lua, args, state, "insert"))?;
    add("remove", |lua, args, state| shift(lua, args, state, "remove"))?;
    Ok(library)
}

const ITERATOR_KEY: &str = "iterator of gmatch";

/// Converts an error of the matcher to one that scripts see.
fn raised<T>(lua: &Lua, found: Result<T, Fault>) -> mlua::Result<T> {
    found.or_else(|fault| match fault {
        Fault::Pattern(why) => refused(lua, why.as_bytes()),
        Fault::Stopped => Err(stopped()),
    })
}

/// Converts Lua's position to an offset within the text. The position counts from 1, or from the end if it is negative.
fn offset_of(at: i64, len: usize) -> usize {
    let at = if at < 0 { at.saturating_add(len as i64 + 1).max(0) } else { at };
    usize::try_from(at - 1).unwrap_or(0).min(len)
}

fn capture(lua: &Lua, captured: Captured<'_>) -> mlua::Result<Value> {
    Ok(match captured {
        Captured::Text(text) => Value::String(lua.create_string(text)?),
        Captured::Position(at) => Value::Number(at as f64),
    })
}

/// Adds all captures of a match.
fn push_captures(
    lua: &Lua,
    matcher: &Matcher<'_>,
    found: Found,
    values: &mut Vec<Value>,
) -> mlua::Result<()> {
    for index in 0..matcher.captures() {
        values.push(capture(lua, raised(lua, matcher.captured(index, found))?)?);
    }
    Ok(())
}

fn nothing() -> MultiValue {
    MultiValue::from_vec(vec![Value::Nil])
}

/// `string.find`, and `string.match`.
fn find(lua: &Lua, args: &MultiValue, state: &State, is_find: bool) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (text(lua, args, 0)?, text(lua, args, 1)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let start = offset_of(integer(lua, args, 2, Some(1))?, subject.len());
    let number = |n: usize| Value::Number(n as f64);
    let is_plain = is_find && {
        let asked =
            args.get(3).is_some_and(|value| !matches!(value, Value::Nil | Value::Boolean(false)));
        let mut as_pattern = pattern.iter().take_while(|byte| **byte != 0);
        asked || !as_pattern.any(|byte| SPECIALS.contains(byte))
    };
    let mut values = Vec::new();
    if is_plain {
        state.must_spend(pattern.len() / BYTES_PER_STEP)?;
        let Some(at) = find_plain(&subject[start..], &pattern, state)? else {
            return Ok(nothing());
        };
        values.extend([number(start + at + 1), number(start + at + pattern.len())]);
        return Ok(MultiValue::from_vec(values));
    }
    let mut matcher = Matcher::new(&subject, &pattern, state);
    let Some(found) = raised(lua, matcher.find(start, true))? else { return Ok(nothing()) };
    if is_find {
        values.extend([number(found.0 + 1), number(found.1)]);
    }
    if !is_find || matcher.has_captures() {
        push_captures(lua, &matcher, found, &mut values)?;
    }
    Ok(MultiValue::from_vec(values))
}

/// Searches for plain text, in time proportional to the sum of the lengths, not to their product.
fn find_plain(subject: &[u8], wanted: &[u8], state: &State) -> mlua::Result<Option<usize>> {
    let found = memmem::find(subject, wanted);
    state.must_spend(found.unwrap_or(subject.len()) / BYTES_PER_STEP)?;
    Ok(found)
}

/// Returns the start and the end of the next match from `at` on, as offsets from 0, and its captures; nothing if there
/// is no match. `^` is an anchor only if the fourth argument is true.
fn search(lua: &Lua, args: &MultiValue, state: &State) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (text(lua, args, 0)?, text(lua, args, 1)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let start = integer(lua, args, 2, None)?;
    let Some(start) = usize::try_from(start).ok().filter(|start| *start <= subject.len()) else {
        return Ok(MultiValue::new());
    };
    let may_anchor = args.get(3) == Some(&Value::Boolean(true));
    let mut matcher = Matcher::new(&subject, &pattern, state);
    let Some(found) = raised(lua, matcher.find(start, may_anchor))? else {
        return Ok(MultiValue::new());
    };
    let mut values = vec![Value::Number(found.0 as f64), Value::Number(found.1 as f64)];
    push_captures(lua, &matcher, found, &mut values)?;
    Ok(MultiValue::from_vec(values))
}

fn iterate(lua: &Lua, args: &MultiValue, _: &State) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (text(lua, args, 0)?, text(lua, args, 1)?);
    let iterator: Function = lua.named_registry_value(ITERATOR_KEY)?;
    iterator.call((subject, pattern))
}

/// Checks the arguments of a `gsub` with a function or a table: text, pattern, and the most replacements.
fn substitute_args(lua: &Lua, args: &MultiValue, _: &State) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (text(lua, args, 0)?, text(lua, args, 1)?);
    let max = most(lua, args, &subject)?;
    let values = vec![Value::String(subject), Value::String(pattern), Value::Number(max as f64)];
    Ok(MultiValue::from_vec(values))
}

fn most(lua: &Lua, args: &MultiValue, subject: &Text) -> mlua::Result<i32> {
    let all = subject.as_bytes().len() as i64 + 1;
    Ok(integer(lua, args, 3, Some(all))? as i32)
}

/// `string.gsub` with a replacement text.
fn substitute(lua: &Lua, args: &MultiValue, state: &State) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (text(lua, args, 0)?, text(lua, args, 1)?);
    let is_text =
        matches!(args.get(2), Some(Value::String(_) | Value::Integer(_) | Value::Number(_)));
    let max = most(lua, args, &subject)?;
    if !is_text {
        return bad_argument(lua, 2, "string/function/table expected");
    }
    let by = text(lua, args, 2)?;
    let (subject, pattern, by) = (subject.as_bytes(), pattern.as_bytes(), by.as_bytes());
    let mut matcher = Matcher::new(&subject, &pattern, state);
    let is_anchored = pattern.first() == Some(&b'^');
    let (mut result, mut at, mut count) = (Vec::new(), 0, 0);
    while count < max {
        let Some(found) = raised(lua, matcher.find(at, true))? else { break };
        count += 1;
        result.extend_from_slice(&subject[at..found.0]);
        add_replacement(lua, &by, &matcher, found, &mut result)?;
        state.must_fit(lua, result.len())?;
        at = found.1;
        if found.1 == found.0 {
            // After an empty match, the next byte is kept.
            let Some(byte) = subject.get(at) else { break };
            result.push(*byte);
            at += 1;
        }
        if is_anchored {
            break;
        }
    }
    result.extend_from_slice(&subject[at..]);
    state.must_fit(lua, result.len())?;
    let values = vec![Value::String(lua.create_string(&result)?), Value::Number(f64::from(count))];
    Ok(MultiValue::from_vec(values))
}

/// Appends the replacement of a match: `by`, with captures in place of `%0` to `%9`.
fn add_replacement(
    lua: &Lua,
    by: &[u8],
    matcher: &Matcher<'_>,
    found: Found,
    result: &mut Vec<u8>,
) -> mlua::Result<()> {
    let mut bytes = by.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            result.push(*byte);
            continue;
        }
        // As in Lua, a zero byte follows the last byte.
        let index = match *bytes.next().unwrap_or(&0) {
            b'0' => {
                result.extend_from_slice(matcher.text(found));
                continue;
            }
            digit @ b'1'..=b'9' => usize::from(digit - b'1'),
            other => {
                result.push(other);
                continue;
            }
        };
        match raised(lua, matcher.captured(index, found))? {
            Captured::Text(text) => result.extend_from_slice(text),
            Captured::Position(at) => result.extend_from_slice(at.to_string().as_bytes()),
        }
    }
    Ok(())
}

fn repeat(lua: &Lua, args: &MultiValue, state: &State) -> mlua::Result<MultiValue> {
    let part = text(lua, args, 0)?;
    let count = integer(lua, args, 1, None)? as i32;
    let part = part.as_bytes();
    let count = if part.is_empty() { 0 } else { usize::try_from(count).unwrap_or(0) };
    let len = part.len().saturating_mul(count);
    state.must_fit(lua, len)?;
    state.must_spend(len / BYTES_PER_STEP)?;
    let result = lua.create_string(part.repeat(count))?;
    Ok(MultiValue::from_vec(vec![Value::String(result)]))
}

/// `table.insert` and `table.remove`. Each value that they shift is a step. A negative position for an insertion is
/// refused, because Lua would shift one value for each number between the position and the end of the table.
fn shift(lua: &Lua, args: &MultiValue, state: &State, name: &str) -> mlua::Result<MultiValue> {
    let Some(Value::Table(table)) = args.front() else {
        let got = args.front().map_or("no value", type_name);
        return bad_argument(lua, 0, &format!("table expected, got {got}"));
    };
    let is_insert = name == "insert";
    if is_insert && !(2..=3).contains(&args.len()) {
        return refused_at(lua, 1, "wrong number of arguments to 'insert'");
    }
    if is_insert {
        must_be_writable(lua, table)?;
    }
    if is_insert && args.len() == 2 {
        let len = table.raw_len();
        table.raw_set(len + 1, args[1].clone())?;
        return Ok(MultiValue::new());
    }
    if args.len() > 1 && (is_insert || !args[1].is_nil()) {
        let at = integer(lua, args, 1, None)? as i32;
        if at < 0 && is_insert {
            return bad_argument(lua, 1, "position out of bounds");
        }
        state.must_spend(table.raw_len().saturating_sub(at.max(0) as usize))?;
    }
    let original: Function = lua.named_registry_value(name)?;
    original.call(args.clone())
}
