//! Scatters ranks over the key space, so that the hottest keys are not neighbours.
//!
//! A Zipf generator gives ranks, where rank 0 is the hottest. If ranks were keys, the hottest keys would lie next
//! to each other in memory after a sequential load, and share cache lines that no real workload shares. The
//! permutation mixes within the next power of two, and repeats while the result is out of range (cycle walking),
//! so it is a bijection for any size.

use fastrand::Rng;

use super::mix::mix;

/// A permutation of `0..size`.
#[derive(Clone, Debug)]
pub struct Scramble {
    size: u64,
    bits: u32,
    factors: [u64; 2],
    offset: u64,
}

impl Scramble {
    /// A permutation of `0..size` that is determined by `seed`.
    pub fn new(size: u64, seed: u64) -> Self {
        assert!(size > 0 && size <= 1 << 62, "a permutation of {size} keys");
        let bits = size.next_power_of_two().trailing_zeros().max(2);
        let mut random = Rng::with_seed(mix(seed));
        // Odd factors are invertible modulo a power of two.
        let factors = [random.u64(..) | 1, random.u64(..) | 1];
        Scramble { size, bits, factors, offset: random.u64(..) }
    }

    /// The key of a rank.
    pub fn key(&self, rank: u64) -> u64 {
        debug_assert!(rank < self.size);
        let mut key = self.step(rank);
        while key >= self.size {
            key = self.step(key);
        }
        key
    }

    fn step(&self, word: u64) -> u64 {
        let mask = (1_u64 << self.bits) - 1;
        let half = self.bits.div_ceil(2);
        let mut word = word.wrapping_add(self.offset) & mask;
        for factor in self.factors {
            word = word.wrapping_mul(factor) & mask;
            word ^= word >> half;
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_up_once_for_any_size() {
        for size in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            let scramble = Scramble::new(size, 7);
            let mut keys: Vec<u64> = (0..size).map(|rank| scramble.key(rank)).collect();
            keys.sort_unstable();
            assert_eq!(keys, (0..size).collect::<Vec<_>>(), "size {size}");
        }
    }

    #[test]
    fn hot_keys_are_not_neighbours() {
        let scramble = Scramble::new(1_000_000, 7);
        let mut hot: Vec<u64> = (0..100).map(|rank| scramble.key(rank)).collect();
        hot.sort_unstable();
        let close = hot.windows(2).filter(|pair| pair[1] - pair[0] < 8).count();
        assert!(close <= 2, "{close} of the 100 hottest keys lie within a line of another");
    }
}
