//! Serializes a value to the payload of DUMP, and back: the format of one value in Redis's RDB files.
//!
//! ```text
//!   type u8 | the value | version of the format u16 | CRC-64 of all that is before it
//! ```
//! Writing uses the plainest encodings, which the most versions read: strings (small integers as numbers), hashes and
//! sets as lists of strings, sets of integers as intsets, and sorted sets with binary scores. Lists are written as by
//! Redis 7 ([`super::list`]), hashes with expiring fields as by Redis 7.4.
//!
//! Reading accepts every encoding of these types up to Redis 7.4, such as compressed strings (LZF), *listpacks* and
//! ziplists of lists. Numbers are little endian, except lengths.
//!
//! The input is untrusted: every length must be checked, and no length may reserve memory before its bytes are there.

use std::borrow::Cow;
use std::collections::HashSet;

use hotring_protocol::parse_i64;
use hotring_store::{Content, Field, HashRef, Member, SetForm, SetRef, ValueRef};

use super::list::{push_list, read_list};
use super::{
    SEAL_LEN, TYPE_HASH, TYPE_HASH_EXPIRING, TYPE_HASH_EXPIRING_OLD, TYPE_HASH_LISTPACK,
    TYPE_HASH_LISTPACK_EXPIRING, TYPE_HASH_LISTPACK_EXPIRING_OLD, TYPE_LIST, TYPE_LIST_QUICKLIST,
    TYPE_LIST_QUICKLIST_2, TYPE_LIST_ZIPLIST, TYPE_SET, TYPE_SET_INTSET, TYPE_SET_LISTPACK,
    TYPE_STRING, TYPE_ZSET, TYPE_ZSET_2, TYPE_ZSET_LISTPACK, crc64, intset, listpack, push_len,
    push_number, push_string, seal, text, unpack, zset,
};

/// Expiry times of fields must be below this, in Unix milliseconds.
const EXPIRY_END: u64 = 1 << 48;

/// Latest format version that can be read: Redis 7.4's.
const VERSION_MAX: u16 = 12;

/// Serializes a value, including format version and checksum.
pub(crate) fn dump(value: ValueRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        ValueRef::Int(n) => {
            out.push(TYPE_STRING);
            push_int(&mut out, n);
        }
        ValueRef::Bytes(bytes) => {
            out.push(TYPE_STRING);
            push_string(&mut out, bytes);
        }
        ValueRef::Text(text) => {
            out.push(TYPE_STRING);
            push_string(&mut out, &text.whole());
        }
        ValueRef::Hash(hash) if hash.expires() => push_expiring(&mut out, hash),
        ValueRef::List(list) => push_list(&mut out, list),
        ValueRef::Set(set) if set.form() == SetForm::Ints => {
            out.push(TYPE_SET_INTSET);
            push_intset(&mut out, set);
        }
        ValueRef::Set(set) => {
            out.push(TYPE_SET);
            push_len(&mut out, set.count());
            set.iter().for_each(|member| member.with_bytes(|member| push_string(&mut out, member)));
        }
        ValueRef::Hash(hash) => {
            out.push(TYPE_HASH);
            push_len(&mut out, hash.count());
            for (field, value) in hash.iter() {
                push_string(&mut out, field);
                push_string(&mut out, value);
            }
        }
        ValueRef::Scored(scored) => {
            out.push(TYPE_ZSET_2);
            zset::push(&mut out, scored);
        }
    }
    seal(&mut out);
    out
}

fn push_expiring(out: &mut Vec<u8>, hash: HashRef<'_>) {
    let first = hash.iter_with_expiry().filter_map(|(_, _, at)| at).min().unwrap_or(0);
    out.push(TYPE_HASH_EXPIRING);
    out.extend_from_slice(&first.to_le_bytes());
    push_len(out, hash.count());
    for (field, value, at) in hash.iter_with_expiry() {
        push_number(out, at.map_or(0, |at| at - first + 1));
        push_string(out, field);
        push_string(out, value);
    }
}

/// Appends an intset: sorted integers, all as wide as the widest one needs.
fn push_intset(out: &mut Vec<u8>, set: SetRef<'_>) {
    let int = |member| match member {
        Member::Int(n) => Some(n),
        Member::Bytes(_) => None,
    };
    let ints: Vec<i64> = set.iter().filter_map(int).collect();
    let width = match ints.iter().fold(0, |all, n| all | (n ^ (n >> 63)).cast_unsigned()) {
        0..0x8000 => 2,
        0x8000..0x8000_0000 => 4,
        _ => 8,
    };
    push_len(out, 8 + width * ints.len());
    out.extend_from_slice(&(width as u32).to_le_bytes());
    out.extend_from_slice(&(ints.len() as u32).to_le_bytes());
    ints.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()[..width]));
}

