//! Access bits for an eviction policy, with every engine.

use hotring_engines::EngineChoice;
use hotring_index::{
    Action, AnyIndex, AnySession, Config, ConfigError, Expiry, FREQUENCY_NEW, HotRing, NewValue,
    Noting, Strategy,
};

const FRESH: u8 = 0b100;

fn each_engine(noting: Noting, test: impl Fn(AnyIndex, AnySession)) {
    for &choice in EngineChoice::ALL {
        let index = choice.open(Config::default()).expect("these settings suit every engine");
        index.set_noting(noting).expect("no engine samples by default");
        let session = index.try_session(None).expect("there is no other session");
        test(index, session);
    }
}

fn put(session: &mut AnySession, key: &[u8], value: &'static [u8]) {
    let value = NewValue::Bytes { kind: 0, bytes: value.into() };
    session.put(key, value, Expiry::Never, 1);
}

fn bits(session: &mut AnySession, key: &[u8]) -> u8 {
    session.peek_marked(key, 1, |_, bits| bits).expect("the key is present")
}

fn review_all(session: &mut AnySession, bits: impl Fn(u8) -> u8) {
    let mut cursor = 0;
    loop {
        cursor = session.review(cursor, 64, |_, marked| (bits(marked.bits), true));
        if cursor == 0 {
            return;
        }
    }
}

#[test]
fn the_first_two_visits_are_noted_and_the_policys_bits_stay() {
    each_engine(Noting::Visits { fresh: FRESH }, |_, mut session| {
        put(&mut session, b"a", b"a value");
        assert_eq!(bits(&mut session, b"a"), FRESH);
        for seen in [0b01, 0b11, 0b11] {
            session.get(&b"a"[..], 1, |_| ());
            assert_eq!(bits(&mut session, b"a"), FRESH | seen);
        }
        review_all(&mut session, |bits| bits & !0b11);
        assert_eq!(bits(&mut session, b"a"), FRESH);
        put(&mut session, b"a", b"another value, which is longer");
        assert_eq!(
            bits(&mut session, b"a"),
            FRESH | 0b01,
            "a write is an access, and keeps the rest"
        );
        session.get_many(&[b"a"], 1, |_, _| ());
        assert_eq!(bits(&mut session, b"a"), FRESH | 0b11);
        review_all(&mut session, |_| 0);
        session.update(&b"a"[..], 1, |_| (Action::Keep, ()));
        assert_eq!(bits(&mut session, b"a"), 0b01);
        assert!(session.remove(&b"a"[..], 1));
        put(&mut session, b"a", b"new");
        assert_eq!(bits(&mut session, b"a"), FRESH, "nothing is left of a key that was removed");
    });
}

#[test]
fn words_that_change_in_place_are_noted() {
    each_engine(Noting::Visits { fresh: FRESH }, |_, mut session| {
        for n in 0..3 {
            session.put(&b"n"[..], NewValue::Word { kind: 1, word: n }, Expiry::Never, 1);
        }
        assert_eq!(bits(&mut session, b"n"), FRESH | 0b11);
    });
}

/// Overwrites a key until this many bytes were written.
fn write(session: &mut AnySession, bytes: usize) {
    for _ in 0..bytes / 1024 + 1 {
        put(session, b"filler", &[0; 1024]);
    }
}

#[test]
fn ticks_are_those_of_the_last_access() {
    each_engine(Noting::Ticks { every: 64 << 10 }, |index, mut session| {
        put(&mut session, b"a", b"a value");
        put(&mut session, b"b", b"a value");
        assert_eq!(index.tick(), 0);
        write(&mut session, 3 * (64 << 10));
        let now = index.tick();
        assert!((2..=4).contains(&now), "three times the bytes of a tick are {now}");
        session.get(&b"a"[..], 1, |_| ());
        assert_eq!((bits(&mut session, b"a"), bits(&mut session, b"b")), (now, 0));
        session.peek(&b"b"[..], 1, |_| ());
        assert_eq!(bits(&mut session, b"b"), 0, "a look is no access");
        session.set_noted(false);
        session.get(&b"b"[..], 1, |_| ());
        put(&mut session, b"b", b"a value that is longer");
        assert_eq!(bits(&mut session, b"b"), 0, "nor is what this session does");
        session.set_noted(true);
        let begins_anew = (0..300).any(|_| {
            write(&mut session, 64 << 10);
            index.tick() < now
        });
        assert!(begins_anew, "there are 256 ticks");
    });
}

