//! The earlier values kept of a key, and the operations that keep them.

use crate::{
    ExpireCondition, NumberKind, OpenError, Options, Session, SetCondition, SetExpiry, SetOptions,
    Store, StoreError, TtlChange,
};

const NOW: u64 = 1_700_000_000_000;

fn session(history: usize) -> Session {
    Store::new(Options { history, ..Options::default() }).unwrap().session()
}

fn set(s: &mut Session, key: &str, value: &str, now: u64) {
    s.set(key.as_bytes(), value.as_bytes(), SetOptions::default(), now).unwrap();
}

/// The key's version, and its earlier values, newest first, as `version@time=value`.
fn history(s: &mut Session, key: &str) -> Option<(u64, Vec<String>)> {
    s.history(key.as_bytes(), NOW, |history| {
        let earlier = history.earlier().map(|e| {
            let value = String::from_utf8(e.value.to_vec()).unwrap();
            format!("{}@{}={value}", e.version, e.replaced_at - NOW)
        });
        (history.version(), earlier.collect())
    })
}

fn earlier(s: &mut Session, key: &str) -> String {
    history(s, key).expect("the key is there").1.join(" ")
}

fn text(s: &mut Session, key: &str) -> Option<String> {
    s.get(key.as_bytes(), NOW, |v| String::from_utf8(v.to_vec()).unwrap())
}

#[test]
fn every_write_of_a_value_keeps_the_one_before() {
    let mut s = session(16);
    set(&mut s, "k", "5", NOW);
    assert_eq!(history(&mut s, "k"), Some((1, vec![])));
    assert_eq!(s.incr_by(b"k", 2, NOW + 1), Ok(7));
    assert_eq!(s.incr_by(b"k", -8, NOW + 2), Ok(-1));
    assert_eq!(s.incr_by_float(b"k", b"0.5", NOW + 3), Ok(b"-0.5".to_vec()));
    assert_eq!(s.append(b"k", b"!", NOW + 4), Ok(5));
    assert_eq!(s.set_range(b"k", 6, b"x", NOW + 5), Ok(7));
    assert_eq!(s.get_set(b"k", b"a", NOW + 6), Ok(Some(b"-0.5!\0x".to_vec().into())));
    let equal = SetOptions { condition: SetCondition::IfEqual(b"a"), ..SetOptions::default() };
    assert!(s.set(b"k", b"b", equal, NOW + 7).unwrap().stored);
    s.mset(&[(b"k", b"c")], NOW + 8).unwrap();
    s.mset(&[(b"k", b"d"), (b"l", b"1")], NOW + 9).unwrap();
    set(&mut s, "k", "d", NOW + 10);
    assert_eq!(
        earlier(&mut s, "k"),
        "10@10=d 9@9=c 8@8=b 7@7=a 6@6=-0.5!\0x 5@5=-0.5! 4@4=-0.5 3@3=-1 2@2=7 1@1=5"
    );
    assert_eq!(history(&mut s, "k").unwrap().0, 11);
    assert_eq!(text(&mut s, "k").as_deref(), Some("d"));
}

#[test]
fn operations_without_a_write_keep_no_earlier_value() {
    let mut s = session(4);
    set(&mut s, "k", "1", NOW);
    set(&mut s, "long", "a value that is longer than a word", NOW);
    for key in ["k", "long"] {
        let bytes = key.as_bytes();
        assert!(s.expire_at(bytes, NOW + 50, ExpireCondition::Always, NOW).unwrap());
        assert!(s.get_ex(bytes, TtlChange::At(NOW + 60), NOW, |_, _| ()).unwrap().is_some());
        assert!(s.get_ex(bytes, TtlChange::Persist, NOW, |_, _| ()).unwrap().is_some());
        assert!(s.expire_at(bytes, NOW + 50, ExpireCondition::Always, NOW).unwrap());
        assert!(s.persist(bytes, NOW).unwrap());
        assert!(s.version(bytes, NOW).unwrap().is_some());
        assert!(!s.set(bytes, b"2", SetOptions::if_absent(), NOW).unwrap().stored);
        assert_eq!(s.set_range(bytes, 0, b"", NOW), Ok(text(&mut s, key).unwrap().len()));
        assert!(!s.mset_nx(&[(bytes, b"2"), (b"other", b"2")], NOW).unwrap());
        assert_eq!(history(&mut s, key), Some((1, vec![])), "{key}");
    }
    assert_eq!(s.incr_by(b"long", 1, NOW), Err(StoreError::NotANumber(NumberKind::Integer)));
    assert_eq!(history(&mut s, "long"), Some((1, vec![])));
}

