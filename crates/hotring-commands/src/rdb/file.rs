//! Redis's RDB files: strings, lists, hashes, sets and sorted sets are read, other types are named and can be skipped.
//!
//! ```text
//!  "REDIS" | version, 4 digits | parts ... | 255 | CRC-64 of all before, from version 5 on; 0 if there is none
//!
//!  part   optional attributes of a key (252 or 253 time, 248 idle, 249 frequency), then type, key, value
//!         or 254 number of the database | 251 sizes | 250 about the file | 247 a module's data
//!         or 245 functions | 244 slots
//! ```
//! From version 9 on a Valkey writes "VALKEY" and 3 digits.
//! Damage may show only at the end of the file, by the checksum.

use std::io::Read;

use super::item::{Item, ReadError, shown};
use super::source::{Source, is_named, type_name};

/// The magic bytes of a file.
const MAGIC: &[u8; 5] = b"REDIS";
/// The latest supported version: Redis 8.
const VERSION_MAX: u32 = 13;
/// The start of a file of Valkey from 9 on, and its only version so far. Earlier ones write files of Redis.
const MAGIC_OF_VALKEY: &[u8; 6] = b"VALKEY";
const VERSION_OF_VALKEY: u32 = 80;
/// The first version with a checksum at the end.
const VERSION_SUM: u32 = 5;
/// Bytes skipped at a time.
const SKIP_LEN: usize = 4096;

const SLOTS: u8 = 244;
const FUNCTIONS: u8 = 245;
const MODULE: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const ABOUT: u8 = 250;
const SIZES: u8 = 251;
const TIME_MS: u8 = 252;
const TIME: u8 = 253;
const DATABASE: u8 = 254;
const END: u8 = 255;

/// An entry of a file.
pub enum Found {
    Item(Item),
    /// A key that this server cannot have, and the reason: "a stream", "in database 300".
    Unknown {
        key: Vec<u8>,
        name: String,
        at: u64,
    },
    /// Something other than a key that this server cannot have: "a library of functions", "a module's data".
    Part(&'static str),
}

/// Reads a file key by key.
pub struct Reader<R> {
    source: Source<R>,
    version: u32,
    /// The database whose keys are read, if it is one only.
    wanted: Option<u64>,
    database: u64,
    /// The type of the next value, if it is unsupported.
    unknown: Option<u8>,
    /// Skipped keys of other databases.
    pub keys_skipped: u64,
}

impl<R: Read> Reader<R> {
    /// Starts reading. With a database, only its keys are read.
    pub fn new(input: R, database: Option<u64>) -> Result<Reader<R>, ReadError> {
        let mut source = Source::new(input);
        let head = source.array::<9>()?;
        let digits = head.strip_prefix(MAGIC).or(head.strip_prefix(MAGIC_OF_VALKEY));
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let version = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let Some(version) = version else { return Err(ReadError::bad(0, "not an RDB file")) };
        source.is_of_valkey = head.starts_with(MAGIC_OF_VALKEY);
        let (known, latest) = match source.is_of_valkey {
            true => (version == VERSION_OF_VALKEY, VERSION_OF_VALKEY),
            false => ((1..=VERSION_MAX).contains(&version), VERSION_MAX),
        };
        if !known {
            let text = format!("version {version} of RDB files is unknown, {latest} is the latest");
            return Err(ReadError::bad(5, text));
        }
        let wanted = database;
        let (database, unknown, keys_skipped) = (0, None, 0);
        Ok(Reader { source, version, wanted, database, unknown, keys_skipped })
    }

    /// What is read from.
    pub fn input(&mut self) -> &mut R {
        self.source.input()
    }

