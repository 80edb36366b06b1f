//! Keyspace notifications: messages on `__keyspace@N__:KEY` and `__keyevent@N__:EVENT` about changes of keys.
//!
//! The store's session records its changes ([`hotring_store::Change`]) while the setting asks for any event. This
//! module translates them to Redis's event names. With the setting off, notifications cost a command nothing.

use std::time::Duration;

use hotring_store::{Change, Changed, End, FieldsChanged, Session, Step, ValueRef};

use crate::settings::config::Config;
use crate::settings::config::notify::{
    EVICTED, EXPIRED, GENERIC, HASH, KEYEVENT, KEYSPACE, LIST, NEW, SET, STRING, ZSET,
};
use crate::state::pubsub::PubSub;
use crate::state::server::Server;
use crate::table::{CommandId, Group, Spec};

/// Publishes the changes of a command.
pub(crate) fn notify_changes(spec: &Spec, store: &mut Session, server: &Server, config: &Config) {
    let changes = take_changes(store, server, config);
    let teller = Teller { pubsub: &server.push.pubsub, config, store };
    if spec.id == CommandId::SMove {
        // Redis removes the member from the source first, and reports expired keys before that.
        let expired = changes.iter().take_while(|change| change.kind == Changed::Expired).count();
        let (expired, moved) = changes.split_at(expired);
        for change in expired.iter().chain(moved.iter().rev()) {
            teller.creation(spec, change);
            teller.change(spec, change);
        }
        return;
    }
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

/// Takes the changes of the last command. If there are any, publishes the expired keys first, as they come before.
fn take_changes(store: &mut Session, server: &Server, config: &Config) -> Vec<Change> {
    let changes = store.take_changes();
    if !changes.is_empty() {
        let number = store.number_of_database(store.database_id());
        store.report_expired(|key, late| {
            expired((number, key), &server.push.pubsub, config);
            server.tasks.expirer.note(Duration::from_millis(late));
        });
    }
    changes
}

fn is_rename(spec: &Spec) -> bool {
    matches!(spec.id, CommandId::Rename | CommandId::RenameNx | CommandId::Move)
}

/// Publishes that a key of the database with this number has expired.
pub fn expired((number, key): (u8, &[u8]), pubsub: &PubSub, config: &Config) {
    publish(pubsub, config, EXPIRED, "expired", (number, key));
}

/// Publishes the expiry of hash fields that the session has removed.
pub fn expired_fields(store: &mut Session, pubsub: &PubSub, config: &Config) {
    let changes = store.take_changes();
    let teller = Teller { pubsub, config, store };
    for change in &changes {
        if let Changed::Fields(kind) = change.kind {
            teller.fields(kind, change);
        }
    }
}

/// Whether changes must be recorded for notifications.
pub fn is_wanted(config: &Config) -> bool {
    config.notify.has(HASH) || config.notify.has(GENERIC)
}

/// Publishes the evictions of a command that has no events of its own.
pub fn notify_evicted(store: &mut Session, server: &Server, config: &Config) {
    let changes = take_changes(store, server, config);
    let teller = Teller { pubsub: &server.push.pubsub, config, store };
    for change in changes.iter().filter(|change| change.kind == Changed::Evicted) {
        teller.event(EVICTED, "evicted", change);
    }
}

/// Publishes the changes of records that a replica has applied. Records have no commands: a value that was stored has
/// the event of the plainest command for its type, and a key that expired at the primary was removed.
pub fn tell_applied(store: &mut Session, server: &Server, config: &Config) {
    let changes = store.take_changes();
    let plainest = |change: &Change| {
        let of = |value: ValueRef<'_>| match value {
            ValueRef::Int(_) | ValueRef::Bytes(_) | ValueRef::Text(_) => (STRING, "set"),
            ValueRef::Hash(_) => (HASH, "hset"),
            ValueRef::List(_) => (LIST, "rpush"),
            ValueRef::Set(_) => (SET, "sadd"),
            ValueRef::Scored(_) => (ZSET, "zadd"),
        };
        store.within(change.database_id, |store| store.peek_value(&change.key, 0, of))
    };
    let events: Vec<_> = changes.iter().map(plainest).collect();
    let teller = Teller { pubsub: &server.push.pubsub, config, store };
    for (change, event) in changes.iter().zip(events) {
        match change.kind {
            Changed::Stored { is_new, expires } => {
                if is_new {
                    teller.event(NEW, "new", change);
                }
                // A later record has removed the key, or its type would be known.
                if let Some((class, event)) = event {
                    teller.event(class, event, change);
                }
                if expires {
                    teller.event(GENERIC, "expire", change);
                }
            }
            Changed::Removed => teller.event(GENERIC, "del", change),
            what => teller.other(what, change),
        }
    }
}

struct Teller<'a> {
    pubsub: &'a PubSub,
    config: &'a Config,
    store: &'a Session,
}

