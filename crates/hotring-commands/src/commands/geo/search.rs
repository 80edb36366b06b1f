//! GEOSEARCH, GEORADIUS and their relatives: the members within a circle or a box.

use std::borrow::Cow;
use std::cmp::Ordering;

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{Content, Interval, ScoreEnd, ScoredRef, Session};

use super::area::{Area, Form};
use super::cell::{Cell, Point};
use super::{point, reply_point, unit};
use crate::commands::zset::{note_lookup, parse_score};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::stored_key;

/// Number of members examined between two checks for having enough.
const PART: usize = 128;

/// The kind of search that a command's name implies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// GEORADIUS: the center is a point, followed by a radius.
    Around,
    /// GEORADIUSBYMEMBER: the center is a member, followed by a radius.
    AroundMember,
    /// GEOSEARCH: options give the center and the shape.
    Search,
}

/// The parsed search of a request.
#[derive(Default)]
struct SearchOptions {
    center: Option<Point>,
    form: Option<Form>,
    /// Length in meters of the unit for distances in the reply.
    unit: f64,
    with_distance: bool,
    with_score: bool,
    with_point: bool,
    stores_distance: bool,
    /// Sort by ascending or descending distance; None for unsorted.
    ascending: Option<bool>,
    /// Most members in the reply; 0 for all.
    limit: usize,
    /// Stop at the first matches found, not the nearest ones (ANY).
    any: bool,
}

/// A member within the area.
struct Hit {
    member: Vec<u8>,
    score: f64,
    distance: f64,
    point: Point,
}

fn member_point(scored: Option<ScoredRef<'_>>, member: &[u8]) -> Result<Point, Failure> {
    // Without a set nothing can match, and other errors take precedence.
    let Some(scored) = scored else { return Ok(Point::default()) };
    let score = scored.score(member);
    score
        .map(|score| Cell::of_score(score).center())
        .ok_or(Failure::text("ERR could not decode requested zset member"))
}

/// Parses a length; the caller must refuse a negative one. `why_not` is the error for text that is no number.
fn length(text: &[u8], why_not: &'static str) -> Result<f64, Failure> {
    parse_score(text).ok_or(Failure::text(why_not))
}

impl SearchOptions {
    fn radius(&mut self, args: ArgsView<'_>, at: usize) -> Outcome {
        let radius = length(args.at(at), "ERR need numeric radius")?;
        if radius < 0.0 {
            return Err(Failure::text("ERR radius cannot be negative"));
        }
        self.unit = unit(args.at(at + 1))?;
        self.form = Some(Form::Circle { radius: radius * self.unit });
        Ok(())
    }

    fn sides(&mut self, args: ArgsView<'_>, at: usize) -> Outcome {
        let width = length(args.at(at), "ERR need numeric width")?;
        let height = length(args.at(at + 1), "ERR need numeric height")?;
        if width < 0.0 || height < 0.0 {
            return Err(Failure::text("ERR height or width cannot be negative"));
        }
        self.unit = unit(args.at(at + 2))?;
        self.form = Some(Form::Box { width: width * self.unit, height: height * self.unit });
        Ok(())
    }

    /// Reads the arguments before the options, and returns the index of the first option.
    fn base(
        &mut self,
        args: ArgsView<'_>,
        kind: Kind,
        scored: Option<ScoredRef<'_>>,
    ) -> Result<usize, Failure> {
        match kind {
            Kind::Around => {
                self.center = Some(point(args, 2)?);
                self.radius(args, 4)?;
                Ok(6)
            }
            Kind::AroundMember if scored.is_none() => Ok(5),
            Kind::AroundMember => {
                self.center = Some(member_point(scored, args.at(2))?);
                self.radius(args, 3)?;
                Ok(5)
            }
            Kind::Search => Ok(2),
        }
    }

    /// Reads an option without a value; false if the word is not one.
    fn word(&mut self, word: &[u8]) -> bool {
        match word.to_ascii_lowercase().as_slice() {
            b"withdist" => self.with_distance = true,
            b"withhash" => self.with_score = true,
            b"withcoord" => self.with_point = true,
            b"any" => self.any = true,
            b"asc" => self.ascending = Some(true),
            b"desc" => self.ascending = Some(false),
            _ => return false,
        }
        true
    }
}

