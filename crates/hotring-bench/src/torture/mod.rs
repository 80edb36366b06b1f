//! `torture`: runs reads, writes, removals and growth in a mix, and checks every answer.
//!
//! A life begins with an empty table of the smallest size and goes through a few cycles: fill (the table grows
//! under load), churn, verify, drain. Then everything is dropped and the next life begins. Within a phase all
//! threads work at once; between phases they join, and the invariants of a subject at rest are checked.
//! [`worker`] describes the checks.

mod ledger;
mod subject;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use hotring_engines::{ChainingHash, EngineChoice, GCuckoo, Mercury, OsMutex, TestAndSet};
#[cfg(target_arch = "x86_64")]
use hotring_index::ItemLines;
use hotring_index::{HotRing, Index, U64};
use indicatif::ProgressBar;

use crate::machine::{self, Machine, resident};
use crate::report;
use ledger::Ledger;
use subject::{Bytes, Subject, Usage};
use worker::{Flaw, Worker};

/// Run mixed operations from several threads and check every answer
#[derive(Debug, Args)]
pub struct TortureArgs {
    /// Seconds per subject
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Number of threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Keys per thread
    #[arg(long, value_parser = crate::count::count, default_value = "100k")]
    keys: u64,
    /// Subjects of the run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "index,store")]
    on: Vec<On>,
    /// The engine: hotring, hotring-one-head, chaining, mercury, ...
    #[arg(long, default_value = "hotring")]
    engine: EngineChoice,
    /// Seed of each thread's operations; the interleaving of threads still varies
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// The index with u64 keys and values
    Index,
    /// The store with byte strings of many lengths
    Store,
}

/// Cycles per life.
const CYCLES: u64 = 3;
/// The limit of the memory that still waits for reclamation after all keys were removed and a thread has
/// continued for a while, in bytes.
const WAITING_BYTES_MAX: u64 = 1 << 20;
/// Lives after which memory must be steady.
const LIVES_BEFORE_STEADY: usize = 2;

/// The result of a run.
#[derive(Debug, Default)]
struct Record {
    operations: u64,
    cycles: u64,
    peak: Usage,
    /// Resident memory at the end of each life, after everything was dropped.
    resident: Vec<u64>,
}

impl TortureArgs {
    /// Tortures the subjects and prints the results. Gives an error for a flaw.
    pub fn run(&self) -> Result<()> {
        ensure!((1..=255).contains(&self.threads), "--threads is 1 to 255");
        ensure!(self.threads as u64 * self.keys <= 1 << 23, "at most 2^23 keys over all threads");
        print!("{}", Machine::here());
        for on in &self.on {
            match (on, self.engine) {
                (On::Store, _) => self.torture::<Bytes>("store")?,
                (On::Index, EngineChoice::HotRing) => self.torture::<HotRing<U64>>("index")?,
                (On::Index, EngineChoice::HotRingOneHead) => {
                    self.torture::<HotRing<U64, 1>>("index")?;
                }
                (On::Index, EngineChoice::Chaining) => {
                    self.torture::<ChainingHash<U64>>("index")?;
                }
                (On::Index, EngineChoice::Mercury) => {
                    self.torture::<Index<U64, Mercury<TestAndSet>>>("index")?;
                }
                (On::Index, EngineChoice::MercuryMutex) => {
                    self.torture::<Index<U64, Mercury<OsMutex>>>("index")?;
                }
                (On::Index, EngineChoice::GCuckoo) => {
                    self.torture::<Index<U64, GCuckoo<4>>>("index")?;
                }
                (On::Index, EngineChoice::GCuckooOneSlot) => {
                    self.torture::<Index<U64, GCuckoo<1>>>("index")?;
                }
                #[cfg(target_arch = "x86_64")]
                (On::Index, EngineChoice::Lines) => {
                    self.torture::<Index<U64, ItemLines>>("index")?;
                }
                (On::Index, other) => bail!("{} is tortured --on store only", other.name()),
            }
        }
        Ok(())
    }

    fn torture<S: Subject>(&self, name: &str) -> Result<()> {
        let bar = report::progress(self.seconds, &format!("torture the {name}"));
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let mut record = Record::default();
        let mut flaw = None;
        while flaw.is_none() && (record.resident.is_empty() || Instant::now() < end) {
            flaw = Life::<S>::new(self, record.resident.len() as u64)?
                .live(end, &bar, &mut record)
                .err();
            record.resident.push(resident()?);
        }
        bar.finish_and_clear();
        record.print(name);
        match flaw.map_or_else(|| record.steady(), Err) {
            Ok(()) => println!("{name}_flaws 0"),
            Err(flaw) => bail!("the {name} failed: {flaw}"),
        }
        Ok(())
    }
}

