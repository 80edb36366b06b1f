//! Keys made to collide under the seed of the tests, [3, 4].

use siphasher::sip::SipHasher13;

/// 2^64 divided by the golden ratio, as `U64` has it.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const SEED: u64 = 3 ^ 4u64.rotate_left(32);
/// The bits of a hash that choose an item's tag.
pub const TAG: u64 = 0xffff << 32;
const KEPT: u64 = (1 << 48) - 1;

pub fn u64_hash(key: u64) -> u64 {
    (key ^ SEED).wrapping_mul(SPREAD).swap_bytes()
}

/// The key of the u64 kind with this hash.
pub fn u64_key(hash: u64) -> u64 {
    // Newton's iteration doubles the number of right bits, of which an odd number has three.
    let mut inverse = SPREAD;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(SPREAD.wrapping_mul(inverse)));
    }
    hash.swap_bytes().wrapping_mul(inverse) ^ SEED
}

pub fn bytes_hash(key: &[u8]) -> u64 {
    SipHasher13::new_with_keys(3, 4).hash(key) & KEPT
}

/// Pairs of keys of one length and with one beginning whose 48 bits of hash are all equal, found
/// among 2^26 keys.
const SAME_LENGTH: [(&str, &str); 9] = [
    ("key:018ffbaa", "key:035e0645"),
    ("key:003c2ca7", "key:02b0da3c"),
    ("key:019907a1", "key:02026c3c"),
    ("key:00c892c9", "key:02c6c32d"),
    ("key:0165bbf6", "key:027e4590"),
    ("key:024590c1", "key:038b91cd"),
    ("key:02215290", "key:02aece3e"),
    ("key:009e1a36", "key:03449085"),
    ("key:011bd723", "key:03a25c85"),
];
/// The same for keys of different lengths.
const OTHER_LENGTH: [(&str, &str); 4] = [
    ("00808402", "a longer key:0093e368"),
    ("0031d762", "a longer key:01712c76"),
    ("01e3803a", "a longer key:012a0b76"),
    ("01c065bb", "a longer key:01fcf601"),
];
/// The same for keys of 254 and 255 bytes, that is "x" this many times and then this: the length of
/// the second is in a field of its own.
const SHORT_AND_LONG: [(&str, &str); 4] = [
    ("01ca5794", "014e510a"),
    ("004bd0bc", "00a461c0"),
    ("01e649d1", "01cbb923"),
    ("00c7fd50", "013f6c61"),
];

/// Pairs with equal hashes.
pub fn pairs() -> Vec<[Vec<u8>; 2]> {
    let long = |xs: usize, end: &str| ("x".repeat(xs) + end).into_bytes();
    let plain = SAME_LENGTH.iter().chain(&OTHER_LENGTH);
    plain
        .map(|(a, b)| [a.as_bytes().to_vec(), b.as_bytes().to_vec()])
        .chain(SHORT_AND_LONG.iter().map(|(a, b)| [long(246, a), long(247, b)]))
        .collect()
}

/// Keys with equal tags and equal low 12 bits of the hash; the first is the beginning of the others.
pub const PREFIXED: [&str; 5] = ["key", "key01782bb7", "key1017e370", "key24c50ae5", "key32f09d76"];

#[test]
fn the_keys_collide() {
    for hash in [0, 1, u64::MAX, TAG, 0x1234_5678_9abc_def0] {
        assert_eq!(u64_hash(u64_key(hash)), hash);
    }
    for [a, b] in pairs() {
        assert_ne!(a, b);
        assert_eq!(bytes_hash(&a), bytes_hash(&b), "{}", String::from_utf8_lossy(&b));
    }
    for key in PREFIXED {
        let differs = bytes_hash(key.as_bytes()) ^ bytes_hash(PREFIXED[0].as_bytes());
        assert_eq!(differs & (TAG | 0xfff), 0, "{key}");
    }
}
