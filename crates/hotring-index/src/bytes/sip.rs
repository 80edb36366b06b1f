//! SipHash-1-3 of several keys at a time, in the lanes of vector registers.
//!
//! The rounds of one key depend on each other. The rounds of eight keys are independent and together take the
//! time of one key. The lanes are plain arrays; the compiler turns them into vector code in functions compiled
//! for a processor with vector instructions.

use siphasher::sip::SipHasher13;

/// Keys hashed in parallel.
const LANES: usize = 8;
/// Fewer keys are hashed faster one by one.
const LANES_MIN: usize = 3;
/// Longest key in words of 8 bytes; the last word contains the length.
const WORDS_MAX: usize = 9;

type Lane = [u64; LANES];

/// The code to use. Only [`Vectors::of_processor`] makes one, so the processor always has the named
/// feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vectors(Which);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    None,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Vectors {
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn of_processor() -> Self {
        if std::arch::is_x86_feature_detected!("avx512f") {
            Self(Which::Avx512)
        } else if std::arch::is_x86_feature_detected!("avx2") {
            Self(Which::Avx2)
        } else {
            Self(Which::None)
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn of_processor() -> Self {
        Self(Which::None)
    }
}

/// Writes the hashes of the keys `key(0)`, `key(1)` and so on.
#[inline]
pub(crate) fn hash_all<'k>(
    hasher: &SipHasher13,
    vectors: Vectors,
    key: impl Fn(usize) -> &'k [u8],
    hashes: &mut [u64],
) {
    for (group, hashes) in hashes.chunks_mut(LANES).enumerate() {
        // The last keys of an incomplete group are hashed repeatedly.
        let last = hashes.len() - 1;
        let keys: [&[u8]; LANES] = std::array::from_fn(|i| key(group * LANES + i.min(last)));
        let n_words = keys[0].len() / 8;
        let is_even = keys.iter().all(|key| key.len() / 8 == n_words);
        if vectors.0 == Which::None || hashes.len() < LANES_MIN || n_words >= WORDS_MAX || !is_even
        {
            hashes.iter_mut().zip(keys).for_each(|(hash, key)| *hash = hasher.hash(key));
        } else {
            let found = hash_lanes(hasher, vectors, &Words::of(&keys, n_words));
            hashes.copy_from_slice(&found[..hashes.len()]);
        }
    }
}

/// The words of keys with the same number of words.
struct Words {
    words: [Lane; WORDS_MAX],
    n: usize,
}

impl Words {
    #[inline]
    fn of(keys: &[&[u8]; LANES], n_whole: usize) -> Self {
        let mut words = [[0; LANES]; WORDS_MAX];
        for (lane, key) in keys.iter().enumerate() {
            let (whole, rest) = key.as_chunks::<8>();
            for (words, bytes) in words.iter_mut().zip(whole) {
                words[lane] = u64::from_le_bytes(*bytes);
            }
            words[n_whole][lane] = last_word(key, rest);
        }
        Self { words, n: n_whole + 1 }
    }
}

/// The last word of a key: its remaining bytes and its length.
#[inline]
fn last_word(key: &[u8], rest: &[u8]) -> u64 {
    let tail = match key.last_chunk::<8>() {
        // The remaining bytes are the upper bytes of this word.
        Some(bytes) if !rest.is_empty() => u64::from_le_bytes(*bytes) >> (64 - 8 * rest.len()),
        Some(_) => 0,
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(bytes)
        }
    };
    (key.len() as u64) << 56 | tail
}

