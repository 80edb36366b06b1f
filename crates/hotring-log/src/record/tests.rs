//! Tests: records survive the way through bytes, and nothing else passes for one.

use super::*;

fn effects() -> Vec<Effect<'static>> {
    vec![
        Effect::Put { key: b"k", form: 0x83, expire_at: None, value: b"12345678" },
        Effect::Put { key: b"", form: 0, expire_at: Some(u64::MAX), value: b"" },
        Effect::Put { key: &[7; 300], form: 2, expire_at: Some(1), value: &[9; 70_000] },
        Effect::Remove { key: b"gone" },
        Effect::Remove { key: b"" },
        Effect::Expire { key: b"k", expire_at: Some(7) },
        Effect::Expire { key: b"", expire_at: None },
        Effect::Change { key: b"k", number: 1, change: b"" },
        Effect::Change { key: &[7; 300], number: 1 << 40, change: &[9; 70_000] },
        Effect::Clear,
        Effect::Database { number: 255 },
        Effect::Order { order: &[3; 256] },
        Effect::Epochs { history: &[5; 48] },
        Effect::Pin { key: b"p" },
        Effect::Unpin { key: b"p" },
        Effect::Durable { upto: 42 },
    ]
}

/// The bytes of these records with the numbers from `first` on.
fn sealed(batches: &mut [Records], first: Lsn) -> Vec<u8> {
    let mut group = Group::default();
    batches.iter_mut().for_each(|records| group.append(records));
    let len = group.len();
    let last = group.seal(first, None);
    let bytes = group.pieces().collect::<Vec<_>>().concat();
    assert_eq!(
        last,
        read_all(&bytes).last().map(|found| checksum(&bytes[bytes.len() - found.len..]))
    );
    assert_eq!(bytes.len(), len);
    bytes
}

fn read_all(bytes: &[u8]) -> Vec<Found<'_>> {
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let record = read(&bytes[at..]).expect("nothing else was written");
        at += record.len;
        found.push(record);
    }
    found
}

#[test]
fn what_was_pushed_is_read() {
    let mut each: Vec<Records> = effects()
        .iter()
        .map(|effect| {
            let mut records = Records::new();
            records.push(effect);
            records
        })
        .collect();
    let bytes = sealed(&mut each, 5);
    let found = read_all(&bytes);
    assert_eq!(found.iter().map(|record| record.effect).collect::<Vec<_>>(), effects());
    assert!(found.iter().map(|record| record.lsn).eq(5..5 + effects().len() as u64));
    assert!(found.iter().all(|record| !record.more));
}

#[test]
fn a_batch_says_which_records_belong_to_it() {
    let mut batch = Records::new();
    batch.push(&Effect::Remove { key: b"a" });
    batch.push(&Effect::Remove { key: b"b" });
    let before = batch.mark();
    batch.push(&Effect::Remove { key: b"never mind" });
    batch.push_attached(b"never", 0, None, Arc::new(vec![1; 10]));
    batch.roll_back(before);
    let more = |batch: &mut Records| -> Vec<bool> {
        read_all(&sealed(std::slice::from_mut(batch), 1)).iter().map(|found| found.more).collect()
    };
    assert_eq!(more(&mut batch), [true, false]);
    assert!(batch.is_empty());
    let start = batch.mark();
    batch.push(&Effect::Clear);
    batch.roll_back(start);
    assert_eq!((batch.count(), batch.len()), (0, 0));
}

#[test]
fn attached_values_lie_where_copies_would() {
    let long: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    let build = |attach: bool| {
        let mut records = Records::new();
        for (i, key) in [b"one", b"two", b"six"].iter().enumerate() {
            records.push(&Effect::Remove { key: &key[..] });
            let (form, expire_at) = (i as u8, (i == 1).then_some(77));
            let value = &long[i..];
            match attach {
                true => records.push_attached(&key[..], form, expire_at, Arc::new(value.to_vec())),
                false => records.push(&Effect::Put { key: &key[..], form, expire_at, value }),
            }
        }
        records
    };
    let one = |records| sealed(&mut [Records::new(), records], 9);
    assert_eq!(one(build(true)), one(build(false)));
}

#[test]
fn each_changed_bit_is_noticed() {
    let mut records = Records::new();
    records.push(&Effect::Put { key: b"key", form: 1, expire_at: Some(3), value: b"value" });
    let bytes = sealed(&mut [records], 1);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&changed).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(matches!(read(&bytes[..len]), Err(Bad::Short { .. } | Bad::Zero)), "{len} bytes");
    }
    assert_eq!(read(&[0; 100]), Err(Bad::Zero));
}

#[test]
fn a_type_of_a_later_version_is_not_taken_for_damage() {
    let mut records = Records::new();
    records.push(&Effect::Clear);
    let mut bytes = sealed(&mut [records], 1);
    bytes[HEAD_LEN] = 0x7f;
    let crc = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(read(&bytes), Err(Bad::Unknown));
}

#[test]
fn a_durable_record_is_found_by_its_mark() {
    let mut records = Records::new();
    records.push(&Effect::Remove { key: b"a" });
    let mut group = Group::default();
    group.append(&mut records);
    group.seal(8, Some((7, 99)));
    let bytes = group.pieces().collect::<Vec<_>>().concat();
    let found = read_all(&bytes);
    assert_eq!((found[0].lsn, found[0].effect), (99, Effect::Durable { upto: 7 }));
    assert_eq!((found[1].lsn, found[1].effect), (8, Effect::Remove { key: b"a" }));
    let behind = [b"damage".as_slice(), &bytes].concat();
    assert_eq!(highest_durable(&behind, Some(99)), Some(7));
    assert_eq!(highest_durable(&behind, None), Some(7));
    assert_eq!(highest_durable(&behind, Some(98)), None);
    group.seal(8, None);
    assert_eq!(group.pieces().collect::<Vec<_>>().concat().len(), group.len());
}
