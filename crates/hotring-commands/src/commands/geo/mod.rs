//! Geospatial commands: GEOADD and its relatives. The points are members of sorted sets, whose scores are geohash
//! cells.

mod area;
mod cell;
mod search;

use hotring_protocol::ArgsView;
use hotring_store::AddOptions;

use super::zset::{NOT_A_FLOAT, note_lookup, parse_score};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use cell::{Cell, LATITUDES, LONGITUDES, Point, STEP_MAX};
pub(crate) use search::*;

pub(crate) fn geoadd(c: &mut Context<'_>) -> Outcome {
    let (mut options, mut counts_moved, mut at) = (AddOptions::default(), false, 2);
    while let Some(option) = c.args.get(at) {
        match option.to_ascii_lowercase().as_slice() {
            b"nx" => options.if_absent = true,
            b"xx" => options.if_present = true,
            b"ch" => counts_moved = true,
            _ => break,
        }
        at += 1;
    }
    let triples = c.args.tail(at);
    let is_complete = !triples.is_empty() && triples.len().is_multiple_of(3);
    if !is_complete || (options.if_absent && options.if_present) {
        return Err(Failure::Syntax);
    }
    let pairs: Result<Vec<(f64, &[u8])>, Failure> = (0..triples.len())
        .step_by(3)
        .map(|i| Ok((Cell::around(point(triples, i)?, STEP_MAX).score(), triples.at(i + 2))))
        .collect();
    let added = c.store.scored_add(&c.args[1], &pairs?, options, c.now)?;
    c.reply.count(added.added + if counts_moved { added.moved } else { 0 });
    Ok(())
}

/// Parses the longitude and latitude at `at`.
fn point(args: ArgsView<'_>, at: usize) -> Result<Point, Failure> {
    let longitude = parse_score(args.at(at)).ok_or(NOT_A_FLOAT)?;
    let latitude = parse_score(args.at(at + 1)).ok_or(NOT_A_FLOAT)?;
    let is_in = |at: f64, (min, max): (f64, f64)| (min..=max).contains(&at);
    if is_in(longitude, LONGITUDES) && is_in(latitude, LATITUDES) {
        return Ok(Point { longitude, latitude });
    }
    Err(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").into())
}

/// The length of a unit in meters.
fn unit(name: &[u8]) -> Result<f64, Failure> {
    match name.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(Failure::text("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

pub(crate) fn geodist(c: &mut Context<'_>) -> Outcome {
    let meters = match c.args.len() {
        4 => 1.0,
        5 => unit(c.args.at(4))?,
        _ => return Err(Failure::Syntax),
    };
    let found = c.store.scored(&c.args[1], c.now, |scored| {
        let point = |i| scored.score(c.args.at(i)).map(|score| Cell::of_score(score).center());
        Some(point(2)?.distance(point(3)?))
    })?;
    note_lookup(c, found.is_some());
    match found.flatten() {
        Some(distance) => c.reply.bulk(format!("{:.4}", distance / meters).as_bytes()),
        None => c.reply.null(),
    }
    Ok(())
}

pub(crate) fn geohash(c: &mut Context<'_>) -> Outcome {
    let points = points(c)?;
    c.reply.array(points.len());
    for point in points {
        match point {
            Some(point) => c.reply.bulk(&point.geohash()),
            None => c.reply.null(),
        }
    }
    c.check_reply_len()
}

pub(crate) fn geopos(c: &mut Context<'_>) -> Outcome {
    let points = points(c)?;
    c.reply.array(points.len());
    for point in points {
        match point {
            Some(point) => reply_point(c, point),
            None => c.reply.null_array(),
        }
    }
    c.check_reply_len()
}

/// The positions of the members that a request names; None for a missing member.
fn points(c: &mut Context<'_>) -> Result<Vec<Option<Point>>, Failure> {
    let members = c.args.tail(2);
    let found = c.store.scored(&c.args[1], c.now, |scored| {
        let point = |member| scored.score(member).map(|score| Cell::of_score(score).center());
        members.iter().map(point).collect()
    })?;
    note_lookup(c, found.is_some());
    Ok(found.unwrap_or_else(|| vec![None; members.len()]))
}

fn reply_point(c: &mut Context<'_>, point: Point) {
    c.reply.array(2);
    for degrees in [point.longitude, point.latitude] {
        let text = format!("{degrees:.17}");
        // The center of a cell is never 0, so "-0" cannot occur.
        c.reply.decimal(text.trim_end_matches('0').trim_end_matches('.').as_bytes());
    }
}
