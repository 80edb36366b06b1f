//! Tests with random data: items pass through each format unchanged, and files with random damage
//! are read without a panic.
//!
//! `HOTRING_SEED` and `HOTRING_SEQUENCES` set the first seed and the number of sequences. The
//! result of reading a damaged file is not checked.

use std::env;

use fastrand::Rng;

use super::*;

/// The default number of sequences per test.
const SEQUENCES: u64 = 300;

struct Random(Rng);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = [0, 1, 3, 20, 300][self.below(5)];
        let text = b"azAZ09 \"\\\r\n*$\0\xc3\xa4\xff{}[]:,";
        (0..len).map(|_| text[self.below(text.len())]).collect()
    }

    fn item(&mut self, i: usize) -> Item {
        let value = match self.below(3) {
            0 => Value::String(self.bytes()),
            1 => Value::List((0..1 + i % 7).map(|_| self.bytes()).collect()),
            _ => {
                let field = |i| ([format!("{i}").as_bytes(), &self.bytes()].concat(), self.bytes());
                Value::Hash((0..1 + i % 7).map(field).collect())
            }
        };
        // A format may merge two adjacent items with the same key.
        let key = [&self.bytes()[..], &[i as u8]].concat();
        let expire_at = [None, Some(self.below(1 << 40) as u64)][self.below(2)];
        let database = [0, 0, 1, 255][self.below(4)];
        Item { database, key, value, expire_at, is_pinned: self.below(3) == 0 }
    }

    /// Changes, removes or repeats some bytes.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(4) {
            let (from, len) = (self.below(bytes.len()), 1 + self.below(12));
            let to = bytes.len().min(from + len);
            match self.below(4) {
                0 => bytes[from..to].fill([0, 0x7f, 0x80, 0xff][self.below(4)]),
                1 => drop(bytes.drain(from..to - usize::from(to - from == bytes.len()))),
                2 => {
                    let part = bytes[from..to].to_vec();
                    let at = self.below(bytes.len());
                    bytes.splice(at..at, part);
                }
                _ => bytes[from] = self.below(256) as u8,
            }
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("it is a number"))
}

/// Runs a test with consecutive seeds, and names the one that fails.
fn with_seeds(test: fn(&mut Random)) {
    let first = number("HOTRING_SEED", 1);
    for seed in first..first + number("HOTRING_SEQUENCES", SEQUENCES) {
        let run = || test(&mut Random(Rng::with_seed(seed)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("it fails with HOTRING_SEED={seed} HOTRING_SEQUENCES=1");
            std::panic::resume_unwind(panic);
        }
    }
}

fn items(random: &mut Random) -> Vec<Item> {
    (0..1 + random.below(20)).map(|i| random.item(i)).collect()
}

fn push_resp(out: &mut Vec<u8>, item: &Item) {
    resp::push_database(out, item.database);
    resp::push_item(out, item);
}

fn read_resp(bytes: &[u8]) -> Result<Vec<Item>, ReadError> {
    let mut reader = resp::Reader::new(bytes);
    std::iter::from_fn(|| reader.next().transpose()).collect()
}

fn read_json(bytes: &[u8]) -> Result<Vec<Item>, ReadError> {
    let mut reader = json::Reader::new(bytes);
    std::iter::from_fn(|| reader.next().transpose()).collect()
}

#[test]
fn random_items_come_back() {
    with_seeds(|random| {
        let items = items(random);
        let (mut resp, mut json) = (Vec::new(), Vec::new());
        items.iter().for_each(|item| push_resp(&mut resp, item));
        items.iter().for_each(|item| json::push_item(&mut json, item));
        assert_eq!(read_resp(&resp).unwrap(), items);
        assert_eq!(read_json(&json).unwrap(), items);
    });
}

#[test]
fn random_damage_never_panics() {
    with_seeds(|random| {
        let items = items(random);
        let (mut resp, mut json) = (Vec::new(), Vec::new());
        items.iter().for_each(|item| push_resp(&mut resp, item));
        items.iter().for_each(|item| json::push_item(&mut json, item));
        [&mut resp, &mut json].into_iter().for_each(|bytes| random.damage(bytes));
        let _ = read_resp(&resp);
        let _ = read_json(&json);
    });
}

#[test]
fn fields_that_expire_come_back_in_each_form() {
    let field = |name: &[u8], value: &[u8], at| ((name.to_vec(), value.to_vec()), at);
    let fields = vec![
        field(b"a", b"1", Some(1_790_000_000_000)),
        field(b"\xff", b"2", None),
        field(b"c", b"", Some(7)),
    ];
    let value = Value::HashUntil(fields);
    let item = Item {
        database: 0,
        key: b"h".to_vec(),
        value,
        expire_at: Some(1_800_000_000_000),
        is_pinned: true,
    };
    let mut json = Vec::new();
    json::push_item(&mut json, &item);
    assert_eq!(json::Reader::new(&json[..]).next().unwrap(), Some(item.clone()));
    let mut resp = Vec::new();
    resp::push_item(&mut resp, &item);
    assert_eq!(resp::Reader::new(&resp[..]).next().unwrap(), Some(item));
}