fn push_int(out: &mut Vec<u8>, n: i64) {
    if let Ok(n) = i8::try_from(n) {
        out.extend_from_slice(&[0xc0, n.cast_unsigned()]);
    } else if let Ok(n) = i16::try_from(n) {
        out.push(0xc1);
        out.extend_from_slice(&n.to_le_bytes());
    } else if let Ok(n) = i32::try_from(n) {
        out.push(0xc2);
        out.extend_from_slice(&n.to_le_bytes());
    } else {
        push_string(out, n.to_string().as_bytes());
    }
}

/// The reason for rejecting a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadError {
    /// The checksum is wrong, or the format version is too new.
    Sum,
    /// The value is malformed, or of an unknown type.
    Format,
    /// A string is longer than the limit.
    TooLong {
        /// Its length.
        len: usize,
    },
}

/// Parses a payload, none of whose strings may be longer than `len_max`.
pub(crate) fn undump(payload: &[u8], len_max: usize) -> Result<Content<'_>, PayloadError> {
    let (body, sum) = payload.split_last_chunk().ok_or(PayloadError::Sum)?;
    let (value, version) = body.split_last_chunk().ok_or(PayloadError::Sum)?;
    // In Redis's format, a checksum of 0 means that there is none.
    let is_sound = *sum == [0; 8] || crc64(0, body) == u64::from_le_bytes(*sum);
    if !is_sound || u16::from_le_bytes(*version) > VERSION_MAX {
        return Err(PayloadError::Sum);
    }
    debug_assert_eq!(value.len() + SEAL_LEN, payload.len());
    let mut input = Input { rest: value, len_max, unpacked_left: len_max };
    let value = match input.byte().ok_or(PayloadError::Format)? {
        TYPE_STRING => Content::String(input.string()?),
        kind @ (TYPE_LIST | TYPE_LIST_ZIPLIST | TYPE_LIST_QUICKLIST | TYPE_LIST_QUICKLIST_2) => {
            read_list(&mut input, kind)?
        }
        TYPE_HASH => {
            let count = input.count()?;
            let mut fields = Vec::new();
            for _ in 0..count {
                fields.push((input.string()?, input.string()?));
            }
            hash_of(fields)?
        }
        TYPE_SET => {
            let (count, is_special) = input.len().ok_or(PayloadError::Format)?;
            if is_special {
                return Err(PayloadError::Format);
            }
            let mut members = Vec::new();
            for _ in 0..count {
                members.push(input.string()?);
            }
            set_of(members)?
        }
        TYPE_SET_INTSET => set_of(intset(&input.string()?).ok_or(PayloadError::Format)?)?,
        TYPE_SET_LISTPACK => {
            let list = input.string()?;
            let items = listpack(&list).ok_or(PayloadError::Format)?;
            set_of(items.into_iter().map(|item| Cow::Owned(item.into_owned())).collect())?
        }
        TYPE_HASH_LISTPACK => {
            let list = input.string()?;
            let items = listpack(&list).ok_or(PayloadError::Format)?;
            let (pairs, []) = items.as_chunks::<2>() else { return Err(PayloadError::Format) };
            let own = |item: &Cow<'_, [u8]>| Cow::Owned(item.to_vec());
            hash_of(pairs.iter().map(|[field, value]| (own(field), own(value))).collect())?
        }
        TYPE_HASH_EXPIRING => {
            let first = u64::from_le_bytes(input.array().ok_or(PayloadError::Format)?);
            let fields = input.expiring_fields(|later| first.checked_add(later - 1))?;
            hash_until(fields)?
        }
        TYPE_HASH_EXPIRING_OLD => hash_until(input.expiring_fields(Some)?)?,
        kind @ (TYPE_HASH_LISTPACK_EXPIRING | TYPE_HASH_LISTPACK_EXPIRING_OLD) => {
            if kind == TYPE_HASH_LISTPACK_EXPIRING {
                input.take(8).ok_or(PayloadError::Format)?;
            }
            let list = input.string()?;
            let items = listpack(&list).ok_or(PayloadError::Format)?;
            let (triples, []) = items.as_chunks::<3>() else { return Err(PayloadError::Format) };
            let own = |item: &Cow<'_, [u8]>| Cow::Owned(item.to_vec());
            let field = |[field, value, at]: &[Cow<'_, [u8]>; 3]| {
                let at = parse_i64(at).and_then(|at| u64::try_from(at).ok())?;
                Some(((own(field), own(value)), expiry(at)?))
            };
            let fields: Option<_> = triples.iter().map(field).collect();
            hash_until(fields.ok_or(PayloadError::Format)?)?
        }
        kind @ (TYPE_ZSET | TYPE_ZSET_2) => {
            let (count, is_special) = input.len().ok_or(PayloadError::Format)?;
            if is_special {
                return Err(PayloadError::Format);
            }
            let mut members = Vec::new();
            for _ in 0..count {
                let member = input.string()?;
                let score = if kind == TYPE_ZSET { input.score_text() } else { input.score() };
                members.push((member, score.ok_or(PayloadError::Format)?));
            }
            sorted_set_of(members)?
        }
        TYPE_ZSET_LISTPACK => {
            let list = input.string()?;
            let items = listpack(&list).ok_or(PayloadError::Format)?;
            sorted_set_of(zset::pairs_of(&items).ok_or(PayloadError::Format)?)?
        }
        _ => return Err(PayloadError::Format),
    };
    if input.rest.is_empty() { Ok(value) } else { Err(PayloadError::Format) }
}