/// A search command.
struct Command<'a> {
    args: ArgsView<'a>,
    kind: Kind,
    /// The command may store the matches under a key.
    stores: bool,
    /// The destination key, if there is one.
    to: Option<&'a [u8]>,
}

impl<'a> Command<'a> {
    fn named(&self) -> String {
        String::from_utf8_lossy(self.args.at(0)).into_owned()
    }

    /// Whether the command is GEOSEARCHSTORE, whose first key is the destination.
    fn is_search_store(&self) -> bool {
        self.kind == Kind::Search && self.stores
    }

    /// The arguments as those of the variant that does not store.
    fn question(&self) -> ArgsView<'a> {
        if self.is_search_store() { self.args.tail(1) } else { self.args }
    }

    fn read(&self, scored: Option<ScoredRef<'_>>) -> Result<SearchOptions, Failure> {
        let args = self.question();
        let mut options = SearchOptions { unit: 1.0, ..SearchOptions::default() };
        let mut at = options.base(args, self.kind, scored)?;
        let (mut by_member, mut by_point) = (false, false);
        while let Some(word) = args.get(at) {
            let left = args.len() - at - 1;
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let searches = self.kind == Kind::Search;
            let is_box = matches!(options.form, Some(Form::Box { .. }));
            let is_circle = matches!(options.form, Some(Form::Circle { .. }));
            at += if options.word(word) {
                1
            } else if is("count") && left >= 1 {
                options.limit = limit(args.at(at + 1))?;
                2
            } else if self.stores && !searches && is("store") && left >= 1 {
                options.stores_distance = false;
                2
            } else if self.stores && !searches && is("storedist") && left >= 1 {
                options.stores_distance = true;
                2
            } else if searches && is("frommember") && left >= 1 && !by_point {
                options.center = Some(member_point(scored, args.at(at + 1))?);
                by_member = true;
                2
            } else if searches && is("fromlonlat") && left >= 2 && !by_member {
                options.center = Some(point(args, at + 1)?);
                by_point = true;
                3
            } else if searches && is("byradius") && left >= 2 && !is_box {
                options.radius(args, at + 1)?;
                3
            } else if searches && is("bybox") && left >= 3 && !is_circle {
                options.sides(args, at + 1)?;
                4
            } else if self.is_search_store() && is("storedist") {
                options.stores_distance = true;
                1
            } else {
                return Err(Failure::Syntax);
            };
        }
        self.check(&options)?;
        if options.limit > 0 && options.ascending.is_none() && !options.any {
            options.ascending = Some(true);
        }
        Ok(options)
    }

    /// Checks that the request is complete and its options do not contradict each other.
    fn check(&self, options: &SearchOptions) -> Outcome {
        let searches = self.kind == Kind::Search;
        if self.to.is_some() && (options.with_distance || options.with_score || options.with_point)
        {
            let command = if searches { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(format!(
                "ERR {command} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )
            .into());
        }
        if searches && options.center.is_none() {
            let name = self.named();
            return Err(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
            )
            .into());
        }
        if searches && options.form.is_none() {
            let name = self.named();
            return Err(format!(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"
            )
            .into());
        }
        if options.any && options.limit == 0 {
            return Err(Failure::text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// Runs the search. Returns the query and the matches; no matches if the key is missing.
    fn run(
        &self,
        store: &mut Session,
        now: u64,
    ) -> Result<(SearchOptions, Option<Vec<Hit>>), Failure> {
        let key = self.question().at(1);
        let found = store.scored_walk(key, now, |scored| {
            let options = self.read(Some(scored))?;
            let hits = options.find(scored);
            Ok::<_, Failure>((options, Some(hits)))
        })?;
        found.unwrap_or_else(|| Ok((self.read(None)?, None)))
    }
}

fn limit(text: &[u8]) -> Result<usize, Failure> {
    let limit = parse_i64(text).ok_or(Failure::NotAnInteger)?;
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
    limit.ok_or(Failure::text("ERR COUNT must be > 0"))
}

impl SearchOptions {
    fn find(&self, scored: ScoredRef<'_>) -> Vec<Hit> {
        let (Some(center), Some(form)) = (self.center, self.form) else { return Vec::new() };
        let area = Area { center, form };
        let enough = if self.any { self.limit } else { usize::MAX };
        let (mut hits, mut last): (Vec<Hit>, Option<Cell>) = (Vec::new(), None);
        for cell in area.cells() {
            // Large cells have the same neighbour on both sides; search it once.
            if last == Some(cell) {
                continue;
            }
            collect(&area, cell, scored, enough, &mut hits);
            last = Some(cell);
        }
        self.sort(&mut hits);
        hits
    }

    fn sort(&self, hits: &mut Vec<Hit>) {
        if let Some(ascending) = self.ascending {
            hits.sort_by(|a, b| {
                let order = a.distance.partial_cmp(&b.distance).unwrap_or(Ordering::Equal);
                if ascending { order } else { order.reverse() }
            });
        }
        if self.limit > 0 {
            hits.truncate(self.limit);
        }
    }
}

/// Adds the members of a cell that lie within the area, until there are `enough`.
fn collect(area: &Area, cell: Cell, scored: ScoredRef<'_>, enough: usize, hits: &mut Vec<Hit>) {
    let min = ScoreEnd { score: cell.score(), is_exclusive: false };
    let max = ScoreEnd { score: cell.score_behind(), is_exclusive: true };
    let ranks = scored.ranks(&Interval::Scores(min, max), false);
    for from in ranks.clone().step_by(PART) {
        scored.each(from..ranks.end.min(from + PART), false, |entry| {
            let point = Cell::of_score(entry.score).center();
            if hits.len() < enough
                && let Some(distance) = area.distance_within(point)
            {
                let member = entry.member.to_vec();
                hits.push(Hit { member, score: entry.score, distance, point });
            }
        });
        if hits.len() >= enough {
            return;
        }
    }
}

fn search(c: &mut Context<'_>, kind: Kind, stores: bool) -> Outcome {
    let to = match (kind, stores) {
        (_, false) => None,
        (Kind::Search, true) => Some(c.args.at(1)),
        (Kind::Around, true) => stored_key(c.args, 6),
        (Kind::AroundMember, true) => stored_key(c.args, 5),
    };
    let command = Command { args: c.args, kind, stores, to };
    let Some(to) = to else {
        let (options, hits) = command.run(c.store, c.now)?;
        note_lookup(c, hits.is_some());
        return reply(c, &options, &hits.unwrap_or_default());
    };
    let now = c.now;
    let (n, is_found) = c.store.exclusive(&[to, command.question().at(1)], |store| {
        let (options, hits) = command.run(store, now)?;
        let is_found = hits.is_some();
        let members = hits.unwrap_or_default().into_iter().map(|hit| {
            let score =
                if options.stores_distance { hit.distance / options.unit } else { hit.score };
            (Cow::Owned(hit.member), score)
        });
        let members: Vec<_> = members.collect();
        let n = members.len();
        store.put_content(to, Content::Scored(members), None, true, now)?;
        Ok::<_, Failure>((n, is_found))
    })?;
    note_lookup(c, is_found);
    c.reply.count(n);
    Ok(())
}

fn reply(c: &mut Context<'_>, options: &SearchOptions, hits: &[Hit]) -> Outcome {
    let n_parts = [options.with_distance, options.with_score, options.with_point];
    let n_parts = n_parts.into_iter().filter(|is_asked| *is_asked).count();
    c.reply.array(hits.len());
    for hit in hits {
        if n_parts > 0 {
            c.reply.array(1 + n_parts);
        }
        c.reply.bulk(&hit.member);
        if options.with_distance {
            c.reply.bulk(format!("{:.4}", hit.distance / options.unit).as_bytes());
        }
        if options.with_score {
            c.reply.int(hit.score as i64);
        }
        if options.with_point {
            reply_point(c, hit.point);
        }
        c.check_reply_len()?;
    }
    Ok(())
}

pub(crate) fn georadius(c: &mut Context<'_>) -> Outcome {
    search(c, Kind::Around, true)
}

pub(crate) fn georadius_ro(c: &mut Context<'_>) -> Outcome {
    search(c, Kind::Around, false)
}

pub(crate) fn georadiusbymember(c: &mut Context<'_>) -> Outcome {
    search(c, Kind::AroundMember, true)
}

pub(crate) fn georadiusbymember_ro(c: &mut Context<'_>) -> Outcome {
    search(c, Kind::AroundMember, false)
}

pub(crate) fn geosearch(c: &mut Context<'_>) -> Outcome {
    search(c, Kind::Search, false)
}

pub(crate) fn geosearchstore(c: &mut Context<'_>) -> Outcome {
    search(c, Kind::Search, true)
}
