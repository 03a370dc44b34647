//! Depths that views see → a closed surface: a signed distance on a grid, and where it is zero.
//!
//! Each view says of a voxel how far it lies before what the view sees there, cut off a few voxels around it (Curless and Levoy,
//! "A Volumetric Method for Building Complex Models from Range Images", 1996). A pixel that shows nothing says that all
//! voxels on its ray are free. What no view reaches lies within the object.
//!
//! Most bricks of 8³ voxels lie in front of all that a view sees there, or behind it. Tiles of the view know its nearest and its
//! farthest depth, and so tell. Only bricks near the surface get voxels.
//!
//! The surface is that of marching cubes (Lorensen and Cline, 1987). Its table is made here, from loops around the faces of a
//! cube. Inside corners of an ambiguous face are kept apart, on both sides alike, and no diagonal of a loop lies on a face.
//! So every edge has two triangles, and the surface is a manifold.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::view::View;

/// Distance at which what a view says is cut off, in voxels.
const TRUNCATION: f32 = 6.0;
/// Least alpha of a pixel that shows a surface.
const SOLID: f32 = 0.5;
/// Voxels around what is given, of which the outermost are outside.
const MARGIN: usize = 3;
/// Voxels along a brick.
const BRICK: usize = 8;
/// Pixels along a tile.
const TILE: usize = 8;

/// What views say of the voxels of a box.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Centre of the first voxel.
    origin: [f32; 3],
    /// Edge of a voxel.
    edge: f32,
    /// Voxels along each axis.
    size: [usize; 3],
    /// Bricks along each axis; x runs fastest.
    wall: [usize; 3],
    bricks: Vec<Brick>,
}

/// What views say of 8³ voxels.
#[derive(Clone, Debug, Default)]
struct Brick {
    /// Views for which all of it is free.
    free: f32,
    /// What the others say of each voxel: sum of weighted distances in truncations, and of weights; x runs fastest.
    voxels: Option<Box<[[f32; 2]; BRICK * BRICK * BRICK]>>,
}

/// Triangles, wound counter-clockwise as seen from outside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surface {
    /// Corners.
    pub positions: Vec<[f32; 3]>,
    /// Indices of corners.
    pub triangles: Vec<[u32; 3]>,
}

impl Volume {
    /// A box from `low` to `high` whose longest side has so many voxels, and a margin around it.
    ///
    /// # Panics
    /// The box has no extent, or there are no voxels.
    #[must_use]
    pub fn new(low: [f32; 3], high: [f32; 3], longest: usize) -> Self {
        let side: [f32; 3] = std::array::from_fn(|k| high[k] - low[k]);
        let edge = side.into_iter().fold(0.0, f32::max) / longest as f32;
        assert!(edge > 0.0 && edge.is_finite(), "a box without extent");
        let size = side.map(|side| (side / edge).ceil() as usize + 1 + 2 * MARGIN);
        let wall = size.map(|size| size.div_ceil(BRICK));
        Self {
            origin: low.map(|low| low - MARGIN as f32 * edge),
            edge,
            size,
            wall,
            bricks: vec![Brick::default(); wall.iter().product()],
        }
    }

    /// Edge of a voxel.
    #[must_use]
    pub const fn edge(&self) -> f32 {
        self.edge
    }

    /// Adds a view: alpha and depth (view-space z) of each pixel, row by row; a depth of 0 shows nothing.
    ///
    /// # Panics
    /// There are not as many numbers as pixels.
    pub fn add(&mut self, view: &View, alpha: &[f32], depths: &[f32]) {
        let [width, height] = view.size.map(|edge| edge as usize);
        assert!(
            alpha.len() == width * height && depths.len() == alpha.len(),
            "pixels"
        );
        let seen = Seen::new(view, alpha, depths);
        let (volume, reach) = ((self.origin, self.edge), TRUNCATION * self.edge);
        let [across, down, _] = self.wall;
        let bricks = self.bricks.par_iter_mut().enumerate();
        bricks.for_each(|(number, brick)| {
            let place = [
                number % across,
                number / across % down,
                number / across / down,
            ];
            let first = place.map(|brick| brick * BRICK);
            match seen.whole(volume, first, reach) {
                Some(true) => brick.free += 1.0,
                Some(false) => {}
                None => brick.add(&seen, volume, first, reach),
            }
        });
    }

