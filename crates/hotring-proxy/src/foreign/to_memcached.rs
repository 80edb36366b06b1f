//! Requests of Redis's clients in memcached's protocol, as far as memcached can do the same.

use std::time::{SystemTime, UNIX_EPOCH};

use hotring_commands::table::{CommandId, Spec};
use hotring_protocol::memcached::{KEY_LEN_MAX, ReplyForm};
use hotring_protocol::{ArgsView, parse_i64};

use super::translation::Meaning;

/// The longest time that memcached takes as one from now, in seconds; larger numbers are points in time.
pub(super) const RELATIVE_MAX: i64 = 30 * 24 * 3600;

/// A request in memcached's protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub bytes: Vec<u8>,
    pub n_commands: usize,
    pub form: ReplyForm,
    pub meaning: Meaning,
}

const SYNTAX: &str = "ERR syntax error";
const NO_INTEGER: &str = "ERR value is not an integer or out of range";

/// The request in memcached's protocol.
///
/// # Errors
///
/// The error for the client.
pub(super) fn translate(spec: &Spec, args: ArgsView<'_>) -> Result<Translated, String> {
    if matches!(spec.id, CommandId::FlushAll | CommandId::FlushDb) {
        let bytes = b"flush_all\r\n".to_vec();
        return Ok(Translated {
            bytes,
            n_commands: 1,
            form: ReplyForm::Line,
            meaning: Meaning::Stored,
        });
    }
    let refused = || format!("ERR {} does not work for keys on a memcached server", spec.name);
    // All others have one key here, and it comes first.
    let key = args.get(1).ok_or_else(refused)?;
    if let Some(translated) = with_key(spec.id, key, args)? {
        return match is_key(key) {
            true => Ok(translated),
            false => Err(format!(
                "ERR a key on a memcached server has 1 to {KEY_LEN_MAX} bytes, no spaces and no control characters"
            )),
        };
    }
    Err(refused())
}

/// Whether memcached can have this key.
pub(super) fn is_key(key: &[u8]) -> bool {
    let is_part = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    (1..=KEY_LEN_MAX).contains(&key.len()) && key.iter().all(is_part)
}

/// None: memcached cannot do that.
fn with_key(id: CommandId, key: &[u8], args: ArgsView<'_>) -> Result<Option<Translated>, String> {
    let get = |flags: &str, meaning| Ok(Some(line(&[b"mg ", key], flags, meaning)));
    let delete = || Ok(Some(line(&[b"md ", key], "", Meaning::Done)));
    match (id, args.len()) {
        (CommandId::Get, _) => get("v", Meaning::Value),
        (CommandId::MGet, 2) => get("v", Meaning::ValueInArray),
        (CommandId::GetEx, _) => match get_expiry(args.tail(2))? {
            Some(flags) => get(&flags, Meaning::Value),
            None => Ok(None),
        },
        (CommandId::Exists | CommandId::Touch, 2) => get("", Meaning::Done),
        (CommandId::Type, _) => get("", Meaning::Type),
        (CommandId::StrLen, _) => get("s", Meaning::Length),
        (CommandId::Ttl, _) => get("t", Meaning::Remaining { unit: 1 }),
        (CommandId::PTtl, _) => get("t", Meaning::Remaining { unit: 1_000 }),
        (CommandId::Del | CommandId::Unlink, 2) => delete(),
        (CommandId::Set, _) => set(key, args),
        (CommandId::MSet, 3) => Ok(Some(store(key, args.at(2), "", Meaning::Stored))),
        (CommandId::SetNx, _) => Ok(Some(store(key, args.at(2), " ME", Meaning::Done))),
        (CommandId::SetEx | CommandId::PSetEx, _) => {
            let (unit, name) = match id {
                CommandId::SetEx => (1_000, "setex"),
                _ => (1, "psetex"),
            };
            let ms = positive(args.at(2), unit, name)?;
            let flags = format!(" T{}", time(ms));
            Ok(Some(store(key, args.at(3), &flags, Meaning::Stored)))
        }
        (CommandId::Expire | CommandId::PExpire, 3)
        | (CommandId::ExpireAt | CommandId::PExpireAt, 3) => {
            let number = parse_i64(args.at(2)).ok_or(NO_INTEGER)?;
            let is_seconds = matches!(id, CommandId::Expire | CommandId::ExpireAt);
            let ms = number.saturating_mul(if is_seconds { 1_000 } else { 1 });
            let is_point = matches!(id, CommandId::ExpireAt | CommandId::PExpireAt);
            match if is_point { from_now(ms) } else { ms } {
                ms @ 1.. => get(&format!("T{}", time(ms)), Meaning::Done),
                _ => delete(),
            }
        }
        (CommandId::Incr, _) => Ok(Some(count(key, 1))),
        (CommandId::Decr, _) => Ok(Some(count(key, -1))),
        (CommandId::IncrBy, _) => {
            Ok(Some(count(key, parse_i64(args.at(2)).ok_or(NO_INTEGER)?.into())))
        }
        (CommandId::DecrBy, _) => {
            Ok(Some(count(key, -i128::from(parse_i64(args.at(2)).ok_or(NO_INTEGER)?))))
        }
        (CommandId::Append, _) => {
            // One of the first two is done: memcached appends to what is there alone.
            let value = args.at(2);
            let mut bytes = store(key, value, " MA", Meaning::Appended).bytes;
            bytes.extend(store(key, value, " ME", Meaning::Appended).bytes);
            bytes.extend(line(&[b"mg ", key], "s", Meaning::Appended).bytes);
            let form = ReplyForm::Meta;
            Ok(Some(Translated { bytes, n_commands: 3, form, meaning: Meaning::Appended }))
        }
        _ => Ok(None),
    }
}

