//! A figure of a report: the paper's result, the measurements here, and whether the two agree.
//!
//! A figure's verdict is never written by hand: it follows from its claims, and each claim compares a measured
//! number with a bound. `html.rs` and `svg.rs` define how figures look.

use serde::Serialize;

use crate::plots::chart::Chart;
use crate::report::Spread;
use crate::report::short;

/// The subject of a figure: everything that is known before a measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Subject {
    /// A short and fixed name, for files, anchors and `--only`.
    pub id: &'static str,
    /// The subject, in a few words.
    pub title: &'static str,
    /// The paper and the position in it.
    pub source: Source,
    /// The paper's result, with its numbers if it prints them.
    pub paper: &'static str,
}

/// One figure or table of a paper, measured again.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The subject.
    #[serde(flatten)]
    pub subject: Subject,
    /// The measurements.
    #[serde(flatten)]
    pub measured: Measured,
    /// Duration of the measurement, in seconds.
    pub seconds: f64,
}

/// The results of a figure's measurements.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// The paper's statements with the measurements.
    pub claims: Vec<Claim>,
    /// The plots; each has its numbers in a table below it.
    pub charts: Vec<Chart>,
    /// Notes for the reader: how it was measured, and how that differs from the paper's setting.
    pub notes: Vec<String>,
}

/// A paper and a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The paper.
    pub paper: Paper,
    /// The number of the figure or table, or the section that reports the result.
    pub reference: &'static str,
}

/// The papers whose evaluations are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Paper {
    /// HotRing: the ring.
    HotRing,
    /// Mercury: chains with a lock in each bucket.
    Mercury,
    /// RHKV: cuckoo tables that predict loops.
    Rhkv,
    /// The durable store: hash maps under three locks.
    DurableStore,
}

impl Source {
    /// The sort key in a report: by paper, then by the number within it.
    pub fn order(self) -> (Paper, u32) {
        let digits = self.reference.trim_start_matches(|c: char| !c.is_ascii_digit());
        let number = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        (self.paper, number.parse().unwrap_or(u32::MAX))
    }
}

impl Paper {
    /// All papers, in the order of the report.
    pub const ALL: [Self; 4] = [Self::HotRing, Self::Mercury, Self::Rhkv, Self::DurableStore];

    /// The short name in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::HotRing => "HotRing",
            Self::Mercury => "Mercury",
            Self::Rhkv => "RHKV",
            Self::DurableStore => "Durable store",
        }
    }

    /// A citation that suffices to find the paper.
    pub fn citation(self) -> &'static str {
        match self {
            Self::HotRing => {
                "Chen et al., HotRing: A Hotspot-Aware In-Memory Key-Value Store, FAST 2020"
            }
            Self::Mercury => {
                "Gandhi et al., Mercury: Bringing Efficiency to Key-Value Stores, SYSTOR 2013"
            }
            Self::Rhkv => {
                "Wu et al., RHKV: An RDMA and HTM Friendly Key-Value Store for Data-Intensive \
                 Computing, Future Generation Computer Systems 2018"
            }
            Self::DurableStore => {
                "Song and Pu, Implementation and Evaluation of a Durable Distributed Key-Value \
                 Store, Carnegie Mellon University, 2022"
            }
        }
    }
}

/// A statement of a paper, with the measurement that tests it.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The statement.
    pub paper: String,
    /// The observation in words, with the measured number.
    pub seen: String,
    /// Whether the observation agrees with the statement.
    pub verdict: Verdict,
}

/// The agreement of a measurement with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The measurement agrees.
    Agrees,
    /// The direction is the same but the effect is smaller, or it holds in some cases only.
    Partly,
    /// The measurement disagrees.
    Differs,
    /// The middle half of the rounds lies on both sides of the bound.
    Noisy,
    /// This machine lacks the means to measure it.
    Unseen,
}

impl Verdict {
    /// The label in the report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Partly => "agrees in part",
            Self::Differs => "differs",
            Self::Noisy => "too noisy to tell",
            Self::Unseen => "cannot be seen here",
        }
    }

    /// The verdict of `judge`, if it is the same over the middle half of the rounds; otherwise
    /// [`Noisy`](Self::Noisy).
    fn of(seen: Spread, judge: impl Fn(f64) -> Self) -> Self {
        let verdict = judge(seen.median);
        match judge(seen.lower) == verdict && judge(seen.upper) == verdict {
            true => verdict,
            false => Self::Noisy,
        }
    }
}

