//! The endpoint over libfabric: shared memory, TCP, and RDMA where there is an adapter for it.
//!
//! Two ends first meet over a socket. They tell each other their addresses of the library, and a random token that must
//! follow each message to them: the library does not tell who has sent a message. The socket also shows that a peer has
//! ended, however that came, and wakes a peer that sleeps, for which not all providers have a means.
//!
//! The library progresses only while it is called. So sleeps are naps: short ones after something has happened, longer
//! ones when all is quiet. They bound what a message costs whose bell was not rung.
#![allow(unsafe_code)]

pub mod abi;
mod control;
mod device;
mod guard;
mod leftovers;
mod library;
mod meeting;
mod provider;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

pub use provider::Provider;

use crate::endpoint::{Completion, Endpoint, Limits, Peer, Slab, Slot};
use crate::sockets::{Listener, Sockets, UNIX};
use control::Control;
use device::{Address, Device, Done, Sent};

/// What follows each message: the receiver's token for this sender.
const TOKEN_LEN: usize = size_of::<u64>();

/// Slots of the sockets, of which half receive.
const CONTROL_SLOTS: u32 = 64;

/// Most peers of an endpoint of shared memory: its region has places for these and itself.
const SHM_PEERS_MAX: usize = 255;

/// Addresses that are expected. More find room, too.
const PEERS: usize = 64;

/// The shortest and the longest nap while something has happened not long ago.
const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(1);

/// After this long without a message all is quiet.
const QUIET: Duration = Duration::from_millis(100);

/// The longest nap.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// A peer to which nothing was sent for this long may sleep.
const BELL_AFTER: Duration = Duration::from_micros(20);

/// The time between two looks at the sockets, each a system call, while the thread does not sleep.
const LOOK_AFTER: Duration = Duration::from_micros(50);

/// An endpoint over libfabric. Addresses are `PROVIDER,HOST:PORT` or `PROVIDER,unix:PATH`, of its sockets.
#[derive(Debug)]
pub struct Fabric {
    /// Before the slab, which it uses until it is closed.
    device: Device,
    slab: Slab,
    provider: Provider,
    /// The IP address under which others reach it, if the provider has those.
    node: Option<String>,
    /// The locked file of its shared memory.
    _memory: Option<File>,
    sockets: Sockets,
    listens: bool,
    peers_max: usize,
    links: BTreeMap<Peer, Link>,
    tokens: BTreeMap<u64, Peer>,
    uses: Vec<Use>,
    /// RECVs for which the library had no room.
    unposted: Vec<Slot>,
    completed: Vec<Completion>,
    /// A message was given back since the last poll.
    has_refused: bool,
    unread_max: Duration,
    looked_at: Instant,
    /// When a message has come or gone.
    active_at: Instant,
    alarm: Arc<Alarm>,
    done: Vec<Done>,
}

/// A peer whose address is known.
#[derive(Debug)]
struct Link {
    address: Address,
    /// What must follow each message to it.
    token: u64,
    /// Messages that have not left their slots.
    pending: usize,
    /// Since when it has taken nothing, if something waits for it.
    unread_since: Option<Instant>,
    /// When something was sent to it.
    spoken_at: Instant,
    /// It has left, and its address is kept until nothing is pending.
    is_over: bool,
}

/// What the library has a slot for.
#[derive(Debug, Default)]
enum Use {
    #[default]
    None,
    Receive(Slot),
    Send(Slot, Peer),
}

/// Ends waits. The flag is for a thread that does not sleep.
#[derive(Debug)]
struct Alarm {
    is_rung: AtomicBool,
    sleeper: Waker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        // ORDERING: Release, for `poll` to see what the wake-up tells of.
        self.is_rung.store(true, Ordering::Release);
        self.sleeper.wake_by_ref();
    }
}

