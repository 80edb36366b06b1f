//! The bytes of the messages between the machines of a primary and of a replica, and of the record that holds the
//! epochs. `docs/design/replication-wire.md` describes them. Integers are little-endian.

use std::time::Duration;

use hotring_cluster::{
    ABOVE_MAX, Ack, Answer, Beat, Course, Epoch, Handover, Hello, History, Identity, Incarnation,
    NodeId, Positions, SLOTS, Slot, SlotSet, Stamp, Start, StoreId, Tenure, ToPrimary, ToReplica,
    Told,
};

/// Most nodes in the set that a handover names.
const SET_MAX: u64 = 1024;

/// Writes a message.
#[derive(Default)]
pub(in crate::state) struct Out(pub(in crate::state) Vec<u8>);

impl Out {
    fn bytes(mut self, bytes: &[u8]) -> Out {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(in crate::state) fn byte(self, byte: u8) -> Out {
        self.bytes(&[byte])
    }

    fn flag(self, flag: bool) -> Out {
        self.byte(flag.into())
    }

    fn long(self, number: u64) -> Out {
        self.bytes(&number.to_le_bytes())
    }

    pub(in crate::state) fn longs<const N: usize>(self, numbers: [u64; N]) -> Out {
        numbers.into_iter().fold(self, Out::long)
    }

    fn stamp(self, stamp: Stamp) -> Out {
        self.longs([stamp.epoch.0, stamp.start.0, stamp.session])
    }

    fn starts(self, starts: &[Incarnation]) -> Out {
        let out = self.long(starts.len() as u64);
        starts.iter().fold(out, |out, start| out.long(start.0))
    }

    fn history(self, history: &History) -> Out {
        let out = self.long(history.starts().len() as u64);
        history.starts().iter().fold(out, |out, start| {
            let out = out.long(start.epoch.0).bytes(&start.node.0);
            out.longs([start.incarnation.0, start.first])
        })
    }
}

/// Reads a message. Each method returns None if the bytes do not fit.
pub(in crate::state) struct In<'a>(pub(in crate::state) &'a [u8]);

impl<'a> In<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(in crate::state) fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn node(&mut self) -> Option<NodeId> {
        self.take().map(NodeId)
    }

    fn stamp(&mut self) -> Option<Stamp> {
        let (epoch, start) = (Epoch(self.long()?), Incarnation(self.long()?));
        Some(Stamp { epoch, start, session: self.long()? })
    }

    fn starts(&mut self) -> Option<Vec<Incarnation>> {
        let count = self.long().filter(|count| *count < ABOVE_MAX as u64)?;
        (0..count).map(|_| self.long().map(Incarnation)).collect()
    }

    fn history(&mut self) -> Option<History> {
        let count = self.long().filter(|count| *count <= History::LENGTH_MAX as u64)?;
        let mut starts = Vec::new();
        for _ in 0..count {
            let (epoch, node) = (Epoch(self.long()?), self.node()?);
            let (incarnation, first) = (Incarnation(self.long()?), self.long()?);
            starts.push(Start { epoch, node, incarnation, first });
        }
        History::of(&starts).ok()
    }

    /// The value, if nothing is left.
    pub(in crate::state) fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// The content of the record that states a store and its epochs.
pub fn epochs_to_bytes(store: StoreId, history: &History) -> Vec<u8> {
    Out::default().bytes(&store).history(history).0
}

/// The store and its epochs; None if the bytes are not the content of such a record.
pub fn epochs_of(bytes: &[u8]) -> Option<(StoreId, History)> {
    let mut input = In(bytes);
    let epochs = (input.take()?, input.history()?);
    input.end(epochs)
}

/// The bytes that name keys, each with the ID of its database.
pub fn keys_to_bytes<'k>(keys: impl IntoIterator<Item = (u8, &'k [u8])>) -> Vec<u8> {
    let add = |out: Out, (database_id, key): (u8, &[u8])| {
        out.byte(database_id).bytes(&(key.len() as u32).to_le_bytes()).bytes(key)
    };
    keys.into_iter().fold(Out::default(), add).0
}

/// The keys that such bytes name.
pub fn keys_of(bytes: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (mut input, mut keys) = (In(bytes), Vec::new());
    while !input.0.is_empty() {
        let (database_id, len) = (input.byte()?, u32::from_le_bytes(input.take()?));
        let (key, rest) = input.0.split_at_checked(len as usize)?;
        keys.push((database_id, key));
        input.0 = rest;
    }
    Some(keys)
}

