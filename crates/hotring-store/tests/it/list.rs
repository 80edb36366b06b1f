//! Lists: as vectors, packed and large, under threads, moved between keys, and what is freed of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hotring_store::{Elements, End, Options, ReplyCapacity, SetOptions, Store, StoreError};

use super::random::Random;

const NOW: u64 = 1_700_000_000_000;

/// A store whose lists are large from about the fifth element on.
fn store() -> Store {
    Store::new(Options { list_packed_bytes_max: 40, ..Options::default() }).expect("it fits")
}

type Model = VecDeque<Vec<u8>>;

fn end(random: &mut Random) -> End {
    random.pick(&[End::Front, End::Back])
}

fn put(model: &mut Model, end: End, element: Vec<u8>) {
    match end {
        End::Front => model.push_front(element),
        End::Back => model.push_back(element),
    }
}

fn take(model: &mut Model, end: End) -> Option<Vec<u8>> {
    match end {
        End::Front => model.pop_front(),
        End::Back => model.pop_back(),
    }
}

fn owned(elements: Option<Elements>) -> Option<Vec<Vec<u8>>> {
    elements.map(|elements| elements.iter().map(<[u8]>::to_vec).collect())
}

fn all(session: &mut hotring_store::Session, key: &[u8]) -> Model {
    let all = session.list_walk(key, NOW, |list| {
        let all: Model = list.iter().map(<[u8]>::to_vec).collect();
        assert_eq!(all.len(), list.len());
        all
    });
    all.expect("a list").unwrap_or_default()
}

/// One operation on one of three lists, and on its model. Returns whether something was done.
fn step(
    session: &mut hotring_store::Session,
    models: &mut BTreeMap<&'static [u8], Model>,
    key: &'static [u8],
    random: &mut Random,
) -> bool {
    let model = models.entry(key).or_default();
    let element = format!("e{}", random.below(12)).into_bytes();
    let (len, end) = (model.len(), end(random));
    let index = random.below(14) as i64 - 7;
    match random.below(16) {
        0..5 => {
            let must_exist = random.one_in(3);
            let pushed = session.list_push(key, end, &[&element, b"other"], must_exist, NOW);
            let is_done = len > 0 || !must_exist;
            if is_done {
                put(model, end, element);
                put(model, end, b"other".to_vec());
            }
            assert_eq!(pushed, Ok(model.len()));
            is_done
        }
        5..9 => {
            let count = random.below(4) as usize;
            let popped =
                session.list_pop(key, end, (count, ReplyCapacity::UNLIMITED), NOW).expect("a list");
            let taken: Vec<_> = (0..count).map_while(|_| take(model, end)).collect();
            let is_done = !taken.is_empty();
            assert_eq!(owned(popped), (len > 0).then_some(taken));
            is_done
        }
        9 => {
            let at = if index < 0 { index + len as i64 } else { index };
            let is_present = (0..len as i64).contains(&at);
            let set = session.list_set(key, index, &element, NOW);
            assert_eq!(set, Ok((len > 0).then_some(is_present)));
            if is_present {
                model[at as usize] = element;
            }
            is_present
        }
        10 | 11 => {
            let is_before = random.one_in(2);
            let at = model.iter().position(|other| other == b"other");
            if let Some(at) = at {
                model.insert(at + usize::from(!is_before), element.clone());
            }
            let inserted = session.list_insert(key, is_before, b"other", &element, NOW);
            let expected = (len > 0).then_some(at.map_or(0, |_| model.len()));
            assert_eq!(inserted, Ok(expected));
            at.is_some()
        }
        12 => {
            let count = random.below(5) as i64 - 2;
            let mut places: Vec<usize> =
                (0..len).filter(|i| model[*i] == element || model[*i] == b"other").collect();
            places.retain(|i| model[*i] == b"other");
            if count < 0 {
                places.reverse();
            }
            places.truncate(if count == 0 { len } else { count.unsigned_abs() as usize });
            places.sort_unstable();
            places.iter().rev().for_each(|at| _ = model.remove(*at));
            assert_eq!(session.list_remove(key, count, b"other", NOW), Ok(places.len()));
            !places.is_empty()
        }
        13 => {
            let (start, stop) = (index, random.below(14) as i64 - 5);
            let at = |index: i64| if index < 0 { index + len as i64 } else { index };
            let (from, to) = (at(start).max(0), at(stop));
            let kept: Model = (0..len as i64)
                .filter(|i| (from..=to).contains(i))
                .map(|i| model[i as usize].clone())
                .collect();
            *model = kept;
            assert_eq!(session.list_trim(key, start, stop, NOW), Ok(len > 0));
            model.len() != len
        }
        14 if random.one_in(4) => {
            let removed = session.remove(key, NOW);
            assert_eq!(removed, len > 0);
            model.clear();
            removed
        }
        _ => {
            let found = session.list(key, NOW, |list| {
                list.position(index).and_then(|at| list.get(at)).map(<[u8]>::to_vec)
            });
            let at = if index < 0 { index + len as i64 } else { index };
            let there = usize::try_from(at).ok().and_then(|at| model.get(at).cloned());
            assert_eq!(found, Ok((len > 0).then_some(there)));
            false
        }
    }
}

