//! RHKV's evaluation within one process: kicks, inserts, atomicity, the cache of recent items, skew, checksums.
//! `servers.rs` has its figures over the network.

use std::time::Instant;

use anyhow::Result;
use fastrand::Rng;
use hotring_engines::{Atomicity, CuckooPair, GCuckoo, GCuckooConfig};
use hotring_index::{Checksum, Config, Index, U64};

use super::entry::{Bench, Entry};
use super::field::{self, Field, Rows, Work};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::gcuckoo::{Filled, Filling, GCuckooArgs, Plain};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;
use crate::report::short;
use crate::targets::{Plan, Shape, TargetName};
use crate::workload::operations::{Keys, Workload};

/// The figures of this file.
pub const ENTRIES: [Entry; 6] = [
    Entry {
        subject: Subject {
            id: "rhkv-kicks",
            title: "Kicks of an insertion",
            source: Source { paper: Paper::Rhkv, reference: "sections 4.2 and 6.3" },
            paper: "A cuckoo table that kicks at random may walk an endless loop until it gives up. \
                    G-Cuckoo tells from the graph of buckets before the first kick, so that endless \
                    loops never happen.",
        },
        measure: kicks,
    },
    Entry {
        subject: Subject {
            id: "rhkv-inserts",
            title: "Latency by share of inserts",
            source: Source { paper: Paper::Rhkv, reference: "section 6.3" },
            paper: "With GET:INSERT = 80:20, 85:15, 90:10 and 95:5, the reductions of latency by \
                    G-Cuckoo, compared with conventional cuckoo hashing, are to each other as \
                    1.151 : 1.101 : 1.049 : 1.",
        },
        measure: inserts,
    },
    Entry {
        subject: Subject {
            id: "rhkv-locking",
            title: "Locks against lock elision",
            source: Source { paper: Paper::Rhkv, reference: "section 6.3" },
            paper: "Hardware lock elision lowers latency by 10.1 %, 8.7 %, 8.2 % and 8.6 % compared \
                    with classic locks, at GET:UPDATE = 50:50, 95:5, 100:0 and GET:INSERT = 95:5.",
        },
        measure: locking,
    },
    Entry {
        subject: Subject {
            id: "rhkv-cache",
            title: "The cache of recent items",
            source: Source { paper: Paper::Rhkv, reference: "section 6.2" },
            paper: "With 20 million keys and a skewed workload, a small cache of recent items \
                    spares about 9.0 % of the lookups in the tables, and is faster.",
        },
        measure: cache,
    },
    Entry {
        subject: Subject {
            id: "rhkv-skew",
            title: "Resistance to skew",
            source: Source { paper: Paper::Rhkv, reference: "section 6.5" },
            paper: "Zipf exponents from 0.1 to 0.9 do no harm: the most loaded core does little \
                    more than the least.",
        },
        measure: skew,
    },
    Entry {
        subject: Subject {
            id: "rhkv-checksums",
            title: "What checksums cost",
            source: Source { paper: Paper::Rhkv, reference: "sections 4.8 and 6.7" },
            paper: "Each item has a CRC32, which is 5 to 20 times cheaper than to flush the item \
                    from the cache for the sake of write order, and finds what is damaged.",
        },
        measure: checksums,
    },
];

const RATE: &str = "million operations a second";

fn kicks(bench: &Bench) -> Result<Measured> {
    let slots = (bench.size.keys / 2).clamp(1 << 10, 1 << 21);
    let args = GCuckooArgs::of(slots);
    let bar = bench.steps(4, "fill cuckoo tables");
    let one_slot = args.fill_single();
    bar.inc(2);
    let four_slots = args.fill_four();
    bar.finish_and_clear();
    let chart = |title: &str, fillings: &[Filling]| {
        let series = fillings.iter().map(|filling| {
            let points =
                filling.bands.iter().map(|(load, band)| Point::new(*load, band.kicks_each()));
            Series::measured(filling.name, points.collect())
        });
        let (x, y) = (Axis::linear("load, up to (%)"), Axis::linear("kicks for an insertion"));
        Chart::lines(title, x, y, series.collect())
    };
    let charts = vec![
        chart("One slot a bucket, as in the paper", &one_slot),
        chart("Four slots a bucket", &four_slots),
    ];
    let wasted = |filling: &Filling| filling.wasted();
    let (plain, known) = (wasted(&one_slot[0]), wasted(&one_slot[1]));
    let claims = vec![
        Claim::holds(
            "G-Cuckoo walks no endless loop",
            &format!("kicks for nothing: {known}, at random {plain}"),
            usize::from(known == 0),
            1,
        ),
        Claim::holds(
            "It needs fewer kicks than random walks",
            "fewer kicks, or as many, in each band of load",
            fewer(&one_slot),
            one_slot[0].bands.len(),
        ),
    ];
    let notes = vec![format!(
        "Counted: {slots} slots in two tables, filled with the same keys. \"Plain\" kicks at random \
         and gives up after {} kicks. Below a load of one half, at which such a table is used, \
         there are hardly any loops to avoid.",
        args.limit()
    )];
    Ok(Measured { claims, charts, notes })
}

