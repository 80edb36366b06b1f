//! What a write has decided, until it has taken effect: its log record, and its reports to waiters and observers.

use hotring_index::AnySession as Index;
use hotring_index::{Action, Entry, Expiry, Value};
use hotring_log::{Mark, Records};

use super::{ActiveHooks, has_elements, kind_of, string};
use crate::changes::Changed;
use crate::logged::{self, Puts};
use crate::value::is_string;
use crate::watch::Event;

/// The effect that a decision will have on the key.
enum Done {
    Nothing,
    /// `text` is the string, if the value is a string and a session waits for the key.
    Stored {
        text: Option<Vec<u8>>,
        has_elements: bool,
        is_new: bool,
        expires: bool,
    },
    Removed,
    /// Stored with an expiry in the past, so removed at once.
    Over {
        is_new: bool,
    },
    Expiry {
        expires: bool,
    },
}

/// The log record of one write during its decision, which may run several times.
pub(super) struct Recording<'a> {
    records: &'a mut Records,
    before: Mark,
    /// Number of damaged items found before this write.
    damages: u64,
}

impl<'a> Recording<'a> {
    pub(super) fn begin(records: &'a mut Records, index: &mut Index) -> Recording<'a> {
        Recording { before: records.mark(), records, damages: index.damages() }
    }

    pub(super) fn decided(
        &mut self,
        key: &[u8],
        puts: Puts,
        old: Option<&Entry<'_>>,
        action: &Action<'_>,
    ) {
        self.records.roll_back(self.before);
        logged::decided(self.records, key, puts, old, action);
    }

    pub(super) fn end(self, index: &mut Index) {
        // The index does not carry out a decision on a damaged item.
        if index.damages() != self.damages {
            self.records.roll_back(self.before);
        }
    }
}

/// The reports of one write, to be sent once it has taken effect.
pub(super) struct Report<'a> {
    hooks: ActiveHooks<'a>,
    is_watched: bool,
    done: Done,
    /// Number of damaged items found before this write.
    damages: u64,
}

impl<'a> Report<'a> {
    #[cold]
    pub(super) fn begin(
        hooks: ActiveHooks<'a>,
        index: &mut Index,
        stripe: u32,
        key: &[u8],
    ) -> Report<'a> {
        let is_watched = hooks.all.watchers.is_waited_for(stripe, key);
        Report { hooks, is_watched, done: Done::Nothing, damages: index.damages() }
    }

    /// Adds the replaced value to the history of the new one, and collects the reports to send once the decision has
    /// taken effect.
    #[cold]
    pub(super) fn decided(
        &mut self,
        puts: Puts,
        old: Option<Value<'_>>,
        action: &mut Action<'_>,
        now: u64,
    ) {
        self.done = match action {
            Action::Put { value, expiry } => {
                let expires = matches!(expiry, Expiry::At(_));
                let done = match puts {
                    Puts::Same => Done::Expiry { expires },
                    Puts::Metadata | Puts::Access => Done::Nothing,
                    _ => {
                        let text = self.is_watched.then(|| string(value)).flatten();
                        let has_elements = has_elements(kind_of(value.as_value()));
                        Done::Stored { text, has_elements, is_new: old.is_none(), expires }
                    }
                };
                let history = self.hooks.all.history;
                let keeps =
                    |old| !history.is_off() && is_string(old) && is_string(value.as_value());
                if let (Puts::Value, Some(old)) = (puts, old.filter(|old| keeps(*old))) {
                    *value = history.keep(old, value.as_value(), now);
                }
                done
            }
            Action::Remove if puts == Puts::Over => Done::Over { is_new: old.is_none() },
            Action::Remove if old.is_some() => Done::Removed,
            Action::Expire(expiry) => Done::Expiry { expires: matches!(expiry, Expiry::At(_)) },
            Action::Keep | Action::Remove => Done::Nothing,
        };
    }

    #[cold]
    pub(super) fn tell(mut self, index: &mut Index, stripe: u32, key: &[u8]) {
        // The index does not carry out a decision on a damaged item.
        if index.damages() != self.damages {
            return;
        }
        let takes = matches!(self.done, Done::Stored { has_elements: true, .. });
        let (event, what) = match &self.done {
            Done::Nothing => return,
            Done::Stored { text, is_new, expires, .. } => (
                Event::Stored(text.as_deref()),
                Changed::Stored { is_new: *is_new, expires: *expires },
            ),
            Done::Removed => (Event::Removed, Changed::Removed),
            Done::Over { is_new } => {
                self.hooks.record(key, Changed::Stored { is_new: *is_new, expires: true });
                if *is_new {
                    return self.hooks.record(key, Changed::Expired);
                }
                (Event::Removed, Changed::Expired)
            }
            Done::Expiry { expires } => (Event::Expiry, Changed::Expiry { expires: *expires }),
        };
        if self.is_watched {
            self.hooks.tell(stripe, key, &event, takes);
        }
        self.hooks.record(key, what);
    }
}
