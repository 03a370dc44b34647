//! Divides a surface into parts of some ten thousand triangles, which are cut into charts side by side.
//!
//! A part is halved where the surface is thin. Its triangles are put in the order in which a flood from its rim reaches
//! them, so that each beginning of the order is bounded by a line across the surface (level structures, as in George and
//! Liu, "Computer Solution of Large Sparse Positive Definite Systems", 1981). Of the lines near the middle the shortest
//! is taken. The parts depend on the surface alone, not on the number of threads.

use rayon::prelude::*;

use crate::input::Mesh;

/// A surface with fewer triangles is one part: it is cut soon, and each border between parts costs charts.
const LEAST: usize = 40_000;
/// Most triangles of a part, unless these make more than [`PARTS`].
const MOST: usize = 12_000;
/// About the number of parts of a large surface, some for each of sixteen cores.
const PARTS: usize = 64;
/// Where the shortest line is looked for, as shares of the part.
const MIDDLE: [f64; 2] = [0.3, 0.7];

/// No triangle.
const NONE: u32 = u32::MAX;

/// Some triangles of the surface.
struct Region {
    faces: Vec<u32>,
    /// The triangle across each side, by index in the region.
    beside: Vec<[u32; 3]>,
    /// What it costs to cut that side.
    costs: Vec<[f32; 3]>,
}

/// The triangles of each part, in their order. `neighbours` are as from [`crate::planar::neighbours`].
pub(super) fn parts(mesh: &Mesh<'_>, neighbours: &[[u32; 3]]) -> Vec<Vec<u32>> {
    let count = mesh.triangles.len();
    if count < LEAST {
        return vec![(0..count as u32).collect()];
    }
    let cost = |corners: &[u32; 3]| {
        let places = corners.map(|corner| mesh.positions[corner as usize]);
        [0, 1, 2].map(|side| {
            let (a, b) = (places[side], places[(side + 1) % 3]);
            (0..3)
                .map(|axis| (a[axis] - b[axis]).powi(2))
                .sum::<f32>()
                .sqrt()
        })
    };
    let whole = Region {
        faces: (0..count as u32).collect(),
        beside: neighbours.to_vec(),
        costs: mesh.triangles.par_iter().map(cost).collect(),
    };
    whole.divided(MOST.max(count / PARTS))
}

impl Region {
    /// The parts of the region with at most this many triangles each.
    fn divided(self, most: usize) -> Vec<Vec<u32>> {
        if self.faces.len() <= most {
            let mut faces = self.faces;
            faces.sort_unstable();
            return vec![faces];
        }
        let [first, second] = self.halves();
        let (mut parts, others) = rayon::join(|| first.divided(most), || second.divided(most));
        parts.extend(others);
        parts
    }

    fn halves(self) -> [Self; 2] {
        let order = self.order();
        let mut places = vec![0; order.len()];
        for (place, &row) in (0_u32..).zip(&order) {
            places[row as usize] = place;
        }
        // The length of the line before each triangle of the order, added up and taken off as sides begin and end there.
        let middle = MIDDLE.map(|share| (share * order.len() as f64) as usize);
        let (mut line, mut shortest, mut at) = (0.0, f64::INFINITY, order.len() / 2);
        for (place, &row) in order.iter().enumerate() {
            if (middle[0]..middle[1]).contains(&place) && line < shortest {
                (shortest, at) = (line, place);
            }
            for (&across, &cost) in self.beside[row as usize]
                .iter()
                .zip(&self.costs[row as usize])
            {
                if across != NONE {
                    let begins = places[across as usize] as usize > place;
                    line += f64::from(if begins { cost } else { -cost });
                }
            }
        }
        [&order[..at], &order[at..]].map(|rows| self.part(rows, &mut places))
    }

    /// The rows in the order in which a flood reaches them. It begins at the rim, once for each connected part.
    fn order(&self) -> Vec<u32> {
        let mut met = vec![0_u8; self.faces.len()];
        let mut order = Vec::with_capacity(self.faces.len());
        for seed in 0..self.faces.len() {
            if met[seed] != 0 {
                continue;
            }
            // What is reached last lies on the rim.
            let (begin, mut from) = (order.len(), seed as u32);
            for stamp in 1..=3 {
                order.truncate(begin);
                order.push(from);
                met[from as usize] = stamp;
                let mut at = begin;
                while let Some(&row) = order.get(at) {
                    at += 1;
                    for &across in &self.beside[row as usize] {
                        if across != NONE && met[across as usize] != stamp {
                            met[across as usize] = stamp;
                            order.push(across);
                        }
                    }
                }
                from = order[order.len() - 1];
            }
        }
        order
    }

    /// The region of these rows. `places` is room for their numbers.
    fn part(&self, rows: &[u32], places: &mut [u32]) -> Self {
        places.fill(NONE);
        for (place, &row) in (0..).zip(rows) {
            places[row as usize] = place;
        }
        let beside = |&row: &u32| {
            self.beside[row as usize]
                .map(|across| places.get(across as usize).copied().unwrap_or(NONE))
        };
        Self {
            faces: rows.iter().map(|&row| self.faces[row as usize]).collect(),
            beside: rows.iter().map(beside).collect(),
            costs: rows.iter().map(|&row| self.costs[row as usize]).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planar::neighbours;
    use crate::tests::icosphere;

    #[test]
    fn every_triangle_is_in_one_part_and_parts_hang_together() {
        let sphere = icosphere(6);
        let beside = neighbours(sphere.triangles);
        let parts = parts(&sphere, &beside);
        assert!((7..28).contains(&parts.len()), "{}", parts.len());
        let mut owner = vec![usize::MAX; sphere.triangles.len()];
        for (number, part) in parts.iter().enumerate() {
            assert!(part.len() <= MOST && part.is_sorted());
            for &face in part {
                assert_eq!(
                    std::mem::replace(&mut owner[face as usize], number),
                    usize::MAX
                );
            }
        }
        assert!(owner.iter().all(|&part| part < parts.len()));
        // A part of a sphere has a short border: about as many sides as a disc of its area, not as loose triangles.
        let is_border = |&(face, across): &(usize, u32)| owner[face] != owner[across as usize];
        let sides =
            (beside.iter().enumerate()).flat_map(|(face, all)| all.map(|across| (face, across)));
        let border = sides.filter(is_border).count();
        assert!(
            border < 12 * (81_920_f64 * parts.len() as f64).sqrt() as usize / 2,
            "{border}"
        );
    }

    #[test]
    fn a_small_surface_is_one_part() {
        let sphere = icosphere(3);
        let all: Vec<u32> = (0..1280).collect();
        assert_eq!(parts(&sphere, &neighbours(sphere.triangles)), [all]);
    }
}
