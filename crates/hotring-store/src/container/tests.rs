//! Cases that no operation can produce: containers of gigabytes, races, memory that is freed in steps.

use hotring_index::{NewValue, Object};

use super::detached::{Cut, FREE_STEP};
use super::large::{Large, new_value};
use super::write::{check, forget_version};
use super::{Contents, Parts, Type};
use crate::set::large::Members;
use crate::set::{Change, Set};
use crate::{Options, Store, StoreError};

const NOW: u64 = 1_700_000_000_000;

fn set(n: usize) -> Contents {
    let mut members = Members::new([1, 2]);
    (0..n).for_each(|i| _ = members.add(format!("{i:0100}").as_bytes()));
    Contents { number: 1, parts: Parts::Set(members) }
}

#[test]
fn a_container_that_no_record_could_hold_grows_no_more() {
    let limits = Store::new(Options::default()).expect("it fits").session().limits;
    let (add, remove) = ([Change::add(b"m")], [Change::remove(b"1")]);
    // Integers of two bytes, each of which may come to be a text of up to 21. Memory that is not written takes none.
    let mut held = vec![0; 400 << 20];
    held[..3].copy_from_slice(&[1, 1, 2]);
    let whole = |len: usize| Set::packed(&held[..len]);
    assert_eq!(check::<Set>(whole(300 << 20), &add, limits), Ok(()));
    let refused = check::<Set>(whole(held.len()), &add, limits);
    assert!(matches!(refused, Err(StoreError::ValueTooLong { .. })), "{refused:?}");
    assert_eq!(check::<Set>(whole(held.len()), &remove, limits), Ok(()));
}

#[test]
fn a_large_container_is_freed_in_steps() {
    let contents = set(50_000);
    let footprint = contents.parts.footprint();
    let mut large = Large::new(contents);
    assert_steps(std::iter::from_fn(|| large.dismantle()).collect(), footprint);
    assert_eq!(large.read(|contents| contents.parts.len_of_all()), 0);
    let mut cut = Cut(set(50_000).parts.take_remains());
    assert_steps(std::iter::from_fn(|| cut.dismantle()).collect(), footprint);
}

fn assert_steps(steps: Vec<usize>, footprint: usize) {
    let (last, others) = steps.split_last().expect("a step");
    assert!(
        others.len() > 2 && others.iter().all(|freed| (FREE_STEP..2 * FREE_STEP).contains(freed))
    );
    let freed = others.iter().sum::<usize>() + last;
    assert!((footprint * 9 / 10..=footprint).contains(&freed), "{freed} of {footprint}");
}

/// Without a log a SET does not wait for the key's order: another value may come between a change in place and this.
#[test]
fn a_value_that_came_in_between_stays() {
    let options = Options { set_packed_members_max: 2, ..Options::default() };
    let mut session = Store::new(options).expect("it fits").session();
    session.set_add(b"k", &[b"a", b"b", b"c"], NOW).expect("room");
    session.change_in_order((&b"k"[..]).into(), |write, objects| {
        let NewValue::Block { kind, block } = new_value(set(10), objects.index) else {
            panic!("it is large")
        };
        forget_version(write.index, write.key, kind, &block, NOW);
    });
    assert_eq!(session.set_members(b"k", NOW, |set| set.len()), Ok(Some(3)));
}
