//! Snapshots of several sorted sets or sets at one moment: the inputs of operations such as ZUNION.

use std::collections::HashMap;

use hotring_index::AnySession as Index;
use hotring_index::{Block, Entry};

use crate::container::{Type, is_present, large, view_container};
use crate::error::StoreError;
use crate::gathered::{PREFETCH_KEYS, no_keys, prefetched};
use crate::ops::sets::{MemberTest, SetSnapshot};
use crate::scored::large::Scores;
use crate::scored::{ScoredRef, SortedSet};
use crate::session::Session;
use hotring_containers::Scored;

/// A snapshot of one input: the members of a sorted set, or of a set with the score 1 each. It never changes and can be
/// kept. A large input is shared, not copied.
#[derive(Debug, Default)]
pub struct ScoredInput(Held);

#[derive(Debug)]
enum Held {
    Copied(Vec<u8>),
    Shared(Block),
    Large(Scores),
    Set(SetSnapshot),
}

impl Default for Held {
    fn default() -> Held {
        Held::Copied(Vec::new())
    }
}

/// An input prepared for many lookups of scores.
#[derive(Debug)]
pub struct ScoreLookup<'a>(Lookup<'a>);

#[derive(Debug)]
enum Lookup<'a> {
    Scored(ScoredRef<'a>),
    /// The members of a packed set that is too long for a walk for each lookup.
    Indexed(HashMap<&'a [u8], f64>),
    Set(MemberTest<'a>),
}

/// Number of members of a packed set up to which a walk costs about as much as an index.
const WALK_MAX: usize = 32;

impl ScoredInput {
    fn of(entry: &Entry<'_>, now: u64) -> Result<ScoredInput, StoreError> {
        if !is_present(entry, now) {
            return Ok(ScoredInput::default());
        }
        if let Some(large) = large::of_entry(entry)
            && let Some(scores) =
                large.read(|contents| SortedSet::of_parts(&contents.parts).cloned())
        {
            return Ok(ScoredInput(Held::Large(scores)));
        }
        let packed = view_container::<SortedSet, _>(entry, |scored| {
            let shared = entry.block().and_then(|block| block.to_block().part(scored.held()));
            shared.map_or_else(|| Held::Copied(scored.held().to_vec()), Held::Shared)
        });
        match packed {
            Ok(held) => Ok(ScoredInput(held)),
            Err(_) => Ok(ScoredInput(Held::Set(SetSnapshot::of(entry, now)?))),
        }
    }

    fn scored(&self) -> Option<ScoredRef<'_>> {
        match &self.0 {
            Held::Copied(held) => Some(SortedSet::packed(held)),
            Held::Shared(block) => Some(SortedSet::packed(block)),
            Held::Large(scores) => Some(SortedSet::large(scores)),
            Held::Set(_) => None,
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.0 {
            Held::Set(set) => set.view().len(),
            _ => self.scored().map_or(0, |scored| scored.len()),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with each member until it returns false; true if it never did.
    pub fn each(&self, mut f: impl FnMut(Scored<'_>) -> bool) -> bool {
        match &self.0 {
            Held::Set(set) => set
                .view()
                .iter()
                .all(|member| member.with_bytes(|member| f(Scored { score: 1.0, member }))),
            _ => self.scored().is_none_or(|scored| scored.all(f)),
        }
    }

    /// Prepares the input for lookups of scores.
    pub fn asked(&self) -> ScoreLookup<'_> {
        ScoreLookup(match (&self.0, self.scored()) {
            (Held::Set(set), _) => Lookup::Set(MemberTest::new(set.view())),
            (_, Some(scored)) if scored.is_packed() && scored.len() > WALK_MAX => {
                let mut index = HashMap::with_capacity(scored.len());
                scored.each_of_all(|entry| _ = index.insert(entry.member, entry.score));
                Lookup::Indexed(index)
            }
            (_, scored) => Lookup::Scored(scored.unwrap_or_else(|| SortedSet::packed(&[]))),
        })
    }
}

impl ScoreLookup<'_> {
    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Lookup::Scored(scored) => scored.score(member),
            Lookup::Indexed(index) => index.get(member).copied(),
            Lookup::Set(set) => set.contains(member).then_some(1.0),
        }
    }
}

impl Session {
    /// The inputs of these keys, all at one moment.
    ///
    /// # Errors
    /// [`StoreError::WrongType`] if any key holds neither a sorted set nor a set.
    pub fn scored_inputs(
        &mut self,
        keys: &[&[u8]],
        now: u64,
    ) -> Result<Vec<ScoredInput>, StoreError> {
        self.read_many(keys, |index| inputs(index, keys, now))
    }
}

/// Reads the inputs one after the other; the caller ensures that they are of one moment.
fn inputs(index: &mut Index, keys: &[&[u8]], now: u64) -> Result<Vec<ScoredInput>, StoreError> {
    let (mut inputs, mut space) = (Vec::with_capacity(keys.len()), no_keys());
    for batch in keys.chunks(PREFETCH_KEYS) {
        for &key in prefetched(index, batch, &mut space) {
            let input = index.get(key, now, |entry| ScoredInput::of(&entry, now)).transpose()?;
            inputs.push(input.unwrap_or_default());
        }
    }
    Ok(inputs)
}
