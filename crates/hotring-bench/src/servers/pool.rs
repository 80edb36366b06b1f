//! The connections of one client thread, and the two ways to load a server with them.
//!
//! *Closed loop*: each connection sends a batch, and the next one when all of it is answered. This measures the
//! capacity of a server. Latencies run from a batch's departure to each reply. A stalled server gets fewer
//! requests meanwhile, which flatters the tail.
//!
//! *Open loop*: requests are due at fixed times, on the connections in turn, whatever the server does. Latencies
//! run from the time at which a request was due, even if it had to wait for its connection's pipeline or for the
//! client itself, so they are free of coordinated omission. The thread must not sleep between requests, because
//! its wake-up would count as latency.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::connection::Connection;
use super::dialect::{Dialect, Step};
use crate::address::Endpoint;

/// The longest silence while answers are due. After that the server has failed.
const SILENCE_MAX: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The most events taken from one wait.
const EVENTS: usize = 256;

/// The least length of the read buffer, in bytes.
const READ_LEN: usize = 64 << 10;

/// The maximum latency in nanoseconds: an hour. Longer ones count as this.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// The result of a phase.
#[derive(Debug)]
pub struct Tally {
    /// The number of answered requests.
    pub requests: u64,
    /// Nanoseconds from departure (closed loop) or from the due time (open loop) to the reply.
    pub latency: Histogram<u64>,
    /// The longest time in a closed loop during which none of a thread's connections got an answer.
    pub pause: Duration,
}

impl Tally {
    /// An empty result.
    pub fn new() -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
            .expect("the bounds and the precision are valid ones");
        Tally { requests: 0, latency, pause: Duration::ZERO }
    }

    /// Adds the result of another thread.
    pub fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.pause = self.pause.max(other.pause);
        self.latency.add(&other.latency).expect("both histograms have the same bounds");
    }

    fn record(&mut self, latency: Duration, count: u64) {
        self.requests += count;
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency.saturating_record_n(nanoseconds.clamp(1, LATENCY_MAX_NS), count);
    }
}

/// The end condition of a closed loop.
#[derive(Clone, Copy, Debug)]
pub enum Until<'a> {
    /// Each connection has sent one request.
    Once,
    /// The deadline is reached, or without `repeat` all scripts have ended.
    Time { deadline: Instant, repeat: bool },
    /// All scripts have ended.
    End,
    /// The flag is set. Scripts repeat until then.
    Stopped(&'a AtomicBool),
}

/// The schedule of one thread in an open loop.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time at which the first request is due.
    pub start: Instant,
    /// The time between two requests of this thread.
    pub interval: Duration,
    /// The number of requests of this thread.
    pub total: u64,
}

/// The connections of one thread.
pub struct Pool<'a> {
    dialect: &'a Dialect,
    connections: Vec<Connection<'a>>,
    epoll: OwnedFd,
    buffer: Vec<u8>,
}

