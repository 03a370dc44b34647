//! Averaged texels → a start for every texel: texels that no pixel observes take the colour of their neighbours on the
//! *surface*, the gutter that of its surroundings in the texture.
//!
//! Colours of the mesh's own vertices are diffused over its edges (a Laplace equation on the mesh with the observed
//! vertices given), then interpolated into unseen chart texels. This crosses chart borders as the surface does; atlas
//! neighbours would bring in the colours of whatever chart lies next.

use std::cell::OnceCell;

use rayon::prelude::*;

use super::atlas::{Atlas, LINK_DOWN, LINK_RIGHT, barycentrics};
use super::pull_push::pull_push;
use super::raster::NOTHING;
use super::scene::Scene;
use crate::progress::{ticked, ticking, unit};

/// Sweeps of the diffusion: breadth-first start values are already of the right tone, sweeps only smooth their fronts.
const SWEEPS: usize = 60;
/// Bands of texels that are summed side by side, at most, and the sums that they may hold together.
const BANDS: usize = 32;
const BAND_SUMS: usize = 1 << 21;

/// Fills `texels`, whose alpha is the observed weight; alpha stays.
pub fn fill(scene: &Scene, atlas: &Atlas, texels: &mut [[f32; 4]]) {
    let mut tones = Tones::none(scene);
    tones.fill(scene, atlas, texels, Some);
}

/// What the texels of one part of a texture after the other tell of the colours of the surface.
pub struct Tones {
    /// For each point of the surface, the weighted colours of the texels around it, and their weights.
    sums: Vec<[f64; 4]>,
    /// Points that share an edge, once they are asked for.
    neighbours: OnceCell<Neighbours>,
}

impl Tones {
    /// Of no texel yet.
    #[must_use]
    pub fn none(scene: &Scene) -> Self {
        Self {
            sums: vec![[0.0; 4]; scene.surface_vertices.len()],
            neighbours: OnceCell::new(),
        }
    }

    /// Fills the texels of a part of a texture, whose alpha is the observed weight, from what they and those before them tell;
    /// alpha stays. `place` says which texel of the texture each is; those that are none take the colour of their surroundings
    /// in the part, whose rows are as long as the texture's.
    pub fn fill(
        &mut self,
        scene: &Scene,
        atlas: &Atlas,
        texels: &mut [[f32; 4]],
        place: impl Fn(usize) -> Option<usize> + Sync,
    ) {
        let covered = covered(atlas, place);
        let unseen = |texel: &[f32; 4]| texel[3] <= 0.0;
        let holes = (texels.par_iter().enumerate())
            .any(|(index, texel)| unseen(texel) && covered(index).is_some());
        // Of parts, all that is told is told to those that follow.
        if holes || texels.len() != atlas.triangles.len() {
            self.add(scene, texels, &covered);
        }
        if holes {
            let colours = self.colours(scene);
            ticking(texels.par_iter_mut())
                .enumerate()
                .filter(|(_, texel)| unseen(texel))
                .for_each(|(index, texel)| {
                    if let Some(covered) = covered(index) {
                        *texel = between(scene, &colours, covered);
                    }
                });
        }
        // Whatever has a colour now counts in full for the pull-push; the observed weight is put back afterwards.
        let whole = |(index, texel): (usize, &mut [f32; 4])| {
            let told = texel[3] > 0.0 || covered(index).is_some();
            std::mem::replace(&mut texel[3], if told { 1.0 } else { 0.0 })
        };
        let weights: Vec<f32> = ticking(texels.par_iter_mut())
            .enumerate()
            .map(whole)
            .collect();
        pull_push(texels, scene.size as usize);
        let put_back = |(texel, weight): (&mut [f32; 4], f32)| texel[3] = weight;
        ticking(texels.par_iter_mut())
            .zip(weights)
            .for_each(put_back);
    }

    /// Adds what the observed texels of a part tell. `place` is as in [`Self::fill`].
    pub fn learn(
        &mut self,
        scene: &Scene,
        atlas: &Atlas,
        texels: &[[f32; 4]],
        place: impl Fn(usize) -> Option<usize> + Sync,
    ) {
        self.add(scene, texels, covered(atlas, place));
    }

