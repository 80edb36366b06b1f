//! Each container against a plain one, in random steps, with snapshots that must stay as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;

use crate::{BATCH_MAX, Dict, Inserted, List, Piece, Remains, Scored, ScoredSet, Text};

/// Short strings mostly, sometimes long ones, so that leaves are full by number and by bytes.
fn text(rng: &mut Rng, longest: usize) -> Vec<u8> {
    let len = match rng.u32(..50) {
        0 => rng.usize(..longest),
        1..5 => rng.usize(..300),
        _ => rng.usize(..20),
    };
    (0..len).map(|_| rng.u8(..)).collect()
}

/// Grows and shrinks in turns: the chance of a removal in a hundred.
fn removals(step: usize, period: usize) -> u32 {
    if (step / period).is_multiple_of(2) { 10 } else { 60 }
}

fn hash_of(key: &[u8]) -> u32 {
    // FNV-1a: spreads enough for a test. Of some keys nothing but a few bits, so that hashes are equal.
    let hash =
        key.iter().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
    if key.first().is_some_and(|first| first % 16 == 0) { hash & 0x8000_0003 } else { hash }
}

#[test]
fn a_list_is_as_a_vector() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let (mut list, mut model) = (List::new(), Vec::<Vec<u8>>::new());
        let (mut snapshots, mut largest) = (Vec::new(), 0);
        for step in 0..6_000 {
            let at = rng.usize(..=model.len());
            if rng.u32(..100) < removals(step, 1500) && !model.is_empty() {
                let from = at.min(model.len() - 1);
                let n = if rng.u32(..200) == 0 { rng.usize(..model.len()) / 2 } else { 1 };
                let to = (from + n).min(model.len());
                let end = match rng.u32(..4) {
                    0 => 0..1,
                    1 => model.len() - 1..model.len(),
                    _ => from..to,
                };
                let mut gone = list.remove(end.clone());
                model.drain(end);
                while gone.free(1).is_some() {}
            } else {
                let element = text(&mut rng, 5_000);
                match rng.u32(..5) {
                    0 => {
                        list.push_front(&element);
                        model.insert(0, element);
                    }
                    1 | 2 => {
                        list.push_back(&element);
                        model.push(element);
                    }
                    3 if at < model.len() => {
                        assert!(list.set(at, &element));
                        model[at] = element;
                    }
                    _ => {
                        list.insert(at, &element);
                        model.insert(at, element);
                    }
                }
            }
            let at = at.min(model.len());
            largest = largest.max(model.len());
            assert_eq!(list.len(), model.len());
            assert_eq!(list.get(at), model.get(at).map(|e| &e[..]));
            if step % 100 == 0 {
                list.check();
                assert!(list.iter_from(0).eq(model.iter()));
                assert!(list.iter_from(at).eq(model[at..].iter()));
                assert!(list.iter_back_from(at).eq(model[..at].iter().rev()));
                snapshots.push((list.clone(), model.clone()));
            }
        }
        assert!(!list.set(model.len(), b""));
        assert!(largest > 400, "{largest}");
        for (list, model) in snapshots {
            assert!(list.iter_from(0).eq(model.iter()));
            let mut gone = list.into_remains();
            while gone.free(3).is_some() {}
        }
        list.check();
    }
}

