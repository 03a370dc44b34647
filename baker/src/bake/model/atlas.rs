//! The layout of the texture: scene → the triangle of each texel, links between neighbouring texels of one piece of
//! surface, and seam constraints between places on both sides of a chart's border that are one place of the surface.

use std::ops::Range;

use rayon::prelude::*;

use crate::bake::model::links::{LINK_DOWN, LINK_RIGHT};
use crate::bake::model::raster::NOTHING;
use crate::bake::model::rows::{Entry, Rows, add_tap};
use crate::bake::model::scene::Scene;
use crate::worker::progress::{Ticker, ticked, ticking, unit};

/// Layout of a texture. Texels are numbered row by row from the top.
#[derive(Clone, Debug)]
pub struct Atlas {
    /// Triangle that covers the centre of each texel, [`NOTHING`] in the gutter.
    pub triangles: Vec<u32>,
    /// [`LINK_RIGHT`] and [`LINK_DOWN`] of each texel. They join neighbours in one chart, and a chart with the ring of
    /// gutter texels around it, which bilinear lookups reach.
    pub links: Vec<u8>,
    /// One row for each place along a seam: texels of one side with positive weights, of the other with negative.
    pub seams: Rows,
    /// Number of texels in charts.
    pub covered: u64,
}

impl Atlas {
    /// Computes the layout of a scene's texture.
    pub fn new(scene: &Scene) -> Self {
        let triangles = cover(scene);
        unit();
        let charts = charts(scene);
        unit();
        let links = links(scene, &triangles, &charts);
        unit();
        let covered = triangles
            .par_iter()
            .filter(|&&triangle| triangle != NOTHING)
            .count() as u64;
        Self {
            links,
            seams: seams(scene),
            triangles,
            covered,
        }
    }
}

/// Texel rows that one thread covers.
const BAND: usize = 32;

/// Rasterises the triangles in texture space; where they overlap the last wins.
fn cover(scene: &Scene) -> Vec<u32> {
    let size = scene.size as usize;
    let mut covered = vec![NOTHING; size * size];
    let mut of_bands: Vec<Vec<u32>> = vec![Vec::new(); size.div_ceil(BAND)];
    for (triangle, corners) in (0..).zip(ticked(scene.triangles.iter())) {
        let rows = centres(scene, corners, 1);
        if !rows.is_empty() {
            for band in &mut of_bands[rows.start / BAND..=(rows.end - 1) / BAND] {
                band.push(triangle);
            }
        }
    }
    covered
        .par_chunks_mut((BAND * size).max(1))
        .zip(of_bands)
        .enumerate()
        .for_each(|(band, (covered, triangles))| {
            let mut ticker = Ticker::default();
            for triangle in triangles {
                ticker.did(1 + cover_band(scene, triangle, BAND * band, covered));
            }
        });
    covered
}

/// Covers the texels of a band of rows, of which `first` is the first; tells how many were asked.
fn cover_band(scene: &Scene, triangle: u32, first: usize, covered: &mut [u32]) -> usize {
    let size = scene.size as usize;
    let corners = &scene.triangles[triangle as usize];
    let [a, b, c] = corners.map(|corner| scene.texel_coords[corner as usize].map(f64::from));
    let area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]);
    if area == 0.0 {
        return 0;
    }
    let mut asked = 0;
    let (columns, rows) = (centres(scene, corners, 0), centres(scene, corners, 1));
    for row in rows.start.max(first)..rows.end.min(first + covered.len() / size) {
        let columns = kiln_raster::columns(&[a, b, c], row, columns.clone());
        asked += 1 + columns.len();
        for column in columns {
            if weights(a, b, c, area, [column as f64 + 0.5, row as f64 + 0.5])
                .iter()
                .all(|&w| w >= 0.0)
            {
                covered[(row - first) * size + column] = triangle;
            }
        }
    }
    asked
}

/// Texels along an axis whose centres, at i + ½, are within the bounds of a triangle.
fn centres(scene: &Scene, corners: &[u32; 3], axis: usize) -> Range<usize> {
    let along = corners.map(|corner| f64::from(scene.texel_coords[corner as usize][axis]));
    let low = along.into_iter().fold(f64::INFINITY, f64::min);
    let high = along.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let first = (low - 0.5).ceil().max(0.0) as usize;
    let last = ((high - 0.5).floor() + 1.0).clamp(0.0, f64::from(scene.size)) as usize;
    first..last.max(first)
}

