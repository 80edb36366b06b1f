//! The packed form of a set.

use std::collections::BTreeSet;

use super::*;

fn add(member: &str) -> Change<'_> {
    Change::add(member.as_bytes())
}

fn remove(member: &str) -> Change<'_> {
    Change::remove(member.as_bytes())
}

fn shown(held: &[u8]) -> String {
    let text = |member: Member<'_>| String::from_utf8(member.to_vec()).unwrap();
    Set::packed(held).iter().map(text).collect::<Vec<_>>().join(" ")
}

fn changed(held: &[u8], changes: &[Change<'_>]) -> (usize, usize, Vec<u8>) {
    let (tally, after) = Set::changed(Set::packed(held), changes);
    let stays = Set::had_no_effect(tally);
    (tally.added, tally.removed, after.unwrap_or(if stays { held.to_vec() } else { Vec::new() }))
}

#[test]
fn integers_stand_in_their_order_and_grow_wider() {
    let (added, _, held) = changed(&[], &[add("5"), add("-3"), add("5")]);
    assert_eq!((added, shown(&held)), (2, "-3 5".to_string()));
    assert_eq!(held, [1, 2, 2, 0xfd, 0xff, 5, 0]);
    let (_, _, held) = changed(&held, &[add("70000")]);
    assert_eq!((held.len(), shown(&held)), (3 + 3 * 4, "-3 5 70000".to_string()));
    let (_, _, held) = changed(&held, &[add("-9223372036854775808")]);
    assert_eq!(shown(&held), "-9223372036854775808 -3 5 70000");
    assert_eq!(held.len(), 3 + 4 * 8);
    let set = Set::packed(&held);
    assert_eq!(
        (set.form(), set.len(), set.of_rank(3)),
        (SetForm::Ints, 4, Some(Member::Int(70000)))
    );
    assert!(set.contains(b"-3") && !set.contains(b"-03") && !set.contains(b"4"));
    assert_eq!(changed(&held, &[add("5"), remove("x"), remove("6")]).0, 0);
}

#[test]
fn another_member_makes_a_list_for_good() {
    let (_, _, held) = changed(&[], &[add("10"), add("-2")]);
    let (added, _, held) = changed(&held, &[add("a"), add("7"), add("10"), add("")]);
    assert_eq!((added, shown(&held)), (3, "-2 10 a 7 ".to_string()));
    let (_, removed, held) = changed(&held, &[remove("a"), remove("10"), remove("")]);
    assert_eq!((removed, shown(&held)), (3, "-2 7".to_string()));
    assert_eq!(Set::packed(&held).form(), SetForm::List);
    assert_eq!(changed(&held, &[remove("7"), remove("-2")]), (0, 2, Vec::new()));
}

#[test]
fn many_changes_act_like_few() {
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..300 {
        let (mut few, mut many, mut model) = (Vec::new(), Vec::new(), BTreeSet::new());
        for _ in 0..6 {
            let texts: Vec<(String, bool)> = (0..9 + random.usize(..20))
                .map(|_| {
                    let n = random.i32(-20..20) * [1, 3_000, 2_000_000][random.usize(..3)];
                    let letter = if random.usize(..40) < round % 4 { "x" } else { "" };
                    (format!("{letter}{n}"), random.usize(..3) > 0)
                })
                .collect();
            let change = |(text, adds): &(String, bool)| match adds {
                true => add(Box::leak(text.clone().into_boxed_str())),
                false => remove(Box::leak(text.clone().into_boxed_str())),
            };
            let changes: Vec<Change<'_>> = texts.iter().map(change).collect();
            many = changed(&many, &changes).2;
            for change in &changes {
                few = changed(&few, std::slice::from_ref(change)).2;
            }
            for (text, adds) in texts {
                if adds {
                    model.insert(text)
                } else {
                    model.remove(&text)
                };
            }
            let sorted = |held: &[u8]| {
                let text = |member: Member<'_>| String::from_utf8(member.to_vec()).unwrap();
                Set::packed(held).iter().map(text).collect::<BTreeSet<_>>()
            };
            assert_eq!(sorted(&many), model);
            assert_eq!(sorted(&few), model);
            assert_eq!(Set::packed(&many).len(), model.len());
            assert_eq!(Set::packed(&few).len(), model.len());
        }
    }
}

#[test]
fn members_stay_where_they_came() {
    let held = changed(&[], &[add("a"), add("b")]).2;
    let held = changed(&held, &["a", "c", "d", "e", "f", "g", "h", "i", "a", "b"].map(add)).2;
    assert_eq!(shown(&held), "a b c d e f g h i");
    let held = changed(&held, &[add("c"), remove("b"), add("b")]).2;
    assert_eq!(shown(&held), "a c d e f g h i b");
}

#[test]
fn a_change_raises_the_number_and_none_leaves_no_form() {
    let number = |held: &[u8]| Head::split(held).0.number;
    let first = changed(&[], &[add("1"), add("2")]).2;
    let second = changed(&first, &[remove("1")]).2;
    let third = changed(&second, &["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(add)).2;
    assert_eq!([&first, &second, &third].map(|held| number(held)), [1, 2, 3]);
    for nothing in [vec![add("2"), remove("1")], ["2"; 9].map(add).to_vec()] {
        let (tally, after) = Set::changed(Set::packed(&second), &nothing);
        assert_eq!((tally, after), (Tally::default(), None));
    }
}

#[test]
fn a_set_is_packed_up_to_its_limits() {
    let options = ContainerOptions::new(true, [1, 2]);
    options.set_ints.set(3, usize::MAX);
    options.set.set(2, 3);
    let packs = |members: &[&'static str]| {
        let changes: Vec<_> = members.iter().map(|member| add(member)).collect();
        Set::packs(&changed(&[], &changes).2, &changes, &options)
    };
    assert!(packs(&["1", "2", "3"]) && !packs(&["1", "2", "3", "4"]));
    assert!(packs(&["a", "b"]) && !packs(&["a", "b", "c"]));
    assert!(packs(&["abc"]) && !packs(&["abcd"]));
    let weights = [add("abc"), remove("abc")].map(|change| Set::weigh(&change));
    assert_eq!(weights.map(|weight| (weight.longest, weight.grows)), [(3, true), (0, false)]);
}

#[test]
fn a_large_set_knows_its_bytes_and_the_changes_that_empty_it() {
    let mut members = Members::new([1, 2]);
    members.apply(&[add("abc"), add("de"), add("abc")]);
    assert_eq!((members.len(), members.len_of_all()), (2, 5));
    members.apply(&[remove("de"), remove("x")]);
    assert_eq!((members.len(), members.len_of_all()), (1, 3));
    members.apply(&[add("de")]);
    let emptied = |changes: &[Change<'_>]| members.emptied_by(changes).map(|tally| tally.removed);
    assert_eq!(emptied(&[remove("de")]), None);
    assert_eq!(emptied(&[remove("de"), remove("x")]), None);
    assert_eq!(emptied(&[remove("de"), remove("abc")]), Some(2));
    assert_eq!(members.len(), 2, "it is only asked");
}

#[test]
fn changes_come_back_from_their_bytes() {
    let changes = [add("a"), remove("bc"), add(""), remove("")];
    let bytes = Set::changes_to_bytes(&changes);
    let back = Set::changes_from_bytes(&bytes).unwrap();
    assert_eq!(format!("{back:?}"), format!("{changes:?}"));
    assert!(Set::changes_from_bytes(&[0x09, b'a']).is_none());
}

#[test]
fn damaged_bytes_never_panic() {
    let ints = changed(&[], &[add("1"), add("-70000"), add("9")]).2;
    let list = changed(&[], &[add("abc"), add("-70000"), add("9")]).2;
    for held in [ints, list] {
        for end in 0..=held.len() {
            for i in 0..end {
                for flip in [0x81, 0x02, 0x0c, 0xff] {
                    let mut damaged = held[..end].to_vec();
                    damaged[i] ^= flip;
                    let set = Set::packed(&damaged);
                    assert!(set.count() <= damaged.len());
                    set.contains(b"9");
                    set.of_rank(set.count());
                    for change in [add("9"), add("x"), remove("9"), remove("abc")] {
                        Set::changed(set, &[change]);
                    }
                    let many: Vec<_> = (0..20).map(|_| add("77")).collect();
                    Set::changed(set, &many);
                }
            }
        }
    }
}

/// SPOP of half a million members took an edit of the tree for each, while all other clients of the thread waited.
#[test]
fn many_members_go_in_one_walk_and_are_freed_later() {
    let key = |i: u32| i.to_string().into_bytes();
    let mut members = Members::new([1, 2]);
    (0..20_000).for_each(|i| _ = members.add(&key(i)));
    for (n, is_cut) in [(20, false), (5_000, true), (9_000, true)] {
        let before = members.len();
        // One is named twice, and one is not there.
        let names = members.iter().step_by(before / n).chain(members.iter().take(1));
        let mut gone: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        let removed = gone.len() - 1;
        gone.push(key(30_000));
        let changes: Vec<_> = gone.iter().map(|name| Change::remove(name)).collect();
        // A walk is under way: what it uses stays.
        let (mut shared, walk) = (members.clone(), members.clone());
        assert_eq!(shared.apply(&changes), Tally { added: 0, removed });
        assert_eq!((walk.iter().count(), shared.len()), (before, before - removed));
        drop((shared, walk));
        assert_eq!(members.apply(&changes), Tally { added: 0, removed });
        assert_eq!(members.len(), before - removed);
        assert!(gone.iter().all(|name| !members.contains(name)));
        assert!(members.iter().all(|name| members.contains(name)));
        assert_eq!(members.len_of_all(), members.iter().map(<[u8]>::len).sum::<usize>());
        assert_eq!(members.take_cut().is_some(), is_cut, "{n}");
        assert!(members.add(&gone[0]), "it is as any other set");
    }
}
