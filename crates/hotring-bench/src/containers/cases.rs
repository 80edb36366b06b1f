//! The measured requests, and the containers that they need.

use std::iter;

use anyhow::{Result, ensure};
use fastrand::Rng;

use crate::resp::{Client, Reply};

/// The sizes of the containers.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Members of the sorted set and fields of the largest hash.
    pub members: u64,
    /// Bytes of the longest string.
    pub string: u64,
}

/// Adds a request to the pipeline of a client.
type Push = Box<dyn Fn(&mut Client, &mut Draw)>;

/// A kind of request.
pub struct Case {
    /// Its name in tables.
    pub name: String,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it reads the sorted set.
    pub reads_scores: bool,
    /// The divisor of the usual number of requests in a turn.
    pub share: u64,
    /// Adds the next request to the client's pipeline.
    pub push: Push,
    /// The kind of its answers.
    pub answer: Answer,
}

/// The source of arguments. Both servers get the same ones.
pub struct Draw {
    random: Rng,
    /// The number of the next new member.
    next: u64,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Number,
    Text,
    Done,
    /// Those of MULTI, of this many commands, and of EXEC.
    Transaction(u64),
    /// An array of this length.
    Strings(u64),
}

/// Elements of an LRANGE, members of a ZRANGE, and at most this number of members in the smaller set of an
/// intersection.
const RANGE: u64 = 100;
const PAGE: u64 = 10;
const SMALLER: u64 = 1_000;
/// Fields of the small hashes.
const FIELDS: [u64; 2] = [10, 1_000];
/// The argument of APPEND.
const PIECE: &[u8] = b"sixteen bytes..\n";
/// Elements, members or fields that one request of the load adds.
const LOADED_AT_ONCE: u64 = 100;

impl Sizes {
    /// Elements of the list, and members of the larger set.
    fn fewer(self) -> u64 {
        self.members / 10
    }

    /// Keys of requests that are not for containers.
    pub fn keys(self) -> u64 {
        self.members
    }

    /// Members that both sets have: half of the smaller set.
    fn common(self) -> u64 {
        SMALLER.min(2 * self.fewer()) / 2
    }

    fn hashes(self) -> [u64; 3] {
        [FIELDS[0], FIELDS[1], self.members]
    }
}

impl Draw {
    /// Equal seeds give equal arguments.
    pub fn new(seed: u64, next: u64) -> Draw {
        Draw { random: Rng::with_seed(seed), next }
    }

    /// The number of the next new member.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.random.u64(..end)
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The name of an element, member or field: 13 bytes.
pub fn member(number: u64) -> String {
    format!("member:{number:06}")
}

fn hash_key(fields: u64) -> String {
    format!("hash:{fields}")
}

impl Case {
    /// A case that only reads, or whose writes no log is asked about.
    pub fn new(
        name: impl Into<String>,
        answer: Answer,
        push: impl Fn(&mut Client, &mut Draw) + 'static,
    ) -> Case {
        let push = Box::new(push);
        Case { name: name.into(), writes: false, reads_scores: false, share: 1, push, answer }
    }

    fn write(
        name: impl Into<String>,
        answer: Answer,
        push: impl Fn(&mut Client, &mut Draw) + 'static,
    ) -> Case {
        Case { writes: true, ..Case::new(name, answer, push) }
    }

    /// Reads the answer to one request and checks its kind.
    pub fn take_answer(&self, client: &mut Client) -> Result<()> {
        if let Answer::Transaction(commands) = self.answer {
            return self.take_transaction(client, commands);
        }
        let reply = client.reply()?;
        let is_right = match (self.answer, &reply) {
            (Answer::Number, Reply::Integer(_)) | (Answer::Text, Reply::Bulk(Some(_))) => true,
            (Answer::Done, Reply::Simple(text)) => *text == "OK",
            (Answer::Strings(expected), Reply::Array(n)) => *n as u64 == expected,
            _ => false,
        };
        ensure!(is_right, "{} answers {reply:?}", self.name);
        if let Reply::Array(n) = reply {
            for _ in 0..n {
                client.reply()?;
            }
        }
        Ok(())
    }