/// What the endpoint of a provider is made of.
fn open(
    provider: Provider,
    node: Option<&str>,
    slab: &Slab,
    slots: usize,
) -> io::Result<(Device, Option<File>)> {
    let name = (provider == Provider::Shm).then(leftovers::new_name).transpose()?;
    let node = name.as_deref().or(node);
    // SAFETY: the slab never moves its bytes, and `Fabric` drops its device first.
    let mut device =
        unsafe { Device::open(provider.of_library(), node, slots, PEERS, slab.memory())? };
    let name = if name.is_some() { device.name()? } else { Vec::new() };
    let memory = device::memory_name(&name).map(leftovers::keep).transpose()?;
    if device.message_len_max < slab.slot_len() {
        let longest = device.message_len_max.saturating_sub(TOKEN_LEN);
        let why = format!("the longest message of {} has {longest} bytes", provider.name());
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok((device, memory))
}

impl Fabric {
    /// A client's end for a server's address, with `slots` slots for messages of at most `message_len_max` bytes.
    ///
    /// # Errors
    /// The library is not installed, or has no such provider here.
    pub fn new(
        provider: Provider,
        address: &str,
        slots: u32,
        message_len_max: usize,
    ) -> io::Result<Fabric> {
        let ip = provider.has_ip().then(|| provider::own_ip(address)).transpose()?;
        let sockets = Sockets::new(CONTROL_SLOTS, control::LEN_MAX)?;
        let node = ip.map(|ip| ip.to_string());
        Fabric::with(provider, sockets, node, usize::MAX, slots, message_len_max)
    }

    /// A server's end, to which others connect over `listener`: at most `connections_max` at a time.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn on(
        provider: Provider,
        listener: Listener,
        connections_max: usize,
        slots: u32,
        message_len_max: usize,
    ) -> io::Result<Fabric> {
        let node = match &listener {
            Listener::Unix(_) => provider::own_ip(UNIX)?,
            Listener::Tcp(listener) => listener.local_addr()?.ip(),
        };
        let node = (provider.has_ip() && !node.is_unspecified()).then(|| node.to_string());
        let sockets = Sockets::on(listener, connections_max, CONTROL_SLOTS, control::LEN_MAX)?;
        let mut fabric =
            Fabric::with(provider, sockets, node, connections_max, slots, message_len_max)?;
        fabric.listens = true;
        Ok(fabric)
    }

    fn with(
        provider: Provider,
        mut sockets: Sockets,
        node: Option<String>,
        peers_max: usize,
        slots: u32,
        message_len_max: usize,
    ) -> io::Result<Fabric> {
        leftovers::sweep(Path::new(leftovers::FOLDER));
        let slab = Slab::new(slots, message_len_max + TOKEN_LEN);
        let (device, memory) = open(provider, node.as_deref(), &slab, slots as usize)?;
        for _ in 0..CONTROL_SLOTS / 2 {
            let slot = sockets.slab().take().expect("half of them");
            sockets.post(slot);
        }
        let alarm = Alarm { is_rung: AtomicBool::new(false), sleeper: sockets.waker() };
        let peers_max = match provider {
            Provider::Shm => peers_max.min(SHM_PEERS_MAX),
            _ => peers_max,
        };
        let now = Instant::now();
        Ok(Fabric {
            device,
            slab,
            provider,
            node,
            _memory: memory,
            sockets,
            listens: false,
            peers_max,
            links: BTreeMap::new(),
            tokens: BTreeMap::new(),
            uses: (0..slots).map(|_| Use::None).collect(),
            unposted: Vec::new(),
            completed: Vec::new(),
            has_refused: false,
            unread_max: Duration::MAX,
            looked_at: now,
            active_at: now,
            alarm: Arc::new(alarm),
            done: Vec::new(),
        })
    }

    /// See [`Sockets::set_keepalive`].
    pub fn set_keepalive(&mut self, silence: Option<Duration>) {
        self.sockets.set_keepalive(silence);
    }

    /// Opens the library's endpoint again, as nothing else gives back the slots of messages to peers that have ended.
    /// All peers must connect again.
    fn reopen(&mut self) -> io::Result<()> {
        let slots = self.uses.len();
        let (device, memory) = open(self.provider, self.node.as_deref(), &self.slab, slots)?;
        (self.device, self._memory) = (device, memory);
        for used in self.uses.iter_mut().map(std::mem::take) {
            match used {
                Use::None => {}
                Use::Receive(slot) => self.unposted.push(slot),
                Use::Send(slot, _) => self.completed.push(Completion::Sent(slot)),
            }
        }
        self.tokens.clear();
        for (peer, link) in std::mem::take(&mut self.links) {
            self.sockets.leave(peer);
            if !link.is_over {
                self.completed.push(Completion::Left(peer));
            }
        }
        self.post_all();
        Ok(())
    }

    /// Whether messages to peers that have ended keep more than half of the slots.
    fn has_lost_most_slots(&self) -> bool {
        let lost = self.links.values().filter(|link| link.is_over).map(|link| link.pending);
        lost.sum::<usize>() * 2 > self.uses.len()
    }

    fn post_all(&mut self) {
        while let Some(slot) = self.unposted.pop() {
            let index = slot.index();
            // SAFETY: a slot of the registered slab, and whoever had it has given it away.
            if !unsafe { self.device.receive(index, self.slab.place(&slot)) } {
                self.unposted.push(slot);
                return;
            }
            self.uses[index] = Use::Receive(slot);
        }
    }

    /// Ends a peer's connection, and tells it.
    fn end(&mut self, peer: Peer) {
        self.leave(peer);
        self.completed.push(Completion::Left(peer));
    }

    fn forget(&mut self, peer: Peer) {
        self.tokens.retain(|_, of| *of != peer);
        if let Some(link) = self.links.get_mut(&peer) {
            link.is_over = true;
            self.clean(peer);
        }
    }

    /// Forgets the address of a peer that has ended once the library has nothing for it.
    fn clean(&mut self, peer: Peer) {
        if self.links.get(&peer).is_some_and(|link| link.is_over && link.pending == 0) {
            let link = self.links.remove(&peer).expect("it was found");
            self.device.remove(link.address);
        }
    }

    /// Takes what the library has done.
    fn progress(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        self.device.poll(&mut done);
        if !done.is_empty() {
            self.active_at = Instant::now();
        }
        for Done { slot, len } in done.drain(..) {
            match (std::mem::take(&mut self.uses[slot]), len) {
                (Use::None, _) => {}
                (Use::Receive(slot), Some(len)) => self.received(slot, len),
                // What is too long for a slot is not for us.
                (Use::Receive(slot), None) => self.unposted.push(slot),
                (Use::Send(slot, peer), len) => {
                    self.completed.push(Completion::Sent(slot));
                    self.sent(peer, len.is_some());
                }
            }
        }
        self.done = done;
    }

    fn received(&mut self, slot: Slot, len: usize) {
        let bytes = &self.slab.bytes(&slot)[..len];
        let message = bytes.split_last_chunk::<TOKEN_LEN>();
        let from = message.and_then(|(_, token)| self.tokens.get(&u64::from_le_bytes(*token)));
        match from {
            Some(peer) => {
                let (from, len) = (Some(*peer), len - TOKEN_LEN);
                self.completed.push(Completion::Received { from, slot, len });
            }
            // Of an earlier connection, or of a stranger.
            None => self.unposted.push(slot),
        }
    }

    /// A message has left its slot.
    fn sent(&mut self, peer: Peer, is_right: bool) {
        let Some(link) = self.links.get_mut(&peer) else { return };
        link.pending -= 1;
        link.unread_since = (link.pending > 0).then_some(self.active_at);
        if !is_right && !link.is_over {
            return self.end(peer);
        }
        self.clean(peer);
    }

    /// Sleeps until something may be there, at most for `limit`.
    fn sleep(&mut self, nap: Duration, limit: Duration) {
        let has_file = self.device.has_file();
        match self.device.file() {
            Some(file) => self.sockets.wait_for(file, limit.min(SLEEP_MAX)),
            // The library has something to do.
            None if has_file => {}
            None => self.sockets.wait(Duration::ZERO, nap.min(limit)),
        }
    }

    fn has_something(&self) -> bool {
        // ORDERING: Relaxed: `poll` reads it again before anything is made of it.
        !self.completed.is_empty() || self.alarm.is_rung.load(Ordering::Relaxed)
    }
}

