//! A SHA-256 and its 64 hexadecimal digits. It names blobs, and identifies artifacts and specs.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest as _;

use super::hex;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes bytes in memory.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(sha2::Sha256::digest(bytes.as_ref()).into())
    }

    /// Hashes the rest of a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_file(mut file: File) -> io::Result<Self> {
        let (mut hash, mut chunk) = (sha2::Sha256::new(), vec![0; 256 << 10]);
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(Self(hash.finalize().into())),
                count => hash.update(chunk.get(..count).unwrap_or_default()),
            }
        }
    }

    /// Wraps a hash.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw hash.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(out, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a SHA-256 is 64 hexadecimal digits")]
pub struct BadDigest;

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        hex::read(text).map(Self).ok_or(BadDigest)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_known_one_and_its_text_reads_back() {
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(text.to_uppercase().parse(), Ok(digest));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "e3",
            &"g".repeat(64),
            &"a".repeat(63),
            &"a".repeat(65),
            "é",
        ] {
            assert_eq!(text.parse::<Digest>(), Err(BadDigest), "{text}");
        }
    }
}
