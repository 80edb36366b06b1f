//! Requests of memcached's clients in Redis's protocol, as far as Redis can do the same.
//!
//! A value is the same string for clients of both protocols, so that there is no place for flags: others than 0 are
//! refused. Redis needs a script to change a key only if it is there.

use hotring_protocol::memcached::{Command, Data, KEY_LEN_MAX, parse_u32, parse_u64};
use hotring_protocol::{ArgsView, parse_i64};

use super::to_memcached::RELATIVE_MAX;
use super::translation::Answer;

pub(super) const BAD_LINE: &str = "CLIENT_ERROR bad command line format";

const APPEND: &str = "if redis.call('EXISTS',KEYS[1])==0 then return 0 end redis.call('APPEND',KEYS[1],ARGV[1]) return 1";

const PREPEND: &str = "local v=redis.call('GET',KEYS[1]) if not v then return 0 end redis.call('SET',KEYS[1],ARGV[1]..v,'KEEPTTL') return 1";

/// The number is read as text: Lua would round large ones. 0 as a number: the value is none.
const COUNT: &str = "local v=redis.call('GET',KEYS[1]) if not v then return v end \
if not string.find(v,'^%d+$') then return 0 end \
redis.call(ARGV[1],KEYS[1],ARGV[2]) v=redis.call('GET',KEYS[1]) \
if string.sub(v,1,1)=='-' then redis.call('SET',KEYS[1],'0','KEEPTTL') v='0' end return v";

const PERSIST: &str =
    "if redis.call('EXISTS',KEYS[1])==0 then return 0 end redis.call('PERSIST',KEYS[1]) return 1";

/// A request in Redis's protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub words: Vec<Vec<u8>>,
    pub answer: Answer,
}

impl Translated {
    fn line(words: &[&[u8]], yes: &'static str, no: &'static str) -> Self {
        let words = words.iter().map(|word| word.to_vec()).collect();
        Translated { words, answer: Answer::Line { yes, no } }
    }
}

/// When a value expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    Never,
    In(i64),
    At(i64),
    /// It has expired.
    Over,
}

/// The request in Redis's protocol.
///
/// # Errors
///
/// The line for the client.
pub(super) fn translate(
    command: Command,
    args: ArgsView<'_>,
    data: Data<'_>,
) -> Result<Translated, String> {
    let keys = command.keys(args);
    if keys.iter().any(|key| key.len() > KEY_LEN_MAX) {
        return Err(BAD_LINE.to_string());
    }
    let name = args.get(0).map(String::from_utf8_lossy).unwrap_or_default();
    let word = |at: usize| args.get(at).ok_or("ERROR");
    match command {
        Command::Get if !keys.is_empty() => {
            let verb: &[u8] = if keys.len() == 1 { b"GET" } else { b"MGET" };
            let words = std::iter::once(verb).chain(keys.iter()).map(<[u8]>::to_vec).collect();
            let answer = Answer::Values(keys.iter().map(<[u8]>::to_vec).collect());
            Ok(Translated { words, answer })
        }
        Command::Get => Err("ERROR".to_string()),
        Command::Set | Command::Add | Command::Replace | Command::Append | Command::Prepend => {
            store(command, args, data)
        }
        Command::Delete => match (args.len(), args.get(2)) {
            (2, _) | (3, Some(b"0" | b"noreply")) | (4, Some(b"0")) => {
                Ok(Translated::line(&[b"DEL", word(1)?], "DELETED", "NOT_FOUND"))
            }
            (0 | 1, _) => Err("ERROR".to_string()),
            _ => Err(format!("{BAD_LINE}.  Usage: delete <key> [noreply]")),
        },
        Command::Incr | Command::Decr => {
            let delta = parse_u64(word(2)?);
            let delta = delta.ok_or("CLIENT_ERROR invalid numeric delta argument")?;
            i64::try_from(delta).map_err(|_| {
                "SERVER_ERROR numbers on a Redis server go up to 9223372036854775807".to_string()
            })?;
            let verb: &[u8] = if command == Command::Incr { b"INCRBY" } else { b"DECRBY" };
            let delta = delta.to_string();
            let words: [&[u8]; 6] =
                [b"EVAL", COUNT.as_bytes(), b"1", word(1)?, verb, delta.as_bytes()];
            let words = words.iter().map(|word| word.to_vec()).collect();
            Ok(Translated { words, answer: Answer::Number })
        }
        Command::Touch => touch(word(1)?, expiry(word(2)?)?),
        Command::FlushAll => match args.get(1) {
            None | Some(b"noreply" | b"0") => Ok(Translated::line(&[b"FLUSHALL"], "OK", "OK")),
            Some(_) => Err("SERVER_ERROR a Redis server cannot flush later".to_string()),
        },
        _ => Err(format!("SERVER_ERROR {name} does not work for keys on a Redis server")),
    }
}

