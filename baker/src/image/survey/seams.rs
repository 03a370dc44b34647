//! A mesh → the edges at which two triangles meet on the surface but not in the texture, and the charts bounded by
//! them.

use std::collections::HashMap;

use proto::table::Mesh;

use crate::image::render::Textures;
use crate::image::survey::distance;

/// Sides of an edge closer than this, in texels, are at the same place of the texture. Quantised coordinates differ by
/// more or not at all.
const SAME: f64 = 1e-3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) triangle: u32,
    /// Its vertices, ordered by their surface point.
    pub(super) ends: [u32; 2],
}

/// An edge at two places of the texture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) sides: [Side; 2],
}

impl Pair {
    /// Length on the surface.
    pub(super) fn length(&self, mesh: &Mesh) -> f64 {
        let [a, b] = self.sides[0].ends.map(|end| mesh.positions[end as usize]);
        distance(a, b)
    }
}

/// The cuts of the unwrap.
#[derive(Debug, Default)]
pub(super) struct Seams {
    /// In the order of the mesh.
    pub(super) pairs: Vec<Pair>,
    pub(super) charts: u64,
}

impl Seams {
    /// Finds them. For an edge of more than two triangles, the first is one side of each pair.
    pub(super) fn find(mesh: &Mesh, textures: &Textures<'_>) -> Self {
        let mut first: HashMap<[u32; 2], Side> = HashMap::with_capacity(mesh.triangles.len() * 2);
        let mut charts = Union::new(mesh.triangles.len());
        let mut pairs = Vec::new();
        for (number, triangle) in mesh.triangles.iter().enumerate() {
            for k in 0..3 {
                let mut ends = [triangle[k], triangle[(k + 1) % 3]];
                let point = |end: u32| mesh.surface_vertices[end as usize];
                if point(ends[0]) > point(ends[1]) {
                    ends.swap(0, 1);
                }
                let key = ends.map(point);
                if key[0] == key[1] {
                    continue;
                }
                let side = Side {
                    triangle: number as u32,
                    ends,
                };
                let other = *first.entry(key).or_insert(side);
                if other.triangle == side.triangle {
                    continue;
                }
                if together(mesh, textures, [other, side]) {
                    charts.join(other.triangle, side.triangle);
                } else {
                    pairs.push(Pair {
                        sides: [other, side],
                    });
                }
            }
        }
        Self {
            pairs,
            charts: charts.count(),
        }
    }
}

/// Whether both sides lie at the same place of the same texture.
fn together(mesh: &Mesh, textures: &Textures<'_>, [one, other]: [Side; 2]) -> bool {
    let image = textures.number(one.triangle as usize);
    if image != textures.number(other.triangle as usize) {
        return false;
    }
    let [width, height] = textures.images[image].size();
    (0..2).all(|end| {
        let (a, b) = (one.ends[end], other.ends[end]);
        let (a, b) = (mesh.uvs[a as usize], mesh.uvs[b as usize]);
        let apart = |axis: usize, size: usize| f64::from((a[axis] - b[axis]).abs()) * size as f64;
        apart(0, width) <= SAME && apart(1, height) <= SAME
    })
}

/// Disjoint sets of triangles.
struct Union {
    parents: Vec<u32>,
}

impl Union {
    fn new(count: usize) -> Self {
        Self {
            parents: (0..count as u32).collect(),
        }
    }

    fn root(&mut self, mut of: u32) -> u32 {
        while self.parents[of as usize] != of {
            let above = self.parents[self.parents[of as usize] as usize];
            self.parents[of as usize] = above;
            of = above;
        }
        of
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.root(one), self.root(other));
        self.parents[one.max(other) as usize] = one.min(other);
    }

    fn count(&self) -> u64 {
        let own = self.parents.iter().enumerate();
        own.filter(|(number, parent)| *number == **parent as usize)
            .count() as u64
    }
}
