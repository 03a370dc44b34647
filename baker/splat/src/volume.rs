//! Depths that views see → a signed distance on a grid.
//!
//! Each view says of a voxel how far it lies before what the view sees there, cut off a few voxels around it (Curless and Levoy,
//! "A Volumetric Method for Building Complex Models from Range Images", 1996). A pixel that shows nothing says that all
//! voxels on its ray are free. What no view reaches lies within the object.
//!
//! Most bricks of 8³ voxels lie in front of all that a view sees there, or behind it. Tiles of the view know its nearest and its
//! farthest depth, and so tell. Only bricks near the surface get voxels; a row of theirs is worked on at once.

use rayon::prelude::*;

use crate::lanes::{LANES, Lanes, List};
use crate::machine::{Kernel, Machine};
use crate::view::View;
use crate::work::did;

/// Distance at which what a view says is cut off, in voxels.
const TRUNCATION: f32 = 6.0;
/// Least alpha of a pixel that shows a surface.
const SOLID: f32 = 0.5;
/// Voxels around what is given, of which the outermost are outside.
const MARGIN: usize = 3;
/// Voxels along a brick.
const BRICK: usize = LANES;
/// How far the voxels of a row lie from its first.
const STEPS: List = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
/// Pixels along a tile.
const TILE: usize = 8;

/// What views say of the voxels of a box.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    /// Centre of the first voxel.
    origin: [f32; 3],
    /// Edge of a voxel.
    edge: f32,
    /// Voxels along each axis.
    size: [usize; 3],
    /// Bricks along each axis; x runs fastest.
    grid: [usize; 3],
    bricks: Vec<Brick>,
}

/// What views say of 8³ voxels.
#[derive(Clone, Debug, Default)]
struct Brick {
    /// Views for which all of it is free.
    free: f32,
    /// What the others say of the voxels, row by row; y runs fastest.
    rows: Option<Box<[Row; BRICK * BRICK]>>,
}

/// What views say of eight voxels along x.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Row {
    /// Sums of weighted distances, in truncations.
    sums: List,
    /// Sums of weights.
    weights: List,
}

impl Volume {
    /// A box from `low` to `high` whose longest side has so many voxels, and a margin around it. None where neighbouring
    /// voxels are one number.
    pub(crate) fn new(low: [f32; 3], high: [f32; 3], longest: usize) -> Option<Self> {
        let side: [f32; 3] = std::array::from_fn(|k| high[k] - low[k]);
        let edge = side.into_iter().fold(0.0, f32::max) / longest as f32;
        let farthest = low
            .into_iter()
            .chain(high)
            .map(f32::abs)
            .fold(0.0, f32::max);
        // A NaN or an infinity is no box, either.
        if !(edge > farthest * f32::EPSILON && edge.is_finite()) {
            return None;
        }
        let size = side.map(|side| (side / edge).ceil() as usize + 1 + 2 * MARGIN);
        let grid = size.map(|size| size.div_ceil(BRICK));
        Some(Self {
            origin: low.map(|low| low - MARGIN as f32 * edge),
            edge,
            size,
            grid,
            bricks: vec![Brick::default(); grid.iter().product()],
        })
    }

    /// Voxels along each axis.
    pub(crate) const fn size(&self) -> [usize; 3] {
        self.size
    }

    /// Edge of a voxel.
    pub(crate) const fn edge(&self) -> f32 {
        self.edge
    }

    /// Adds what views see, one after the other.
    pub(crate) fn add(&mut self, views: &[DepthMap]) {
        let (volume, machine) = ((self.origin, self.edge), Machine::this());
        let [across, down, _] = self.grid;
        let bricks = self.bricks.par_iter_mut().enumerate();
        bricks.for_each(|(number, brick)| {
            let place = [
                number % across,
                number / across % down,
                number / across / down,
            ];
            let first = place.map(|brick| brick * BRICK);
            // A look at a brick takes as long as a row of its voxels.
            did(views.len());
            for seen in views {
                match seen.whole(volume, first) {
                    Some(true) => brick.free += 1.0,
                    Some(false) => {}
                    None => {
                        let rows = brick.rows.get_or_insert_with(Row::brick);
                        did(rows.len());
                        machine.run(Integrate {
                            rows,
                            seen,
                            volume,
                            first,
                        });
                    }
                }
            }
        });
    }