/// The bytes that say since which record a shard has each slot.
pub fn tenure_to_bytes(tenure: &Tenure) -> Vec<u8> {
    let since = tenure.since();
    let out = Out::default().long(since.len() as u64);
    let range = |out: Out, (first, last): &(Slot, Slot)| {
        out.bytes(&first.to_le_bytes()).bytes(&last.to_le_bytes())
    };
    let add = |out: Out, (lsn, slots): (u64, &SlotSet)| {
        let out = out.longs([lsn, slots.ranges().len() as u64]);
        slots.ranges().iter().fold(out, range)
    };
    since.fold(out, add).0
}

/// Reads such bytes.
pub fn tenure_of(bytes: &[u8]) -> Option<Tenure> {
    let mut input = In(bytes);
    let mut since = Vec::new();
    for _ in 0..input.long()? {
        let (lsn, count) = (input.long()?, input.long()?);
        let (mut slots, mut next) = (Vec::new(), 0);
        for _ in 0..count {
            let [first, last] = [(); 2].map(|()| input.take().map(Slot::from_le_bytes));
            let (first, last) = (first?, last?);
            if !(next..=last).contains(&first) || last >= SLOTS {
                return None;
            }
            slots.extend(first..=last);
            next = last + 1;
        }
        since.push((lsn, slots.into_iter().collect()));
    }
    let tenure = Tenure::of(since)?;
    input.end(tenure)
}

/// The bytes of a message from a replica.
pub fn to_primary_bytes(message: &ToPrimary) -> Vec<u8> {
    let out = Out::default();
    match message {
        ToPrimary::Hello(hello) => {
            let out = out.byte(1).bytes(&hello.from.node.0);
            let out = out.longs([hello.from.incarnation.0, hello.attempt]).bytes(&hello.store);
            let out = out.longs([hello.last, hello.floor]);
            let out = out.flag(hello.whole).flag(hello.adopt);
            let out = out.flag(hello.not_ready.is_some());
            let out = out.long(hello.not_ready.map_or(0, |incarnation| incarnation.0));
            out.history(&hello.history).0
        }
        ToPrimary::Ack(ack) => {
            let Positions { applied, written, synced } = ack.positions;
            let out = out.byte(2).stamp(ack.stamp);
            let out = out.longs([ack.beat, applied, written, synced]);
            out.flag(ack.whole).flag(ack.is_full).0
        }
        ToPrimary::Declined(stamp, beat) => out.byte(3).stamp(*stamp).long(*beat).0,
        ToPrimary::Fenced { epoch, leads } => out.byte(4).long(epoch.0).flag(*leads).0,
    }
}

/// Reads a message from a replica.
pub fn to_primary_of(bytes: &[u8]) -> Option<ToPrimary> {
    let (kind, rest) = bytes.split_first()?;
    let mut input = In(rest);
    let message = match kind {
        1 => {
            let from = Identity { node: input.node()?, incarnation: Incarnation(input.long()?) };
            let (attempt, store) = (input.long()?, input.take()?);
            let (last, floor) = (input.long()?, input.long()?);
            let (whole, adopt) = (input.flag()?, input.flag()?);
            let (is_not_ready, incarnation) = (input.flag()?, Incarnation(input.long()?));
            let not_ready = is_not_ready.then_some(incarnation);
            let history = input.history()?;
            let hello =
                Hello { from, attempt, store, history, last, floor, whole, adopt, not_ready };
            ToPrimary::Hello(hello)
        }
        2 => {
            let (stamp, beat) = (input.stamp()?, input.long()?);
            let (applied, written, synced) = (input.long()?, input.long()?, input.long()?);
            let positions = Positions { applied, written, synced };
            let (whole, is_full) = (input.flag()?, input.flag()?);
            ToPrimary::Ack(Ack { stamp, beat, positions, whole, is_full })
        }
        3 => ToPrimary::Declined(input.stamp()?, input.long()?),
        4 => ToPrimary::Fenced { epoch: Epoch(input.long()?), leads: input.flag()? },
        _ => return None,
    };
    input.end(message)
}

/// The bytes of a message from a primary.
pub fn to_replica_bytes(message: &ToReplica) -> Vec<u8> {
    let out = Out::default();
    match message {
        ToReplica::Answer(answer) => {
            let out = out.byte(1).longs([answer.to.0, answer.attempt]).bytes(&answer.from.0);
            let out = out.stamp(answer.stamp).bytes(&answer.store);
            let out = match answer.course {
                Course::Continue(after) => out.byte(0).long(after),
                Course::Repair(after) => out.byte(1).long(after),
                Course::FullCopy => out.byte(2).long(0),
            };
            let out = out.flag(answer.leads).starts(&answer.above);
            out.history(&answer.history).0
        }
        ToReplica::NotReady(incarnation) => out.byte(2).long(incarnation.0).0,
        ToReplica::Beat(beat) => {
            let lease = beat.lease.as_millis() as u64;
            let out = out.byte(3).stamp(beat.stamp).longs([beat.number, lease, beat.committed]);
            let out = out.flag(beat.member).flag(beat.caught_up);
            out.longs([beat.told.wall, beat.told.cas]).0
        }
        ToReplica::Handover(handover) => {
            let out = out.byte(4).stamp(handover.stamp);
            let out = out.longs([handover.after_beat, handover.last]).flag(handover.force);
            let out = out.long(handover.set.len() as u64);
            handover.set.iter().fold(out, |out, node| out.bytes(&node.0)).0
        }
    }
}

