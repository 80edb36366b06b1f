//! Storing complete values of any type: a single-key write.

use std::borrow::Cow;

use hotring_containers::Scored;
use hotring_index::{Action, Expiry, NewValue};

use crate::container::large::{new_value, value_of};
use crate::container::write::{check, check_len};
use crate::container::{Contents, Parts, Type};
use crate::error::StoreError;
use crate::hash::{Change, Hash, NewText, To};
use crate::list::List;
use crate::ops::fields::due_of_new;
use crate::ops::list::Elements;
use crate::scored::large::Scores;
use crate::scored::{self, SortedSet};
use crate::session::Session;
use crate::value::{encode_owned, len_of, reborrow};

/// A complete value of any type.
#[derive(Clone, Debug, PartialEq)]
pub enum Content<'a> {
    /// A string.
    String(Cow<'a, [u8]>),
    /// The fields of a hash with their values; the last of equal fields wins.
    Hash(Vec<Field<'a>>),
    /// Like `Hash`, each field with the Unix millisecond of its expiry, if it has one.
    HashUntil(Vec<(Field<'a>, Option<u64>)>),
    /// The elements of a list.
    List(Elements),
    /// The members of a set; equal ones count once.
    Set(Vec<Cow<'a, [u8]>>),
    /// The members of a sorted set with their scores, none of them NaN; the last of equal members wins.
    Scored(Vec<(Cow<'a, [u8]>, f64)>),
}

/// A field of a hash, and its value.
pub type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

impl Session {
    /// Stores this value and expiry, replacing everything of the key, if the key is absent or `replace` is set. False
    /// if it stored nothing. If the expiry has passed, or the value is an empty container, it removes the key instead.
    ///
    /// # Errors
    /// [`StoreError::ValueTooLong`], and those of every write.
    pub fn put_content(
        &mut self,
        key: &[u8],
        content: Content<'_>,
        expire_at: Option<u64>,
        replace: bool,
        now: u64,
    ) -> Result<bool, StoreError> {
        self.check_key(key)?;
        let value = self.encode_content(content, now)?;
        self.admit_bytes(value.as_ref().map_or(0, len_of))?;
        let stored = self.write(key, |key| {
            key.update(now, |entry| {
                if entry.is_some() && !replace {
                    return (Action::Keep, false);
                }
                let is_over = expire_at.is_some_and(|at| at <= now);
                let expiry = expire_at.map_or(Expiry::Never, Expiry::At);
                match &value {
                    Some(value) if !is_over => {
                        (Action::Put { value: reborrow(value), expiry }, true)
                    }
                    _ => (Action::Remove, true),
                }
            })
        })?;
        if stored {
            self.enter_due(key, value.as_ref().and_then(due_of_new), now);
        }
        Ok(stored)
    }
}

impl Session {
    /// Encodes a value; None for an empty container.
    fn encode_content(
        &mut self,
        content: Content<'_>,
        now: u64,
    ) -> Result<Option<NewValue<'static>>, StoreError> {
        let limits = self.limits;
        Ok(match content {
            Content::String(text) => {
                limits.check_value(text.len())?;
                Some(encode_owned(text.into_owned()))
            }
            Content::Hash(fields) => {
                let fields = fields.iter().map(|(field, value)| (field, value, None));
                self.encode_fields(fields)?
            }
            Content::HashUntil(fields) => {
                let is_present = |(_, at): &&(Field<'_>, Option<u64>)| at.is_none_or(|at| at > now);
                let there = fields.iter().filter(is_present);
                self.encode_fields(there.map(|((field, value), at)| (field, value, *at)))?
            }
            Content::List(elements) => {
                elements.iter().try_for_each(|element| limits.check_value(element.len()))?;
                let held = elements.into_list();
                check_len(held.as_ref().map_or(0, Vec::len))?;
                held.map(|held| value_of::<List>(held, &[], &self.containers, &self.store))
            }
            Content::Set(members) => self.encode_set(members.iter().map(|member| &**member))?,
            Content::Scored(members) => {
                let changes: Vec<_> = members
                    .iter()
                    .map(|(member, score)| scored::Change::Put(member, *score))
                    .collect();
                let none = SortedSet::packed(&[]);
                check::<SortedSet>(none, &changes, limits)?;
                if self.containers.takes_objects && members.len() > self.containers.scored.entries()
                {
                    return Ok(Some(self.large_scored(&members)));
                }
                let (_, held) = SortedSet::changed(none, &changes);
                let (options, index) = (&self.containers, &self.store);
                held.map(|held| value_of::<SortedSet>(held, &changes, options, index))
            }
        })
    }

    /// Builds a large sorted set without an intermediate packed form.
    fn large_scored(&mut self, members: &[(Cow<'_, [u8]>, f64)]) -> NewValue<'static> {
        let entries = members.iter().map(|(member, score)| Scored { score: *score, member });
        let waiting = &mut self.gate.waiting;
        let scores = Scores::of(entries, self.containers.keys, || waiting.rest());
        new_value(Contents { number: 1, parts: Parts::Scored(scores) }, &self.store)
    }

    fn encode_fields<'f>(
        &self,
        fields: impl Iterator<Item = (&'f Cow<'f, [u8]>, &'f Cow<'f, [u8]>, Option<u64>)>,
    ) -> Result<Option<NewValue<'static>>, StoreError> {
        let changes: Vec<Change<'_>> = fields
            .map(|(field, value, at)| (&**field, To::value_until(NewText::Given(value), at)))
            .collect();
        let none = Hash::packed(&[]);
        check::<Hash>(none, &changes, self.limits)?;
        let (_, held) = Hash::changed(none, &changes);
        Ok(held.map(|held| value_of::<Hash>(held, &changes, &self.containers, &self.store)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::ValueRef;
    use crate::{Options, Store};

    const NOW: u64 = 1_700_000_000_000;

    fn session() -> Session {
        let options = Options { key_len_max: 4, value_len_max: 20, ..Options::default() };
        Store::new(options).unwrap().session()
    }

    fn string(text: &[u8]) -> Content<'_> {
        Content::String(text.into())
    }

    #[test]
    fn content_takes_the_place_of_all_that_a_key_had() {
        let mut s = session();
        assert_eq!(s.put_content(b"k", string(b"1"), Some(NOW + 5), false, NOW), Ok(true));
        assert_eq!(s.expiry(b"k", NOW), Some(Some(NOW + 5)));
        assert_eq!(s.put_content(b"k", string(b"2"), None, false, NOW), Ok(false));
        assert_eq!(s.incr_by(b"k", 1, NOW), Ok(2), "numbers are integers");
        let field = |value: &'static [u8]| (Cow::Borrowed(&b"a"[..]), Cow::Borrowed(value));
        let hash = Content::Hash(vec![field(b"1"), field(b"2")]);
        assert_eq!(s.put_content(b"k", hash, None, true, NOW), Ok(true));
        assert_eq!(s.expiry(b"k", NOW), Some(None));
        s.get(b"k", NOW, |value| {
            let ValueRef::Hash(hash) = value else { panic!("{value:?} is not a hash") };
            assert_eq!(hash.iter().collect::<Vec<_>>(), [(&b"a"[..], &b"2"[..])]);
        });
        assert_eq!(s.put_content(b"k", Content::Hash(Vec::new()), None, true, NOW), Ok(true));
        assert!(!s.exists(b"k", NOW));
    }

    /// Regression test: the limit of one value applied to an entire container, which other writes let grow beyond it.
    #[test]
    fn a_container_may_be_longer_than_a_value() {
        let mut s = session();
        let part = |i: usize| Cow::Owned(format!("{i:020}").into_bytes());
        let mut elements = Elements::default();
        (0..9).for_each(|i| elements.add(&part(i)));
        for content in [
            Content::Scored((0..9).map(|i| (part(i), 1.0)).collect()),
            Content::Hash((0..9).map(|i| (part(i), part(i))).collect()),
            Content::Set((0..9).map(part).collect()),
            Content::List(elements),
        ] {
            assert_eq!(s.put_content(b"k", content, None, true, NOW), Ok(true));
        }
        let mut long = Elements::default();
        long.add(&[b'x'; 21]);
        for content in [
            Content::Scored(vec![((&[b'x'; 21][..]).into(), 1.0)]),
            Content::Set(vec![(&[b'x'; 21][..]).into()]),
            Content::List(long),
        ] {
            let long = StoreError::ValueTooLong { len: 21, len_max: 20 };
            assert_eq!(s.put_content(b"k", content, None, true, NOW), Err(long));
        }
    }

    #[test]
    fn expired_and_too_long_values_are_not_stored() {
        let mut s = session();
        s.put_content(b"k", string(b"1"), None, false, NOW).unwrap();
        assert_eq!(s.put_content(b"k", string(b"2"), Some(NOW), false, NOW), Ok(false));
        let long = StoreError::ValueTooLong { len: 21, len_max: 20 };
        assert_eq!(s.put_content(b"k", string(&[b'x'; 21]), None, true, NOW), Err(long));
        let fields = vec![(b"a"[..].into(), (&[b'x'; 21][..]).into())];
        let long = StoreError::ValueTooLong { len: 21, len_max: 20 };
        assert_eq!(s.put_content(b"k", Content::Hash(fields), None, true, NOW), Err(long));
        let long = StoreError::KeyTooLong { len: 5, len_max: 4 };
        assert_eq!(s.put_content(b"12345", string(b""), None, true, NOW), Err(long));
        assert!(s.exists(b"k", NOW));
        assert_eq!(s.put_content(b"k", string(b"2"), Some(NOW), true, NOW), Ok(true));
        assert!(!s.exists(b"k", NOW));
        // The string counts, not the word that it lies in.
        let options = Options { value_len_max: 3, ..Options::default() };
        let mut s = Store::new(options).unwrap().session();
        assert_eq!(s.put_content(b"k", string(b"abc"), None, true, NOW), Ok(true));
    }
}
