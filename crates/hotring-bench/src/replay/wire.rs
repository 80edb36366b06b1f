//! Replay over the wire, against any server that speaks RESP.
//!
//! A window of GETs is sent with one write; a second window of SETs with NX fills the misses among the replies.
//! The latency of an access runs from the departure of its window to its own last reply. Threads send the next
//! window only when the last is answered (a closed loop), so a stalled server gets fewer requests meanwhile and
//! its tail looks better than it is.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::{Job, Outcome, Tally, on_threads};
use crate::address::Address;
use crate::report::Strides;
use crate::resp::{Client, Reply, info_field};

/// Keys per EXISTS request.
const KEYS_PER_EXISTS: usize = 512;

/// Replays against a server, which must hold none of the trace's keys.
pub fn replay(job: &Job<'_>, address: &Address) -> Result<Outcome> {
    let mut control = Client::connect(address)?;
    refuse_present(job, &mut control)?;
    let before = visits(&mut control)?;
    let (tally, elapsed) = on_threads(job.threads, |thread| {
        let mut player = Player::new(job, Client::connect(address)?);
        job.windows(thread).try_for_each(|window| player.play(window))?;
        Ok(player.tally)
    })?;
    let present = count_present(job, &mut control)?;
    let distinct = job.trace.distinct() as u64;
    ensure!(present == distinct, "{present} of the {distinct} keys are on the server afterwards");
    let visits = match (before, visits(&mut control)?) {
        (Some(old), Some(new)) if new.0 > old.0 => Some((new.1 - old.1) / (new.0 - old.0)),
        _ => None,
    };
    Ok(Outcome { tally, elapsed, visits })
}

/// Fails if keys of the trace are present, because the hit count would then be meaningless.
fn refuse_present(job: &Job<'_>, control: &mut Client) -> Result<()> {
    let present = count_present(job, control)?;
    if present > 0 {
        bail!("the server holds {present} of the trace's keys already: empty it or give --prefix");
    }
    Ok(())
}

fn count_present(job: &Job<'_>, control: &mut Client) -> Result<u64> {
    let mut present = 0;
    let mut key = Vec::new();
    let numbers: Vec<u32> = (0..job.trace.distinct() as u32).collect();
    for chunk in numbers.chunks(KEYS_PER_EXISTS) {
        control.begin(chunk.len() + 1);
        control.arg(b"EXISTS");
        for &number in chunk {
            job.key(number, &mut key);
            control.arg(&key);
        }
        control.flush()?;
        match control.reply()? {
            Reply::Integer(count) => present += u64::try_from(count).context("EXISTS below 0")?,
            other => bail!("EXISTS answers {other:?}"),
        }
    }
    Ok(present)
}

/// Sampled lookups and the items that they visited, if the server's INFO reports them.
fn visits(control: &mut Client) -> Result<Option<(f64, f64)>> {
    let info = control.info("index")?;
    let field = |name| info_field::<f64>(&info, name);
    let lookups = field("index_lookups_sampled");
    let mean = field("index_visits_per_lookup");
    Ok(lookups.zip(mean).map(|(lookups, mean)| (lookups, lookups * mean)))
}

struct Player<'a> {
    job: &'a Job<'a>,
    client: Client,
    tally: Tally,
    key: Vec<u8>,
    value: Vec<u8>,
    missed: Vec<u32>,
    strides: Strides<'a>,
}

impl<'a> Player<'a> {
    fn new(job: &'a Job<'a>, client: Client) -> Self {
        Player {
            job,
            client,
            tally: Tally::new(),
            key: Vec::new(),
            value: Vec::new(),
            missed: Vec::new(),
            strides: Strides::on(job.bar),
        }
    }

    fn play(&mut self, window: &[u32]) -> Result<()> {
        for &number in window {
            self.job.key(number, &mut self.key);
            self.client.push(&[b"GET", &self.key]);
        }
        let departure = Instant::now();
        self.client.flush()?;
        self.missed.clear();
        for &number in window {
            match self.client.reply()? {
                Reply::Bulk(Some(_)) => {
                    self.tally.hits += 1;
                    self.tally.record(departure.elapsed());
                }
                Reply::Bulk(None) => self.missed.push(number),
                other => bail!("GET answers {other:?}"),
            }
        }
        self.fill(departure)?;
        self.strides.add(window.len() as u64);
        Ok(())
    }

    fn fill(&mut self, departure: Instant) -> Result<()> {
        for &number in &self.missed {
            self.job.key(number, &mut self.key);
            self.job.value_size.fill(&self.key, &mut self.value);
            self.client.push(&[b"SET", &self.key, &self.value, b"NX"]);
        }
        self.client.flush()?;
        for _ in &self.missed {
            match self.client.reply()? {
                Reply::Simple(_) => self.tally.filled(true),
                Reply::Bulk(None) => self.tally.filled(false),
                other => bail!("SET answers {other:?}"),
            }
            self.tally.record(departure.elapsed());
        }
        Ok(())
    }
}
