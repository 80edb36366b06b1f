//! Hash fields with an expiry: HEXPIRE and its relatives, HGETEX, HSETEX, HGETDEL.

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{ExpireCondition, FieldExpiry, FieldsCondition, SetFieldExpiry, TtlChange};

use super::expire::Moment;
use super::multi::{with_keys, with_pairs};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Latest expiry that a field can have, in Unix milliseconds, as in Redis.
const EXPIRY_MAX: u64 = (1 << 46) - 1;

pub(crate) fn hexpire(c: &mut Context<'_>) -> Outcome {
    expire_at(c, Moment::InSeconds, "hexpire")
}

pub(crate) fn hpexpire(c: &mut Context<'_>) -> Outcome {
    expire_at(c, Moment::InMilliseconds, "hpexpire")
}

pub(crate) fn hexpireat(c: &mut Context<'_>) -> Outcome {
    expire_at(c, Moment::AtSecond, "hexpireat")
}

pub(crate) fn hpexpireat(c: &mut Context<'_>) -> Outcome {
    expire_at(c, Moment::AtMillisecond, "hpexpireat")
}

/// Fails if the key is not a hash. As in Redis, this error precedes any error in the arguments.
fn check_type(c: &mut Context<'_>) -> Outcome {
    c.store.hash(&c.args[1], c.now, |_| ())?;
    Ok(())
}

fn deadline(moment: Moment, number: &[u8], now: u64, name: &str) -> Result<u64, Failure> {
    let number = parse_i64(number).ok_or(Failure::NotAnInteger)?;
    if number < 0 {
        return Err(Failure::text("ERR invalid expire time, must be >= 0"));
    }
    let at = moment.unix_ms(number, now).and_then(|at| u64::try_from(at).ok());
    let at = at.filter(|at| *at <= EXPIRY_MAX);
    at.ok_or_else(|| format!("ERR invalid expire time in '{name}' command").into())
}

fn expire_at(c: &mut Context<'_>, moment: Moment, name: &str) -> Outcome {
    check_type(c)?;
    let at = deadline(moment, &c.args[2], c.now, name)?;
    let condition = match c.args[3].to_ascii_lowercase().as_slice() {
        b"nx" => Some(ExpireCondition::IfNone),
        b"xx" => Some(ExpireCondition::IfSome),
        b"gt" => Some(ExpireCondition::IfLater),
        b"lt" => Some(ExpireCondition::IfEarlier),
        _ => None,
    };
    let from = if condition.is_some() { 4 } else { 3 };
    let wrong_count = "ERR Parameter `numFields` should be greater than 0";
    let fields = fields_of(c.args.tail(from), wrong_count)?;
    let condition = condition.unwrap_or_default();
    let expire =
        |fields: &[&[u8]]| c.store.hash_expire_at(&c.args[1], at, condition, fields, c.now);
    let answers = with_keys(fields, expire)?;
    answer(c, &answers);
    Ok(())
}