    /// Signed distance in truncations, negative within the object.
    fn distance(&self, at: [usize; 3]) -> f32 {
        if self.is_border(at) {
            return 1.0;
        }
        let brick = self.brick(at);
        let voxel = brick.voxels.as_ref().map(|voxels| {
            let [x, y, z] = at.map(|at| at % BRICK);
            voxels[(z * BRICK + y) * BRICK + x]
        });
        let [sum, weight] = voxel.unwrap_or_default().map(|number| number + brick.free);
        if weight > 0.0 { sum / weight } else { -1.0 }
    }

    fn brick(&self, at: [usize; 3]) -> &Brick {
        let [x, y, z] = at.map(|at| at / BRICK);
        &self.bricks[(z * self.wall[1] + y) * self.wall[0] + x]
    }

    fn is_border(&self, at: [usize; 3]) -> bool {
        (0..3).any(|k| at[k] == 0 || at[k] + 1 == self.size[k])
    }

    /// Where the distance is zero.
    #[must_use]
    pub fn surface(&self) -> Surface {
        let table = table();
        let layers: Vec<Vec<Cell>> = (0..self.size[2] - 1)
            .into_par_iter()
            .map(|z| self.cells(z))
            .collect();
        let mut surface = Surface::default();
        let mut corners: HashMap<([usize; 3], usize), u32> = HashMap::new();
        for cell in layers.iter().flatten() {
            for fan in &table[usize::from(cell.inside)] {
                let loop_: Vec<u32> = (fan.corners.iter())
                    .map(|&edge| {
                        let (axis, first) = (EDGES[edge].0, corner(EDGES[edge].1));
                        let at = std::array::from_fn(|k| cell.at[k] + first[k]);
                        *corners.entry((at, axis)).or_insert_with(|| {
                            surface.positions.push(self.crossing(at, axis));
                            surface.positions.len() as u32 - 1
                        })
                    })
                    .collect();
                surface.fan(&loop_, fan.centred);
            }
        }
        surface
    }

    /// Cells of a layer that the surface crosses.
    fn cells(&self, z: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        for y in 0..self.size[1] - 1 {
            for x in 0..self.size[0] - 1 {
                let at = [x, y, z];
                let is_within = at.iter().all(|at| at % BRICK + 1 < BRICK);
                let is_border = self.is_border(at) || self.is_border(at.map(|at| at + 1));
                if is_within && !is_border && self.brick(at).voxels.is_none() {
                    continue;
                }
                let mut inside = 0;
                for number in 0..8 {
                    let offset = corner(number);
                    let distance = self.distance(std::array::from_fn(|k| at[k] + offset[k]));
                    inside |= u8::from(distance < 0.0) << number;
                }
                if inside != 0 && inside != u8::MAX {
                    cells.push(Cell { at, inside });
                }
            }
        }
        cells
    }

    /// Where the surface crosses the edge from a voxel along an axis.
    fn crossing(&self, at: [usize; 3], axis: usize) -> [f32; 3] {
        let mut next = at;
        next[axis] += 1;
        let [from, to] = [at, next].map(|at| self.distance(at));
        let share = from / (from - to);
        std::array::from_fn(|k| {
            let along = if k == axis { share } else { 0.0 };
            self.origin[k] + self.edge * (at[k] as f32 + along)
        })
    }
}

