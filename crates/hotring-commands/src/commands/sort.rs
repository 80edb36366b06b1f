//! SORT and SORT_RO: sorted elements of a list, a set or a sorted set.
//!
//! The patterns of BY and GET name keys that are not arguments. A request with such patterns must hold the entire
//! store, as a script with undeclared keys does, so that all lookups see one point in time. A request with STORE must
//! hold both of its keys.

use std::borrow::Cow;
use std::cmp::Ordering;

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{Content, Elements, StoreError};

use super::hash::is_found;
use super::key::type_name;
use super::zset::parse_score;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::lookup;

#[derive(Default)]
struct Request<'a> {
    descending: bool,
    alpha: bool,
    /// LIMIT: the first element, and the number of elements; a negative number for all.
    limit: Option<(i64, i64)>,
    by: Option<Pattern<'a>>,
    /// BY a constant: do not sort.
    unsorted: bool,
    get: Vec<Pattern<'a>>,
    store: Option<&'a [u8]>,
}

impl Request<'_> {
    fn looks_up(&self) -> bool {
        let is_key = |pattern: &Pattern<'_>| matches!(pattern, Pattern::Key { .. });
        self.by.as_ref().is_some_and(is_key) || self.get.iter().any(is_key)
    }

    /// The range of the `len` elements that LIMIT selects.
    fn range(&self, len: usize) -> std::ops::Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }
}

/// The pattern of BY or GET.
enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// A pattern without `*`: no value.
    Nothing,
    /// `before*after`, or `before*after->field`.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a [u8]) -> Pattern<'a> {
        let Some(star) = text.iter().position(|byte| *byte == b'*') else {
            return if text == b"#" { Pattern::Element } else { Pattern::Nothing };
        };
        let (before, after) = (&text[..star], &text[star + 1..]);
        let arrow = after.windows(2).position(|two| two == b"->");
        match arrow.filter(|at| at + 2 < after.len()) {
            Some(at) => Pattern::Key { before, after: &after[..at], field: Some(&after[at + 2..]) },
            None => Pattern::Key { before, after, field: None },
        }
    }

    /// The value that the pattern names for this element; None for a missing key or field, or for another type.
    fn look_up<'e>(&self, element: &'e [u8], c: &mut Context<'_>) -> Option<Cow<'e, [u8]>> {
        let (before, after, field) = match self {
            Pattern::Element => return Some(Cow::Borrowed(element)),
            Pattern::Nothing => return None,
            Pattern::Key { before, after, field } => (*before, *after, *field),
        };
        let key = [before, element, after].concat();
        let found = match field {
            None => c.store.get_string(&key[..], c.now, |value| value.with_bytes(<[u8]>::to_vec)),
            Some(field) => c
                .store
                .hash(&key, c.now, |hash| hash.get(field).map(<[u8]>::to_vec))
                .map(Option::flatten),
        };
        match &found {
            Ok(None) => c.miss(),
            _ => c.hit(),
        }
        found.ok().flatten().map(Cow::Owned)
    }
}

pub(crate) fn sort(c: &mut Context<'_>) -> Outcome {
    run(c, true)
}

pub(crate) fn sort_ro(c: &mut Context<'_>) -> Outcome {
    run(c, false)
}

fn run(c: &mut Context<'_>, stores: bool) -> Outcome {
    let request = parse(c, stores)?;
    // The reply is written after the hold has ended.
    let rows = match request.store {
        _ if request.looks_up() => c.alone(&[], |c| rows(&request, c)),
        Some(to) => c.alone(&[c.args.at(1), to], |c| rows(&request, c)),
        None => rows(&request, c),
    }?;
    if request.store.is_some() {
        c.reply.count(rows.len());
        return Ok(());
    }
    c.reply.array(rows.len());
    for row in &rows {
        match row {
            Some(row) => c.reply.bulk(row),
            None => c.reply.null(),
        }
    }
    c.check_reply_len()
}

