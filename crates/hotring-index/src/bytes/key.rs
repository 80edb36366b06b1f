//! Keys with their hash, so that it is computed once.

/// A key, with its hash once [`Session::prefetch`](crate::Session::prefetch) has computed it. Operations
/// accept plain keys as well.
///
/// A hash must only be used with the index that computed it: in another one, operations would look and
/// store in the wrong place.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: KeyHash,
}

/// The hash of a key in one index, or none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Not computed yet.
    pub const UNKNOWN: Self = Self(u64::MAX);
}

impl Default for KeyHash {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl<'k> Key<'k> {
    /// A key and its hash, which must be that of these bytes.
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

    /// The hash; `find` computes it if necessary.
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
