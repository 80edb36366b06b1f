//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO: control of client-side caching.

use std::collections::BTreeSet;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hotring_protocol::parse_i64;

use crate::state::client::{BROKEN_REDIRECT, Client, ClientShared};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::tracking::Tracking;
use crate::state::tracking::{Mode, Options};
use crate::table::quoted;

pub(crate) fn tracking(c: &mut Context<'_>) -> Outcome {
    let wanted = Wanted::parse(c)?;
    match c.args[2].to_ascii_lowercase().as_slice() {
        b"on" => begin(wanted, c)?,
        b"off" => leave(c.client, &c.server.push.tracking),
        _ => return Err(Failure::Syntax),
    }
    c.reply.ok();
    Ok(())
}

fn begin(mut wanted: Wanted, c: &mut Context<'_>) -> Outcome {
    let options = wanted.check(c)?;
    let Wanted { prefixes, redirect, .. } = wanted;
    c.server.push.tracking.enter(&c.client.shared, &options, &prefixes, redirect);
    c.client.track(Some(options));
    // Must follow `enter`: T1 in `crate::state::tracking`.
    c.store.observe(|| true);
    Ok(())
}

/// Ends tracking, for TRACKING OFF, RESET, and the end of a connection.
pub(crate) fn leave(client: &mut Client, tracking: &Tracking) {
    if let Some(options) = client.tracking() {
        tracking.leave(options);
        client.track(None);
    }
}

/// The options of the request.
#[derive(Default)]
struct Wanted {
    redirect: Option<Arc<ClientShared>>,
    prefixes: Vec<Box<[u8]>>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
}

impl Wanted {
    fn parse(c: &Context<'_>) -> Result<Wanted, Failure> {
        let mut wanted = Wanted::default();
        let mut at = 3;
        while let Some(word) = c.args.get(at) {
            let value = c.args.get(at + 1);
            at += 1;
            match (word.to_ascii_lowercase().as_slice(), value) {
                (b"redirect", Some(id)) => {
                    at += 1;
                    wanted.redirect = Some(wanted.other(c, id)?);
                }
                (b"prefix", Some(prefix)) => {
                    at += 1;
                    wanted.prefixes.push(prefix.into());
                }
                (b"bcast", _) => wanted.broadcast = true,
                (b"optin", _) => wanted.opt_in = true,
                (b"optout", _) => wanted.opt_out = true,
                (b"noloop", _) => wanted.no_loop = true,
                _ => return Err(Failure::Syntax),
            }
        }
        Ok(wanted)
    }

    fn other(&self, c: &Context<'_>, id: &[u8]) -> Result<Arc<ClientShared>, Failure> {
        if self.redirect.is_some() {
            return Err(Failure::text("ERR A client can only redirect to a single other client"));
        }
        let id = parse_i64(id).ok_or(Failure::NotAnInteger)?;
        let other = u64::try_from(id).ok().and_then(|id| c.server.clients.find(id));
        other.ok_or(Failure::text("ERR The client ID you want redirect to does not exist"))
    }

