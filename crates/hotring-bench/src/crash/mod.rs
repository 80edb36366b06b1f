//! `crash`: kills a server at random moments, again and again, and checks that it keeps every acknowledged write.
//! The server writes snapshots without pause in the meantime.
//!
//! Writers send sets, counts, removals, pairs of keys, long values and changes of containers, each on its own
//! keys in one of several databases. They remember all sent writes and the times of the acknowledgements. After
//! each kill the server is restarted on its folder. Then every key must have the state after its last
//! acknowledged write or after a later write that was sent, and both keys of a pair must have the same state.
//! Losses that the mode permits are reported with their age; any other loss ends the run with an error.

mod container;
mod writer;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use fastrand::Rng;

use crate::address::Address;
use crate::folder::Folder;
use crate::machine::Machine;
use crate::report;
use crate::resp::Client;
use crate::servers::{Data, Kind, LogPlan, Plan, Spawned, Transport};
use writer::{Lost, Writer};

/// Time between two requests for a snapshot.
const SAVE_EVERY: Duration = Duration::from_millis(20);

/// Kill a server repeatedly, and check that it keeps acknowledged writes
#[derive(Debug, Args)]
pub struct CrashArgs {
    /// Number of kills in each mode
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Log modes
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sync,everysec,async")]
    log: Vec<Mode>,
    /// Connections that write
    #[arg(long, default_value_t = 6)]
    writers: usize,
    /// String keys per connection
    #[arg(long, default_value_t = 40)]
    keys: usize,
    /// The longest time from start to kill, in milliseconds
    #[arg(long, default_value_t = 400)]
    life: u64,
    /// Server threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The server's program [default: hotring in this program's folder]
    #[arg(long)]
    program: Option<PathBuf>,
    /// Seed of the writes; the moments of the kills still vary
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Writes are acknowledged once they are synced to disk
    Sync,
    /// Writes are acknowledged once they are written to the file
    Everysec,
    /// Writes are acknowledged at once
    Async,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Everysec => "everysec",
            Mode::Async => "async",
        }
    }

    /// The longest permitted time from the acknowledgement of a lost write to the kill.
    fn lost_max(self) -> Duration {
        match self {
            Mode::Sync | Mode::Everysec => Duration::ZERO,
            // Ten milliseconds in the queue, plus the delay of a busy machine.
            Mode::Async => Duration::from_secs(1),
        }
    }
}

/// The result of a mode.
#[derive(Debug, Default)]
struct Outcome {
    acknowledged: u64,
    lost: u64,
    kills_with_loss: usize,
    oldest: Duration,
    starts: Vec<Duration>,
}

impl CrashArgs {
    /// Kills servers and reports the losses. The loss of a write that the mode promises to keep ends the run with
    /// an error.
    pub fn run(&self) -> Result<()> {
        ensure!(self.writers > 0 && self.keys > 3 && self.life > 0, "nothing would be written");
        println!(
            "| log | kills | acknowledged | lost | kills with loss | oldest lost ms | start ms, median |"
        );
        println!("|---|---|---|---|---|---|---|");
        for mode in &self.log {
            let mut outcome = self.run_mode(*mode)?;
            outcome.starts.sort();
            let start = outcome.starts[outcome.starts.len() / 2];
            println!(
                "| {} | {} | {} | {} | {} | {:.1} | {:.1} |",
                mode.name(),
                self.kills,
                outcome.acknowledged,
                outcome.lost,
                outcome.kills_with_loss,
                outcome.oldest.as_secs_f64() * 1e3,
                start.as_secs_f64() * 1e3
            );
        }
        print!("{}", Machine::here());
        Ok(())
    }

    fn run_mode(&self, mode: Mode) -> Result<Outcome> {
        let folder = Folder::new(&std::env::temp_dir(), mode.name())?;
        let none = Data { keys: 0, key_len: 0, value_len: 0 };
        let plan = Plan {
            program: self.program.clone(),
            log: Some(LogPlan { when: mode.name().into(), data: folder.path().to_owned() }),
            settings: container::SETTINGS.map(|(name, value)| (name, value.into())).into(),
            ..Plan::new(Kind::Hotring, Transport::Tcp, self.threads, "hotring", &none)
        };
        let mut writers: Vec<Writer> =
            (0..self.writers).map(|n| Writer::new(n, self.keys, self.seed)).collect();
        let mut random = Rng::with_seed(self.seed);
        let (mut outcome, mut server) = (Outcome::default(), plan.start()?);
        Client::connect(&server.address)?.wait_until_loaded()?;
        let bar = report::progress(self.kills as u64, mode.name());
        for kill in 0..self.kills {
            let life = Duration::from_micros(random.u64(..self.life * 1000));
            let killed = write_and_kill(server, &mut writers, life)?;
            let begun = Instant::now();
            server = plan.start()?;
            outcome.starts.push(begun.elapsed());
            let mut client = Client::connect(&server.address)?;
            let mut lost = Lost::default();
            for writer in &mut writers {
                let found = writer.check(&mut client, killed);
                lost.add(found.with_context(|| format!("{} after kill {kill}", mode.name()))?);
            }
            client.wait_until_loaded()?;
            ensure!(
                lost.oldest <= mode.lost_max(),
                "{} after kill {kill}: {} acknowledged writes are lost, the oldest {:.1} ms old; the files are \
                 in {}",
                mode.name(),
                lost.count,
                lost.oldest.as_secs_f64() * 1e3,
                folder.keep().display()
            );
            outcome.lost += lost.count;
            outcome.kills_with_loss += usize::from(lost.count > 0);
            outcome.oldest = outcome.oldest.max(lost.oldest);
            bar.inc(1);
        }
        bar.finish_and_clear();
        outcome.acknowledged = writers.iter().map(|writer| writer.acknowledged).sum();
        ensure!(outcome.acknowledged > 0, "nothing was written");
        Ok(outcome)
    }
}

/// Requests one snapshot after another until the server is killed.
fn save_until_it_ends(address: &Address) {
    let Ok(mut client) = Client::connect(address) else { return };
    // With SCHEDULE a running snapshot is no error.
    while client.call(&[b"BGSAVE", b"SCHEDULE"]).is_ok() {
        std::thread::sleep(SAVE_EVERY);
    }
}

/// Lets all writers write, kills the server, and returns the time of the kill.
fn write_and_kill(mut server: Spawned, writers: &mut [Writer], life: Duration) -> Result<Instant> {
    let address = server.address.clone();
    std::thread::scope(|scope| {
        let working: Vec<_> = writers
            .iter_mut()
            .map(|writer| scope.spawn(|| writer.write_until_it_ends(&address)))
            .collect();
        scope.spawn(|| save_until_it_ends(&address));
        std::thread::sleep(life);
        let killed = Instant::now();
        server.kill()?;
        working.into_iter().try_for_each(|thread| thread.join().expect("writers do not panic"))?;
        Ok(killed)
    })
}
