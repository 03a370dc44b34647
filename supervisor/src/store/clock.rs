//! Derives the store's own time from the machine's clocks. Setting the wall clock does not change it.
//!
//! Retention is counted in the store's time. It advances with `CLOCK_BOOTTIME`, even while the sidecar is not running,
//! and stands still while the machine is off: only the wall clock could tell that duration, and it may be wrong at
//! boot. Users see wall-clock time: the store's time plus an offset that is measured again when the wall clock jumps.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::Sql;

/// Smaller changes of the offset between the clocks are no jump.
const STEP_MS: i64 = 1000;
/// Interval between saved times. What a crash of the machine loses of it only prolongs retention.
const NOTE_MS: i64 = 10 * 60 * 1000;

/// The source of time: by default the system.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Hands>);

#[derive(Debug, Default)]
struct Hands {
    /// Ignores the system's clocks.
    still: bool,
    wall_ms: AtomicI64,
    uptime_ms: AtomicI64,
    boots: AtomicI64,
}

impl Clock {
    /// A clock that stands still at this wall-clock time.
    pub fn still(wall_ms: i64) -> Self {
        Self(Arc::new(Hands {
            still: true,
            wall_ms: wall_ms.into(),
            ..Hands::default()
        }))
    }

    /// Sets the wall clock forward or back.
    pub fn set_wall(&self, by_ms: i64) {
        self.0.wall_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Lets time pass.
    pub fn pass(&self, ms: i64) {
        self.set_wall(ms);
        self.0.uptime_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Simulates a reboot: uptime restarts.
    pub fn boot(&self) {
        self.0.boots.fetch_add(1, Ordering::Relaxed);
        self.0
            .uptime_ms
            .fetch_sub(self.uptime_ms(), Ordering::Relaxed);
    }

    /// Wall-clock time, in milliseconds since 1970.
    pub fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let system = since.map_or(0, |time| {
            i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
        });
        self.of(system, &self.0.wall_ms)
    }

    fn uptime_ms(&self) -> i64 {
        // Linux has this clock since 2.6.39.
        let system =
            clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| time.num_milliseconds());
        self.of(system, &self.0.uptime_ms)
    }

    fn of(&self, system: i64, more: &AtomicI64) -> i64 {
        let more = more.load(Ordering::Relaxed);
        if self.0.still {
            more
        } else {
            system.saturating_add(more)
        }
    }

    /// Identifies the current boot of the machine, if possible.
    fn machine(&self) -> Option<String> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(format!(
            "{} {}",
            id.trim(),
            self.0.boots.load(Ordering::Relaxed)
        ))
    }
}

/// One moment, in both times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The store's time, for retention.
    pub(super) ms: i64,
    /// Wall-clock time, for people.
    pub(super) wall_ms: i64,
}

/// The store's time; see the head of this file.
#[derive(Debug)]
pub(super) struct Time {
    clock: Clock,
    /// Offset from the machine's uptime to the store's time.
    base_ms: i64,
    /// Offset from the store's time to wall-clock time.
    shift_ms: AtomicI64,
}

impl Time {
    /// Continues from the time that the last process saved.
    pub(super) fn resume(db: &Connection, clock: Clock) -> Sql<Self> {
        let (wall, uptime, machine) = (clock.wall_ms(), clock.uptime_ms(), clock.machine());
        let row = db
            .query_row(
                "SELECT machine, base_ms, shift_ms, at_ms FROM clock",
                [],
                |row| {
                    Ok((
                        row.get::<_, Option<String>>(0)?,
                        row.get(1)?,
                        row.get(2)?,
                        row.get(3)?,
                    ))
                },
            )
            .optional()?;
        let (base_ms, shift_ms) = match row {
            Some((known, base_ms, shift_ms, _)) if known.is_some() && known == machine => {
                (base_ms, shift_ms)
            }
            Some((_, _, _, at_ms)) => (
                i64::saturating_sub(at_ms, uptime),
                wall.saturating_sub(at_ms),
            ),
            // A new store, or one of a schema without the store's time.
            None => (wall.saturating_sub(uptime), 0),
        };
        let time = Self {
            clock,
            base_ms,
            shift_ms: shift_ms.into(),
        };
        time.write(db, machine)?;
        Ok(time)
    }

    pub(super) fn now(&self) -> Moment {
        let ms = self.clock.uptime_ms().saturating_add(self.base_ms);
        let found = self.clock.wall_ms().saturating_sub(ms);
        let known = self.shift_ms.load(Ordering::Relaxed);
        if found.abs_diff(known) > STEP_MS.unsigned_abs() {
            self.shift_ms.store(found, Ordering::Relaxed);
        }
        Moment {
            ms,
            wall_ms: self.shown(ms),
        }
    }

    /// Converts the store's time to wall-clock time.
    pub(super) fn shown(&self, ms: i64) -> i64 {
        ms.saturating_add(self.shift_ms.load(Ordering::Relaxed))
    }

    /// Saves the time, if the last save is old, in case the machine goes down.
    pub(super) fn note(&self, db: &Connection, now: Moment) -> Sql<()> {
        let at_ms: i64 = db.query_row("SELECT at_ms FROM clock", [], |row| row.get(0))?;
        if now.ms.saturating_sub(at_ms) < NOTE_MS {
            return Ok(());
        }
        self.write(db, self.clock.machine())
    }

    fn write(&self, db: &Connection, machine: Option<String>) -> Sql<()> {
        let now = self.now();
        db.execute(
            "INSERT OR REPLACE INTO clock (place, machine, base_ms, shift_ms, at_ms) VALUES (0, ?1, ?2, ?3, ?4)",
            params![machine, self.base_ms, self.shown(0), now.ms],
        )
        .map(|_rows| ())
    }
}