fn store(command: Command, args: ArgsView<'_>, data: Data<'_>) -> Result<Translated, String> {
    let Data::Block(value) = data else { return Err("ERROR".to_string()) };
    let (key, flags) = (args.at(1), parse_u32(args.at(2)).ok_or(BAD_LINE)?);
    let expiry = expiry(args.at(3)).map_err(|_| BAD_LINE)?;
    let script = |script: &str| {
        let words = [b"EVAL", script.as_bytes(), b"1", key, value];
        Ok(Translated::line(&words, "STORED", "NOT_STORED"))
    };
    match command {
        // The item keeps its own flags and time.
        Command::Append => return script(APPEND),
        Command::Prepend => return script(PREPEND),
        _ if flags != 0 => {
            return Err("SERVER_ERROR a Redis server keeps no flags: only 0 works".to_string());
        }
        _ => {}
    }
    if expiry == Expiry::Over {
        return Ok(match command {
            Command::Set => Translated::line(&[b"DEL", key], "STORED", "STORED"),
            Command::Add => Translated::line(&[b"EXISTS", key], "NOT_STORED", "STORED"),
            _ => Translated::line(&[b"DEL", key], "STORED", "NOT_STORED"),
        });
    }
    let mut words: Vec<&[u8]> = vec![b"SET", key, value];
    let (option, number) = match expiry {
        Expiry::In(seconds) => (&b"EX"[..], seconds.to_string()),
        Expiry::At(unix) => (&b"EXAT"[..], unix.to_string()),
        Expiry::Never | Expiry::Over => (&b""[..], String::new()),
    };
    if !option.is_empty() {
        words.extend([option, number.as_bytes()]);
    }
    match command {
        Command::Add => words.push(b"NX"),
        Command::Replace => words.push(b"XX"),
        _ => {}
    }
    Ok(Translated::line(&words, "STORED", "NOT_STORED"))
}

fn touch(key: &[u8], expiry: Expiry) -> Result<Translated, String> {
    let (verb, number) = match expiry {
        Expiry::Never => {
            let words = [b"EVAL", PERSIST.as_bytes(), b"1", key];
            return Ok(Translated::line(&words, "TOUCHED", "NOT_FOUND"));
        }
        Expiry::In(seconds) => (&b"EXPIRE"[..], seconds),
        Expiry::At(unix) => (&b"EXPIREAT"[..], unix),
        Expiry::Over => (&b"EXPIRE"[..], -1),
    };
    let number = number.to_string();
    Ok(Translated::line(&[verb, key, number.as_bytes()], "TOUCHED", "NOT_FOUND"))
}

fn expiry(word: &[u8]) -> Result<Expiry, String> {
    match parse_i64(word) {
        Some(0) => Ok(Expiry::Never),
        Some(..0) => Ok(Expiry::Over),
        Some(seconds @ 1..=RELATIVE_MAX) => Ok(Expiry::In(seconds)),
        Some(unix) => Ok(Expiry::At(unix)),
        None => Err("CLIENT_ERROR invalid exptime argument".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotring_protocol::memcached::{Decoder, Limits, Request};

    fn translated(request: &str) -> Result<String, String> {
        let input = request.replace('|', "\r\n").into_bytes();
        let mut parsed = Request::default();
        Decoder::new().decode(&input, &Limits::default(), &mut parsed).unwrap();
        let done = translate(parsed.command.unwrap(), parsed.args(&input), parsed.data(&input))?;
        let words = done.words.iter().map(|word| String::from_utf8_lossy(word));
        let words = words.filter(|word| !word.contains("redis.call"));
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn requests_that_redis_can_do_are_translated() {
        for (request, expected) in [
            ("get k|", "GET k"),
            ("get a b|", "MGET a b"),
            ("set k 0 0 1|v|", "SET k v"),
            ("add k 0 5 1|v|", "SET k v EX 5 NX"),
            ("replace k 0 2592001 1|v|", "SET k v EXAT 2592001 XX"),
            ("set k 0 -1 1|v|", "DEL k"),
            ("add k 0 -1 1|v|", "EXISTS k"),
            ("append k 7 0 1|v|", "EVAL 1 k v"),
            ("incr k 5|", "EVAL 1 k INCRBY 5"),
            ("delete k noreply|", "DEL k"),
            ("touch k 0|", "EVAL 1 k"),
            ("touch k -1|", "EXPIRE k -1"),
            ("flush_all|", "FLUSHALL"),
        ] {
            assert_eq!(translated(request).as_deref(), Ok(expected), "{request}");
        }
    }

    #[test]
    fn others_get_a_clear_error() {
        for (request, why) in [
            ("gets k|", "SERVER_ERROR gets does not work"),
            ("mg k v|", "SERVER_ERROR mg does not work"),
            ("cas k 0 0 1 1|v|", "SERVER_ERROR cas does not work"),
            ("set k 1 0 1|v|", "SERVER_ERROR a Redis server keeps no flags"),
            ("incr k x|", "CLIENT_ERROR invalid numeric delta"),
            ("incr k 9223372036854775808|", "SERVER_ERROR numbers"),
            ("touch k x|", "CLIENT_ERROR invalid exptime"),
            ("delete k 5|", BAD_LINE),
            ("get|", "ERROR"),
        ] {
            let error = translated(request).unwrap_err();
            assert!(error.starts_with(why), "{request}: {error}");
        }
    }
}
