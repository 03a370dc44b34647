//! Meshes that no scanner makes, with as many triangles and as little sense as a test wants, as binary PLY.

use std::collections::HashMap;

/// A triangle list.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Vertices.
    pub positions: Vec<[f32; 3]>,
    /// Corners.
    pub triangles: Vec<[u32; 3]>,
}

impl Shape {
    /// The bytes of a little-endian PLY.
    pub fn ply(&self) -> Vec<u8> {
        let mut bytes = format!(
            "ply\nformat binary_little_endian 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n\
             element face {}\nproperty list uchar uint vertex_indices\nend_header\n",
            self.positions.len(),
            self.triangles.len()
        )
        .into_bytes();
        bytes.extend(
            self.positions
                .iter()
                .flatten()
                .flat_map(|x| x.to_le_bytes()),
        );
        for corners in &self.triangles {
            bytes.push(3);
            bytes.extend(corners.iter().flat_map(|corner| corner.to_le_bytes()));
        }
        bytes
    }

    /// Moves every vertex.
    pub fn map(mut self, place: impl Fn([f32; 3]) -> [f32; 3]) -> Self {
        for position in &mut self.positions {
            *position = place(*position);
        }
        self
    }

    /// Both shapes, the second after the first.
    pub fn with(mut self, other: &Self) -> Self {
        let first = self.positions.len() as u32;
        self.positions.extend(&other.positions);
        let moved = other
            .triangles
            .iter()
            .map(|corners| corners.map(|corner| corner + first));
        self.triangles.extend(moved);
        self
    }

    /// Adds a copy of every triangle with its corners in this order.
    pub fn twice(mut self, order: [usize; 3]) -> Self {
        self.triangles.extend_from_within(..);
        let half = self.triangles.len() / 2;
        for corners in &mut self.triangles[half..] {
            *corners = order.map(|corner| corners[corner]);
        }
        self
    }
}

/// An icosahedron on the unit sphere with its faces quartered `times` times: 20 × 4^times triangles.
pub fn icosphere(times: u32) -> Shape {
    let golden = (1.0 + 5_f32.sqrt()) / 2.0;
    let mut positions = Vec::new();
    for (a, b) in [
        (-1.0, golden),
        (1.0, golden),
        (-1.0, -golden),
        (1.0, -golden),
    ] {
        positions.extend([[a, b, 0.0], [0.0, a, b], [b, 0.0, a]].map(unit));
    }
    // Neighbours are corners at the shortest distance. A face is three neighbours, wound to face outwards.
    let near = |a: usize, b: usize| dot(positions[a], positions[b]) > 0.4;
    let mut triangles = Vec::new();
    for a in 0..12 {
        for b in a + 1..12 {
            for c in b + 1..12 {
                if near(a, b) && near(b, c) && near(a, c) {
                    let normal = cross(
                        sub(positions[b], positions[a]),
                        sub(positions[c], positions[a]),
                    );
                    let outwards = dot(normal, positions[a]) > 0.0;
                    triangles.push(
                        if outwards { [a, b, c] } else { [a, c, b] }.map(|corner| corner as u32),
                    );
                }
            }
        }
    }
    let mut shape = Shape {
        positions,
        triangles,
    };
    for _ in 0..times {
        shape = quartered(&shape, unit);
    }
    shape
}

/// Cuts each triangle into four; `place` moves each new vertex from the middle of its edge.
pub fn quartered(shape: &Shape, place: impl Fn([f32; 3]) -> [f32; 3]) -> Shape {
    let (mut positions, mut middles) = (shape.positions.clone(), HashMap::new());
    let mut triangles = Vec::with_capacity(4 * shape.triangles.len());
    for &[a, b, c] in &shape.triangles {
        let [ab, bc, ca] = [(a, b), (b, c), (c, a)].map(|(p, q)| {
            *middles.entry((p.min(q), p.max(q))).or_insert_with(|| {
                let [p, q] = [p, q].map(|corner| shape.positions[corner as usize]);
                positions.push(place(std::array::from_fn(|k| 0.5 * (p[k] + q[k]))));
                positions.len() as u32 - 1
            })
        });
        triangles.extend([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]);
    }
    Shape {
        positions,
        triangles,
    }
}

/// Triangles with corners anywhere in the cube from -1 to 1.
pub fn soup(count: u32) -> Shape {
    let mut random = Random(1);
    Shape {
        positions: (0..3 * count)
            .map(|_| std::array::from_fn(|_| random.next()))
            .collect(),
        triangles: (0..count).map(|k| [3 * k, 3 * k + 1, 3 * k + 2]).collect(),
    }
}

/// Tetrahedra of this size, anywhere in that cube, which share nothing.
pub fn pieces(count: u32, size: f32) -> Shape {
    let mut random = Random(2);
    let mut shape = Shape::default();
    for _ in 0..count {
        let place: [f32; 3] = std::array::from_fn(|_| random.next());
        let corners = [
            [1.0, 1.0, 1.0],
            [1.0, -1.0, -1.0],
            [-1.0, 1.0, -1.0],
            [-1.0, -1.0, 1.0],
        ];
        shape = shape.with(&Shape {
            positions: corners
                .map(|p: [f32; 3]| std::array::from_fn(|k| place[k] + p[k] * size))
                .to_vec(),
            triangles: vec![[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]],
        });
    }
    shape
}

/// Triangles that all share one edge, like the leaves of a book.
pub fn book(leaves: u32) -> Shape {
    let mut positions = vec![[0.0, 0.0, -0.5], [0.0, 0.0, 0.5]];
    positions.extend((0..leaves).map(|leaf| {
        let (sin, cos) = (leaf as f32 / leaves as f32 * std::f32::consts::TAU).sin_cos();
        [cos, sin, 0.0]
    }));
    Shape {
        positions,
        triangles: (0..leaves).map(|leaf| [0, 1, leaf + 2]).collect(),
    }
}

/// Triangles that all touch in one vertex and nowhere else.
pub fn star(rays: u32) -> Shape {
    let mut random = Random(3);
    let mut positions = vec![[0.0; 3]];
    for _ in 0..rays {
        let tip: [f32; 3] = std::array::from_fn(|_| random.next());
        positions.push(tip);
        positions.push(tip.map(|x| x + 0.05 * random.next()));
    }
    Shape {
        positions,
        triangles: (0..rays).map(|ray| [0, 2 * ray + 1, 2 * ray + 2]).collect(),
    }
}

/// Xorshift32, giving numbers between -1 and 1.
struct Random(u32);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as f32 / u32::MAX as f32 * 2.0 - 1.0
    }
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn sub(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|k| a[k] - b[k])
}

fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|k| a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3])
}

fn unit(p: [f32; 3]) -> [f32; 3] {
    let length = dot(p, p).sqrt();
    p.map(|x| x / length)
}
