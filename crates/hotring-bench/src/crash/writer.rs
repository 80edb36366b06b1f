//! One connection that writes keys of its own, and the states that each of its keys may have after a kill.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use super::container::{Answer, Container, Kind};
use crate::address::Address;
use crate::resp::{Client, Reply, rest_if_loading};
use crate::workload::mix::mix;

/// The most requests sent together.
const WINDOW: u64 = 16;
/// One value in this number is long, because long values take another path through the server.
const LONG_ONE_IN: u64 = 400;
const LONG_LEN: usize = 300_000;

/// The number of databases, which writers use in turn.
const DATABASES: usize = 3;

/// The state of a key: the number at the start of its value, or the digest of its container; None without the key.
type State = Option<u64>;

/// The known state of a key.
#[derive(Default)]
struct Known {
    /// The states since the last kill, the oldest first, with the times of acknowledgement.
    acknowledged: Vec<(Option<Instant>, State)>,
    /// Later states, whose writes were sent but not acknowledged.
    sent: Vec<State>,
}

impl Known {
    /// The state after all sent writes.
    fn last(&self) -> State {
        let acknowledged = self.acknowledged.last().and_then(|(_, state)| *state);
        self.sent.last().copied().unwrap_or(acknowledged)
    }

    /// The acknowledged writes that are lost if `state` is the state after a kill. None if the key never had that
    /// state.
    fn lost(&self, state: State, killed: Instant) -> Option<Lost> {
        if self.sent.contains(&state) {
            return Some(Lost::default());
        }
        let position = self.acknowledged.iter().rposition(|(_, known)| *known == state);
        let was_absent = self.acknowledged.first().is_none_or(|(at, _)| at.is_some());
        let gone = match position {
            Some(position) => &self.acknowledged[position + 1..],
            // The state before the first write matches: all acknowledged writes are lost.
            None if state.is_none() && was_absent => &self.acknowledged[..],
            None => return None,
        };
        let ages = gone.iter().filter_map(|(at, _)| Some(killed.saturating_duration_since((*at)?)));
        Some(Lost { count: ages.clone().count() as u64, oldest: ages.max().unwrap_or_default() })
    }
}

/// The number and age of lost acknowledged writes.
#[derive(Debug, Default)]
pub struct Lost {
    pub count: u64,
    /// Time from the acknowledgement of the oldest lost write to the kill.
    pub oldest: Duration,
}

impl Lost {
    pub fn add(&mut self, other: Lost) {
        self.count += other.count;
        self.oldest = self.oldest.max(other.oldest);
    }
}

/// The effect of a request on its key, or for a pair on the first two keys.
#[derive(Clone)]
enum Request {
    Set {
        key: usize,
        number: u64,
        is_long: bool,
    },
    Count {
        key: usize,
    },
    Remove {
        key: usize,
    },
    Pair {
        number: u64,
    },
    /// A change of a container, with the reply that it must get.
    Change {
        key: usize,
        answer: Answer,
    },
}

/// A writer.
pub struct Writer {
    number: usize,
    /// The keys of strings, followed by those of containers.
    keys: Vec<Known>,
    containers: Vec<Container>,
    random: Rng,
    next: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    sent: Vec<Request>,
}

impl Writer {
    pub fn new(number: usize, keys: usize, seed: u64) -> Writer {
        let containers = Kind::ALL.map(Container::new).into_iter().collect();
        let keys = (0..keys + Kind::ALL.len()).map(|_| Known::default()).collect();
        let random = Rng::with_seed(mix(seed) + number as u64);
        Writer { number, keys, containers, random, next: 1, acknowledged: 0, sent: Vec::new() }
    }

    /// The number of string keys.
    fn strings(&self) -> usize {
        self.keys.len() - self.containers.len()
    }

    fn database(&self) -> Vec<u8> {
        (self.number % DATABASES).to_string().into_bytes()
    }

    fn name(&self, key: usize) -> Vec<u8> {
        format!("writer:{}:key:{key}", self.number).into_bytes()
    }

    /// Writes until the connection fails, which means that the server was killed.
    pub fn write_until_it_ends(&mut self, address: &Address) -> Result<()> {
        // The server may have been killed already.
        let Ok(mut client) = Client::connect(address) else { return Ok(()) };
        if client.call(&[b"SELECT", &self.database()]).is_err() {
            return Ok(());
        }
        loop {
            self.sent.clear();
            for _ in 0..1 + self.random.u64(..WINDOW) {
                let request = match self.random.u64(..2) {
                    0 => self.push_change(&mut client),
                    _ => {
                        let request = self.draw();
                        self.push(&mut client, &request);
                        request
                    }
                };
                self.sent.push(request);
            }
            if client.flush().is_err() {
                return Ok(());
            }
            for request in std::mem::take(&mut self.sent) {
                let Ok(reply) = client.reply() else { return Ok(()) };
                self.acknowledge(request, &reply)?;
            }
        }
    }

