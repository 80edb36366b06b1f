//! The keyed bijection from keys to hashes.
//!
//! A hash determines both the position of its key and the key itself, so the function must be invertible. It consists
//! of three multiplications by secret odd numbers, a reversal of the bytes between two of them, and an exclusive or
//! with a secret before the first and the last. A product's high bits depend on all bits of its factor, its low bits
//! on few; reversed, they change places. So after three products each bit of a key changes the high bits of the hash,
//! which choose the line, in about half of all cases. With two, the highest bit of a key changed these bits by the
//! same amount in all keys, and keys could be chosen that stay close together for every seed.
//!
//! These are seven instructions, and each is worth saving: lookups with the first product alone were a fifth faster. A
//! secret before the second product, too, would change bits no better. Without the one before the third, some bits of a
//! key change a bit of the line in only a sixth of all keys. Four Feistel rounds with keyed products took 24.
//! The permutation is not a cipher: a client that measures times may learn something about the seed. The stash, and
//! the rule that only a full table grows, bound the harm that such a client can do.

/// Number of products.
const ROUNDS: usize = 3;

/// A permutation, and the inverses of its factors.
#[derive(Clone, Copy)]
pub(super) struct Permutation {
    flip: [u64; 2],
    factor: [u64; ROUNDS],
    inverse: [u64; ROUNDS],
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
        let factor = [next(0) | 1, next(0) | 1, next(0) | 1];
        Self { flip, factor, inverse: factor.map(inverse) }
    }

    /// The hash of a key. Under a model checker it is the key itself, so that scenarios choose the lines of keys.
    #[inline(always)]
    pub(super) fn hash(&self, key: u64) -> u64 {
        if cfg!(loom) {
            return key;
        }
        let times = |x: u64, i: usize| x.wrapping_mul(self.factor[i]);
        let twice = times(times(key ^ self.flip[0], 0).swap_bytes(), 1);
        times(twice.swap_bytes() ^ self.flip[1], 2)
    }

    /// The hashes of keys: `hashes` must have as many places. A loop that compilers turn into vector instructions.
    #[inline(always)]
    pub(super) fn hash_all(&self, keys: &[u64], hashes: &mut [u64]) {
        for (key, hash) in keys.iter().zip(hashes) {
            *hash = self.hash(*key);
        }
    }

    /// The key that has this hash.
    #[inline(always)]
    pub(super) fn key(&self, hash: u64) -> u64 {
        if cfg!(loom) {
            return hash;
        }
        let back = |x: u64, i: usize| x.wrapping_mul(self.inverse[i]);
        let twice = (back(hash, 2) ^ self.flip[1]).swap_bytes();
        back(back(twice, 1).swap_bytes(), 0) ^ self.flip[0]
    }
}

/// SplitMix64's finaliser: each bit of `x` changes about half of the bits of the result.
fn scatter(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The inverse of an odd number modulo 2^64, by Newton's method: each step doubles the number of correct low bits.
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

    /// Each bit of a key must change each bit that chooses the line in about half of all keys, whatever the seed is:
    /// otherwise some differences between keys keep the keys together, or reveal something about the seed.
    #[test]
    fn each_bit_of_a_key_changes_the_line() {
        const KEYS: u64 = 1000;
        for seed in 0..16 {
            let permutation = Permutation::new([seed, 3]);
            for bit in 0..64 {
                let mut changed = [0; 64];
                for key in (0..KEYS).map(scatter) {
                    let difference = permutation.hash(key) ^ permutation.hash(key ^ 1 << bit);
                    let bits = changed.iter_mut().enumerate();
                    bits.for_each(|(i, count)| *count += difference >> i & 1);
                }
                for (i, count) in changed.iter().enumerate().skip(40) {
                    let is_even = (KEYS * 2 / 5..=KEYS * 3 / 5).contains(count);
                    assert!(is_even, "seed {seed}: bit {bit} changes bit {i} in {count} of {KEYS}");
                }
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
