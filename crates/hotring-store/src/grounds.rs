//! Which keys of a store its clients may use: a node of a cluster serves some groups of keys, which are called slots
//! there, and gives and takes some while clients use them. A store without grounds serves all its keys.
//!
//! # Picture
//! ```text
//!   gives a group:   Open --> Held --> Hidden --> its keys are forgotten
//!   gets a group:    Hidden --> Importing --> Open
//! ```
//! A *hidden* key is there, in log and snapshots too, but only for those who fill or remove it
//! ([`Importer`](crate::Importer), [`Session::forget_some`](crate::Session::forget_some)) and for an applier. It is
//! neither evicted nor expired, and no observer is told of its changes.
//!
//! # Invariant
//! Grounds change while no other session is within the gate, and each change raises their version, which is in the word
//! that every write reads anyway ([`crate::mode`]). A session that runs requests has checked them by the grounds of
//! one version ([`Session::rely_on`](crate::Session::rely_on)): while that is the present one, its writes need no look.
//! With another version, each write looks at the standing of its key, within the gate. So no write that was checked
//! before a change takes effect after it, unless it still may.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

/// What a store does with the keys of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Clients read and write them.
    Open,
    /// No client writes them, for a moment.
    Held,
    /// They are another store's, or left from before.
    Hidden,
    /// They are another store's, and come here one by one.
    Importing,
}

impl Standing {
    /// Whether clients must not see these keys.
    pub fn is_hidden(self) -> bool {
        matches!(self, Standing::Hidden | Standing::Importing)
    }
}

/// The standing of each group of keys.
pub struct Grounds {
    group_of: fn(&[u8]) -> u16,
    standings: Box<[Standing]>,
    guarded: Arc<BTreeSet<Box<[u8]>>>,
}

impl Grounds {
    /// Grounds with the standing of each group; `group_of` tells the group of a key.
    pub fn new(group_of: fn(&[u8]) -> u16, standings: Box<[Standing]>) -> Grounds {
        Grounds { group_of, standings, guarded: Arc::default() }
    }

    /// The same, with some keys of open groups that are held.
    pub fn guarding(self, guarded: Arc<BTreeSet<Box<[u8]>>>) -> Grounds {
        Grounds { guarded, ..self }
    }

    /// The standing of a key.
    pub fn standing(&self, key: &[u8]) -> Standing {
        match self.standing_of((self.group_of)(key)) {
            Standing::Open if self.guarded.contains(key) => Standing::Held,
            standing => standing,
        }
    }

    /// The standing of a group.
    pub fn standing_of(&self, group: u16) -> Standing {
        self.standings.get(usize::from(group)).copied().unwrap_or(Standing::Hidden)
    }

    /// Whether clients must not see the key.
    pub fn hides(&self, key: &[u8]) -> bool {
        self.standing(key).is_hidden()
    }

    /// Whether keys come from another store.
    pub fn is_importing(&self) -> bool {
        self.standings.contains(&Standing::Importing)
    }

    /// Whether keys are held.
    pub fn is_holding(&self) -> bool {
        self.standings.contains(&Standing::Held) || !self.guarded.is_empty()
    }

    /// Whether the standings are the same.
    pub fn is_like(&self, other: &Grounds) -> bool {
        self.standings == other.standings && self.guarded == other.guarded
    }

    /// Whether keys that clients could see before are hidden now.
    pub(crate) fn hides_more_than(&self, before: Option<&Grounds>) -> bool {
        let mut groups = self.standings.iter().enumerate();
        groups.any(|(group, now)| {
            let before = before.and_then(|before| before.standings.get(group));
            now.is_hidden() && !before.is_some_and(|before| before.is_hidden())
        })
    }
}

impl std::fmt::Debug for Grounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grounds").field("groups", &self.standings.len()).finish_non_exhaustive()
    }
}

/// The grounds that all sessions share.
#[derive(Default)]
pub(crate) struct SharedGrounds(RwLock<Option<Arc<Grounds>>>);

impl SharedGrounds {
    pub(crate) fn get(&self) -> Option<Arc<Grounds>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns those before. The caller must hold all keys.
    pub(crate) fn set(&self, grounds: Arc<Grounds>) -> Option<Arc<Grounds>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).replace(grounds)
    }
}

/// Which keys a session writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Those that clients may write.
    Open,
    /// Those that come from another store.
    Importing,
    /// Those that are to be forgotten.
    Hidden,
}

impl Writes {
    /// Whether such a session may write a key of this standing.
    pub(crate) fn may(self, standing: Standing) -> bool {
        match self {
            Writes::Open => standing == Standing::Open,
            Writes::Importing => standing == Standing::Importing,
            Writes::Hidden => standing == Standing::Hidden,
        }
    }
}
