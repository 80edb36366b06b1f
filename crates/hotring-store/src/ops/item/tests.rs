//! Strings with notes: operations that keep or drop them, and that numbers for compare-and-swap are never
//! given twice. All of it with and without a history.

use crate::{
    Access, Changed, Content, CounterExpiry, CounterOptions, ExpireCondition, ItemAction, Metadata,
    Options, Origin, Session, SetExpiry, SetOptions, Store, StoreError, ValueRef,
};

const NOW: u64 = 1_700_000_000_000;

fn sessions() -> Vec<Session> {
    let store = |history| Store::new(Options { history, ..Options::default() }).unwrap();
    [0, 3].map(|history| store(history).session()).into()
}

fn full() -> Metadata {
    let access = Some(Access { at: 7, fetched: true });
    Metadata { flags: 42, unique: Some(9), access, stale: true, claimed: true }
}

fn put(session: &mut Session, key: &[u8], value: &[u8], metadata: Metadata) {
    let expiry = SetExpiry::Clear;
    session
        .update_item(key, NOW, |_| (ItemAction::Put { value: value.into(), metadata, expiry }, ()))
        .unwrap();
}

fn metadata(session: &mut Session, key: &[u8]) -> Option<Metadata> {
    session.item(key, NOW, |item| item.metadata)
}

fn text(session: &mut Session, key: &[u8]) -> String {
    let text = session.get_string(key, NOW, |value| value.to_vec()).unwrap().unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_note_is_seen_only_on_request() {
    for mut s in sessions() {
        for value in ["", "12", "short", "a value that is longer than a word"] {
            put(&mut s, b"k", value.as_bytes(), full());
            assert_eq!(metadata(&mut s, b"k"), Some(full()));
            assert_eq!(text(&mut s, b"k"), value);
            assert_eq!(s.strlen(b"k", NOW), Ok(value.len()));
            let is_int = s.get(b"k", NOW, |value| matches!(value, ValueRef::Int(12)));
            assert_eq!(is_int, Some(value == "12"));
            let content = Content::String(text(&mut s, b"k").into_bytes().into());
            assert_eq!(s.put_content(b"r", content, None, true, NOW), Ok(true));
            assert_eq!(
                (text(&mut s, b"r"), metadata(&mut s, b"r")),
                (value.into(), Some(Metadata::default()))
            );
        }
    }
}

#[test]
fn a_value_that_is_replaced_loses_its_note_and_one_that_is_changed_keeps_the_flags() {
    type Change = fn(&mut Session);
    let changes: [(&str, Change); 6] = [
        ("10", |s| assert_eq!(s.incr_by(b"k", 1, NOW), Ok(11))),
        ("10", |s| assert_eq!(s.incr_by_float(b"k", b"0.5", NOW), Ok(b"10.5".to_vec()))),
        ("10", |s| {
            let expiry = CounterExpiry::Leave;
            let options = CounterOptions { by: 1, low: None, high: None, saturates: false, expiry };
            assert_eq!(s.incr_ex(b"k", options, NOW).unwrap().value, 11);
        }),
        ("ab", |s| assert_eq!(s.append(b"k", b"c", NOW), Ok(3))),
        ("ab", |s| assert_eq!(s.set_range(b"k", 1, b"x", NOW), Ok(2))),
        ("ab", |s| assert_eq!(s.set_bit(b"k", 7, false, NOW), Ok(true))),
    ];
    for mut s in sessions() {
        for (value, change) in changes {
            put(&mut s, b"k", value.as_bytes(), full());
            change(&mut s);
            assert_eq!(metadata(&mut s, b"k"), Some(Metadata { flags: 42, ..Metadata::default() }));
        }
        s.set(b"k", b"v", SetOptions::default(), NOW).unwrap();
        assert_eq!(metadata(&mut s, b"k"), Some(Metadata::default()));
    }
}

#[test]
fn a_note_goes_with_its_key_and_stays_while_the_expiry_changes() {
    for mut s in sessions() {
        put(&mut s, b"k", b"v", full());
        s.expire_at(b"k", NOW + 10, ExpireCondition::Always, NOW).unwrap();
        assert_eq!(metadata(&mut s, b"k"), Some(full()));
        s.rename(b"k", b"to", NOW).unwrap();
        assert_eq!((metadata(&mut s, b"to"), metadata(&mut s, b"k")), (Some(full()), None));
        assert!(s.copy(b"to", b"copy", false, NOW).unwrap());
        assert_eq!(metadata(&mut s, b"copy"), Some(full()));
        assert_eq!(s.item(b"copy", NOW, |item| item.expire_at), Some(Some(NOW + 10)));
    }
}

#[test]
fn the_history_of_a_key_lies_behind_its_note() {
    let mut s = sessions().remove(1);
    for (i, value) in [&b"one"[..], b"2", b"three"].into_iter().enumerate() {
        put(&mut s, b"k", value, Metadata { flags: i as u32, ..Metadata::default() });
    }
    let amend = ItemAction::Amend { metadata: full(), expiry: SetExpiry::Keep };
    s.update_item(b"k", NOW, |_| (amend.clone(), ())).unwrap();
    let earlier = |s: &mut Session| {
        let texts = |history: crate::History<'_>| {
            let texts = history.earlier().map(|e| String::from_utf8(e.value.to_vec()).unwrap());
            (history.version(), texts.collect::<Vec<_>>())
        };
        s.history(b"k", NOW, texts).unwrap()
    };
    assert_eq!(earlier(&mut s), (3, vec!["2".to_string(), "one".into()]));
    assert_eq!(s.roll_back(b"k", 1, NOW), Ok(true));
    assert_eq!(metadata(&mut s, b"k"), Some(Metadata { flags: 42, ..Metadata::default() }));
    assert_eq!(earlier(&mut s).0, 4);
}