impl Brick {
    /// Adds what a view says of each voxel.
    fn add(&mut self, seen: &Seen<'_>, volume: ([f32; 3], f32), first: [usize; 3], reach: f32) {
        let none = || Box::new([[0.0; 2]; BRICK * BRICK * BRICK]);
        let voxels = self.voxels.get_or_insert_with(none);
        for (number, voxel) in voxels.iter_mut().enumerate() {
            let within = [
                number % BRICK,
                number / BRICK % BRICK,
                number / BRICK / BRICK,
            ];
            let at = std::array::from_fn(|k| first[k] + within[k]);
            let Some(before) = seen.before(place(volume, at)) else {
                continue;
            };
            let before = before / reach;
            if before > -1.0 {
                // Behind the surface it may be the other side that is near.
                let weight = if before < 0.0 { 1.0 + before } else { 1.0 };
                voxel[0] += weight * before.min(1.0);
                voxel[1] += weight;
            }
        }
    }
}

/// The centre of a voxel of a volume, of which origin and edge are given.
fn place((origin, edge): ([f32; 3], f32), at: [usize; 3]) -> [f32; 3] {
    std::array::from_fn(|k| origin[k] + edge * at[k] as f32)
}

/// A view, and how near and how far it sees in each tile.
struct Seen<'a> {
    view: &'a View,
    width: usize,
    /// View-space z of each pixel, infinite where it shows nothing.
    depths: Vec<f32>,
    /// Tiles in a row.
    across: usize,
    /// Nearest and farthest depth of each tile.
    tiles: Vec<[f32; 2]>,
}