fn line(words: &[&[u8]], flags: &str, meaning: Meaning) -> Translated {
    let mut bytes = words.concat();
    if !flags.is_empty() {
        bytes.extend_from_slice(format!(" {flags}").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    Translated { bytes, n_commands: 1, form: ReplyForm::Meta, meaning }
}

fn store(key: &[u8], value: &[u8], flags: &str, meaning: Meaning) -> Translated {
    let len = format!(" {}{flags}\r\n", value.len());
    let bytes = [b"ms ", key, len.as_bytes(), value, b"\r\n"].concat();
    Translated { bytes, n_commands: 1, form: ReplyForm::Meta, meaning }
}

/// Adds a number, from 0 if there is none.
fn count(key: &[u8], by: i128) -> Translated {
    let (first, mode) = if by < 0 { (0, " MD") } else { (by, "") };
    let by = by.unsigned_abs();
    line(&[b"ma ", key], &format!("N0 J{first} D{by}{mode} v"), Meaning::Number)
}

/// SET: NX and XX, and each way to say when the key expires.
fn set(key: &[u8], args: ArgsView<'_>) -> Result<Option<Translated>, String> {
    let (mut mode, mut ms) = ("", None);
    let mut at = 3;
    while let Some(word) = args.get(at) {
        match word.to_ascii_lowercase().as_slice() {
            b"nx" if mode.is_empty() => mode = " ME",
            b"xx" if mode.is_empty() => mode = " MR",
            name @ (b"ex" | b"px" | b"exat" | b"pxat") if ms.is_none() => {
                at += 1;
                ms = Some(when(name, args.get(at).ok_or(SYNTAX)?, "set")?);
            }
            b"nx" | b"xx" | b"ex" | b"px" | b"exat" | b"pxat" => return Err(SYNTAX.to_string()),
            b"get" | b"keepttl" => return Ok(None),
            _ => return Err(SYNTAX.to_string()),
        }
        at += 1;
    }
    let expiry = ms.map_or(String::new(), |ms| format!(" T{}", time(ms)));
    Ok(Some(store(key, args.at(2), &format!("{mode}{expiry}"), Meaning::Stored)))
}

/// The flags of GETEX.
fn get_expiry(options: ArgsView<'_>) -> Result<Option<String>, String> {
    let name = options.get(0).map(<[u8]>::to_ascii_lowercase);
    match (name.as_deref(), options.len()) {
        (None, _) => Ok(Some("v".to_string())),
        (Some(b"persist"), 1) => Ok(Some("v T0".to_string())),
        (Some(name @ (b"ex" | b"px" | b"exat" | b"pxat")), 2) => {
            Ok(Some(format!("v T{}", time(when(name, options.at(1), "getex")?))))
        }
        _ => Err(SYNTAX.to_string()),
    }
}

/// Milliseconds from now, of an option with its number.
fn when(option: &[u8], number: &[u8], command: &str) -> Result<i64, String> {
    let unit = if option.starts_with(b"e") { 1_000 } else { 1 };
    let ms = positive(number, unit, command)?;
    Ok(if option.ends_with(b"at") { from_now(ms) } else { ms })
}

fn positive(number: &[u8], unit: i64, command: &str) -> Result<i64, String> {
    let ms = parse_i64(number).ok_or(NO_INTEGER)?.checked_mul(unit).filter(|ms| *ms > 0);
    ms.ok_or_else(|| format!("ERR invalid expire time in '{command}' command"))
}

fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as i64)
}