    /// The next key or other part; None at the end of the file.
    pub fn read(&mut self) -> Result<Option<Found>, ReadError> {
        if let Some(kind) = self.unknown.take() {
            self.skip_value(kind)?;
        }
        let mut expire_at = None;
        loop {
            let at = self.source.at;
            match self.source.byte()? {
                TIME_MS => expire_at = Some(i64::from_le_bytes(self.source.array()?)),
                TIME => {
                    expire_at = Some(1000 * i64::from(i32::from_le_bytes(self.source.array()?)))
                }
                IDLE => _ = self.source.length()?,
                FREQUENCY => _ = self.source.byte()?,
                DATABASE => self.database = self.source.length()?,
                SIZES => self.lengths(2)?,
                SLOTS => self.lengths(3)?,
                ABOUT => (0..2).try_for_each(|_| self.skip_string())?,
                FUNCTIONS => {
                    self.skip_string()?;
                    return Ok(Some(Found::Part("a library of functions")));
                }
                MODULE => {
                    self.source.length()?;
                    self.skip_module()?;
                    return Ok(Some(Found::Part("a module's data")));
                }
                END => return self.check_sum().map(|()| None),
                code @ 240.. => {
                    return Err(ReadError::bad(at, format!("unknown part {code}")));
                }
                kind => {
                    let key = self.source.string()?;
                    if self.skips_database() {
                        self.skip_value(kind)?;
                        self.keys_skipped += 1;
                        expire_at = None;
                        continue;
                    }
                    // A time before 1970 has passed, too.
                    let expire_at = expire_at.map(|at| u64::try_from(at).unwrap_or(0));
                    return self.found(kind, key, expire_at, at).map(Some);
                }
            }
        }
    }

    fn found(
        &mut self,
        kind: u8,
        key: Vec<u8>,
        expire_at: Option<u64>,
        at: u64,
    ) -> Result<Found, ReadError> {
        let value = self.source.value(kind).map_err(|error| match error {
            ReadError::Bad { at, problem } => {
                ReadError::bad(at, format!("{problem}, in the value of {}", shown(&key)))
            }
            error => error,
        })?;
        let Some(value) = value else {
            if !is_named(kind) {
                let what = format!("{}, the key {}", type_name(kind), shown(&key));
                return Err(ReadError::bad(at, what));
            }
            self.unknown = Some(kind);
            return Ok(Found::Unknown { key, name: type_name(kind), at });
        };
        let Ok(database) = u8::try_from(self.database) else {
            let name = format!("in database {}", self.database);
            return Ok(Found::Unknown { key, name, at });
        };
        Ok(Found::Item(Item { database, key, value, expire_at, is_pinned: false }))
    }

    /// Whether keys of the current database are skipped.
    fn skips_database(&self) -> bool {
        self.wanted.is_some_and(|wanted| wanted != self.database)
    }

    /// Checks that the input ends with the file.
    pub fn check_end(&mut self) -> Result<(), ReadError> {
        match self.source.is_at_end()? {
            true => Ok(()),
            false => self.source.bad("there are bytes behind the end of the file"),
        }
    }

    fn check_sum(&mut self) -> Result<(), ReadError> {
        let (at, sum) = (self.source.at, self.source.sum);
        if self.version >= VERSION_SUM {
            let found = u64::from_le_bytes(self.source.array()?);
            // 0 means that there is no checksum.
            if found != 0 && found != sum {
                let text =
                    "the checksum of the file is wrong: some keys that were read may be wrong, too";
                return Err(ReadError::bad(at, text));
            }
        }
        Ok(())
    }

    fn lengths(&mut self, count: usize) -> Result<(), ReadError> {
        (0..count).try_for_each(|_| self.source.length().map(drop))
    }

    fn skip(&mut self, mut len: u64) -> Result<(), ReadError> {
        let mut bytes = [0; SKIP_LEN];
        while len > 0 {
            let now = len.min(SKIP_LEN as u64);
            self.source.fill(&mut bytes[..now as usize])?;
            len -= now;
        }
        Ok(())
    }

