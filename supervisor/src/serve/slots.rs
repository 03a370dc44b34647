//! Limits connections by peer, so that nobody's connections keep others out.
//!
//! | peer | seats of one | of all of them |
//! |---|---|---|
//! | this user and root, by the Unix socket | 512 | 512 |
//! | another allowed user; whoever showed the token | 256 | 384 |
//! | not identified yet: an address by TCP, a user who is not allowed | 32 | 64 |
//!
//! Every new connection gets a seat. If all are taken, the connection that has been idle longest is closed: among those
//! of the same peer, or else of the peer with the most. An unidentified peer is closed after [`UNPROVEN`] in any case.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::Notify;

/// How long a connection may stay without the token or an allowed user.
const UNPROVEN: Duration = Duration::from_secs(30);
/// With fewer descriptors than this, the numbers of seats shrink in proportion.
const DESCRIPTORS: u64 = 4096;
/// Least seats of one peer and of a rank, however few descriptors there are.
const LEAST: usize = 8;

/// The identity behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sitter {
    /// This user, or root.
    Owner,
    /// Another allowed user.
    User(u32),
    /// Whoever showed the token.
    Token,
    /// A user who is not allowed and will be told so.
    Stranger(u32),
    /// Somebody at this address who has not shown the token yet.
    Caller(IpAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    Unknown,
    Known,
    Owner,
}

impl Sitter {
    fn rank(self) -> Rank {
        match self {
            Self::Owner => Rank::Owner,
            Self::User(_) | Self::Token => Rank::Known,
            Self::Stranger(_) | Self::Caller(_) => Rank::Unknown,
        }
    }
}

impl Rank {
    /// Seats of one peer, and of all of this rank.
    fn seats(self) -> [usize; 2] {
        match self {
            Self::Unknown => [32, 64],
            Self::Known => [256, 384],
            Self::Owner => [512, 512],
        }
    }
}

/// All seats; see the head of this file.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Table>);

#[derive(Debug)]
struct Table {
    seats: Mutex<Taken>,
    /// Descriptors of this process, of which the seats are a part.
    descriptors: u64,
    began: Instant,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by_number: HashMap<u64, (Sitter, Arc<Pulse>)>,
}

/// State shared by a connection and the table.
#[derive(Debug, Default)]
struct Pulse {
    /// When it last moved a byte, in milliseconds since the table was made.
    moved: AtomicU64,
    proven: AtomicBool,
    cut: Notify,
}

/// A connection's seat; dropping it frees the seat.
#[derive(Debug)]
pub struct Seat {
    table: Arc<Table>,
    number: u64,
    pulse: Arc<Pulse>,
}

impl Slots {
    /// A table sized by this process's descriptor limit.
    pub fn new() -> Self {
        Self::of(getrlimit(Resource::RLIMIT_NOFILE).map_or(DESCRIPTORS, |(soft, _)| soft))
    }

    fn of(descriptors: u64) -> Self {
        Self(Arc::new(Table {
            seats: Mutex::default(),
            descriptors,
            began: Instant::now(),
        }))
    }

    /// Takes a seat, for which another connection may be closed.
    #[must_use]
    pub fn take(&self, sitter: Sitter) -> Seat {
        let pulse = Arc::new(Pulse::default());
        let proven = sitter.rank() != Rank::Unknown;
        pulse.proven.store(proven, Ordering::Relaxed);
        let mut taken = self.0.taken();
        let number = taken.next;
        taken.next += 1;
        let seat = Seat {
            table: Arc::clone(&self.0),
            number,
            pulse: Arc::clone(&pulse),
        };
        seat.moved();
        self.0.make_room(&mut taken, sitter, number);
        taken.by_number.insert(number, (sitter, pulse));
        drop(taken);
        seat
    }

    /// Out of descriptors: closes the longest idle connection of the lowest rank, but never the owner's.
    pub fn give_way(&self) {
        let mut taken = self.0.taken();
        for rank in [Rank::Unknown, Rank::Known] {
            if let Some(idlest) = taken.idlest(|sitter| sitter.rank() == rank, None) {
                return taken.cut(idlest);
            }
        }
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for one more connection of this peer; the seat `number` stays.
    fn make_room(&self, taken: &mut Taken, sitter: Sitter, number: u64) {
        let rank = sitter.rank();
        let [of_one, of_all] = rank.seats().map(|seats| self.within(seats));
        let own = taken.count(|other| other == sitter);
        let ranked = taken.count(|other| other.rank() == rank);
        let from = if own >= of_one {
            sitter
        } else if ranked >= of_all {
            taken.fullest(rank).unwrap_or(sitter)
        } else {
            return;
        };
        if let Some(idlest) = taken.idlest(|other| other == from, Some(number)) {
            taken.cut(idlest);
        }
    }

    fn within(&self, seats: usize) -> usize {
        let descriptors = usize::try_from(self.descriptors.min(DESCRIPTORS)).unwrap_or(seats);
        (seats * descriptors / DESCRIPTORS as usize).max(LEAST)
    }
}

impl Taken {
    fn count(&self, of: impl Fn(Sitter) -> bool) -> usize {
        let sitters = self.by_number.values().map(|(sitter, _)| *sitter);
        sitters.filter(|sitter| of(*sitter)).count()
    }

    fn fullest(&self, rank: Rank) -> Option<Sitter> {
        let mut counts: HashMap<Sitter, usize> = HashMap::new();
        for (sitter, _) in self.by_number.values() {
            if sitter.rank() == rank {
                *counts.entry(*sitter).or_default() += 1;
            }
        }
        let fullest = counts.into_iter().max_by_key(|(_, count)| *count);
        fullest.map(|(sitter, _)| sitter)
    }

