//! RHKV's section 6.6: the size of a database on disk, compared with the bytes of its keys and values.

use anyhow::Result;

use super::entry::{Bench, Entry};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::durability::{Pass, Rewrites, Setup, loaded, overwrite, server_name};
use crate::folder::Sizes;
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::short;
use crate::servers::{Data, Kind};

/// The figures of this file.
pub const ENTRIES: [Entry; 1] = [Entry {
    subject: Subject {
        id: "rhkv-space",
        title: "Space amplification",
        source: Source { paper: Paper::Rhkv, reference: "section 6.6" },
        paper: "A database of 1.02 GB, of 10-byte keys with 100-byte values, takes 1204.25 MB in \
                RHKV, 1256.32 MB in Redis with an append-only file synced each second, 1230.32 MB in \
                MongoDB: RHKV takes the least.",
    },
    measure,
}];

/// The paper's logical size, then the sizes of its three servers, in MB.
const LOGICAL: f64 = 1020.0;
const RHKV: f64 = 1204.25;
const REDIS: f64 = 1256.32;
const MONGODB: f64 = 1230.32;

const KEY_LEN: usize = 10;
const VALUE_LEN: usize = 100;
/// The number of keys that gives the paper's logical size.
const KEYS_MAX: u64 = 10_000_000;
/// The number of passes that overwrite all values.
const PASSES: usize = 4;
/// The log setting, which has the same name in both servers.
const LOG: &str = "everysec";

/// The part of the section that is not measured.
const PERSIST: &str = "The section also has times to persist an operation: 52.23 ms in RHKV, 62.21 in Redis, \
                       65.32 in MongoDB. They are left out, as the paper does not say what is timed.";

/// The categories of the first plot.
const COLUMNS: [&str; 3] = ["after the load", "its length", "packed"];

/// The observations of a server.
struct Seen {
    kind: Kind,
    /// The passes (load first) of a server that never rewrites its log.
    log_only: Vec<Pass>,
    /// The passes of a server that rewrites its log by itself.
    by_itself: Vec<Pass>,
    /// The files of the first server after a rewrite of its log.
    packed: Sizes,
}

fn measure(bench: &Bench) -> Result<Measured> {
    let keys = (bench.size.keys / 8).clamp(1, KEYS_MAX);
    let data = Data { keys, key_len: KEY_LEN, value_len: VALUE_LEN };
    let mut notes = vec![setting(&data), PERSIST.to_owned()];
    let lacks = |kind, error| notes.push(format!("Left out: {}. {error:#}.", server_name(kind)));
    let kinds = bench.testbed.present(&[Kind::Hotring, Kind::Redis], lacks);
    let bar = bench.steps((kinds.len() * 2 * (1 + PASSES)) as u64, "files");
    let mut seen = Vec::new();
    for kind in kinds {
        let passes = |rewrites| -> Result<(Vec<Pass>, Sizes)> {
            let setup = Setup { kind, log: Some(LOG), rewrites, threads: 1 };
            let mut subject = bench.testbed.start(setup, &data)?;
            let mut passes = vec![loaded(&mut subject)?];
            bar.inc(1);
            for _ in 0..PASSES {
                passes.push(overwrite(&mut subject, &data)?);
                bar.inc(1);
            }
            subject.rewrite()?;
            Ok((passes, subject.folder.sizes()))
        };
        let (log_only, packed) = passes(Rewrites::OnRequest)?;
        let (by_itself, _) = passes(Rewrites::Automatic)?;
        seen.push(Seen { kind, log_only, by_itself, packed });
    }
    bar.finish_and_clear();
    let live = data.live() as f64;
    let most = |seen: &Seen| {
        let most = seen.by_itself.iter().map(|pass| pass.most).max().unwrap_or_default();
        format!("{} {}", server_name(seen.kind), short(most as f64 / live))
    };
    notes.push(format!(
        "The most that files were long at any time, where logs are rewritten by themselves (from 64 MiB on), in \
         multiples of keys and values: {}.",
        seen.iter().map(most).collect::<Vec<_>>().join(", ")
    ));
    Ok(Measured { claims: claims(&seen, live), charts: charts(&seen, live), notes })
}

/// The note on the setting of the measurement.
fn setting(data: &Data) -> String {
    format!(
        "{} keys of {KEY_LEN} bytes with values of {VALUE_LEN}; counted once. hotring's log stands for RHKV's files, and \
         MongoDB is not measured. \"After the load\" is the log alone, what has been written of it; \"its length\" has the \
         room that hotring sets aside, 64 MiB at a time, however little is in it; \"packed\" is after BGREWRITEAOF: \
         hotring's snapshot, Redis's append-only file in the format of an RDB. Which MB and GB the paper means it does not \
         say: we took 1.02 GB as {LOGICAL} MB.",
        short(data.keys as f64)
    )
}