#[test]
fn stamps_are_left_where_nothing_else_is_noted() {
    each_engine(Noting::Off, |index, mut session| {
        put(&mut session, b"before", b"a value");
        assert_eq!(index.stamp(), None);
        index.set_stamp(7);
        assert_eq!(index.stamp(), Some(7));
        put(&mut session, b"a", b"a value");
        index.set_stamp(0);
        put(&mut session, b"b", b"a value");
        assert_eq!((index.stamp(), bits(&mut session, b"before")), (Some(0), 0));
        assert_eq!((bits(&mut session, b"a"), bits(&mut session, b"b")), (7, 0));
        index.set_stamp(9);
        session.get(&b"a"[..], 1, |_| ());
        assert_eq!((bits(&mut session, b"a"), bits(&mut session, b"b")), (9, 0));
        index
            .set_noting(Noting::Frequency { log_factor: 0 })
            .expect("no engine samples by default");
        index.set_stamp(10);
        assert_eq!(index.stamp(), None, "the bits are another's now");
        put(&mut session, b"c", b"a value");
        assert_eq!(bits(&mut session, b"c"), FREQUENCY_NEW);
    });
}

#[test]
fn frequencies_grow_like_logarithms() {
    each_engine(Noting::Frequency { log_factor: 10 }, |_, mut session| {
        put(&mut session, b"once", b"a value");
        put(&mut session, b"often", b"a value");
        for _ in 0..10_000 {
            session.get(&b"often"[..], 1, |_| ());
        }
        assert_eq!(bits(&mut session, b"once"), FREQUENCY_NEW);
        // 10 (c - 5)^2 / 2 accesses for c: about 45 above the beginning.
        let often = bits(&mut session, b"often");
        assert!((30..=70).contains(&often), "10,000 accesses are {often}");
    });
    each_engine(Noting::Frequency { log_factor: 0 }, |_, mut session| {
        put(&mut session, b"a", b"a value");
        for _ in 0..1000 {
            session.get(&b"a"[..], 1, |_| ());
        }
        assert_eq!(bits(&mut session, b"a"), 255, "it stays at the end");
    });
}

#[test]
fn a_review_shows_every_item_and_stops_on_request() {
    each_engine(Noting::Visits { fresh: FRESH }, |_, mut session| {
        for n in 0..1000u32 {
            put(&mut session, &n.to_le_bytes(), b"x");
        }
        let seen = std::cell::Cell::new(0);
        review_all(&mut session, |bits| {
            assert_eq!(bits, FRESH);
            seen.set(seen.get() + 1);
            bits
        });
        assert_eq!(seen.get(), 1000);
        let mut shown = 0;
        session.review(0, 100, |_, marked| {
            shown += 1;
            (marked.bits, false)
        });
        assert_eq!(shown, 1);
    });
}

#[test]
fn an_item_is_found_by_its_hash() {
    each_engine(Noting::Visits { fresh: FRESH }, |_, mut session| {
        for n in 0..1000u32 {
            put(&mut session, &n.to_le_bytes(), b"x");
        }
        let mut hashes = Vec::new();
        session.take_entered(|hash| hashes.push(hash));
        assert_eq!(hashes.len(), 1000);
        assert_eq!(session.entered(), 0);
        for (n, hash) in hashes.into_iter().enumerate() {
            let mut key = None;
            session.review(hash.reverse_bits(), 1, |entry, marked| {
                if marked.hash == hash {
                    key = Some(entry.key.to_vec());
                }
                (marked.bits, true)
            });
            assert_eq!(key, Some((n as u32).to_le_bytes().to_vec()));
        }
    });
}

#[test]
fn the_sampling_strategy_has_no_room() {
    let config = Config { strategy: Strategy::Sampling, ..Config::default() };
    let index = HotRing::<hotring_index::Bytes, 1>::new(config).expect("one head may sample");
    assert!(matches!(
        index.set_noting(Noting::Ticks { every: 1 }),
        Err(ConfigError::Unsupported(_))
    ));
    index.set_noting(Noting::Off).expect("nothing needs no room");
    index.set_stamp(1);
    assert_eq!(index.stamp(), None);
}
