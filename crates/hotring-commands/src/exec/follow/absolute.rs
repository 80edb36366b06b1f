//! Rewrites commands whose time counts from the moment they run, as a Redis before 7 propagates them: a follower runs
//! commands at a time at which no key is over.

use hotring_protocol::{ArgsView, parse_i64};

use crate::table::CommandId;

/// The request with its time as a Unix millisecond; None if it has no time, or one that is absolute. A malformed time
/// stays, so that the command fails.
pub(super) fn absolute(id: CommandId, args: ArgsView<'_>, now: u64) -> Option<Vec<u8>> {
    use CommandId as Id;
    let (name, unit): (&[u8], i64) = match id {
        Id::Expire => (b"pexpireat", 1000),
        Id::PExpire => (b"pexpireat", 1),
        Id::HExpire => (b"hpexpireat", 1000),
        Id::HPExpire => (b"hpexpireat", 1),
        Id::SetEx | Id::PSetEx => {
            let unit = if id == Id::SetEx { 1000 } else { 1 };
            let at = later(args.at(2), unit, now)?;
            return Some(request(&[b"set", args.at(1), args.at(3), b"pxat", &at]));
        }
        Id::Set => return with_option(args, 3, now),
        Id::GetEx | Id::HGetEx | Id::HSetEx => return with_option(args, 2, now),
        Id::Restore => return restore(args, now),
        _ => return None,
    };
    let at = later(args.at(2), unit, now)?;
    let mut words: Vec<&[u8]> = args.iter().collect();
    (words[0], words[2]) = (name, &at);
    Some(request(&words))
}

/// The time as text that is this much later than `now`.
fn later(time: &[u8], unit: i64, now: u64) -> Option<Vec<u8>> {
    let time = parse_i64(time)?.checked_mul(unit)?.checked_add(i64::try_from(now).ok()?)?;
    Some(time.to_string().into_bytes())
}

/// With the option EX or PX, which stands before any FIELDS, replaced by PXAT.
fn with_option(args: ArgsView<'_>, from: usize, now: u64) -> Option<Vec<u8>> {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let options = args.tail(from);
    let mut before_fields = options.iter().take_while(|word| !is(word, "fields"));
    let place = before_fields.position(|word| is(word, "ex") || is(word, "px"))?;
    let unit = if is(options.at(place), "ex") { 1000 } else { 1 };
    let at = later(options.get(place + 1)?, unit, now)?;
    let mut words: Vec<&[u8]> = args.iter().collect();
    (words[from + place], words[from + place + 1]) = (b"pxat", &at);
    Some(request(&words))
}

fn restore(args: ArgsView<'_>, now: u64) -> Option<Vec<u8>> {
    let is_absolute = args.tail(4).iter().any(|word| word.eq_ignore_ascii_case(b"absttl"));
    if is_absolute || args.at(2) == b"0" {
        return None;
    }
    let at = later(args.at(2), 1, now)?;
    let mut words: Vec<&[u8]> = args.iter().collect();
    words[2] = &at;
    words.push(b"absttl");
    Some(request(&words))
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}
