//! Surfaces to lay out: read from OBJ files, or made.

use std::collections::HashMap;
use std::error::Error;

use kiln_atlas::surface::icosphere;

/// Points and triangles.
pub(crate) struct Surface {
    pub(crate) positions: Vec<[f32; 3]>,
    pub(crate) triangles: Vec<[u32; 3]>,
}

/// Voxels along an edge of the noise: about a million triangles.
const NOISE: u32 = 70;
/// Half the thickness of its walls. They are thinner than a voxel, so they have holes and touch each other.
const WALL: f32 = 0.1;

pub(crate) fn distance(a: [f32; 3], b: [f32; 3]) -> f64 {
    let off = [0, 1, 2].map(|axis| f64::from(a[axis]) - f64::from(b[axis]));
    off.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Area and direction of a triangle.
pub(crate) fn area_and_normal(positions: &[[f32; 3]], corners: &[u32; 3]) -> (f64, [f64; 3]) {
    let [a, b, c] = corners.map(|corner| positions[corner as usize].map(f64::from));
    let (u, v) = (
        [0, 1, 2].map(|k| b[k] - a[k]),
        [0, 1, 2].map(|k| c[k] - a[k]),
    );
    let cross =
        [0, 1, 2].map(|k| u[(k + 1) % 3] * v[(k + 2) % 3] - u[(k + 2) % 3] * v[(k + 1) % 3]);
    let length = cross.iter().map(|x| x * x).sum::<f64>().sqrt();
    (
        length / 2.0,
        cross.map(|x| x / length.max(f64::MIN_POSITIVE)),
    )
}

impl Surface {
    /// The surface with this name or path. A number behind a colon says how often its triangles are split.
    pub(crate) fn named(name: &str) -> Result<Self, Box<dyn Error>> {
        let (name, splits) = match name.rsplit_once(':') {
            Some((name, splits)) => (name, splits.parse()?),
            None => (name, 0),
        };
        let mut surface = match name {
            "sphere" => {
                let (positions, triangles) = icosphere(5);
                Self {
                    positions,
                    triangles,
                }
            }
            "noise" => noise(NOISE),
            path => obj(&std::fs::read_to_string(path)?)?,
        };
        for _ in 0..splits {
            surface.split();
        }
        Ok(surface)
    }

    /// Splits each triangle in four.
    fn split(&mut self) {
        let mut middles: HashMap<[u32; 2], u32> = HashMap::new();
        let positions = &mut self.positions;
        let mut middle = |a: u32, b: u32| {
            *middles.entry([a.min(b), a.max(b)]).or_insert_with(|| {
                let (p, q) = (positions[a as usize], positions[b as usize]);
                positions.push([0, 1, 2].map(|k| f32::midpoint(p[k], q[k])));
                positions.len() as u32 - 1
            })
        };
        let four = |&[a, b, c]: &[u32; 3]| {
            let (ab, bc, ca) = (middle(a, b), middle(b, c), middle(c, a));
            [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]
        };
        self.triangles = self.triangles.iter().flat_map(four).collect();
    }
}

/// The points and triangles of an OBJ file; its faces have three corners.
fn obj(text: &str) -> Result<Surface, Box<dyn Error>> {
    let (mut positions, mut triangles) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["v", x, y, z, ..] => positions.push([x.parse()?, y.parse()?, z.parse()?]),
            ["f", a, b, c] => {
                let corner = |word: &str| -> Result<u32, Box<dyn Error>> {
                    let number: u32 = word.split('/').next().unwrap_or(word).parse()?;
                    number
                        .checked_sub(1)
                        .ok_or_else(|| "a corner without a point".into())
                };
                triangles.push([corner(a)?, corner(b)?, corner(c)?]);
            }
            _ => {}
        }
    }
    Ok(Surface {
        positions,
        triangles,
    })
}

/// A number from -1 to 1 for each voxel, the same everywhere.
fn random(at: [u32; 3]) -> f32 {
    let mut state = at.iter().fold(7_u64, |state, &x| {
        (state ^ u64::from(x))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    });
    state ^= state >> 31;
    state = state.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
}

/// Thin walls where noise passes through zero: marching tetrahedra, six to a voxel.
fn noise(voxels: u32) -> Surface {
    let inside = |at: [u32; 3]| {
        let is_rim = at.iter().any(|&x| x == 0 || x == voxels);
        // Coarse noise, and fine noise on it.
        let value = 0.7 * random(at.map(|x| x / 2)) + 0.3 * random(at);
        if is_rim { -1.0 } else { WALL - value.abs() }
    };
    let mut surface = Surface {
        positions: Vec::new(),
        triangles: Vec::new(),
    };
    let mut crossings: HashMap<[[u32; 3]; 2], u32> = HashMap::new();
    // From the first corner of a voxel to the last, along its edges in any order.
    let paths = [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
        [0, 2, 1],
        [2, 1, 0],
        [1, 0, 2],
    ];
    for number in 0..voxels.pow(3) {
        let first = [
            number % voxels,
            number / voxels % voxels,
            number / voxels.pow(2),
        ];
        for (path, axes) in paths.into_iter().enumerate() {
            let mut corners = [first; 4];
            for (step, axis) in axes.into_iter().enumerate() {
                corners[step + 1] = corners[step];
                corners[step + 1][axis] += 1;
            }
            if path >= 3 {
                corners.swap(0, 3);
            }
            let mut crossing = |a: [u32; 3], b: [u32; 3]| {
                let ends = [a.min(b), a.max(b)];
                *crossings.entry(ends).or_insert_with(|| {
                    let [low, high] = ends.map(inside);
                    let share = (low / (low - high)).clamp(0.05, 0.95);
                    let between = |k: usize| {
                        let [low, high] = [ends[0][k] as f32, ends[1][k] as f32];
                        low + share * (high - low)
                    };
                    surface.positions.push([0, 1, 2].map(between));
                    surface.positions.len() as u32 - 1
                })
            };
            let (within, without): (Vec<usize>, Vec<usize>) =
                (0..4).partition(|&corner| inside(corners[corner]) > 0.0);
            // An even order of the corners keeps the winding.
            let is_even = |order: &[usize]| {
                let pairs = (0..4).flat_map(|k| (k + 1..4).map(move |l| (k, l)));
                pairs.filter(|&(k, l)| order[k] > order[l]).count() % 2 == 0
            };
            let order: Vec<usize> = within.iter().chain(&without).copied().collect();
            let [p, q, r, s] = [0, 1, 2, 3].map(|k| corners[order[k]]);
            let mut ring = match within.len() {
                1 => vec![crossing(p, q), crossing(p, r), crossing(p, s)],
                2 => vec![
                    crossing(p, s),
                    crossing(q, s),
                    crossing(q, r),
                    crossing(p, r),
                ],
                3 => vec![crossing(s, p), crossing(s, q), crossing(s, r)],
                _ => continue,
            };
            if !is_even(&order) {
                ring.reverse();
            }
            for two in ring[1..].windows(2) {
                surface.triangles.push([ring[0], two[0], two[1]]);
            }
        }
    }
    surface
}
