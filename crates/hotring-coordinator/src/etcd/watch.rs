//! Watches: a request whose answer is a line for each message, without an end.

use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::http::{Lines, Lost, Post};
use super::{Asked, Inner, is_old_token, json, refusal};
use crate::wait::{First, first};
use crate::{Changed, Failure, Revision, Watch};

/// Most changes that a watch may be behind before it ends.
const QUEUE: usize = 1_024;

/// After this time without a message, the member is asked whether it is in touch with the others.
const SILENCE: Duration = Duration::from_secs(5);

/// A watch that a member has begun.
struct Begun {
    member: usize,
    lines: Lines,
    /// The answer goes on as long as this lives.
    _connection: SendRequest<String>,
    /// The member's revision.
    revision: Revision,
}

/// Watches all records from the revision after this one.
pub(super) async fn watch(it: Arc<Inner>, after: Revision) -> Result<Watch, Failure> {
    let begun = begin(&it, after).await?;
    let (changes, watch) = mpsc::channel(QUEUE);
    // If etcd has been restored from a backup, it would wait for the old revision: dropping the sender ends the watch.
    if begun.revision >= after || catches_up(&it, begun.member, after).await {
        tokio::spawn(async move { follow(&it, begun, changes).await });
    }
    Ok(watch)
}

/// Whether a member only lags behind the others, which are at this revision.
async fn catches_up(it: &Inner, member: usize, after: Revision) -> bool {
    let answer = it.ask(member, "kv/range", &it.prefix.count(), it.limit).await;
    answer.ok().and_then(|answer| json::revision(&answer)) >= Some(after)
}

/// Asks one member after the other.
async fn begin(it: &Inner, after: Revision) -> Result<Begun, Failure> {
    let end = Instant::now() + it.limit;
    // ORDERING: nothing else is read through the value.
    let start = it.first.load(std::sync::atomic::Ordering::Relaxed);
    let count = it.members.count();
    let mut last = String::new();
    for n in 0..count {
        let member = (start + n) % count;
        let share = end.saturating_duration_since(Instant::now()) / (count - n) as u32;
        let begun = timeout(share, begin_at(it, member, after)).await;
        match begun.unwrap_or_else(|_| Err(Asked::Lost(Lost::Sent("no answer".to_owned())))) {
            Ok(begun) => return Ok(begun),
            Err(Asked::Refused(why)) => return Err(Failure::Refused(why)),
            Err(Asked::Lost(Lost::Sent(why) | Lost::Unsent(why))) => last = it.told(member, &why),
        }
    }
    Err(Failure::Unknown(last))
}

async fn begin_at(it: &Inner, member: usize, after: Revision) -> Result<Begun, Asked> {
    let body = it.prefix.watch(after);
    let mut renewed = false;
    loop {
        let token = it.token(member, it.limit).await?;
        let post = Post { path: "watch", token: token.clone(), body: &body };
        let sent = it.members.send(member, post, it.limit).await.map_err(Asked::Lost)?;
        let (status, mut lines) = (sent.0.status().as_u16(), Lines::new(sent.0.into_body()));
        let lost = |why| Asked::Lost(Lost::Sent(why));
        let message = message(&mut lines).await.map_err(lost)?;
        let result = &message["result"];
        if status == 200 && result["created"] == true && result["canceled"] != true {
            let revision = json::revision(result).unwrap_or(0);
            return Ok(Begun { member, lines, _connection: sent.1, revision });
        }
        let is_old = is_old_token(&message)
            || result["cancel_reason"].as_str().is_some_and(|why| why.contains("token"));
        if !is_old || token.is_none() || renewed {
            return Err(refusal(status, &message));
        }
        it.forget(token);
        renewed = true;
    }
}

/// Passes changes on until anything is wrong with the watch.
async fn follow(it: &Inner, mut begun: Begun, changes: mpsc::Sender<Changed>) {
    loop {
        let next = first(message(&mut begun.lines), changes.closed());
        match first(next, sleep(SILENCE)).await {
            First::A(First::A(Ok(message))) => {
                let result = &message["result"];
                // Compacted, or ended by etcd for another reason.
                let is_over = result["canceled"] == true || result.is_null();
                let Some(seen) = it.prefix.changes(result).filter(|_| !is_over) else { return };
                for changed in seen {
                    if changes.try_send(changed).is_err() {
                        return;
                    }
                }
            }
            // A stopped member, or one without the others, is silent for ever.
            First::B(()) => {
                if it.ask(begun.member, "kv/range", &it.prefix.count(), it.limit).await.is_err() {
                    return;
                }
            }
            First::A(First::A(Err(_)) | First::B(())) => return,
        }
    }
}

/// The next message.
async fn message(lines: &mut Lines) -> Result<Value, String> {
    let line = lines.next().await?;
    serde_json::from_slice(&line).map_err(|error| error.to_string())
}
