//! What tiles may come to → the pool that each goes to: the decisions that a bake and its dry run share.
//!
//! What a tile comes to is known only when it has been drawn, and is far below what it may come to most often. So the host
//! guesses. A pool that should be full by that is asked about, and while the answer is on its way the next one is filled: the
//! device always has something to draw. Once that one should be full, the answer of the first is waited for, and what room was
//! left in it is filled in turn. Nothing depends on when an answer comes.

use super::super::device::GpuError;
use super::super::layout;

/// What a pixel that counts comes to before any did: five words where a texel is about a pixel, eight where its box is larger. There is
/// more room for the rest.
const AT_FIRST: Rates = Rates {
    patches: 0.0,
    rows: 1.0,
    words: 9.0,
    known: false,
};
/// Tiles after which the first guess gives way to what they came to.
const FIRST: usize = 8;
/// Of what pixels came to so far, this much is expected of the next.
const SPARE: f32 = 1.15;

/// Pixels that are drawn together.
pub(super) trait Counting: Sized {
    /// Those whose alpha lets them count.
    fn counting(&self) -> u32;

    /// Keeps as many of its parts as `fit`, which is asked for pixels that count, and gives the others; none, and keeps all, where not
    /// even one of several does.
    fn divide(&mut self, _fit: impl Fn(u32) -> bool) -> Option<Self> {
        None
    }
}

/// How many of some parts, each of so many pixels that count, `fit` together: fewer than all.
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

/// What a pixel that counts may be expected to come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    patches: f32,
    rows: f32,
    words: f32,
    /// By what others came to.
    known: bool,
}

impl Default for Rates {
    fn default() -> Self {
        AT_FIRST
    }
}

impl Rates {
    /// Where so many pixels came to this.
    pub(super) fn learnt(holds: layout::Pool, pixels: u64) -> Self {
        let of = |count: u32| SPARE * count as f32 / pixels as f32;
        Self {
            patches: of(holds.patches),
            rows: of(holds.rows).min(1.0),
            words: of(holds.words),
            known: true,
        }
    }

    /// What so many pixels come to, where others told; nothing as long as they have not.
    pub(super) fn known(self, pixels: f64) -> Option<[f64; 2]> {
        let of = |rate: f32| pixels * f64::from(rate / SPARE);
        self.known.then(|| [of(self.rows), of(self.words)])
    }

    /// Nothing is expected of any pixel: for tests of what does not fit.
    #[cfg(test)]
    pub(super) fn nothing() -> Self {
        Self {
            rows: 0.0,
            words: 0.0,
            known: true,
            ..AT_FIRST
        }
    }

    fn of(self, counting: u32) -> layout::Pool {
        let of = |rate: f32| (counting as f32 * rate) as u32;
        layout::Pool {
            patches: of(self.patches),
            rows: of(self.rows),
            words: of(self.words),
        }
    }
}

/// How full a pool is.
#[derive(Debug)]
pub(super) struct Level<T> {
    /// What is in it, as the device said, and of how many pixels.
    pub(super) certain: layout::Pool,
    pub(super) pixels: u64,
    /// Tiles since, and what they may have come to.
    pub(super) since: Vec<T>,
    guessed: layout::Pool,
}

impl<T> Default for Level<T> {
    fn default() -> Self {
        Self {
            certain: layout::Pool::default(),
            pixels: 0,
            since: Vec::new(),
            guessed: layout::Pool::default(),
        }
    }
}

impl<T: Counting> Level<T> {
    fn add(&mut self, tile: T, guess: layout::Pool) {
        self.guessed = self.guessed.plus(guess);
        self.since.push(tile);
    }

    /// Tiles of which the device was asked; nothing more is guessed.
    pub(super) fn take_since(&mut self) -> Vec<T> {
        self.guessed = layout::Pool::default();
        std::mem::take(&mut self.since)
    }

    /// These are in the pool, which holds so much by now.
    pub(super) fn enter<'t>(&mut self, tiles: impl IntoIterator<Item = &'t T>, holds: layout::Pool)
    where
        T: 't,
    {
        let pixels = tiles.into_iter().map(|tile| u64::from(tile.counting()));
        self.pixels += pixels.sum::<u64>();
        self.certain = holds;
    }

    fn has_room(&self, guess: layout::Pool, room: layout::Pool) -> bool {
        let all = self.certain.plus(self.guessed).plus(guess);
        all.within(room) || (self.certain.rows == 0 && self.since.is_empty())
    }
}

/// Pools that are not complete.
#[derive(Debug)]
pub(super) struct Ends<P> {
    /// Tiles are added to it.
    filling: Option<P>,
    /// It should be full, and the device was asked.
    asked: Option<P>,
    pub(super) rates: Rates,
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
    /// Both, the older one first.
    pub(super) fn take(&mut self) -> impl Iterator<Item = P> + use<P> {
        (self.asked.take().into_iter()).chain(self.filling.take())
    }
}

