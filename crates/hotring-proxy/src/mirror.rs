//! Mirrors of a node's hot keys at one connection to it: reads of them are answered here, while the node lets that be
//! (`hotring_cluster::mirrors`).
//!
//! The node names the keys that it mirrors four times a second, or once while there are none. A read of such a key
//! sends a question before it, so that its reply may be kept with the grant. A kept reply answers the same request,
//! until the node wants the key dropped, the grant ends, or a client of this connection writes the slot of the key.
//!
//! 1. A reply is kept only if the question that was granted went out before its request, on the same connection.
//! 2. It must not be used once the grant is over, by a clock that counts the time that the machine was suspended.
//! 3. Keys are dropped before a request that may write them goes out: the node does not ask this connection then.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hotring_cluster::mirrors::{ASK_MAX, Dropped, Grant, Grants, Holder, Key, REPLY_MAX, Version};
use hotring_cluster::{Epoch, Slot, slot_of};
use hotring_commands::host::clock;
use hotring_protocol::{Reply, ReplyReader};

use crate::plan::write_request;
use crate::request::Target;

/// Time between two questions for the keys that the node mirrors, and while it mirrors none.
const NAMES: Duration = Duration::from_millis(250);
const NO_NAMES: Duration = Duration::from_secs(1);

/// Most bytes of the replies that a connection keeps.
const BYTES_MAX: usize = 16 << 20;

/// Most replies to different requests for a key.
const REPLIES_MAX: usize = 8;

/// The first word of what the node pushes.
const REVOKED: &[u8] = b"hotring.mirror";

/// What the connection may answer.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    holder: Holder,
    /// The keys that the node mirrors.
    named: HashMap<Key, Named>,
    bytes: usize,
    /// When the keys are asked for again.
    asks_at: Option<Instant>,
    /// The question that has no answer yet.
    asking: Option<u64>,
    /// The node has no such command, or not for this user.
    is_refused: bool,
}

#[derive(Debug, Default)]
struct Named {
    /// It was read since the last question.
    is_read: bool,
    /// Reads that were answered here since then.
    hits: u64,
    kept: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    version: Version,
    request: Box<[u8]>,
    reply: Box<[u8]>,
}

/// That a reply may be kept.
#[derive(Debug)]
pub(crate) struct Keeps {
    pub connection: u64,
    key: Key,
    request: Box<[u8]>,
    /// The version that was granted when the request was made, if any was.
    version: Option<Version>,
}

/// What becomes of a read.
#[derive(Debug)]
pub(crate) enum Read<'a> {
    /// This is the reply.
    Answered(&'a [u8]),
    /// It goes to the node, behind this question if there is one.
    Sent(Option<Keeps>),
}