impl Teller<'_> {
    fn creation(&self, spec: &Spec, change: &Change) {
        let Changed::Stored { is_new, .. } = change.kind else { return };
        // Redis removes an item before it puts another one in its place.
        if is_new || (stored(spec).0 == GENERIC && change.step.is_none()) {
            self.event(NEW, "new", change);
        }
    }

    fn change(&self, spec: &Spec, change: &Change) {
        if let Some(step) = change.step {
            self.step(spec, step, change);
            if change.kind == Changed::Removed {
                self.event(GENERIC, "del", change);
            }
            return;
        }
        match change.kind {
            // PFCOUNT stores only its cached count, which is no change to clients.
            Changed::Stored { .. } if spec.id == CommandId::PfCount => {}
            Changed::Stored { expires, .. } => {
                let (class, event) = stored(spec);
                self.event(class, event, change);
                // A copy has the expiry of its source.
                if expires && class != GENERIC {
                    self.event(GENERIC, "expire", change);
                }
            }
            Changed::Removed if spec.id == CommandId::Move => {
                self.event(GENERIC, "move_from", change);
            }
            Changed::Removed if is_rename(spec) => {
                self.event(GENERIC, "rename_from", change);
            }
            Changed::Removed => {
                // A command that removes the last element of a key has two events: its own, and `del`. A command that
                // stores an empty result only has `del`.
                let is_part = match spec.id {
                    CommandId::SInterStore | CommandId::SUnionStore | CommandId::SDiffStore => {
                        false
                    }
                    _ => matches!(spec.group, Group::List | Group::Set),
                };
                if spec.group == Group::Hash {
                    self.event(HASH, "hdel", change);
                } else if is_part || is_part_of_sorted_set(spec) {
                    let (class, event) = stored(spec);
                    self.event(class, event, change);
                }
                self.event(GENERIC, "del", change);
            }
            what => self.other(what, change),
        }
    }

    /// Publishes a change whose event no command determines.
    fn other(&self, what: Changed, change: &Change) {
        match what {
            Changed::Expiry { expires: true } => self.event(GENERIC, "expire", change),
            Changed::Expiry { expires: false } => self.event(GENERIC, "persist", change),
            Changed::Fields(kind) => self.fields(kind, change),
            Changed::Expired => self.event(EXPIRED, "expired", change),
            Changed::Evicted => self.event(EVICTED, "evicted", change),
            Changed::Stored { .. } | Changed::Removed => {}
        }
    }

    fn step(&self, spec: &Spec, step: Step, change: &Change) {
        let pushed = |end| if end == End::Front { "lpush" } else { "rpush" };
        let popped = |end| if end == End::Front { "lpop" } else { "rpop" };
        match step {
            Step::Pushed(end) => self.event(LIST, pushed(end), change),
            Step::Popped(End::Front) if spec.group == Group::SortedSet => {
                self.event(ZSET, "zpopmin", change);
            }
            Step::Popped(End::Back) if spec.group == Group::SortedSet => {
                self.event(ZSET, "zpopmax", change);
            }
            Step::Popped(end) => self.event(LIST, popped(end), change),
            Step::Raised => self.event(ZSET, "zincr", change),
            Step::MovedIn => self.event(SET, "sadd", change),
            Step::MovedOut => self.event(SET, "srem", change),
            Step::Moved { from, to } => {
                self.event(LIST, pushed(to), change);
                self.event(LIST, popped(from), change);
            }
        }
    }

    fn fields(&self, kind: FieldsChanged, change: &Change) {
        let event = match kind {
            FieldsChanged::Expire => "hexpire",
            FieldsChanged::Persist => "hpersist",
            FieldsChanged::Removed => "hdel",
            FieldsChanged::Expired | FieldsChanged::LastExpired => "hexpired",
        };
        self.event(HASH, event, change);
        if kind == FieldsChanged::LastExpired {
            self.event(GENERIC, "del", change);
        }
    }

    fn event(&self, class: u16, event: &str, change: &Change) {
        let number = self.store.number_of_database(change.database_id);
        publish(self.pubsub, self.config, class, event, (number, &change.key));
    }
}

/// Publishes one event of a key, if the setting asks for its class.
fn publish(pubsub: &PubSub, config: &Config, class: u16, event: &str, (number, key): (u8, &[u8])) {
    let notify = config.notify;
    if !notify.has(class) {
        return;
    }
    let publish = |channel: &[&[u8]], message: &[u8]| {
        pubsub.publish(&channel.concat(), message, config.subscriber_output_max);
    };
    if notify.has(KEYSPACE) {
        let channel = format!("__keyspace@{number}__:");
        publish(&[channel.as_bytes(), key], event.as_bytes());
    }
    if notify.has(KEYEVENT) {
        let channel = format!("__keyevent@{number}__:");
        publish(&[channel.as_bytes(), event.as_bytes()], key);
    }
}

/// Whether the command removes members of a sorted set, and the key with the last member.
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
        Id::Move => (GENERIC, "move_to"),
        Id::Restore => (GENERIC, "restore"),
        Id::Sort => (LIST, "sortstore"),
        Id::Incr | Id::Decr | Id::IncrBy | Id::DecrBy | Id::IncrEx => (STRING, "incrby"),
        Id::IncrByFloat | Id::Append | Id::SetRange | Id::SetBit | Id::Rollback => {
            (STRING, spec.name)
        }
        // As in Redis.
        Id::BitField => (STRING, "setbit"),
        Id::HSet | Id::HSetNx | Id::HMSet | Id::HSetEx => (HASH, "hset"),
        _ if spec.group == Group::Hash => (HASH, spec.name),
        _ if spec.group == Group::List => (LIST, spec.name),
        _ if spec.group == Group::Set => (SET, spec.name),
        Id::GeoAdd => (ZSET, "zadd"),
        Id::GeoSearchStore => (ZSET, spec.name),
        _ if spec.group == Group::Geo => (ZSET, "georadiusstore"),
        // As in Redis, also for PFMERGE.
        _ if spec.group == Group::HyperLogLog => (STRING, "pfadd"),
        _ if spec.group == Group::SortedSet => (ZSET, spec.name),
        _ => (STRING, "set"),
    }
}

#[cfg(test)]
mod tests;
