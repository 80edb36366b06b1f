//! Replays a trace through the embedded store.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use hotring_engines::EngineChoice;
use hotring_store::{Key, Options, Session, SetOptions, Store};

use super::{Job, Outcome, Tally, on_threads};
use crate::report::Strides;

/// One access in this number is timed, because reading the clock costs about as much as a lookup.
const TIMED_EVERY: u64 = 16;
/// The current time of all operations. Nothing expires in a replay.
const NOW: u64 = 1;

/// Replays the trace against a fresh store.
pub fn replay(job: &Job<'_>, engine: EngineChoice) -> Result<Outcome> {
    let store = Store::open_with(Options::default(), move |config| engine.open(config))?;
    let (tally, elapsed) = on_threads(job.threads, |thread| {
        let mut player = Player::new(job, store.session());
        job.windows(thread).try_for_each(|window| player.play(window))?;
        Ok(player.tally)
    })?;
    // Each key was filled once, so the store must hold all keys.
    let distinct = job.trace.distinct();
    ensure!(store.len() == distinct, "{} keys in the store, not {distinct}", store.len());
    let stats = store.stats().index;
    let visits = (stats.lookups_sampled > 0)
        .then(|| stats.visits_sampled as f64 / stats.lookups_sampled as f64);
    Ok(Outcome { tally, elapsed, visits })
}

struct Player<'a> {
    job: &'a Job<'a>,
    session: Session,
    window_keys: Vec<Key<'a>>,
    tally: Tally,
    played: u64,
    strides: Strides<'a>,
}

impl<'a> Player<'a> {
    fn new(job: &'a Job<'a>, session: Session) -> Self {
        Player {
            job,
            session,
            window_keys: Vec::new(),
            tally: Tally::new(),
            played: 0,
            strides: Strides::on(job.bar),
        }
    }

    fn play(&mut self, window: &[u32]) -> Result<()> {
        if window.len() > 1 {
            self.window_keys.clear();
            self.window_keys
                .extend(window.iter().map(|&number| Key::from(self.job.trace.key(number))));
            self.session.prefetch(&mut self.window_keys);
        }
        for &number in window {
            let key = self.job.trace.key(number);
            self.played += 1;
            if self.played.is_multiple_of(TIMED_EVERY) {
                let before = Instant::now();
                self.access(key)?;
                self.tally.record(before.elapsed());
            } else {
                self.access(key)?;
            }
        }
        self.strides.add(window.len() as u64);
        Ok(())
    }

    fn access(&mut self, key: &[u8]) -> Result<()> {
        if let Some(length) = self.session.get(key, NOW, |value| value.len()) {
            black_box(length);
            self.tally.hits += 1;
            return Ok(());
        }
        let mut value = Vec::new();
        self.job.value_size.fill(key, &mut value);
        let outcome = self.session.set(key, &value, SetOptions::if_absent(), NOW)?;
        self.tally.filled(outcome.stored);
        Ok(())
    }
}