fn parse<'a>(c: &Context<'a>, stores: bool) -> Result<Request<'a>, Failure> {
    let args: ArgsView<'a> = c.args.tail(2);
    let (mut request, mut i) = (Request::default(), 0);
    while let Some(word) = args.get(i) {
        i += 1;
        match (word.to_ascii_lowercase().as_slice(), args.get(i), args.get(i + 1)) {
            (b"asc", ..) => request.descending = false,
            (b"desc", ..) => request.descending = true,
            (b"alpha", ..) => request.alpha = true,
            (b"limit", Some(start), Some(count)) => {
                let number = |text| parse_i64(text).ok_or(Failure::NotAnInteger);
                request.limit = Some((number(start)?, number(count)?));
                i += 2;
            }
            (b"store", Some(key), _) if stores => {
                request.store = Some(key);
                i += 1;
            }
            (b"by", Some(text), _) => {
                let pattern = Pattern::parse(text);
                // The patterns name keys of any slot.
                if matches!(pattern, Pattern::Key { .. }) && c.server.cluster.is_some() {
                    return Err(Failure::text("ERR BY option of SORT denied in Cluster mode."));
                }
                // As in Redis, one BY with a constant disables sorting, also if another BY follows.
                request.unsorted |= !matches!(pattern, Pattern::Key { .. });
                if matches!(pattern, Pattern::Key { .. }) && !may_read_all(c) {
                    return Err(Failure::text(
                        "ERR BY option of SORT denied due to insufficient ACL permissions.",
                    ));
                }
                request.by = Some(pattern);
                i += 1;
            }
            (b"get", Some(text), _) => {
                if c.server.cluster.is_some() {
                    return Err(Failure::text("ERR GET option of SORT denied in Cluster mode."));
                }
                if !may_read_all(c) {
                    return Err(Failure::text(
                        "ERR GET option of SORT denied due to insufficient ACL permissions.",
                    ));
                }
                request.get.push(Pattern::parse(text));
                i += 1;
            }
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(request)
}

fn may_read_all(c: &Context<'_>) -> bool {
    let access = c.client.access();
    access.is_free()
        || lookup(c.args.at(0)).is_some_and(|spec| access.user().may_read_all(spec, c.args))
}

/// A row of the reply: an element, or a value that GET names for an element.
type Row = Option<Vec<u8>>;

/// Collects the rows of the reply. With STORE, also stores them.
fn rows(request: &Request<'_>, c: &mut Context<'_>) -> Result<Vec<Row>, Failure> {
    let damages = c.store.damages();
    let elements = chosen(request, c)?;
    let mut rows = Vec::with_capacity(elements.len() * request.get.len().max(1));
    let (mut bytes, len_max) = (0, c.reply_left().max(c.store.value_len_max()));
    for element in elements {
        if request.get.is_empty() {
            rows.push(Some(element));
            continue;
        }
        for pattern in &request.get {
            let row = pattern.look_up(&element, c).map(Cow::into_owned);
            bytes += row.as_ref().map_or(0, Vec::len);
            if bytes > len_max {
                return Err(Failure::ReplyTooLong);
            }
            rows.push(row);
        }
    }
    // Rows that lack unreadable values must not replace the value of `to`.
    if let Some(to) = request.store.filter(|_| c.store.damages() == damages) {
        let mut list = Elements::default();
        rows.iter().for_each(|row| list.add(row.as_deref().unwrap_or_default()));
        c.store.put_content(to, Content::List(list), None, true, c.now)?;
    }
    Ok(rows)
}

/// The selected elements, in the order of the reply.
fn chosen(request: &Request<'_>, c: &mut Context<'_>) -> Result<Vec<Vec<u8>>, Failure> {
    let Found { mut elements, is_set, is_cut } = elements(request, c)?;
    // The result for a script or STORE must be deterministic, so it must not depend on the internal order of a set.
    let settles = request.unsorted && is_set && (request.store.is_some() || c.client.runs_script);
    if settles {
        elements.sort();
        if request.descending {
            elements.reverse();
        }
    } else if !request.unsorted {
        elements = sorted(elements, request, c)?;
    }
    if !is_cut {
        let range = request.range(elements.len());
        elements.truncate(range.end);
        elements.drain(..range.start);
    }
    Ok(elements)
}

/// The elements in the order of the container.
struct Found {
    elements: Vec<Vec<u8>>,
    is_set: bool,
    /// The elements are already reduced to those that LIMIT selects.
    is_cut: bool,
}

fn elements(request: &Request<'_>, c: &mut Context<'_>) -> Result<Found, Failure> {
    let (key, now) = (c.args.at(1), c.now);
    let mut elements: Vec<Vec<u8>> = Vec::new();
    let part = |len: usize| match (request.unsorted, request.range(len)) {
        (false, _) => 0..len,
        (true, range) if request.descending => len - range.end..len - range.start,
        (true, range) => range,
    };
    loop {
        let kind = c.store.peek_value(key, now, type_name);
        let found = match kind {
            None => Ok(None),
            Some("list") => c.store.list_walk(key, now, |list| {
                let part = part(list.len());
                let listed = list.iter_from(part.start).take(part.len());
                elements.extend(listed.map(<[u8]>::to_vec));
            }),
            Some("set") => c.store.set_walk(key, now, |set| {
                elements.extend(set.iter().map(|member| member.to_vec()));
            }),
            Some("zset") => c.store.scored_walk(key, now, |scored| {
                scored.each(part(scored.count()), false, |entry| {
                    elements.push(entry.member.to_vec());
                });
            }),
            Some(_) => return Err(StoreError::WrongType.into()),
        };
        // Another client may have replaced the value by one of another type since the lookup of the type.
        match found {
            Err(StoreError::WrongType) => continue,
            Err(error) => return Err(error.into()),
            Ok(found) => _ = is_found(c, found),
        }
        let is_set = kind == Some("set");
        if request.unsorted && request.descending && !is_set {
            elements.reverse();
        }
        return Ok(Found { elements, is_set, is_cut: request.unsorted && !is_set });
    }
}

/// The sort key of an element.
enum Rank {
    Number(f64),
    /// The value of BY. None for a missing value, which sorts first.
    Text(Option<Vec<u8>>),
    /// The element's own text.
    Own,
}

fn sorted(
    elements: Vec<Vec<u8>>,
    request: &Request<'_>,
    c: &mut Context<'_>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let mut ranked = Vec::with_capacity(elements.len());
    for element in elements {
        let rank = match &request.by {
            Some(by) => {
                let value = by.look_up(&element, c);
                match request.alpha {
                    true => Rank::Text(value.map(Cow::into_owned)),
                    false => Rank::Number(value.map_or(Ok(0.0), |value| number(&value))?),
                }
            }
            None if request.alpha => Rank::Own,
            None => Rank::Number(number(&element)?),
        };
        ranked.push((rank, element));
    }
    ranked.sort_by(|a, b| {
        let order = match (&a.0, &b.0) {
            (Rank::Number(x), Rank::Number(y)) => {
                x.partial_cmp(y).unwrap_or(Ordering::Equal).then_with(|| a.1.cmp(&b.1))
            }
            (Rank::Text(x), Rank::Text(y)) => x.cmp(y),
            _ => a.1.cmp(&b.1),
        };
        if request.descending { order.reverse() } else { order }
    });
    Ok(ranked.into_iter().map(|(_, element)| element).collect())
}

/// Parses a number as C's `strtod` does, which skips leading spaces. As in Redis, an empty text is 0.
fn number(text: &[u8]) -> Result<f64, Failure> {
    let text = text.trim_ascii_start();
    let number = if text.is_empty() { Some(0.0) } else { parse_score(text) };
    number.ok_or(Failure::text("ERR One or more scores can't be converted into double"))
}
