//! Start values for every texel, from averaged texels. Texels that no pixel observes take the colour of their
//! neighbours on the *surface*, the gutter that of its surroundings in the texture.
//!
//! Colours of the mesh's vertices are diffused over its edges (a Laplace equation on the mesh, with the observed
//! vertices given), then interpolated into unseen chart texels. This crosses chart borders as the surface does. Atlas
//! neighbours would bring in the colours of whatever chart lies next to a texel.

use std::cell::OnceCell;

use rayon::prelude::*;

use crate::bake::model::atlas::{Atlas, barycentrics};
use crate::bake::model::links::neighbours;
use crate::bake::model::raster::NOTHING;
use crate::bake::model::scene::Scene;
use crate::bake::solve::pull_push::pull_push;
use crate::worker::progress::{ticked, ticking, unit};

/// Sweeps of the diffusion: breadth-first start values already have the right tone, and sweeps only smooth their
/// fronts.
const SWEEPS: usize = 60;
/// Most bands of texels that are summed side by side, and most sums that they hold together.
const BANDS: usize = 32;
const BAND_SUMS: usize = 1 << 21;

/// Fills `texels`, whose alpha is the observed weight; alpha stays.
pub fn fill(scene: &Scene, atlas: &Atlas, texels: &mut [[f32; 4]]) {
    let mut tones = Tones::none(scene);
    tones.fill(scene, atlas, texels, Some);
}

/// Colours of the surface ("tones"), collected from the texels of one part of a texture after the other.
pub struct Tones {
    /// For each point of the surface, the weighted colours of the texels around it, and their weights.
    sums: Vec<[f64; 4]>,
    /// Points that share an edge; computed on first use.
    neighbours: OnceCell<Neighbours>,
}

impl Tones {
    /// Without texels.
    pub fn none(scene: &Scene) -> Self {
        Self {
            sums: vec![[0.0; 4]; scene.surface_vertices.len()],
            neighbours: OnceCell::new(),
        }
    }

    /// Fills the texels of a part of a texture, whose alpha is the observed weight, from its own texels and those
    /// collected before; alpha stays. `place` gives the texture's texel of each. Texels without one take the colour of
    /// their surroundings in the part, whose rows are as long as the texture's.
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
        // Subdomains pass on all their texels to those that follow.
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
        // Every texel with a colour counts in full for the pull-push; the observed weight is restored afterwards.
        let whole = |(index, texel): (usize, &mut [f32; 4])| {
            let known = texel[3] > 0.0 || covered(index).is_some();
            std::mem::replace(&mut texel[3], if known { 1.0 } else { 0.0 })
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

    /// Collects the observed texels of a part. `place` is as in [`Self::fill`].
    pub fn learn(
        &mut self,
        scene: &Scene,
        atlas: &Atlas,
        texels: &[[f32; 4]],
        place: impl Fn(usize) -> Option<usize> + Sync,
    ) {
        self.add(scene, texels, covered(atlas, place));
    }

    /// Collects observed texels; `covered` gives the triangle that covers each, and its texel of the texture.
    fn add(
        &mut self,
        scene: &Scene,
        texels: &[[f32; 4]],
        covered: impl Fn(usize) -> Option<(u32, usize)> + Sync,
    ) {
        let count = self.sums.len();
        // The bands depend on sizes alone and are added in order: the same bits on any number of threads.
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

    /// Colour of each point of the surface: the mean of the observed texels in the triangles around it, diffused to
    /// where there is none.
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

/// For a texel of a part, the triangle that covers it, and its texel of the texture; `place` is as in [`Tones::fill`].
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

/// A covered texel, interpolated between the colours of its triangle's corners; alpha is 0.
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

/// Texels within so many links of an observed one are near it.
const NEAR: u32 = 16;

/// Fills chart texels that are far from any observed one again, from the whole surface. Alpha is the observed weight,
/// and stays.
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
    let around = |texel: usize| neighbours(&atlas.links, size, texel);
    // Most texels are observed, and so are all around them.
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

/// Gives every point of the surface a colour: those that have one keep it, the others take their neighbours'. `points`
/// maps triangle corners to points.
pub(crate) fn diffuse(
    colours: Vec<Option<[f32; 3]>>,
    triangles: &[[u32; 3]],
    points: &[u32],
) -> Vec<[f32; 3]> {
    let neighbours = Neighbours::new(triangles, points, colours.len());
    diffuse_over(colours, &neighbours)
}

fn diffuse_over(mut colours: Vec<Option<[f32; 3]>>, neighbours: &Neighbours) -> Vec<[f32; 3]> {
    let unknown = spread(&mut colours, neighbours);
    // Bodies that no view sees take the mean of all that is seen.
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

/// Breadth-first: gives each vertex without a colour the mean of the neighbours that had one before. Returns them in
/// that order.
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

/// Surface vertices that share an edge, in compressed sparse row format.
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