/// The time from now to a point in time, in milliseconds.
pub(super) fn from_now(unix: i64) -> i64 {
    unix.saturating_sub(unix_ms())
}

/// A time from now as memcached takes it: whole seconds, rounded up; what is over has expired.
pub(super) fn time(ms: i64) -> i64 {
    match ms {
        ..=0 => -1,
        _ => match (ms - 1) / 1_000 + 1 {
            seconds if seconds <= RELATIVE_MAX => seconds,
            // Rounded up as well.
            seconds => (unix_ms() + 999) / 1_000 + seconds,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotring_commands::table::resolve;
    use hotring_protocol::{Args, Decoder, Limits};

    fn translated(request: &str) -> Result<String, String> {
        let input = format!("{request}\r\n").into_bytes();
        let (mut decoder, mut args) = (Decoder::new(), Args::new());
        decoder.decode(&input, &Limits::default(), &mut args).unwrap();
        let args = args.view(&input);
        let done = translate(resolve(args).unwrap(), args)?;
        Ok(String::from_utf8(done.bytes).unwrap().replace("\r\n", "|"))
    }

    #[test]
    fn requests_that_memcached_can_do_are_translated() {
        for (request, expected) in [
            ("GET k", "mg k v|"),
            ("SET k v", "ms k 1|v|"),
            ("SET k v NX PX 1", "ms k 1 ME T1|v|"),
            ("SET k v EX 10 XX", "ms k 1 MR T10|v|"),
            ("SET k v PXAT 1", "ms k 1 T-1|v|"),
            ("SETEX k 2592000 v", "ms k 1 T2592000|v|"),
            ("INCR k", "ma k N0 J1 D1 v|"),
            ("INCRBY k -9223372036854775808", "ma k N0 J0 D9223372036854775808 MD v|"),
            ("DECRBY k 3", "ma k N0 J0 D3 MD v|"),
            ("EXPIRE k 5", "mg k T5|"),
            ("EXPIRE k 0", "md k|"),
            ("EXPIREAT k 5", "md k|"),
            ("GETEX k PERSIST", "mg k v T0|"),
            ("APPEND k v", "ms k 1 MA|v|ms k 1 ME|v|mg k s|"),
            ("FLUSHALL ASYNC", "flush_all|"),
        ] {
            assert_eq!(translated(request).as_deref(), Ok(expected), "{request}");
        }
        let far = translated("SET k v EX 2592001").unwrap();
        let far: i64 = far.split_once('T').unwrap().1.split('|').next().unwrap().parse().unwrap();
        assert!((0..=1).contains(&(far - 2_592_001 - (unix_ms() + 999) / 1_000)), "{far}");
    }

    #[test]
    fn others_get_a_clear_error() {
        for (request, why) in [
            ("LPUSH k v", "lpush does not work for keys on a memcached"),
            ("SET k v GET", "set does not work"),
            ("EXPIRE k 5 NX", "expire does not work"),
            ("SET k v EX 0", "invalid expire time in 'set'"),
            ("SET k v EX 1 PX 1", "syntax error"),
            ("SET k v NX XX", "syntax error"),
            ("INCRBY k x", "not an integer"),
            ("SCAN 0", "scan does not work"),
            ("DBSIZE", "dbsize does not work"),
            ("GET 'a b'", "no spaces"),
        ] {
            let error = translated(request).unwrap_err();
            assert!(error.to_lowercase().contains(why), "{request}: {error}");
        }
        assert!(translated(&format!("GET {}", "k".repeat(250))).is_ok());
        assert!(translated(&format!("GET {}", "k".repeat(251))).is_err());
    }
}
