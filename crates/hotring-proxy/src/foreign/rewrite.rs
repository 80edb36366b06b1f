//! Requests of memcached's clients for a memcached, written from what the proxy has read.
//!
//! All clients share a connection, and memcached takes a data block for commands if it refuses the line before it. So
//! no byte of a client may go out that the proxy has not understood.

use hotring_protocol::ArgsView;
use hotring_protocol::memcached::{
    Command, Data, MetaFlags, MetaKey, NAMES, is_quiet, parse_i32, parse_u32, parse_u64,
};

use super::to_memcached::is_key;
use super::to_redis::BAD_LINE;

/// The longest line that memcached looks for, except with `get` and `gets`: it ends the connection above.
const LINE_MAX: usize = 2048;

const BAD_TIME: &str = "CLIENT_ERROR invalid exptime argument";

/// The request as memcached must get it.
///
/// # Errors
///
/// The line for the client.
pub(super) fn rewrite(
    command: Command,
    args: ArgsView<'_>,
    data: Data<'_>,
) -> Result<Vec<u8>, String> {
    // memcached ends a line at a zero byte, and reads numbers behind other control characters.
    let is_plain = |word: &[u8]| word.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    if !args.iter().all(is_plain) || !command.keys(args).iter().all(is_key) {
        return Err(BAD_LINE.to_string());
    }
    let mut line = NAMES[command as usize].as_bytes().to_vec();
    let value = match command.is_meta() {
        true => meta(command, args, data, &mut line)?,
        false => classic(command, args, data, &mut line)?,
    };
    if line.len() > LINE_MAX && !matches!(command, Command::Get | Command::Gets) {
        return Err("CLIENT_ERROR line too long".to_string());
    }
    line.extend_from_slice(b"\r\n");
    if let Some(value) = value {
        line.extend_from_slice(value);
        line.extend_from_slice(b"\r\n");
    }
    Ok(line)
}

fn add(line: &mut Vec<u8>, word: &[u8]) {
    line.push(b' ');
    line.extend_from_slice(word);
}

/// Writes the words behind the name, and returns the value.
fn classic<'a>(
    command: Command,
    args: ArgsView<'_>,
    data: Data<'a>,
    line: &mut Vec<u8>,
) -> Result<Option<&'a [u8]>, String> {
    let n = args.len();
    let lengths = match command {
        Command::Get | Command::Gets => 2..=usize::MAX,
        Command::Gat | Command::Gats => 3..=usize::MAX,
        Command::Cas => 6..=7,
        Command::Delete => 2..=4,
        Command::Incr | Command::Decr | Command::Touch => 3..=4,
        Command::FlushAll => 1..=3,
        Command::Set | Command::Add | Command::Replace | Command::Append | Command::Prepend => {
            5..=6
        }
        // The proxy answers these.
        _ => return Err("ERROR".to_string()),
    };
    if !lengths.contains(&n) {
        return Err("ERROR".to_string());
    }
    let time = |at: usize, error: &str| parse_i32(args.at(at)).ok_or_else(|| error.to_string());
    let keys = command.keys(args);
    let mut value = None;
    match command {
        Command::Get | Command::Gets => keys.iter().for_each(|key| add(line, key)),
        Command::Gat | Command::Gats => {
            add(line, time(1, BAD_TIME)?.to_string().as_bytes());
            keys.iter().for_each(|key| add(line, key));
        }
        Command::Delete => {
            let is_known = match n {
                3 => matches!(args.at(2), b"0" | b"noreply"),
                4 => args.at(2) == b"0" && args.at(3) == b"noreply",
                _ => true,
            };
            if !is_known {
                return Err(format!("{BAD_LINE}.  Usage: delete <key> [noreply]"));
            }
            add(line, args.at(1));
        }
        Command::Incr | Command::Decr => {
            let delta = parse_u64(args.at(2));
            let delta = delta.ok_or("CLIENT_ERROR invalid numeric delta argument")?;
            add(line, args.at(1));
            add(line, delta.to_string().as_bytes());
        }
        Command::Touch => {
            add(line, args.at(1));
            add(line, time(2, BAD_TIME)?.to_string().as_bytes());
        }
        Command::FlushAll if n > 1 + usize::from(is_quiet(command, args)) => {
            add(line, time(1, BAD_TIME)?.to_string().as_bytes());
        }
        Command::FlushAll => {}
        _ => {
            let flags = parse_u32(args.at(2)).ok_or(BAD_LINE)?;
            let time = time(3, BAD_LINE)?;
            let Data::Block(block) = data else { return Err(BAD_LINE.to_string()) };
            add(line, args.at(1));
            add(line, format!("{flags} {time} {}", block.len()).as_bytes());
            if command == Command::Cas {
                let unique = parse_u64(args.at(5)).ok_or(BAD_LINE)?;
                add(line, unique.to_string().as_bytes());
            }
            value = Some(block);
        }
    }
    if is_quiet(command, args) {
        add(line, b"noreply");
    }
    Ok(value)
}

/// Writes the words behind the name of a meta command, and returns the value.
fn meta<'a>(
    command: Command,
    args: ArgsView<'_>,
    data: Data<'a>,
    line: &mut Vec<u8>,
) -> Result<Option<&'a [u8]>, String> {
    let key = args.get(1).ok_or("ERROR")?;
    let (flags, value) = match (command, data) {
        (Command::MetaSet, Data::Block(block)) => (args.tail(3), Some(block)),
        (Command::MetaSet, _) => return Err("CLIENT_ERROR bad data chunk".to_string()),
        _ => (args.tail(2), None),
    };
    let has_flag = MetaFlags::parse(flags)?;
    MetaKey::parse(key, has_flag.has(b'b'))?;
    add(line, key);
    if let Some(block) = value {
        add(line, block.len().to_string().as_bytes());
    }
    flags.iter().for_each(|flag| add(line, flag));
    Ok(value)
}