impl<'a> Seen<'a> {
    fn new(view: &'a View, alpha: &[f32], depths: &[f32]) -> Self {
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

    /// How far a point lies before what is seen there; none where the picture does not reach.
    fn before(&self, at: [f32; 3]) -> Option<f32> {
        let pixel = self.pixel(at).filter(|pixel| self.shows(*pixel))?;
        let [column, row, ahead] = pixel;
        Some(self.depths[row as usize * self.width + column as usize] - ahead)
    }

    /// Whether all of a brick lies farther than `reach` before what is seen there, or all of it behind; none if neither.
    fn whole(&self, volume: ([f32; 3], f32), first: [usize; 3], reach: f32) -> Option<bool> {
        let mut low = [f32::INFINITY; 3];
        let mut high = [f32::NEG_INFINITY; 3];
        for number in 0..8 {
            let [far, least] = [corner(number), first];
            let at = std::array::from_fn(|k| least[k] + (BRICK - 1) * far[k]);
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

impl Surface {
    /// Adds the triangles of a loop.
    fn fan(&mut self, corners: &[u32], centred: bool) {
        if centred {
            let mut middle = [0.0; 3];
            for corner in corners {
                let at = self.positions[*corner as usize];
                middle = std::array::from_fn(|k| middle[k] + at[k] / corners.len() as f32);
            }
            let apex = self.positions.len() as u32;
            self.positions.push(middle);
            let pairs = (0..corners.len()).map(|k| [corners[k], corners[(k + 1) % corners.len()]]);
            self.triangles.extend(pairs.map(|[a, b]| [apex, a, b]));
            return;
        }
        let pairs = corners[1..].windows(2);
        let triangles = pairs.map(|pair| [corners[0], pair[0], pair[1]]);
        self.triangles.extend(triangles);
    }
}

/// A cube of eight voxels that the surface crosses.
struct Cell {
    /// Its first voxel.
    at: [usize; 3],
    /// Bit k: corner k lies inside.
    inside: u8,
}

/// A loop around a part of the surface in a cube.
#[derive(Clone, Debug)]
struct Fan {
    /// Edges of the cube; the first is the apex.
    corners: Vec<usize>,
    /// The apex is a corner of its own, in the middle.
    centred: bool,
}

/// Axis of an edge, and its first corner.
const EDGES: [(usize, usize); 12] = [
    (0, 0b000),
    (0, 0b010),
    (0, 0b100),
    (0, 0b110),
    (1, 0b000),
    (1, 0b001),
    (1, 0b100),
    (1, 0b101),
    (2, 0b000),
    (2, 0b001),
    (2, 0b010),
    (2, 0b011),
];
/// Corners of each face, counter-clockwise as seen from outside the cube.
const FACES: [[usize; 4]; 6] = [
    [0b000, 0b100, 0b110, 0b010],
    [0b001, 0b011, 0b111, 0b101],
    [0b000, 0b001, 0b101, 0b100],
    [0b010, 0b110, 0b111, 0b011],
    [0b000, 0b010, 0b011, 0b001],
    [0b100, 0b101, 0b111, 0b110],
];

/// Place of a corner: bit k of its number is its place along axis k.
fn corner(number: usize) -> [usize; 3] {
    [0, 1, 2].map(|k| number >> k & 1)
}

fn edge(a: usize, b: usize) -> usize {
    let found = EDGES
        .iter()
        .position(|&(axis, first)| first == a.min(b) && 1 << axis == a ^ b);
    found.expect("neighbouring corners have an edge")
}

/// Whether two edges lie on one face.
fn share_a_face(a: usize, b: usize) -> bool {
    let on = |face: &[usize; 4], at: usize| {
        let (axis, first) = EDGES[at];
        face.contains(&first) && face.contains(&(first | 1 << axis))
    };
    FACES.iter().any(|face| on(face, a) && on(face, b))
}

/// The loops of each case.
fn table() -> Vec<Vec<Fan>> {
    (0..=u8::MAX).map(fans).collect()
}

fn fans(inside: u8) -> Vec<Fan> {
    let is_in = |corner: usize| inside >> corner & 1 == 1;
    // From an edge to the next around the loop.
    let mut next = [None; 12];
    for face in FACES {
        for k in 0..4 {
            let [before, here] = [face[(k + 3) % 4], face[k]];
            if is_in(before) || !is_in(here) {
                continue;
            }
            // A run of inside corners begins: the surface crosses the face from there to where it ends.
            let run = (0..4).find(|&more| !is_in(face[(k + more) % 4]));
            let end = k + run.expect("a corner before the run is outside");
            let leaving = edge(face[(end + 3) % 4], face[end % 4]);
            next[edge(before, here)] = Some(leaving);
        }
    }
    let mut fans = Vec::new();
    for first in 0..12 {
        let mut corners = Vec::new();
        let mut at = first;
        while let Some(to) = next[at].take() {
            corners.push(at);
            at = to;
        }
        if !corners.is_empty() {
            fans.push(fan(corners));
        }
    }
    fans
}

/// Turns a loop until no diagonal lies on a face.
fn fan(mut corners: Vec<usize>) -> Fan {
    for _ in 0..corners.len() {
        let diagonals = &corners[2..corners.len() - 1];
        if !diagonals.iter().any(|&to| share_a_face(corners[0], to)) {
            return Fan {
                corners,
                centred: false,
            };
        }
        corners.rotate_left(1);
    }
    Fan {
        corners,
        centred: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each edge is used one way, less the other way; and whether each is used twice.
    fn is_closed_manifold(surface: &Surface) -> bool {
        let mut edges: HashMap<[u32; 2], [u32; 2]> = HashMap::new();
        for triangle in &surface.triangles {
            for k in 0..3 {
                let [a, b] = [triangle[k], triangle[(k + 1) % 3]];
                edges.entry([a.min(b), a.max(b)]).or_default()[usize::from(a < b)] += 1;
            }
        }
        edges.values().all(|ways| *ways == [1, 1])
    }

    fn volume(size: usize, distance: impl Fn([usize; 3]) -> f32) -> Volume {
        let mut volume = Volume::new([0.0; 3], [1.0; 3], size);
        let [across, down, _] = volume.wall;
        for (number, brick) in volume.bricks.iter_mut().enumerate() {
            let place = [
                number % across,
                number / across % down,
                number / across / down,
            ];
            let mut voxels = [[0.0; 2]; BRICK * BRICK * BRICK];
            for (number, voxel) in voxels.iter_mut().enumerate() {
                let within = [
                    number % BRICK,
                    number / BRICK % BRICK,
                    number / BRICK / BRICK,
                ];
                let at = std::array::from_fn(|k| place[k] * BRICK + within[k]);
                *voxel = [distance(at), 1.0];
            }
            brick.voxels = Some(Box::new(voxels));
        }
        volume
    }

    /// The volume that a surface encloses, by the divergence theorem: positive where it is wound outwards.
    fn enclosed(surface: &Surface) -> f64 {
        let of = |t: &[u32; 3]| {
            let [a, b, c] = t.map(|corner| surface.positions[corner as usize].map(f64::from));
            (a[0] * (b[1] * c[2] - b[2] * c[1])
                + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0]))
                / 6.0
        };
        surface.triangles.iter().map(of).sum()
    }

    #[test]
    fn noise_has_a_closed_manifold_surface() {
        for seed in 0..20_u64 {
            let noise = |at: [usize; 3]| {
                let mut state = seed;
                for x in at {
                    state = (state ^ x as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    state ^= state >> 29;
                }
                (state % 2001) as f32 / 1000.0 - 1.0
            };
            let surface = volume(12, noise).surface();
            assert!(surface.triangles.len() > 1000);
            assert!(is_closed_manifold(&surface), "{seed}");
            assert!(enclosed(&surface) > 0.0);
        }
        // The test tells a hole and a flipped triangle.
        let mut surface = volume(12, |at| if at == [6; 3] { -1.0 } else { 1.0 }).surface();
        assert!(is_closed_manifold(&surface));
        surface.triangles[0].swap(0, 1);
        assert!(!is_closed_manifold(&surface));
        surface.triangles.remove(0);
        assert!(!is_closed_manifold(&surface));
    }

    #[test]
    fn a_ball_that_views_see_is_found() {
        const RADIUS: f32 = 0.4;
        let mut volume = Volume::new([-RADIUS; 3], [RADIUS; 3], 60);
        for k in 0..60 {
            let (view, alpha, depths) = of_ball(k, RADIUS);
            volume.add(&view, &alpha, &depths);
        }
        let surface = volume.surface();
        assert!(is_closed_manifold(&surface));
        let off = surface.positions.iter().map(|at| {
            let length = at.iter().map(|x| x * x).sum::<f32>().sqrt();
            (length - RADIUS).abs() / volume.edge()
        });
        let (sum, most) = off.fold((0.0, 0.0), |(sum, most): (f32, f32), off| {
            (sum + off, most.max(off))
        });
        let mean = sum / surface.positions.len() as f32;
        assert!(mean < 0.2 && most < 1.0, "{mean} and {most} voxels off");
        let whole = f64::from(RADIUS).powi(3) * std::f64::consts::PI * 4.0 / 3.0;
        assert!((enclosed(&surface) / whole - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_brick_is_whole_only_where_its_voxels_agree() {
        const RADIUS: f32 = 0.4;
        let volume = Volume::new([-RADIUS; 3], [RADIUS; 3], 90);
        let (lattice, reach) = ((volume.origin, volume.edge), TRUNCATION * volume.edge);
        let [across, down, deep] = volume.wall;
        let mut count = [0, 0, 0];
        for k in 0..3 {
            let (view, alpha, depths) = of_ball(20 * k, RADIUS);
            let seen = Seen::new(&view, &alpha, &depths);
            for number in 0..across * down * deep {
                let place = [
                    number % across,
                    number / across % down,
                    number / across / down,
                ];
                let first = place.map(|brick| brick * BRICK);
                let whole = seen.whole(lattice, first, reach);
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
                    let before = seen
                        .before(super::place(lattice, at))
                        .expect("in the picture");
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

    /// View `k` of a ball about the origin.
    fn of_ball(k: usize, radius: f32) -> (View, Vec<f32>, Vec<f32>) {
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