#[test]
fn a_dictionary_is_as_a_map() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let (mut dict, mut model) = (Dict::new(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
        let (mut snapshots, mut largest) = (Vec::new(), 0);
        for step in 0..8_000 {
            let known = model.len().checked_sub(1).map(|last| {
                let entry =
                    dict.entry_of_rank(rng.usize(..=last)).expect("a rank of the dictionary");
                assert_eq!(model.get(entry.key).map(|v| &v[..]), Some(entry.value));
                entry.key.to_vec()
            });
            let key = known.filter(|_| rng.bool()).unwrap_or_else(|| text(&mut rng, 400));
            let hash = hash_of(&key);
            assert_eq!(dict.get(hash, &key), model.get(&key).map(|v| &v[..]));
            if rng.u32(..100) < removals(step, 2000) {
                assert_eq!(dict.remove(hash, &key), model.remove(&key).is_some());
                assert_eq!(dict.get(hash, &key), None);
            } else {
                let value = text(&mut rng, 5_000);
                let is_new = !model.contains_key(&key);
                match is_new && rng.bool() {
                    true => dict.insert_new(hash, &key, &value),
                    false => assert_eq!(dict.insert(hash, &key, &value), is_new),
                }
                assert_eq!(dict.get(hash, &key), Some(&value[..]));
                model.insert(key, value);
            }
            largest = largest.max(model.len());
            assert_eq!(dict.len(), model.len());
            if step % 100 == 0 {
                dict.check();
                snapshots.push((dict.clone(), model.clone()));
            }
        }
        assert!(largest > 400, "{largest}");
        assert_eq!(dict.entry_of_rank(model.len()), None);
        for (dict, model) in snapshots {
            let all: BTreeMap<_, _> =
                dict.iter().map(|e| (e.key.to_vec(), e.value.to_vec())).collect();
            assert_eq!(all, model);
            assert_eq!(dict.iter().count(), model.len());
            let mut gone = dict.into_remains();
            while gone.free(3).is_some() {}
        }
    }
}

#[test]
fn only_present_keys_are_kept() {
    let mut dict = Dict::new();
    for i in 0..2_000u32 {
        let key = i.to_le_bytes();
        dict.insert(hash_of(&key), &key, b"");
    }
    let keys: Vec<[u8; 4]> = (1_500..2_500u32).map(u32::to_le_bytes).collect();
    for keys in keys.chunks(BATCH_MAX) {
        let mut batch: Vec<(u32, &[u8])> =
            keys.iter().map(|key| (hash_of(key), &key[..])).collect();
        dict.keep_present(&mut batch);
        let present = keys.iter().filter(|key| u32::from_le_bytes(**key) < 2_000);
        assert!(batch.iter().map(|(_, key)| *key).eq(present.map(|key| &key[..])));
    }
    assert!(dict.iter_with_hashes().all(|(hash, entry)| hash == hash_of(entry.key)));
}

#[test]
fn a_scan_shows_all_permanent_keys() {
    let mut rng = Rng::with_seed(1);
    for round in 0..50 {
        let mut dict = Dict::new();
        let stays: Vec<Vec<u8>> = (0..500 * (round % 4)).map(|i| format!("s{i}").into()).collect();
        for key in &stays {
            dict.insert(hash_of(key), key, b"v");
        }
        let mut seen = BTreeMap::<Vec<u8>, usize>::new();
        let mut from = Some(0);
        let mut others = Vec::new();
        while let Some(start) = from {
            from = dict.scan(start, 10, |entry| *seen.entry(entry.key.to_vec()).or_default() += 1);
            for _ in 0..rng.usize(..60) {
                if rng.bool() {
                    let key = format!("o{}", rng.u32(..)).into_bytes();
                    dict.insert(hash_of(&key), &key, b"");
                    others.push(key);
                } else if let Some(key) = others.pop() {
                    dict.remove(hash_of(&key), &key);
                }
            }
        }
        for key in &stays {
            assert!(seen.contains_key(key), "{}", String::from_utf8_lossy(key));
        }
    }
}

