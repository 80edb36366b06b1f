//! Keyspace notifications: messages on `__keyspace@0__:KEY` and `__keyevent@0__:EVENT` about changes of keys.
//!
//! The store's session records its changes while the setting asks for any ([`hotring_store::Change`]); here they get
//! Redis's names. With the setting off, no command pays for it.

use std::time::Duration;

use hotring_store::{Change, Changed, Session};

use crate::settings::config::Config;
use crate::settings::config::notify::{
    EVICTED, EXPIRED, GENERIC, HASH, KEYEVENT, KEYSPACE, NEW, STRING, ZSET,
};
use crate::state::pubsub::PubSub;
use crate::state::server::Server;
use crate::table::{CommandId, Group, Spec};

/// Publishes the changes of a command.
pub(crate) fn tell(spec: &Spec, store: &mut Session, server: &Server, config: &Config) {
    let changes = take_changes(store, server, config);
    let teller = Teller { pubsub: &server.push.pubsub, config };
    if is_rename(spec) {
        // Redis reports the old name first.
        changes.iter().for_each(|change| teller.creation(spec, change));
        changes.iter().rev().for_each(|change| teller.change(spec, change));
        return;
    }
    for change in &changes {
        teller.creation(spec, change);
        teller.change(spec, change);
    }
}

/// The changes of the last command. Expired keys are published before them.
fn take_changes(store: &mut Session, server: &Server, config: &Config) -> Vec<Change> {
    let changes = store.take_changes();
    if !changes.is_empty() {
        store.tell_expired(|key, late| {
            expired(key, &server.push.pubsub, config);
            server.tasks.expirer.note(Duration::from_millis(late));
        });
    }
    changes
}

fn is_rename(spec: &Spec) -> bool {
    matches!(spec.id, CommandId::Rename | CommandId::RenameNx)
}

/// Publishes that a key has expired.
pub fn expired(key: &[u8], pubsub: &PubSub, config: &Config) {
    Teller { pubsub, config }.event(EXPIRED, "expired", key);
}

/// Publishes the evictions of a command that has no events of its own.
pub fn tell_evicted(store: &mut Session, server: &Server, config: &Config) {
    let teller = Teller { pubsub: &server.push.pubsub, config };
    let changes = take_changes(store, server, config);
    for change in changes.iter().filter(|change| change.what == Changed::Evicted) {
        teller.event(EVICTED, "evicted", &change.key);
    }
}

struct Teller<'a> {
    pubsub: &'a PubSub,
    config: &'a Config,
}

impl Teller<'_> {
    fn creation(&self, spec: &Spec, change: &Change) {
        let Changed::Stored { is_new, .. } = change.what else { return };
        // Redis removes an item before it puts another one in its place.
        if is_new || stored(spec).0 == GENERIC {
            self.event(NEW, "new", &change.key);
        }
    }

    fn change(&self, spec: &Spec, change: &Change) {
        let key = &change.key;
        match change.what {
            Changed::Stored { expires, .. } => {
                let (class, event) = stored(spec);
                self.event(class, event, key);
                // A copy has the expiry of its source.
                if expires && class != GENERIC {
                    self.event(GENERIC, "expire", key);
                }
            }
            Changed::Removed if is_rename(spec) => {
                self.event(GENERIC, "rename_from", key);
            }
            Changed::Removed => {
                // The removal of the last field removes the key.
                if spec.group == Group::Hash || is_part_of_sorted_set(spec) {
                    let (class, event) = stored(spec);
                    self.event(class, event, key);
                }
                self.event(GENERIC, "del", key);
            }
            Changed::Expiry { expires: true } => self.event(GENERIC, "expire", key),
            Changed::Expiry { expires: false } => self.event(GENERIC, "persist", key),
            Changed::Expired => self.event(EXPIRED, "expired", key),
            Changed::Evicted => self.event(EVICTED, "evicted", key),
        }
    }

    fn event(&self, class: u16, event: &str, key: &[u8]) {
        let notify = self.config.notify;
        if !notify.has(class) {
            return;
        }
        let publish = |channel: &[&[u8]], message: &[u8]| {
            let inbox_max = self.config.subscriber_output_max;
            self.pubsub.publish(&channel.concat(), message, inbox_max);
        };
        if notify.has(KEYSPACE) {
            publish(&[b"__keyspace@0__:", key], event.as_bytes());
        }
        if notify.has(KEYEVENT) {
            publish(&[b"__keyevent@0__:", event.as_bytes()], key);
        }
    }
}

/// Whether the command removes members, and the key with the last one.
fn is_part_of_sorted_set(spec: &Spec) -> bool {
    use CommandId as Id;
    let stores = [Id::ZUnionStore, Id::ZInterStore, Id::ZDiffStore, Id::ZRangeStore];
    spec.group == Group::SortedSet && !stores.contains(&spec.id)
}

/// The class and the name of the event for a value that this command stores.
fn stored(spec: &Spec) -> (u16, &'static str) {
    use CommandId as Id;
    match spec.id {
        Id::Rename | Id::RenameNx => (GENERIC, "rename_to"),
        Id::Copy => (GENERIC, "copy_to"),
        Id::Restore => (GENERIC, "restore"),
        Id::Incr | Id::Decr | Id::IncrBy | Id::DecrBy | Id::IncrEx => (STRING, "incrby"),
        Id::IncrByFloat | Id::Append | Id::SetRange | Id::SetBit | Id::Rollback => {
            (STRING, spec.name)
        }
        Id::HSet | Id::HSetNx | Id::HMSet => (HASH, "hset"),
        _ if spec.group == Group::Hash => (HASH, spec.name),
        Id::ZIncrBy => (ZSET, "zincr"),
        Id::ZMPop => (ZSET, "zpopmin"),
        _ if spec.group == Group::SortedSet => (ZSET, spec.name),
        _ => (STRING, "set"),
    }
}

#[cfg(test)]
mod tests;
