//! Estimates of tiles → the pool that each goes to: the decisions that a bake and its dry run share.
//!
//! The rows of a tile are known only once it is drawn, and are mostly far fewer than their upper bound. So the host
//! estimates. When a pool should be full by the estimate, the host asks for its counters and meanwhile fills the next
//! one, so the device always has something to draw. When the next one should be full too, the host waits for the first
//! answer and fills the room left in the first pool. No decision depends on when an answer arrives.

use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::Pool;

/// Estimate for a pixel that counts before any is known: five words where a texel is about a pixel, eight where its box
/// is larger. The rest is margin.
const AT_FIRST: FillRates = FillRates {
    patches: 0.0,
    rows: 1.0,
    words: 9.0,
    known: false,
};
/// Number of tiles after which their actual counts replace the first estimate.
const FIRST: usize = 8;
/// Factor from the rates so far to those expected next.
const SPARE: f32 = 1.15;

/// Pixels that are drawn together.
pub(super) trait Counting: Sized {
    /// Number of pixels whose alpha is high enough to count.
    fn counting(&self) -> u32;

    /// Keeps as many parts as `fit`, which takes a number of pixels that count, and returns the others. Returns none
    /// and keeps all if not even the first of several parts fits.
    fn divide(&mut self, _fit: impl Fn(u32) -> bool) -> Option<Self> {
        None
    }
}

/// How many of the first parts `fit` together, at most all but one. `counting` gives the pixels that count of each
/// part.
pub(super) fn fitting(
    counting: impl ExactSizeIterator<Item = u32>,
    fit: impl Fn(u32) -> bool,
) -> usize {
    let all = counting.len();
    let sums = counting.scan(0, |sum, counting| {
        *sum += counting;
        Some(*sum)
    });
    sums.take(all.saturating_sub(1))
        .take_while(|&sum| fit(sum))
        .count()
}

/// Expected contents of a pool for each pixel that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct FillRates {
    patches: f32,
    rows: f32,
    words: f32,
    /// Measured, not assumed.
    known: bool,
}

impl Default for FillRates {
    fn default() -> Self {
        AT_FIRST
    }
}

impl FillRates {
    /// The rates after `pixels` pixels have filled a pool with `holds`.
    pub(super) fn learnt(holds: Pool, pixels: u64) -> Self {
        let of = |count: u32| SPARE * count as f32 / pixels as f32;
        Self {
            patches: of(holds.patches),
            rows: of(holds.rows).min(1.0),
            words: of(holds.words),
            known: true,
        }
    }

    /// Expected rows and words of `pixels` pixels, without the margin; none before anything was measured.
    pub(super) fn known(self, pixels: f64) -> Option<[f64; 2]> {
        let of = |rate: f32| pixels * f64::from(rate / SPARE);
        self.known.then(|| [of(self.rows), of(self.words)])
    }

    /// Expects nothing of any pixel, so that tests reach overflow.
    #[cfg(test)]
    pub(super) const NOTHING: Self = Self {
        rows: 0.0,
        words: 0.0,
        known: true,
        ..AT_FIRST
    };

    fn of(self, counting: u32) -> Pool {
        let of = |rate: f32| (counting as f32 * rate) as u32;
        Pool {
            patches: of(self.patches),
            rows: of(self.rows),
            words: of(self.words),
        }
    }
}

#[derive(Debug)]
pub(super) struct FillLevel<T> {
    /// Its contents by the device's counters, and the pixels that they come from.
    pub(super) certain: Pool,
    pub(super) pixels: u64,
    /// Tiles drawn since, and their estimate.
    pub(super) since: Vec<T>,
    guessed: Pool,
}

impl<T> Default for FillLevel<T> {
    fn default() -> Self {
        Self {
            certain: Pool::default(),
            pixels: 0,
            since: Vec::new(),
            guessed: Pool::default(),
        }
    }
}

