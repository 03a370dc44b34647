//! The exit code of a job on a host → what becomes of its message.
//!
//! | exit code | meaning | fate |
//! |---|---|---|
//! | 64, 65, 66, 124 | the job is wrong, or out of its own time | it has failed |
//! | 69, 77, 78 | this host cannot | another host; this one rests |
//! | 75 | this host is full or leaves | another time |
//! | all others | a crash, a disk, a bug | another host |

use std::time::Duration;

/// Hosts that may try a job.
pub const MOST_ATTEMPTS: usize = 3;
/// Times that a host that is back takes its own attempt up again.
pub const MOST_RESUMED: u32 = 3;
/// Deliveries after which a job has failed even if no attempt counts: all hosts were full for hours.
pub const MOST_DELIVERIES: i64 = 1000;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The job has failed: no host would do better.
    Failed,
    /// Another host may do better.
    Elsewhere,
    /// As [`Self::Elsewhere`], and this host takes nothing for a while.
    Unfit,
    /// Later, and the attempt does not count.
    Later,
}

impl Fate {
    /// The fate of a job that ended with this exit code.
    #[must_use]
    pub fn of(exit_code: u8) -> Self {
        match exit_code {
            64..=66 | 124 => Self::Failed,
            69 | 77 | 78 => Self::Unfit,
            75 => Self::Later,
            _ => Self::Elsewhere,
        }
    }

    /// How long the message rests after its `delivered`th delivery.
    #[must_use]
    pub fn delay(self, delivered: i64) -> Duration {
        let power = u32::try_from(delivered.clamp(1, 7)).unwrap_or(1) - 1;
        match self {
            // Doubles from 1 s to 64 s.
            Self::Later => Duration::from_secs(1 << power),
            Self::Failed | Self::Elsewhere | Self::Unfit => Duration::from_secs(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_the_fate_of_the_table() {
        for (codes, fate) in [
            (&[64, 65, 66, 124][..], Fate::Failed),
            (&[69, 77, 78], Fate::Unfit),
            (&[75], Fate::Later),
            (&[1, 70, 71, 73, 74, 76, 130, 137, 255], Fate::Elsewhere),
        ] {
            for &code in codes {
                assert_eq!(Fate::of(code), fate, "{code}");
            }
        }
        let delays = [1, 2, 7, 8, 500].map(|delivered| Fate::Later.delay(delivered).as_secs());
        assert_eq!(delays, [1, 2, 64, 64, 64]);
    }
}