    fn draw(&mut self) -> Request {
        // The first two keys are the pair and the last one holds the count: INCR on a long value is an error.
        let key = 2 + self.random.u64(..self.strings() as u64 - 3) as usize;
        self.next += 1;
        let number = self.next;
        match self.random.u64(..10) {
            0..5 => {
                let is_long = self.random.u64(..LONG_ONE_IN) == 0;
                Request::Set { key, number, is_long }
            }
            5..8 => Request::Count { key: self.strings() - 1 },
            8 => Request::Remove { key },
            _ => Request::Pair { number },
        }
    }

    fn push_change(&mut self, client: &mut Client) -> Request {
        let which = self.random.usize(..self.containers.len());
        let key = self.strings() + which;
        let name = self.name(key);
        self.next += 1;
        let container = &mut self.containers[which];
        let answer = container.change(client, &name, self.next, &mut self.random);
        self.keys[key].sent.push(container.state());
        Request::Change { key, answer }
    }

    fn push(&mut self, client: &mut Client, request: &Request) {
        match *request {
            Request::Set { key, number, is_long } => {
                let mut value = number.to_string().into_bytes();
                if is_long {
                    value.push(b':');
                    value.resize(LONG_LEN, b'x');
                }
                client.push(&[b"SET", &self.name(key), &value]);
                self.keys[key].sent.push(Some(number));
            }
            Request::Count { key } => {
                client.push(&[b"INCR", &self.name(key)]);
                let number = self.keys[key].last().unwrap_or(0) + 1;
                self.keys[key].sent.push(Some(number));
            }
            Request::Remove { key } => {
                client.push(&[b"DEL", &self.name(key)]);
                self.keys[key].sent.push(None);
            }
            Request::Pair { number } => {
                let text = number.to_string();
                let [first, second] = [self.name(0), self.name(1)];
                client.push(&[b"MSET", &first, text.as_bytes(), &second, text.as_bytes()]);
                (0..2).for_each(|key| self.keys[key].sent.push(Some(number)));
            }
            Request::Change { .. } => unreachable!("these are pushed as they are made"),
        }
    }

    fn acknowledge(&mut self, request: Request, reply: &Reply<'_>) -> Result<()> {
        let now = Instant::now();
        self.acknowledged += 1;
        let mut took_place = |key: usize| {
            let known = &mut self.keys[key];
            let state = known.sent.remove(0);
            known.acknowledged.push((Some(now), state));
            state
        };
        match (request, reply) {
            (Request::Change { key, answer }, reply) => {
                ensure!(answer.is(reply), "the server answers {reply:?}, not {answer:?}");
                took_place(key);
            }
            (Request::Set { key, .. }, Reply::Simple("OK")) => _ = took_place(key),
            (Request::Count { key }, Reply::Integer(number)) => {
                let expected = took_place(key);
                ensure!(
                    expected == u64::try_from(*number).ok(),
                    "counted to {number}, not {expected:?}"
                );
            }
            (Request::Remove { key }, Reply::Integer(0 | 1)) => _ = took_place(key),
            (Request::Pair { .. }, Reply::Simple("OK")) => {
                (0..2).for_each(|key| _ = took_place(key))
            }
            _ => bail!("the server answers {reply:?}"),
        }
        Ok(())
    }

    /// Reads the states of all keys and counts the lost writes. Later writes start from these states.
    pub fn check(&mut self, client: &mut Client, killed: Instant) -> Result<Lost> {
        let mut lost = Lost::default();
        let mut states = Vec::new();
        until_loaded(|| client.call(&[b"SELECT", &self.database()]).map(drop))?;
        for key in 0..self.keys.len() {
            let name = self.name(key);
            let state = match key.checked_sub(self.strings()) {
                None => read(client, &name)?,
                Some(which) => {
                    let container = &mut self.containers[which];
                    until_loaded(|| container.read(client, &name))?;
                    container.state()
                }
            };
            let of_key = self.keys[key].lost(state, killed);
            lost.add(of_key.with_context(|| {
                format!("key {key} of writer {} is {state:?}, which it never was", self.number)
            })?);
            states.push(state);
        }
        ensure!(
            states[0] == states[1],
            "of a pair that is set at once one is {:?} and the other {:?}",
            states[0],
            states[1]
        );
        for (known, state) in self.keys.iter_mut().zip(states) {
            *known = Known { acknowledged: vec![(None, state)], sent: Vec::new() };
        }
        Ok(lost)
    }
}

/// Repeats a request until its keys are loaded. Until then a server must answer an error, never nil.
fn until_loaded(mut ask: impl FnMut() -> Result<()>) -> Result<()> {
    while let Err(error) = ask() {
        rest_if_loading(error)?;
    }
    Ok(())
}

fn read(client: &mut Client, name: &[u8]) -> Result<State> {
    loop {
        match client.call(&[b"GET", name]) {
            Ok(Reply::Bulk(None)) => return Ok(None),
            Ok(Reply::Bulk(Some(text))) => {
                let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (digits, rest) = text.split_at(digits);
                ensure!(
                    rest.is_empty()
                        || text.len() == LONG_LEN && rest[1..].iter().all(|byte| *byte == b'x'),
                    "a value is damaged"
                );
                return Ok(Some(std::str::from_utf8(digits)?.parse()?));
            }
            Ok(other) => bail!("GET answers {other:?}"),
            Err(error) => rest_if_loading(error)?,
        }
    }
}