    fn skip_string(&mut self) -> Result<(), ReadError> {
        match self.source.length_or_form()? {
            (len, false) => self.skip(len),
            (form @ 0..=2, true) => self.skip(1 << form),
            (3, true) => {
                let (packed_len, _) = (self.source.length()?, self.source.length()?);
                self.skip(packed_len)
            }
            (form, true) => self.source.bad(format!("unknown string encoding {form}")),
        }
    }

    fn skip_strings(&mut self, count: u64) -> Result<(), ReadError> {
        (0..count).try_for_each(|_| self.skip_string())
    }

    /// Skips a value of any type with a known encoding.
    fn skip_value(&mut self, kind: u8) -> Result<(), ReadError> {
        match kind {
            0 | 9..=13 | 16 | 17 | 20 | 23 => self.skip_string(),
            1 | 2 | 14 => {
                let count = self.source.length()?;
                self.skip_strings(count)
            }
            3 => self.each(|reader| {
                reader.skip_string()?;
                // The length of the score's text; 253 and above are NaN and the infinities, without text.
                match reader.source.byte()? {
                    253.. => Ok(()),
                    len => reader.skip(len.into()),
                }
            }),
            4 => self.each(|reader| reader.skip_strings(2)),
            5 => self.each(|reader| {
                reader.skip_string()?;
                reader.skip(8)
            }),
            7 => {
                self.source.length()?;
                self.skip_module()
            }
            15 | 19 | 21 => self.skip_stream(kind),
            18 => self.each(|reader| {
                reader.source.length()?;
                reader.skip_string()
            }),
            22 if self.source.is_of_valkey => self.each(|reader| {
                reader.skip_strings(2)?;
                reader.skip(8)
            }),
            22 | 24 => {
                self.skip(if kind == 24 { 8 } else { 0 })?;
                self.each(|reader| {
                    reader.source.length()?;
                    reader.skip_strings(2)
                })
            }
            25 => {
                self.skip(8)?;
                self.skip_string()
            }
            _ => self.source.bad(format!("the length of {} is unknown", type_name(kind))),
        }
    }

    /// Reads a length and calls `f` that many times.
    fn each(
        &mut self,
        mut f: impl FnMut(&mut Self) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let count = self.source.length()?;
        (0..count).try_for_each(|_| f(self))
    }

    /// Skips the data of a module: each part begins with its kind, 0 is the end.
    fn skip_module(&mut self) -> Result<(), ReadError> {
        loop {
            match self.source.length()? {
                0 => return Ok(()),
                1 | 2 => self.lengths(1)?,
                3 => self.skip(4)?,
                4 => self.skip(8)?,
                5 => self.skip_string()?,
                part => return self.source.bad(format!("unknown part {part} of a module's data")),
            }
        }
    }

