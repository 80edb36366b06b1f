//! Sorted sets: the packed form, the large one and a change at a time say the same.

use super::interval::{Interval, MemberEnd, ScoreEnd};
use super::*;

fn set(entries: &[(&str, f64)]) -> Vec<u8> {
    let changes: Vec<_> =
        entries.iter().map(|(member, score)| Change::Put(member.as_bytes(), *score)).collect();
    SortedSet::changed(SortedSet::packed(&[]), &changes).1.unwrap()
}

fn shown(scored: ScoredRef<'_>) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    scored.each_of_all(|entry| {
        all.push((String::from_utf8_lossy(entry.member).into_owned(), entry.score));
    });
    all
}

#[test]
fn scores_come_back_and_small_ones_take_little() {
    let scores = [0.0, -0.0, 1.0, -1.0, 0.1, 1e300, 5e-324, f64::INFINITY, f64::NEG_INFINITY];
    for score in scores {
        let mut held = Vec::new();
        push_score(&mut held, score);
        let (back, rest) = split_score(&held).unwrap();
        assert_eq!((back.to_bits(), rest), (score.to_bits(), &[][..]), "{score}");
    }
    assert_eq!(set(&[("a", 100.0)]).len(), 2 + 2 + 3);
    assert!(split_score(&[8, 0x7f, 0xf8, 0, 0, 0, 0, 0, 1]).is_none(), "NaN is no score");
}

#[test]
fn one_change_acts_like_one_of_several() {
    let mut random = fastrand::Rng::with_seed(7);
    let members: Vec<Vec<u8>> = (0..12u8).map(|i| vec![b'a' + i]).collect();
    let (mut held, mut large) = (set(&[("a", 1.0)]), None);
    for _ in 0..3_000 {
        let member = &members[random.usize(..members.len())][..];
        let change = match random.u8(..8) {
            0..5 => Change::Put(member, f64::from(random.i8(-2..3))),
            5..7 => Change::Remove(member),
            _ => {
                let from = random.usize(..4);
                Change::RemoveRanks(from, from + random.usize(..3))
            }
        };
        let scored = SortedSet::packed(&held);
        let mut scores =
            large.take().unwrap_or_else(|| Scores::of(entries_of(&held), [1, 2], || ()));
        let emptied = scores.emptied_by(&[change]);
        let bytes = SortedSet::changes_to_bytes(&[change]);
        assert_eq!(SortedSet::changes_from_bytes(&bytes), Some(vec![change]));
        let (once, among) = (scored.changed_once(change), scored.changed(&[change]));
        assert_eq!(once.0, among.0, "{change:?}");
        assert_eq!(scores.apply(&[change]), once.0, "{change:?}");
        assert_eq!(emptied, once.1.is_none().then_some(once.0), "{change:?}");
        let Some(after) = once.1 else {
            held = set(&[("a", 1.0)]);
            continue;
        };
        assert_eq!(shown(SortedSet::packed(&after)), shown(SortedSet::packed(&among.1.unwrap())));
        assert_eq!(shown(SortedSet::packed(&after)), shown(SortedSet::large(&scores)));
        let packed = scores.to_packed(Head::split(&after).0.number);
        if once.0 != Tally::default() {
            assert_eq!(packed, after, "{change:?}");
        }
        assert_eq!(scores.len_of_all(), scores.len());
        (held, large) = (after, Some(scores));
    }
}

