//! The bytes of what a coordinator keeps: for its log, its state, and the link to it. Numbers are little endian; texts
//! and lists begin with their length as u32. `docs/design/coordinator.md` describes them.

use std::time::Duration;

use crate::kept::{Change, Changed, Lease, Outcome, Record, Snapshot, Transaction};

/// What has a form in bytes.
pub trait Coded: Sized {
    /// Appends the bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// Takes the bytes from the start of the input. None if they are not such a thing.
    fn read(input: &mut &[u8]) -> Option<Self>;
}

/// The bytes of one thing.
pub fn bytes_of(thing: &impl Coded) -> Vec<u8> {
    let mut out = Vec::new();
    thing.write(&mut out);
    out
}

/// The thing of these bytes, which must hold nothing else.
pub fn read_all<T: Coded>(mut input: &[u8]) -> Option<T> {
    T::read(&mut input).filter(|_| input.is_empty())
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Coded for $number {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(input: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = input.split_first_chunk()?;
                *input = rest;
                Some(<$number>::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u8, u32, u64, i64);

impl Coded for Vec<u8> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u32).write(out);
        out.extend_from_slice(self);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        let len = u32::read(input)? as usize;
        let (bytes, rest) = input.split_at_checked(len)?;
        *input = rest;
        Some(bytes.to_vec())
    }
}

impl Coded for String {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u32).write(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        String::from_utf8(Vec::read(input)?).ok()
    }
}

/// In milliseconds.
impl Coded for Duration {
    fn write(&self, out: &mut Vec<u8>) {
        (self.as_millis() as u64).write(out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        u64::read(input).map(Duration::from_millis)
    }
}

impl<T: Coded> Coded for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        u8::from(self.is_some()).write(out);
        self.iter().for_each(|thing| thing.write(out));
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        match u8::read(input)? {
            0 => Some(None),
            1 => T::read(input).map(Some),
            _ => None,
        }
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        Some((A::read(input)?, B::read(input)?))
    }
}

/// Writes a list.
pub fn write_list<T: Coded>(list: &[T], out: &mut Vec<u8>) {
    (list.len() as u32).write(out);
    list.iter().for_each(|thing| thing.write(out));
}

/// Reads a list. The space for it grows with what is there, whatever length the input claims.
pub fn read_list<T: Coded>(input: &mut &[u8]) -> Option<Vec<T>> {
    let len = u32::read(input)?;
    let mut list = Vec::new();
    for _ in 0..len {
        list.push(T::read(input)?);
    }
    Some(list)
}

impl Coded for Record {
    fn write(&self, out: &mut Vec<u8>) {
        self.name.write(out);
        self.revision.write(out);
        self.value.write(out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        let (name, revision) = Coded::read(input)?;
        Some(Record { name, revision, value: Vec::read(input)? })
    }
}

impl Coded for Snapshot {
    fn write(&self, out: &mut Vec<u8>) {
        self.revision.write(out);
        write_list(&self.records, out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        Some(Snapshot { revision: u64::read(input)?, records: read_list(input)? })
    }
}

impl Coded for Change {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Change::Put { name, value, lease } => {
                1u8.write(out);
                name.write(out);
                value.write(out);
                lease.write(out);
            }
            Change::Delete { name } => {
                2u8.write(out);
                name.write(out);
            }
        }
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        let kind = u8::read(input)?;
        let name = String::read(input)?;
        match kind {
            1 => Some(Change::Put { name, value: Vec::read(input)?, lease: Option::read(input)? }),
            2 => Some(Change::Delete { name }),
            _ => None,
        }
    }
}

impl Coded for Transaction {
    fn write(&self, out: &mut Vec<u8>) {
        write_list(&self.expect, out);
        write_list(&self.changes, out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        Some(Transaction { expect: read_list(input)?, changes: read_list(input)? })
    }
}

/// The revision, or none for a conflict.
impl Coded for Outcome {
    fn write(&self, out: &mut Vec<u8>) {
        let done = match self {
            Outcome::Done(revision) => Some(*revision),
            Outcome::Conflict => None,
        };
        done.write(out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        Some(Option::read(input)?.map_or(Outcome::Conflict, Outcome::Done))
    }
}

impl Coded for Lease {
    fn write(&self, out: &mut Vec<u8>) {
        self.id.write(out);
        self.ttl.write(out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        Some(Lease { id: i64::read(input)?, ttl: Duration::read(input)? })
    }
}

impl Coded for Changed {
    fn write(&self, out: &mut Vec<u8>) {
        self.revision.write(out);
        write_list(&self.records, out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        Some(Changed { revision: u64::read(input)?, records: read_list(input)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Coded + PartialEq + std::fmt::Debug>(thing: T) {
        let bytes = bytes_of(&thing);
        assert_eq!(read_all::<T>(&bytes), Some(thing));
        for end in 0..bytes.len() {
            assert_eq!(read_all::<T>(&bytes[..end]), None, "the first {end} bytes");
        }
        assert_eq!(read_all::<T>(&[&bytes[..], &[0]].concat()), None, "one byte more");
    }

    #[test]
    fn things_are_read_as_written_and_not_in_part() {
        let put = Change::Put { name: "a".into(), value: vec![1, 2], lease: Some(-3) };
        let delete = Change::Delete { name: "é".into() };
        check(Transaction { expect: vec![("a".into(), 7)], changes: vec![put, delete] });
        check((Outcome::Done(0), Outcome::Conflict));
        check(Lease { id: i64::MIN, ttl: Duration::from_millis(2_500) });
        let records = vec![("a".into(), Some(vec![0; 3])), ("b".into(), None)];
        check(Changed { revision: u64::MAX, records });
        let record = Record { name: "n".into(), revision: 4, value: Vec::new() };
        check(Snapshot { revision: 5, records: vec![record] });
    }

    #[test]
    fn a_list_that_claims_to_be_long_takes_no_space() {
        let claimed = bytes_of(&u32::MAX);
        assert_eq!(read_all::<Snapshot>(&[&[0; 8], &claimed[..]].concat()), None);
        assert_eq!(read_all::<Vec<u8>>(&claimed), None);
    }
}