fn hash_lanes(hasher: &SipHasher13, vectors: Vectors, words: &Words) -> Lane {
    match vectors.0 {
        Which::None => lanes(hasher, words),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `of_processor` found this feature.
        Which::Avx2 => unsafe { lanes_avx2(hasher, words) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `of_processor` found this feature.
        Which::Avx512 => unsafe { lanes_avx512(hasher, words) },
    }
}

/// Uses explicit instructions and two registers for the eight lanes: AVX2 has no rotation, so the compiler would
/// consider vector code too expensive and process the lanes one by one.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn lanes_avx2(hasher: &SipHasher13, words: &Words) -> Lane {
    use std::arch::x86_64::*;
    macro_rules! rotate {
        ($v:expr, $bits:literal) => {
            _mm256_or_si256(_mm256_slli_epi64::<$bits>($v), _mm256_srli_epi64::<{ 64 - $bits }>($v))
        };
    }
    let all = |word: u64| _mm256_set1_epi64x(word.cast_signed());
    let round = |[v0, v1, v2, v3]: [__m256i; 4]| {
        let v0 = _mm256_add_epi64(v0, v1);
        let v1 = _mm256_xor_si256(rotate!(v1, 13), v0);
        let v0 = _mm256_shuffle_epi32::<0b10_11_00_01>(v0);
        let v2 = _mm256_add_epi64(v2, v3);
        let v3 = _mm256_xor_si256(rotate!(v3, 16), v2);
        let v0 = _mm256_add_epi64(v0, v3);
        let v3 = _mm256_xor_si256(rotate!(v3, 21), v0);
        let v2 = _mm256_add_epi64(v2, v1);
        let v1 = _mm256_xor_si256(rotate!(v1, 17), v2);
        let v2 = _mm256_shuffle_epi32::<0b10_11_00_01>(v2);
        [v0, v1, v2, v3]
    };
    let start = initial(hasher);
    let mut hashes = [0; LANES];
    for (half, hashes) in hashes.chunks_mut(4).enumerate() {
        let mut v = start.map(all);
        for word in &words.words[..words.n] {
            let [w0, w1, w2, w3] = std::array::from_fn(|i| word[4 * half + i].cast_signed());
            let word = _mm256_set_epi64x(w3, w2, w1, w0);
            v[3] = _mm256_xor_si256(v[3], word);
            v = round(v);
            v[0] = _mm256_xor_si256(v[0], word);
        }
        v[2] = _mm256_xor_si256(v[2], all(0xff));
        for _ in 0..3 {
            v = round(v);
        }
        let hash = _mm256_xor_si256(_mm256_xor_si256(v[0], v[1]), _mm256_xor_si256(v[2], v[3]));
        hashes.copy_from_slice(&[
            _mm256_extract_epi64::<0>(hash).cast_unsigned(),
            _mm256_extract_epi64::<1>(hash).cast_unsigned(),
            _mm256_extract_epi64::<2>(hash).cast_unsigned(),
            _mm256_extract_epi64::<3>(hash).cast_unsigned(),
        ]);
    }
    hashes
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn lanes_avx512(hasher: &SipHasher13, words: &Words) -> Lane {
    lanes(hasher, words)
}

/// The initial state of each key.
fn initial(hasher: &SipHasher13) -> [u64; 4] {
    let (a, b) = hasher.keys();
    [
        a ^ 0x736f_6d65_7073_6575,
        b ^ 0x646f_7261_6e64_6f6d,
        a ^ 0x6c79_6765_6e65_7261,
        b ^ 0x7465_6462_7974_6573,
    ]
}

#[inline(always)]
fn lanes(hasher: &SipHasher13, words: &Words) -> Lane {
    let mut v = initial(hasher).map(|word| [word; LANES]);
    for word in &words.words[..words.n] {
        v[3] = xor(v[3], *word);
        v = round(v);
        v[0] = xor(v[0], *word);
    }
    v[2] = xor(v[2], [0xff; LANES]);
    for _ in 0..3 {
        v = round(v);
    }
    xor(xor(v[0], v[1]), xor(v[2], v[3]))
}

#[inline(always)]
fn round([v0, v1, v2, v3]: [Lane; 4]) -> [Lane; 4] {
    let v0 = add(v0, v1);
    let v1 = xor(rotate::<13>(v1), v0);
    let v0 = rotate::<32>(v0);
    let v2 = add(v2, v3);
    let v3 = xor(rotate::<16>(v3), v2);
    let v0 = add(v0, v3);
    let v3 = xor(rotate::<21>(v3), v0);
    let v2 = add(v2, v1);
    let v1 = xor(rotate::<17>(v1), v2);
    let v2 = rotate::<32>(v2);
    [v0, v1, v2, v3]
}

#[inline(always)]
fn add(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

#[inline(always)]
fn xor(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|i| a[i] ^ b[i])
}

#[inline(always)]
fn rotate<const BITS: u32>(a: Lane) -> Lane {
    a.map(|word| word.rotate_left(BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(vectors: Vectors, keys: &[&[u8]]) -> Vec<u64> {
        let mut hashes = vec![0; keys.len()];
        let hasher = SipHasher13::new_with_keys(1, !5);
        hash_all(&hasher, vectors, |i| keys[i], &mut hashes);
        hashes
    }

    /// Every code path that this processor can run.
    fn every() -> Vec<Vectors> {
        let mut every = vec![Vectors(Which::None), Vectors::of_processor()];
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            every.push(Vectors(Which::Avx2));
        }
        every.dedup();
        every
    }

    #[test]
    fn hashes_are_siphash_of_each_key() {
        let hasher = SipHasher13::new_with_keys(1, !5);
        let text: Vec<u8> = (0..200u32).map(|i| (i * 7) as u8).collect();
        // All lengths one by one, then mixed; from one key to more than two groups.
        for vectors in every() {
            for len in 0..90 {
                for n in [1, 2, 3, 7, 8, 9, 20] {
                    let keys: Vec<&[u8]> = (0..n).map(|i| &text[i..i + len]).collect();
                    let expected: Vec<u64> = keys.iter().map(|key| hasher.hash(key)).collect();
                    assert_eq!(all(vectors, &keys), expected, "{vectors:?} {n} of {len}");
                }
            }
            let mixed: Vec<&[u8]> = (0..100).map(|i| &text[i / 2..i / 2 + i]).collect();
            let expected: Vec<u64> = mixed.iter().map(|key| hasher.hash(key)).collect();
            assert_eq!(all(vectors, &mixed), expected, "{vectors:?}");
        }
    }
}
