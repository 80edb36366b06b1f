//! Keys that bring their hash along, so that it is computed once for all that is done with them.

/// A key of bytes, and its hash if [`Session::prefetch`](crate::Session::prefetch) has found it. Operations
/// take a key by itself as well.
///
/// A hash belongs to the index that it was found in. Operations of another one would look, and store,
/// where no other session does.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: KeyHash,
}

/// The hash of a key in one index, or that it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

impl KeyHash {
    /// It is not known.
    pub const UNKNOWN: Self = Self(u64::MAX);
}

impl Default for KeyHash {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl<'k> Key<'k> {
    /// A key whose hash is `hash`, that of these very bytes.
    #[inline]
    pub fn with_hash(bytes: &'k [u8], hash: KeyHash) -> Self {
        Self { bytes, hash }
    }

    /// The key itself.
    #[inline]
    pub fn bytes(self) -> &'k [u8] {
        self.bytes
    }

    /// Its hash.
    #[inline]
    pub fn hash(self) -> KeyHash {
        self.hash
    }

    /// The hash as a number, found by `find` if it is not known.
    #[inline]
    pub(super) fn hash_or(self, find: impl Fn(&[u8]) -> u64) -> u64 {
        match self.hash {
            KeyHash::UNKNOWN => find(self.bytes),
            KeyHash(hash) => {
                debug_assert_eq!(hash, find(self.bytes), "the hash of another key or index");
                hash
            }
        }
    }

    pub(super) fn set_hash(&mut self, hash: u64) {
        self.hash = KeyHash(hash);
    }
}

impl<'k, T: AsRef<[u8]> + ?Sized> From<&'k T> for Key<'k> {
    #[inline]
    fn from(bytes: &'k T) -> Self {
        Self { bytes: bytes.as_ref(), hash: KeyHash::UNKNOWN }
    }
}