fn fewer(fillings: &[Filling]) -> usize {
    let pairs = fillings[0].bands.iter().zip(&fillings[1].bands);
    pairs.filter(|((_, plain), (_, known))| known.kicks_each() <= plain.kicks_each()).count()
}

/// Shares of inserts, in percent, and the paper's values for them.
const SHARES: [(u64, f64); 4] = [(5, 1.0), (10, 1.049), (15, 1.101), (20, 1.151)];

/// Nanoseconds per operation on a table that is first filled to a load of 0.4.
fn mixed(table: &mut impl Filled, slots: u64, share: u64, round: u64) -> f64 {
    let mut random = Rng::with_seed(round);
    let mut keys: Vec<u64> = Vec::new();
    let mut fresh = || random.u64(..).max(1);
    while (keys.len() as u64) < slots * 2 / 5 {
        keys.push(fresh());
        table.insert(keys[keys.len() - 1]);
    }
    // The number of inserts is the same for any share, so that all runs end at the same load.
    let inserts = slots / 20;
    let operations: Vec<(bool, u64)> = (0..inserts * 100 / share)
        .map(|turn| match turn * share % 100 < share {
            true => (true, fresh()),
            false => (false, keys[fresh() as usize % keys.len()]),
        })
        .collect();
    let start = Instant::now();
    let mut found = 0_u64;
    for &(is_insert, key) in &operations {
        if is_insert {
            table.insert(key);
        } else {
            found += u64::from(table.contains(key));
        }
    }
    std::hint::black_box(found);
    start.elapsed().as_nanos() as f64 / operations.len() as f64
}