#[test]
fn amending_changes_note_and_expiry_and_never_the_value() {
    for mut s in sessions() {
        let amend = |metadata, expiry| ItemAction::Amend { metadata, expiry };
        s.update_item(b"k", NOW, |_| (amend(full(), SetExpiry::Clear), ())).unwrap();
        assert_eq!(metadata(&mut s, b"k"), None, "there is nothing to amend");
        s.set(b"k", b"12", SetOptions::default(), NOW).unwrap();
        for expiry in [SetExpiry::Keep, SetExpiry::At(NOW + 5), SetExpiry::Keep, SetExpiry::Clear] {
            let flags = Metadata { flags: 3, ..Metadata::default() };
            for note_now in [full(), flags, flags, Metadata::default()] {
                s.update_item(b"k", NOW, |_| (amend(note_now, expiry), ())).unwrap();
                assert_eq!(metadata(&mut s, b"k"), Some(note_now));
                assert_eq!(text(&mut s, b"k"), "12");
            }
            let at = s.expiry(b"k", NOW).unwrap();
            match expiry {
                SetExpiry::At(_) => assert_eq!(at, Some(NOW + 5)),
                SetExpiry::Clear => assert_eq!(at, None),
                SetExpiry::Keep => {}
            }
        }
        s.hash_set(b"h", &[(b"f", b"v")], NOW).unwrap();
        s.update_item(b"h", NOW, |_| (amend(full(), SetExpiry::At(NOW + 5)), ())).unwrap();
        assert_eq!(
            (metadata(&mut s, b"h"), s.expiry(b"h", NOW)),
            (Some(Metadata::default()), Some(Some(NOW + 5)))
        );
        s.update_item(b"k", NOW, |_| (amend(full(), SetExpiry::At(NOW)), ())).unwrap();
        assert_eq!(metadata(&mut s, b"k"), None, "its time is over");
    }
}

#[test]
fn other_metadata_is_not_a_change_but_another_expiry_is() {
    let mut s = sessions().remove(0);
    s.act(Origin { records_changes: true, ..Origin::default() });
    put(&mut s, b"k", b"v", full());
    let amend = |metadata, expiry| ItemAction::Amend { metadata, expiry };
    s.update_item(b"k", NOW, |_| (amend(Metadata::default(), SetExpiry::Keep), ())).unwrap();
    s.update_item(b"k", NOW, |_| (amend(full(), SetExpiry::At(NOW + 1)), ())).unwrap();
    s.update_item(b"k", NOW, |_| (amend(full(), SetExpiry::Clear), ())).unwrap();
    s.update_item(b"k", NOW, |_| (ItemAction::Remove, ())).unwrap();
    let told: Vec<Changed> = s.take_changes().into_iter().map(|change| change.kind).collect();
    let expected = [
        Changed::Stored { is_new: true, expires: false },
        Changed::Expiry { expires: true },
        Changed::Expiry { expires: false },
        Changed::Removed,
    ];
    assert_eq!(told, expected);
}

#[test]
fn numbers_for_compare_and_swap_are_given_once() {
    let store = Store::new(Options::default()).unwrap();
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let session = store.session();
                scope.spawn(move || {
                    let numbers = session.unique_numbers();
                    let drawn: Vec<u64> = (0..1000).map(|_| numbers.next()).collect();
                    assert!(drawn.is_sorted());
                    drawn
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len(), numbers[0]), (4000, 1));
    let numbers = store.session().unique_numbers();
    assert!(numbers.is_given(4000) && !numbers.is_given(4001));
}

#[test]
fn numbers_begin_at_their_base_and_exceed_chosen_ones() {
    let options = Options { unique_base: 1 << 60, ..Options::default() };
    let numbers = Store::new(options).unwrap().session().unique_numbers();
    assert!(numbers.is_given(7));
    assert_eq!(numbers.next(), (1 << 60) + 1);
    assert_eq!(numbers.next_after(None), (1 << 60) + 2);
    assert_eq!(numbers.next_after(Some(9)), (1 << 60) + 3);
    assert_eq!(numbers.next_after(Some(1 << 61)), (1 << 61) + 1);
    assert_eq!(numbers.next(), (1 << 60) + 5);
}

#[test]
fn too_long_a_value_changes_nothing() {
    let options = Options { value_len_max: 8, ..Options::default() };
    let mut s = Store::new(options).unwrap().session();
    put(&mut s, b"k", b"12345678", full());
    let value = b"123456789";
    let put =
        || ItemAction::Put { value: value.into(), metadata: full(), expiry: SetExpiry::Clear };
    let refused = s.update_item(b"k", NOW, |_| (put(), ()));
    assert_eq!(refused, Err(StoreError::ValueTooLong { len: 9, len_max: 8 }));
    assert_eq!(text(&mut s, b"k"), "12345678");
}