    /// Adds what observed texels tell, where `covered` says which triangle covers each, and which texel of the texture it is.
    fn add(
        &mut self,
        scene: &Scene,
        texels: &[[f32; 4]],
        covered: impl Fn(usize) -> Option<(u32, usize)> + Sync,
    ) {
        let count = self.sums.len();
        // Bands of texels by sizes alone, added in order: the same bits on any number of threads.
        let bands = (BAND_SUMS / count.max(1)).clamp(1, BANDS);
        let length = texels.len().div_ceil(bands).max(1);
        let of_band = |(band, texels): (usize, &[[f32; 4]])| {
            let mut sums = vec![[0.0f64; 4]; count];
            let first = band * length;
            for (index, texel) in (first..).zip(ticked(texels.iter())) {
                if texel[3] <= 0.0 {
                    continue;
                }
                let Some((triangle, at)) = covered(index) else {
                    continue;
                };
                let weights = barycentrics(scene, triangle, at);
                let corners = scene.triangles[triangle as usize];
                for (corner, weight) in corners.into_iter().zip(weights) {
                    let weight = f64::from(weight.clamp(0.0, 1.0)).powi(2);
                    let sum = &mut sums[scene.surface_vertices[corner as usize] as usize];
                    for channel in 0..3 {
                        sum[channel] += weight * f64::from(texel[channel]);
                    }
                    sum[3] += weight;
                }
            }
            sums
        };
        let bands = texels.par_chunks(length).enumerate().map(of_band);
        for band in bands.collect::<Vec<Vec<[f64; 4]>>>() {
            for (sum, more) in ticked(self.sums.iter_mut()).zip(band) {
                for (sum, more) in sum.iter_mut().zip(more) {
                    *sum += more;
                }
            }
        }
    }

    /// Colour of each point of the surface: the mean of the observed texels in the triangles around it, diffused to where none is.
    fn colours(&self, scene: &Scene) -> Vec<[f32; 3]> {
        let colours = (self.sums.iter())
            .map(|sum| (sum[3] > 0.0).then(|| std::array::from_fn(|c| (sum[c] / sum[3]) as f32)))
            .collect();
        let neighbours = self.neighbours.get_or_init(|| {
            Neighbours::new(&scene.triangles, &scene.surface_vertices, self.sums.len())
        });
        diffuse_over(colours, neighbours)
    }
}

/// Of a texel of a part, the triangle that covers it, and which texel of the texture it is; `place` is as in [`Tones::fill`].
fn covered(
    atlas: &Atlas,
    place: impl Fn(usize) -> Option<usize> + Sync,
) -> impl Fn(usize) -> Option<(u32, usize)> + Sync {
    move |index| {
        let at = place(index)?;
        let triangle = atlas.triangles[at];
        (triangle != NOTHING).then_some((triangle, at))
    }
}

/// A texel that a triangle covers, between the colours of its corners; alpha is 0.
fn between(scene: &Scene, colours: &[[f32; 3]], (triangle, at): (u32, usize)) -> [f32; 4] {
    let mut texel = [0.0; 4];
    let corners = scene.triangles[triangle as usize];
    for (corner, weight) in corners.into_iter().zip(barycentrics(scene, triangle, at)) {
        let colour = colours[scene.surface_vertices[corner as usize] as usize];
        for channel in 0..3 {
            texel[channel] += weight.clamp(0.0, 1.0) * colour[channel];
        }
    }
    texel
}

/// Texels that are linked to an observed one by no more steps than this are told by it.
const NEAR: u32 = 16;

/// Fills anew, from all over the surface, those chart texels that are far from any observed one. Alpha is the observed weight, and
/// stays.
pub fn fill_far(scene: &Scene, atlas: &Atlas, texels: &mut [[f32; 4]]) {
    let near = near(atlas, texels, scene.size as usize);
    let far = |texel: usize| atlas.triangles[texel] != NOTHING && !near[texel];
    if !(0..texels.len()).into_par_iter().any(far) {
        return;
    }
    let observed: Vec<f32> = texels.iter().map(|texel| texel[3]).collect();
    for (index, texel) in texels.iter_mut().enumerate() {
        match (far(index), near[index]) {
            (true, _) => *texel = [0.0; 4],
            (false, true) => texel[3] = texel[3].max(f32::MIN_POSITIVE.sqrt()),
            (false, false) => {}
        }
    }
    fill(scene, atlas, texels);
    for (texel, observed) in texels.iter_mut().zip(observed) {
        texel[3] = observed;
    }
}

/// Whether each texel is observed or near one that is.
fn near(atlas: &Atlas, texels: &[[f32; 4]], size: usize) -> Vec<bool> {
    let mut near: Vec<bool> = ticking(texels.par_iter())
        .map(|texel| texel[3] > 0.0)
        .collect();
    let around = |texel: usize| {
        let linked = |at: Option<usize>, link: u8, other: Option<usize>| {
            other.filter(|_| at.is_some_and(|at| atlas.links[at] & link != 0))
        };
        let left = texel.checked_sub(1).filter(|_| !texel.is_multiple_of(size));
        let above = texel.checked_sub(size);
        let around = [
            linked(Some(texel), LINK_RIGHT, Some(texel + 1)),
            linked(Some(texel), LINK_DOWN, Some(texel + size)),
            linked(left, LINK_RIGHT, left),
            linked(above, LINK_DOWN, above),
        ];
        around.into_iter().flatten()
    };
    // Most texels are observed, and so is all around them.
    let at_rim = |&texel: &usize| near[texel] && around(texel).any(|other| !near[other]);
    let mut front: Vec<usize> = ticking((0..texels.len()).into_par_iter())
        .filter(at_rim)
        .collect();
    for _ in 0..NEAR {
        let mut next = Vec::new();
        for other in front.into_iter().flat_map(around) {
            if !std::mem::replace(&mut near[other], true) {
                next.push(other);
            }
        }
        front = next;
    }
    near
}