fn inserts(bench: &Bench) -> Result<Measured> {
    let slots = (bench.size.keys / 2).clamp(1 << 10, 1 << 24);
    let args = GCuckooArgs::of(slots);
    let mut series = ["conventional", "G-Cuckoo"].map(|name| Series::measured(name, Vec::new()));
    let bar = bench.steps(SHARES.len() as u64, "mix lookups and inserts");
    for (share, _) in SHARES {
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..bench.size.rounds as u64 {
            let mut plain = Plain::<1>::new((slots / 2) as u32, &args);
            times[0].push(mixed(&mut plain, slots, share, round));
            let mut known = CuckooPair::<1>::new((slots / 2) as u32);
            times[1].push(mixed(&mut known, slots, share, round));
        }
        for (series, times) in series.iter_mut().zip(&times) {
            series.points.push(Point::spread(share as f64, Spread::of(times)));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let gain = |share: f64| {
        let y = |row: usize| series[row].at(share).map_or(f64::NAN, |point| point.y);
        y(0) / y(1)
    };
    let claims = vec![
        Claim::holds(
            "G-Cuckoo is faster than conventional cuckoo hashing",
            "conventional to G-Cuckoo above 1, at each share of inserts",
            SHARES.iter().filter(|(share, _)| gain(*share as f64) > 1.0).count(),
            SHARES.len(),
        ),
        Claim::factor(
            "Its gain at 20 % inserts is 1.151 times that at 5 %",
            "gain at 20 % to that at 5 %",
            1.151,
            gain(20.0) / gain(5.0),
        ),
    ];
    let chart = Chart::lines(
        "One slot a bucket, from load 0.40 to 0.45",
        Axis::linear("inserts (%)"),
        Axis::linear("nanoseconds for an operation"),
        series.clone().into(),
    );
    let points = |gain: &dyn Fn(u64, f64) -> f64| -> Vec<Point> {
        SHARES.iter().map(|&(share, there)| Point::new(share as f64, gain(share, there))).collect()
    };
    let gains = Chart::lines(
        "The gain by G-Cuckoo, as a multiple of that at 5 % inserts",
        Axis::linear("inserts (%)"),
        Axis::linear("times"),
        vec![
            Series::measured("here", points(&|share, _| gain(share as f64) / gain(5.0))),
            Series::paper("there", points(&|_, there| there)),
        ],
    );
    let notes = vec![format!(
        "{slots} slots of plain numbers, one thread, no items and no locks: the two schemes alone. \
         The conventional one kicks at random. Keeping the graph costs G-Cuckoo a line more for each \
         insert; what it spares are loops, of which there are hardly any at this load."
    )];
    Ok(Measured { claims, charts: vec![chart, gains], notes })
}

fn gcuckoo(bench: &Bench, keys: u64, name: &str, settings: GCuckooConfig) -> Plan {
    let plan = field::default(bench, name, TargetName::Gcuckoo, keys);
    Plan { config: Config { engine: settings.into(), ..Config::default() }, ..plan }
}

fn locking(bench: &Bench) -> Result<Measured> {
    const MIXES: [(Workload, &str, f64); 4] = [
        (Workload::A, "50 % updates", 1.101),
        (Workload::B, "5 % updates", 1.087),
        (Workload::C, "reads only", 1.082),
        (Workload::D, "5 % inserts", 1.086),
    ];
    let keys = bench.size.keys / 2;
    let modes = [
        ("lock", Atomicity::Lock),
        ("lock with elision (HLE)", Atomicity::Hle),
        ("optimistic", Atomicity::Optimistic),
        ("transactions (RTM)", Atomicity::Rtm),
    ];
    let plan = |(name, atomicity)| {
        gcuckoo(bench, keys, name, GCuckooConfig { atomicity, ..GCuckooConfig::default() })
    };
    let all = modes.map(plan);
    // Plans that this processor cannot run are refused by `build`.
    let plans: Vec<Plan> = all.into_iter().filter(|plan| plan.build().is_ok()).collect();
    let has_rtm = plans.len() == modes.len();
    let has_hle = std::fs::read_to_string("/proc/cpuinfo")
        .is_ok_and(|text| text.split_whitespace().any(|word| word == "hle"));
    let field = Field::load(bench, keys, &plans)?;
    let mut rows = Rows::default();
    let mut claims = Vec::new();
    for (column, (workload, name, there)) in MIXES.into_iter().enumerate() {
        let work = Work::zipf(workload, 0.99, bench.size.threads);
        let names = plans.iter().map(Plan::name).collect();
        rows.add(column as f64, names, &field.measure(bench, work)?);
        let seen = rows.ratio(1, 0, column as f64);
        let claim = format!("{name}: elision is {:.1} % faster", 100.0 * (there - 1.0));
        claims.push(if has_hle {
            Claim::factor(claim, "lock with elision to lock", there, seen)
        } else {
            Claim::unseen(claim, "this processor has no lock elision")
        });
    }
    let factors: Vec<(f64, f64)> =
        MIXES.iter().enumerate().map(|(column, mix)| (column as f64, mix.2)).collect();
    let there = rows.by_factor("lock with elision, by its gain", 0, &factors);
    let chart = Chart::bars(
        format!("G-Cuckoo, exponent 0.99, threads: {}", bench.size.threads),
        "operations",
        Axis::linear(RATE),
        MIXES.iter().map(|(_, name, _)| (*name).to_owned()).collect(),
        rows.series().into_iter().chain([there]).collect(),
    );
    let mut notes = vec![format!("{keys} keys.")];
    if !has_hle {
        notes.push(
            "This processor has no lock elision: it ignores the prefixes, and the lock is an \
             ordinary one. What the paper reports cannot be seen here."
                .to_owned(),
        );
    }
    if !has_rtm {
        notes.push("It has no transactions (RTM) either, so they are left out.".to_owned());
    }
    notes.push(
        "\"Optimistic\" is what this project uses instead: readers take no lock and look again if \
         something moved."
            .to_owned(),
    );
    Ok(Measured { claims, charts: vec![chart], notes })
}

const ENTRIES_OF_CACHE: [usize; 4] = [0, 64, 1 << 10, 1 << 14];

fn cache(bench: &Bench) -> Result<Measured> {
    let keys = bench.size.keys;
    let work = Work::zipf(Workload::C, 0.99, 1);
    let settings = |cache_entries| GCuckooConfig { cache_entries, ..GCuckooConfig::default() };
    let plans = ENTRIES_OF_CACHE
        .map(|entries| gcuckoo(bench, keys, &format!("{entries} entries"), settings(entries)));
    let field = Field::load(bench, keys, &plans)?;
    let rates: Vec<Spread> =
        field.measure(bench, work)?.iter().map(|samples| samples.spread()).collect();
    let shares = ENTRIES_OF_CACHE
        .iter()
        .map(|&entries| spared(keys, bench.size.ops, work, settings(entries)))
        .collect::<Result<Vec<f64>>>()?;
    let points = |value: &dyn Fn(usize) -> Point| (0..4).map(value).collect::<Vec<_>>();
    let names: Vec<String> = ENTRIES_OF_CACHE.iter().map(usize::to_string).collect();
    let bars = |title: &str, axis: Axis, name: &str, points, there: &[Series]| {
        let series = [&[Series::measured(name, points)], there].concat();
        Chart::bars(title, "entries of a session's cache", axis, names.clone(), series)
    };
    let gain = |at: usize| rates[at].median / rates[0].median;
    let best = (1..4).map(gain).fold(0.0, f64::max);
    let small = shares[1];
    let claims = vec![
        Claim::holds(
            "A small cache spares about 9 % of lookups",
            &format!("64 entries spare {} %, so as many or more", short(small)),
            usize::from(small >= 9.0 * 0.9),
            1,
        ),
        Claim::holds(
            "It is faster with the cache",
            &format!("the best size is {best:.2} times as fast as none"),
            usize::from(best > 1.02),
            1,
        ),
    ];
    let notes = vec![format!(
        "{keys} keys, C, exponent 0.99, one thread. Spared are lookups that the cache answered \
         where to look. The paper's cache saves its server a lookup in large tables; here the tables \
         of hot keys are in the processor's cache anyway."
    )];
    let charts = vec![
        bars(
            "Lookups that the cache spares",
            Axis::linear("% of lookups"),
            "G-Cuckoo",
            points(&|at| Point::new(at as f64, shares[at])),
            &[Series::paper("a small cache", vec![Point::new(1.0, 9.0)])],
        ),
        bars(
            "Throughput",
            Axis::linear(RATE),
            "G-Cuckoo",
            points(&|at| Point::spread(at as f64, rates[at])),
            &[],
        ),
    ];
    Ok(Measured { claims, charts, notes })
}

/// The share of lookups that the cache answers, in percent.
fn spared(keys: u64, ops: u64, work: Work, settings: GCuckooConfig) -> Result<f64> {
    let config = Config { engine: settings.into(), ..Config::default() };
    let index = Index::<U64, GCuckoo<4>>::new(config)?;
    let mut session = index.session();
    for number in 0..keys {
        let key = Keys::Scattered.key(number);
        session.insert(key, key);
    }
    let stream = work.source(keys, ops).stream(0, 0, Keys::Scattered)?;
    let hits = || index.stats().engine.get("cache_hits").unwrap_or(0);
    let before = hits();
    for op in &stream {
        std::hint::black_box(session.get(op.key()));
    }
    Ok(100.0 * (hits() - before) as f64 / stream.len() as f64)
}

fn skew(bench: &Bench) -> Result<Measured> {
    const THETAS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
    let keys = bench.size.keys;
    let plans =
        [field::default(bench, "G-Cuckoo", TargetName::Gcuckoo, keys), field::lines(bench, keys)];
    let field = Field::load(bench, keys, &plans)?;
    let mut rows = Rows::default();
    for theta in THETAS {
        let work = Work::zipf(Workload::B, theta, bench.size.threads);
        let names = plans.iter().map(Plan::name).collect();
        rows.add(theta, names, &field.measure(bench, work)?);
    }
    let kept = |theta: f64| rows.rate(0, theta) / rows.rate(0, THETAS[0]);
    let claims = vec![Claim::holds(
        "Skew does no harm",
        "G-Cuckoo at least as fast as at exponent 0.1, within 5 %",
        THETAS[1..].iter().filter(|theta| kept(**theta) >= 0.95).count(),
        THETAS.len() - 1,
    )];
    let chart = Chart::lines(
        format!("B, threads: {}", bench.size.threads),
        Axis::linear("Zipf exponent"),
        Axis::linear(RATE),
        rows.series(),
    );
    let notes = vec![format!(
        "{keys} keys. Any thread serves any key here, so that no core gets more to do than another: \
         what is left of skew is what it does to caches, and that helps."
    )];
    Ok(Measured { claims, charts: vec![chart], notes })
}

fn checksums(bench: &Bench) -> Result<Measured> {
    const MIXES: [(Workload, &str); 3] =
        [(Workload::C, "reads"), (Workload::A, "half of each"), (Workload::W, "writes")];
    let keys = bench.size.keys / 4;
    let shape = Shape { key_bytes: 8, value_bytes: 100 };
    let plans = Checksum::ALL.map(|checksum| {
        let name = match checksum {
            Checksum::Off => "no checksums",
            Checksum::Write => "written, checked now and then",
            Checksum::Verify => "checked by each read",
        };
        let plan = field::default(bench, name, TargetName::Gcuckoo, keys);
        Plan { shape, config: Config { checksum, ..Config::default() }, ..plan }
    });
    let field = Field::load(bench, keys, &plans)?;
    let mut rows = Rows::default();
    for (column, (workload, _)) in MIXES.into_iter().enumerate() {
        let work = Work::zipf(workload, 0.99, bench.size.threads);
        let names = plans.iter().map(Plan::name).collect();
        rows.add(column as f64, names, &field.measure(bench, work)?);
    }
    // The additional nanoseconds of a thread per checked read.
    let each = |row: usize| 1e3 * bench.size.threads as f64 / rows.rate(row, 0.0);
    let more = each(2) - each(0);
    let paper = "A checksum is 5 to 20 times cheaper than flushing the item's lines";
    let flushed = flush_ns(bench.size.rounds.max(1) as u64);
    let claim = match &flushed {
        None => Claim::unseen(paper, "a flush is measured on x86-64 alone"),
        Some(flush) if more > 0.0 => {
            let claimed = format!(
                "a checked read takes {} ns more, flushing an item {} ns",
                short(more),
                short(flush.median)
            );
            Claim::factor(paper, &claimed, 5.0, flush.median / more)
        }
        Some(_) => Claim::unseen(paper, "what a check takes is lost in the noise of the reads"),
    };
    let claims = vec![claim];
    let costs = flushed.map(|flush| {
        let ours = vec![Point::new(0.0, more.max(0.0)), Point::spread(1.0, flush)];
        let there = vec![Point::new(0.0, flush.median / 20.0), Point::new(1.0, flush.median)];
        let series = vec![
            Series::measured("here", ours),
            Series::paper("a checksum, at 20 times cheaper", there),
            Series::paper("at 5 times", vec![Point::new(0.0, flush.median / 5.0)]),
        ];
        let categories = ["checking an item", "flushing it"].map(str::to_owned).into();
        Chart::bars("What an item costs more", "", Axis::linear("nanoseconds"), categories, series)
    });
    let chart = Chart::bars(
        format!("G-Cuckoo, values of 100 bytes, exponent 0.99, threads: {}", bench.size.threads),
        "operations",
        Axis::linear(RATE),
        MIXES.iter().map(|(_, name)| (*name).to_owned()).collect(),
        rows.series(),
    );
    let notes = vec![
        format!("{keys} keys of 8 bytes with values of 100 bytes."),
        "A flush is measured: an item of 128 bytes is written, its two lines are flushed (clflush) and \
         waited for (mfence), items at random in memory beyond the caches."
            .to_owned(),
        "That damage is found, and what becomes of it, is what the tests of this project show: \
         docs/durability.md."
            .to_owned(),
    ];
    let charts = [chart].into_iter().chain(costs).collect();
    Ok(Measured { claims, charts, notes })
}

/// Nanoseconds to flush a written item; None if the processor has no such instruction.
fn flush_ns(rounds: u64) -> Option<Spread> {
    const ITEM: usize = 128;
    const ITEMS: usize = 1 << 19;
    const FLUSHED: usize = 20_000;
    let mut items = vec![0_u8; ITEM * ITEMS];
    hotring_cpp_peers::flush(&items[..1]).then_some(())?;
    let mut once = |round: u64| {
        let mut random = Rng::with_seed(round);
        let chosen: Vec<usize> = (0..FLUSHED).map(|_| random.usize(..ITEMS)).collect();
        let write = |items: &mut [u8], is_flushed: bool| {
            let start = Instant::now();
            for number in &chosen {
                let item = &mut items[number * ITEM..][..ITEM];
                item.fill(round as u8);
                if is_flushed {
                    hotring_cpp_peers::flush(item);
                }
            }
            start.elapsed().as_nanos() as f64 / FLUSHED as f64
        };
        // The write without a flush, which is subtracted.
        let plain = write(&mut items, false);
        write(&mut items, true) - plain
    };
    Some(Spread::of(&(0..rounds).map(&mut once).collect::<Vec<f64>>()))
}