impl<'a> Pool<'a> {
    /// Opens a connection for each script.
    pub fn open(
        endpoint: &Endpoint,
        dialect: &'a Dialect,
        scripts: impl Iterator<Item = &'a [Step]>,
    ) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("cannot wait for sockets")?;
        let mut connections = Vec::new();
        for script in scripts {
            let connection = Connection::open(endpoint, script)?;
            let number = EventData::new_u64(connections.len() as u64);
            epoll::add(&epoll, &connection.stream, number, EventFlags::IN)?;
            connections.push(connection);
        }
        Ok(Pool {
            dialect,
            connections,
            epoll,
            buffer: vec![0; READ_LEN.max(2 * dialect.reply_len_max())],
        })
    }

    /// The number of requests that each connection has sent.
    pub fn progress(&self) -> impl Iterator<Item = u64> {
        self.connections.iter().map(|connection| connection.sent)
    }

    /// Sends batches of `depth` requests on each connection, each when the one before is answered.
    pub fn closed_loop(&mut self, depth: u64, until: Until) -> Result<Tally> {
        let mut tally = Tally::new();
        let mut events = Vec::with_capacity(EVENTS);
        let mut busy = 0;
        for at in 0..self.connections.len() {
            busy += usize::from(self.begin(at, batch(&self.connections[at], depth, until, true))?);
        }
        let mut heard = Instant::now();
        while busy > 0 {
            self.wait(&mut events, &SILENCE_MAX)?;
            ensure!(!events.is_empty(), "no answer for {} s", SILENCE_MAX.tv_sec);
            for event in &events {
                let Some((at, answered)) = self.advance(event)? else { continue };
                let (connection, now) = (&self.connections[at], Instant::now());
                tally.pause = tally.pause.max(now - heard);
                heard = now;
                tally.record(now - connection.departure, answered);
                if connection.outstanding() == 0 {
                    let next = batch(connection, depth, until, false);
                    busy -= usize::from(!self.begin(at, next)?);
                }
            }
        }
        Ok(tally)
    }

    /// Sends requests at the times of the pace, with at most `depth` in flight per connection.
    pub fn open_loop(&mut self, depth: u64, pace: &Pace) -> Result<Tally> {
        let mut tally = Tally::new();
        let n = self.connections.len() as u64;
        // Requests from before the call are not part of the schedule.
        let base: Vec<u64> = self.progress().collect();
        let mut due = base.clone();
        let mut events = Vec::with_capacity(EVENTS);
        let mut next = 0;
        let mut heard = Instant::now();
        while tally.requests < pace.total {
            while next < pace.total && Instant::now() >= pace.due(next) {
                let at = (next % n) as usize;
                next += 1;
                due[at] += 1;
                self.fill(at, due[at], depth)?;
            }
            self.wait(&mut events, &NO_WAIT)?;
            for event in &events {
                let Some((at, answered)) = self.advance(event)? else { continue };
                heard = Instant::now();
                let connection = &self.connections[at];
                let last = connection.answered - base[at];
                for position in last - answered..last {
                    let due = pace.due(position * n + at as u64);
                    tally.record(heard.saturating_duration_since(due), 1);
                }
                self.fill(at, due[at], depth)?;
            }
            let waiting = tally.requests < next;
            let silence = if waiting { heard.elapsed() } else { Duration::ZERO };
            ensure!(
                silence.as_secs() < SILENCE_MAX.tv_sec.cast_unsigned(),
                "no answer for {silence:?}"
            );
        }
        Ok(tally)
    }

    /// Sends the due requests, as far as the pipeline has capacity.
    fn fill(&mut self, at: usize, due: u64, depth: u64) -> Result<()> {
        let connection = &self.connections[at];
        let capacity = depth.saturating_sub(connection.outstanding());
        self.begin(at, (due - connection.sent).min(capacity)).map(drop)
    }

    /// Sends a batch of `count` requests. Gives false for an empty one.
    fn begin(&mut self, at: usize, count: u64) -> Result<bool> {
        if count == 0 {
            return Ok(false);
        }
        let connection = &mut self.connections[at];
        connection.push(count, self.dialect);
        connection.departure = Instant::now();
        if !connection.send()? {
            self.interest(at, EventFlags::IN | EventFlags::OUT)?;
        }
        Ok(true)
    }

    /// Handles an event: sends, and reads replies. Gives the connection and its number of new replies.
    fn advance(&mut self, event: &Event) -> Result<Option<(usize, u64)>> {
        let &Event { flags, data, .. } = event;
        let at = data.u64() as usize;
        if flags.contains(EventFlags::OUT) && self.connections[at].send()? {
            self.interest(at, EventFlags::IN)?;
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return Ok(None);
        }
        let answered = self.connections[at].receive(self.dialect, &mut self.buffer)?;
        Ok((answered > 0).then_some((at, answered)))
    }

    fn interest(&self, at: usize, flags: EventFlags) -> Result<()> {
        let stream = &self.connections[at].stream;
        epoll::modify(&self.epoll, stream, EventData::new_u64(at as u64), flags)
            .context("cannot wait for a socket")
    }

    fn wait(&self, events: &mut Vec<Event>, timeout: &Timespec) -> Result<()> {
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(events), Some(timeout)) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for sockets"),
            }
        }
    }
}

