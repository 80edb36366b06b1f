//! Packed lists against a vector, and damaged bytes.

use std::borrow::Cow;

use super::*;

fn elements(held: &[u8]) -> Vec<Vec<u8>> {
    List::packed(held).iter().map(<[u8]>::to_vec).collect()
}

/// The reference: the changes on a vector.
fn model(all: &mut Vec<Vec<u8>>, changes: &[Change<'_>]) -> usize {
    let mut done = 0;
    for change in changes {
        let len = all.len();
        match change {
            Change::Front(element) => all.insert(0, element.to_vec()),
            Change::Back(element) => all.push(element.to_vec()),
            Change::Insert(at, element) if *at < len => all.insert(*at, element.to_vec()),
            Change::Set(at, element) if *at < len => all[*at] = element.to_vec(),
            Change::Remove(range) if range.start < range.end.min(len) => {
                done += all.drain(range.start..range.end.min(len)).count();
                continue;
            }
            _ => continue,
        }
        done += 1;
    }
    done
}

/// Numbers that look random.
fn below(state: &mut u64, n: u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % n) as usize
}

#[test]
fn packed_and_large_lists_change_as_a_vector_does_and_changes_come_back_from_bytes() {
    let texts: Vec<Vec<u8>> = (0..200).map(|i| vec![b'a' + (i % 26) as u8; i]).collect();
    let (mut state, mut held, mut all) = (7, Vec::new(), Vec::new());
    let mut items = Items::default();
    for round in 0..1_500u64 {
        let changes: Vec<Change<'_>> = (0..1 + below(&mut state, 5))
            .map(|_| {
                let element = &texts[below(&mut state, 200)][..];
                let at = below(&mut state, 30);
                match below(&mut state, 9) {
                    0 | 1 => Change::Front(element),
                    2 | 3 => Change::Back(element),
                    4 => Change::Insert(at, element),
                    5 => Change::Set(at, element),
                    _ => Change::Remove(at..at + below(&mut state, 4)),
                }
            })
            .collect();
        assert_eq!(
            List::changes_from_bytes(&List::changes_to_bytes(&changes)).as_deref(),
            Some(&changes[..])
        );
        let done = model(&mut all, &changes);
        let (tally, after) = List::changed(List::packed(&held), &changes);
        assert_eq!(tally, Tally { len: all.len(), done }, "{round} {changes:?}");
        assert_eq!(super::tally(Head::split(&held).0.count, &changes), tally);
        assert_eq!(items.apply(&changes), tally);
        assert_eq!(after.is_some(), !all.is_empty());
        held = after.unwrap_or_default();
        assert_eq!(elements(&held), all, "{round} {changes:?}");
        assert!(items.iter_from(0).eq(all.iter().map(|element| &element[..])));
        for list in [List::packed(&held), List::large(&items)] {
            let (at, back) = (below(&mut state, 40), below(&mut state, 40).min(all.len()));
            assert_eq!(list.get(at), all.get(at).map(|element| &element[..]));
            assert!(list.iter_from(at).eq(all.iter().skip(at).map(|element| &element[..])));
            let before = all[..back].iter().rev().map(|element| &element[..]);
            assert!(list.iter_back_from(back).eq(before));
        }
        assert_eq!(Head::split(&items.to_packed(5)).1, Head::split(&held).1);
    }
}

#[test]
fn changes_of_elements_that_are_not_there_are_passed_over() {
    let three = [Change::Back(b"a"), Change::Back(b"b"), Change::Back(b"c")];
    let held = List::changed(List::packed(&[]), &three).1.unwrap();
    let mut items = Items::of(List::packed(&held).iter());
    for change in [Change::Insert(3, b"x"), Change::Set(3, b"x"), Change::Remove(3..9)] {
        let nothing = Tally { len: 3, done: 0 };
        let (tally, after) = List::changed(List::packed(&held), std::slice::from_ref(&change));
        assert_eq!((tally, after.as_deref()), (nothing, Some(&held[..])), "{change:?}");
        assert_eq!(items.apply(std::slice::from_ref(&change)), nothing, "{change:?}");
    }
    assert_eq!(List::emptied_by(&items, &[Change::Remove(0..2), Change::Set(0, b"x")]), None);
    let emptied = List::emptied_by(&items, &[Change::Remove(1..9), Change::Remove(0..1)]);
    assert_eq!(emptied, Some(Tally { len: 0, done: 3 }));
}

