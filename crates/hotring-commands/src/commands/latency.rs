//! LATENCY: slow events and how long they took.

use std::fmt::Write;

use crate::observe::latency::{Event, Sample};
use crate::state::context::Context;
use crate::state::failure::Outcome;
use crate::table::{Spec, lookup_full};

/// Size of LATENCY GRAPH in columns and rows.
const GRAPH_LEN: usize = 80;
const GRAPH_HEIGHT: u64 = 4;

pub(crate) fn latest(c: &mut Context<'_>) -> Outcome {
    let events = c.server.observe.latency.all();
    c.reply.array(events.len());
    for (name, event) in events {
        let (at, took) = last(&event);
        c.reply.array(4);
        c.reply.bulk(name.as_bytes());
        [at, took, event.max].into_iter().for_each(|number| c.reply.int(number as i64));
    }
    Ok(())
}

fn last(event: &Event) -> Sample {
    event.samples.back().copied().unwrap_or_default()
}

fn find(c: &Context<'_>) -> Option<Event> {
    let wanted = c.args.at(2);
    let events = c.server.observe.latency.all().into_iter();
    let mut found = events.filter(|(name, _)| name.as_bytes().eq_ignore_ascii_case(wanted));
    found.next().map(|(_, event)| event)
}

pub(crate) fn history(c: &mut Context<'_>) -> Outcome {
    let samples = find(c).unwrap_or_default().samples;
    c.reply.array(samples.len());
    for (at, took) in samples {
        c.reply.array(2);
        c.reply.int(at as i64);
        c.reply.int(took as i64);
    }
    Ok(())
}

/// Histograms of the durations of all commands, or of the named ones. Commands without a timed call are absent.
pub(crate) fn histogram(c: &mut Context<'_>) -> Outcome {
    let named = c.args.tail(2);
    let is_wanted = |spec: &Spec| {
        let is_it = |name| {
            lookup_full(name).is_some_and(|it| it.id == spec.id || spec.parent == Some(it.id))
        };
        named.is_empty() || named.iter().any(is_it)
    };
    let mut commands = c.server.command_totals();
    commands.retain(|(spec, totals)| totals.times.count() > 0 && is_wanted(spec));
    c.reply.map(commands.len());
    for (spec, totals) in commands {
        c.reply.bulk(spec.name.as_bytes());
        c.reply.map(2);
        c.reply.bulk(b"calls");
        c.reply.int(totals.times.count() as i64);
        c.reply.bulk(b"histogram_usec");
        let counts = totals.times.cumulated_us();
        c.reply.map(counts.len());
        counts.into_iter().flat_map(<[u64; 2]>::from).for_each(|n| c.reply.int(n as i64));
    }
    Ok(())
}

pub(crate) fn reset(c: &mut Context<'_>) -> Outcome {
    let named = c.args.tail(2);
    let names = (!named.is_empty()).then(|| named.iter().collect());
    c.reply.count(c.server.observe.latency.forget(names));
    Ok(())
}

/// Draws a column for each of the latest samples, with its age below.
pub(crate) fn graph(c: &mut Context<'_>) -> Outcome {
    let Some(event) = find(c) else {
        let name = crate::table::quoted(c.args.at(2));
        return Err(format!("ERR No samples available for event '{name}'").into());
    };
    let now = c.now / 1000;
    let skipped = event.samples.len().saturating_sub(GRAPH_LEN);
    let shown: Vec<Sample> = event.samples.iter().skip(skipped).copied().collect();
    let times = || shown.iter().map(|(_, took)| *took);
    let (low, high) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let mut text = String::new();
    let name = String::from_utf8_lossy(c.args.at(2)).to_lowercase();
    writeln!(text, "{name} - high {high} ms, low {low} ms (all time high {} ms)", event.max)
        .and_then(|()| writeln!(text, "{}", "-".repeat(GRAPH_LEN)))
        .expect("a String takes every write");
    for row in (1..=GRAPH_HEIGHT).rev() {
        let is_filled = |took: u64| (took - low) * GRAPH_HEIGHT >= (high - low) * row;
        text.extend(times().map(|took| if is_filled(took) { '#' } else { ' ' }));
        text.push('\n');
    }
    let ages: Vec<String> = shown.iter().map(|(at, _)| age(now.saturating_sub(*at))).collect();
    for row in 0..ages.iter().map(String::len).max().unwrap_or(0) {
        text.extend(ages.iter().map(|age| age.chars().nth(row).unwrap_or(' ')));
        text.push('\n');
    }
    c.reply.verbatim("txt", &text);
    Ok(())
}

/// Formats seconds in the largest unit that yields at least 1.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Explains the figures in sentences.
pub(crate) fn doctor(c: &mut Context<'_>) -> Outcome {
    let threshold = c.server.settings.config().latency_threshold_ms;
    if threshold == 0 {
        c.reply.verbatim(
            "txt",
            "Latency is not watched: CONFIG SET latency-monitor-threshold to the milliseconds from which on \
             something takes too long for you.\n",
        );
        return Ok(());
    }
    let events = c.server.observe.latency.all();
    let mut text = String::new();
    if events.is_empty() {
        writeln!(text, "Nothing has taken {threshold} ms or longer since it is watched.")
            .expect("a String takes every write");
    }
    for (name, event) in events {
        let n = event.samples.len() as u64;
        let mean = event.samples.iter().map(|(_, took)| took).sum::<u64>() / n.max(1);
        let (at, took) = last(&event);
        writeln!(
            text,
            "{name}: {n} seconds with times of {threshold} ms or longer, {mean} ms on average, {} ms at \
             most; the last one {} ago, {took} ms. {}",
            event.max,
            age((c.now / 1000).saturating_sub(at)),
            advice(name),
        )
        .expect("a String takes every write");
    }
    c.reply.verbatim("txt", &text);
    Ok(())
}

fn advice(event: &str) -> &'static str {
    match event {
        crate::observe::latency::EXPIRE_CYCLE => {
            "Many keys have expired at once: spread their expiries. Clients do not wait for this."
        }
        _ => {
            "SLOWLOG GET lists such requests. Walks over all keys (KEYS, FLUSHALL), long values, long \
             hashes and scripts are the usual ones."
        }
    }
}