/// Gives every point of the surface a colour: those that have one keep it, the others take their neighbours'. `points` says
/// which point each of the triangles' corners is.
pub(super) fn diffuse(
    colours: Vec<Option<[f32; 3]>>,
    triangles: &[[u32; 3]],
    points: &[u32],
) -> Vec<[f32; 3]> {
    let neighbours = Neighbours::new(triangles, points, colours.len());
    diffuse_over(colours, &neighbours)
}

fn diffuse_over(mut colours: Vec<Option<[f32; 3]>>, neighbours: &Neighbours) -> Vec<[f32; 3]> {
    let unknown = spread(&mut colours, neighbours);
    // Bodies that no view sees at all take the mean of all that is seen.
    let known: Vec<[f32; 3]> = colours.iter().flatten().copied().collect();
    let mean: [f32; 3] = std::array::from_fn(|c| {
        known.iter().map(|colour| colour[c]).sum::<f32>() / known.len().max(1) as f32
    });
    let mut colours: Vec<[f32; 3]> = colours
        .into_iter()
        .map(|colour| colour.unwrap_or(mean))
        .collect();
    unit();
    for _ in 0..SWEEPS {
        for &vertex in ticked(unknown.iter()) {
            let around = neighbours.of(vertex as usize);
            let mut sum = [0.0; 3];
            for &other in around {
                for channel in 0..3 {
                    sum[channel] += colours[other as usize][channel];
                }
            }
            colours[vertex as usize] = sum.map(|value| value / around.len() as f32);
        }
        unit();
    }
    colours
}

/// Breadth-first: gives each vertex without a colour the mean of those that had one before it. Returns them in that order.
fn spread(colours: &mut [Option<[f32; 3]>], neighbours: &Neighbours) -> Vec<u32> {
    let mut order = Vec::new();
    let mut front: Vec<u32> = (0..colours.len() as u32)
        .filter(|&v| colours[v as usize].is_some())
        .collect();
    loop {
        let mut reached: Vec<u32> = front
            .iter()
            .flat_map(|&vertex| ticked(neighbours.of(vertex as usize).iter()))
            .copied()
            .filter(|&vertex| colours[vertex as usize].is_none())
            .collect();
        reached.sort_unstable();
        reached.dedup();
        if reached.is_empty() {
            return order;
        }
        let found: Vec<[f32; 3]> = ticked(reached.iter())
            .map(|&vertex| {
                let known: Vec<[f32; 3]> = neighbours
                    .of(vertex as usize)
                    .iter()
                    .filter_map(|&other| colours[other as usize])
                    .collect();
                std::array::from_fn(|c| {
                    known.iter().map(|colour| colour[c]).sum::<f32>() / known.len() as f32
                })
            })
            .collect();
        for (&vertex, colour) in reached.iter().zip(found) {
            colours[vertex as usize] = Some(colour);
        }
        order.extend_from_slice(&reached);
        front = reached;
    }
}

/// Surface vertices that share an edge, compressed by rows.
struct Neighbours {
    starts: Vec<u32>,
    vertices: Vec<u32>,
}

impl Neighbours {
    fn new(triangles: &[[u32; 3]], points: &[u32], count: usize) -> Self {
        let mut edges: Vec<[u32; 2]> = ticked(triangles.iter())
            .flat_map(|corners| {
                let [a, b, c] = corners.map(|corner| points[corner as usize]);
                [[a, b], [b, a], [b, c], [c, b], [c, a], [a, c]]
            })
            .filter(|edge| edge[0] != edge[1])
            .collect();
        edges.sort_unstable();
        edges.dedup();
        let mut starts = vec![0; count + 1];
        for edge in &edges {
            starts[edge[0] as usize + 1] += 1;
        }
        for vertex in 1..starts.len() {
            starts[vertex] += starts[vertex - 1];
        }
        Self {
            starts,
            vertices: edges.iter().map(|edge| edge[1]).collect(),
        }
    }

    fn of(&self, vertex: usize) -> &[u32] {
        &self.vertices[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }
}

#[cfg(test)]
mod tests;
