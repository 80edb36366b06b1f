//! Partial changes of strings: a plain string that is or becomes long is turned into an object, an object is modified
//! in place.

use hotring_index::AnySession as Index;
use hotring_index::{Action, Entry, Expiry, Key, NewValue};

use super::write::{Logs, Met, check, tagged};
use crate::container::large::new_value;
use crate::container::{Contents, Decision, Objects, Parts, Type};
use crate::error::StoreError;
use crate::long_text::{Chunks, LongText, TextRef, is_long};
use crate::metadata::with_flags_of;
use crate::session::Limits;
use crate::value::{encode_owned, view, view_string};
use crate::write::Write;

/// An object that was made from a plain string.
struct Made<R> {
    contents: Contents,
    /// The written bytes, for the log.
    change: Vec<u8>,
    result: R,
}

impl Write<'_> {
    /// Decides on the key's string (an empty one if the key is absent) and writes the patches. `decide` may be called
    /// several times. None if the string is plain and stays so. The caller must hold the key's order lock.
    pub(crate) fn change_long_text<'c, R>(
        mut self,
        objects: Objects<'_>,
        limits: Limits,
        now: u64,
        mut decide: impl FnMut(TextRef<'_>) -> Decision<'c, LongText, R>,
    ) -> Result<Option<R>, StoreError> {
        if self.is_refused() {
            return Err(StoreError::ReadOnly);
        }
        let asked = self.ask(objects, limits);
        self.settle(asked, now, |entry, behind| {
            if let Some(met) = entry.and_then(Met::of) {
                let (action, done) = met.change::<LongText, R>(&asked, behind, &mut decide);
                return (action, done.map(|(_, result)| Some(result)));
            }
            // A plain string that is long after the change becomes an object.
            let made = match make(entry, objects, limits, &mut decide) {
                Ok(Some(made)) => made,
                Ok(None) => return (Action::Keep, Ok(None)),
                Err(error) => return (Action::Keep, Err(error)),
            };
            let (value, again) = twice(new_value(made.contents, objects.index));
            behind.logs = Some(match entry {
                Some(_) => Logs::Change(1, made.change),
                None => Logs::Put(again),
            });
            (Action::Put { value, expiry: Expiry::Keep }, Ok(Some(made.result)))
        })
    }
}

/// A second handle to an object.
fn twice(value: NewValue<'static>) -> (NewValue<'static>, NewValue<'static>) {
    let again = crate::value::reborrow(&value);
    let NewValue::Block { kind, block } = again else { unreachable!("an object has a block") };
    (value, NewValue::Block { kind, block })
}

/// Makes an object from a plain string; None if the string stays plain or does not change.
fn make<'c, R>(
    entry: Option<&Entry<'_>>,
    objects: Objects<'_>,
    limits: Limits,
    decide: &mut impl FnMut(TextRef<'_>) -> Decision<'c, LongText, R>,
) -> Result<Option<Made<R>>, StoreError> {
    let mut run = |bytes: &[u8]| {
        let text = TextRef::plain(bytes);
        let (patches, result) = decide(text)?;
        let len = text.len_after(&patches);
        if patches.is_empty() || !is_long(len, entry, objects.options.text_plain_max()) {
            return Ok(None);
        }
        check::<LongText>(text, &patches, limits)?;
        let mut chunks = chunks_of(bytes, entry);
        LongText::apply(&mut chunks, &patches);
        let contents = Contents { number: 1, parts: Parts::Text(chunks) };
        Ok(Some(Made { contents, change: tagged::<LongText>(&patches), result }))
    };
    match entry {
        None => run(b""),
        Some(entry) => view_string(entry, |value| value.with_bytes(run))?,
    }
}

/// Chunks with the bytes of an entry's string, over the block with these bytes if there is one.
fn chunks_of(bytes: &[u8], entry: Option<&Entry<'_>>) -> Chunks {
    let base = entry.and_then(Entry::block).and_then(|block| block.to_block().part(bytes));
    if let Some(base) = base {
        return Chunks::over(base);
    }
    let mut chunks = Chunks::new();
    chunks.write(0, bytes);
    chunks
}

/// Replays patches of the log to a string that is plain at present. False if the bytes are no patches.
pub(super) fn replay(
    index: &mut Index,
    key: Key<'_>,
    objects: Objects<'_>,
    number: u64,
    changes: &[u8],
) -> bool {
    let Some(patches) = LongText::changes_from_bytes(changes) else { return false };
    let plain_max = objects.options.text_plain_max();
    index.update(key, 0, |entry| {
        // Absent, or something else: a later record stores it.
        let Some(entry) = entry else { return (Action::Keep, ()) };
        let replayed = view(entry.value, |value| {
            value.is_string().then(|| {
                value.with_bytes(|bytes| {
                    let text = TextRef::plain(bytes);
                    if !is_long(text.len_after(&patches), Some(&entry), plain_max) {
                        let (_, after) = LongText::changed(text, &patches);
                        return with_flags_of(Some(entry), encode_owned(after.unwrap_or_default()));
                    }
                    let mut chunks = chunks_of(bytes, Some(&entry));
                    LongText::apply(&mut chunks, &patches);
                    let contents = Contents { number, parts: Parts::Text(chunks) };
                    new_value(contents, objects.index)
                })
            })
        });
        let put = replayed.map(|value| Action::Put { value, expiry: Expiry::Keep });
        (put.unwrap_or(Action::Keep), ())
    });
    true
}