/// The number of claims per verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// All claims.
    pub claims: usize,
    /// Claims that agree without reservation.
    pub agree: usize,
    noisy: usize,
    unseen: usize,
}

impl Outcome {
    /// The counts in words.
    pub fn describe(&self) -> String {
        let Outcome { claims, agree, noisy, unseen } = *self;
        let mut text = match claims {
            0 => return "no claim".to_owned(),
            1 => format!("{agree} of 1 claim agrees"),
            _ => format!("{agree} of {claims} claims agree"),
        };
        for (count, claimed) in [(noisy, "too noisy to tell"), (unseen, "cannot be seen here")] {
            if count > 0 {
                text.push_str(&format!(", {count} {claimed}"));
            }
        }
        text
    }
}

impl Claim {
    /// Judges a statement that one quantity is `expected` times another, where `seen` times was measured. The
    /// measured gain over 1 agrees from nine tenths of the expected gain on, and partly agrees from a third on. A
    /// factor below 1 is inverted first.
    pub fn factor(
        paper: impl Into<String>,
        claimed: &str,
        expected: f64,
        seen: impl Into<Spread>,
    ) -> Self {
        let gain = |factor: f64| if expected >= 1.0 { factor - 1.0 } else { 1.0 / factor - 1.0 };
        let seen = seen.into();
        let verdict = Verdict::of(seen, |seen| match gain(seen) / gain(expected) {
            part if part >= 0.9 => Verdict::Agrees,
            part if part >= 1.0 / 3.0 => Verdict::Partly,
            _ => Verdict::Differs,
        });
        let seen = format!("{claimed}: {} times", ranged(seen));
        Claim { paper: paper.into(), seen, verdict }
    }

    /// Judges a number that the paper states. A relative error of at most `tolerance` is agreement, one of at
    /// most three times `tolerance` partial agreement.
    pub fn near(
        paper: impl Into<String>,
        claimed: &str,
        expected: f64,
        seen: impl Into<Spread>,
        tolerance: f64,
    ) -> Self {
        let seen = seen.into();
        let off = |seen: f64| (seen - expected).abs() / expected.abs();
        let verdict = Verdict::of(seen, |seen| match off(seen) {
            off if off <= tolerance => Verdict::Agrees,
            off if off <= 3.0 * tolerance => Verdict::Partly,
            _ => Verdict::Differs,
        });
        let seen = format!("{claimed}: {}, there {}", ranged(seen), short(expected));
        Claim { paper: paper.into(), seen, verdict }
    }

    /// A statement that this machine or this project cannot test, with the reason.
    pub fn unseen(paper: impl Into<String>, why: &str) -> Self {
        Claim { paper: paper.into(), seen: why.to_owned(), verdict: Verdict::Unseen }
    }

    /// Judges a statement that a quantity is above `bound` in all of these cases.
    pub fn above(paper: impl Into<String>, claimed: &str, bound: f64, cases: &[Spread]) -> Self {
        let held = cases.iter().filter(|case| case.lower > bound).count();
        let not = cases.iter().filter(|case| case.upper <= bound).count();
        let noisy = cases.len() - held - not;
        let mut claim = Self::holds(paper, claimed, held, cases.len());
        if noisy > 0 && (held == 0 || not == 0) {
            claim.verdict = Verdict::Noisy;
        }
        let all: Vec<String> = cases.iter().map(|case| ranged(*case)).collect();
        claim.seen = format!("{} ({})", claim.seen, all.join(", "));
        claim
    }

    /// Judges a statement that holds here in `held` of `cases` cases.
    pub fn holds(paper: impl Into<String>, claimed: &str, held: usize, cases: usize) -> Self {
        let verdict = match held {
            _ if held == cases => Verdict::Agrees,
            0 => Verdict::Differs,
            _ => Verdict::Partly,
        };
        let seen = if cases == 1 {
            format!("{claimed}: {}", if held == 1 { "so it is here" } else { "not here" })
        } else {
            format!("{claimed}: in {held} of {cases} cases")
        };
        Claim { paper: paper.into(), seen, verdict }
    }
}

/// A median, with the middle half of the rounds where they differ.
fn ranged(seen: Spread) -> String {
    let (lower, median, upper) = (short(seen.lower), short(seen.median), short(seen.upper));
    if lower == upper { median } else { format!("{median} [{lower} to {upper}]") }
}