impl Mirror {
    /// A client reads a key by this request.
    pub(crate) fn read(&mut self, connection: u64, key: &[u8], request: &[u8]) -> Read<'_> {
        let Some(named) = self.named.get_mut(key) else { return Read::Sent(None) };
        named.is_read = true;
        let version = self.holder.version(clock::since_boot(), key);
        let is_it = |kept: &Kept| Some(kept.version) == version && *kept.request == *request;
        if let Some(at) = named.kept.iter().position(is_it) {
            named.hits += 1;
            return Read::Answered(&named.kept[at].reply);
        }
        Read::Sent(Some(Keeps { connection, key: key.into(), request: request.into(), version }))
    }

    /// The question that is due, if one is. `key` is about to be read.
    pub(crate) fn ask(&mut self, key: &[u8], at: Instant) -> Option<(u64, Vec<u8>)> {
        if self.is_refused || self.asking.is_some() {
            return None;
        }
        let wants_names = self.asks_at.is_none_or(|due| at >= due);
        // Where nothing is mirrored, a read costs no look at the clock.
        if !wants_names && !self.named.contains_key(key) {
            return None;
        }
        let now = clock::since_boot();
        let lasts = self.holder.version(now, key).is_some();
        if !wants_names && lasts && !self.holder.due(now).any(|due| due == key) {
            return None;
        }
        if wants_names {
            let pause = if self.named.is_empty() { NO_NAMES } else { NAMES };
            self.asks_at = Some(at + pause);
        }
        let read = self.named.iter_mut().filter(|(_, named)| named.is_read).take(ASK_MAX);
        let read: Vec<(Key, u64)> = read
            .map(|(key, named)| {
                named.is_read = false;
                (key.clone(), std::mem::take(&mut named.hits))
            })
            .collect();
        let keys = read.iter().map(|(key, _)| key.clone()).collect();
        let ask = self.holder.ask(now, keys)?;
        self.asking = Some(ask.number);
        let hits: Vec<String> = read.iter().map(|(_, hits)| hits.to_string()).collect();
        let mut words: Vec<&[u8]> = vec![b"HOTRING.MIRROR", b"ASK"];
        for ((key, _), hits) in read.iter().zip(&hits) {
            words.extend([&**key, hits.as_bytes()]);
        }
        let mut bytes = Vec::new();
        write_request(words.into_iter(), &mut bytes);
        Some((ask.number, bytes))
    }

    /// The node has answered a question.
    pub(crate) fn answered(&mut self, number: u64, reply: &[u8]) {
        self.asking = None;
        let Some((grants, names)) = parse(reply).and_then(|reply| read_grants(number, reply))
        else {
            // Other errors pass.
            let lasting: [&[u8]; 2] = [b"-ERR ", b"-NOPERM "];
            self.is_refused = lasting.iter().any(|error| reply.starts_with(error));
            return self.drop_all();
        };
        let mut named: HashMap<Key, Named> = HashMap::new();
        let granted = grants.grants.iter().map(|(key, _)| key.clone());
        for key in granted.chain(names) {
            let known = self.named.remove(&key).unwrap_or_default();
            named.insert(key, known);
        }
        self.named = named;
        self.holder.granted(clock::since_boot(), grants);
        self.count();
    }

    /// Keeps a reply, if it may be.
    pub(crate) fn keep(&mut self, keeps: Keeps, reply: &[u8]) {
        let Keeps { key, request, version, .. } = keeps;
        let Some(present) = self.holder.version(clock::since_boot(), &key) else { return };
        let Some(named) = self.named.get_mut(&key) else { return };
        named.kept.retain(|kept| kept.version == present);
        let len = request.len() + reply.len();
        let has_room = named.kept.len() < REPLIES_MAX && self.bytes + len <= BYTES_MAX;
        let is_same = version.is_none_or(|version| version == present);
        let is_known = named.kept.iter().any(|kept| kept.request == request);
        if is_same && has_room && !is_known && len <= REPLY_MAX {
            self.bytes += len;
            named.kept.push(Kept { version: present, request, reply: reply.into() });
        }
    }

    /// The node has pushed a message. Returns the answer, if it wants a key dropped.
    pub(crate) fn pushed(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let Some(Reply::Push(parts)) = parse(message) else { return None };
        let [Reply::Bulk(word), Reply::Bulk(key), epoch, number] = &parts[..] else { return None };
        let version = Version { epoch: Epoch(number_of(epoch)?), number: number_of(number)? };
        if word != REVOKED {
            return None;
        }
        let dropped = Dropped { key: Key::from(&key[..]), version };
        self.holder.drop_key(&dropped);
        self.named.remove(&dropped.key);
        self.count();
        let numbers = [version.epoch.0.to_string(), version.number.to_string()];
        let words =
            [b"HOTRING.MIRROR", &b"DROPPED"[..], key, numbers[0].as_bytes(), numbers[1].as_bytes()];
        let mut bytes = Vec::new();
        write_request(words.into_iter(), &mut bytes);
        Some(bytes)
    }

    /// A request that may write is about to go to the node.
    pub(crate) fn written(&mut self, target: Target) {
        if self.named.is_empty() && self.asking.is_none() {
            return;
        }
        let is_of = |slot: Option<Slot>, key: &[u8]| slot.is_none_or(|slot| slot == slot_of(key));
        self.holder.give_up(|key| is_of(target.slot(), key));
        for (_, named) in self.named.iter_mut().filter(|(key, _)| is_of(target.slot(), key)) {
            named.kept.clear();
        }
        self.count();
    }

    fn drop_all(&mut self) {
        self.holder.give_up(|_| true);
        self.named.clear();
        self.bytes = 0;
    }

    fn count(&mut self) {
        let kept = self.named.values().flat_map(|named| &named.kept);
        self.bytes = kept.map(|kept| kept.request.len() + kept.reply.len()).sum();
    }
}