impl<T: Counting> FillLevel<T> {
    fn add(&mut self, tile: T, guess: Pool) {
        self.guessed = self.guessed.plus(guess);
        self.since.push(tile);
    }

    /// Takes the tiles that the device was asked about and clears the estimate.
    pub(super) fn take_since(&mut self) -> Vec<T> {
        self.guessed = Pool::default();
        std::mem::take(&mut self.since)
    }

    /// Records that `tiles` are in the pool, which now holds `holds`.
    pub(super) fn enter<'t>(&mut self, tiles: impl IntoIterator<Item = &'t T>, holds: Pool)
    where
        T: 't,
    {
        let pixels = tiles.into_iter().map(|tile| u64::from(tile.counting()));
        self.pixels += pixels.sum::<u64>();
        self.certain = holds;
    }

    fn has_room(&self, guess: Pool, room: Pool) -> bool {
        let all = self.certain.plus(self.guessed).plus(guess);
        all.within(room) || (self.certain.rows == 0 && self.since.is_empty())
    }
}

/// The open pools.
#[derive(Debug)]
pub(super) struct Ends<P> {
    /// The pool that tiles are added to.
    filling: Option<P>,
    /// The pool that should be full and whose counters were asked for.
    asked: Option<P>,
    pub(super) rates: FillRates,
}

impl<P> Default for Ends<P> {
    fn default() -> Self {
        Self {
            filling: None,
            asked: None,
            rates: AT_FIRST,
        }
    }
}

impl<P> Ends<P> {
    /// Takes both, the older one first.
    pub(super) fn take(&mut self) -> impl Iterator<Item = P> + use<P> {
        (self.asked.take().into_iter()).chain(self.filling.take())
    }
}

/// Fills pools, on a device or from known counts of tiles.
pub(super) trait Fill {
    type Tile: Counting;
    type Pool;

    fn ends(&mut self) -> &mut Ends<Self::Pool>;
    fn room(&self) -> Pool;
    fn level(pool: &mut Self::Pool) -> &mut FillLevel<Self::Tile>;
    /// Whether its rows are streamed: other rows are drawn in their place.
    fn streamed(pool: &Self::Pool) -> bool;
    /// Waits for buffers being made for the next pool.
    fn collect(&mut self) -> Result<(), GpuError> {
        Ok(())
    }
    /// Whether the rows of the next pool may be resident.
    fn stays(&self) -> bool;
    fn start(&mut self) -> Result<Self::Pool, GpuError>;
    fn draw(&mut self, tile: &mut Self::Tile, pool: &Self::Pool) -> Result<(), GpuError>;
    /// Asks the device for a pool's counters.
    fn ask(&mut self, pool: &mut Self::Pool) -> Result<(), GpuError>;
    /// Waits for the answer. What did not fit is then in the pool returned, or in others closed before it.
    fn settle(&mut self, pool: Self::Pool) -> Result<Self::Pool, GpuError>;
    fn close(&mut self, pool: Self::Pool);

    /// Draws a tile into a pool that should have room for it.
    fn place(&mut self, mut tile: Self::Tile) -> Result<(), GpuError> {
        let mut pool = match self.ends().filling.take() {
            Some(pool) => pool,
            None => self.next()?,
        };
        let guess = loop {
            let (rates, room) = (self.ends().rates, self.room());
            let guess = rates.of(tile.counting());
            let level = Self::level(&mut pool);
            let unsure = !rates.known;
            if level.has_room(guess, room) && !(unsure && level.since.len() >= FIRST) {
                break guess;
            }
            // Fills the rest of a pool with a part of the tile.
            let fits = |counting: u32| level.has_room(rates.of(counting), room);
            if !unsure && let Some(rest) = tile.divide(fits) {
                let guess = rates.of(tile.counting());
                self.draw(&mut tile, &pool)?;
                Self::level(&mut pool).add(tile, guess);
                tile = rest;
                continue;
            }
            pool = if level.since.is_empty() {
                self.close(pool);
                self.next()?
            } else if unsure || Self::streamed(&pool) {
                self.settle(pool)?
            } else {
                self.ask(&mut pool)?;
                match self.ends().asked.replace(pool) {
                    Some(before) => self.settle(before)?,
                    None => self.next()?,
                }
            };
        };
        self.draw(&mut tile, &pool)?;
        Self::level(&mut pool).add(tile, guess);
        self.ends().filling = Some(pool);
        Ok(())
    }