    /// Signed distance in truncations, negative within the object.
    pub(crate) fn distance(&self, at: [usize; 3]) -> f32 {
        if self.is_border(at) {
            return 1.0;
        }
        let brick = self.brick(at);
        let voxel = brick.rows.as_ref().map(|rows| {
            let [x, y, z] = at.map(|at| at % BRICK);
            let row = &rows[z * BRICK + y];
            [row.sums[x], row.weights[x]]
        });
        let [sum, weight] = voxel.unwrap_or_default().map(|number| number + brick.free);
        if weight > 0.0 { sum / weight } else { -1.0 }
    }

    fn brick(&self, at: [usize; 3]) -> &Brick {
        let [x, y, z] = at.map(|at| at / BRICK);
        &self.bricks[(z * self.grid[1] + y) * self.grid[0] + x]
    }

    fn is_border(&self, at: [usize; 3]) -> bool {
        (0..3).any(|k| at[k] == 0 || at[k] + 1 == self.size[k])
    }

    /// Centre of a voxel, or a place between voxels.
    pub(crate) fn place(&self, at: [f32; 3]) -> [f32; 3] {
        std::array::from_fn(|k| self.origin[k] + self.edge * at[k])
    }

    /// Whether the cube of eight voxels from this one lies in a brick that no surface crosses.
    pub(crate) fn is_whole(&self, at: [usize; 3]) -> bool {
        let is_within = at.iter().all(|at| at % BRICK + 1 < BRICK);
        let is_border = self.is_border(at) || self.is_border(at.map(|at| at + 1));
        is_within && !is_border && self.brick(at).rows.is_none()
    }
}

impl Row {
    fn brick() -> Box<[Self; BRICK * BRICK]> {
        Box::new([Self::default(); BRICK * BRICK])
    }
}

/// Integrates a view: adds what it says of each voxel of a brick.
struct Integrate<'a> {
    rows: &'a mut [Row; BRICK * BRICK],
    seen: &'a DepthMap,
    /// Centre of the volume's first voxel, and edge of a voxel.
    volume: ([f32; 3], f32),
    /// First voxel.
    first: [usize; 3],
}

impl Kernel for Integrate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let reach = L::all(TRUNCATION * self.volume.1);
        let (none, one) = (L::all(0.0), L::all(1.0));
        for (number, row) in self.rows.iter_mut().enumerate() {
            let [x, y, z] = self.first;
            let at = [x, y + number % BRICK, z + number / BRICK];
            let (before, shown) = self.seen.before::<L>(self.volume, at);
            // Behind the surface it may be the other side that is near.
            let before = (before / reach).least(one);
            let weights = (one + before).least(one).most(none) & shown;
            row.sums = (L::of(row.sums) + weights * (before.most(L::all(-1.0)) & shown)).list();
            row.weights = (L::of(row.weights) + weights).list();
        }
    }
}

/// The centre of a voxel of a volume, of which origin and edge are given.
fn place((origin, edge): ([f32; 3], f32), at: [usize; 3]) -> [f32; 3] {
    std::array::from_fn(|k| origin[k] + edge * at[k] as f32)
}

/// What a view sees: the depth of each pixel, and the nearest and farthest of each tile.
pub(crate) struct DepthMap {
    view: View,
    width: usize,
    /// View-space z of each pixel, infinite where it shows nothing.
    depths: Vec<f32>,
    /// Tiles in a row.
    across: usize,
    /// Nearest and farthest depth of each tile.
    tiles: Vec<[f32; 2]>,
}

impl DepthMap {
    /// Takes alpha and depth (view-space z) of each pixel, row by row; a depth of 0 shows nothing.
    pub(crate) fn new(view: View, alpha: &[f32], depths: &[f32]) -> Self {
        let [width, height] = view.size.map(|edge| edge as usize);
        let pixels = alpha.iter().zip(depths);
        let depths: Vec<f32> = pixels
            .map(|(&alpha, &depth)| match alpha >= SOLID && depth > 0.0 {
                true => depth,
                false => f32::INFINITY,
            })
            .collect();
        let [across, down] = [width, height].map(|edge| edge.div_ceil(TILE));
        let mut tiles = vec![[f32::INFINITY, 0.0]; across * down];
        for (number, row) in depths.chunks(width).enumerate() {
            did(width / 8);
            for (x, &depth) in row.iter().enumerate() {
                let [near, far] = &mut tiles[number / TILE * across + x / TILE];
                (*near, *far) = (near.min(depth), far.max(depth));
            }
        }
        Self {
            view,
            width,
            depths,
            across,
            tiles,
        }
    }

