//! The keyed bijection from keys to hashes.
//!
//! A hash says where its key is and which key it is, so it must be invertible. Two multiplications by secret odd
//! numbers with an exclusive or between: the line comes from the highest bits of the second product, which depend on
//! all bits of the key and of the seed. It is no cipher. A client that measures times may learn something about the
//! seed; what it can do with that is bounded by the stash and by the rule that only a full table grows.

/// Where the bits of a product are folded: half of a word, so that the fold is its own inverse.
const FOLD: u32 = 32;

/// One permutation.
#[derive(Clone, Copy)]
pub(super) struct Permutation {
    flip: [u64; 2],
    factor: [u64; 2],
    inverse: [u64; 2],
}

impl Permutation {
    /// The permutation of a seed.
    pub(super) fn new(seed: [u64; 2]) -> Self {
        let mut state = seed[0];
        let mut next = |by: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ by;
            scatter(state)
        };
        let flip = [next(seed[1]), next(0)];
        let factor = [next(0) | 1, next(0) | 1];
        Self { flip, factor, inverse: factor.map(inverse) }
    }

    /// The hash of a key. Under loom it is the key, so that scenarios choose where keys are.
    #[inline(always)]
    pub(super) fn hash(&self, key: u64) -> u64 {
        if cfg!(loom) {
            return key;
        }
        let first = (key ^ self.flip[0]).wrapping_mul(self.factor[0]);
        let folded = first ^ first >> FOLD;
        (folded ^ self.flip[1]).wrapping_mul(self.factor[1])
    }

    /// The key with a hash.
    #[inline(always)]
    pub(super) fn key(&self, hash: u64) -> u64 {
        if cfg!(loom) {
            return hash;
        }
        let folded = hash.wrapping_mul(self.inverse[1]) ^ self.flip[1];
        let first = folded ^ folded >> FOLD;
        first.wrapping_mul(self.inverse[0]) ^ self.flip[0]
    }
}

/// SplitMix64's finaliser: each bit of the seed changes about half of the bits.
fn scatter(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The inverse of an odd number modulo 2^64, by Newton's method: each step doubles the bits that are right.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        for seed in 0..100 {
            let permutation = Permutation::new([seed, seed * 7]);
            for key in (0..64).flat_map(|bit| [1 << bit, u64::MAX >> bit, bit]) {
                assert_eq!(permutation.key(permutation.hash(key)), key, "seed {seed}, key {key}");
            }
        }
    }

    #[test]
    fn regular_keys_spread_over_lines() {
        let permutation = Permutation::new([1, 2]);
        for step in (0..52).map(|bit| 1u64 << bit).chain([3, 1000, 4095, 65_537]) {
            let mut load = vec![0u32; 1 << 12];
            for i in 0..1u64 << 14 {
                load[(permutation.hash(i.wrapping_mul(step)) >> 52) as usize] += 1;
            }
            let worst = load.iter().max().expect("not empty");
            assert!(*worst <= 24, "step {step}: a line with {worst} keys where 4 are expected");
        }
    }
}
