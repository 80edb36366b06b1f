//! Lists in all their forms, from bytes and back.

use hotring_store::{Options, Store};

use super::super::dump::{dump, undump};
use super::super::seal;
use super::*;

fn list(elements: &[&[u8]]) -> Content<'static> {
    let mut list = Elements::default();
    elements.iter().for_each(|element| list.add(element));
    Content::List(list)
}

fn sealed(value: &[u8]) -> Vec<u8> {
    let mut payload = value.to_vec();
    seal(&mut payload);
    payload
}

fn restored(value: &[u8]) -> Result<Content<'static>, PayloadError> {
    match undump(&sealed(value), 1 << 20)? {
        Content::List(elements) => Ok(Content::List(elements)),
        other => panic!("{other:?} is no list"),
    }
}

#[test]
fn payloads_of_redis_are_restored() {
    let long = [b'x'; 20_000];
    // Their lengths behind them take 1, 2 and 3 bytes.
    let (edge, behind) = ([b'y'; 16_378], [b'y'; 16_377]);
    let texts: [&[u8]; 22] = [
        b"",
        b"a",
        b"0",
        b"127",
        b"128",
        b"-1",
        b"4095",
        b"-4096",
        b"4096",
        b"32767",
        b"-32769",
        b"8388607",
        b"-8388609",
        b"2147483647",
        b"2147483648",
        b"-9223372036854775808",
        b"012",
        &[b'z'; 63],
        &[b'z'; 4096],
        &long,
        &edge,
        &behind,
    ];
    let mut session = Store::new(Options::default()).unwrap().session();
    for n in 1..=texts.len() {
        session.put_content(b"k", list(&texts[..n]), None, true, 0).unwrap();
        let payload = session.get(b"k", 0, dump).expect("it was stored");
        assert_eq!(undump(&payload, 1 << 20), Ok(list(&texts[..n])), "{n}");
    }
    let many: Vec<&[u8]> = texts.into_iter().cycle().take(2_000).collect();
    session.put_content(b"k", list(&many), None, true, 0).unwrap();
    let payload = session.get(b"k", 0, dump).expect("it was stored");
    assert_eq!(undump(&payload, 1 << 20), Ok(list(&many)));
}

/// As redis-server 7.0 gives it.
#[test]
fn the_form_is_that_of_redis() {
    let mut session = Store::new(Options::default()).unwrap().session();
    session.put_content(b"k", list(&[b"a", b"1", b"300"]), None, true, 0).unwrap();
    let payload = session.get(b"k", 0, dump).expect("it was stored");
    let node = b"\x0f\x00\x00\x00\x03\x00\x81a\x02\x01\x01\xc1\x2c\x02\xff";
    let value = [&b"\x12\x01\x02\x0f"[..], node].concat();
    assert_eq!(payload, sealed(&value));
}

#[test]
fn older_forms_are_read() {
    assert_eq!(restored(b"\x01\x02\x01a\xc0\x0c"), Ok(list(&[b"a", b"12"])));
    let zip = b"\x0f\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xff";
    // The second element is the number 1.
    let zip = [&zip[..zip.len() - 1], b"\xf2\xff"].concat();
    let zip = [&(zip.len() as u32).to_le_bytes()[..], &zip[4..]].concat();
    let len = zip.len() as u8;
    assert_eq!(restored(&[&[10, len][..], &zip].concat()), Ok(list(&[b"a", b"1"])));
    let two = [&[14, 2, len][..], &zip, &[len], &zip].concat();
    assert_eq!(restored(&two), Ok(list(&[b"a", b"1", b"a", b"1"])));
    assert_eq!(restored(b"\x12\x02\x01\x02ab\x01\x00"), Ok(list(&[b"ab", b""])), "plain nodes");
}

#[test]
fn damage_is_an_error_and_no_panic() {
    let value = b"\x12\x01\x02\x0f\x0f\x00\x00\x00\x03\x00\x81a\x02\x01\x01\xc1\x2c\x02\xff";
    for value in [&value[..], b"\x01\x02\x01a\xc0\x0c", b"\x12\x02\x01\x02ab\x01\x00"] {
        for end in 0..value.len() {
            assert!(undump(&sealed(&value[..end]), 1 << 20).is_err());
            for bit in 0..8 {
                let mut damaged = value.to_vec();
                damaged[end] ^= 1 << bit;
                // Some changes only change an element.
                undump(&sealed(&damaged), 1 << 20).ok();
            }
        }
    }
    for empty in [&b"\x01\x00"[..], b"\x12\x00", b"\x12\x01\x03\x01a", b"\x0e\x00"] {
        assert_eq!(undump(&sealed(empty), 1 << 20), Err(PayloadError::Format), "{empty:?}");
    }
}