    fn idlest(&self, of: impl Fn(Sitter) -> bool, but: Option<u64>) -> Option<u64> {
        let all = self.by_number.iter();
        let of = all.filter(|(number, (sitter, _))| of(*sitter) && Some(**number) != but);
        // Within a millisecond, the lower number came first.
        of.min_by_key(|(number, (_, pulse))| (pulse.moved.load(Ordering::Relaxed), **number))
            .map(|(number, _)| *number)
    }

    fn cut(&mut self, number: u64) {
        if let Some((sitter, pulse)) = self.by_number.remove(&number) {
            tracing::debug!(?sitter, "a connection gives way");
            pulse.cut.notify_one();
        }
    }
}

impl Seat {
    /// Records that the connection moved a byte.
    pub fn moved(&self) {
        let since = self.table.began.elapsed().as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.pulse.moved.store(since, Ordering::Relaxed);
    }

    /// Records that the caller showed the token.
    pub fn prove(&self) {
        if self.pulse.proven.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut taken = self.table.taken();
        // A connection that is being closed stays out.
        if !taken.by_number.contains_key(&self.number) {
            return;
        }
        self.table.make_room(&mut taken, Sitter::Token, self.number);
        let pulse = Arc::clone(&self.pulse);
        taken.by_number.insert(self.number, (Sitter::Token, pulse));
    }

    /// Waits until the connection must close.
    pub async fn given_up(&self) {
        let overdue = async {
            tokio::time::sleep(UNPROVEN).await;
            if self.pulse.proven.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.pulse.cut.notified() => {}
            () = overdue => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.table.taken().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;

    use super::*;

    fn caller(last: u8) -> Sitter {
        Sitter::Caller(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
    }

    fn is_cut(seat: &Seat) -> bool {
        seat.given_up().now_or_never().is_some()
    }

    fn cut(seats: &[Seat]) -> Vec<usize> {
        (0..seats.len()).filter(|k| is_cut(&seats[*k])).collect()
    }

    #[tokio::test]
    async fn the_idlest_of_the_same_gives_way_and_nobody_elses() {
        let slots = Slots::of(DESCRIPTORS);
        let owner = slots.take(Sitter::Owner);
        let other = slots.take(caller(2));
        let mut seats: Vec<Seat> = (0..32).map(|_| slots.take(caller(1))).collect();
        assert!(cut(&seats).is_empty());
        // It came first and is no longer the longest idle.
        seats[0].pulse.moved.store(u64::MAX, Ordering::Relaxed);
        seats.push(slots.take(caller(1)));
        assert_eq!(cut(&seats), [1]);
        assert!(!is_cut(&owner) && !is_cut(&other));
    }

    #[tokio::test]
    async fn many_addresses_of_strangers_have_no_more_seats_than_one_rank_has() {
        let slots = Slots::of(DESCRIPTORS);
        let (owner, user) = (slots.take(Sitter::Owner), slots.take(Sitter::User(7)));
        let loud: Vec<Seat> = (0..20).map(|_| slots.take(caller(1))).collect();
        let quiet: Vec<Seat> = (2..46).map(|last| slots.take(caller(last))).collect();
        assert!(cut(&loud).is_empty(), "64 in all");
        let more = [slots.take(caller(50)), slots.take(Sitter::Stranger(9))];
        // The peer with the most, and its two longest idle ones.
        assert_eq!(cut(&loud), [0, 1]);
        assert!(cut(&quiet).is_empty() && cut(&more).is_empty());
        assert!(!is_cut(&owner) && !is_cut(&user));
    }

    #[tokio::test]
    async fn who_shows_the_token_no_longer_sits_among_strangers() {
        let slots = Slots::of(DESCRIPTORS);
        let first = slots.take(caller(1));
        first.prove();
        let seats: Vec<Seat> = (0..40).map(|_| slots.take(caller(1))).collect();
        assert!(!is_cut(&first));
        assert_eq!(cut(&seats), (0..8).collect::<Vec<_>>());
        let [of_one, _] = Rank::Known.seats();
        let proven: Vec<Seat> = (0..of_one)
            .map(|_| {
                let seat = slots.take(caller(3));
                seat.prove();
                seat
            })
            .collect();
        assert!(is_cut(&first), "the idlest of those with the token");
        assert!(cut(&proven).is_empty());
    }

    #[tokio::test]
    async fn a_seat_is_free_once_its_connection_is_gone_and_few_descriptors_make_few_seats() {
        let slots = Slots::of(512);
        let of_owner = 512 * 512 / 4096;
        let mut seats: Vec<Seat> = (0..of_owner).map(|_| slots.take(Sitter::Owner)).collect();
        seats.pop();
        seats.push(slots.take(Sitter::Owner));
        assert!(cut(&seats).is_empty());
        seats.push(slots.take(Sitter::Owner));
        assert_eq!(cut(&seats), [0], "everyone gets a seat");
        drop(seats);
        assert_eq!(slots.0.taken().by_number.len(), 0);
    }

    #[tokio::test]
    async fn for_want_of_descriptors_strangers_go_first_and_the_owner_stays() {
        let slots = Slots::of(DESCRIPTORS);
        let seats = [Sitter::Owner, Sitter::User(7), caller(1), caller(1)];
        let seats = seats.map(|sitter| slots.take(sitter));
        for gone in [vec![2], vec![3], vec![1], vec![]] {
            slots.give_way();
            assert_eq!(cut(&seats), gone);
        }
    }
}