fn parse(bytes: &[u8]) -> Option<Reply> {
    let mut reader = ReplyReader::default();
    reader.push(bytes);
    reader.next_reply().ok().flatten()
}

fn number_of(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Int(number) => u64::try_from(*number).ok(),
        Reply::Bulk(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

/// What is granted, and the names of other keys.
fn read_grants(number: u64, reply: Reply) -> Option<(Grants, Vec<Key>)> {
    let Reply::Array(parts) = reply else { return None };
    let [Reply::Array(granted), Reply::Array(names)] = &parts[..] else { return None };
    let mut grants = Vec::new();
    for grant in granted {
        let Reply::Array(parts) = grant else { return None };
        let [Reply::Bulk(key), epoch, number, lasts] = &parts[..] else { return None };
        let version = Version { epoch: Epoch(number_of(epoch)?), number: number_of(number)? };
        let lasts = Duration::from_millis(number_of(lasts)?);
        grants.push((Key::from(&key[..]), Grant { version, lasts }));
    }
    let name = |name: &Reply| match name {
        Reply::Bulk(key) => Some(Key::from(&key[..])),
        _ => None,
    };
    let names = names.iter().map(name).collect::<Option<Vec<Key>>>()?;
    Some((Grants { number, grants }, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    const STRLEN: &[u8] = b"*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n";
    const REPLY: &[u8] = b"$1\r\n1\r\n";

    fn granted(number: u64, ms: u64) -> Vec<u8> {
        format!("*2\r\n*1\r\n*4\r\n$1\r\nk\r\n:1\r\n:{number}\r\n:{ms}\r\n*0\r\n").into_bytes()
    }

    fn ask(mirror: &mut Mirror) -> u64 {
        mirror.ask(b"k", Instant::now()).expect("a question is due").0
    }

    fn sent(mirror: &mut Mirror, request: &[u8]) -> Option<Keeps> {
        match mirror.read(0, b"k", request) {
            Read::Sent(keeps) => keeps,
            Read::Answered(reply) => panic!("{reply:?}"),
        }
    }

    fn answers(mirror: &mut Mirror) -> bool {
        matches!(mirror.read(0, b"k", GET), Read::Answered(REPLY))
    }

    /// A mirror of a key with the reply to GET.
    fn mirror(ms: u64) -> Mirror {
        let mut mirror = Mirror::default();
        assert!(sent(&mut mirror, GET).is_none(), "the key is not named yet");
        let number = ask(&mut mirror);
        assert!(mirror.ask(b"k", Instant::now()).is_none(), "one question at a time");
        mirror.answered(number, b"*2\r\n*0\r\n*1\r\n$1\r\nk\r\n");
        let keeps = sent(&mut mirror, GET).expect("it is named");
        let number = ask(&mut mirror);
        mirror.answered(number, &granted(1, ms));
        mirror.keep(keeps, REPLY);
        mirror
    }

    #[test]
    fn a_kept_reply_answers_the_same_request_until_the_grant_is_over() {
        let mut live = mirror(10_000);
        assert!(answers(&mut live));
        let other = sent(&mut live, STRLEN).expect("it may be kept as well");
        live.keep(other, b":1\r\n");
        assert!(
            matches!(live.read(0, b"k", STRLEN), Read::Answered(b":1\r\n")) && answers(&mut live)
        );
        let mut short = mirror(20);
        std::thread::sleep(Duration::from_millis(30));
        assert!(!answers(&mut short));
    }

    #[test]
    fn a_reply_from_before_another_version_is_not_kept() {
        let mut mirror = mirror(10_000);
        let keeps = sent(&mut mirror, STRLEN).expect("it may be kept");
        let push = b">4\r\n$14\r\nhotring.mirror\r\n$1\r\nk\r\n$1\r\n1\r\n$1\r\n1\r\n";
        let dropped = mirror.pushed(push).expect("an answer");
        assert!(dropped.ends_with(b"$7\r\nDROPPED\r\n$1\r\nk\r\n$1\r\n1\r\n$1\r\n1\r\n"));
        assert!(!answers(&mut mirror) && mirror.bytes == 0);
        mirror.asks_at = None;
        let number = ask(&mut mirror);
        mirror.answered(number, &granted(2, 10_000));
        mirror.keep(keeps, b":1\r\n");
        assert!(sent(&mut mirror, STRLEN).is_some() && !answers(&mut mirror));
        assert!(mirror.pushed(b">2\r\n$7\r\nmessage\r\n$1\r\nk\r\n").is_none());
    }

    #[test]
    fn a_write_of_the_slot_ends_the_mirror_before_it_goes_out() {
        let mut mirror = mirror(10_000);
        mirror.written(Target::Slot(slot_of(b"other")));
        assert!(answers(&mut mirror));
        let number = ask_again(&mut mirror);
        mirror.written(Target::Slot(slot_of(b"k")));
        assert!(!answers(&mut mirror));
        // This was asked before.
        mirror.answered(number, &granted(1, 10_000));
        let keeps = sent(&mut mirror, GET).expect("it is named");
        mirror.keep(keeps, REPLY);
        assert!(!answers(&mut mirror));
    }

    fn ask_again(mirror: &mut Mirror) -> u64 {
        mirror.asks_at = None;
        ask(mirror)
    }

    #[test]
    fn where_nothing_is_mirrored_questions_are_rare() {
        let (mut mirror, begin) = (Mirror::default(), Instant::now());
        let number = mirror.ask(b"k", begin).expect("the first question").0;
        mirror.answered(number, b"*2\r\n*0\r\n*0\r\n");
        assert!(mirror.ask(b"k", begin + NAMES).is_none());
        let number = mirror.ask(b"k", begin + NO_NAMES).expect("it is due").0;
        mirror.answered(number, b"*2\r\n*0\r\n*1\r\n$1\r\nk\r\n");
        assert!(mirror.ask(b"other", begin + NO_NAMES).is_none(), "it is not mirrored");
        assert!(mirror.ask(b"k", begin + NO_NAMES).is_some());
    }

    /// A longer question was refused, and the node was asked no more.
    #[test]
    fn no_question_has_more_keys_than_a_node_takes() {
        let mut mirror = Mirror::default();
        let number = ask(&mut mirror);
        let keys: Vec<String> = (0..=ASK_MAX).map(|n| n.to_string()).collect();
        let names: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
        let answer = format!("*2\r\n*0\r\n*{}\r\n{names}", keys.len());
        mirror.answered(number, answer.as_bytes());
        for key in &keys {
            assert!(matches!(mirror.read(0, key.as_bytes(), GET), Read::Sent(Some(_))));
        }
        let (_, question) = mirror.ask(b"0", Instant::now()).expect("it is wanted");
        assert!(question.starts_with(format!("*{}\r\n", 2 + 2 * ASK_MAX).as_bytes()));
    }

    #[test]
    fn a_node_that_refuses_is_asked_no_more() {
        for (error, is_asked) in [("-NOPERM no\r\n", false), ("-LOADING soon\r\n", true)] {
            let mut mirror = mirror(10_000);
            let number = ask_again(&mut mirror);
            mirror.answered(number, error.as_bytes());
            assert!(!answers(&mut mirror));
            mirror.asks_at = None;
            assert_eq!(mirror.ask(b"k", Instant::now()).is_some(), is_asked, "{error}");
        }
    }
}