#[test]
fn lists_are_as_vectors_and_tell_of_each_change() {
    const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
    let store = store();
    let mut session = store.session();
    let mut random = Random::new(1);
    let mut models = BTreeMap::new();
    let (mut large, mut packed) = (0, 0);
    for round in 0..20_000 {
        let key = random.pick(&KEYS);
        let state = session.key_state(key, NOW).expect("room");
        let changes = step(&mut session, &mut models, key, &mut random);
        assert_eq!(session.is_unchanged(&state, NOW), !changes, "{round}");
        if random.one_in(4) {
            let (to, from_end, to_end) = (random.pick(&KEYS), end(&mut random), end(&mut random));
            let moved = session.list_move(key, to, (from_end, to_end), NOW).expect("lists");
            let element = take(models.entry(key).or_default(), from_end);
            assert_eq!(owned(moved), element.clone().map(|element| vec![element]));
            if let Some(element) = element {
                put(models.entry(to).or_default(), to_end, element);
            }
        }
        for key in KEYS {
            let model = models.get(key).cloned().unwrap_or_default();
            assert_eq!(session.exists(key, NOW), !model.is_empty(), "{round}");
            assert_eq!(all(&mut session, key), model, "{round}");
            match session.list(key, NOW, |list| list.is_packed()) {
                Ok(Some(true)) => packed += 1,
                Ok(Some(false)) => large += 1,
                _ => {}
            }
        }
    }
    assert!(large > 5_000 && packed > 5_000, "{large}, {packed}");
}

#[test]
fn a_list_is_of_its_type_and_a_refused_move_moves_nothing() {
    let store = store();
    let mut session = store.session();
    session.list_push(b"l", End::Back, &[b"1", b"2"], false, NOW).expect("room");
    session.set(b"s", b"text", SetOptions::default(), NOW).expect("room");
    let wrong = Err(StoreError::WrongType);
    assert_eq!(session.list_push(b"s", End::Back, &[b"x"], false, NOW), wrong.clone().map(|()| 0));
    assert_eq!(session.append(b"l", b"x", NOW).map(|_| ()), wrong);
    for (from, to) in [(&b"l"[..], &b"s"[..]), (b"s", b"l")] {
        let moved = session.list_move(from, to, (End::Front, End::Back), NOW);
        assert_eq!(moved.map(|_| ()), wrong);
    }
    assert_eq!(all(&mut session, b"l"), [b"1", b"2"]);
    let capacity = ReplyCapacity { bytes: 3, cost: |element| element.len() + 1 };
    let long = StoreError::ValuesTooLong { len_max: 3 };
    assert_eq!(session.list_pop(b"l", End::Front, (2, capacity), NOW), Err(long));
    assert_eq!(all(&mut session, b"l").len(), 2);
}

