//! The hash that assigns keys to the gate's 64 stripes.
//!
//! Nearly every operation computes it in addition to the index's hash, so it must be cheap. It need not be strong: keys
//! of the same stripe only wait for each other's multi-key operations, so a client that chooses keys of one stripe on
//! purpose gains nothing else.

/// An odd multiplier with well-spread bits: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of 64 bits. Its highest bits select the stripe.
#[inline]
pub(crate) fn spread(seed: u64, key: &[u8]) -> u64 {
    let mut hash = seed ^ key.len() as u64;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash, u64::from_le_bytes(last))
}

/// Mixes a word into the hash. The high bits of the product depend on all bits; the rotation moves them down for the
/// next word.
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(29) ^ word).wrapping_mul(MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripe(seed: u64, key: &[u8]) -> usize {
        crate::gate::stripe_of(spread(seed, key))
    }

    #[test]
    fn usual_keys_spread_over_all_stripes() {
        type Name = fn(u32) -> String;
        let names: [Name; 5] = [
            |i| i.to_string(),
            |i| format!("key:{i:012}"),
            |i| format!("user:{i}:profile"),
            |i| format!("{i}:a suffix that is the same for all of them"),
            |i| format!("session:{:032x}", u128::from(i) << 90),
        ];
        for name in names {
            let mut counts = [0; 64];
            for i in 0..6_400 {
                counts[stripe(7, name(i).as_bytes())] += 1;
            }
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*least > 30 && *most < 300, "{least} to {most} a stripe for {}", name(1));
        }
    }

    #[test]
    fn the_seed_and_the_length_count() {
        let differs = |f: &dyn Fn(u64) -> (usize, usize)| (0..64).any(|i| f(i).0 != f(i).1);
        assert!(differs(&|i| (stripe(i, b"key"), stripe(i + 1, b"key"))));
        assert!(differs(&|i| (stripe(i, b"\0"), stripe(i, b"\0\0"))));
        assert!(differs(&|i| (stripe(i, b""), stripe(i, b"\0"))));
    }
}