fn weights(a: [f64; 2], b: [f64; 2], c: [f64; 2], area: f64, p: [f64; 2]) -> [f64; 3] {
    let w1 = ((p[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (p[1] - a[1])) / area;
    let w2 = ((b[0] - a[0]) * (p[1] - a[1]) - (p[0] - a[0]) * (b[1] - a[1])) / area;
    [1.0 - w1 - w2, w1, w2]
}

/// Barycentric coordinates of a texel's centre in the triangle that covers it.
pub fn barycentrics(scene: &Scene, triangle: u32, texel: usize) -> [f32; 3] {
    let size = scene.size as usize;
    let centre = [(texel % size) as f64 + 0.5, (texel / size) as f64 + 0.5];
    barycentrics_at(scene, triangle, centre)
}

/// Barycentric coordinates of a place of the texture, in texels, in a triangle; negative ones outside of it.
pub(crate) fn barycentrics_at(scene: &Scene, triangle: u32, place: [f64; 2]) -> [f32; 3] {
    let [a, b, c] =
        scene.triangles[triangle as usize].map(|k| scene.texel_coords[k as usize].map(f64::from));
    let area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]);
    if area == 0.0 {
        return [1.0 / 3.0; 3];
    }
    weights(a, b, c, area, place).map(|weight| weight as f32)
}

/// Chart number of each vertex: triangles join vertices to charts.
pub(crate) fn charts(scene: &Scene) -> Vec<u32> {
    let mut parent: Vec<u32> = (0..scene.texel_coords.len() as u32).collect();
    for corners in ticked(scene.triangles.iter()) {
        let first = root(&mut parent, corners[0]);
        for &corner in &corners[1..] {
            let other = root(&mut parent, corner);
            parent[other as usize] = first;
        }
    }
    (0..parent.len() as u32)
        .map(|vertex| root(&mut parent, vertex))
        .collect()
}

fn root(parent: &mut [u32], mut of: u32) -> u32 {
    while parent[of as usize] != of {
        let above = parent[parent[of as usize] as usize];
        parent[of as usize] = above;
        of = above;
    }
    of
}

/// Chart of the gutter.
pub(crate) const NO_CHART: u32 = u32::MAX;

/// Chart of a triangle, given those of the vertices; [`NO_CHART`] for [`NOTHING`].
pub(crate) fn chart_of(scene: &Scene, charts: &[u32], triangle: u32) -> u32 {
    match triangle {
        NOTHING => NO_CHART,
        triangle => charts[scene.triangles[triangle as usize][0] as usize],
    }
}

fn links(scene: &Scene, triangles: &[u32], charts: &[u32]) -> Vec<u8> {
    let size = scene.size as usize;
    let covered: Vec<u32> = ticking(triangles.par_iter())
        .map(|&triangle| chart_of(scene, charts, triangle))
        .collect();
    let chart_of: Vec<u32> = ticking((0..size * size).into_par_iter())
        .map(|texel| with_ring(&covered, size, texel))
        .collect();
    let linked =
        |one: usize, other: usize| chart_of[one] != NO_CHART && chart_of[one] == chart_of[other];
    ticking((0..size * size).into_par_iter())
        .map(|texel| {
            let mut links = 0;
            if texel % size + 1 < size && linked(texel, texel + 1) {
                links |= LINK_RIGHT;
            }
            if texel / size + 1 < size && linked(texel, texel + size) {
                links |= LINK_DOWN;
            }
            links
        })
        .collect()
}

/// Chart of a texel; in the gutter, that of the first of its eight neighbours that has one.
fn with_ring(covered: &[u32], size: usize, texel: usize) -> u32 {
    if covered[texel] != NO_CHART {
        return covered[texel];
    }
    let (column, row) = (texel % size, texel / size);
    for y in row.saturating_sub(1)..(row + 2).min(size) {
        for x in column.saturating_sub(1)..(column + 2).min(size) {
            if covered[y * size + x] != NO_CHART {
                return covered[y * size + x];
            }
        }
    }
    NO_CHART
}

