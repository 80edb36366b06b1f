//! The treatment of requests that need keys held by a slow script: they wait, or are refused with BUSY.
//!
//! A script is slow once it has used up its first time slice. A request that then needs the script's keys must not
//! enter the gate: the request waits outside, checks again periodically, and is refused with BUSY once the script has
//! held its keys for `busy-reply-threshold`. A request that entered the gate before the script was slow waits there
//! until the script ends. So does a request that has already waited outside once: the gate serves in order, and a
//! script that is started repeatedly must not keep other requests out between two checks.

use hotring_protocol::ArgsView;
use hotring_store::HoldInfo;

use crate::state::client::{Client, Wait};
use crate::state::scripts::{digest, parse_digest};
use crate::state::thread::ThreadState;
use crate::table::{CommandId, Flags, Spec};

/// The wait between two checks is the time that the script has held its keys, divided by `LOOK_PART`, within the bounds
/// `LOOK_MIN_MS` and `LOOK_MAX_MS`: long waits must not cost much CPU, and short waits must not become much longer.
const LOOK_PART: u64 = 16;
const LOOK_MIN_MS: u64 = 1;
const LOOK_MAX_MS: u64 = 50;

/// The keys that a request needs.
enum Needs {
    Nothing,
    Keys(Vec<Box<[u8]>>),
    /// Any key, or all of them.
    Everything,
}

impl ThreadState {
    /// The wait of a request that needs a slow script's keys; None if there is none, or if the script has held the keys
    /// longer than `busy-reply-threshold`.
    pub(super) fn script_wait(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        client: &Client,
        now: u64,
    ) -> Option<Wait> {
        if !self.is_slow || client.has_waited_for_script {
            return None;
        }
        let (info, key) = self.script_hold(spec, args, client)?;
        let access = client.access();
        let may_run = !access.is_locked() && access.check(spec, args).is_ok();
        let since_ms = info.since_ms;
        (may_run && !self.is_long(info, now)).then_some(Wait::Script { key, since_ms })
    }

    /// Whether a script has held keys of the request longer than `busy-reply-threshold`.
    pub(super) fn is_busy(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        client: &Client,
        now: u64,
    ) -> bool {
        self.script_hold(spec, args, client).is_some_and(|(info, _)| self.is_long(info, now))
    }

    /// The time of the next check of a script that has held this key, or any key, since `since_ms`. None if the script
    /// has ended or has held the key longer than `busy-reply-threshold`.
    pub(super) fn look_at_script(
        &self,
        key: Option<&[u8]>,
        since_ms: u64,
        now: u64,
    ) -> Option<u64> {
        let info = self.held_by_script(key)?;
        if info.since_ms != since_ms || self.is_long(info, now) {
            return None;
        }
        let wait = now.saturating_sub(info.since_ms) / LOOK_PART;
        let next = now + wait.clamp(LOOK_MIN_MS, LOOK_MAX_MS);
        let long_at = info.since_ms + self.config.busy_reply_ms;
        Some(if self.config.busy_reply_ms > 0 { next.min(long_at.max(now + 1)) } else { next })
    }

    /// A script's hold on a key that the request needs, and that key; no key if the request needs all keys.
    fn script_hold(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        client: &Client,
    ) -> Option<(HoldInfo, Option<Box<[u8]>>)> {
        match self.needs(spec, args, client) {
            Needs::Nothing => None,
            Needs::Everything => Some((self.held_by_script(None)?, None)),
            Needs::Keys(keys) => {
                keys.into_iter().find_map(|key| Some((self.held_by_script(Some(&key))?, Some(key))))
            }
        }
    }

    fn needs(&self, spec: &Spec, args: ArgsView<'_>, client: &Client) -> Needs {
        let Some(queue) = client.transaction.queue() else { return self.needs_alone(spec, args) };
        // In an open transaction EXEC needs the keys of all its commands; other requests are only queued.
        if spec.id != CommandId::Exec {
            return Needs::Nothing;
        }
        let watched = client.transaction.watched.iter().map(|stamp| stamp.key().into());
        let mut keys: Vec<Box<[u8]>> = watched.collect();
        for (spec, args) in queue.commands() {
            match self.needs_alone(spec, args) {
                Needs::Nothing => {}
                Needs::Keys(more) => keys.extend(more),
                Needs::Everything => return Needs::Everything,
            }
        }
        Needs::Keys(keys)
    }

    fn needs_alone(&self, spec: &Spec, args: ArgsView<'_>) -> Needs {
        use CommandId as Id;
        let sha = match spec.id {
            Id::Eval | Id::EvalRo => Some(digest(args.at(1))),
            Id::EvalSha | Id::EvalShaRo => parse_digest(args.at(1)),
            _ => None,
        };
        if let Some(sha) = sha {
            // A script that is not known to use only its declared keys holds all keys.
            let script = self.server.scripts.find(&sha);
            if script.is_none_or(|script| !script.is_declared()) {
                return Needs::Everything;
            }
        }
        let mut keys = spec.keys_of(args).map(Box::from).peekable();
        let walks = spec.flags.contains(Flags::READONLY) || spec.flags.contains(Flags::WRITE);
        match keys.peek() {
            Some(_) => Needs::Keys(keys.collect()),
            None if walks && spec.keys.is_empty() && sha.is_none() => Needs::Everything,
            None => Needs::Nothing,
        }
    }
}
