//! Which requests this node of a cluster serves, as one thread knows it, and the errors that send clients elsewhere.
//!
//! A thread keeps the slots of the own shard as a table of bits, and makes it again when other records have been
//! published ([`Cluster::version`]), which it looks at before each batch.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hotring_cluster::directory::{Directory, Node};
use hotring_cluster::mirrors::{HolderId, Key};
use hotring_cluster::{Epoch, NodeId, SLOTS, Slot, slot_of};
use hotring_protocol::ArgsView;

use crate::state::client::Client;
use crate::state::cluster::{Cluster, Served};
use crate::state::mirrors::Mirrors;
use crate::state::moves::Moves;
use crate::table::{CommandId, Group, Spec};

/// Bits of one word of the table.
const WORD: usize = u64::BITS as usize;

/// No holder of mirrors.
pub(crate) const NOBODY: HolderId = 0;

/// A set of slots, one bit each.
type Bits = [u64; SLOTS as usize / WORD];

/// The error of a node that may not answer now.
pub(crate) const UNANSWERED: &str = "CLUSTERDOWN This node has not heard the other copies of its data for too long, or has no role yet";

/// The error of a node that the records name as primary, but that may lack what was acknowledged.
const NOT_YET: &str = "CLUSTERDOWN This node is not the primary of its shard yet: try again. If this lasts, it may have lost writes, and 'hotring cluster check' says more";

/// The error of reads beside which keys of a move were removed.
pub(crate) const GONE: &str = "TRYAGAIN Slots went to another shard while the request ran";

/// The error of a slot that the table may already give to this shard. The old owner would send the client here.
const EXPECTED: &str = "TRYAGAIN This slot is about to be served here";

/// The table of slots as one thread knows it.
pub(crate) struct Routes {
    me: NodeId,
    /// The number of the publication; 0 before the first look.
    version: u64,
    directory: Arc<Directory>,
    moves: Arc<Moves>,
    mirrors: Arc<Mirrors>,
    /// The version of the store's grounds that goes with it.
    pub grounds: u64,
    /// The slots of the own shard.
    own: Box<Bits>,
    /// Those whose keys this node has if it is a replica.
    copied: Box<Bits>,
    /// Those of which nothing waits: no move is about to end.
    free: Box<Bits>,
    /// Those of which no read waits, though a write may.
    readable: Box<Bits>,
    /// Slots whose writes wait, and slots whose reads wait, too; if there are any.
    held: Option<Box<[Bits; 2]>>,
    /// Keys whose writes wait for their mirrors.
    guarded: Arc<BTreeSet<Key>>,
    /// Whether this node is the primary of its shard by the records, and in which epoch.
    is_primary: bool,
    epoch: Epoch,
    /// Whether the server is not primary in that epoch nevertheless: it takes over a moment later and must not answer
    /// before, or has these records from before it took over, and must not answer by them.
    pub follows: bool,
    /// Whether this node may answer, as of the beginning of the batch.
    pub answers: bool,
}

/// The reason why a request is not served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// Its keys are in several slots.
    Across,
    /// No shard serves this slot.
    Unserved,
    /// Another node serves this slot.
    Elsewhere(Slot),
    /// This node serves the slot, but another one may have become its primary meanwhile.
    Unanswered,
}

