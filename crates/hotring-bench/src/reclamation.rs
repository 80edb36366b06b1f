//! `reclamation`: measures the cost to readers of protecting items from being freed.
//!
//! Schemes take turns within each round. The pin of each scheme is measured alone and around a lookup in a table
//! that fits the cache, where the cost of a pin shows most. The index pins by itself inside `get`, so its lookup
//! is measured with its own pin. Pinning another scheme around the same `get` shows the difference that this
//! scheme would make.
//!
//! The second table shows a cost that no epoch scheme bounds: memory that waits for a reader which stays pinned,
//! here a reader stopped inside the store's `get`.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hotring_index::{Config, HotRing, U64, barrier};
use hotring_store::{Options, Session, SetOptions, Store};

use crate::machine::{self, Machine};
use crate::report::{self, Spread, Table};

/// Compare the cost of pins: crossbeam-epoch, seize, and the index's own epochs
#[derive(Debug, Args)]
pub struct ReclamationArgs {
    /// Pins or lookups per measurement
    #[arg(long, value_parser = crate::count::count, default_value = "20M")]
    iterations: u64,
    /// Measured rounds; figures are medians
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Number of values overwritten while a reader is stopped
    #[arg(long, value_parser = crate::count::count, default_value = "1M")]
    overwrites: u64,
}

/// The number of keys in the table, which fits the cache.
const KEYS: u64 = 1 << KEYS_BITS;
const KEYS_BITS: u32 = 10;
/// Bytes of an overwritten value.
const VALUE_BYTES: usize = 100;
/// The current time of all operations. Nothing expires here.
const NOW: u64 = 1;

/// A scheme: its name, and a function that runs the given iterations and returns nanoseconds per iteration.
type Measure<'a> = (&'static str, Box<dyn FnMut(u64) -> f64 + 'a>);

