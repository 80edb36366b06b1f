//! Settings of Redis that have no effect here: they tune Redis's own components, or ask for a missing feature.
//!
//! Tools read and set these settings, and a redis.conf contains them. So they have a value: Redis's default, or a value
//! from the file or CONFIG SET. A setting that asks for a missing feature must accept only values that do not ask for
//! it.

mod table;

use std::collections::BTreeMap;

use super::setting::Change;
use super::values::{boolean, one_of, size};

/// A setting of Redis without effect here.
#[derive(Debug)]
pub struct Passive {
    /// Redis's name.
    pub name: &'static str,
    /// Redis's older name, or "".
    pub alias: &'static str,
    /// The default value.
    pub default: &'static str,
    /// When the setting may be changed.
    pub change: Change,
    kind: Kind,
    /// The missing feature that the setting asks for, and the values that do not ask for it.
    pub(crate) missing: Option<(&'static str, &'static [&'static str])>,
}

/// The values that Redis accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    /// An integer from the first number to the second.
    Int(i64, i64),
    /// A number of bytes, at least this many.
    Size(usize),
    OneOf(&'static [&'static str]),
    Text,
    /// Three numbers from -2000 to 2000.
    Scores,
    /// Numbers from 0 to 100.
    Percentiles,
    /// A directive of a redis.conf that CONFIG does not know.
    Directive,
}

const fn running(name: &'static str, default: &'static str, kind: Kind) -> Passive {
    Passive { name, alias: "", default, change: Change::Running, kind, missing: None }
}

const fn starting(name: &'static str, default: &'static str, kind: Kind) -> Passive {
    Passive { change: Change::Start, ..running(name, default, kind) }
}

const fn protected(name: &'static str, default: &'static str, kind: Kind) -> Passive {
    Passive { change: Change::Protected, ..running(name, default, kind) }
}

const fn directive(name: &'static str) -> Passive {
    starting(name, "", Kind::Directive)
}

impl Passive {
    const fn or(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }

    const fn asks_for(self, feature: &'static str, harmless: &'static [&'static str]) -> Self {
        Self { missing: Some((feature, harmless)), ..self }
    }

    /// The value as Redis would show it. The error text is Redis's.
    fn parse(&self, value: &str) -> Result<String, String> {
        match self.kind {
            Kind::Bool => boolean(value).map(super::values::yes_no),
            Kind::Int(min, max) => super::values::number(value, min, max).map(|n| n.to_string()),
            Kind::Size(min) => size(value, min).map(|n| n.to_string()),
            Kind::OneOf(names) => one_of(value, names).map(str::to_string),
            Kind::Text | Kind::Directive => Ok(value.to_string()),
            Kind::Scores => scores(value),
            Kind::Percentiles => percentiles(value),
        }
    }
}

fn scores(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".to_string());
    }
    let is_score =
        |word: &&str| word.parse::<i32>().is_ok_and(|score| (-2000..=2000).contains(&score));
    match words.iter().all(is_score) {
        true => Ok(words.join(" ")),
        false => {
            Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into())
        }
    }
}

fn percentiles(text: &str) -> Result<String, String> {
    const NAME: &str = "latency-tracking-info-percentiles";
    let numbers = text.split_whitespace().map(str::parse::<f64>).collect::<Result<Vec<_>, _>>();
    let numbers = numbers.map_err(|_| format!("Invalid {NAME} parameters"))?;
    match numbers.iter().all(|number| (0.0..=100.0).contains(number)) {
        true => Ok(numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")),
        false => Err(format!("{NAME} parameters should sit between [0.0,100.0]")),
    }
}

/// The setting of this name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Passive> {
    let is_it = |known: &str| !known.is_empty() && known.eq_ignore_ascii_case(name);
    table::PASSIVE.iter().find(|passive| is_it(passive.name) || is_it(passive.alias))
}

/// The values that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(BTreeMap<&'static str, String>);

impl Given {
    /// Sets a value, if Redis accepts the value and it asks for no missing feature.
    pub(crate) fn set(&mut self, passive: &'static Passive, value: &str) -> Result<(), String> {
        let parsed = passive.parse(value)?;
        if let Some((feature, harmless)) = passive.missing
            && !harmless.iter().any(|text| text.eq_ignore_ascii_case(value))
        {
            return Err(format!("it asks for {feature}, which this server does not have"));
        }
        self.0.insert(passive.name, parsed);
        Ok(())
    }

    /// The names and values that CONFIG GET shows. A setting with an alias appears under both names.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let known = table::PASSIVE.iter().filter(|passive| passive.kind != Kind::Directive);
        known.flat_map(|passive| {
            let value = self.0.get(passive.name).map_or(passive.default, String::as_str);
            let names = [passive.name, passive.alias].into_iter();
            names.filter(|name| !name.is_empty()).map(move |name| (name, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_values_and_names_are_sorted_and_new() {
        for passive in table::PASSIVE.iter().filter(|passive| passive.kind != Kind::Directive) {
            let mut given = Given::default();
            assert_eq!(given.set(passive, passive.default), Ok(()), "{}", passive.name);
            let shown = given.shown().find(|(name, _)| *name == passive.name);
            assert_eq!(shown, Some((passive.name, passive.default)));
            assert!(super::super::find(passive.name).is_none(), "{} has an effect", passive.name);
        }
        assert!(table::PASSIVE.is_sorted_by_key(|passive| passive.name));
    }
}