impl Routes {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let mut routes = Routes {
            me: cluster.me,
            version: 0,
            directory: Arc::default(),
            moves: cluster.moves.clone(),
            mirrors: cluster.mirrors.clone(),
            grounds: 0,
            own: Box::new([0; SLOTS as usize / WORD]),
            copied: Box::new([0; SLOTS as usize / WORD]),
            free: Box::new([0; SLOTS as usize / WORD]),
            readable: Box::new([0; SLOTS as usize / WORD]),
            held: None,
            guarded: Arc::default(),
            is_primary: false,
            epoch: Epoch(0),
            follows: false,
            answers: true,
        };
        routes.renew(cluster);
        routes
    }

    /// Takes up what has been published since; whether there was anything.
    #[inline]
    pub(crate) fn renew(&mut self, cluster: &Cluster) -> bool {
        // The number must be read first: the next comparison then sees a publication in between.
        let version = cluster.version();
        let is_new = version != self.version;
        if is_new {
            self.take(version, &cluster.served());
        }
        is_new
    }

    #[cold]
    fn take(&mut self, version: u64, served: &Served) {
        let directory = served.directory.clone();
        let mine = directory.shard_of_node(self.me);
        self.is_primary = mine.is_some_and(|(_, shard)| shard.primary.node == self.me);
        self.epoch = mine.map_or(Epoch(0), |(_, shard)| shard.epoch);
        let mine = mine.map(|(id, _)| id);
        self.own.fill(0);
        let slots = (0..SLOTS).filter(|slot| mine.is_some() && directory.owners.of(*slot) == mine);
        slots.for_each(|slot| insert(&mut self.own, slot));
        self.copied.fill(0);
        served.copied.iter().for_each(|slot| insert(&mut self.copied, slot));
        (self.version, self.directory, self.grounds) = (version, directory, served.grounds);
        self.free.copy_from_slice(&self.own[..]);
        self.guarded = served.guarded.clone();
        for slot in self.guarded.iter().map(|key| slot_of(key)) {
            remove(&mut self.free, slot);
        }
        self.readable.copy_from_slice(&self.own[..]);
        self.held = None;
        for held in served.held.values() {
            let bits = self.held.get_or_insert_with(|| Box::new([[0; SLOTS as usize / WORD]; 2]));
            for slot in held.slots.iter().filter(|slot| has(&self.own, *slot)) {
                insert(&mut bits[0], slot);
                if held.reads {
                    insert(&mut bits[1], slot);
                }
                remove(&mut self.free, slot);
                remove(&mut self.readable, slot);
            }
        }
    }

    /// The number of the publication.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The epoch of the own shard in the records.
    #[inline]
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether this node answers as the primary of its shard.
    #[inline]
    fn leads(&self) -> bool {
        self.is_primary && !self.follows
    }

    /// Whether a replica may serve a slot of its own shard: its copy must be good enough for the request, and have all
    /// keys by the primary's word.
    fn serves_copy(&self, slot: Slot, use_of_copy: UseOfCopy) -> bool {
        match use_of_copy {
            UseOfCopy::None => false,
            UseOfCopy::Read => has(&self.copied, slot),
            UseOfCopy::Channel => true,
        }
    }

    /// Whether the own shard has the slot.
    #[inline]
    fn is_own(&self, slot: Slot) -> bool {
        has(&self.own, slot)
    }

    /// Whether this node serves a request of this client, and need not let it wait. Transactions and scripts are looked
    /// at elsewhere.
    #[inline]
    pub(crate) fn serves(&self, spec: &Spec, args: ArgsView<'_>, client: &Client) -> bool {
        match spec.sole_key() {
            Some(at) => {
                let slot = slot_of(args.at(at));
                (has(&self.free, slot) || self.reads_freely(spec, slot, client))
                    && self.answers
                    && (self.leads() || self.serves_copy(slot, use_of_copy(spec, client)))
            }
            None => {
                let by = client.shared.id;
                self.place(spec, args, client).is_ok() && !self.must_wait(spec, args, client, by)
            }
        }
    }

    /// Whether a request only reads a slot whose keys are mirrored.
    #[cold]
    fn reads_freely(&self, spec: &Spec, slot: Slot, client: &Client) -> bool {
        has(&self.readable, slot) && !client.may_write(spec)
    }

    /// Whether a request must wait, because slots of it are about to move, or mirrors of its keys are to end. `by` is
    /// the holder that has dropped these keys, if one has.
    #[inline]
    pub(crate) fn must_wait(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        client: &Client,
        by: HolderId,
    ) -> bool {
        match &self.held {
            _ if self.moves.expects_any() && flushes(spec, client) => self.flush_must_wait(),
            Some(held) => {
                self.must_wait_for(held, spec, args, client)
                    || self.must_wait_for_mirrors(spec, args, client, by)
            }
            None if self.guarded.is_empty() => false,
            None => self.must_wait_for_mirrors(spec, args, client, by),
        }
    }

    /// Whether a request must wait, because mirrors may answer reads of keys that it writes. Their owner lets them end.
    #[cold]
    fn must_wait_for_mirrors(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        client: &Client,
        by: HolderId,
    ) -> bool {
        let mut waits = false;
        let mut look = |spec: &Spec, args: ArgsView<'_>| {
            let is_sort = spec.id == CommandId::Sort;
            // The keys that a script does not declare are looked at when it names them.
            if spec.may_touch_any_key() && spec.group != Group::Scripting && !is_sort {
                return waits |= self.want_all();
            }
            // SORT reads its first key and those that its patterns name.
            let keys = spec.keys_of(args).skip(usize::from(is_sort));
            for key in keys.filter(|key| self.guarded.contains(*key)) {
                self.mirrors.want(key, by);
                waits = true;
            }
        };
        match client.transaction.queue().filter(|_| spec.id == CommandId::Exec) {
            Some(queue) => {
                queue
                    .commands()
                    .filter(|(spec, _)| client.may_write(spec))
                    .for_each(|(spec, args)| look(spec, args));
            }
            None if client.may_write(spec) => look(spec, args),
            None => {}
        }
        waits
    }

    /// Has all mirrors end, and tells whether there are any. All holders are asked, also one that writes: a proxy drops
    /// only the slot by which it sends the request.
    pub(crate) fn want_all(&self) -> bool {
        self.guarded.iter().for_each(|key| self.mirrors.want(key, NOBODY));
        !self.guarded.is_empty()
    }

    /// Whether a request must wait that removes all keys: for slots that come any moment, since their keys are to go,
    /// too, and for the end of an attempt to give slots away, which it brings about.
    #[cold]
    fn flush_must_wait(&self) -> bool {
        let must_wait = self.held.is_some() || self.moves.expects_any();
        if must_wait {
            self.moves.note_flush();
        }
        must_wait
    }

    #[cold]
    fn must_wait_for(
        &self,
        [writes, reads]: &[Bits; 2],
        spec: &Spec,
        args: ArgsView<'_>,
        client: &Client,
    ) -> bool {
        if flushes(spec, client) {
            return self.flush_must_wait();
        }
        let may_write = client.may_write(spec);
        let held = if may_write { writes } else { reads };
        let waits = |spec: &Spec, args: ArgsView<'_>| {
            // What concerns all keys concerns those that are moving.
            may_write && spec.may_touch_any_key() && spec.routing_keys_of(args).next().is_none()
                || !spec.is_routed_by_channel()
                    && spec.routing_keys_of(args).any(|key| has(held, slot_of(key)))
        };
        match client.transaction.queue().filter(|_| spec.id == CommandId::Exec) {
            Some(queue) => {
                // The new owner may be changing keys that are watched.
                let mut watched = client.transaction.watched.iter();
                watched.any(|stamp| has(reads, slot_of(stamp.key())))
                    || queue.commands().any(|(spec, args)| waits(spec, args))
            }
            None => waits(spec, args),
        }
    }

    /// The same for a request of another protocol: one that uses these keys, or without any all keys.
    pub(crate) fn must_wait_with<'k>(
        &self,
        keys: Option<impl Iterator<Item = &'k [u8]>>,
        may_write: bool,
    ) -> bool {
        let Some(keys) = keys else {
            return may_write && (self.flush_must_wait() | self.want_all());
        };
        let mut waits = false;
        for key in keys {
            if let Some(held) = &self.held {
                let [writes, reads] = &**held;
                waits |= has(if may_write { writes } else { reads }, slot_of(key));
            }
            if may_write && self.guarded.contains(key) {
                self.mirrors.want(key, NOBODY);
                waits = true;
            }
        }
        waits
    }

    /// Whether the own shard has the slot of this key.
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.is_own(slot_of(key))
    }

    /// Whether messages on this shard channel come to this node: they go to all nodes of its shard.
    pub(crate) fn serves_channel(&self, channel: &[u8]) -> bool {
        self.has_key(channel)
    }

    /// The slot of a single request's keys, if it has any.
    pub(crate) fn place(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        client: &Client,
    ) -> Result<Option<Slot>, Misplaced> {
        self.check_whole(spec)?;
        self.check(spec.routing_keys_of(args), use_of_copy(spec, client))
    }

    /// Whether a command may run that uses the data of this node without naming keys.
    fn check_whole(&self, spec: &Spec) -> Result<(), Misplaced> {
        match self.answers || !spec.uses_whole_store() {
            true => Ok(()),
            false => Err(Misplaced::Unanswered),
        }
    }

    /// The slot of these keys, if there are any.
    fn check<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k [u8]>,
        use_of_copy: UseOfCopy,
    ) -> Result<Option<Slot>, Misplaced> {
        let Some(first) = keys.next() else { return Ok(None) };
        let slot = slot_of(first);
        let is_own = self.is_own(slot);
        // As in Redis, a slot without an owner comes before several slots.
        if !is_own && self.primary_of(slot).is_none() {
            return Err(Misplaced::Unserved);
        }
        if keys.any(|key| slot_of(key) != slot) {
            return Err(Misplaced::Across);
        }
        match is_own && (self.leads() || self.serves_copy(slot, use_of_copy)) {
            true if self.answers => Ok(Some(slot)),
            true => Err(Misplaced::Unanswered),
            false => Err(Misplaced::Elsewhere(slot)),
        }
    }

    /// The error of a request that this node does not serve.
    pub(crate) fn refusal(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        client: &Client,
    ) -> Option<Cow<'static, str>> {
        if client.is_of_primary() {
            return None;
        }
        let use_of_copy = use_of_copy(spec, client);
        let queue = client.transaction.queue().filter(|_| spec.id == CommandId::Exec);
        let checked = match queue {
            Some(queue) => {
                let keys = queue.commands().flat_map(|(spec, args)| spec.routing_keys_of(args));
                let mut specs = queue.commands().map(|(spec, _)| spec);
                specs
                    .try_for_each(|spec| self.check_whole(spec))
                    .and_then(|()| self.check(keys, use_of_copy))
            }
            None => self.place(spec, args, client),
        };
        checked.err().map(|misplaced| self.message(misplaced, client.uses_tls))
    }

    /// The error that sends a client which waits for these keys to their new owner, if another shard has them.
    pub(crate) fn moved<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        client: &Client,
    ) -> Option<Cow<'static, str>> {
        let slot = keys.map(slot_of).find(|slot| !self.is_own(*slot))?;
        Some(self.message(Misplaced::Elsewhere(slot), client.uses_tls))
    }

    /// The error of a request of another protocol that uses these keys, unless this node serves them: as their primary,
    /// or with `may_read_copy` as a replica, which refuses writes elsewhere.
    pub(crate) fn stranger<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        may_read_copy: bool,
        uses_tls: bool,
    ) -> Option<String> {
        let mut keys = keys.map(slot_of).peekable();
        if keys.peek().is_some()
            && let Some(why) = self.unanswered()
        {
            return Some(why);
        }
        let serves =
            |slot| self.is_own(slot) && (self.leads() || may_read_copy && has(&self.copied, slot));
        let slot = keys.find(|slot| !serves(*slot))?;
        Some(self.message(Misplaced::Elsewhere(slot), uses_tls).into_owned())
    }

    /// The error of a request for data of this node, if it may not answer now.
    pub(crate) fn unanswered(&self) -> Option<String> {
        (!self.answers).then(|| UNANSWERED.to_string())
    }

    fn message(&self, misplaced: Misplaced, uses_tls: bool) -> Cow<'static, str> {
        let moved = match misplaced {
            Misplaced::Across => {
                return "CROSSSLOT Keys in request don't hash to the same slot".into();
            }
            Misplaced::Unanswered => return UNANSWERED.into(),
            Misplaced::Unserved => None,
            Misplaced::Elsewhere(slot) if self.moves.expects(slot) => return EXPECTED.into(),
            Misplaced::Elsewhere(slot) => self.primary_of(slot).map(|node| (slot, node)),
        };
        match moved {
            // A client that is sent here again would ask without an end.
            Some((slot, _)) if self.is_primary && self.is_own(slot) => NOT_YET.into(),
            Some((slot, node)) => {
                format!("MOVED {slot} {}:{}", node.host, port_for(node, uses_tls)).into()
            }
            None => "CLUSTERDOWN Hash slot not served".into(),
        }
    }

    fn primary_of(&self, slot: Slot) -> Option<&Node> {
        let (_, shard) = self.directory.shard_of_slot(slot)?;
        self.directory.node(shard.primary.node)
    }
}