    /// Column, row and view-space z of a point; none behind the camera.
    fn pixel(&self, at: [f32; 3]) -> Option<[f32; 3]> {
        let [x, y, ahead] = self.view.seen(at);
        (ahead > 0.0).then(|| {
            let column = self.view.focal[0] * x / ahead + self.view.centre[0];
            let row = self.view.focal[1] * y / ahead + self.view.centre[1];
            [column, row, ahead]
        })
    }

    fn shows(&self, [column, row, _]: [f32; 3]) -> bool {
        let [width, height] = self.view.size.map(|edge| edge as f32);
        column >= 0.0 && row >= 0.0 && column < width && row < height
    }

    /// How far eight voxels along x, from one, lie before what is seen there, and the mask of those that the picture shows.
    #[inline(always)]
    fn before<L: Lanes>(&self, volume: ([f32; 3], f32), from: [usize; 3]) -> (L, L) {
        let View {
            rotation,
            focal,
            centre,
            ..
        } = self.view;
        let (start, steps) = (self.view.seen(place(volume, from)), L::of(STEPS));
        let [x, y, ahead] =
            [0, 1, 2].map(|k| L::all(start[k]) + L::all(rotation[k][0] * volume.1) * steps);
        let column = L::all(focal[0]) * x / ahead + L::all(centre[0]);
        let row = L::all(focal[1]) * y / ahead + L::all(centre[1]);
        let [width, height] = self.view.size.map(|edge| L::all(edge as f32));
        let none = L::all(0.0);
        let shown = none.below(ahead)
            & none.within(column)
            & column.below(width)
            & none.within(row)
            & row.below(height);
        let [columns, rows] = [column & shown, row & shown].map(L::list);
        let depths = std::array::from_fn(|k| {
            self.depths[rows[k] as usize * self.width + columns[k] as usize]
        });
        (L::of(depths) - ahead, shown)
    }