impl ReclamationArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        print!("{}", Machine::here());
        machine::pin(0)?;
        println!("membarrier: {}\n", if barrier::is_asymmetric() { "used" } else { "refused" });
        println!("{}", self.readers()?.render());
        print!("{}", self.stalled_reader()?.render());
        Ok(())
    }

    fn readers(&self) -> Result<Table> {
        let index = HotRing::<U64>::new(Config::default())?;
        let mut session = index.session();
        (0..KEYS).for_each(|key| assert!(session.insert(key, key), "{key} was there"));
        let mut sessions = [(); 3].map(|()| index.session());
        let [under_crossbeam, under_seize, under_exchange] = &mut sessions;
        let own = OwnEpochs::default();
        let crossbeam = crossbeam_epoch::Collector::new().register();
        let seize = seize::Collector::new();
        let mut measures = vec![
            measure("the loop alone", |_| ()),
            measure("own epochs, a store and membarrier: pin", |_| own.pinned(store, || ())),
            measure("own epochs, an exchange: pin", |_| own.pinned(exchange, || ())),
            measure("crossbeam-epoch: pin", |_| drop(black_box(crossbeam.pin()))),
            measure("seize: enter", |_| drop(black_box(seize.enter()))),
            measure("get, with the index's own pin", |key| see(session.get(key))),
            measure("get, an exchange more", |key| {
                own.pinned(exchange, || see(under_exchange.get(key)));
            }),
            measure("get, crossbeam-epoch more", |key| {
                let _pin = black_box(crossbeam.pin());
                see(under_crossbeam.get(key));
            }),
            measure("get, seize more", |key| {
                let _pin = black_box(seize.enter());
                see(under_seize.get(key));
            }),
        ];
        // Measured with this thread alone. The barrier is a system call, so a hundredth of the iterations
        // suffices.
        let (name, mut heavy) = measure("who reclaims: heavy barrier", |_| barrier::heavy());
        measures.push((name, Box::new(move |iterations| heavy(iterations.div_ceil(100)))));
        Ok(self.table(&mut measures))
    }

    fn table(&self, measures: &mut [Measure<'_>]) -> Table {
        let bar = report::progress((self.rounds * measures.len()) as u64, "reclamation");
        let mut samples = vec![Vec::new(); measures.len()];
        for round in 0..self.rounds {
            for turn in 0..measures.len() {
                let at = (round + turn) % measures.len();
                samples[at].push(measures[at].1(self.iterations));
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let mut table = Table::new(&["what", "ns", "min..max"]);
        for ((name, _), samples) in measures.iter().zip(&samples) {
            let Spread { median, min, max, .. } = Spread::of(samples);
            let range = format!("{min:.2}..{max:.2}");
            table.row(vec![(*name).to_owned(), format!("{median:.2}"), range]);
        }
        table
    }

    /// Stops a reader inside a read, and overwrites values meanwhile.
    fn stalled_reader(&self) -> Result<Table> {
        let store = Store::new(Options::default())?;
        let mut writer = store.session();
        writer.set(b"stalled", &[0; VALUE_BYTES], SetOptions::default(), NOW)?;
        let (release, held) = mpsc::channel::<()>();
        let (inside, entered) = mpsc::channel();
        let mut reader = store.session();
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                reader.get(b"stalled", NOW, |_| {
                    inside.send(()).expect("the writer waits for this");
                    // Returns when the writer sends, or drops its end.
                    let _ = held.recv();
                });
            });
            // Must be dropped on every way out, because the reader ends with it.
            let release = release;
            entered.recv().context("the reader did not get there")?;
            let mut table = Table::new(&[
                "reader",
                "overwrites of 100 bytes",
                "waiting bytes",
                "epochs behind",
            ]);
            let mut done = 0;
            let mut note = |done: u64, when: &str| {
                let stats = store.stats().index;
                table.row(vec![
                    when.to_owned(),
                    done.to_string(),
                    stats.limbo_bytes.to_string(),
                    stats.oldest_pin.to_string(),
                ]);
            };
            note(0, "stopped");
            for share in [1000, 100, 10, 1] {
                while done < self.overwrites / share {
                    overwrite(&mut writer, done)?;
                    done += 1;
                }
                note(done, "stopped");
            }
            release.send(()).context("the reader is gone")?;
            // On a busy machine the thread may take long to end; "gone" must mean gone.
            reading.join().expect("the reader does not panic");
            for _ in 0..self.overwrites {
                overwrite(&mut writer, done)?;
                done += 1;
            }
            note(done, "gone");
            Ok(table)
        })
    }
}

fn overwrite(writer: &mut Session, number: u64) -> Result<()> {
    let key = (number % KEYS).to_le_bytes();
    writer.set(&key, &[number as u8; VALUE_BYTES], SetOptions::default(), NOW)?;
    Ok(())
}

fn measure<'a>(name: &'static str, mut work: impl FnMut(u64) + 'a) -> Measure<'a> {
    let run = move |iterations: u64| {
        let start = Instant::now();
        for turn in 0..iterations {
            // The multiplication scatters the keys and is the only work that the loop adds.
            work(black_box(turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - KEYS_BITS)));
        }
        start.elapsed().as_nanos() as f64 / iterations as f64
    };
    (name, Box::new(run))
}

fn see(value: Option<u64>) {
    black_box(value);
}

/// The index's pin, rebuilt from its parts so that it can be measured without a lookup.
#[derive(Default)]
struct OwnEpochs {
    epoch: Padded,
    state: Padded,
}

/// A word on cache lines of its own, as in the index.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl OwnEpochs {
    fn pinned(&self, publish: impl Fn(&AtomicU64, u64), read: impl FnOnce()) {
        let epoch = self.epoch.0.load(Ordering::Acquire);
        publish(&self.state.0, epoch << 1 | 1);
        read();
        self.state.0.store(0, Ordering::Release);
    }
}

/// A plain store. The reclaiming session makes it visible with a system call.
fn store(state: &AtomicU64, word: u64) {
    state.store(word, Ordering::Relaxed);
    barrier::light();
}

/// An exchange, visible to all threads at once. The reader pays for it.
fn exchange(state: &AtomicU64, word: u64) {
    state.swap(word, Ordering::SeqCst);
}