#[inline]
fn has(bits: &Bits, slot: Slot) -> bool {
    bits[usize::from(slot) / WORD] >> (usize::from(slot) % WORD) & 1 != 0
}

fn remove(bits: &mut Bits, slot: Slot) {
    bits[usize::from(slot) / WORD] &= !(1 << (usize::from(slot) % WORD));
}

fn insert(bits: &mut Bits, slot: Slot) {
    bits[usize::from(slot) / WORD] |= 1 << (usize::from(slot) % WORD);
}

/// Whether a request, or the transaction that it runs, removes all keys.
fn flushes(spec: &Spec, client: &Client) -> bool {
    let flushes = |spec: &Spec| matches!(spec.id, CommandId::FlushAll | CommandId::FlushDb);
    match client.transaction.queue().filter(|_| spec.id == CommandId::Exec) {
        Some(queue) => queue.commands().any(|(spec, _)| flushes(spec)),
        None => flushes(spec),
    }
}

/// What a request wants of a replica.
#[derive(Clone, Copy)]
enum UseOfCopy {
    /// Nothing: only the primary answers it.
    None,
    /// Keys.
    Read,
    /// Messages, which come to all nodes of a shard.
    Channel,
}

#[inline]
fn use_of_copy(spec: &Spec, client: &Client) -> UseOfCopy {
    // ORDERING: Relaxed, only this connection's thread changes it.
    let reads_copies = client.shared.reads_copies.load(Ordering::Relaxed);
    match reads_copies && !client.changes_keys(spec) {
        _ if spec.is_routed_by_channel() => UseOfCopy::Channel,
        true => UseOfCopy::Read,
        false => UseOfCopy::None,
    }
}

/// The port at which a client reaches a node: over TLS, if the client came so and the node has such a port.
pub(crate) fn port_for(node: &Node, uses_tls: bool) -> u16 {
    node.tls_port.filter(|_| uses_tls).unwrap_or(node.port)
}
