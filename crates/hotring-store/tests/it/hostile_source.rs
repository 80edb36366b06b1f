//! An import from a source that sends nonsense: messages of a move's link that are cut short or changed.

use hotring_log::Selection;
use hotring_store::{Importer, Options, Session, SetOptions, Standing, Store};

use super::logged::NOW;
use super::moving::{forget_all, moves, send, set_grounds};

/// The same bytes cut short anywhere, and with each byte changed.
fn garbled(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let cut = (0..bytes.len()).map(|len| bytes[..len].to_vec());
    let changed = (0..bytes.len()).flat_map(move |at| {
        [0x01, 0x80, 0xff].map(|bits| {
            let mut changed = bytes.to_vec();
            changed[at] ^= bits;
            changed
        })
    });
    cut.chain(changed)
}

/// Whether a key has the value that it had before the import.
fn is_own(session: &mut Session, key: &str) -> bool {
    session.get(key.as_bytes(), NOW, |value| value.to_vec()).as_deref() == Some(b"own")
}

/// Nothing panics, a length that a message claims takes no memory, and no key changes that is not importing.
#[test]
fn a_message_that_is_cut_short_or_changed_harms_no_other_key() {
    let (_source, sent) = send(&Options::default(), 7, 40);
    let mut selection = Selection::new(0);
    selection.take(&sent.stream, moves).expect("it is the stream");
    let records = selection.drain();
    let part = sent.parts.iter().map(|(_, part)| part).max_by_key(|part| part.len());
    let part = part.expect("there are keys");
    let store = Store::new(Options::default()).expect("it fits");
    set_grounds(&store, Standing::Importing, Standing::Open);
    let mut session = store.session();
    let others = (0..50).map(|n| format!("key {n}")).filter(|key| !moves(key.as_bytes()));
    let others: Vec<String> = others.collect();
    for key in &others {
        session.set(key.as_bytes(), b"own", SetOptions::default(), NOW).expect("room");
    }
    let mut taken = 0;
    for (is_part, message) in [(true, part), (false, &records)] {
        let message = &message[..message.len().min(2000)];
        for bytes in garbled(message) {
            let before = store.stats().index.used_bytes();
            let mut importer = Importer::new(&store);
            let result = match is_part {
                true => importer.take_part(&bytes, NOW),
                false => importer.take_records(&bytes, NOW),
            };
            taken += usize::from(result.is_ok());
            drop(importer);
            let grown = store.stats().index.used_bytes().saturating_sub(before);
            assert!(grown <= 8 << 20, "{grown} bytes for {} of a message", bytes.len());
            let sample = &others[bytes.len() % others.len()];
            assert!(is_own(&mut session, sample), "{sample}");
        }
    }
    assert!(taken > 0, "some are messages all the same");
    for key in &others {
        assert!(is_own(&mut session, key), "{key}");
    }
    set_grounds(&store, Standing::Hidden, Standing::Open);
    forget_all(&store);
    assert_eq!(store.len(), others.len(), "what came was of slots that are importing");
}
