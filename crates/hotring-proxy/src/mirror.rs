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
//!
//! Before a request that names a mirrored key all keys are dropped, and the node is told. It may wait for the mirrors
//! of others, and the node reads no answer of this connection meanwhile: two that write each other's keys would wait
//! for the ends of the grants.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hotring_cluster::mirrors::{ASK_MAX, Dropped, Grant, Grants, Holder, Key, REPLY_MAX, Version};
use hotring_cluster::{Epoch, SlotSet, slot_of};
use hotring_commands::host::clock;
use hotring_protocol::{Reply, ReplyReader};
use memchr::memmem;

use crate::plan::write_request;
use crate::request::Target;

/// Time between two questions for the keys that the node mirrors, and while it mirrors none.
const NAMES: Duration = Duration::from_millis(250);
const NO_NAMES: Duration = Duration::from_secs(1);

/// The same while the node refuses them to this user, who may get the right later.
const REFUSED: Duration = Duration::from_secs(10);

/// Time between two questions for a key that is named but not granted.
const AGAIN: Duration = Duration::from_millis(10);

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
    /// The slots of these, and of all that may be granted.
    slots: SlotSet,
    /// The node may have granted something since it was last told that all is dropped.
    may_hold: bool,
    bytes: usize,
    /// When the keys are asked for again.
    asks_at: Option<Instant>,
    /// The question that has no answer yet.
    asking: Option<u64>,
    /// The node has no such command.
    is_refused: bool,
}

#[derive(Debug, Default)]
struct Named {
    /// It was read since the last question.
    is_read: bool,
    /// Reads that were answered here since then.
    hits: u64,
    /// It was not granted, and is not asked for again before this.
    rests_until: Option<Instant>,
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
        let rests = |named: &Named| named.rests_until.is_some_and(|until| at < until);
        // Where nothing is mirrored, a read costs no look at the clock.
        if !wants_names && self.named.get(key).is_none_or(rests) {
            return None;
        }
        let now = clock::since_boot();
        let lasts = self.holder.version(now, key).is_some();
        if !wants_names && lasts && !self.holder.due(now).any(|due| due == key) {
            return None;
        }
        let read = self.named.iter().filter(|(_, named)| named.is_read).take(ASK_MAX);
        let read = read.map(|(key, _)| key.clone()).collect();
        // Without a question all stays as it is, so that the next one tells of the hits.
        let ask = self.holder.ask(now, read)?;
        if wants_names {
            let pause = if self.named.is_empty() { NO_NAMES } else { NAMES };
            self.asks_at = Some(at + pause);
        }
        self.asking = Some(ask.number);
        self.may_hold |= !ask.keys.is_empty();
        let mut hits = Vec::with_capacity(ask.keys.len());
        for key in &ask.keys {
            let named = self.named.get_mut(key).expect("it was found there");
            (named.is_read, named.rests_until) = (false, Some(at + AGAIN));
            hits.push(std::mem::take(&mut named.hits).to_string());
        }
        let mut words: Vec<&[u8]> = vec![b"HOTRING.MIRROR", b"ASK"];
        for (key, hits) in ask.keys.iter().zip(&hits) {
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
            self.is_refused = reply.starts_with(b"-ERR ");
            if reply.starts_with(b"-NOPERM ") {
                self.asks_at = Some(clock::monotonic() + REFUSED);
            }
            return self.drop_all();
        };
        let mut named: HashMap<Key, Named> = HashMap::new();
        for key in names {
            let known = self.named.remove(&key).unwrap_or_default();
            named.insert(key, known);
        }
        for (key, _) in &grants.grants {
            let known = self.named.remove(key).unwrap_or_default();
            named.insert(key.clone(), Named { rests_until: None, ..known });
        }
        self.named = named;
        self.holder.granted(clock::since_boot(), grants);
        let slots = self.named.keys().chain(self.holder.known()).map(|key| slot_of(key));
        self.slots = slots.collect();
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