/// Each element that was pushed is popped once, by whichever thread, also where lists are moved and go away empty.
#[test]
fn threads_pop_each_element_once() {
    const THREADS: usize = 4;
    const EACH: usize = 3_000;
    let store = store();
    let popped = Mutex::new(Vec::new());
    let left = AtomicUsize::new(THREADS * EACH);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (mut session, mut random) = (store.session(), Random::new(thread as u64));
            let (popped, left) = (&popped, &left);
            scope.spawn(move || {
                let mut own = Vec::new();
                let mut pushed = 0;
                while left.load(Relaxed) > 0 {
                    if pushed < EACH && random.one_in(2) {
                        let element = format!("{thread}:{pushed}");
                        let to = end(&mut random);
                        session
                            .list_push(b"queue", to, &[element.as_bytes()], false, NOW)
                            .expect("room");
                        pushed += 1;
                        continue;
                    }
                    let ends = (end(&mut random), end(&mut random));
                    _ = session.list_move(b"queue", b"other", ends, NOW).expect("lists");
                    let key = random.pick(&[&b"queue"[..], b"other"]);
                    let taken = session
                        .list_pop(key, ends.0, (2, ReplyCapacity::UNLIMITED), NOW)
                        .expect("a list");
                    let taken = owned(taken).unwrap_or_default();
                    left.fetch_sub(taken.len(), Relaxed);
                    own.extend(taken);
                }
                popped.lock().expect("no panic").extend(own);
            });
        }
    });
    let mut popped = popped.into_inner().expect("no panic");
    popped.sort();
    let mut pushed: Vec<Vec<u8>> = (0..THREADS)
        .flat_map(|thread| (0..EACH).map(move |i| format!("{thread}:{i}").into_bytes()))
        .collect();
    pushed.sort();
    assert!(popped == pushed, "{} of {}", popped.len(), pushed.len());
    assert_eq!(store.len(), 0);
}

/// A move is one step: a reader of both lists at one moment meets the element once.
#[test]
fn a_move_is_seen_whole() {
    let store = store();
    let mut session = store.session();
    session.list_push(b"a", End::Back, &[b"x"], false, NOW).expect("room");
    let is_over = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let mut reader = store.session();
        let is_over = &is_over;
        scope.spawn(move || {
            while is_over.load(Relaxed) == 0 {
                assert_eq!(reader.exists_many(&[b"a", b"b"], NOW), 1);
            }
        });
        for _ in 0..5_000 {
            session.list_move(b"a", b"b", (End::Front, End::Back), NOW).expect("lists");
            session.list_move(b"b", b"a", (End::Front, End::Back), NOW).expect("lists");
        }
        is_over.store(1, Relaxed);
    });
}

/// The elements cut off by a trim are freed in steps, and their memory is free then.
#[test]
fn detached_parts_are_freed_in_steps() {
    let store = store();
    let mut session = store.session();
    let before = store.stats().index.used_bytes();
    let element = [b'x'; 60];
    let many = [&element[..]; 1_000];
    for _ in 0..300 {
        session.list_push(b"l", End::Back, &many, false, NOW).expect("room");
    }
    let full = store.stats().index.used_bytes() - before;
    assert!((300_000 * 61..300_000 * 70).contains(&full), "{full}");
    assert_eq!(session.list_trim(b"l", 0, 9, NOW), Ok(true));
    let held = store.stats().index.used_bytes() - before;
    assert!(held > full / 2, "not in the writer's turn: {held} of {full}");
    (0..200).for_each(|_| session.collect());
    let left = store.stats().index.used_bytes().saturating_sub(before);
    assert!(left < 40_000, "{left}");
    assert_eq!(all(&mut session, b"l").len(), 10);
}