/// The arguments after `FIELDS numfields`; their number must be `numfields`.
fn fields_of<'a>(args: ArgsView<'a>, wrong_count: &'static str) -> Result<ArgsView<'a>, Failure> {
    if !args.get(0).is_some_and(|name| name.eq_ignore_ascii_case(b"fields")) {
        return Err(Failure::text(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = args.get(1).and_then(parse_i64).filter(|count| *count > 0);
    let count = count.ok_or(Failure::text(wrong_count))?;
    if usize::try_from(count) != Ok(args.len() - 2) {
        return Err(Failure::text(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(args.tail(2))
}

const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

fn answer(c: &mut Context<'_>, answers: &[FieldExpiry]) {
    c.reply.array(answers.len());
    for answer in answers {
        c.reply.int(match answer {
            FieldExpiry::Absent => -2,
            FieldExpiry::None => -1,
            FieldExpiry::Unmet => 0,
            FieldExpiry::Changed => 1,
            FieldExpiry::Removed => 2,
        });
    }
}

pub(crate) fn hpersist(c: &mut Context<'_>) -> Outcome {
    check_type(c)?;
    let fields = fields_of(c.args.tail(2), NOT_POSITIVE)?;
    let persist = |fields: &[&[u8]]| c.store.hash_persist(&c.args[1], fields, c.now);
    let answers = with_keys(fields, persist)?;
    answer(c, &answers);
    Ok(())
}

pub(crate) fn httl(c: &mut Context<'_>) -> Outcome {
    // For fields, Redis rounds up to seconds.
    time_of_expiry(c, |at, now| at.saturating_sub(now).div_ceil(1000))
}

pub(crate) fn hpttl(c: &mut Context<'_>) -> Outcome {
    time_of_expiry(c, |at, now| at.saturating_sub(now))
}

pub(crate) fn hexpiretime(c: &mut Context<'_>) -> Outcome {
    time_of_expiry(c, |at, _| at.div_ceil(1000))
}

pub(crate) fn hpexpiretime(c: &mut Context<'_>) -> Outcome {
    time_of_expiry(c, |at, _| at)
}

fn time_of_expiry(c: &mut Context<'_>, shown: impl Fn(u64, u64) -> u64) -> Outcome {
    check_type(c)?;
    let fields = fields_of(c.args.tail(2), NOT_POSITIVE)?;
    c.reply.array(fields.len());
    let now = c.now;
    let found = c.store.hash(&c.args[1], now, |hash| {
        for field in fields.iter() {
            c.reply.int(match hash.get_with_expiry(field) {
                None => -2,
                Some((_, None)) => -1,
                Some((_, Some(at))) => shown(at, now).cast_signed(),
            });
        }
    })?;
    match found {
        Some(()) => c.hit(),
        None => {
            c.miss();
            (0..fields.len()).for_each(|_| c.reply.int(-2));
        }
    }
    Ok(())
}

pub(crate) fn hgetdel(c: &mut Context<'_>) -> Outcome {
    check_type(c)?;
    let fields = fields_of(c.args.tail(2), NOT_POSITIVE)?;
    let capacity = c.reply_capacity(b"");
    let take = |fields: &[&[u8]]| c.store.hash_get_del(&c.args[1], (fields, capacity), c.now);
    let values = with_keys(fields, take)?;
    answer_values(c, &values);
    Ok(())
}

fn answer_values(c: &mut Context<'_>, values: &[Option<Vec<u8>>]) {
    if values.iter().any(Option::is_some) {
        c.hit()
    } else {
        c.miss()
    }
    c.reply.array(values.len());
    for value in values {
        match value {
            Some(value) => c.reply.bulk(value),
            None => c.reply.null(),
        }
    }
}

/// The options of HGETEX and HSETEX, in any order.
#[derive(Default)]
struct ExOptions<'a> {
    /// The arguments after `FIELDS numfields`.
    fields: Option<ArgsView<'a>>,
    condition: Option<FieldsCondition>,
    expiry: Option<Expiry>,
}

#[derive(Clone, Copy)]
enum Expiry {
    Keep,
    Persist,
    At(u64),
}

/// The command that the options belong to: HGETEX or HSETEX.
#[derive(Clone, Copy, PartialEq)]
enum Ex {
    Get,
    Set,
}

impl Ex {
    fn name(self) -> &'static str {
        if self == Ex::Get { "hgetex" } else { "hsetex" }
    }

    /// Number of arguments per field: the field, and for HSETEX its value.
    fn width(self) -> usize {
        if self == Ex::Get { 1 } else { 2 }
    }

    fn two_expiries(self) -> Failure {
        Failure::text(match self {
            Ex::Get => "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
            Ex::Set => "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        })
    }

    fn parse<'a>(self, args: ArgsView<'a>, now: u64) -> Result<ExOptions<'a>, Failure> {
        let (mut options, mut i) = (ExOptions::default(), 0);
        while let Some(arg) = args.get(i) {
            i += 1;
            let condition = match arg.to_ascii_lowercase().as_slice() {
                b"fields" => {
                    if options.fields.is_some() {
                        return Err(Failure::text("ERR multiple FIELDS arguments"));
                    }
                    let (fields, len) = self.fields(args.tail(i))?;
                    options.fields = Some(fields);
                    i += 1 + len;
                    continue;
                }
                b"fnx" if self == Ex::Set => FieldsCondition::IfNone,
                b"fxx" if self == Ex::Set => FieldsCondition::IfAll,
                _ => {
                    let expiry = self.expiry(arg, options.expiry, args.get(i), now)?;
                    i += usize::from(matches!(expiry, Expiry::At(_)));
                    options.expiry = Some(expiry);
                    continue;
                }
            };
            if options.condition.replace(condition).is_some() {
                return Err(Failure::text("ERR Only one of FXX or FNX arguments can be specified"));
            }
        }
        Ok(options)
    }

    /// The fields after their count, and the number of arguments that they take.
    fn fields(self, args: ArgsView<'_>) -> Result<(ArgsView<'_>, usize), Failure> {
        let count = args.get(0).and_then(parse_i64).and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| *count > 0 && *count <= i32::MAX as usize);
        let count = count.ok_or(Failure::text("ERR invalid number of fields"))?;
        let len = count * self.width();
        if len > args.len() - 1 {
            return Err(Failure::text("ERR wrong number of arguments"));
        }
        Ok((args.slice(1..1 + len), len))
    }

    fn expiry(
        self,
        arg: &[u8],
        before: Option<Expiry>,
        number: Option<&[u8]>,
        now: u64,
    ) -> Result<Expiry, Failure> {
        let expiry = match Moment::of_option(arg) {
            Some(_) if before.is_some() => return Err(self.two_expiries()),
            Some(moment) => {
                let number = number.ok_or(Failure::text("ERR missing expire time"))?;
                Expiry::At(deadline(moment, number, now, self.name())?)
            }
            None if self == Ex::Get && arg.eq_ignore_ascii_case(b"persist") => Expiry::Persist,
            None if self == Ex::Set && arg.eq_ignore_ascii_case(b"keepttl") => Expiry::Keep,
            None => {
                let arg = String::from_utf8_lossy(arg);
                return Err(format!("ERR unknown argument: {arg}").into());
            }
        };
        if before.is_some() { Err(self.two_expiries()) } else { Ok(expiry) }
    }
}

/// The fields of the request; an error if FIELDS is missing.
fn named<'a>(options: &ExOptions<'a>) -> Result<ArgsView<'a>, Failure> {
    options.fields.ok_or(Failure::text("ERR missing FIELDS argument"))
}

pub(crate) fn hgetex(c: &mut Context<'_>) -> Outcome {
    let options = Ex::Get.parse(c.args.tail(2), c.now)?;
    let change = match options.expiry {
        None => TtlChange::Leave,
        Some(Expiry::At(at)) => TtlChange::At(at),
        Some(Expiry::Persist | Expiry::Keep) => TtlChange::Persist,
    };
    let capacity = c.reply_capacity(b"");
    let get = |fields: &[&[u8]]| c.store.hash_get_ex(&c.args[1], (fields, capacity), change, c.now);
    let values = with_keys(named(&options)?, get)?;
    answer_values(c, &values);
    Ok(())
}

pub(crate) fn hsetex(c: &mut Context<'_>) -> Outcome {
    let options = Ex::Set.parse(c.args.tail(2), c.now)?;
    let condition = options.condition.unwrap_or_default();
    let expiry = match options.expiry {
        None => SetFieldExpiry::Clear,
        Some(Expiry::At(at)) => SetFieldExpiry::At(at),
        Some(Expiry::Keep | Expiry::Persist) => SetFieldExpiry::Keep,
    };
    let set =
        |pairs: &[(&[u8], &[u8])]| c.store.hash_set_ex(&c.args[1], pairs, condition, expiry, c.now);
    let is_set = with_pairs(named(&options)?, "hsetex", set)??;
    c.reply.int(is_set.into());
    Ok(())
}
