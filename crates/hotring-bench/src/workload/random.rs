//! A small seeded generator (SplitMix64), so that every run and every machine sees the same stream.

/// A deterministic stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Streams of different seeds are independent of each other.
    pub fn new(seed: u64) -> Self {
        Random(mix(seed))
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A fraction in `[0, 1)` with 53 random bits.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}

/// A bijection of 64-bit words that spreads every input bit over the output.
pub fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