#[test]
fn a_change_raises_the_number_once_and_a_packed_zero_has_no_sign() {
    let (mut held, mut numbers) = (Vec::new(), Vec::new());
    let changes = [
        vec![Change::Put(b"a", -0.0)],
        vec![Change::Put(b"b", -0.0), Change::Put(b"c", 1.0)],
        vec![Change::Put(b"c", -0.0)],
        vec![Change::RemoveRanks(1, 2)],
        vec![Change::Remove(b"c"), Change::Remove(b"x")],
    ];
    for changes in changes {
        held = SortedSet::changed(SortedSet::packed(&held), &changes).1.unwrap();
        numbers.push(Head::split(&held).0.number);
        let is_plain = |entry: Scored<'_>| !entry.score.is_sign_negative();
        assert!(entries_of(&held).all(is_plain), "{changes:?}");
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

#[test]
fn a_sorted_set_is_packed_up_to_its_limits() {
    let options = ContainerOptions::new(true, [1, 2]);
    options.scored.set(2, 3);
    let packs = |members: &[&str]| {
        let pairs: Vec<_> = members.iter().map(|member| (*member, 1.0)).collect();
        let changes: Vec<_> =
            members.iter().map(|member| Change::Put(member.as_bytes(), 1.0)).collect();
        SortedSet::packs(&set(&pairs), &changes, &options)
    };
    assert!(packs(&["a", "b"]) && !packs(&["a", "b", "c"]));
    assert!(packs(&["abc"]) && !packs(&["abcd"]));
    let changes = [Change::Put(b"abc", 1.0), Change::Remove(b"abc"), Change::RemoveRanks(0, 9)];
    let weights = changes.map(|change| SortedSet::weigh(&change));
    let seen = weights.map(|weight| (weight.longest, weight.grows));
    assert_eq!(seen, [(3, true), (0, false), (0, false)]);
}

#[test]
fn intervals_are_ranks() {
    let held = set(&[("a", 1.0), ("b", 2.0), ("c", 2.0), ("d", 3.0)]);
    let packed = SortedSet::packed(&held);
    let scores = Scores::of(entries_of(&held), [1, 2], || ());
    let end = |score, is_exclusive| ScoreEnd { score, is_exclusive };
    for scored in [packed, SortedSet::large(&scores)] {
        let ranks = |from, to| scored.ranks(&Interval::Ranks(from, to), false);
        assert_eq!((ranks(0, -1), ranks(1, 2), ranks(-2, 9)), (0..4, 1..3, 2..4));
        assert_eq!((ranks(0, -4), ranks(-9, -4), ranks(-4, -4)), (0..1, 0..1, 0..1));
        assert!(ranks(3, 1).is_empty() && ranks(9, 12).is_empty() && ranks(0, -5).is_empty());
        assert_eq!(scored.ranks(&Interval::Ranks(0, 0), true), 3..4);
        let by = |min, max| scored.ranks(&Interval::Scores(min, max), false);
        assert_eq!(by(end(2.0, false), end(2.0, false)), 1..3);
        assert_eq!(by(end(1.0, true), end(3.0, true)), 1..3);
        assert!(by(end(2.0, true), end(2.0, false)).is_empty());
        assert!(by(end(3.0, false), end(1.0, false)).is_empty());
        assert_eq!(scored.rank(b"c"), Some((2, 2.0)));
        let mut back = Vec::new();
        scored.each(1..9, true, |entry| back.push(entry.member.to_vec()));
        assert_eq!(back, [b"d", b"c", b"b"]);
    }
    let held = set(&[("a", 0.0), ("b", 0.0), ("c", 0.0)]);
    let by = |min, max| SortedSet::packed(&held).ranks(&Interval::Members(min, max), false);
    assert_eq!(by(MemberEnd::First, MemberEnd::Last), 0..3);
    assert_eq!(by(MemberEnd::Inclusive(b"b"), MemberEnd::Inclusive(b"b")), 1..2);
    assert_eq!(by(MemberEnd::Exclusive(b"a"), MemberEnd::Exclusive(b"c")), 1..2);
    assert!(by(MemberEnd::Last, MemberEnd::First).is_empty());
}

#[test]
fn damaged_bytes_never_panic() {
    let held = set(&[("a", 1.5), ("bc", 2.0), ("d", f64::INFINITY)]);
    for end in 0..held.len() {
        for i in 0..end {
            let mut damaged = held[..end].to_vec();
            damaged[i] ^= 0x81;
            let scored = SortedSet::packed(&damaged);
            scored.changed(&[Change::Remove(b"bc"), Change::Put(b"x", 1.0)]);
            scored.changed_once(Change::Put(b"bc", 0.0));
            scored.changed_once(Change::RemoveRanks(1, 9));
            scored.rank(b"bc");
        }
    }
}

/// A cut freed all that it took away within the writer's turn, for which readers of the set wait.
#[test]
fn a_cut_frees_later_and_leaves_the_right_rest() {
    let key = |i: u32| format!("{i:06}").into_bytes();
    for (from, to) in [(0, 49_000), (1_000, 50_000), (10, 49_990), (10_000, 20_000), (5, 9)] {
        let mut scores = Scores::new([1, 2]);
        for i in 0..50_000 {
            scores.apply(&[Change::Put(&key(i), f64::from(i))]);
        }
        // A walk is under way: its nodes must stay.
        let (mut shared, walk) = (scores.clone(), scores.clone());
        let removed = Tally { removed: to - from, ..Tally::default() };
        assert_eq!(shared.apply(&[Change::RemoveRanks(from, to)]), removed);
        assert_eq!((walk.iter_from(0).count(), shared.len()), (50_000, 50_000 - (to - from)));
        drop((shared, walk));
        let tally = scores.apply(&[Change::RemoveRanks(from, to)]);
        assert_eq!(tally, removed);
        let left: Vec<u32> = (0..from as u32).chain(to as u32..50_000).collect();
        let all = shown(SortedSet::large(&scores));
        assert!(all.iter().map(|(_, score)| *score as u32).eq(left.iter().copied()));
        assert!(left.iter().all(|i| scores.score(&key(*i)) == Some(f64::from(*i))));
        assert_eq!(scores.score(&key(from as u32)), None);
        assert_eq!(scores.len_of_all(), 6 * left.len());
        assert_eq!(scores.take_cut().is_some(), to - from > 100, "{from}..{to}");
    }
}