impl Record {
    fn print(&self, name: &str) {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!("{name}_operations {}", self.operations);
        println!("{name}_lives {}", self.resident.len());
        println!("{name}_cycles {}", self.cycles);
        println!("{name}_items_peak {}", self.peak.items);
        println!("{name}_slots_peak {}", self.peak.slots);
        println!("{name}_limbo_bytes_peak {}", self.peak.limbo_bytes);
        if let (Some(&first), Some(&last)) = (self.resident.first(), self.resident.last()) {
            println!("{name}_resident_mib_after_first_life {:.1}", mib(first));
            println!("{name}_resident_mib_after_last_life {:.1}", mib(last));
        }
    }

    /// Fails if memory grows from life to life, which is a leak.
    fn steady(&self) -> Result<(), Flaw> {
        let Some((early, late)) = self.resident.split_at_checked(LIVES_BEFORE_STEADY) else {
            return Ok(());
        };
        let early = early.iter().max().copied().unwrap_or_default();
        let allowed = early + early / 5 + (32 << 20);
        match late.iter().min() {
            Some(&least) if least > allowed => Err(Flaw(format!(
                "memory grows: {early} bytes resident after the first lives, {least} or more later"
            ))),
            _ => Ok(()),
        }
    }
}

/// A subject from its creation until it is dropped, with the threads that work on it.
struct Life<S> {
    subject: S,
    ledger: Ledger,
    workers: Vec<Worker>,
    /// The peak of the memory that waited for readers at the end of a phase.
    limbo_peak: AtomicU64,
}

impl<S: Subject> Life<S> {
    fn new(args: &TortureArgs, number: u64) -> Result<Self> {
        let total = args.threads as u64 * args.keys;
        let worker =
            |thread| Worker::new(thread, args.threads, args.keys, args.seed ^ (number << 32));
        Ok(Life {
            subject: S::fresh(args.engine, args.seed.wrapping_add(number))?,
            ledger: Ledger::new(total as usize, args.threads),
            workers: (0..args.threads).map(worker).collect(),
            limbo_peak: AtomicU64::new(0),
        })
    }

    fn live(mut self, end: Instant, bar: &ProgressBar, record: &mut Record) -> Result<(), Flaw> {
        let start = end.checked_sub(Duration::from_secs(bar.length().unwrap_or(0)));
        for cycle in 0..CYCLES {
            self.phase(Worker::fill)?;
            self.phase(Worker::churn)?;
            self.at_rest()?;
            self.note(record);
            self.phase(Worker::verify)?;
            self.phase(Worker::drain)?;
            self.note(record);
            self.drained()?;
            record.cycles += 1;
            bar.set_position(start.map_or(0, |start| start.elapsed().as_secs()));
            if cycle + 1 < CYCLES && Instant::now() >= end {
                break;
            }
        }
        record.operations += self.workers.iter().map(Worker::operations).sum::<u64>();
        Ok(())
    }

    /// Runs all threads at once. The first flaw of any thread ends the phase.
    fn phase(
        &mut self,
        work: impl Fn(&mut Worker, &mut S::Session, &Ledger, &AtomicBool) -> Result<(), Flaw> + Sync,
    ) -> Result<(), Flaw> {
        let failed = AtomicBool::new(false);
        let Life { subject, ledger, workers, limbo_peak } = self;
        let (subject, ledger, limbo_peak) = (&*subject, &*ledger, &*limbo_peak);
        let run = |(core, worker): (usize, &mut Worker)| {
            // A thread that cannot be pinned is as good for this test.
            let _ = machine::pin(core);
            let mut session = subject.session();
            let result = work(worker, &mut session, ledger, &failed);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            // Read while the session is open, because the session takes its limbo with it.
            limbo_peak.fetch_max(subject.usage().limbo_bytes, Ordering::Relaxed);
            result
        };
        let run = &run;
        std::thread::scope(|scope| {
            let each = workers.iter_mut().enumerate();
            let handles: Vec<_> = each.map(|each| scope.spawn(move || run(each))).collect();
            let results =
                handles.into_iter().map(|h| h.join().expect("a torturing thread panicked"));
            results.fold(Ok(()), Result::and)
        })
    }

    /// Checks the shared keys while no thread writes.
    fn at_rest(&mut self) -> Result<(), Flaw> {
        let mut session = self.subject.session();
        worker::check_shared(&self.workers, &mut session)
    }

    /// Checks that nothing is left after all keys were removed.
    fn drained(&mut self) -> Result<(), Flaw> {
        let mut session = self.subject.session();
        worker::remove_shared(&mut self.workers, &mut session)?;
        // The last removals wait for readers. More removals advance them.
        worker::stir(&self.workers, &mut session)?;
        drop(session);
        let Usage { items, bytes, .. } = self.subject.usage();
        if items != 0 || bytes > WAITING_BYTES_MAX {
            return Err(Flaw(format!(
                "{items} items of {bytes} bytes after every key was removed"
            )));
        }
        Ok(())
    }

    fn note(&self, record: &mut Record) {
        let usage = self.subject.usage();
        let peak = &mut record.peak;
        peak.items = peak.items.max(usage.items);
        peak.slots = peak.slots.max(usage.slots);
        peak.limbo_bytes = peak.limbo_bytes.max(self.limbo_peak.load(Ordering::Relaxed));
    }
}