impl Figure {
    /// The summary of its claims.
    pub fn outcome(&self) -> Outcome {
        let claims = &self.measured.claims;
        let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
        Outcome {
            claims: claims.len(),
            agree: count(Verdict::Agrees),
            noisy: count(Verdict::Noisy),
            unseen: count(Verdict::Unseen),
        }
    }
}

/// A fraction as a percentage.
pub fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.0} %", 100.0 * part) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_agrees_by_how_far_it_goes() {
        let verdict = |expected, seen| Claim::factor("", "", expected, seen).verdict;
        assert_eq!(verdict(2.0, 2.5), Verdict::Agrees);
        assert_eq!(verdict(2.0, 1.95), Verdict::Agrees);
        assert_eq!(verdict(2.0, 1.5), Verdict::Partly);
        assert_eq!(verdict(2.0, 1.1), Verdict::Differs);
        assert_eq!(verdict(2.0, 0.5), Verdict::Differs);
        assert_eq!(verdict(0.5, 0.5), Verdict::Agrees);
        assert_eq!(verdict(0.5, 2.0), Verdict::Differs);
    }

    #[test]
    fn numbers_and_cases_give_verdicts() {
        assert_eq!(Claim::near("", "", 10.0, 10.4, 0.05).verdict, Verdict::Agrees);
        assert_eq!(Claim::near("", "", 10.0, 9.0, 0.05).verdict, Verdict::Partly);
        assert_eq!(Claim::near("", "", 10.0, 12.0, 0.05).verdict, Verdict::Differs);
        assert_eq!(Claim::holds("", "", 3, 3).verdict, Verdict::Agrees);
        assert_eq!(Claim::holds("", "", 1, 3).verdict, Verdict::Partly);
        assert_eq!(Claim::holds("", "", 0, 3).verdict, Verdict::Differs);
    }

    #[test]
    fn rounds_on_both_sides_of_a_bound_tell_nothing() {
        let seen = |values: &[f64]| Claim::factor("", "x", 2.0, Spread::of(values));
        assert_eq!(seen(&[1.95, 2.0, 2.1]).verdict, Verdict::Agrees);
        assert_eq!(seen(&[1.5, 2.0, 2.6]).verdict, Verdict::Noisy);
        // A single round far off is no reason to doubt the others.
        assert_eq!(seen(&[0.5, 2.0, 2.0, 2.1, 2.1]).verdict, Verdict::Agrees);
        assert_eq!(seen(&[1.5, 2.0, 2.6]).seen, "x: 2 [1.75 to 2.3] times");
        let near = Claim::near("", "", 10.0, Spread::of(&[9.0, 10.0, 12.0]), 0.04);
        assert_eq!(near.verdict, Verdict::Noisy);
        let above = |cases: &[[f64; 3]]| {
            let cases: Vec<Spread> = cases.iter().map(|case| Spread::of(case)).collect();
            Claim::above("", "", 1.0, &cases).verdict
        };
        let (over, under, both) = ([1.1, 1.2, 1.3], [0.7, 0.8, 0.9], [0.6, 1.1, 1.6]);
        assert_eq!(above(&[over, over]), Verdict::Agrees);
        assert_eq!(above(&[under]), Verdict::Differs);
        assert_eq!(above(&[over, both]), Verdict::Noisy);
        assert_eq!(above(&[under, both]), Verdict::Noisy);
        assert_eq!(above(&[over, under, both]), Verdict::Partly);
    }

    /// "agrees in part" stood for 10 of 11 claims as for 1 of 11.
    #[test]
    fn a_figure_counts_the_claims_that_agree() {
        let outcome =
            |claims, agree, noisy, unseen| Outcome { claims, agree, noisy, unseen }.describe();
        assert_eq!(outcome(11, 3, 0, 0), "3 of 11 claims agree");
        assert_eq!(
            outcome(11, 3, 2, 1),
            "3 of 11 claims agree, 2 too noisy to tell, 1 cannot be seen here"
        );
        assert_eq!(outcome(1, 0, 0, 0), "0 of 1 claim agrees");
        assert_eq!(outcome(0, 0, 0, 0), "no claim");
    }

    #[test]
    fn figures_stand_in_the_order_of_their_papers() {
        let order = |reference| Source { paper: Paper::HotRing, reference }.order().1;
        assert_eq!(
            [order("figure 11a"), order("sections 4.2 and 6"), order("table 2")],
            [11, 4, 2]
        );
        assert!(Paper::HotRing < Paper::Mercury);
    }
}
