//! `Key`: a key together with its hash, so that the hash is computed only once.

/// A key, with its hash once [`Session::prefetch`](crate::Session::prefetch) has computed it. Operations
/// accept plain keys as well.
///
/// A hash must be used only with the index that computed it. In another index, operations would search and
/// store in the wrong bucket.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: KeyHash,
}

/// The hash of a key in one index, or [`KeyHash::UNKNOWN`].
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
    /// A key with its hash. The hash must belong to these bytes.
    #[inline]
    pub fn with_hash(bytes: &'k [u8], hash: KeyHash) -> Self {
        Self { bytes, hash }
    }

    /// The key itself.
    #[inline]
    pub fn bytes(self) -> &'k [u8] {
        self.bytes
    }

    /// The hash of the key, or [`KeyHash::UNKNOWN`].
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