/// Builds a hash. There must be at least one field, and no field may repeat.
fn hash_of(fields: Vec<Field<'_>>) -> Result<Content<'_>, PayloadError> {
    let names: HashSet<&[u8]> = fields.iter().map(|(field, _)| &**field).collect();
    let is_sound = !fields.is_empty() && names.len() == fields.len();
    if is_sound { Ok(Content::Hash(fields)) } else { Err(PayloadError::Format) }
}

/// The expiry of a field: `Some(None)` for 0, which means no expiry; None if the time is out of range.
fn expiry(at: u64) -> Option<Option<u64>> {
    (at < EXPIRY_END).then_some(Some(at).filter(|at| *at > 0))
}

/// As `hash_of`, for a hash with expiring fields.
fn hash_until(fields: Vec<(Field<'_>, Option<u64>)>) -> Result<Content<'_>, PayloadError> {
    let names: HashSet<&[u8]> = fields.iter().map(|((field, _), _)| &**field).collect();
    let is_sound = !fields.is_empty() && names.len() == fields.len();
    if is_sound { Ok(Content::HashUntil(fields)) } else { Err(PayloadError::Format) }
}

/// Builds a set. There must be at least one member, and no member may repeat.
fn set_of(members: Vec<Cow<'_, [u8]>>) -> Result<Content<'_>, PayloadError> {
    let names: HashSet<&[u8]> = members.iter().map(|member| &**member).collect();
    let is_sound = !members.is_empty() && names.len() == members.len();
    if is_sound { Ok(Content::Set(members)) } else { Err(PayloadError::Format) }
}

/// Builds a sorted set. There must be at least one member, no member may repeat, and no score may be NaN.
fn sorted_set_of<'a>(members: Vec<(Cow<'a, [u8]>, f64)>) -> Result<Content<'a>, PayloadError> {
    let names: HashSet<&[u8]> = members.iter().map(|(member, _)| &**member).collect();
    let is_sound = !members.is_empty()
        && names.len() == members.len()
        && members.iter().all(|(_, score)| !score.is_nan());
    if is_sound { Ok(Content::Scored(members)) } else { Err(PayloadError::Format) }
}

/// A cursor over the unread bytes of a payload.
pub(super) struct Input<'a> {
    rest: &'a [u8],
    len_max: usize,
    /// Total length that further compressed strings may expand to.
    unpacked_left: usize,
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    /// Reads a length. If the second value is true, the first one is the number of a special encoding instead.
    fn len(&mut self) -> Option<(u64, bool)> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3f);
        Some(match first >> 6 {
            0 => (low, false),
            1 => (low << 8 | u64::from(self.byte()?), false),
            3 => (low, true),
            _ if first == 0x80 => (u32::from_be_bytes(self.array()?).into(), false),
            _ if first == 0x81 => (u64::from_be_bytes(self.array()?), false),
            _ => return None,
        })
    }

    fn score(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// Reads a score: a length byte, then text. The greatest lengths stand for the infinities and for NaN, which is an
    /// error.
    fn score_text(&mut self) -> Option<f64> {
        match self.byte()? {
            255 => Some(f64::NEG_INFINITY),
            254 => Some(f64::INFINITY),
            253 => None,
            len => zset::score_of(self.take(len.into())?),
        }
    }

    /// Reads a field count, then for each field its expiry, name and value. `at` converts an expiry above 0 to Unix
    /// milliseconds.
    fn expiring_fields(
        &mut self,
        at: impl Fn(u64) -> Option<u64>,
    ) -> Result<Vec<(Field<'a>, Option<u64>)>, PayloadError> {
        let count = self.count()?;
        let mut fields = Vec::new();
        for _ in 0..count {
            let number = self.count()?;
            let at = if number == 0 { Some(0) } else { at(number) };
            let at = at.and_then(expiry).ok_or(PayloadError::Format)?;
            fields.push(((self.string()?, self.string()?), at));
        }
        Ok(fields)
    }

    /// Reads a count; a special encoding is an error.
    pub(super) fn count(&mut self) -> Result<u64, PayloadError> {
        match self.len() {
            Some((count, false)) => Ok(count),
            _ => Err(PayloadError::Format),
        }
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, [u8]>, PayloadError> {
        let string = match self.len().ok_or(PayloadError::Format)? {
            (len, false) => self.take(len).map(Cow::Borrowed),
            (0, true) => self.array().map(|bytes| text(i8::from_le_bytes(bytes).into())),
            (1, true) => self.array().map(|bytes| text(i16::from_le_bytes(bytes).into())),
            (2, true) => self.array().map(|bytes| text(i32::from_le_bytes(bytes).into())),
            (3, true) => return self.compressed().map(Cow::Owned),
            _ => None,
        };
        let string = string.ok_or(PayloadError::Format)?;
        self.check_len(string.len())?;
        Ok(string)
    }

    fn check_len(&self, len: usize) -> Result<(), PayloadError> {
        if len > self.len_max { Err(PayloadError::TooLong { len }) } else { Ok(()) }
    }

    fn compressed(&mut self) -> Result<Vec<u8>, PayloadError> {
        let (Some((packed_len, false)), Some((len, false))) = (self.len(), self.len()) else {
            return Err(PayloadError::Format);
        };
        let packed = self.take(packed_len).ok_or(PayloadError::Format)?;
        let len = usize::try_from(len).map_err(|_| PayloadError::Format)?;
        self.check_len(len)?;
        // The limit must cover all strings of a value together, because a few bytes can expand to many.
        self.unpacked_left =
            self.unpacked_left.checked_sub(len).ok_or(PayloadError::TooLong { len })?;
        unpack(packed, len).ok_or(PayloadError::Format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotring_store::{Options, Store};

    fn restored(payload: &[u8]) -> Result<Content<'_>, PayloadError> {
        undump(payload, 1 << 20)
    }

    /// The payload of a value that a store has.
    fn dumped(content: Content<'_>) -> Vec<u8> {
        let mut session = Store::new(Options::default()).unwrap().session();
        session.put_content(b"k", content, None, true, 0).unwrap();
        session.get(b"k", 0, dump).expect("it was stored")
    }

    fn string(text: &[u8]) -> Content<'_> {
        Content::String(text.into())
    }

    fn hash<'a>(fields: &[(&'a [u8], &'a [u8])]) -> Content<'a> {
        Content::Hash(
            fields.iter().map(|(field, value)| ((*field).into(), (*value).into())).collect(),
        )
    }

    /// A value with the right sum behind it.
    fn sealed(value: &[u8]) -> Vec<u8> {
        let mut payload = value.to_vec();
        seal(&mut payload);
        payload
    }

    #[test]
    fn the_sum_is_that_of_redis() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(dumped(string(b"12")), b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5");
    }

    #[test]
    fn strings_come_back() {
        let long = vec![7; 70_000];
        let middle = vec![b'x'; 1000];
        let texts: [&[u8]; 9] =
            [b"", b"a", b"-128", b"32767", b"-2147483648", b"2147483648", b"012", &middle, &long];
        for text in texts {
            assert_eq!(restored(&dumped(string(text))), Ok(string(text)));
        }
    }

    #[test]
    fn payloads_written_by_redis_are_read() {
        let compressed = b"\x00\xc3\t3\x01aa\xe0&\x00\x01aa\n\x00\"Q^\xaes\xba\xc2~";
        assert_eq!(restored(compressed), Ok(string(&[b'a'; 51])));
        let packed =
            b"\x10\x17\x17\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x82bb\x03\x85hello\x06\xff\n\x00\
                     \xc4\xf7\xcft@y\x08X";
        let fields = hash(&[(b"a", b"1"), (b"bb", b"hello")]);
        assert_eq!(restored(packed).as_ref(), Ok(&fields));
        assert_eq!(restored(&dumped(fields.clone())), Ok(fields));
    }

    #[test]
    fn fields_that_expire_come_back() {
        let field = |name: &'static [u8], value: &'static [u8], at| {
            ((Cow::Borrowed(name), Cow::Borrowed(value)), at)
        };
        let at = 1_700_000_000_000;
        let fields = [
            field(b"a", b"1", Some(at + (1 << 40))),
            field(b"bb", b"hello", None),
            field(b"c", b"", Some(at)),
        ];
        let content = Content::HashUntil(fields.to_vec());
        let payload = dumped(content.clone());
        let head = [&[24][..], &at.to_le_bytes(), b"\x03\x81\x00\x00\x01\x00\x00\x00\x00\x01\x01a"];
        assert!(payload.starts_with(&head.concat()), "{}", payload.escape_ascii());
        assert_eq!(payload[payload.len() - SEAL_LEN..][..2], [12, 0]);
        assert_eq!(restored(&payload).as_ref(), Ok(&content));
        for bytes in (0..payload.len() - SEAL_LEN).map(|end| sealed(&payload[..end])) {
            assert!(restored(&bytes).is_err());
        }
        let list = b"\x15\x00\x00\x00\x03\x00\x81a\x02\x01\x01\xf2\x00\x00\x01\x04\x81b\x02\x02\x01\x00\x01\xff";
        let mut list = list.to_vec();
        list[0] = list.len() as u8;
        let fields = [field(b"a", b"1", Some(1 << 16)), field(b"b", b"2", None)];
        let content = Content::HashUntil(fields.to_vec());
        let string = [&[list.len() as u8][..], &list].concat();
        let old = sealed(&[&[23][..], &string].concat());
        assert_eq!(restored(&old).as_ref(), Ok(&content));
        let new = sealed(&[&[25][..], &[0, 0, 1, 0, 0, 0, 0, 0], &string].concat());
        assert_eq!(restored(&new).as_ref(), Ok(&content));
        let plain = b"\x16\x02\x05\x01a\x011\x00\x01b\x012";
        let fields = [field(b"a", b"1", Some(5)), field(b"b", b"2", None)];
        assert_eq!(restored(&sealed(plain)), Ok(Content::HashUntil(fields.to_vec())));
    }

    #[test]
    fn damage_is_an_error_and_no_panic() {
        let list = [
            &[16, 23][..],
            b"\x17\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x82bb\x03\x85hello\x06\xff",
        ];
        let lzf = b"\x00\xc3\t3\x01aa\xe0&\x00\x01aa".to_vec();
        let hash = dumped(hash(&[(b"a", b"1"), (b"bb", &[9; 300])]));
        for value in [&hash[..hash.len() - SEAL_LEN], &list.concat(), &lzf] {
            for end in 0..value.len() {
                assert!(restored(&sealed(&value[..end])).is_err());
                for bit in 0..8 {
                    let mut damaged = value.to_vec();
                    damaged[end] ^= 1 << bit;
                    // Some changes only change the value.
                    restored(&sealed(&damaged)).ok();
                    let mut payload = sealed(value);
                    payload[end] ^= 1 << bit;
                    assert_eq!(restored(&payload), Err(PayloadError::Sum));
                }
            }
        }
        assert_eq!(restored(b""), Err(PayloadError::Sum));
        let too_new = [&b"\x00\x01a"[..], &13u16.to_le_bytes(), &[0; 8]].concat();
        assert_eq!(restored(&too_new), Err(PayloadError::Sum));
        let long = b"\x00\xc3\x03\x80\xff\xff\xff\xff\xe0\xff\x00";
        assert!(matches!(restored(&sealed(long)), Err(PayloadError::TooLong { .. })));
        let twice = b"\x04\x02\x01a\x011\x01a\x012";
        assert_eq!(restored(&sealed(twice)), Err(PayloadError::Format));
        assert_eq!(restored(&sealed(b"\x04\x00")), Err(PayloadError::Format), "no fields");
        assert_eq!(restored(&sealed(b"\x0f\x01\x01a")), Err(PayloadError::Format), "a stream");
    }
}