#[test]
fn a_scored_set_is_as_a_sorted_vector() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let (mut set, mut model) = (ScoredSet::new(), Vec::<(f64, Vec<u8>)>::new());
        let (mut snapshots, mut largest) = (Vec::new(), 0);
        let find = |model: &Vec<(f64, Vec<u8>)>, member: &[u8]| {
            model.iter().position(|(_, other)| other == member)
        };
        for step in 0..6_000 {
            let known = (!model.is_empty()).then(|| model[rng.usize(..model.len())].1.clone());
            let member =
                known.filter(|_| rng.u32(..3) == 0).unwrap_or_else(|| text(&mut rng, 3_000));
            let hash = hash_of(&member);
            let at = find(&model, &member);
            assert_eq!(set.score(hash, &member), at.map(|at| model[at].0));
            if let Some(at) = at {
                assert_eq!(set.rank(model[at].0, &member), at);
            }
            if rng.u32(..100) < removals(step, 1500) {
                if rng.u32(..200) == 0 {
                    let from = rng.usize(..=model.len());
                    let to = (from + rng.usize(..80)).min(model.len());
                    set.remove_ranks(from..to, hash_of);
                    model.drain(from..to);
                } else {
                    assert_eq!(set.remove(hash, &member), at.map(|at| model.remove(at).0));
                }
            } else {
                let score = match rng.u32(..6) {
                    0 => f64::INFINITY,
                    1 => -0.0,
                    2 => step as f64,
                    _ => f64::from(rng.i32(-50..50)),
                };
                let old = at.map(|at| model.remove(at).0);
                assert_eq!(
                    set.insert(hash, &member, score),
                    old.map_or(Inserted::New, Inserted::Had)
                );
                let place =
                    model.partition_point(|(s, m)| *s < score || (*s == score && *m < member));
                model.insert(place, (score, member));
            }
            largest = largest.max(model.len());
            assert_eq!(set.len(), model.len());
            let score = f64::from(rng.i32(-60..60));
            let below = model.partition_point(|(s, _)| *s <= score);
            assert_eq!(set.count_before(|scored| scored.score <= score), below);
            if step % 100 == 0 {
                set.check();
                let is = |(a, b): (crate::Scored<'_>, &(f64, Vec<u8>))| {
                    a.score == b.0 && a.member == &b.1[..]
                };
                let at = rng.usize(..=model.len());
                assert_eq!(set.iter_from(at).count(), model.len() - at);
                assert!(set.iter_from(at).zip(&model[at..]).all(is));
                assert_eq!(set.iter_back_from(at).count(), at);
                assert!(set.iter_back_from(at).zip(model[..at].iter().rev()).all(is));
                snapshots.push((set.clone(), model.clone()));
            }
        }
        assert!(largest > 400, "{largest}");
        for (set, model) in snapshots {
            assert!(set.iter_from(0).map(|s| s.member).eq(model.iter().map(|(_, m)| &m[..])));
            let mut gone = set.into_remains();
            while gone.free(3).is_some() {}
        }
    }
}

#[test]
fn a_change_after_a_snapshot_copies_one_path() {
    let mut list = List::new();
    for i in 0..200_000 {
        list.push_back(format!("{i}").as_bytes());
    }
    let snapshot = list.clone();
    let before = list.footprint();
    list.set(100_000, b"other");
    assert_eq!(snapshot.get(100_000), Some(&b"100000"[..]));
    assert!(list.footprint().abs_diff(before) < 200);
    // Freed while the other lives: the shared nodes must stay.
    let mut gone = snapshot.into_remains();
    while gone.free(1).is_some() {}
    assert_eq!(list.iter_from(0).count(), 200_000);
    list.check();
}