/// Reads a message from a primary.
pub fn to_replica_of(bytes: &[u8]) -> Option<ToReplica> {
    let (kind, rest) = bytes.split_first()?;
    let mut input = In(rest);
    let message = match kind {
        1 => {
            let (to, attempt) = (Incarnation(input.long()?), input.long()?);
            let (from, stamp, store) = (input.node()?, input.stamp()?, input.take()?);
            let course = match (input.byte()?, input.long()?) {
                (0, after) => Course::Continue(after),
                (1, after) => Course::Repair(after),
                (2, 0) => Course::FullCopy,
                _ => return None,
            };
            let (leads, above, history) = (input.flag()?, input.starts()?, input.history()?);
            ToReplica::Answer(Answer {
                to,
                attempt,
                from,
                stamp,
                store,
                history,
                leads,
                above,
                course,
            })
        }
        2 => ToReplica::NotReady(Incarnation(input.long()?)),
        3 => {
            let (stamp, number) = (input.stamp()?, input.long()?);
            let lease = Duration::from_millis(input.long()?);
            let committed = input.long()?;
            let (member, caught_up) = (input.flag()?, input.flag()?);
            let told = Told { wall: input.long()?, cas: input.long()? };
            ToReplica::Beat(Beat { stamp, number, lease, committed, member, caught_up, told })
        }
        4 => {
            let stamp = input.stamp()?;
            let (after_beat, last, force) = (input.long()?, input.long()?, input.flag()?);
            let count = input.long().filter(|count| *count <= SET_MAX)?;
            let set = (0..count).map(|_| input.node()).collect::<Option<_>>()?;
            ToReplica::Handover(Handover { stamp, after_beat, last, set, force })
        }
        _ => return None,
    };
    input.end(message)
}

#[cfg(test)]
mod tests {
    use hotring_log::wire::WIRE_VERSION;
    use sha1::{Digest, Sha1};

    use super::*;

    fn history() -> History {
        let start = |n: u64| Start {
            epoch: Epoch(n),
            node: NodeId([n as u8; 20]),
            incarnation: Incarnation(n * 7),
            first: n * 100,
        };
        History::of(&[start(1), start(2), start(9)]).unwrap()
    }

    const STAMP: Stamp = Stamp { epoch: Epoch(3), start: Incarnation(8), session: 4 };

    fn from_replicas() -> Vec<ToPrimary> {
        let from = Identity { node: NodeId([1; 20]), incarnation: Incarnation(2) };
        let hello = Hello {
            from,
            attempt: 3,
            store: [4; 16],
            history: history(),
            last: 5,
            floor: 6,
            whole: true,
            adopt: false,
            not_ready: Some(Incarnation(77)),
        };
        let positions = Positions { applied: 1, written: 2, synced: 3 };
        vec![
            ToPrimary::Hello(hello),
            ToPrimary::Ack(Ack { stamp: STAMP, beat: 5, positions, whole: true, is_full: false }),
            ToPrimary::Declined(STAMP, 7),
            ToPrimary::Fenced { epoch: Epoch(8), leads: true },
        ]
    }

    #[test]
    fn keys_are_read_as_named() {
        let keys = [(0, &b"a"[..]), (0, b""), (255, &[7; 300])];
        let bytes = keys_to_bytes(keys);
        assert_eq!(keys_of(&bytes).as_deref(), Some(&keys[..]));
        for len in 0..bytes.len() {
            let read = keys_of(&bytes[..len]);
            assert!(read.is_none_or(|read| read[..] == keys[..read.len()]), "{len} bytes");
        }
        assert_eq!(keys_of(&[1, 0xff, 0xff, 0xff, 0xff, 0]), None);
    }