    /// A request that may write is about to go to the node. Returns what must go before it, if anything.
    pub(crate) fn written(&mut self, target: Target, request: &[u8]) -> Option<Vec<u8>> {
        let slot = target.slot();
        if !self.may_hold || slot.is_some_and(|slot| !self.slots.contains(slot)) {
            return None;
        }
        let is_of = |key: &[u8]| slot.is_none_or(|slot| slot == slot_of(key));
        // The bytes of a key may stand for something else, which costs some hits.
        let is_named = |key: &Key| is_of(key) && memmem::find(request, key).is_some();
        let drops_all = slot.is_none() || self.named.keys().any(is_named);
        self.holder.give_up(|key| drops_all || is_of(key));
        // The replies of others are right again once the same version is granted again.
        for (_, named) in self.named.iter_mut().filter(|(key, _)| is_of(key)) {
            named.kept.clear();
        }
        self.count();
        self.may_hold = !drops_all;
        drops_all.then(|| {
            let mut bytes = Vec::new();
            write_request([b"HOTRING.MIRROR", &b"DROPPED"[..]].into_iter(), &mut bytes);
            bytes
        })
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
    use hotring_cluster::mirrors::GRANT;

    use super::*;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    const STRLEN: &[u8] = b"*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n";
    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n2\r\n";
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
        assert!(mirror.written(Target::Slot(slot_of(b"other")), SET).is_none());
        assert!(answers(&mut mirror));
        let number = ask_again(&mut mirror);
        let script = b"*1\r\n$6\r\nSCRIPT\r\n";
        assert!(mirror.written(Target::Slot(slot_of(b"k")), script).is_none());
        assert!(!answers(&mut mirror));
        // This was asked before.
        mirror.answered(number, &granted(1, 10_000));
        let keeps = sent(&mut mirror, GET).expect("it is named");
        mirror.keep(keeps, REPLY);
        assert!(!answers(&mut mirror));
    }

    /// Two proxies that wrote keys that the other one held waited for the ends of the grants.
    #[test]
    fn before_a_write_of_a_mirrored_key_all_keys_are_dropped() {
        for target in [Target::Slot(slot_of(b"x")), Target::Any] {
            let mut mirror = mirror(10_000);
            let number = ask_again(&mut mirror);
            let both = b"*2\r\n*1\r\n*4\r\n$1\r\nk\r\n:1\r\n:1\r\n:99\r\n*1\r\n$1\r\nx\r\n";
            mirror.answered(number, both);
            assert!(answers(&mut mirror));
            let word = mirror.written(target, b"*2\r\n$4\r\nINCR\r\n$1\r\nx\r\n");
            assert_eq!(word.unwrap(), b"*2\r\n$14\r\nHOTRING.MIRROR\r\n$7\r\nDROPPED\r\n");
            assert!(!answers(&mut mirror));
            assert!(mirror.written(target, SET).is_none(), "nothing is held any more");
            let number = ask_again(&mut mirror);
            mirror.answered(number, &granted(1, 10_000));
            assert_eq!(answers(&mut mirror), target != Target::Any, "its value is the same");
            assert!(mirror.written(Target::Slot(slot_of(b"k")), SET).is_some());
        }
    }

    /// Each read asked again at once, until there was no room for more questions.
    #[test]
    fn a_key_that_is_not_granted_is_asked_for_after_a_pause() {
        let (mut mirror, begin) = (mirror(20), Instant::now());
        std::thread::sleep(Duration::from_millis(30));
        mirror.asks_at = Some(begin + NAMES);
        for at in [begin, begin + AGAIN] {
            assert!(sent(&mut mirror, GET).is_some());
            let number = mirror.ask(b"k", at).expect("it is due").0;
            mirror.answered(number, b"*2\r\n*0\r\n*1\r\n$1\r\nk\r\n");
            assert!(mirror.ask(b"k", at).is_none());
        }
        let number = mirror.ask(b"k", begin + 2 * AGAIN).expect("it is due").0;
        mirror.answered(number, &granted(1, 20));
        assert!(mirror.ask(b"k", begin + 2 * AGAIN).is_some(), "a grant that ends is renewed");
    }

    /// Those were lost that a question was to tell of for which there was no room.
    #[test]
    fn all_hits_are_told() {
        let (mut mirror, mut told) = (mirror(10_000), 0);
        let mut tell = |mirror: &mut Mirror| {
            mirror.asks_at = None;
            let Some((number, question)) = mirror.ask(b"k", Instant::now()) else { return };
            let question = String::from_utf8(question).unwrap();
            told += question.lines().last().unwrap().parse::<u64>().unwrap();
            mirror.answered(number, &granted(1, 10_000));
        };
        for _ in 0..200 {
            assert!(answers(&mut mirror));
            tell(&mut mirror);
        }
        std::thread::sleep(GRANT);
        assert!(answers(&mut mirror));
        tell(&mut mirror);
        assert_eq!(told, 201);
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
    fn a_node_that_refuses_is_asked_no_more_or_seldom() {
        for (error, pause) in [
            ("-ERR unknown command\r\n", Duration::MAX),
            ("-NOPERM no\r\n", REFUSED),
            ("-LOADING soon\r\n", NAMES),
        ] {
            let (begin, mut mirror) = (Instant::now(), mirror(10_000));
            let number = ask_again(&mut mirror);
            mirror.answered(number, error.as_bytes());
            assert!(!answers(&mut mirror));
            assert!(mirror.ask(b"k", begin).is_none(), "{error}");
            let now = Instant::now();
            let later = now.checked_add(pause).unwrap_or(now + 2 * REFUSED);
            assert_eq!(mirror.ask(b"k", later).is_some(), pause < Duration::MAX, "{error}");
        }
    }
}