#[test]
fn a_text_is_as_a_vector() {
    for seed in 0..8 {
        let mut rng = Rng::with_seed(seed);
        // With a base or without, of a whole number of chunks or not, and so long that there are three levels.
        let len = [0, 1, 100_000, 1 << 20][seed as usize % 4];
        let mut model: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        let base: Arc<[u8]> = model.clone().into();
        let mut text = if len == 0 { Text::new() } else { Text::over(base.clone()) };
        let mut snapshots = Vec::new();
        for step in 0..3_000 {
            let bytes = match rng.u32(..40) {
                0 => vec![rng.u8(..); rng.usize(..80_000)],
                1..4 => vec![rng.u8(..); rng.usize(..3_000)],
                _ => vec![rng.u8(..); rng.usize(1..10)],
            };
            let at = match rng.u32(..4) {
                0 => model.len(),
                1 if rng.u32(..100) == 0 => model.len() + rng.usize(..600_000),
                2 => model.len().saturating_sub(rng.usize(..50_000)),
                _ => rng.usize(..=model.len()),
            };
            text.write(at, &bytes);
            if rng.u32(..100) == 0 {
                text.grow(text.len() + rng.usize(..40_000));
            }
            model.resize(model.len().max(at + bytes.len()).max(text.len()), 0);
            model[at..at + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(text.len(), model.len());
            let at = rng.usize(..model.len() + 10);
            assert_eq!(text.byte(at), model.get(at).copied());
            let range = at..at + rng.usize(..40_000);
            let inside = range.start.min(model.len())..range.end.min(model.len());
            assert_eq!(text.copy(range), model[inside], "{seed}, step {step}");
            if step % 300 == 0 {
                text.check();
                assert!(text.copy(0..usize::MAX) == model);
                snapshots.push((text.clone(), model.clone()));
            }
        }
        text.check();
        for (text, model) in snapshots {
            text.check();
            assert!(text.copy(0..usize::MAX) == model);
            let mut gone = text.into_remains();
            while gone.free(3).is_some() {}
        }
        assert!(text.copy(0..usize::MAX) == model);
        let footprint = text.footprint();
        let (mut gone, mut freed) = (text.into_remains(), 0);
        while let Some(bytes) = gone.free(1) {
            freed += bytes;
        }
        assert_eq!(freed, footprint);
    }
}

#[test]
fn a_text_takes_memory_for_its_written_parts_and_frees_its_base() {
    let mut text = Text::<Arc<[u8]>>::new();
    text.write(512 << 20, b"x");
    assert_eq!(text.len(), (512 << 20) + 1);
    assert!(text.footprint() < 4 << 10, "{}", text.footprint());
    let pieces: Vec<_> = text.pieces(0..usize::MAX).collect();
    assert_eq!(pieces, [Piece::Zeros(512 << 20), Piece::Bytes(b"x")]);
    let mut appended = Text::<Arc<[u8]>>::new();
    let sizes = (0..16_384).map(|at| {
        appended.write(at, b"y");
        appended.footprint()
    });
    assert_eq!(sizes.collect::<BTreeSet<_>>().len(), 9, "room is doubled, from 64 bytes to 16 KiB");
    // Appended to byte by byte: no more than twice the bytes, and none for the base, which stays.
    let base: Arc<[u8]> = vec![7; 1 << 20].into();
    let mut text = Text::over(base.clone());
    (0..100_000).for_each(|_| text.write(text.len(), b"y"));
    assert!(text.footprint() < 2 * 100_000 + (32 << 10), "{}", text.footprint());
    assert!(text.base().is_some());
    // Once half of it has been written over, from behind, the base is given up, and so is its memory.
    let last = (0..64).rev().find(|i| {
        text.write(i * (16 << 10), b"z");
        text.base().is_none()
    });
    assert_eq!(last, Some(32));
    assert_eq!(Arc::strong_count(&base), 1);
    text.check();
    let copy = text.copy(0..1 << 20);
    assert!(copy.iter().enumerate().all(|(at, b)| *b == 7 || (*b == b'z' && at % (16 << 10) == 0)));
}

#[test]
fn a_write_after_a_snapshot_copies_one_chunk() {
    let mut text = Text::over(Arc::<[u8]>::from(vec![1; 4 << 20]));
    for i in 0..256 {
        text.write(i * (16 << 10), b"abc");
    }
    (0..100).for_each(|_| text.write(text.len(), b"?"));
    let (snapshot, before) = (text.clone(), text.footprint());
    text.write(1 << 20, b"xyz");
    text.write(text.len(), b"!");
    assert_eq!(text.footprint(), before, "a copy keeps the room for appends");
    assert_eq!(snapshot.copy(1 << 20..(1 << 20) + 4), b"abc\x01");
    assert_eq!(text.copy(1 << 20..(1 << 20) + 4), b"xyz\x01");
    // Freed while the other lives: the shared nodes must stay.
    let mut gone = snapshot.into_remains();
    while gone.free(1).is_some() {}
    assert_eq!(text.copy(0..4), b"abc\x01");
    text.check();
}

#[test]
fn dismantling_frees_the_entire_footprint() {
    fn freed(mut gone: Remains) -> usize {
        std::iter::from_fn(|| gone.free(1)).sum()
    }
    let mut rng = Rng::with_seed(3);
    let (mut list, mut dict, mut set) = (List::new(), Dict::new(), ScoredSet::new());
    for i in 0..20_000_u32 {
        let bytes = text(&mut rng, 5_000);
        list.insert(rng.usize(..=list.len()), &bytes);
        dict.insert(hash_of(&i.to_le_bytes()), &i.to_le_bytes(), &bytes);
        set.insert(hash_of(&i.to_le_bytes()), &i.to_le_bytes(), f64::from(rng.i32(..50)));
    }
    // A cut loses nothing but the leaves at its ends: both parts together are the whole.
    let before = list.footprint();
    let cut = freed(list.remove(100..15_000));
    assert!(cut > before / 2 && cut + list.footprint() <= before + 5_000, "{cut} of {before}");
    let footprint = list.footprint();
    assert_eq!(freed(list.into_remains()), footprint);
    let footprint = dict.footprint();
    assert_eq!(freed(dict.into_remains()), footprint);
    let footprint = set.footprint();
    assert!(footprint > 20_000 * (4 + 8 + 4 + 8), "members are in both trees: {footprint}");
    assert_eq!(freed(set.into_remains()), footprint);
}

#[test]
fn a_score_changes_its_sign_in_both_trees() {
    let mut set = ScoredSet::new();
    for score in [0.0, -0.0, 0.0] {
        set.insert(1, b"m", score);
        let listed = set.iter_from(0).next().map(|scored| scored.score.to_bits());
        assert_eq!(listed, set.score(1, b"m").map(f64::to_bits));
        assert_eq!(listed, Some(score.to_bits()));
    }
}

#[test]
fn positions_behind_the_end_are_none() {
    let (mut list, mut set) = (List::new(), ScoredSet::new());
    for i in 0..200_u8 {
        list.push_back(&[i]);
        set.insert(u32::from(i), &[i], f64::from(i));
    }
    for behind in [200, 201, 1_000] {
        assert_eq!(list.get(behind), None);
        assert!(!list.set(behind, b"x"));
        assert_eq!((list.iter_from(behind).count(), list.iter_back_from(behind).count()), (0, 200));
        assert_eq!((set.iter_from(behind).count(), set.iter_back_from(behind).count()), (0, 200));
        assert!(list.remove(behind..behind + 1).free(1).is_none());
        assert!(list.remove(5..5).free(1).is_none());
        assert!(set.remove_ranks(behind..behind + 9, |member| member[0].into()).free(1).is_none());
    }
    let gone = set.remove_ranks(190..1_000, |member| member[0].into());
    drop((gone, list.remove(190..1_000)));
    assert_eq!((list.len(), set.len()), (190, 190));
    set.check();
    list.check();
    // One leaf is left, which is the root then.
    drop((set.remove_ranks(9..1_000, |member| member[0].into()), list.remove(9..1_000)));
    set.check();
    list.check();
    drop((set.remove_ranks(0..1_000, |member| member[0].into()), list.remove(0..1_000)));
    assert!(list.is_empty() && set.is_empty());
    list.push_back(b"x");
    set.insert(1, b"x", 1.0);
    set.check();
    list.check();
    assert_eq!((list.get(0), set.rank(1.0, b"x")), (Some(&b"x"[..]), 0));
}

#[test]
fn the_rest_of_many_cuts_takes_little_memory() {
    let mut list = List::new();
    (0..20_000_u32).for_each(|i| list.push_back(&i.to_le_bytes()));
    // One element of 61 stays, and of the rest none.
    (0..300).for_each(|at| drop(list.remove(at + 1..at + 61)));
    drop(list.remove(300..20_000));
    list.check();
    let left = (0..300_u32).map(|i| (i * 61).to_le_bytes());
    assert!(list.iter_from(0).eq(left));
    assert!(list.footprint() < 10_000, "{}", list.footprint());
}

#[test]
fn keys_of_one_hash_share_a_leaf_with_no_others() {
    let mut dict = Dict::new();
    for i in 0..40_u8 {
        dict.insert(if i < 10 { 1 } else { 9 }, &[i], b"");
    }
    let mut seen = 0;
    assert_eq!(dict.scan(0, 1, |_| seen += 1), Some(9), "the leaf of hash 1 ends before 9");
    assert_eq!(seen, 10);
    assert_eq!(dict.scan(9, 1, |_| seen += 1), None);
    assert_eq!(seen, 40);
    dict.check();
}

#[test]
fn a_dictionary_retains_the_chosen_entries() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let (mut dict, mut model) = (Dict::new(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
        for _ in 0..rng.usize(..3_000) {
            let (key, value) = (text(&mut rng, 400), text(&mut rng, 3_000));
            dict.insert(hash_of(&key), &key, &value);
            model.insert(key, value);
        }
        let (snapshot, before) = (dict.clone(), model.clone());
        let parts = rng.usize(1..40);
        model.retain(|key, _| usize::from(key.last().copied().unwrap_or(7)) % parts == 0);
        let mut gone = dict.retain(|hash, entry| {
            assert_eq!(hash, hash_of(entry.key));
            model.contains_key(entry.key)
        });
        while gone.free(3).is_some() {}
        dict.check();
        for (dict, model) in [(&dict, &model), (&snapshot, &before)] {
            assert_eq!(dict.len(), model.len(), "seed {seed}");
            for (key, value) in model {
                assert_eq!(dict.get(hash_of(key), key), Some(&value[..]));
            }
        }
        // It changes as any other does.
        for i in 0..500_u32 {
            let key = i.to_le_bytes().to_vec();
            assert_eq!(dict.insert(hash_of(&key), &key, b""), model.insert(key, vec![]).is_none());
        }
        dict.check();
        assert_eq!(dict.len(), model.len());
    }
}

/// Leaves of one hash are as long as they must be, also where a set is made whole.
#[test]
fn a_scored_set_that_is_made_whole_is_as_one_that_grew() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let mut grown = ScoredSet::new();
        let names: Vec<Vec<u8>> = (0..rng.usize(..4_000)).map(|_| text(&mut rng, 3_000)).collect();
        let scored = |name: &Vec<u8>, rng: &mut Rng| {
            let score = if rng.u32(..9) == 0 { -0.0 } else { f64::from(rng.i32(-50..50)) };
            (name.clone(), score)
        };
        let mut entries: Vec<(Vec<u8>, f64)> =
            names.iter().map(|name| scored(name, &mut rng)).collect();
        let again: Vec<_> = names.iter().step_by(3).map(|name| scored(name, &mut rng)).collect();
        entries.extend(again);
        for (member, score) in &entries {
            grown.insert(hash_of(member), member, *score);
        }
        let mut members: Vec<_> = entries
            .iter()
            .map(|(member, score)| (hash_of(member), Scored { score: *score, member }))
            .collect();
        let mut made = ScoredSet::of_all(&mut members, || ());
        made.check();
        assert!(made.iter_from(0).eq(grown.iter_from(0)), "seed {seed}");
        assert!(made.iter_from(0).eq(members.iter().map(|(_, entry)| *entry)));
        assert!(made.footprint() <= grown.footprint() * 5 / 4, "seed {seed}");
        for (hash, entry) in &members {
            assert_eq!(made.score(*hash, entry.member), Some(entry.score));
        }
        // Most of it, and little of it, goes in ranks; what is left changes as any other does.
        for n in [made.len() / 2, made.len() / 40, made.len() / 3] {
            let from = rng.usize(..=made.len() - n.min(made.len()));
            let to = (from + n).min(made.len());
            let ends = grown.clone();
            let gone: Vec<_> = ends.iter_from(from).take(to - from).collect();
            made.remove_ranks(from..to, hash_of);
            for entry in gone {
                grown.remove(hash_of(entry.member), entry.member);
            }
            made.check();
            assert!(made.iter_from(0).eq(grown.iter_from(0)), "seed {seed}, {from}..{to}");
        }
        for (member, score) in entries.iter().take(300) {
            let hash = hash_of(member);
            assert_eq!(made.insert(hash, member, *score), grown.insert(hash, member, *score));
        }
        made.check();
    }
}
