//! The bytes of the messages between the source and the target of a move. `docs/design/move-wire.md` describes them.
//! Integers are little-endian.

use hotring_cluster::Epoch;
use hotring_cluster::moves::{Attempt, ToSource, ToTarget};

use crate::state::replication::codec::{In, Out};

fn begin(kind: u8, attempt: Attempt) -> Out {
    Out::default().byte(kind).longs([attempt.epoch.0, attempt.number.into()])
}

fn attempt(input: &mut In<'_>) -> Option<Attempt> {
    let (epoch, number) = (Epoch(input.long()?), input.long()?);
    Some(Attempt { epoch, number: number.try_into().ok()? })
}

/// The bytes of a message to the target.
pub fn to_target_bytes(message: ToTarget) -> Vec<u8> {
    match message {
        ToTarget::Open(attempt) => begin(1, attempt).0,
        ToTarget::Mark(attempt, last) => begin(2, attempt).longs([last]).0,
        ToTarget::Committed(attempt) => begin(3, attempt).0,
        ToTarget::Abort(attempt) => begin(4, attempt).0,
        ToTarget::Sync(attempt) => begin(5, attempt).0,
    }
}

/// Reads a message to the target.
pub fn to_target_of(bytes: &[u8]) -> Option<ToTarget> {
    let (kind, rest) = bytes.split_first()?;
    let mut input = In(rest);
    let attempt = attempt(&mut input)?;
    let message = match kind {
        1 => ToTarget::Open(attempt),
        2 => ToTarget::Mark(attempt, input.long()?),
        3 => ToTarget::Committed(attempt),
        4 => ToTarget::Abort(attempt),
        5 => ToTarget::Sync(attempt),
        _ => return None,
    };
    input.end(message)
}

/// The bytes of a message to the source.
pub fn to_source_bytes(message: ToSource) -> Vec<u8> {
    match message {
        ToSource::Opened(attempt, epoch) => begin(1, attempt).longs([epoch.0]).0,
        ToSource::NotReady(attempt) => begin(2, attempt).0,
        ToSource::Has(attempt, upto) => begin(3, attempt).longs([upto]).0,
        ToSource::Synced(attempt) => begin(4, attempt).0,
    }
}

/// Reads a message to the source.
pub fn to_source_of(bytes: &[u8]) -> Option<ToSource> {
    let (kind, rest) = bytes.split_first()?;
    let mut input = In(rest);
    let attempt = attempt(&mut input)?;
    let message = match kind {
        1 => ToSource::Opened(attempt, Epoch(input.long()?)),
        2 => ToSource::NotReady(attempt),
        3 => ToSource::Has(attempt, input.long()?),
        4 => ToSource::Synced(attempt),
        _ => return None,
    };
    input.end(message)
}

#[cfg(test)]
mod tests {
    use hotring_log::wire::WIRE_VERSION;
    use sha1::{Digest, Sha1};

    use super::*;

    const ATTEMPT: Attempt = Attempt { epoch: Epoch(3), number: 7 };

    fn to_targets() -> [ToTarget; 5] {
        [
            ToTarget::Open(ATTEMPT),
            ToTarget::Mark(ATTEMPT, 9),
            ToTarget::Committed(ATTEMPT),
            ToTarget::Abort(Attempt { number: u32::MAX, ..ATTEMPT }),
            ToTarget::Sync(ATTEMPT),
        ]
    }

    fn to_sources() -> [ToSource; 4] {
        [
            ToSource::Opened(ATTEMPT, Epoch(8)),
            ToSource::NotReady(ATTEMPT),
            ToSource::Has(ATTEMPT, 5),
            ToSource::Synced(ATTEMPT),
        ]
    }

    #[test]
    fn messages_are_read_as_written_and_neither_shorter_nor_longer() {
        fn check<M: Copy + PartialEq + std::fmt::Debug>(
            message: M,
            write: fn(M) -> Vec<u8>,
            read: fn(&[u8]) -> Option<M>,
        ) {
            let mut bytes = write(message);
            assert_eq!(read(&bytes), Some(message));
            assert!((0..bytes.len()).all(|len| read(&bytes[..len]).is_none()), "{message:?}");
            // Most changed bytes are other messages.
            for (at, bits) in (0..bytes.len()).flat_map(|at| (1..=u8::MAX).map(move |b| (at, b))) {
                let mut changed = bytes.clone();
                changed[at] ^= bits;
                if let Some(other) = read(&changed) {
                    assert_eq!(write(other), changed, "{message:?}");
                }
            }
            bytes.push(0);
            assert_eq!(read(&bytes), None, "{message:?}");
        }
        to_targets().into_iter().for_each(|sent| check(sent, to_target_bytes, to_target_of));
        to_sources().into_iter().for_each(|sent| check(sent, to_source_bytes, to_source_of));
        let mut huge = to_target_bytes(ToTarget::Open(ATTEMPT));
        huge[13] = 1;
        assert_eq!(to_target_of(&huge), None, "an attempt with a number above all");
    }

    /// The bytes may change only with the version, or peers take them for something else. Then both must change here.
    #[test]
    fn the_bytes_of_messages_are_those_of_the_version() {
        let down = to_targets().into_iter().flat_map(to_target_bytes);
        let up = to_sources().into_iter().flat_map(to_source_bytes);
        let digest = Sha1::digest(down.chain(up).collect::<Vec<u8>>());
        assert_eq!(
            (WIRE_VERSION, format!("{digest:x}")),
            (5, "c2f0d8866fb182638b74f42adc84fbb4b2747c2c".to_string())
        );
    }
}
