//! Password digests, the form in which users keep passwords.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

/// The stored form of a password: its SHA-256, as in Redis's ACL files.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// The digest of a password.
    pub(super) fn of(password: &[u8]) -> Self {
        Digest(Sha256::digest(password).into())
    }

    /// Parses 64 hexadecimal digits, with letters in lower case.
    pub(super) fn parse(hex: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if hex.len() != 64 {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Digest(digest))
    }

    /// The digest as hexadecimal digits.
    pub(super) fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compares in a time that does not depend on where the digests differ.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}