#[test]
fn a_change_raises_the_number_once() {
    let mut held = Vec::new();
    let changes = [
        vec![Change::Back(b"a"), Change::Front(b"b")],
        vec![Change::Set(0, b"c")],
        vec![Change::Insert(1, b"d")],
        vec![Change::Remove(0..1)],
    ];
    for (number, changes) in (1..).zip(changes) {
        held = List::changed(List::packed(&held), &changes).1.unwrap();
        assert_eq!(Head::split(&held).0.number, number);
    }
}

#[test]
fn a_list_is_packed_up_to_its_limits() {
    let options = ContainerOptions::new(true, [1, 2]);
    let list = |n: usize| {
        let changes: Vec<_> = (0..n).map(|_| Change::Back(b"element")).collect();
        List::changed(List::packed(&[]), &changes).1.unwrap()
    };
    options.list.set(3, usize::MAX);
    assert!(List::packs(&list(3), &[], &options) && !List::packs(&list(4), &[], &options));
    // As Redis counts: 6 bytes at the start, one at the end, and a second length behind each element.
    let len = 7 + 3 * (1 + 7 + 1);
    options.list.set(usize::MAX, len);
    assert!(List::packs(&list(3), &[], &options));
    options.list.set(usize::MAX, len - 1);
    assert!(!List::packs(&list(3), &[], &options));
    let grows = [Change::Back(b"x"), Change::Set(0, b"x"), Change::Remove(0..1)];
    assert_eq!(grows.map(|change| List::weigh(&change).grows), [true, true, false]);
}

#[test]
fn detached_parts_wait_to_be_freed() {
    let freed = |mut gone: hotring_containers::Remains| -> usize {
        std::iter::from_fn(|| gone.free(1)).sum()
    };
    let element = [7; 100];
    let pushes: Vec<_> = (0..10_000).map(|_| Change::Back(&element)).collect();
    let mut items = Items::default();
    items.apply(&pushes);
    let before = items.footprint();
    // The second cut comes before the first is taken away.
    items.apply(&[Change::Remove(10..4_000)]);
    items.apply(&[Change::Remove(10..4_000)]);
    assert!(items.clone().take_cut().is_none(), "a snapshot has what was cut off no more");
    let cut = freed(items.take_cut().expect("it is much"));
    assert!(cut > before / 2 && cut + items.footprint() > before * 9 / 10, "{cut} of {before}");
    assert!(items.take_cut().is_none());
    let whole = items.footprint();
    items.apply(&[Change::Remove(10..1_800)]);
    let gone = freed(items.take_remains());
    assert!(gone > whole * 7 / 10, "{gone} of {whole}");
}

#[test]
fn indexes_and_ranges_are_those_of_redis() {
    let changes: Vec<Change<'_>> = (0..3).map(|_| Change::Back(b"x")).collect();
    let held = List::changed(List::packed(&[]), &changes).1.unwrap();
    let list = List::packed(&held);
    let positions = [0, 2, 3, -1, -3, -4, i64::MAX, i64::MIN].map(|index| list.position(index));
    assert_eq!(positions, [Some(0), Some(2), None, Some(2), Some(0), None, None, None]);
    for (start, stop, range) in [
        (0, -1, 0..3),
        (-100, 100, 0..3),
        (1, 1, 1..2),
        (2, 1, 0..0),
        (3, 5, 0..0),
        (-2, -2, 1..2),
        (0, -4, 0..0),
        (i64::MIN, i64::MAX, 0..3),
        (i64::MAX, i64::MIN, 0..0),
    ] {
        assert_eq!(list.range(start, stop), range, "{start} {stop}");
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let long = [7u8; 200];
    let changes = [Change::Back(&long), Change::Back(b"de"), Change::Front(b"a")];
    let held = List::changed(List::packed(&[]), &changes).1.unwrap();
    let more =
        [Change::Remove(1..2), Change::Insert(1, b"x"), Change::Set(2, b"y"), Change::Remove(0..1)];
    let logged = List::changes_to_bytes(&more);
    for end in 0..held.len() {
        for i in 0..end {
            let mut damaged = Cow::Borrowed(&held[..end]);
            damaged.to_mut()[i] ^= 0x81;
            let list = List::packed(&damaged);
            assert!(list.iter().count() <= damaged.len());
            List::changed(list, &more);
            if let Some(byte) = damaged.to_mut().get_mut(..logged.len()) {
                byte.copy_from_slice(&logged);
                List::changes_from_bytes(&damaged);
            }
        }
    }
}