impl Endpoint for Fabric {
    fn address(&self) -> Vec<u8> {
        let address = self.sockets.address();
        match address.is_empty() {
            true => address,
            false => [self.provider.name().as_bytes(), b",", &address].concat(),
        }
    }

    fn peer(&mut self, address: &[u8], limit: Duration) -> io::Result<Peer> {
        let address = std::str::from_utf8(address).map_err(|_| ErrorKind::InvalidInput)?;
        let (provider, address) = Provider::split(address);
        if provider != Some(self.provider) {
            return Err(ErrorKind::InvalidInput.into());
        }
        if self.uses.iter().any(|used| matches!(used, Use::Send(..))) {
            self.reopen()?;
        }
        let peer = self.sockets.peer(address.as_bytes(), limit)?;
        let greeted = self.greet(peer).and_then(|()| self.await_greeting(peer, limit));
        match greeted {
            Ok(()) => Ok(peer),
            Err(error) => {
                self.leave(peer);
                Err(error)
            }
        }
    }

    fn origin(&self, peer: Peer) -> String {
        self.sockets.origin(peer)
    }

    fn limits(&self) -> Limits {
        Limits { message_len_max: self.slab.slot_len() - TOKEN_LEN, reliable: true }
    }

    fn slab(&mut self) -> &mut Slab {
        &mut self.slab
    }