    /// Checks that the request agrees with itself and with the current options. Returns the resulting options.
    fn check(&mut self, c: &Context<'_>) -> Result<Options, Failure> {
        let before = c.client.tracking();
        let mode_before = before.map(|options| options.mode);
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err(Failure::text("ERR PREFIX option requires BCAST mode to be enabled"));
        }
        if mode_before.is_some_and(|mode| (mode == Mode::Broadcast) != self.broadcast) {
            return Err(Failure::text(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return Err(Failure::text("ERR OPTIN and OPTOUT are not compatible with BCAST"));
        }
        if self.opt_in && self.opt_out {
            return Err(Failure::text("ERR You can't specify both OPTIN mode and OPTOUT mode"));
        }
        if self.opt_in && mode_before == Some(Mode::OptOut)
            || self.opt_out && mode_before == Some(Mode::OptIn)
        {
            return Err(Failure::text(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
        let mode = match (self.broadcast, self.opt_in, self.opt_out) {
            (true, ..) => Mode::Broadcast,
            (_, true, _) => Mode::OptIn,
            (_, _, true) => Mode::OptOut,
            _ => Mode::All,
        };
        let prefixes = if self.broadcast { self.all_prefixes(before, c)? } else { BTreeSet::new() };
        let (number, entered) = match before {
            Some(before) => (before.number, before.entered),
            None => (c.server.push.tracking.next_number(), 0),
        };
        let (redirect, no_loop) = (self.redirect.as_ref().map(|other| other.id), self.no_loop);
        Ok(Options { number, mode, no_loop, redirect, prefixes, caching: false, entered })
    }

    /// The current prefixes and the new ones. If there are none, the empty prefix stands for all keys.
    fn all_prefixes(
        &mut self,
        before: Option<&Options>,
        c: &Context<'_>,
    ) -> Result<BTreeSet<Box<[u8]>>, Failure> {
        let mut all = before.map(|options| options.prefixes.clone()).unwrap_or_default();
        let config = c.server.settings.config();
        let max = config.subscriptions_max;
        if all.len() + self.prefixes.len() > max {
            return Err(format!("ERR more than {max} prefixes (max-subscriptions)").into());
        }
        check_overlaps(&self.prefixes, &all)?;
        if self.prefixes.is_empty() && all.insert(Box::default()) {
            self.prefixes.push(Box::default());
        }
        all.extend(self.prefixes.iter().cloned());
        if all.iter().map(|prefix| prefix.len()).sum::<usize>() > config.query_buffer_max {
            return Err(Failure::text(
                "ERR all prefixes are longer than client-query-buffer-limit",
            ));
        }
        Ok(all)
    }
}

/// Refuses new prefixes that overlap with each other or with the current ones, which do not overlap. The error names
/// the first pair that does.
fn check_overlaps(new: &[Box<[u8]>], before: &BTreeSet<Box<[u8]>>) -> Outcome {
    let with_before = |prefix: &[u8]| {
        // Prefixes that begin alike are adjacent in sorted order, so only the neighbours can overlap.
        let shorter = before.range::<[u8], _>((Unbounded, Included(prefix))).next_back();
        let longer = before.range::<[u8], _>((Included(prefix), Unbounded)).next();
        shorter.into_iter().chain(longer).find(|other| overlaps(prefix, other))
    };
    let first = new.iter().enumerate().find_map(|(i, prefix)| Some((i, with_before(prefix)?)));
    let among_new = first_overlap(new);
    match (first, among_new) {
        (Some((i, other)), pair) if pair.is_none_or(|(first, _)| i <= first) => {
            Err(overlap(&new[i], "an existing prefix", other))
        }
        (_, Some((i, j))) => Err(overlap(&new[i], "another provided prefix", &new[j])),
        (_, None) => Ok(()),
    }
}

/// The index of the first prefix that overlaps with a later one, and the index of the first one that it overlaps with.
fn first_overlap(prefixes: &[Box<[u8]>]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..prefixes.len()).collect();
    order.sort_by(|a, b| prefixes[*a].cmp(&prefixes[*b]));
    // In sorted order, the prefixes that begin with `shortest` follow it directly.
    let mut shortest = *order.first()?;
    let mut first = None;
    for &i in &order[1..] {
        if prefixes[i].starts_with(&prefixes[shortest]) {
            first = first.into_iter().chain([i, shortest]).min();
        } else {
            shortest = i;
        }
    }
    let i = first?;
    let others = (i + 1..prefixes.len()).filter(|j| overlaps(&prefixes[i], &prefixes[*j]));
    Some((i, others.min()?))
}

fn overlaps(a: &[u8], b: &[u8]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

fn overlap(prefix: &[u8], kind: &str, other: &[u8]) -> Failure {
    let (prefix, other) = (quoted(prefix), quoted(other));
    format!(
        "ERR Prefix '{prefix}' overlaps with {kind} '{other}'. Prefixes for a single client must not overlap."
    )
    .into()
}

pub(crate) fn caching(c: &mut Context<'_>) -> Outcome {
    let Some(mode) = c.client.tracking().map(|options| options.mode) else {
        return Err(Failure::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
             mode enabled",
        ));
    };
    match c.args[2].to_ascii_lowercase().as_slice() {
        b"yes" if mode == Mode::OptIn => {}
        b"no" if mode == Mode::OptOut => {}
        b"yes" => {
            return Err(Failure::text(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        b"no" => {
            return Err(Failure::text(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        _ => return Err(Failure::Syntax),
    }
    if let Some(options) = c.client.tracking_mut() {
        options.caching = true;
    }
    c.reply.ok();
    Ok(())
}

/// The ID of the connection to redirect to: 0 for none, -1 without tracking.
pub(crate) fn getredir(c: &mut Context<'_>) -> Outcome {
    c.reply.int(redirect(c));
    Ok(())
}

fn redirect(c: &Context<'_>) -> i64 {
    // ORDERING: Relaxed, only this thread writes it.
    c.client.shared.redirect.load(Ordering::Relaxed)
}

pub(crate) fn info(c: &mut Context<'_>) -> Outcome {
    let options = c.client.tracking().cloned().unwrap_or_default();
    let is_on = c.client.tracking().is_some();
    let Options { mode, no_loop, caching, .. } = options;
    // ORDERING: Relaxed, the flag is set by the thread that failed to notify the other client.
    let shown = c.client.shared.tracking.load(Ordering::Relaxed);
    let flags = [
        ("off", !is_on),
        ("on", is_on),
        ("bcast", mode == Mode::Broadcast),
        ("optin", mode == Mode::OptIn),
        ("caching-yes", mode == Mode::OptIn && caching),
        ("optout", mode == Mode::OptOut),
        ("caching-no", mode == Mode::OptOut && caching),
        ("noloop", no_loop),
        ("broken_redirect", shown & BROKEN_REDIRECT != 0),
    ];
    let flags: Vec<&str> =
        flags.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name).collect();
    c.reply.map(3);
    c.reply.bulk(b"flags");
    c.reply.set(flags.len());
    flags.iter().for_each(|name| c.reply.bulk(name.as_bytes()));
    c.reply.bulk(b"redirect");
    c.reply.int(redirect(c));
    c.reply.bulk(b"prefixes");
    c.reply.array(options.prefixes.len());
    options.prefixes.iter().for_each(|prefix| c.reply.bulk(prefix));
    c.check_reply_len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    #[test]
    fn many_prefixes_overlap_where_each_pair_of_them_would() {
        let mut random = Rng::with_seed(1);
        for _ in 0..2_000 {
            let mut some = |n: u64| -> Vec<Box<[u8]>> {
                let mut text = |_| -> Box<[u8]> {
                    let len = 1 + random.u64(..5);
                    (0..len).map(|_| b"abc"[(random.u64(..3)) as usize]).collect()
                };
                (0..n).map(&mut text).collect()
            };
            let (new, mut before) = (some(6), BTreeSet::<Box<[u8]>>::new());
            for prefix in some(4) {
                if !before.iter().any(|other| overlaps(other, &prefix)) {
                    before.insert(prefix);
                }
            }
            let expected = new.iter().enumerate().find_map(|(i, prefix)| {
                let with = |other: &&[u8]| overlaps(prefix, other);
                let existing = before
                    .iter()
                    .map(|o| &**o)
                    .find(with)
                    .map(|o| overlap(prefix, "an existing prefix", o));
                let provided = || {
                    let other = new[i + 1..].iter().map(|other| &**other).find(with)?;
                    Some(overlap(prefix, "another provided prefix", other))
                };
                existing.or_else(provided)
            });
            let message = |failure: Failure| failure.message().into_owned();
            assert_eq!(check_overlaps(&new, &before).err().map(message), expected.map(message));
        }
    }
}