fn claims(seen: &[Seen], live: f64) -> Vec<Claim> {
    let of = |kind: Kind| seen.iter().find(|seen| seen.kind == kind);
    let log = |seen: &Seen| seen.log_only[0].files.written as f64;
    let mut claims = Vec::new();
    if let Some(ours) = of(Kind::Hotring) {
        claims.push(Claim::near(
            "RHKV takes 1204.25 MB for 1.02 GB: 1.18 times",
            "hotring's log, times keys and values",
            RHKV / LOGICAL,
            log(ours) / live,
            0.1,
        ));
    }
    if let Some(redis) = of(Kind::Redis) {
        claims.push(Claim::near(
            "Redis takes 1256.32 MB for 1.02 GB: 1.23 times",
            "here, times keys and values",
            REDIS / LOGICAL,
            log(redis) / live,
            0.1,
        ));
    }
    if let (Some(ours), Some(redis)) = (of(Kind::Hotring), of(Kind::Redis)) {
        claims.push(Claim::near(
            "RHKV takes 0.96 times what Redis takes",
            "hotring's log, times Redis's append-only file",
            RHKV / REDIS,
            log(ours) / log(redis),
            0.05,
        ));
        let packed = |seen: &Seen| seen.packed.written as f64;
        let pairs = [(log(ours), log(redis)), (packed(ours), packed(redis))];
        claims.push(Claim::holds(
            "RHKV takes the least",
            "hotring takes less than Redis, after the load and packed",
            pairs.iter().filter(|(ours, theirs)| ours < theirs).count(),
            pairs.len(),
        ));
    }
    claims
}

fn charts(seen: &[Seen], live: f64) -> Vec<Chart> {
    let mut bars: Vec<Series> = seen
        .iter()
        .map(|seen| {
            let Sizes { length, written, .. } = seen.log_only[0].files;
            let points = [written, length, seen.packed.written].into_iter().enumerate();
            let points = points.map(|(at, bytes)| Point::new(at as f64, bytes as f64 / live));
            Series::measured(server_name(seen.kind), points.collect())
        })
        .collect();
    for (name, megabytes) in [("RHKV", RHKV), ("Redis", REDIS), ("MongoDB", MONGODB)] {
        let point = Point::new(0.0, megabytes / LOGICAL);
        bars.push(Series::paper(format!("{name} (the paper)"), vec![point]));
    }
    let lines = seen.iter().flat_map(|seen| {
        let series = |label: &str, passes: &[Pass]| {
            let points = passes.iter().enumerate();
            let points =
                points.map(|(at, pass)| Point::new(at as f64, pass.files.written as f64 / live));
            Series::measured(format!("{}{label}", server_name(seen.kind)), points.collect())
        };
        [series("", &seen.by_itself), series(", log only", &seen.log_only)]
    });
    let y = || Axis::linear("times keys and values");
    let columns = COLUMNS.iter().map(|&name| name.to_owned()).collect();
    vec![
        Chart::bars("A database that was loaded", "files", y(), columns, bars),
        Chart::lines(
            "Files as values are overwritten",
            Axis::linear("how often all values were overwritten"),
            y(),
            lines.collect(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::figure::Verdict;
    use super::*;

    fn seen(kind: Kind, log: f64, packed: f64) -> Seen {
        let sizes = |bytes: f64| Sizes { written: bytes as u64, ..Sizes::default() };
        let pass = Pass { files: sizes(log), most: 0, resident: 0 };
        Seen { kind, log_only: vec![pass], by_itself: Vec::new(), packed: sizes(packed) }
    }

    #[test]
    fn the_papers_own_figures_agree_and_others_differ() {
        let verdicts = |ours: f64, redis: f64| {
            let seen = [seen(Kind::Hotring, ours, ours), seen(Kind::Redis, redis, redis)];
            let claims = claims(&seen, LOGICAL);
            claims.iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(RHKV, REDIS), [Verdict::Agrees; 4]);
        assert_eq!(verdicts(3.0 * REDIS, LOGICAL / 2.0), [Verdict::Differs; 4]);
        assert_eq!(claims(&[seen(Kind::Hotring, RHKV, RHKV)], LOGICAL).len(), 1);
    }
}
