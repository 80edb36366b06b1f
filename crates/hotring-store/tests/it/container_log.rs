//! Changes of containers in the log: each has the next number, and is done once, wherever replay meets it.

use hotring_log::Effect;
use hotring_log::storage::Memory;
use hotring_store::{End, Fault, Options, Session, Store};

use super::logged::{Logged, NOW, read};

/// Up to this many elements a list is packed in the log that is written.
const PACKED_MAX: usize = 3;

fn options(packed: usize) -> Options {
    Options { list_packed_elements_max: packed, ..Options::default() }
}

fn list(session: &mut Session) -> String {
    let mut all = Vec::new();
    session.list_walk(b"l", NOW, |list| list.iter().for_each(|e| all.extend(e))).expect("a list");
    String::from_utf8(all).expect("letters")
}

/// The log's records of a list to which letters are pushed one by one.
struct Written {
    first: (u8, Vec<u8>),
    /// The numbers and the bytes of the changes.
    changes: Vec<(u64, Vec<u8>)>,
}

impl Written {
    fn of(letters: &str) -> Written {
        let storage = Memory::new();
        let logged = Logged::new(options(PACKED_MAX), Fault::None, &storage);
        let mut session = logged.store.session();
        for letter in letters.bytes() {
            session.list_push(b"l", End::Back, &[&[letter]], false, NOW).expect("room");
        }
        drop(session);
        logged.end();
        let (mut first, mut changes) = (None, Vec::new());
        read(&storage, |_, effects| {
            for effect in effects {
                match *effect {
                    Effect::Put { form, value, .. } => first = Some((form, value.to_vec())),
                    Effect::Change { number, change, .. } => {
                        changes.push((number, change.to_vec()))
                    }
                    _ => {}
                }
            }
        });
        Written { first: first.expect("it was created"), changes }
    }

    fn begin(&self, packed: usize) -> Session {
        let mut session = Store::new(options(packed)).expect("it fits").session();
        let (form, value) = (self.first.0, &self.first.1);
        replay(&mut session, &Effect::Put { key: b"l", form, expire_at: None, value });
        session
    }
}

fn replay(session: &mut Session, effect: &Effect<'_>) {
    session.replay(effect, NOW).expect("a known form");
}

fn replay_change(session: &mut Session, number: u64, change: &[u8]) {
    replay(session, &Effect::Change { key: b"l", number, change });
}

/// While it is packed, when it becomes large, and in place.
#[test]
fn each_change_has_the_next_number() {
    let numbers: Vec<u64> =
        Written::of("abcdef").changes.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [2, 3, 4, 5, 6]);
}

#[test]
fn a_change_that_was_done_is_not_done_again() {
    let written = Written::of("abcdef");
    // Packed, large from the first change on, and large after some.
    for packed in [100, 1, PACKED_MAX] {
        let mut session = written.begin(packed);
        for (i, (number, change)) in written.changes.iter().enumerate() {
            for _ in 0..2 {
                replay_change(&mut session, *number, change);
                assert_eq!(list(&mut session), "abcdef"[..i + 2], "up to {packed} packed");
            }
        }
    }
}

/// A record that meets a younger container than its own gives it its number: those before it are not done then.
#[test]
fn a_change_raises_the_number_to_its_own() {
    let written = Written::of("abc");
    let [(_, b), (_, c)] = &written.changes[..] else { panic!("two changes") };
    for packed in [100, 1] {
        let mut session = written.begin(packed);
        // The first one makes it large.
        replay_change(&mut session, 2, b);
        replay_change(&mut session, 9, c);
        for number in [3, 8, 9] {
            replay_change(&mut session, number, b);
        }
        assert_eq!(list(&mut session), "abc", "up to {packed} packed");
        replay_change(&mut session, 10, b);
        assert_eq!(list(&mut session), "abcb", "up to {packed} packed");
    }
}
