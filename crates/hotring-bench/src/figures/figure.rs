//! What a figure is: what a paper reports, what was measured here, and whether the two agree.
//!
//! A figure's verdict is never written down: it comes from its claims, and each of them compares a
//! measured number with a bound. How figures look is the business of `html.rs` and `svg.rs`.

use serde::Serialize;

use super::chart::Chart;

/// What a figure is about: all that is known before anything is measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Subject {
    /// Short and fixed: names files, anchors, and what `--only` takes.
    pub id: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// What the paper reports, with its numbers where it prints them.
    pub paper: &'static str,
}

/// One figure or table of a paper, measured anew.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
    /// How long it took to measure, in seconds.
    pub seconds: f64,
}

/// What the measurements of a figure gave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// The paper's statements beside what was measured.
    pub claims: Vec<Claim>,
    /// The plots; each has its numbers in a table below it.
    pub charts: Vec<Chart>,
    /// What a reader should know: how it was measured, and what differs from the paper's setting.
    pub notes: Vec<String>,
}

/// A paper and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Which paper.
    pub paper: Paper,
    /// The number of the figure or table there, or the section that tells it.
    pub place: &'static str,
}

/// The papers whose evaluations are rerun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Paper {
    /// The ring.
    HotRing,
    /// Chains with a lock in each bucket.
    Mercury,
    /// Cuckoo tables that foretell loops.
    Rhkv,
    /// Hash maps under three locks.
    DurableStore,
}

impl Source {
    /// In which order a report has them: by paper, and by the number within it.
    pub fn order(self) -> (Paper, u32) {
        let digits = self.place.trim_start_matches(|c: char| !c.is_ascii_digit());
        let number = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        (self.paper, number.parse().unwrap_or(u32::MAX))
    }
}

impl Paper {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 4] = [Self::HotRing, Self::Mercury, Self::Rhkv, Self::DurableStore];

    /// As it is named in the text.
    pub fn name(self) -> &'static str {
        match self {
            Self::HotRing => "HotRing",
            Self::Mercury => "Mercury",
            Self::Rhkv => "RHKV",
            Self::DurableStore => "Durable store",
        }
    }

    /// Enough to find it.
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

/// A statement of a paper beside what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The statement.
    pub paper: String,
    /// What we see, in words, with the measured number.
    pub seen: String,
    /// Whether that agrees.
    pub verdict: Verdict,
}

/// Whether a measurement bears a statement out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It does.
    Agrees,
    /// In the same direction, but by less; or one part does and another does not.
    Partly,
    /// It does not.
    Differs,
    /// This machine has not what it takes to see it.
    Unseen,
}

impl Verdict {
    /// As it stands in the report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Partly => "agrees in part",
            Self::Differs => "differs",
            Self::Unseen => "cannot be seen here",
        }
    }

    /// One for all: what they have in common, or in part.
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Option<Self> {
        verdicts.into_iter().reduce(|one, other| if one == other { one } else { Self::Partly })
    }
}

impl Claim {
    /// The paper says that something is `expected` times something else. Here it is `seen` times:
    /// that agrees from nine tenths of the way from 1 to there on, and in part from a third on. A
    /// factor below 1 is read the other way round.
    pub fn factor(paper: impl Into<String>, what: &str, expected: f64, seen: f64) -> Self {
        let gain = |factor: f64| if expected >= 1.0 { factor - 1.0 } else { 1.0 / factor - 1.0 };
        let part = gain(seen) / gain(expected);
        let verdict = match part {
            _ if part >= 0.9 => Verdict::Agrees,
            _ if part >= 1.0 / 3.0 => Verdict::Partly,
            _ => Verdict::Differs,
        };
        Claim { paper: paper.into(), seen: format!("{what}: {} times", short(seen)), verdict }
    }

    /// The paper gives a number. Within `tolerance` of it, as a part of it, is agreement, within
    /// three times that in part.
    pub fn near(
        paper: impl Into<String>,
        what: &str,
        expected: f64,
        seen: f64,
        tolerance: f64,
    ) -> Self {
        let off = (seen - expected).abs() / expected.abs();
        let verdict = match off {
            _ if off <= tolerance => Verdict::Agrees,
            _ if off <= 3.0 * tolerance => Verdict::Partly,
            _ => Verdict::Differs,
        };
        let (seen, expected) = (short(seen), short(expected));
        Claim { paper: paper.into(), seen: format!("{what}: {seen}, there {expected}"), verdict }
    }

    /// The paper says something that this machine has not what it takes to see: why.
    pub fn unseen(paper: impl Into<String>, why: &str) -> Self {
        Claim { paper: paper.into(), seen: why.to_owned(), verdict: Verdict::Unseen }
    }

    /// The paper says that something holds; here it does in `held` of `cases` cases.
    pub fn holds(paper: impl Into<String>, what: &str, held: usize, cases: usize) -> Self {
        let verdict = match held {
            _ if held == cases => Verdict::Agrees,
            0 => Verdict::Differs,
            _ => Verdict::Partly,
        };
        let seen = if cases == 1 {
            format!("{what}: {}", if held == 1 { "so it is here" } else { "not here" })
        } else {
            format!("{what}: in {held} of {cases} cases")
        };
        Claim { paper: paper.into(), seen, verdict }
    }
}

impl Figure {
    /// What its claims come to.
    pub fn verdict(&self) -> Option<Verdict> {
        Verdict::of_all(self.measured.claims.iter().map(|claim| claim.verdict))
    }
}

/// A part of a whole in percent.
pub fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.0} %", 100.0 * part) } else { "-".to_owned() }
}

/// A number with three digits that say something, and a sign between thousands.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    if size >= 1000.0 {
        return grouped(value.round() as i64);
    }
    let decimals = match size {
        0.0 => 0,
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => (2 - size.log10().floor() as i64).clamp(3, 9) as usize,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let head = digits.len() % 3;
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == head {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
        let all = |verdicts: &[Verdict]| Verdict::of_all(verdicts.iter().copied());
        assert_eq!(all(&[]), None);
        assert_eq!(all(&[Verdict::Agrees, Verdict::Agrees]), Some(Verdict::Agrees));
        assert_eq!(all(&[Verdict::Agrees, Verdict::Differs]), Some(Verdict::Partly));
    }

    #[test]
    fn figures_stand_in_the_order_of_their_papers() {
        let order = |place| Source { paper: Paper::HotRing, place }.order().1;
        assert_eq!(
            [order("figure 11a"), order("sections 4.2 and 6"), order("table 2")],
            [11, 4, 2]
        );
        assert!(Paper::HotRing < Paper::Mercury);
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (1.0, "1"),
            (2.58, "2.58"),
            (12.34, "12.3"),
            (565.36, "565"),
            (1234.5, "1,235"),
            (-2_500_000.0, "-2,500,000"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}
