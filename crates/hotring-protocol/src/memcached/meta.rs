//! Flags of meta commands: one letter each, some followed by a value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::args::ArgsView;

use super::number::{parse_i32, parse_u32, parse_u64};

/// The longest key, in bytes as sent.
pub const KEY_LEN_MAX: usize = 250;
/// The longest opaque token, including its letter.
pub const OPAQUE_LEN_MAX: usize = 32;
/// Most words per line.
const WORDS_MAX: usize = 19;
/// Space for the longest decoded key, and for the decoder's rounding.
const DECODED_LEN_MAX: usize = 192;

/// The flags of one request.
#[derive(Clone, Copy, Debug)]
pub struct MetaFlags<'a> {
    words: ArgsView<'a>,
    seen: u128,
    /// N: the time to live of an item that is created because it is missing.
    pub vivify: Option<i32>,
    /// T: the time to live.
    pub ttl: Option<i32>,
    /// R: the item should be renewed if it lives no longer than this.
    pub recache: Option<i32>,
    /// C: the required CAS number.
    pub cas: Option<u64>,
    /// E: the CAS number that a changed item gets.
    pub new_cas: Option<u64>,
    /// F: the client's flags.
    pub client_flags: u32,
    /// M: the mode letter.
    pub mode: Option<u8>,
    /// J: the initial number of a new item.
    pub initial: u64,
    /// D: the number to add or subtract.
    pub delta: u64,
}

impl<'a> MetaFlags<'a> {
    /// Parses the words behind the key or the length.
    ///
    /// # Errors
    ///
    /// memcached's reply.
    pub fn parse(words: ArgsView<'a>) -> Result<Self, &'static str> {
        const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
        let mut flags = MetaFlags {
            words,
            seen: 0,
            vivify: None,
            ttl: None,
            recache: None,
            cas: None,
            new_cas: None,
            client_flags: 0,
            mode: None,
            initial: 0,
            delta: 1,
        };
        if words.len() > WORDS_MAX - 2 {
            return Err("CLIENT_ERROR options flags are too long");
        }
        // All flags are checked: an unknown one is reported before a wrong value.
        let mut wrong = Ok(());
        for word in words.iter() {
            let (letter, value) = word.split_first().expect("words are not empty");
            let bit = 1u128.checked_shl(u32::from(*letter)).filter(|_| *letter < 127);
            let bit = bit.filter(|bit| flags.seen & bit == 0);
            flags.seen |= bit.ok_or("CLIENT_ERROR duplicate flag")?;
            let outcome = match letter {
                b'N' => set(&mut flags.vivify, parse_i32(value), BAD_TOKEN),
                b'T' => set(&mut flags.ttl, parse_i32(value), BAD_TOKEN),
                b'R' => set(&mut flags.recache, parse_i32(value), BAD_TOKEN),
                b'C' => set(&mut flags.cas, parse_u64(value), BAD_TOKEN),
                b'E' => set(&mut flags.new_cas, parse_u64(value), BAD_TOKEN),
                b'F' => put(&mut flags.client_flags, parse_u32(value), BAD_LINE),
                b'J' => put(
                    &mut flags.initial,
                    parse_u64(value),
                    "CLIENT_ERROR invalid numeric initial value",
                ),
                b'D' => put(
                    &mut flags.delta,
                    parse_u64(value),
                    "CLIENT_ERROR invalid numeric delta value",
                ),
                b'M' => set(
                    &mut flags.mode,
                    value.first().copied().filter(|_| value.len() == 1),
                    "CLIENT_ERROR incorrect length for M token",
                ),
                b'O' if word.len() > OPAQUE_LEN_MAX => Err("CLIENT_ERROR opaque token too long"),
                b'O' | b'P' | b'L' | b'I' | b'b' | b'c' | b'f' | b'h' | b'k' | b'l' | b'q'
                | b's' | b't' | b'u' | b'v' | b'x' => Ok(()),
                _ => return Err("CLIENT_ERROR invalid flag"),
            };
            wrong = outcome.and(wrong);
        }
        wrong.map(|()| flags)
    }

    /// Whether a flag is present.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.seen >> letter & 1 != 0
    }

    /// The flags in order, as they were sent.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.words.iter()
    }

    /// Whether any flag changes an item that is read.
    pub fn changes(&self) -> bool {
        self.vivify.is_some() || self.ttl.is_some() || self.recache.is_some()
    }
}

const BAD_LINE: &str = "CLIENT_ERROR bad command line format";

fn set<T>(to: &mut Option<T>, value: Option<T>, wrong: &'static str) -> Result<(), &'static str> {
    *to = value;
    if to.is_some() { Ok(()) } else { Err(wrong) }
}

fn put<T>(to: &mut T, value: Option<T>, wrong: &'static str) -> Result<(), &'static str> {
    *to = value.ok_or(wrong)?;
    Ok(())
}

/// The key of a meta command, decoded if it was sent in base64.
#[derive(Clone, Copy, Debug)]
pub struct MetaKey<'a> {
    word: &'a [u8],
    decoded: Option<([u8; DECODED_LEN_MAX], usize)>,
}

impl<'a> MetaKey<'a> {
    /// Parses the key.
    ///
    /// # Errors
    ///
    /// memcached's reply.
    pub fn parse(word: &'a [u8], is_encoded: bool) -> Result<Self, &'static str> {
        if word.len() > KEY_LEN_MAX {
            return Err(BAD_LINE);
        }
        if !is_encoded {
            return Ok(MetaKey { word, decoded: None });
        }
        let mut buffer = [0; DECODED_LEN_MAX];
        match STANDARD.decode_slice(word, &mut buffer) {
            Ok(len) if len > 0 => Ok(MetaKey { word, decoded: Some((buffer, len)) }),
            _ => Err("CLIENT_ERROR error decoding key"),
        }
    }

    /// The word for a key in base64. None: there is none.
    pub fn encode(key: &[u8]) -> Option<Vec<u8>> {
        let mut word = vec![0; KEY_LEN_MAX];
        let len = STANDARD.encode_slice(key, &mut word).ok().filter(|len| *len > 0)?;
        word.truncate(len);
        Some(word)
    }

    /// The key's bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.decoded {
            Some((buffer, len)) => &buffer[..*len],
            None => self.word,
        }
    }

    /// The key as it was sent.
    pub fn word(&self) -> &'a [u8] {
        self.word
    }

    /// Whether the key was sent in base64.
    pub fn is_encoded(&self) -> bool {
        self.decoded.is_some()
    }
}