    fn take_transaction(&self, client: &mut Client, commands: u64) -> Result<()> {
        let queued = (0..commands).map(|_| Reply::Simple("QUEUED"));
        let done = (0..commands).map(|_| Reply::Simple("OK"));
        let begun = iter::once(Reply::Simple("OK")).chain(queued);
        for expected in begun.chain([Reply::Array(commands as usize)]).chain(done) {
            let reply = client.reply()?;
            ensure!(reply == expected, "{} answers {reply:?}", self.name);
        }
        Ok(())
    }
}

/// All requests. Requests that pop remove what those that push have added in the same round.
pub fn all(sizes: Sizes) -> Vec<Case> {
    let mut all = lists(sizes);
    all.extend(sets(sizes));
    all.extend(scores(sizes));
    sizes.hashes().into_iter().for_each(|fields| all.extend(hashes(fields)));
    all.extend(strings(sizes));
    all
}

fn lists(sizes: Sizes) -> Vec<Case> {
    let push = |name: &'static str| {
        Case::write(name, Answer::Number, move |client, draw| {
            client.push(&[name.as_bytes(), b"list", member(draw.below(sizes.fewer())).as_bytes()]);
        })
    };
    let pop = |name: &'static str| {
        Case::write(name, Answer::Text, |client, _| client.push(&[name.as_bytes(), b"list"]))
    };
    let range =
        Case::new(format!("LRANGE of {RANGE}"), Answer::Strings(RANGE), move |client, draw| {
            let start = draw.below(sizes.fewer().saturating_sub(RANGE) + 1);
            let (from, to) = (start.to_string(), (start + RANGE - 1).to_string());
            client.push(&[b"LRANGE", b"list", from.as_bytes(), to.as_bytes()]);
        });
    let range = Case { share: 5, ..range };
    vec![push("LPUSH"), push("RPUSH"), pop("LPOP"), pop("RPOP"), range]
}

fn sets(sizes: Sizes) -> Vec<Case> {
    let name = format!("SINTER of {SMALLER} and {}", sizes.fewer());
    let common = Answer::Strings(sizes.common());
    let intersection =
        Case::new(name, common, |client, _| client.push(&[b"SINTER", b"smaller", b"set"]));
    vec![
        Case::write("SADD of new members", Answer::Number, |client, draw| {
            client.push(&[b"SADD", b"growing", member(draw.fresh()).as_bytes()]);
        }),
        Case::new("SISMEMBER", Answer::Number, move |client, draw| {
            client.push(&[b"SISMEMBER", b"set", member(draw.below(sizes.fewer())).as_bytes()]);
        }),
        Case { share: 50, ..intersection },
    ]
}

fn scores(sizes: Sizes) -> Vec<Case> {
    let n = sizes.members;
    let zadd = move |client: &mut Client, draw: &mut Draw| {
        let (score, member) = (draw.below(n).to_string(), member(draw.below(n)));
        client.push(&[b"ZADD", b"scores", score.as_bytes(), member.as_bytes()]);
    };
    let page = move |client: &mut Client, draw: &mut Draw| {
        let start = draw.below(n - PAGE + 1);
        let (from, to) = (start.to_string(), (start + PAGE - 1).to_string());
        client.push(&[b"ZRANGE", b"scores", from.as_bytes(), to.as_bytes()]);
    };
    let cases = vec![
        Case::write(format!("ZADD in {n} members"), Answer::Number, zadd),
        Case::write(format!("ZINCRBY in {n} members"), Answer::Text, move |client, draw| {
            client.push(&[b"ZINCRBY", b"scores", b"1", member(draw.below(n)).as_bytes()]);
        }),
        Case::new(format!("ZRANGE of {PAGE} in {n} members"), Answer::Strings(PAGE), page),
        Case::new(format!("ZRANK in {n} members"), Answer::Number, move |client, draw| {
            client.push(&[b"ZRANK", b"scores", member(draw.below(n)).as_bytes()]);
        }),
    ];
    let mark = |case: Case| Case { reads_scores: !case.writes, ..case };
    cases.into_iter().map(mark).collect()
}