    /// The pool to fill next. A streamed pool begins only when no resident pool has room left.
    fn next(&mut self) -> Result<Self::Pool, GpuError> {
        self.collect()?;
        if !self.stays()
            && let Some(asked) = self.ends().asked.take()
        {
            return self.settle(asked);
        }
        self.start()
    }

    /// Settles and closes the open pools.
    fn finish(&mut self) -> Result<(), GpuError> {
        let mut ends: Vec<_> = self.ends().take().collect();
        for pool in &mut ends {
            self.ask(pool)?;
        }
        for pool in ends {
            let pool = self.settle(pool)?;
            self.close(pool);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tile by its number of pixels; each becomes one row of equal size.
    #[derive(Clone, Copy, Debug)]
    struct FakeTile(u32);

    impl Counting for FakeTile {
        fn counting(&self) -> u32 {
            self.0
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Did {
        Start(usize),
        Draw(usize),
        Ask(usize),
        Settle(usize),
        Close(usize, u32),
    }

    #[derive(Debug)]
    struct FakePool {
        number: usize,
        streamed: bool,
        level: FillLevel<FakeTile>,
    }

    /// At most `most` pools are resident; each holds `room` words.
    struct Fake {
        ends: Ends<FakePool>,
        room: u32,
        words: u32,
        most: usize,
        started: usize,
        did: Vec<Did>,
    }

    impl Fill for Fake {
        type Tile = FakeTile;
        type Pool = FakePool;

        fn ends(&mut self) -> &mut Ends<FakePool> {
            &mut self.ends
        }

        fn room(&self) -> Pool {
            Pool {
                patches: u32::MAX,
                rows: u32::MAX,
                words: self.room,
            }
        }

        fn level(pool: &mut FakePool) -> &mut FillLevel<FakeTile> {
            &mut pool.level
        }

        fn streamed(pool: &FakePool) -> bool {
            pool.streamed
        }

        fn stays(&self) -> bool {
            self.started < self.most
        }

        fn start(&mut self) -> Result<FakePool, GpuError> {
            let (number, streamed) = (self.started, !self.stays());
            self.started += 1;
            self.did.push(Did::Start(number));
            Ok(FakePool {
                number,
                streamed,
                level: FillLevel::default(),
            })
        }

        fn draw(&mut self, _: &mut FakeTile, pool: &FakePool) -> Result<(), GpuError> {
            self.did.push(Did::Draw(pool.number));
            Ok(())
        }

        fn ask(&mut self, pool: &mut FakePool) -> Result<(), GpuError> {
            self.did.push(Did::Ask(pool.number));
            Ok(())
        }

        fn settle(&mut self, mut pool: FakePool) -> Result<FakePool, GpuError> {
            self.did.push(Did::Settle(pool.number));
            let since = pool.level.take_since();
            let pixels: u32 = since.iter().map(|square| square.0).sum();
            let holds = pool.level.certain.plus(Pool {
                rows: pixels,
                words: pixels * self.words,
                ..Pool::default()
            });
            assert!(holds.within(self.room()), "as was guessed, all fit");
            pool.level.enter(&since, holds);
            self.ends.rates = FillRates::learnt(pool.level.certain, pool.level.pixels);
            Ok(pool)
        }

        fn close(&mut self, pool: FakePool) {
            assert!(pool.level.since.is_empty(), "all of it is certain");
            let holds = pool.level.certain.words;
            self.did.push(Did::Close(pool.number, holds));
        }
    }

    /// Places `tiles` tiles of 100 pixels with nine words each; a pool holds `room` tiles.
    fn filled(tiles: usize, room: u32, most: usize) -> Vec<Did> {
        let mut fake = Fake {
            ends: Ends::default(),
            room: room * 900,
            words: 9,
            most,
            started: 0,
            did: Vec::new(),
        };
        (0..tiles).for_each(|_| fake.place(FakeTile(100)).expect("a place"));
        fake.finish().expect("an end");
        let drawn = fake.did.iter().filter(|did| matches!(did, Did::Draw(_)));
        assert_eq!(drawn.count(), tiles);
        fake.did
    }

    #[test]
    fn a_pool_is_waited_for_only_when_another_has_been_filled_after_it() {
        let did = filled(400, 40, usize::MAX);
        let at = |wanted: &dyn Fn(&Did) -> bool, from: usize| {
            did[from..].iter().position(wanted).map(|at| from + at)
        };
        // The first tiles are asked about, to learn the rates.
        assert_eq!(did[1..=FIRST], [Did::Draw(0); FIRST]);
        assert_eq!(did[FIRST + 1], Did::Settle(0));
        let mut waits = 0;
        let mut from = FIRST + 2;
        let end = did.len() - 6;
        while let Some(asked) = at(&|did| matches!(did, Did::Ask(_)), from).filter(|at| *at < end) {
            let Did::Ask(number) = did[asked] else {
                unreachable!()
            };
            let settled = at(&|did| *did == Did::Settle(number), asked).expect("an answer");
            let others = did[asked..settled].iter();
            let others = others.filter(|did| matches!(did, Did::Draw(other) if *other != number));
            // Except for the last pool, or one topped up in its last room.
            waits += usize::from(others.count() == 0);
            from = asked + 1;
        }
        assert_eq!(waits, 0, "{did:?}");
        let holds: Vec<u32> = (did.iter())
            .filter_map(|did| match did {
                Did::Close(_, holds) => Some(holds / 900),
                _ => None,
            })
            .collect();
        assert_eq!(holds.iter().sum::<u32>(), 400);
        assert!(
            holds.len() <= 12 && holds.iter().filter(|&&holds| holds >= 36).count() >= 9,
            "{holds:?}"
        );
    }

    #[test]
    fn pools_that_stay_are_filled_before_one_that_does_not_is_begun() {
        let did = filled(200, 40, 3);
        let streamed = did.iter().position(|did| *did == Did::Start(3));
        let before = &did[..streamed.expect("more than three are filled")];
        for number in 0..3 {
            let drawn = before.iter().filter(|did| **did == Did::Draw(number));
            assert!(drawn.count() >= 39, "{number}: {before:?}");
        }
        // A streamed pool is waited for: the next one is drawn in its place.
        let after = &did[before.len()..];
        let closed = after.iter().position(|did| matches!(did, Did::Close(3, _)));
        let begun = after.iter().position(|did| *did == Did::Start(4));
        assert!(closed < begun, "{after:?}");
    }

    #[test]
    fn as_many_parts_fit_as_there_is_room_for_and_never_all() {
        let of = |parts: &[u32], room: u32| fitting(parts.iter().copied(), |sum| sum <= room);
        assert_eq!(of(&[10, 20, 30, 40], 59), 2);
        assert_eq!(of(&[10, 20, 30, 40], 60), 3);
        assert_eq!(of(&[10, 20, 30, 40], 1000), 3);
        assert_eq!(of(&[10, 20], 9), 0);
        assert_eq!((of(&[10], 1000), of(&[], 1000)), (0, 0));
    }

    #[test]
    fn few_tiles_are_in_one_pool() {
        let did = filled(30, 40, usize::MAX);
        assert_eq!(
            did.iter()
                .filter(|did| matches!(did, Did::Start(_)))
                .count(),
            1
        );
        assert_eq!(did.last(), Some(&Did::Close(0, 27_000)));
        assert!(filled(0, 40, usize::MAX).is_empty());
    }
}
