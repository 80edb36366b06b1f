//! Fuzzes what takes the keys of a move: parts of a walk and changes, as a hostile source sends them. Nothing panics,
//! no key changes but those of slots that are importing, and no client sees any of these.
//!
//! The input is a row of messages: a kind (even a part, odd changes), a length of two bytes, and the body.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use hotring_store::{Grounds, Importer, Options, Session, SetOptions, Standing, Store};
use libfuzzer_sys::fuzz_target;

const NOW: u64 = 1_000_000;

/// Keys of clients, of the groups 0 and 2; 1 and 3 are importing.
const OWN: [&[u8]; 2] = [b"x0", b"x2"];

fn group(key: &[u8]) -> u16 {
    key.last().map_or(0, |last| u16::from(last % 4))
}

fn set_grounds(session: &mut Session, moving: Standing) {
    session.change_grounds(|_| {
        Arc::new(Grounds::new(group, Box::new([Standing::Open, moving, Standing::Open, moving])))
    });
}

struct World {
    store: Store,
    session: Session,
}

impl World {
    fn new() -> World {
        let store = Store::new(Options::default()).expect("it fits");
        store.set_memory_max(64 << 20);
        let mut session = store.session();
        for key in OWN {
            session.set(key, key, SetOptions::default(), NOW).expect("there is room");
        }
        World { store, session }
    }

    fn take(&mut self, mut input: &[u8]) {
        set_grounds(&mut self.session, Standing::Importing);
        let mut importer = Importer::new(&self.store);
        while let [kind, low, high, rest @ ..] = input {
            let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
            let (body, behind) = rest.split_at(len);
            input = behind;
            let taken = match kind % 2 {
                0 => importer.take_part(body, NOW),
                _ => importer.take_records(body, NOW),
            };
            // The link ends with the first message that is none.
            if taken.is_err() {
                break;
            }
        }
        drop(importer);
        for key in OWN {
            let value = self.session.get(key, NOW, |value| value.to_vec());
            assert_eq!(value.as_deref(), Some(key), "a key of a client has changed");
        }
        let shown = self.session.random_key(1, NOW).expect("there are keys");
        assert!(OWN.contains(&&shown[..]), "a hidden key is shown");
        set_grounds(&mut self.session, Standing::Hidden);
        let mut cursor = 0;
        loop {
            cursor = self.session.forget_some(cursor, 64, |_| false).next;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(self.store.len(), OWN.len(), "a key of another slot has come");
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_target!(|input: &[u8]| {
    WORLD.with_borrow_mut(|world| world.get_or_insert_with(World::new).take(input));
});