/// Fills pools, on a device or by what tiles are said to come to.
pub(super) trait Fill {
    /// See [`Counting`].
    type Tile: Counting;
    /// One that is not complete.
    type Pool;

    /// What it is about.
    fn ends(&mut self) -> &mut Ends<Self::Pool>;
    /// What a pool has room for.
    fn room(&self) -> layout::Pool;
    /// How full one is.
    fn level(pool: &mut Self::Pool) -> &mut Level<Self::Tile>;
    /// Its rows do not stay: others are drawn into its place.
    fn streamed(pool: &Self::Pool) -> bool;
    /// Waits for what is made for the next one.
    fn collect(&mut self) -> Result<(), GpuError> {
        Ok(())
    }
    /// The rows of the next one stay.
    fn stays(&self) -> bool;
    /// Begins one.
    fn start(&mut self) -> Result<Self::Pool, GpuError>;
    /// Draws a tile into it.
    fn draw(&mut self, tile: &mut Self::Tile, pool: &Self::Pool) -> Result<(), GpuError>;
    /// Asks the device what it came to.
    fn ask(&mut self, pool: &mut Self::Pool) -> Result<(), GpuError>;
    /// Waits for the answer; what did not fit is in the pool that is returned, or in others before it.
    fn settle(&mut self, pool: Self::Pool) -> Result<Self::Pool, GpuError>;
    /// It is complete.
    fn close(&mut self, pool: Self::Pool);

    /// Puts a tile where there should be room for it.
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
            // What is left of a pool is for a part of the tile.
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

    /// The pool to be filled next. Before one is begun that does not stay, there is none that does and has room.
    fn next(&mut self) -> Result<Self::Pool, GpuError> {
        self.collect()?;
        if !self.stays()
            && let Some(asked) = self.ends().asked.take()
        {
            return self.settle(asked);
        }
        self.start()
    }

    /// No tile follows, for now.
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

    /// Pixels of a tile, all of which come to one row of so many words.
    #[derive(Clone, Copy, Debug)]
    struct Square(u32);

    impl Counting for Square {
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
    struct Pool {
        number: usize,
        streamed: bool,
        level: Level<Square>,
    }

    /// Of pools that stay there are `most`; each has room for `room` words.
    struct Fake {
        ends: Ends<Pool>,
        room: u32,
        words: u32,
        most: usize,
        started: usize,
        did: Vec<Did>,
    }

    impl Fill for Fake {
        type Tile = Square;
        type Pool = Pool;

        fn ends(&mut self) -> &mut Ends<Pool> {
            &mut self.ends
        }

        fn room(&self) -> layout::Pool {
            layout::Pool {
                patches: u32::MAX,
                rows: u32::MAX,
                words: self.room,
            }
        }

        fn level(pool: &mut Pool) -> &mut Level<Square> {
            &mut pool.level
        }

        fn streamed(pool: &Pool) -> bool {
            pool.streamed
        }

        fn stays(&self) -> bool {
            self.started < self.most
        }

        fn start(&mut self) -> Result<Pool, GpuError> {
            let (number, streamed) = (self.started, !self.stays());
            self.started += 1;
            self.did.push(Did::Start(number));
            Ok(Pool {
                number,
                streamed,
                level: Level::default(),
            })
        }

        fn draw(&mut self, _: &mut Square, pool: &Pool) -> Result<(), GpuError> {
            self.did.push(Did::Draw(pool.number));
            Ok(())
        }

        fn ask(&mut self, pool: &mut Pool) -> Result<(), GpuError> {
            self.did.push(Did::Ask(pool.number));
            Ok(())
        }

        fn settle(&mut self, mut pool: Pool) -> Result<Pool, GpuError> {
            self.did.push(Did::Settle(pool.number));
            let since = pool.level.take_since();
            let pixels: u32 = since.iter().map(|square| square.0).sum();
            let holds = pool.level.certain.plus(layout::Pool {
                rows: pixels,
                words: pixels * self.words,
                ..layout::Pool::default()
            });
            assert!(holds.within(self.room()), "as was guessed, all fit");
            pool.level.enter(&since, holds);
            self.ends.rates = Rates::learnt(pool.level.certain, pool.level.pixels);
            Ok(pool)
        }

        fn close(&mut self, pool: Pool) {
            assert!(pool.level.since.is_empty(), "all of it is certain");
            let holds = pool.level.certain.words;
            self.did.push(Did::Close(pool.number, holds));
        }
    }

    /// Puts `tiles` of 100 pixels where they go, of nine words each; pools hold `room` tiles of them.
    fn filled(tiles: usize, room: u32, most: usize) -> Vec<Did> {
        let mut fake = Fake {
            ends: Ends::default(),
            room: room * 900,
            words: 9,
            most,
            started: 0,
            did: Vec::new(),
        };
        (0..tiles).for_each(|_| fake.place(Square(100)).expect("a place"));
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
        // The first tiles are asked about, to learn what tiles come to.
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
            // Unless it is the last one, or was topped up with what little there was room for.
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
        // What does not stay is waited for: the next one is drawn into its place.
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
