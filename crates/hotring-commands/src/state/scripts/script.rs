//! A cached script: its digest, its text, the flags of its first line, and its last use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sha1::{Digest, Sha1};

use crate::state::failure::Failure;
use crate::state::reach;

/// The SHA1 digest of a script's text.
pub(crate) type Sha = [u8; 20];

/// Length of a digest in hexadecimal.
pub(crate) const DIGEST_LEN: usize = 2 * size_of::<Sha>();

/// Approximate memory of a cached script beyond its text.
pub(super) const ENTRY_LEN: usize = 512;

/// A cached script.
#[derive(Debug)]
pub(crate) struct Script {
    /// The digest in hexadecimal.
    pub name: String,
    /// The text for Lua.
    pub code: Box<[u8]>,
    /// The script's flags declare that it writes nothing (`no-writes`).
    pub no_writes: bool,
    /// The script has a line of flags without `no-writes`.
    pub writes: bool,
    /// The memory limit refuses none of the script's writes (`allow-oom`).
    pub allows_oom: bool,
    /// The script must not run in a cluster (`no-cluster`).
    pub no_cluster: bool,
    /// The script has a line of flags without `allow-cross-slot-keys`: its keys are in one slot.
    pub in_one_slot: bool,
    /// The script uses only the keys that it declares, as far as is known.
    is_declared: AtomicBool,
    /// The script was loaded by SCRIPT LOAD.
    pub(super) kept: AtomicBool,
    /// Unix milliseconds of the last use.
    pub(super) used_at: AtomicU64,
}

/// The digest of a script's text.
pub(crate) fn digest(text: &[u8]) -> Sha {
    Sha1::digest(text).into()
}

/// Parses a digest.
pub(crate) fn parse_digest(text: &[u8]) -> Option<Sha> {
    let mut sha = Sha::default();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if text.len() != DIGEST_LEN {
        return None;
    }
    for (byte, pair) in sha.iter_mut().zip(text.chunks(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(sha)
}

/// A digest as 40 hexadecimal digits.
pub(crate) fn digest_text(sha: &Sha) -> String {
    sha.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Script {
    /// A script with this text, whose first line may hold flags (`#!lua flags=no-writes`).
    pub(crate) fn new(sha: &Sha, text: &[u8]) -> Result<Script, Failure> {
        let head = Head::parse(text)?;
        let code = &text[head.len..];
        let is_declared = !head.is_wide && reach::is_declared(code);
        Ok(Script {
            name: digest_text(sha),
            code: code.into(),
            no_writes: head.no_writes,
            writes: head.len > 0 && !head.no_writes,
            allows_oom: head.allows_oom,
            no_cluster: head.no_cluster,
            in_one_slot: head.len > 0 && !head.is_wide,
            is_declared: AtomicBool::new(is_declared),
            kept: AtomicBool::new(false),
            used_at: AtomicU64::new(0),
        })
    }

    /// Whether the script is known to use only the keys that it declares.
    pub(crate) fn is_declared(&self) -> bool {
        // ORDERING: Relaxed, here and for the other fields: each is an independent hint.
        self.is_declared.load(Ordering::Relaxed)
    }

    /// Records that a run has used an undeclared key. This record is permanent.
    pub(crate) fn note_other_key(&self) {
        self.is_declared.store(false, Ordering::Relaxed);
    }

    /// Makes the next run hold only its declared keys, regardless of what the text proves.
    #[cfg(test)]
    pub(crate) fn believe(&self) {
        self.is_declared.store(true, Ordering::Relaxed);
    }

    /// Records a use.
    pub(crate) fn note_use(&self, now: u64) {
        // All threads read this cache line for each run: it must be written at most once a millisecond.
        if self.used_at.load(Ordering::Relaxed) != now {
            self.used_at.store(now, Ordering::Relaxed);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.code.len() + ENTRY_LEN
    }
}

/// The flags in a script's first line.
struct Head {
    /// Length of the flags, which Lua must not see; the line end stays, so that line numbers are right.
    len: usize,
    no_writes: bool,
    allows_oom: bool,
    no_cluster: bool,
    /// The script may use undeclared keys (`allow-cross-slot-keys`).
    is_wide: bool,
}

impl Head {
    fn parse(text: &[u8]) -> Result<Head, Failure> {
        let (no_writes, allows_oom, no_cluster, is_wide) = (false, false, false, false);
        let mut head = Head { len: 0, no_writes, allows_oom, no_cluster, is_wide };
        let Some(rest) = text.strip_prefix(b"#!") else { return Ok(head) };
        let end = rest.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or(Failure::text("ERR Invalid script shebang"))?;
        head.len = 2 + end;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        let mut words = line.split_ascii_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "lua" {
            return Err(format!("ERR Unexpected engine in script shebang: #!{engine}").into());
        }
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(format!("ERR Unknown lua shebang option: {word}").into());
            };
            // `flags=` alone is an empty list; otherwise each element must be a flag.
            for flag in flags.split(',').filter(|_| !flags.is_empty()) {
                match flag {
                    "no-writes" => head.no_writes = true,
                    "allow-cross-slot-keys" => head.is_wide = true,
                    "no-cluster" => head.no_cluster = true,
                    "allow-oom" => head.allows_oom = true,
                    "allow-stale" => {}
                    _ => {
                        return Err(format!("ERR Unexpected flag in script shebang: {flag}").into());
                    }
                }
            }
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_written_and_read() {
        let sha = digest(b"return 1");
        let text = digest_text(&sha);
        assert_eq!(text, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(parse_digest(text.as_bytes()), Some(sha));
        assert_eq!(parse_digest(text.to_uppercase().as_bytes()), Some(sha));
        assert_eq!(parse_digest(&text.as_bytes()[1..]), None);
        assert_eq!(parse_digest(text.replace('e', "+").as_bytes()), None);
    }

    #[test]
    fn the_first_line_holds_the_flags_of_a_script() {
        let of = |text: &str| Script::new(&digest(text.as_bytes()), text.as_bytes());
        let plain = of("return 1").unwrap();
        assert_eq!((&*plain.code, plain.no_writes), (&b"return 1"[..], false));
        assert!(plain.is_declared());
        let wide = of("#!lua flags=no-writes,allow-cross-slot-keys\nreturn 1").unwrap();
        assert_eq!((&*wide.code, wide.no_writes), (&b"\nreturn 1"[..], true));
        assert!(!wide.is_declared());
        for (text, error) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!perl\n", "ERR Unexpected engine in script shebang: #!perl"),
            ("#!lua flags=x\n", "ERR Unexpected flag in script shebang: x"),
            ("#!lua flags=no-writes,,allow-oom\n", "ERR Unexpected flag in script shebang: "),
            ("#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
        ] {
            assert_eq!(of(text).unwrap_err().message(), error);
        }
    }
}
