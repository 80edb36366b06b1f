//! A value as bytes that Redis's RESTORE reads, and back: the format of one value in its RDB files.
//!
//! ```text
//!   type u8 | the value | version of the format u16 | CRC-64 of all that is before it
//! ```
//! Written are the plainest forms, which every version reads: strings, small integers among them as
//! numbers, and hashes as a list of strings. Read is what Redis up to 7.4 writes for these types:
//! compressed strings (LZF) and hashes as a *listpack*, too. Numbers are little endian, but for lengths.
//!
//! The bytes come from strangers: nothing is believed, no length makes room that is not filled.

use std::borrow::Cow;

use hotring_index::NewValue;

use crate::error::StoreError;
use crate::hash::{Change, HashRef, value_of};
use crate::rdb::{
    SEAL_LEN, TYPE_HASH, TYPE_HASH_LISTPACK, TYPE_STRING, crc64, listpack, push_len, push_string,
    seal, text, unpack,
};
use crate::session::Limits;
use crate::value::{ValueRef, encode_owned};

/// The latest version that is read: Redis 7.4's.
const VERSION_MAX: u16 = 12;

/// A value and what stands behind it.
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
        ValueRef::Hash(hash) => {
            out.push(TYPE_HASH);
            push_len(&mut out, hash.iter().count());
            for (field, value) in hash.iter() {
                push_string(&mut out, field);
                push_string(&mut out, value);
            }
        }
    }
    seal(&mut out);
    out
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
        push_string(out, itoa::Buffer::new().format(n).as_bytes());
    }
}

/// The value of a payload.
///
/// # Errors
/// [`StoreError::DumpSum`], [`StoreError::DumpFormat`], [`StoreError::ValueTooLong`]
pub(crate) fn restore(payload: &[u8], limits: Limits) -> Result<NewValue<'static>, StoreError> {
    let (body, sum) = payload.split_last_chunk().ok_or(StoreError::DumpSum)?;
    let (value, version) = body.split_last_chunk().ok_or(StoreError::DumpSum)?;
    // A sum of 0 is Redis's way to say that there is none.
    let is_sound = *sum == [0; 8] || crc64(0, body) == u64::from_le_bytes(*sum);
    if !is_sound || u16::from_le_bytes(*version) > VERSION_MAX {
        return Err(StoreError::DumpSum);
    }
    debug_assert_eq!(value.len() + SEAL_LEN, payload.len());
    let mut input = Input { rest: value, limits };
    let value = match input.byte().ok_or(StoreError::DumpFormat)? {
        TYPE_STRING => encode_owned(input.string()?.into_owned()),
        TYPE_HASH => {
            let (count, is_special) = input.len().ok_or(StoreError::DumpFormat)?;
            if is_special {
                return Err(StoreError::DumpFormat);
            }
            let mut items = Vec::new();
            for _ in 0..count {
                items.push(input.string()?);
                items.push(input.string()?);
            }
            hash_of(&items, limits)?
        }
        TYPE_HASH_LISTPACK => {
            let list = input.string()?;
            hash_of(&listpack(&list).ok_or(StoreError::DumpFormat)?, limits)?
        }
        _ => return Err(StoreError::DumpFormat),
    };
    if input.rest.is_empty() { Ok(value) } else { Err(StoreError::DumpFormat) }
}