fn hashes(fields: u64) -> Vec<Case> {
    let named = |command: &str| format!("{command} in {fields} fields");
    vec![
        Case::write(named("HSET"), Answer::Number, move |client, draw| {
            let (field, value) = (member(draw.below(fields)), value(draw.below(900_000)));
            let key = hash_key(fields);
            client.push(&[b"HSET", key.as_bytes(), field.as_bytes(), value.as_bytes()]);
        }),
        Case::new(named("HGET"), Answer::Text, move |client, draw| {
            let field = member(draw.below(fields));
            client.push(&[b"HGET", hash_key(fields).as_bytes(), field.as_bytes()]);
        }),
        Case::write(named("HINCRBY"), Answer::Number, move |client, draw| {
            let field = member(draw.below(fields));
            client.push(&[b"HINCRBY", hash_key(fields).as_bytes(), field.as_bytes(), b"1"]);
        }),
    ]
}

/// A value of a hash: six digits.
pub fn value(number: u64) -> String {
    (100_000 + number % 900_000).to_string()
}

fn strings(sizes: Sizes) -> Vec<Case> {
    let [bits, text] = [sizes.string, sizes.string / 10].map(|bytes| bytes / 1_000);
    vec![
        Case::write(format!("SETBIT in {bits} kB"), Answer::Number, move |client, draw| {
            let at = draw.below(8 * sizes.string).to_string();
            let bit: &[u8] = if draw.below(2) == 0 { b"0" } else { b"1" };
            client.push(&[b"SETBIT", b"bits", at.as_bytes(), bit]);
        }),
        Case::write(format!("APPEND to {text} kB"), Answer::Number, |client, _| {
            client.push(&[b"APPEND", b"text", PIECE]);
        }),
    ]
}

/// Fills the containers of all cases.
pub fn load(client: &mut Client, sizes: Sizes) -> Result<()> {
    fill(
        client,
        &[b"RPUSH", b"list"],
        sizes.fewer(),
        |client, i| client.arg(member(i).as_bytes()),
        1,
    )?;
    fill(
        client,
        &[b"SADD", b"set"],
        sizes.fewer(),
        |client, i| client.arg(member(i).as_bytes()),
        1,
    )?;
    // Every second member of the smaller set is also in the larger set.
    let other = |client: &mut Client, i: u64| {
        let number = if i.is_multiple_of(2) { i / 2 } else { sizes.members + i };
        client.arg(member(number).as_bytes());
    };
    fill(client, &[b"SADD", b"smaller"], 2 * sizes.common(), other, 1)?;
    fill(client, &[b"ZADD", b"scores"], sizes.members, scored, 2)?;
    for fields in sizes.hashes() {
        let key = hash_key(fields);
        fill(client, &[b"HSET", key.as_bytes()], fields, field, 2)?;
    }
    let last_bit = (8 * sizes.string - 1).to_string();
    client.call(&[b"SETBIT", b"bits", last_bit.as_bytes(), b"1"])?;
    let last_byte = (sizes.string / 10 - 1).to_string();
    client.call(&[b"SETRANGE", b"text", last_byte.as_bytes(), b"."])?;
    Ok(())
}

/// Adds a score and its member to a request.
pub fn scored(client: &mut Client, i: u64) {
    client.arg(i.to_string().as_bytes());
    client.arg(member(i).as_bytes());
}

/// Adds a field and its value to a request.
pub fn field(client: &mut Client, i: u64) {
    client.arg(member(i).as_bytes());
    client.arg(value(i).as_bytes());
}

/// Fills a container with `n` parts. `part` writes the arguments of one part, `words` of them.
pub fn fill(
    client: &mut Client,
    head: &[&[u8]],
    n: u64,
    part: impl Fn(&mut Client, u64),
    words: u64,
) -> Result<()> {
    for first in (0..n).step_by(LOADED_AT_ONCE as usize) {
        let parts = first..(first + LOADED_AT_ONCE).min(n);
        client.begin(head.len() + (words * (parts.end - first)) as usize);
        head.iter().for_each(|word| client.arg(word));
        parts.for_each(|i| part(client, i));
        client.flush()?;
        client.reply()?;
    }
    Ok(())
}
