//! Distributions of accesses over the keys.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use super::zipf::Zipf;

/// The distribution of accesses over the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skew {
    /// All keys are equally likely.
    Uniform,
    /// By Zipf's law with this exponent. The hot keys are drawn at random.
    Zipf(f64),
    /// By Zipf's law over the age: the keys inserted last are the hot ones.
    Latest(f64),
    /// By Zipf's law, with other hot keys from the middle of a stream on.
    Shift(f64),
}

/// The exponent of YCSB.
const THETA: f64 = 0.99;
/// The largest exponent. Beyond it almost all accesses go to one key.
const THETA_MAX: f64 = 10.0;

impl Skew {
    /// The exponent; 0 for uniform.
    pub fn theta(self) -> f64 {
        match self {
            Skew::Uniform => 0.0,
            Skew::Zipf(theta) | Skew::Latest(theta) | Skew::Shift(theta) => theta,
        }
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skew::Uniform => f.write_str("uniform"),
            Skew::Zipf(theta) => write!(f, "{theta}"),
            Skew::Latest(theta) => write!(f, "latest:{theta}"),
            Skew::Shift(theta) => write!(f, "shift:{theta}"),
        }
    }
}

impl FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a skew: \"uniform\", a Zipf exponent from 0 to 10, or \
                 \"latest\" or \"shift\", with \":\" and an exponent if it is not {THETA}"
            )
        };
        let (name, theta) = match text.split_once(':') {
            Some((name, theta)) => (name, theta.parse().map_err(|_| wrong())?),
            None => (text, text.parse().unwrap_or(THETA)),
        };
        if !(0.0..=THETA_MAX).contains(&theta) {
            return Err(wrong());
        }
        match name {
            "uniform" if name == text => Ok(Skew::Uniform),
            "latest" => Ok(Skew::Latest(theta)),
            "shift" => Ok(Skew::Shift(theta)),
            _ if text.parse::<f64>().is_ok() => Ok(Skew::Zipf(theta)),
            _ => Err(wrong()),
        }
    }
}

/// Draws ranks, of which 0 is the most likely.
#[derive(Clone, Debug)]
pub enum Ranks {
    /// Equally likely ranks below this number.
    Uniform(u64),
    /// Zipf-distributed ranks.
    Zipf(Zipf),
}

impl Ranks {
    /// The distribution over ranks below `count`.
    pub fn new(skew: Skew, count: u64) -> Self {
        match skew {
            Skew::Uniform => Ranks::Uniform(count),
            skewed => Ranks::Zipf(Zipf::new(count, skewed.theta())),
        }
    }

    /// Draws the next rank.
    pub fn draw(&self, random: &mut Rng) -> u64 {
        match self {
            Ranks::Uniform(count) => random.u64(..*count),
            Ranks::Zipf(zipf) => zipf.sample(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_is_read_as_it_is_shown() {
        let all = [
            (Skew::Uniform, "uniform"),
            (Skew::Zipf(1.22), "1.22"),
            (Skew::Latest(0.99), "latest:0.99"),
            (Skew::Shift(1.5), "shift:1.5"),
        ];
        for (skew, text) in all {
            assert_eq!((skew.to_string().as_str(), text.parse()), (text, Ok(skew)));
        }
        assert_eq!("latest".parse(), Ok(Skew::Latest(0.99)));
        assert_eq!("shift".parse(), Ok(Skew::Shift(0.99)));
        for wrong in ["", "hot", "-1", "11", "uniform:1", "zipf:1", "latest:", "latest:x", "NaN"] {
            assert!(wrong.parse::<Skew>().is_err(), "{wrong:?} was taken");
        }
    }
}