    /// Skips a stream: entries, lengths, and consumer groups with pending entries and consumers.
    fn skip_stream(&mut self, kind: u8) -> Result<(), ReadError> {
        self.each(|reader| reader.skip_strings(2))?;
        self.lengths(if kind == 15 { 3 } else { 8 })?;
        self.each(|reader| {
            reader.skip_string()?;
            reader.lengths(if kind == 15 { 2 } else { 3 })?;
            reader.each(|reader| {
                reader.skip(16 + 8)?;
                reader.lengths(1)
            })?;
            reader.each(|reader| {
                reader.skip_string()?;
                reader.skip(if kind == 21 { 16 } else { 8 })?;
                reader.each(|reader| reader.skip(16))
            })
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::item::Value;
    use super::super::{crc64, push_len, push_string};
    use super::*;

    /// A file of these parts.
    fn file(parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = [b"REDIS0011", &parts.concat()[..], &[END]].concat();
        let sum = crc64(0, &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn string(text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_string(&mut bytes, text);
        bytes
    }

    fn item(key: &str, value: Value, expire_at: Option<u64>) -> Item {
        Item { database: 0, key: key.into(), value, expire_at, is_pinned: false }
    }

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    fn list(elements: &[&str]) -> Value {
        Value::List(elements.iter().map(|element| element.as_bytes().to_vec()).collect())
    }

    fn hash(fields: &[(&str, &str)]) -> Value {
        Value::Hash(
            fields.iter().map(|(f, v)| (f.as_bytes().to_vec(), v.as_bytes().to_vec())).collect(),
        )
    }

    /// The items of a file, and the names of unsupported types.
    fn read_db(bytes: &[u8], db: Option<u64>) -> Result<(Vec<Item>, Vec<String>), ReadError> {
        let (mut items, mut unknown) = (Vec::new(), Vec::new());
        let mut reader = Reader::new(bytes, db)?;
        while let Some(found) = reader.read()? {
            match found {
                Found::Item(item) => items.push(item),
                Found::Unknown { key, name, .. } => {
                    unknown.push(format!("{} is {name}", shown(&key)));
                }
                Found::Part(_) => {}
            }
        }
        reader.check_end()?;
        Ok((items, unknown))
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Item>, Vec<String>), ReadError> {
        read_db(bytes, None)
    }

    /// A file with every supported encoding, and everything that may stand between keys.
    pub fn whole() -> (Vec<u8>, Vec<Item>) {
        let listpack =
            b"\x17\x17\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x82bb\x03\x85hello\x06\xff".to_vec();
        let ziplist = b"\x11\x11\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01f\x03\xfe\xfb\xff";
        let elements = b"\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xf2\xff";
        let time = [&[TIME_MS][..], &1_234_567_890_123u64.to_le_bytes()].concat();
        let seconds = [&[TIME][..], &1_234_567_890u32.to_le_bytes()].concat();
        let mut fields = Vec::new();
        push_len(&mut fields, 1);
        let bytes = file(&[
            &[ABOUT],
            &string(b"redis-ver"),
            &string(b"7.4.0"),
            &[FUNCTIONS],
            &string(b"#!lua name=x"),
            &[DATABASE, 0, SIZES, 0x41, 0, 2],
            b"\x00\x01a\x03abc",
            b"\x00\x01b\xc0\xff",
            b"\x00\x01c\xc1\x00\x80",
            b"\x00\x01d\xc2\xff\xff\xff\x7f",
            b"\x00\x01e\xc3\x09\x33\x01aa\xe0\x26\x00\x01aa",
            &time,
            &[IDLE, 0x44, 0],
            b"\x00\x01f\x00",
            &seconds,
            &[FREQUENCY, 200],
            b"\x04\x01g",
            &fields,
            b"\x01f\xc0\x05",
            b"\x10\x01h",
            &listpack,
            b"\x0d\x01i",
            ziplist,
            b"\x01\x01l\x02\x01a\xc0\x05",
            b"\x01\x02l1\x02\x01a\xc1\x00\x01",
            b"\x0a\x02l2",
            elements,
            b"\x0e\x02l3\x02",
            elements,
            elements,
            b"\x12\x02l4\x02\x02\x0a\x0a\x00\x00\x00\x01\x00\x81a\x02\xff\x01\x02ab",
            &[SLOTS, 1, 1, 0],
            // A module's attribute: number, time, a word, the end.
            &[MODULE, 0x40, 0x80, 2, 2, 5, 1, b'x', 3, 0, 0, 0, 0, 0],
        ]);
        let items = vec![
            item("a", text("abc"), None),
            item("b", text("-1"), None),
            item("c", text("-32768"), None),
            item("d", text("2147483647"), None),
            item("e", text(&"a".repeat(51)), None),
            item("f", text(""), Some(1_234_567_890_123)),
            item("g", hash(&[("f", "5")]), Some(1_234_567_890_000)),
            item("h", hash(&[("a", "1"), ("bb", "hello")]), None),
            item("i", hash(&[("f", "-5")]), None),
            item("l", list(&["a", "5"]), None),
            item("l1", list(&["a", "256"]), None),
            item("l2", list(&["a", "1"]), None),
            item("l3", list(&["a", "1", "a", "1"]), None),
            item("l4", list(&["a", "ab"]), None),
        ];
        (bytes, items)
    }

    #[test]
    fn all_forms_are_read() {
        let (bytes, items) = whole();
        let (found, unknown) = read(&bytes).unwrap();
        assert_eq!(found, items);
        assert!(unknown.is_empty());
        let mut reader = Reader::new(&bytes[..], None).unwrap();
        let mut parts = Vec::new();
        while let Some(found) = reader.read().unwrap() {
            parts.extend(if let Found::Part(name) = found { Some(name) } else { None });
        }
        assert_eq!(parts, ["a library of functions", "a module's data"]);
        assert_eq!(reader.keys_skipped, 0);
        // Old files have no checksum, and in new ones it is optional.
        let old = [b"REDIS0004", &bytes[9..bytes.len() - 8]].concat();
        assert_eq!(read(&old).unwrap().0, items);
        let without = [&bytes[..bytes.len() - 8], &[0; 8]].concat();
        assert_eq!(read(&without).unwrap().0, items);
    }

    #[test]
    fn every_truncation_and_every_damage_is_reported() {
        let (bytes, _) = whole();
        for end in 0..bytes.len() {
            let error = read(&bytes[..end]).unwrap_err().to_string();
            assert!(error.contains("the file ends within"), "{end}: {error}");
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[end] ^= 1 << bit;
                // A version without checksum.
                let is_unseen = end < 9 && read(&damaged).is_ok();
                assert!(is_unseen || read(&damaged).is_err(), "{end}.{bit}");
            }
        }
        let more = [&bytes[..], b"x"].concat();
        assert!(read(&more).unwrap_err().to_string().contains("there are bytes behind the end"));
        for (header, expected) in [
            ("RADIS0011", "byte 0: not an RDB file"),
            ("REDIS+011", "byte 0: not an RDB file"),
            ("REDIS0099", "byte 5: version 99 of RDB files is unknown"),
            ("REDIS0000", "byte 5: version 0"),
            ("VALKEY081", "byte 5: version 81 of RDB files is unknown"),
            ("VALKEY08x", "byte 0: not an RDB file"),
        ] {
            let bytes = [header.as_bytes(), &bytes[9..]].concat();
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn random_damage_is_no_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        let (bytes, _) = whole();
        for _ in 0..300 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random.usize(..4) {
                let (from, len) = (random.usize(..damaged.len()), 1 + random.usize(..12));
                let to = damaged.len().min(from + len);
                match random.u8(..3) {
                    0 => damaged[from..to].fill(random.choice([0, 0x7f, 0x80, 0xff]).unwrap_or(0)),
                    1 => drop(damaged.splice(from..to, [])),
                    _ => damaged[from] = random.u8(..),
                }
                damaged.push(0);
            }
            let Ok(mut reader) = Reader::new(&damaged[..], None) else { continue };
            while let Ok(Some(_)) = reader.read() {}
        }
    }

    #[test]
    fn unknown_types_are_named_and_skipped() {
        let id = [7; 16];
        let consumer = [&[1][..], b"\x01c", &[1; 16], &[1], &id].concat();
        let group = [&[1][..], b"\x01g", &[1, 2, 3, 1], &id, &[1; 8], &[1], &consumer].concat();
        let stream = [&b"\x15\x01s\x01\x01k\x01l"[..], &[1; 8], &group].concat();
        let parts: [&[u8]; 7] = [
            b"\x0b\x01i\x0c\x02\0\0\0\x02\0\0\0\xff\xff\x05\0",
            b"\x03\x01z\x02\x01a\x031.5\x01b\xfe",
            b"\x05\x02z2\x01\x01a\0\0\0\0\0\0\0\0",
            &stream,
            b"\x07\x01m\x40\x80\x01\x05\x04\0\0\0\0\0\0\0\0\x00",
            b"\x02\x01j\x02\x01a\xc0\x05",
            b"\x00\x01a\x01b",
        ];
        let (items, unknown) = read(&file(&parts)).unwrap();
        let set = |members: [&str; 2]| Value::Set(members.map(|member| member.into()).to_vec());
        let sets = [item("i", set(["-1", "5"]), None), item("j", set(["a", "5"]), None)];
        let scored = |members: &[(&str, f64)]| {
            let own = |(member, score): &(&str, f64)| (member.as_bytes().to_vec(), *score);
            Value::Scored(members.iter().map(own).collect())
        };
        let [i, j] = sets;
        let z = item("z", scored(&[("a", 1.5), ("b", f64::INFINITY)]), None);
        let z2 = item("z2", scored(&[("a", 0.0)]), None);
        assert_eq!(items, [i, z, z2, j, item("a", text("b"), None)]);
        assert_eq!(unknown, ["s is a stream", "m is a module's value"]);
        let error = read(&file(&[b"\x1a\x01s\x01", b"\x00\x01a\x01b"])).unwrap_err().to_string();
        assert!(error.contains("the length of a stream is unknown"), "{error}");
        let error = read(&file(&[b"\xf3\x01"])).unwrap_err().to_string();
        assert_eq!(error, "byte 9: unknown part 243");
        let error = read(&file(&[b"\xba\x01k\x01v"])).unwrap_err().to_string();
        assert_eq!(error, "byte 9: a value of the unknown type 186, the key k");
        let (items, unknown) = read(&file(&[&[DATABASE, 0x41, 0x2c], b"\x00\x01a\x01b"])).unwrap();
        assert_eq!((items, unknown), (Vec::new(), vec!["a is in database 300".to_string()]));
    }

    #[test]
    fn keys_have_the_database_of_the_file() {
        let parts: [&[u8]; 6] = [
            &[DATABASE, 1],
            b"\x00\x01a\x01b",
            &[DATABASE, 2],
            &[&[TIME_MS][..], &[1; 8]].concat(),
            b"\x07\x01s\x40\x80\x01\x05\x04\0\0\0\0\0\0\0\0\x00",
            b"\x00\x01c\x01d",
        ];
        let bytes = file(&parts);
        let [one, two] = [("a", "b", 1), ("c", "d", 2)]
            .map(|(key, value, database)| Item { database, ..item(key, text(value), None) });
        let (items, unknown) = read(&bytes).unwrap();
        assert_eq!((items, unknown.len()), (vec![one.clone(), two.clone()], 1));
        assert_eq!(read_db(&bytes, Some(1)).unwrap().0, [one]);
        let (items, unknown) = read_db(&bytes, Some(2)).unwrap();
        assert_eq!((items, unknown.len()), (vec![two], 1));
        assert!(read_db(&bytes, Some(0)).unwrap().0.is_empty());
        assert_eq!(read(&file(&parts[..2])).unwrap().0.len(), 1);
    }

    /// Valkey 9 sends such a hash to replicas that say that they know it, and ends the link of others.
    #[test]
    fn hashes_of_valkey_have_their_times_behind_their_fields() {
        let fields = b"\x02\x01a\xc0\x01\x18+\x0b\x1e\xa2\x01\x00\x00\x01b\xc0\x02\xff\xff\xff\xff\xff\xff\xff\xff";
        let other = [&[DATABASE, 1, 22][..], &string(b"other"), fields].concat();
        let parts = [&[22][..], &string(b"h"), fields, &other].concat();
        let mut bytes = [b"VALKEY080", &parts[..], &[END]].concat();
        let sum = crc64(0, &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let pair = |field: &str, value: &str| (field.into(), value.into());
        let value = Value::HashUntil(vec![
            (pair("a", "1"), Some(0x0000_01a2_1e0b_2b18)),
            (pair("b", "2"), None),
        ]);
        let (items, unknown) = read_db(&bytes, Some(0)).unwrap();
        assert_eq!((items, unknown.len()), (vec![item("h", value, None)], 0));
    }
}
