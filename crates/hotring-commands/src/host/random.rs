//! A small random number generator for choices that need no secrecy (RANDOMKEY).

/// One thread's stream of random numbers (SplitMix64), seeded by the process.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A stream that starts at `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number, uniform over all 64-bit words.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