    fn from_primaries() -> Vec<ToReplica> {
        let answer = |course| {
            ToReplica::Answer(Answer {
                to: Incarnation(1),
                attempt: 2,
                from: NodeId([3; 20]),
                stamp: STAMP,
                store: [5; 16],
                history: history(),
                leads: false,
                above: vec![Incarnation(6), Incarnation(7)],
                course,
            })
        };
        let beat = Beat {
            stamp: STAMP,
            number: 1,
            lease: Duration::from_millis(1234),
            committed: 2,
            member: true,
            caught_up: false,
            told: Told { wall: 3, cas: 4 },
        };
        let set = vec![NodeId([1; 20]), NodeId([2; 20])];
        vec![
            answer(Course::Continue(7)),
            answer(Course::Repair(8)),
            answer(Course::FullCopy),
            ToReplica::NotReady(Incarnation(9)),
            ToReplica::Beat(beat),
            ToReplica::Handover(Handover {
                stamp: STAMP,
                after_beat: 1,
                last: 2,
                set,
                force: true,
            }),
        ]
    }

    #[test]
    fn messages_are_read_as_written_and_neither_shorter_nor_longer() {
        for message in from_replicas() {
            let mut bytes = to_primary_bytes(&message);
            assert_eq!(to_primary_of(&bytes), Some(message.clone()));
            assert!(
                (0..bytes.len()).all(|len| to_primary_of(&bytes[..len]).is_none()),
                "{message:?}"
            );
            bytes.push(0);
            assert_eq!(to_primary_of(&bytes), None, "{message:?}");
        }
        for message in from_primaries() {
            let mut bytes = to_replica_bytes(&message);
            assert_eq!(to_replica_of(&bytes), Some(message.clone()));
            assert!(
                (0..bytes.len()).all(|len| to_replica_of(&bytes[..len]).is_none()),
                "{message:?}"
            );
            bytes.push(0);
            assert_eq!(to_replica_of(&bytes), None, "{message:?}");
        }
        let bytes = epochs_to_bytes([7; 16], &history());
        assert_eq!(epochs_of(&bytes), Some(([7; 16], history())));
        assert_eq!(epochs_of(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn a_tenure_is_read_as_written() {
        let slots = |text: &str| text.parse::<SlotSet>().unwrap();
        let tenure = Tenure::of([(5, slots("0-9,12,16383")), (7, slots("10"))]).unwrap();
        let bytes = tenure_to_bytes(&tenure);
        assert_eq!(tenure_of(&bytes), Some(tenure));
        assert!((0..bytes.len()).all(|len| tenure_of(&bytes[..len]).is_none()));
        // The first range of the first record.
        for (first, last) in [(9_u16, 0_u16), (13, 14), (0, 16_384)] {
            let mut wrong = bytes.clone();
            wrong[24..28].copy_from_slice(&[first.to_le_bytes(), last.to_le_bytes()].concat());
            assert_eq!(tenure_of(&wrong), None, "{first} to {last}");
        }
    }

    /// The bytes may change only with the version, or peers take them for something else. Then both must change here.
    #[test]
    fn the_bytes_of_messages_are_those_of_the_version() {
        let all: Vec<u8> = from_replicas().iter().flat_map(to_primary_bytes).collect();
        let others = from_primaries();
        let all = all.into_iter().chain(others.iter().flat_map(to_replica_bytes));
        let digest = Sha1::digest(all.collect::<Vec<u8>>());
        assert_eq!(
            (WIRE_VERSION, format!("{digest:x}")),
            (5, "c275d9b6d9b0409f8b6e875665326ac8ad761f32".to_string())
        );
    }

    /// The bytes of messages had changed, and the inputs with which fuzzing begins had not: nearly all that it tried
    /// was refused as nonsense.
    #[test]
    fn fuzzing_begins_with_messages() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/link");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let input = std::fs::read(&path).unwrap();
            let (who, mut frames) = input.split_first().unwrap();
            while let [kind, options, low, high, rest @ ..] = frames {
                let (body, rest) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])));
                frames = rest;
                let is_message = match who & 1 {
                    0 => to_replica_of(body).is_some(),
                    _ => to_primary_of(body).is_some(),
                };
                let is_meant_as_one = *kind == 0 && options & 1 == 0;
                assert!(is_message || !is_meant_as_one, "{}", path.display());
            }
        }
    }

    /// A peer that names a huge number of epochs or nodes must not make this allocate.
    #[test]
    fn bytes_of_a_hostile_peer_are_no_message() {
        let mut random = fastrand::Rng::with_seed(7);
        let all: Vec<_> = from_primaries().iter().map(to_replica_bytes).collect();
        let others = from_replicas();
        let all: Vec<_> = all.into_iter().chain(others.iter().map(to_primary_bytes)).collect();
        for _ in 0..100_000 {
            let mut bytes = all[random.usize(..all.len())].clone();
            for _ in 0..random.usize(1..5) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            let _ = (to_primary_of(&bytes), to_replica_of(&bytes), epochs_of(&bytes));
        }
    }
}
