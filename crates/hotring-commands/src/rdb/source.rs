//! Values in the encodings of Redis's RDB files and DUMP: strings, lists, hashes, sets and sorted sets.
//!
//! Other types are only named. Numbers are little endian, except lengths.

use std::io::{self, Read};

use hotring_protocol::parse_i64;

use super::item::{FieldUntil, LEN_MAX, ReadError, Value, each_once, hash};
use super::{
    NODE_PACKED, NODE_PLAIN, PACKED_MAX, SEAL_LEN, TYPE_HASH, TYPE_HASH_EXPIRING,
    TYPE_HASH_EXPIRING_OLD, TYPE_HASH_LISTPACK, TYPE_HASH_LISTPACK_EXPIRING,
    TYPE_HASH_LISTPACK_EXPIRING_OLD, TYPE_LIST, TYPE_LIST_QUICKLIST, TYPE_LIST_QUICKLIST_2,
    TYPE_LIST_ZIPLIST, TYPE_SET, TYPE_SET_INTSET, TYPE_SET_LISTPACK, TYPE_STRING, TYPE_ZSET,
    TYPE_ZSET_2, TYPE_ZSET_LISTPACK, crc64, intset, listpack, unpack, ziplist, zset,
};

/// A hash with its fields in one string, as before Redis 7.
const TYPE_HASH_ZIPLIST: u8 = 13;
/// A sorted set in the same form.
const TYPE_ZSET_ZIPLIST: u8 = 12;
/// Most memory of a hash or a list while it is read, and the overhead of a field.
const HASH_LEN_MAX: usize = 2 << 30;
const FIELD_LEN: usize = 2 * size_of::<Vec<u8>>();

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The value of a DUMP payload, or the name of its type.
pub fn payload(payload: &[u8]) -> Result<Result<Value, String>, ReadError> {
    let body = payload.len().checked_sub(SEAL_LEN).filter(|len| *len > 0);
    let body = body.ok_or_else(|| ReadError::bad(0, "the payload of DUMP is too short"))?;
    let (sealed, sum) = payload.split_last_chunk().expect("it is longer");
    // 0 means that there is no checksum.
    if *sum != [0; 8] && crc64(0, sealed) != u64::from_le_bytes(*sum) {
        return Err(ReadError::bad(0, "the checksum of the payload of DUMP is wrong"));
    }
    let mut source = Source::new(&payload[1..body]);
    let kind = payload[0];
    let Some(value) = source.value(kind)? else { return Ok(Err(type_name(kind))) };
    match source.inner.is_empty() {
        true => Ok(Ok(value)),
        false => Err(ReadError::bad(source.at + 1, "the payload of DUMP is longer than its value")),
    }
}

/// Whether this server knows what values of a type are, although it may not have them. Any other type is one of a later
/// version, or damage.
pub(super) fn is_named(kind: u8) -> bool {
    matches!(kind, 6 | 7 | 9 | 15 | 19 | 21 | 26)
}

/// The name of a type.
pub fn type_name(kind: u8) -> String {
    match kind {
        6 | 7 => "a module's value".into(),
        9 => "a hash in the form of Redis 2.4".into(),
        15 | 19 | 21 | 26 => "a stream".into(),
        _ => format!("a value of the unknown type {kind}"),
    }
}

/// A byte source that tracks its position and checksum.
pub(super) struct Source<R> {
    inner: R,
    /// Bytes read so far.
    pub(super) at: u64,
    /// Their checksum.
    pub(super) sum: u64,
    /// The bytes are of a Valkey from 9 on, which has a type of its own under a number of Redis's.
    pub(super) is_of_valkey: bool,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Source<R> {
        Source { inner, at: 0, sum: 0, is_of_valkey: false }
    }

    pub(super) fn input(&mut self) -> &mut R {
        &mut self.inner
    }

