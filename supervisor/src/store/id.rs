//! Makes job ids that sort by the time of acceptance: `UUIDv7` (RFC 9562) without hyphens.
//!
//! ```text
//!  48 bits  ms since 1970 │ 4 bits  version 7 │ 12 bits random │ 2 bits variant │ 62 bits random
//! ```
//!
//! Within a millisecond, and when the clock goes back, the next id is the last one plus one (RFC 9562, 6.2, method 2).

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::hex;

/// A job's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId([u8; 16]);

impl JobId {
    /// A new id of this moment, for a job that no store of this machine keeps.
    #[must_use]
    pub fn fresh() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0));
        Ids::after(None).next(ms)
    }

    /// The least id of a moment, in milliseconds since 1970.
    #[must_use]
    pub fn first_of(ms: u64) -> Self {
        Self((u128::from(ms) << 80).to_be_bytes())
    }

    /// Its timestamp, in milliseconds since 1970.
    pub fn ms(&self) -> u64 {
        let ms = self.0.iter().take(6);
        ms.fold(0, |ms, byte| ms << 8 | u64::from(*byte))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(out, &self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The text is not 32 hexadecimal digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the id of a job is 32 hexadecimal digits in lower case")]
pub struct BadId;

impl FromStr for JobId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        // Only lower case is valid, so a job has one address.
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(BadId);
        }
        hex::read(text).map(Self).ok_or(BadId)
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// Number of random bits.
const CHANCE: u32 = 74;

/// Generates ids, each greater than the last.
#[derive(Debug)]
pub(super) struct Ids {
    /// Timestamp and random bits of the last id, without version and variant.
    last: u128,
}

impl Ids {
    /// All ids will be greater than `last`.
    pub(super) fn after(last: Option<JobId>) -> Self {
        Self {
            last: last.map_or(0, |id| dense(u128::from_be_bytes(id.0))),
        }
    }

    /// The next id at this time.
    pub(super) fn next(&mut self, now_ms: i64) -> JobId {
        // The system seeds each `RandomState` differently.
        let half = || u128::from(RandomState::new().hash_one(std::process::id()));
        let chance = (half() << 64 | half()) & ((1 << CHANCE) - 1);
        let ms = u128::from(now_ms.unsigned_abs()) & ((1 << 48) - 1);
        self.last = (ms << CHANCE | chance).max(self.last + 1);
        JobId(spread(self.last).to_be_bytes())
    }
}

/// Inserts version and variant.
fn spread(dense: u128) -> u128 {
    let (high, low) = (dense >> 62, dense & ((1 << 62) - 1));
    (high >> 12) << 80 | 7 << 76 | (high & 0xfff) << 64 | 0b10 << 62 | low
}

fn dense(spread: u128) -> u128 {
    (spread >> 80) << CHANCE | (spread >> 64 & 0xfff) << 62 | spread & ((1 << 62) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_with_the_clock_against_it_and_without_it() {
        let mut ids = Ids::after(None);
        let clock = [1_000, 1_000, 1_000, 999, 0, 1_000, 1_001, 5_000];
        let mut made: Vec<JobId> = clock.iter().map(|ms| ids.next(*ms)).collect();
        assert!(made.is_sorted_by(|one, next| one < next), "{made:?}");
        assert_eq!(made[0].ms(), 1_000);
        assert_eq!(
            made[7].ms(),
            5_000,
            "a clock that has caught up is followed"
        );
        let mut ids = Ids::after(made.pop());
        assert!(ids.next(2).to_string() > made[6].to_string());
        assert!(
            (0..10_000)
                .map(|_| ids.next(7_000))
                .is_sorted_by(|one, next| one < next)
        );
    }

    #[test]
    fn an_id_has_the_layout_of_uuid_7_and_reads_back() {
        let id = Ids::after(None).next(0x0123_4567_89ab);
        let text = id.to_string();
        assert_eq!((text.len(), &text[..13]), (32, "0123456789ab7"));
        assert!("89ab".contains(&text[16..17]), "{text}");
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(text.to_uppercase().parse::<JobId>(), Err(BadId));
        assert_eq!(
            spread(dense(u128::from_be_bytes(id.0))),
            u128::from_be_bytes(id.0)
        );
        // Exhausted random bits carry into the milliseconds, not into version or variant.
        let mut ids = Ids {
            last: 5 << CHANCE | ((1 << CHANCE) - 1),
        };
        assert_eq!(ids.next(0).to_string(), "00000000000670008000000000000000");
    }
}