/// Most places of one seam: the diagonal of the largest texture. It bounds edges that run far outside of it.
const MOST_PLACES: f32 = 16_384.0;

/// A triangle's edge that another triangle continues at another place of the texture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeamEdge {
    /// Its two surface vertices, the smaller first.
    ends: [u32; 2],
    /// Its vertices in the same order.
    pub(crate) vertices: [u32; 2],
    /// The triangle's third vertex.
    pub(crate) apex: u32,
}

/// The seams: surface edges with two places in the texture. An edge with more places has each paired with the next.
pub(crate) fn pairs(scene: &Scene) -> Vec<[SeamEdge; 2]> {
    let mut sides: Vec<SeamEdge> = Vec::with_capacity(scene.triangles.len() * 3);
    for corners in ticked(scene.triangles.iter()) {
        for k in 0..3 {
            let mut vertices = [corners[k], corners[(k + 1) % 3]];
            if scene.surface_vertices[vertices[0] as usize]
                > scene.surface_vertices[vertices[1] as usize]
            {
                vertices.swap(0, 1);
            }
            sides.push(SeamEdge {
                ends: vertices.map(|vertex| scene.surface_vertices[vertex as usize]),
                vertices,
                apex: corners[(k + 2) % 3],
            });
        }
    }
    sides.sort_unstable_by_key(|side| (side.ends, side.vertices, side.apex));
    // Neighbours in sorted order are enough: k places of one edge need k − 1 constraints.
    sides
        .windows(2)
        .filter(|pair| pair[0].ends == pair[1].ends && pair[0].vertices != pair[1].vertices)
        .map(|pair| [pair[0], pair[1]])
        .collect()
}

/// Length in texels that all seams of a texture may have together, and be looked at in every place: beyond, charts lie upon each
/// other or are narrower than texels, and memory follows the texture and not the seams.
pub(crate) fn most_length(size: usize) -> f64 {
    ((size * size) as f64 / 16.0).max(524_288.0)
}

fn seams(scene: &Scene) -> Rows {
    let mut rows = Rows::of_view(0);
    let pairs = pairs(scene);
    let whole: f64 = ticked(pairs.iter())
        .map(|pair| f64::from(longest(scene, pair)))
        .sum();
    let share = (most_length(scene.size as usize) / whole).min(1.0) as f32;
    let mut ticker = Ticker::default();
    for pair in &pairs {
        ticker.did(tie(scene, pair, share, &mut rows));
    }
    rows
}

/// Places of a side's ends.
fn ends(scene: &Scene, side: &SeamEdge) -> [[f32; 2]; 2] {
    side.vertices
        .map(|vertex| scene.texel_coords[vertex as usize])
}

/// Length of the longer side.
fn longest(scene: &Scene, pair: &[SeamEdge; 2]) -> f32 {
    let length = |side: &SeamEdge| {
        let [a, b] = ends(scene, side);
        (a[0] - b[0]).hypot(a[1] - b[1])
    };
    length(&pair[0]).max(length(&pair[1])).min(MOST_PLACES)
}

/// Adds a row for each texel's length along a seam, or this share of them; tells how many.
fn tie(scene: &Scene, pair: &[SeamEdge; 2], share: f32, rows: &mut Rows) -> usize {
    let [a, b] = pair.each_ref().map(|side| ends(scene, side));
    let places = (longest(scene, pair) * share).ceil();
    let steps = places.clamp(1.0, MOST_PLACES) as u32;
    let mut footprint: Vec<Entry> = Vec::new();
    for step in 0..steps {
        let t = (step as f32 + 0.5) / steps as f32;
        let at = |e: [[f32; 2]; 2]| {
            [
                e[0][0] + t * (e[1][0] - e[0][0]),
                e[0][1] + t * (e[1][1] - e[0][1]),
            ]
        };
        footprint.clear();
        let (p, q) = (at(a), at(b));
        add_tap(&mut footprint, scene.size, p[0], p[1], 1.0);
        add_tap(&mut footprint, scene.size, q[0], q[1], -1.0);
        rows.push(&footprint, [0; 4], 0);
    }
    steps as usize
}

#[cfg(test)]
mod tests;