impl Pace {
    fn due(&self, request: u64) -> Instant {
        self.start + Duration::from_nanos((self.interval.as_nanos() as u64) * request)
    }
}

/// The number of requests in the connection's next batch; 0 if the connection is done.
fn batch(connection: &Connection<'_>, depth: u64, until: Until, first: bool) -> u64 {
    match until {
        Until::Once => u64::from(first),
        Until::End => depth.min(connection.left()),
        Until::Time { deadline, .. } if Instant::now() >= deadline => 0,
        // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
        Until::Stopped(flag) if flag.load(Relaxed) => 0,
        Until::Time { repeat: true, .. } | Until::Stopped(_) => depth,
        Until::Time { repeat: false, .. } => depth.min(connection.left()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::super::content::Content;
    use super::super::dialect::Action;
    use super::*;
    use crate::address::Protocol;

    /// A server of one connection, which runs the closure.
    fn peer<R: Send + 'static>(
        serve: impl FnOnce(std::net::TcpStream) -> R + Send + 'static,
    ) -> (Endpoint, std::thread::JoinHandle<R>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Tcp(listener.local_addr().unwrap().to_string());
        let serving = std::thread::spawn(move || serve(listener.accept().unwrap().0));
        (endpoint, serving)
    }

    fn dialect() -> Dialect {
        Dialect::new(Protocol::Resp, Content::new(8, 8))
    }

    /// Bytes of one request to write.
    fn request_len() -> usize {
        let mut out = Vec::new();
        dialect().request(Step::new(Action::Set, 0), 0, &mut out);
        out.len()
    }

    fn pool<'a>(endpoint: &Endpoint, dialect: &'a Dialect, script: &'a [Step]) -> Pool<'a> {
        Pool::open(endpoint, dialect, std::iter::once(script)).unwrap()
    }

    #[test]
    fn latencies_of_a_stalled_server_count_from_the_due_time() {
        const STALL: Duration = Duration::from_millis(60);
        const REQUESTS: u64 = 10;
        let (endpoint, serving) = peer(|mut stream| {
            let mut request = vec![0; request_len()];
            for number in 0..REQUESTS {
                stream.read_exact(&mut request).unwrap();
                if number == 0 {
                    std::thread::sleep(STALL);
                }
                stream.write_all(b"+OK\r\n").unwrap();
            }
        });
        let (dialect, script) = (dialect(), [Step::new(Action::Set, 0)]);
        let interval = Duration::from_millis(1);
        let pace = Pace { start: Instant::now(), interval, total: REQUESTS };
        let tally = pool(&endpoint, &dialect, &script).open_loop(1, &pace).unwrap();
        serving.join().unwrap();
        assert_eq!(tally.requests, REQUESTS);
        // The last was due 9 ms after the first, which had to wait for the stall's end.
        let least = STALL - interval * REQUESTS as u32;
        assert!(u128::from(tally.latency.min()) >= least.as_nanos(), "{}", tally.latency.min());
    }

    #[test]
    fn a_closed_loop_keeps_exactly_its_requests_in_flight() {
        const DEPTH: usize = 7;
        const BATCHES: usize = 3;
        let (endpoint, serving) = peer(|mut stream| {
            let mut batch = vec![0; DEPTH * request_len()];
            for _ in 0..BATCHES {
                stream.read_exact(&mut batch).unwrap();
                stream.set_nonblocking(true).unwrap();
                let more = stream.read(&mut [0]).map_err(|error| error.kind());
                assert_eq!(more, Err(std::io::ErrorKind::WouldBlock), "nothing before an answer");
                stream.set_nonblocking(false).unwrap();
                stream.write_all("+OK\r\n".repeat(DEPTH).as_bytes()).unwrap();
            }
        });
        let script = vec![Step::new(Action::Set, 0); DEPTH * BATCHES];
        let dialect = dialect();
        let tally =
            pool(&endpoint, &dialect, &script).closed_loop(DEPTH as u64, Until::End).unwrap();
        serving.join().unwrap();
        assert_eq!(tally.requests, (DEPTH * BATCHES) as u64);
        assert_eq!(tally.latency.len(), tally.requests);
    }

    /// The window in which a full copy is measured must not outlast the copy.
    #[test]
    fn a_closed_loop_ends_once_it_is_told_to() {
        const REQUESTS: u64 = 5;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let (endpoint, serving) = peer(move |mut stream| {
            let mut request = vec![0; request_len()];
            for number in 1..=REQUESTS {
                stream.read_exact(&mut request).unwrap();
                // ORDERING: Relaxed; the answer publishes it.
                told.store(number == REQUESTS, Relaxed);
                stream.write_all(b"+OK\r\n").unwrap();
            }
            assert_eq!(stream.read(&mut request).unwrap(), 0, "nothing after the last answer");
        });
        let (dialect, script) = (dialect(), [Step::new(Action::Set, 0)]);
        let until = Until::Stopped(&stop);
        let tally = pool(&endpoint, &dialect, &script).closed_loop(1, until).unwrap();
        serving.join().unwrap();
        assert_eq!(tally.requests, REQUESTS);
    }

    #[test]
    fn wrong_surplus_and_missing_answers_are_errors() {
        for (answer, complaint) in [
            ("-ERR no\r\n", "wrong answer to Set of key AAAAAAAA: \"-ERR no"),
            ("+OK\r\n+OK\r\n", "more than was asked for"),
            ("+O", "closed the connection"),
        ] {
            let (endpoint, serving) = peer(move |mut stream| {
                stream.read_exact(&mut vec![0; request_len()]).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let (dialect, script) = (dialect(), [Step::new(Action::Set, 0)]);
            let error = pool(&endpoint, &dialect, &script).closed_loop(1, Until::End).unwrap_err();
            serving.join().unwrap();
            assert!(error.to_string().contains(complaint), "{error}");
        }
    }

    #[test]
    fn large_batches_leave_and_return_in_parts() {
        const DEPTH: usize = 64;
        const VALUE: usize = 100_000;
        let (endpoint, serving) = peer(|mut stream| {
            // All is read before anything is answered, which no socket's buffer holds.
            let content = Content::new(8, VALUE);
            let dialect = Dialect::new(Protocol::Resp, content);
            let mut sets = Vec::new();
            dialect.request(Step::new(Action::Set, 3), 0, &mut sets);
            let mut input = vec![0; sets.len() * DEPTH];
            stream.read_exact(&mut input).unwrap();
            stream.write_all("+OK\r\n".repeat(DEPTH).as_bytes()).unwrap();
            let mut gets = Vec::new();
            dialect.request(Step::new(Action::Get, 3), 0, &mut gets);
            stream.read_exact(&mut vec![0; gets.len() * DEPTH]).unwrap();
            let mut value = format!("${VALUE}\r\n").into_bytes();
            Content::new(8, VALUE).value(3, 1, &mut value);
            value.extend_from_slice(b"\r\n");
            stream.write_all(&value.repeat(DEPTH)).unwrap();
        });
        let dialect = Dialect::new(Protocol::Resp, Content::new(8, VALUE));
        let script =
            [[Step::new(Action::Set, 3); DEPTH], [Step::new(Action::Get, 3); DEPTH]].concat();
        let tally =
            pool(&endpoint, &dialect, &script).closed_loop(DEPTH as u64, Until::End).unwrap();
        serving.join().unwrap();
        assert_eq!(tally.requests, 2 * DEPTH as u64);
    }
}