/// A hash of fields and values in turn; each field may stand once, and there must be one.
fn hash_of(items: &[Cow<'_, [u8]>], limits: Limits) -> Result<NewValue<'static>, StoreError> {
    let (pairs, []) = items.as_chunks::<2>() else { return Err(StoreError::DumpFormat) };
    let changes: Vec<Change<'_>> =
        pairs.iter().map(|[field, value]| (&field[..], Some(&value[..]))).collect();
    let changed = HashRef::EMPTY.changed(&changes);
    let held = changed.value.filter(|_| changed.added == pairs.len());
    let held = held.ok_or(StoreError::DumpFormat)?;
    limits.check_value(held.len())?;
    Ok(value_of(held))
}

/// What is left to read.
struct Input<'a> {
    rest: &'a [u8],
    limits: Limits,
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

    /// A length, or, if the second is true, the number of a special form.
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

    fn string(&mut self) -> Result<Cow<'a, [u8]>, StoreError> {
        let string = match self.len().ok_or(StoreError::DumpFormat)? {
            (len, false) => self.take(len).map(Cow::Borrowed),
            (0, true) => self.array().map(|bytes| text(i8::from_le_bytes(bytes).into())),
            (1, true) => self.array().map(|bytes| text(i16::from_le_bytes(bytes).into())),
            (2, true) => self.array().map(|bytes| text(i32::from_le_bytes(bytes).into())),
            (3, true) => return self.compressed().map(Cow::Owned),
            _ => None,
        };
        let string = string.ok_or(StoreError::DumpFormat)?;
        self.limits.check_value(string.len())?;
        Ok(string)
    }

    fn compressed(&mut self) -> Result<Vec<u8>, StoreError> {
        let (Some((packed_len, false)), Some((len, false))) = (self.len(), self.len()) else {
            return Err(StoreError::DumpFormat);
        };
        let packed = self.take(packed_len).ok_or(StoreError::DumpFormat)?;
        let len = usize::try_from(len).map_err(|_| StoreError::DumpFormat)?;
        self.limits.check_value(len)?;
        unpack(packed, len).ok_or(StoreError::DumpFormat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{encode, view};

    const LIMITS: Limits = Limits { key_len_max: 1 << 10, value_len_max: 1 << 20 };

    fn restored(payload: &[u8]) -> Result<Vec<u8>, StoreError> {
        restore(payload, LIMITS).map(|value| view(value.as_value(), |value| value.to_vec()))
    }

    fn dumped(text: &[u8]) -> Vec<u8> {
        view(encode(text).as_value(), dump)
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
        assert_eq!(dumped(b"12"), b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5");
    }

    #[test]
    fn strings_come_back() {
        let long = vec![7; 70_000];
        let middle = vec![b'x'; 1000];
        let texts: [&[u8]; 9] =
            [b"", b"a", b"-128", b"32767", b"-2147483648", b"2147483648", b"012", &middle, &long];
        for text in texts {
            assert_eq!(restored(&dumped(text)).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_redis_wrote_is_read() {
        let compressed = b"\x00\xc3\t3\x01aa\xe0&\x00\x01aa\n\x00\"Q^\xaes\xba\xc2~";
        assert_eq!(restored(compressed).unwrap(), [b'a'; 51]);
        let hash =
            b"\x10\x17\x17\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x82bb\x03\x85hello\x06\xff\n\x00\
                     \xc4\xf7\xcft@y\x08X";
        let value = restore(hash, LIMITS).unwrap();
        view(value.as_value(), |value| {
            let ValueRef::Hash(hash) = value else { panic!("{value:?} is not a hash") };
            let pairs: Vec<_> = hash.iter().collect();
            assert_eq!(pairs, [(&b"a"[..], &b"1"[..]), (b"bb", b"hello")]);
            assert_eq!(restored(&dump(ValueRef::Hash(hash))).unwrap(), hash.held());
        });
    }

    #[test]
    fn damage_is_an_error_and_no_panic() {
        let hash = HashRef::EMPTY.changed(&[(b"a", Some(b"1")), (b"bb", Some(&[9; 300]))]);
        let hash = hash.value.unwrap();
        let list = [
            &[16, 23][..],
            b"\x17\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x82bb\x03\x85hello\x06\xff",
        ];
        let lzf = b"\x00\xc3\t3\x01aa\xe0&\x00\x01aa".to_vec();
        let hash = dump(ValueRef::Hash(HashRef::new(&hash)));
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
                    assert_eq!(restored(&payload), Err(StoreError::DumpSum));
                }
            }
        }
        assert_eq!(restored(b""), Err(StoreError::DumpSum));
        let too_new = [&b"\x00\x01a"[..], &13u16.to_le_bytes(), &[0; 8]].concat();
        assert_eq!(restored(&too_new), Err(StoreError::DumpSum));
        let long = b"\x00\xc3\x03\x80\xff\xff\xff\xff\xe0\xff\x00";
        assert!(matches!(restored(&sealed(long)), Err(StoreError::ValueTooLong { .. })));
        let twice = b"\x04\x02\x01a\x011\x01a\x012";
        assert_eq!(restored(&sealed(twice)), Err(StoreError::DumpFormat));
        assert_eq!(restored(&sealed(b"\x04\x00")), Err(StoreError::DumpFormat), "no fields");
        assert_eq!(restored(&sealed(b"\x01\x01\x01a")), Err(StoreError::DumpFormat), "a list");
    }
}