#[test]
fn number_and_length_of_kept_entries_are_limited() {
    let options = Options { history: 2, history_bytes_max: 100, ..Options::default() };
    let mut s = Store::new(options).unwrap().session();
    for (i, value) in ["a", "b", "c", "d"].into_iter().enumerate() {
        set(&mut s, "k", value, NOW + i as u64);
    }
    assert_eq!(earlier(&mut s, "k"), "3@3=c 2@2=b");
    set(&mut s, "k", &"x".repeat(89), NOW + 4);
    assert_eq!(earlier(&mut s, "k"), "4@4=d 3@3=c");
    set(&mut s, "k", "e", NOW + 5);
    assert_eq!(history(&mut s, "k"), Some((6, vec![])), "89 bytes and 12 are more than 100");
    set(&mut s, "k", &"y".repeat(75), NOW + 6);
    set(&mut s, "k", "f", NOW + 7);
    assert_eq!(earlier(&mut s, "k"), format!("7@7={} 6@6=e", "y".repeat(75)));
}

#[test]
fn the_history_goes_where_the_key_goes() {
    let mut s = session(4);
    let prepare = |s: &mut Session, key: &str| {
        set(s, key, "1", NOW);
        set(s, key, "2", NOW + 1);
    };
    prepare(&mut s, "a");
    assert!(s.copy(b"a", b"b", false, NOW).unwrap());
    s.rename(b"a", b"c", NOW).unwrap();
    for key in ["b", "c"] {
        assert_eq!(history(&mut s, key), Some((2, vec!["1@1=1".into()])), "{key}");
    }
    set(&mut s, "d", "old", NOW);
    s.rename(b"c", b"d", NOW).unwrap();
    assert_eq!(earlier(&mut s, "d"), "1@1=1", "what was under the name is gone");
    assert_eq!(history(&mut s, "c"), None);

    prepare(&mut s, "a");
    assert!(s.remove(b"a", NOW));
    set(&mut s, "a", "new", NOW);
    assert_eq!(history(&mut s, "a"), Some((1, vec![])));
    prepare(&mut s, "a");
    assert!(s.expire_at(b"a", NOW + 5, ExpireCondition::Always, NOW).unwrap());
    set(&mut s, "a", "new", NOW + 5);
    assert_eq!(history(&mut s, "a"), Some((1, vec![])));
    assert_eq!(history(&mut s, "missing"), None);
}

#[test]
fn rolling_back_is_a_write() {
    let mut s = session(3);
    set(&mut s, "k", "1", NOW);
    set(&mut s, "k", "a value that is longer than a word", NOW + 1);
    let until = SetOptions { expiry: SetExpiry::At(NOW + 90), ..SetOptions::default() };
    s.set(b"k", b"3", until, NOW + 2).unwrap();
    assert_eq!(s.roll_back(b"k", 1, NOW + 3), Ok(true));
    assert_eq!(earlier(&mut s, "k"), "3@3=3 2@2=a value that is longer than a word 1@1=1");
    assert_eq!(s.incr_by(b"k", 1, NOW + 4), Ok(2), "a restored integer is one");
    assert_eq!(s.expiry(b"k", NOW), Some(Some(NOW + 90)), "the expiry stays");
    assert_eq!(s.roll_back(b"k", 2, NOW + 5), Ok(true));
    assert_eq!(text(&mut s, "k").as_deref(), Some("a value that is longer than a word"));
    assert_eq!(earlier(&mut s, "k"), "5@5=2 4@4=1 3@3=3");
    for version in [0, 1, 2, 6, 7, u64::MAX] {
        assert_eq!(s.roll_back(b"k", version, NOW + 6), Ok(false), "{version}");
    }
    assert_eq!(history(&mut s, "k").unwrap().0, 6);
    assert_eq!(s.roll_back(b"missing", 1, NOW), Ok(false));
}

#[test]
fn without_a_history_there_is_none() {
    let mut s = session(0);
    set(&mut s, "k", "1", NOW);
    let before = s.memory(b"k", NOW);
    set(&mut s, "k", "2", NOW);
    assert_eq!(history(&mut s, "k"), Some((1, vec![])));
    assert_eq!(s.memory(b"k", NOW), before);
    assert_eq!(s.roll_back(b"k", 1, NOW), Err(StoreError::HistoryOff));
    assert_eq!(history(&mut s, "missing"), None);
}

#[test]
fn impossible_settings_are_refused() {
    for (history, history_bytes_max) in [(17, 10), (1, u32::MAX as usize), (1, usize::MAX)] {
        let options = Options { history, history_bytes_max, ..Options::default() };
        let error = Store::new(options).unwrap_err();
        assert!(matches!(error, OpenError::History { .. }), "{error}");
        assert!(error.to_string().contains(&format!("history is {history},")), "{error}");
    }
    let off = Options { history: 0, history_bytes_max: usize::MAX, ..Options::default() };
    assert!(Store::new(off).is_ok());
}
