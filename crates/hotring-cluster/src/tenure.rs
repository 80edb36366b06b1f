//! Since which record of its stream a shard has each of its slots. A primary keeps it and tells its replicas, so that
//! none of them reads keys that have not come yet, or are being removed.
//!
//! 1. A slot must be out of the primary's tenure before the first of its keys is forgotten.
//! 2. A slot's record must not be before the last change by which its keys came.
//! 3. A link must tell of a change before it sends any later record.
//!
//! So a replica reads a slot if the last tenure that it was told has it, and the slot's record is applied.

use std::collections::BTreeMap;

use crate::ids::Lsn;
use crate::slots::SlotSet;

/// Most records that are told apart. Slots of the oldest ones then count from the next: every replica passed both long
/// ago, or has to pass more than that.
const SINCE_MAX: usize = 64;

/// The slots of a shard, by the records from which on it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenure(BTreeMap<Lsn, SlotSet>);

impl Tenure {
    /// The tenure with these slots by their records; None if no primary could tell it.
    pub fn of(since: impl IntoIterator<Item = (Lsn, SlotSet)>) -> Option<Tenure> {
        let mut tenure = Tenure::default();
        for (lsn, slots) in since {
            let is_later = tenure.0.last_key_value().is_none_or(|(last, _)| *last < lsn);
            if !is_later || slots.is_empty() || tenure.0.len() == SINCE_MAX {
                return None;
            }
            tenure.0.insert(lsn, slots);
        }
        Some(tenure)
    }

    /// The slots by their records, the earliest first.
    pub fn since(&self) -> impl ExactSizeIterator<Item = (Lsn, &SlotSet)> {
        self.0.iter().map(|(lsn, slots)| (*lsn, slots))
    }

    /// The shard has these slots now, and the stream ends with the record `last`. Whether anything has changed.
    pub fn renew(&mut self, own: &SlotSet, last: Lsn) -> bool {
        let before = self.0.clone();
        for slots in self.0.values_mut() {
            *slots = slots.iter().filter(|slot| own.contains(*slot)).collect();
        }
        self.0.retain(|_, slots| !slots.is_empty());
        let known = self.upto(Lsn::MAX);
        let come = own.iter().filter(|slot| !known.contains(*slot));
        self.add(last, come.collect());
        while self.0.len() > SINCE_MAX
            && let Some((_, oldest)) = self.0.pop_first()
            && let Some((next, _)) = self.0.first_key_value()
        {
            self.add(*next, oldest);
        }
        self.0 != before
    }

    fn add(&mut self, since: Lsn, slots: SlotSet) {
        if !slots.is_empty() {
            let known = self.0.remove(&since).unwrap_or_default();
            self.0.insert(since, known.iter().chain(slots.iter()).collect());
        }
    }

    /// The slots whose keys a replica has once it has applied this record.
    pub fn upto(&self, applied: Lsn) -> SlotSet {
        self.0.range(..=applied).flat_map(|(_, slots)| slots.iter()).collect()
    }

    /// Whether a replica gets slots on its way from one record to the other.
    pub fn has_between(&self, from: Lsn, to: Lsn) -> bool {
        from < to && self.0.range(from + 1..=to).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(text: &str) -> SlotSet {
        text.parse().unwrap()
    }

    #[test]
    fn a_replica_has_a_slot_from_the_record_on_at_which_it_came_last() {
        let mut tenure = Tenure::default();
        assert!(tenure.renew(&slots("0-9"), 5));
        assert!(!tenure.renew(&slots("0-9"), 6), "nothing has changed");
        assert!(tenure.renew(&slots("0-3,20"), 7));
        assert_eq!((tenure.upto(4), tenure.upto(6)), (slots(""), slots("0-3")));
        assert_eq!(tenure.upto(7), slots("0-3,20"));
        assert_eq!(
            [(5, 6), (6, 7), (7, 9)].map(|(a, b)| tenure.has_between(a, b)),
            [false, true, false]
        );
        // It went and came back.
        assert!(tenure.renew(&slots("0-9"), 8));
        assert_eq!((tenure.upto(7), tenure.upto(8)), (slots("0-3"), slots("0-9")));
        assert!(tenure.renew(&slots(""), 9));
        assert_eq!(tenure, Tenure::default());
    }

    #[test]
    fn the_oldest_records_become_one() {
        let mut tenure = Tenure::default();
        for n in 0..100_u16 {
            tenure.renew(&(0..=n).collect(), n.into());
        }
        assert_eq!((tenure.since().len(), tenure.upto(99)), (SINCE_MAX, slots("0-99")));
        // Never earlier than it came.
        let early = tenure.since().flat_map(|(lsn, slots)| slots.iter().map(move |n| (lsn, n)));
        assert!(early.into_iter().all(|(lsn, slot)| lsn >= slot.into()));
        let told = tenure.since().map(|(lsn, slots)| (lsn, slots.clone()));
        assert_eq!(Tenure::of(told).as_ref(), Some(&tenure));
        assert_eq!(Tenure::of([(7, slots("1")), (7, slots("2"))]), None);
        assert_eq!(Tenure::of([(7, slots(""))]), None);
        assert_eq!(Tenure::of((0..65).map(|n| (n, slots("1")))), None);
    }
}