    fn post(&mut self, slot: Slot) {
        self.unposted.push(slot);
        self.post_all();
    }

    fn send(&mut self, peer: Peer, slot: Slot, len: usize) -> Result<(), Slot> {
        let Some(link) = self.links.get_mut(&peer).filter(|link| !link.is_over) else {
            self.completed.push(Completion::Sent(slot));
            return Ok(());
        };
        let end = len + TOKEN_LEN;
        let bytes = &mut self.slab.bytes_mut(&slot)[..end];
        bytes[len..].copy_from_slice(&link.token.to_le_bytes());
        let bytes: *const [u8] = bytes;
        let (now, index) = (Instant::now(), slot.index());
        // SAFETY: the bytes of a slot of the registered slab, which is kept if they are sent later.
        match unsafe { self.device.send(link.address, index, bytes) } {
            Sent::Now => {
                link.unread_since = (link.pending > 0).then_some(now);
                self.completed.push(Completion::Sent(slot));
            }
            Sent::Later => {
                link.pending += 1;
                link.unread_since.get_or_insert(now);
                self.uses[index] = Use::Send(slot, peer);
            }
            Sent::Again => {
                link.unread_since.get_or_insert(now);
                self.has_refused = true;
                return Err(slot);
            }
            Sent::Never => {
                self.completed.push(Completion::Sent(slot));
                self.end(peer);
                return Ok(());
            }
        }
        self.active_at = now;
        let may_sleep = now - std::mem::replace(&mut link.spoken_at, now) >= BELL_AFTER;
        if may_sleep && !self.device.has_file() {
            // Without room for it the peer looks when its nap ends.
            self.say(peer, Control::Bell);
        }
        Ok(())
    }

    fn has_sent_all(&self) -> bool {
        let mut open = self.links.values().filter(|link| !link.is_over);
        open.all(|link| link.pending == 0) && self.sockets.has_sent_all()
    }

    fn takes_nothing(&self, peer: Peer, time: Duration) -> bool {
        let since = self.links.get(&peer).and_then(|link| link.unread_since);
        since.is_some_and(|since| since.elapsed() >= time)
    }

    fn set_unread_max(&mut self, unread_max: Duration) {
        self.unread_max = unread_max;
    }

    fn leave(&mut self, peer: Peer) {
        self.sockets.leave(peer);
        self.forget(peer);
    }

    fn poll(&mut self, out: &mut Vec<Completion>) {
        // ORDERING: Acquire, for the caller to see what the wake-up tells of.
        let is_rung = self.alarm.is_rung.swap(false, Ordering::Acquire);
        self.has_refused = false;
        self.progress();
        if is_rung || self.looked_at.elapsed() >= LOOK_AFTER {
            self.look();
        }
        let late = self.links.iter().filter(|(_, link)| {
            !link.is_over
                && link.unread_since.is_some_and(|since| since.elapsed() >= self.unread_max)
        });
        let late: Vec<Peer> = late.map(|(peer, _)| *peer).collect();
        late.into_iter().for_each(|peer| self.end(peer));
        if self.has_lost_most_slots() {
            // A failure is tried again.
            let _ = self.reopen();
        }
        self.post_all();
        out.append(&mut self.completed);
    }

    fn wait(&mut self, spin: Duration, limit: Duration) {
        let begun = Instant::now();
        let is_quiet = |active_at: Instant| active_at.elapsed() >= QUIET;
        let mut nap = if is_quiet(self.active_at) { SLEEP_MAX } else { NAP_MIN };
        loop {
            self.progress();
            let elapsed = begun.elapsed();
            if self.has_something() || elapsed >= limit {
                return;
            }
            if elapsed < spin {
                if self.looked_at.elapsed() >= LOOK_AFTER {
                    self.look();
                }
                std::hint::spin_loop();
                continue;
            }
            self.sleep(nap, limit - elapsed);
            self.look();
            // Nothing tells when there is room again.
            if self.has_refused {
                return;
            }
            nap = (nap * 2).min(if is_quiet(self.active_at) { SLEEP_MAX } else { NAP_MAX });
        }
    }

    fn waker(&self) -> Waker {
        self.alarm.clone().into()
    }
}