    /// True where all of a brick lies farther than the truncation before what is seen there, false where all of it lies as
    /// far behind; else none.
    fn whole(&self, volume: ([f32; 3], f32), first: [usize; 3]) -> Option<bool> {
        let reach = TRUNCATION * volume.1;
        let mut low = [f32::INFINITY; 3];
        let mut high = [f32::NEG_INFINITY; 3];
        for number in 0..8 {
            let at = std::array::from_fn(|k| first[k] + (BRICK - 1) * (number >> k & 1));
            // Lines stay lines, so that all of the brick lies between its corners.
            let pixel = self.pixel(place(volume, at)).filter(|at| self.shows(*at))?;
            low = std::array::from_fn(|k| low[k].min(pixel[k]));
            high = std::array::from_fn(|k| high[k].max(pixel[k]));
        }
        let [columns, rows] = [0, 1].map(|k| low[k] as usize / TILE..=high[k] as usize / TILE);
        let (mut near, mut far) = (f32::INFINITY, 0.0_f32);
        for row in rows {
            for tile in &self.tiles[row * self.across..][columns.clone()] {
                (near, far) = (near.min(tile[0]), far.max(tile[1]));
            }
        }
        match (near - high[2] >= reach, far - low[2] <= -reach) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
impl Volume {
    /// One whose distances are given, from the origin to 1.
    pub(crate) fn of(size: usize, distance: impl Fn([usize; 3]) -> f32) -> Self {
        let mut volume = Self::new([0.0; 3], [1.0; 3], size).expect("a box");
        let [across, down, _] = volume.grid;
        for (number, brick) in volume.bricks.iter_mut().enumerate() {
            let place = [
                number % across,
                number / across % down,
                number / across / down,
            ];
            let mut rows = Row::brick();
            for (number, row) in rows.iter_mut().enumerate() {
                let [x, y, z] = place.map(|brick| brick * BRICK);
                let at = |k: usize| [x + k, y + number % BRICK, z + number / BRICK];
                *row = Row {
                    sums: std::array::from_fn(|k| distance(at(k))),
                    weights: [1.0; LANES],
                };
            }
            brick.rows = Some(rows);
        }
        volume
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::lanes::Plain;

    /// A point, as [`DepthMap::before`] has it of eight.
    fn before(seen: &DepthMap, at: [f32; 3]) -> Option<f32> {
        let pixel = seen.pixel(at).filter(|pixel| seen.shows(*pixel))?;
        let [column, row, ahead] = pixel;
        Some(seen.depths[row as usize * seen.width + column as usize] - ahead)
    }

    #[test]
    fn a_brick_is_whole_only_where_its_voxels_agree() {
        const RADIUS: f32 = 0.4;
        let volume = Volume::new([-RADIUS; 3], [RADIUS; 3], 90).expect("a box");
        let (lattice, reach) = ((volume.origin, volume.edge), TRUNCATION * volume.edge);
        let [across, down, deep] = volume.grid;
        let mut count = [0, 0, 0];
        for k in 0..3 {
            let (view, alpha, depths) = of_ball(20 * k, RADIUS);
            let seen = DepthMap::new(view, &alpha, &depths);
            for number in 0..across * down * deep {
                let brick = [
                    number % across,
                    number / across % down,
                    number / across / down,
                ];
                let first = brick.map(|brick| brick * BRICK);
                let whole = seen.whole(lattice, first);
                let Some(free) = whole else {
                    count[2] += 1;
                    continue;
                };
                count[usize::from(free)] += 1;
                for number in 0..BRICK * BRICK * BRICK {
                    let within = [
                        number % BRICK,
                        number / BRICK % BRICK,
                        number / BRICK / BRICK,
                    ];
                    let at = std::array::from_fn(|k| first[k] + within[k]);
                    let before = before(&seen, place(lattice, at)).expect("in the picture");
                    let agrees = if free {
                        before >= 0.999 * reach
                    } else {
                        before <= -0.999 * reach
                    };
                    assert!(agrees, "{at:?} of view {k}: {before}");
                }
            }
        }
        assert!(count.iter().all(|count| *count > 300), "{count:?}");
    }

    #[test]
    fn rows_of_voxels_see_what_each_of_them_sees() {
        let volume = Volume::new([-0.5; 3], [0.5; 3], 60).expect("a box");
        let lattice = (volume.origin, volume.edge);
        let (mut view, alpha, depths) = of_ball(7, 0.4);
        // A part of the volume lies outside of the picture, a part behind the camera.
        view.translation = [0.3, 0.0, 0.2];
        let seen = DepthMap::new(view, &alpha, &depths);
        let mut count = [0, 0];
        for number in 0..60 * 60 {
            let at = [8 * (number % 7), number / 60, number % 60];
            let (found, shown) = seen.before::<Plain>(lattice, at);
            for k in 0..LANES {
                let wanted = before(&seen, place(lattice, [at[0] + k, at[1], at[2]]));
                count[usize::from(wanted.is_some())] += 1;
                assert_eq!(shown.signs() >> k & 1 == 1, wanted.is_some());
                let Some(wanted) = wanted.filter(|before| before.is_finite()) else {
                    continue;
                };
                // A depth of the next pixel where the rounding of both differs.
                let found = found.list()[k];
                assert!((found - wanted).abs() < 2e-2, "{found} for {wanted}");
            }
        }
        assert!(count.iter().all(|count| *count > 1000), "{count:?}");
    }

    /// View `k` of a ball about the origin.
    pub(crate) fn of_ball(k: usize, radius: f32) -> (View, Vec<f32>, Vec<f32>) {
        let (sin, cos) = (k as f32 * 2.4).sin_cos();
        let (up, flat) = ((k as f32 + 0.5) / 30.0 - 1.0, 0.0_f32);
        let across = (1.0 - up * up).max(flat).sqrt();
        let ahead = [-across * cos, -up, -across * sin];
        let right = [-sin, 0.0, cos];
        let down = [
            ahead[1] * right[2] - ahead[2] * right[1],
            ahead[2] * right[0] - ahead[0] * right[2],
            ahead[0] * right[1] - ahead[1] * right[0],
        ];
        let view = View {
            rotation: [right, down, ahead],
            translation: [0.0, 0.0, 2.0],
            focal: [300.0; 2],
            centre: [100.0; 2],
            size: [200; 2],
        };
        let pixels = (0..200 * 200).map(|pixel| {
            let [x, y] = [pixel % 200, pixel / 200].map(|x| (x as f32 + 0.5 - 100.0) / 300.0);
            // The ray (x, y, 1) · z meets the ball about (0, 0, 2).
            let square = x * x + y * y + 1.0;
            let under = 4.0 - square * (4.0 - radius * radius);
            (under > 0.0).then(|| (2.0 - under.sqrt()) / square)
        });
        let depths: Vec<f32> = pixels.map(Option::unwrap_or_default).collect();
        let alpha = depths
            .iter()
            .map(|&depth| if depth > 0.0 { 1.0 } else { 0.0 });
        (view, alpha.collect(), depths)
    }
}