    pub(super) fn bad<T>(&self, problem: impl Into<String>) -> Result<T, ReadError> {
        Err(ReadError::bad(self.at, problem))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, ReadError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ReadError> {
        match self.inner.read_exact(bytes) {
            Ok(()) => self.took(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return self.cut(),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) fn is_at_end(&mut self) -> Result<bool, ReadError> {
        Ok(self.inner.by_ref().take(1).read_to_end(&mut Vec::new())? == 0)
    }

    fn took(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        self.sum = crc64(self.sum, bytes);
    }

    fn cut<T>(&self) -> Result<T, ReadError> {
        self.bad("the file ends within this part")
    }

    /// Reads `len` bytes. Memory must grow only with the bytes that arrive.
    fn bytes(&mut self, len: u64) -> Result<Vec<u8>, ReadError> {
        if len > LEN_MAX {
            return self.bad(format!("a string of {len} bytes is longer than Redis allows"));
        }
        let mut bytes = Vec::new();
        self.inner.by_ref().take(len).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < len {
            return self.cut();
        }
        self.took(&bytes);
        Ok(bytes)
    }

    /// A length, or, if the second is true, the number of a special encoding.
    pub(super) fn length_or_form(&mut self) -> Result<(u64, bool), ReadError> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3f);
        Ok(match first >> 6 {
            0 => (low, false),
            1 => (low << 8 | u64::from(self.byte()?), false),
            3 => (low, true),
            _ if first == 0x80 => (u32::from_be_bytes(self.array()?).into(), false),
            _ if first == 0x81 => (u64::from_be_bytes(self.array()?), false),
            _ => return self.bad(format!("{first:#x} is not a valid length")),
        })
    }

    pub(super) fn length(&mut self) -> Result<u64, ReadError> {
        match self.length_or_form()? {
            (len, false) => Ok(len),
            (_, true) => self.bad("a length is expected before this"),
        }
    }

    pub(super) fn string(&mut self) -> Result<Vec<u8>, ReadError> {
        let number = match self.length_or_form()? {
            (len, false) => return self.bytes(len),
            (0, true) => i8::from_le_bytes(self.array()?).into(),
            (1, true) => i16::from_le_bytes(self.array()?).into(),
            (2, true) => i32::from_le_bytes(self.array()?),
            (3, true) => return self.compressed(),
            (form, true) => return self.bad(format!("unknown string encoding {form}")),
        };
        Ok(number.to_string().into_bytes())
    }

    fn compressed(&mut self) -> Result<Vec<u8>, ReadError> {
        let (packed_len, len) = (self.length()?, self.length()?);
        let packed = self.bytes(packed_len)?;
        let fits = usize::try_from(len).ok().filter(|_| len <= LEN_MAX);
        match fits.and_then(|len| unpack(&packed, len)) {
            Some(text) => Ok(text),
            None => self.bad("the compressed string before this is damaged"),
        }
    }

    /// The value of a type. None, with nothing read, for an unsupported type.
    pub(super) fn value(&mut self, kind: u8) -> Result<Option<Value>, ReadError> {
        let fields = match kind {
            TYPE_STRING => return Ok(Some(Value::String(self.string()?))),
            TYPE_LIST | TYPE_LIST_ZIPLIST | TYPE_LIST_QUICKLIST | TYPE_LIST_QUICKLIST_2 => {
                return self.list(kind).map(Some);
            }
            TYPE_SET => {
                let members = self.members()?;
                return self.set_of(members);
            }
            TYPE_SET_INTSET | TYPE_SET_LISTPACK => {
                let read = if kind == TYPE_SET_INTSET { owned_intset } else { owned_listpack };
                let members = self.packed_items(read)?;
                return self.set_of(members);
            }
            TYPE_HASH => self.pairs()?,
            TYPE_HASH_LISTPACK => self.packed(owned_listpack)?,
            TYPE_HASH_ZIPLIST => self.packed(ziplist)?,
            TYPE_HASH_EXPIRING_OLD if self.is_of_valkey => {
                return self.expiring_in_valkey().map(Some);
            }
            TYPE_HASH_EXPIRING | TYPE_HASH_EXPIRING_OLD => {
                return self.expiring(kind == TYPE_HASH_EXPIRING).map(Some);
            }
            TYPE_HASH_LISTPACK_EXPIRING | TYPE_HASH_LISTPACK_EXPIRING_OLD => {
                if kind == TYPE_HASH_LISTPACK_EXPIRING {
                    self.array::<8>()?;
                }
                return self.packed_expiring().map(Some);
            }
            TYPE_ZSET | TYPE_ZSET_2 | TYPE_ZSET_ZIPLIST | TYPE_ZSET_LISTPACK => {
                return self.scored(kind).map(Some);
            }
            _ => return Ok(None),
        };
        match fields.is_empty() {
            true => self.bad("the hash before this has no fields"),
            false => Ok(Some(Value::Hash(fields))),
        }
    }

    fn list(&mut self, kind: u8) -> Result<Value, ReadError> {
        let count = if kind == TYPE_LIST_ZIPLIST { 1 } else { self.length()? };
        let (mut elements, mut len) = (Vec::new(), 0);
        for _ in 0..count {
            let from = elements.len();
            match kind {
                TYPE_LIST => elements.push(self.string()?),
                TYPE_LIST_QUICKLIST_2 => match self.length()? {
                    NODE_PLAIN => elements.push(self.string()?),
                    NODE_PACKED => elements.extend(self.node(owned_listpack)?),
                    _ => return self.bad("the node of a list is neither plain nor packed"),
                },
                _ => elements.extend(self.node(ziplist)?),
            }
            len += elements[from..].iter().map(|element| element.len() + FIELD_LEN).sum::<usize>();
            if len > HASH_LEN_MAX {
                return self.bad("the list is too large");
            }
        }
        match elements.is_empty() {
            true => self.bad("the list before this has no elements"),
            false => Ok(Value::List(elements)),
        }
    }

    /// The elements of a list's node, packed into one string.
    fn node(&mut self, read: fn(&[u8]) -> Option<Vec<Vec<u8>>>) -> Result<Vec<Vec<u8>>, ReadError> {
        let packed = self.string()?;
        match read(&packed) {
            Some(elements) => Ok(elements),
            None => self.bad("the packed list before this is damaged"),
        }
    }

    /// A hash with fields that expire. With `has_first`, the earliest expiry time precedes them, and their own
    /// times are relative to it.
    fn expiring(&mut self, has_first: bool) -> Result<Value, ReadError> {
        let first = if has_first { u64::from_le_bytes(self.array()?) } else { 1 };
        let (count, mut fields, mut len) = (self.length()?, Vec::new(), 0);
        for _ in 0..count {
            let at = match self.length()? {
                0 => None,
                later => Some(first.saturating_add(later - 1)),
            };
            let (field, value) = (self.string()?, self.string()?);
            len += field.len() + value.len() + FIELD_LEN;
            if len > HASH_LEN_MAX {
                return self.bad("the hash is too large");
            }
            fields.push(((field, value), at));
        }
        self.some_fields(fields)
    }

    /// A hash with fields that expire, as Valkey writes it: a time, or -1, behind each field.
    fn expiring_in_valkey(&mut self) -> Result<Value, ReadError> {
        let (count, mut fields, mut len) = (self.length()?, Vec::new(), 0);
        for _ in 0..count {
            let (field, value) = (self.string()?, self.string()?);
            let at = u64::try_from(i64::from_le_bytes(self.array()?)).ok();
            len += field.len() + value.len() + FIELD_LEN;
            if len > HASH_LEN_MAX {
                return self.bad("the hash is too large");
            }
            fields.push(((field, value), at));
        }
        self.some_fields(fields)
    }

    /// A hash with fields that expire, packed into one string.
    fn packed_expiring(&mut self) -> Result<Value, ReadError> {
        let list = self.string()?;
        if list.len() > PACKED_MAX {
            return self.bad("the packed hash is larger than any of Redis");
        }
        let read = |list| {
            let items = listpack(list)?;
            let (triples, []) = items.as_chunks::<3>() else { return None };
            let field = |[field, value, at]: &[std::borrow::Cow<'_, [u8]>; 3]| {
                let at = u64::try_from(parse_i64(at)?).ok()?;
                Some(((field.to_vec(), value.to_vec()), Some(at).filter(|at| *at > 0)))
            };
            triples.iter().map(field).collect::<Option<Vec<_>>>()
        };
        match read(&list) {
            Some(fields) => self.some_fields(fields),
            None => self.bad("the packed hash before this is damaged"),
        }
    }

    fn some_fields(&self, fields: Vec<FieldUntil>) -> Result<Value, ReadError> {
        match fields.is_empty() {
            true => self.bad("the hash before this has no fields"),
            false => Ok(hash(fields)),
        }
    }

    fn scored(&mut self, kind: u8) -> Result<Value, ReadError> {
        let members = match kind {
            TYPE_ZSET | TYPE_ZSET_2 => self.scores(kind)?,
            kind => {
                let read = if kind == TYPE_ZSET_ZIPLIST { ziplist } else { owned_listpack };
                let text =
                    |(member, score): (Vec<u8>, Vec<u8>)| Some((member, zset::score_of(&score)?));
                let members = self.packed(read)?.into_iter().map(text).collect::<Option<Vec<_>>>();
                members.unwrap_or_default()
            }
        };
        match members.is_empty() || members.iter().any(|(_, score)| score.is_nan()) {
            true => self.bad("the sorted set before this is damaged"),
            false => Ok(Value::Scored(members)),
        }
    }

    /// Members, each followed by its score: text, or 8 bytes.
    fn scores(&mut self, kind: u8) -> Result<Vec<(Vec<u8>, f64)>, ReadError> {
        let count = self.length()?;
        let (mut members, mut len) = (Vec::new(), 0);
        for _ in 0..count {
            let member = self.string()?;
            let score = if kind == TYPE_ZSET {
                self.score_text()?
            } else {
                f64::from_le_bytes(self.array()?)
            };
            len += member.len() + FIELD_LEN;
            if len > HASH_LEN_MAX {
                return self.bad("the sorted set is too large");
            }
            members.push((member, score));
        }
        Ok(members)
    }

    /// A score as text behind its length, one byte; lengths from 253 on stand for NaN and the infinities.
    fn score_text(&mut self) -> Result<f64, ReadError> {
        Ok(match self.byte()? {
            255 => f64::NEG_INFINITY,
            254 => f64::INFINITY,
            253 => f64::NAN,
            len => zset::score_of(&self.bytes(len.into())?).unwrap_or(f64::NAN),
        })
    }

    fn pairs(&mut self) -> Result<Fields, ReadError> {
        let count = self.length()?;
        let (mut fields, mut len) = (Vec::new(), 0);
        for _ in 0..count {
            let (field, value) = (self.string()?, self.string()?);
            len += field.len() + value.len() + FIELD_LEN;
            if len > HASH_LEN_MAX {
                return self.bad("the hash is too large");
            }
            fields.push((field, value));
        }
        Ok(fields)
    }

    fn members(&mut self) -> Result<Vec<Vec<u8>>, ReadError> {
        let count = self.length()?;
        let (mut members, mut len) = (Vec::new(), 0);
        for _ in 0..count {
            let member = self.string()?;
            len += member.len() + FIELD_LEN;
            if len > HASH_LEN_MAX {
                return self.bad("the set is too large");
            }
            members.push(member);
        }
        Ok(members)
    }

    fn set_of(&self, members: Vec<Vec<u8>>) -> Result<Option<Value>, ReadError> {
        match members.is_empty() {
            true => self.bad("the set before this has no members"),
            false => Ok(Some(Value::Set(each_once(members)))),
        }
    }

    /// The parts of a container that is packed into one string.
    fn packed_items(
        &mut self,
        read: fn(&[u8]) -> Option<Vec<Vec<u8>>>,
    ) -> Result<Vec<Vec<u8>>, ReadError> {
        let list = self.string()?;
        match read(&list) {
            Some(items) => Ok(items),
            None => self.bad("the packed set before this is damaged"),
        }
    }

    /// The fields of a hash that is packed into one string.
    fn packed(&mut self, read: fn(&[u8]) -> Option<Vec<Vec<u8>>>) -> Result<Fields, ReadError> {
        let list = self.string()?;
        if list.len() > PACKED_MAX {
            return self.bad("the packed hash is larger than any of Redis");
        }
        let items = read(&list).filter(|items| items.len() % 2 == 0);
        let Some(items) = items else { return self.bad("the packed hash before this is damaged") };
        let mut items = items.into_iter();
        let pairs = std::iter::from_fn(|| Some((items.next()?, items.next()?)));
        Ok(pairs.collect())
    }
}

fn owned_listpack(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    Some(listpack(list)?.into_iter().map(|item| item.into_owned()).collect())
}

fn owned_intset(set: &[u8]) -> Option<Vec<Vec<u8>>> {
    Some(intset(set)?.into_iter().map(|item| item.into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: u8, bytes: &[u8]) -> Result<Option<Value>, ReadError> {
        Source::new(bytes).value(kind)
    }

    fn texts(items: &[&str]) -> Vec<Vec<u8>> {
        items.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    /// A ziplist of elements given without the length of the previous one.
    fn list_of(items: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        for item in items {
            body.push(5);
            body.extend_from_slice(item);
        }
        let len = (4 + 4 + 2 + body.len() + 1) as u32;
        [&len.to_le_bytes()[..], &[0; 6], &body, &[0xff]].concat()
    }

    #[test]
    fn all_elements_of_a_ziplist_are_read() {
        let long = [&[0x41, 0x00][..], &[b'x'; 256]].concat();
        let longer = [&[0x80, 0, 0, 0, 2][..], b"yz"].concat();
        let list = list_of(&[
            b"\x02ab",
            &long,
            &longer,
            &[0xc0, 0xff, 0xff],
            &[0xd0, 0, 0, 0, 0x80],
            &[0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0xf0, 0, 0, 0x80],
            &[0xfe, 0x80],
            &[0xf1],
            &[0xfd],
        ]);
        let long = "x".repeat(256);
        let numbers = ["-1", "-2147483648", "9223372036854775807", "-8388608", "-128", "0", "12"];
        let expected = [&["ab", &long, "yz"][..], &numbers].concat();
        assert_eq!(ziplist(&list).unwrap(), texts(&expected));
        let after_a_long_one = [&list[..10], &[0xfe, 0, 1, 0, 0, 1, b'a', 0xff]].concat();
        let mut after_a_long_one = after_a_long_one;
        after_a_long_one[0] = 18;
        after_a_long_one[1..4].fill(0);
        assert_eq!(ziplist(&after_a_long_one).unwrap(), texts(&["a"]));
    }

    #[test]
    fn damaged_values_are_errors_and_no_panic() {
        let list = list_of(&[b"\x01a", &[0xc0, 1, 2], b"\x01b", &[0xf3]]);
        let packed = [&[list.len() as u8][..], &list].concat();
        let pairs = b"\x02\x01a\xc0\x05\xc3\x09\x33\x01aa\xe0\x26\x00\x01aa\x02bb";
        let fields = |value| match value {
            Ok(Some(Value::Hash(fields))) => fields.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(fields(value(TYPE_HASH_ZIPLIST, &packed)), 2);
        assert_eq!(fields(value(TYPE_HASH, pairs)), 2);
        for (kind, bytes) in [(TYPE_HASH_ZIPLIST, &packed[..]), (TYPE_HASH, pairs)] {
            for i in 0..bytes.len() {
                assert!(value(kind, &bytes[..i]).is_err());
                for bit in 0..8 {
                    let mut damaged = bytes.to_vec();
                    damaged[i] ^= 1 << bit;
                    // Some damage only changes the value.
                    let _ = value(kind, &damaged);
                }
            }
        }
        // Lengths without their bytes.
        assert!(value(0, b"\x81\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
        assert!(value(0, b"\x80\x1f\xff\xff\xff").is_err());
        assert!(value(0, b"\xc3\x03\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00aa").is_err());
        assert!(value(TYPE_HASH, b"\x81\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
        assert!(value(TYPE_HASH, b"\x00").is_err());
    }

    #[test]
    fn payloads_are_checked() {
        let mut sealed = b"\x00\x03abc".to_vec();
        super::super::seal(&mut sealed);
        assert_eq!(payload(&sealed).unwrap(), Ok(Value::String(b"abc".to_vec())));
        for i in 0..sealed.len() {
            assert!(payload(&sealed[..i]).is_err());
            let mut damaged = sealed.clone();
            damaged[i] ^= 1;
            assert!(payload(&damaged).is_err());
        }
        let mut stream = b"\x0f\x00".to_vec();
        super::super::seal(&mut stream);
        assert_eq!(payload(&stream).unwrap(), Err("a stream".into()));
        let mut longer = b"\x00\x01ab".to_vec();
        super::super::seal(&mut longer);
        assert!(payload(&longer).is_err());
    }
}
