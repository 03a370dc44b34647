//! Texels of a simplified mesh → the places of the original surface that they stand for → its normals, and how much
//! ambient light arrives there.
//!
//! ```text
//!   original ─▶ hierarchy, normals, occlusion of its points ─┐
//!   mesh ─────▶ cage: how far the surfaces lie apart ────────┴▶ lines of each texel ─▶ layers
//! ```
//!
//! Simplification takes shape away that shading shows, and a normal map brings it back (Cohen, Olano and Manocha,
//! "Appearance-preserving simplification", 1998). A texel has 2×2 places; two of them, across from each other, say all where
//! they stand for one triangle. From each a line runs along the mesh's smooth
//! normal, which no two neighbouring places cross, and the nearest hit counts. It lies within the cage and on a side that
//! faces as the mesh does, so neither the back of a thin part nor a neighbouring part is hit. Where there is no hit, the
//! nearest point of the original stands in if it faces the same way. Elsewhere the mesh keeps its own normals.

mod cage;
mod forecast;
mod occlusion;
#[cfg(test)]
mod tests;

pub(crate) use self::forecast::forecast;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use proto::job::Detail;
use proto::message::{DetailFigures, Phase};
use proto::table::{Layer, LayerTexture, pack_normal, unpack_normal};
use rayon::prelude::*;

use crate::bake::model::atlas::barycentrics_at;
use crate::bake::model::hierarchy::{Facing, Hierarchy, Line, blend, dot, unit_vector};
use crate::bake::model::normals::point_normals;
use crate::bake::model::raster::NOTHING;
use crate::bake::model::scene::Scene;
use crate::bake::solve::fit_context::FitContext;
use crate::bake::solve::pull_push::pull_push;
use crate::worker::pace;
use crate::worker::progress::{Stage, Ticker, each, ticking};
use crate::worker::step_times::timed;

/// Places of a texel along each axis.
const PLACES: usize = 2;
/// They, row by row, in the order in which they are looked at: the first two lie across from each other.
const ORDER: [usize; PLACES * PLACES] = [0, 3, 1, 2];
/// Share of the mesh that has a counterpart, below which a warning says so.
const LEAST_FOUND: f32 = 0.95;
/// Rows of texels between two counts.
const BAND: usize = 16;

/// Layers of the original surface, for texels that no view shows of them.
#[derive(Debug, Default)]
pub(crate) struct Details {
    layers: Vec<LayerTexture>,
    /// What the report says of them; none where none was asked for.
    pub(crate) figures: Option<DetailFigures>,
}

impl Details {
    /// Fills texels of a layer of the views where nothing was `observed`.
    pub(crate) fn fill(&mut self, layer: Layer, texels: &mut [[u8; 4]], observed: &[f32]) {
        let mut layers = self.layers.iter();
        if let Some(at) = layers.position(|known| known.layer == layer) {
            let known = self.layers.swap_remove(at).texels;
            for ((texel, known), &observed) in texels.iter_mut().zip(known).zip(observed) {
                if observed <= 0.0 {
                    *texel = known;
                }
            }
        }
    }

    /// The layers that filled none of the views'.
    pub(crate) fn rest(&mut self) -> Vec<LayerTexture> {
        std::mem::take(&mut self.layers)
    }
}

/// The original surface, and what is asked of it.
struct Shape<'a> {
    positions: &'a [[f32; 3]],
    triangles: &'a [[u32; 3]],
    normals: &'a [[f32; 3]],
    hierarchy: Hierarchy,
    /// Share of the ambient light that arrives at each point, where that is asked for.
    open: Option<Vec<f32>>,
}

/// What a place of the mesh stands for.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    triangle: u32,
    normal: [f32; 3],
    open: f32,
}

/// What a texel stands for.
#[derive(Clone, Copy, Debug, Default)]
struct Texel {
    /// Packed as [`pack_normal`] does.
    normal: [u8; 4],
    /// 255 is all of the light.
    open: u8,
    /// How many of its places have a counterpart.
    found: u8,
}

/// Sums over texels in charts.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    texels: f64,
    /// Places with a counterpart, as texels.
    found: f64,
    /// Angles between the mesh's normals and the original's, in degrees.
    angle: f64,
}

/// Makes the layers that are asked for of the surface before simplification; of the mesh itself, if it is the same.
pub(crate) fn bake(context: &FitContext<'_>, detail: Detail) -> Details {
    if detail == Detail::Off {
        return Details::default();
    }
    let begun = Instant::now();
    let (scene, stages) = (context.scene, context.stages);
    if context.original.is_none() && detail.layers().has(Layer::Normal) {
        stages.progress.warning(
            "the normal map is flat: the mesh was not simplified (--simplify or --target-faces take triangles away; --original names what had them)",
        );
    }
    let (positions, triangles) = match context.original {
        Some(original) => (original.shown().positions, original.shown().triangles),
        None => (&scene.positions[..], &scene.triangles[..]),
    };
    let hierarchy = step(context, triangles, "boxes of the original", || {
        Hierarchy::new(positions, triangles)
    });
    let made = step(context, triangles, "normals of the original", || {
        // Of the mesh itself, vertices along seams have theirs already.
        (context.original).map(|_| point_normals(positions, triangles))
    });
    let mut original = Shape {
        positions,
        triangles,
        normals: made.as_deref().unwrap_or(&scene.normals),
        hierarchy,
        open: None,
    };
    if detail.layers().has(Layer::Occlusion) {
        let open = step(context, triangles, "occlusion of the original", || {
            occlusion::of_points(&original)
        });
        original.open = Some(open);
    }
    let cage = step(context, triangles, "distance of the surfaces", || {
        cage::of_vertices(scene, &original)
    });
    let (texels, sums) = texels(context, &original, &cage);
    let mut figures = DetailFigures {
        layers: detail.layers().iter().collect(),
        triangles: triangles.len() as u64,
        found: (sums.found / sums.texels.max(1.0)) as f32,
        angle_deg: (sums.angle / sums.texels.max(1.0)) as f32,
        seconds: 0.0,
    };
    if figures.found < LEAST_FOUND {
        stages.progress.warning(&format!(
            "{:.0} % of the mesh have no counterpart on the surface before simplification, and keep the mesh's normals",
            100.0 * (1.0 - figures.found)
        ));
    }
    let layers = figures.layers.iter().map(|&layer| {
        let texels = step(context, triangles, "gutters of the original", || {
            continued(layer, &texels, scene.size as usize)
        });
        let size = scene.size;
        LayerTexture {
            layer,
            size,
            texels,
        }
    });
    let layers = layers.collect();
    figures.seconds = begun.elapsed().as_secs_f64();
    Details {
        layers,
        figures: Some(figures),
    }
}

/// Runs a step over this surface, which may take as long as a step over all texels.
fn step<T>(
    context: &FitContext<'_>,
    triangles: &[[u32; 3]],
    label: &str,
    work: impl FnOnce() -> T,
) -> T {
    let stage = Stage {
        phase: Phase::Detail,
        total: 0,
        unit: (label, each(triangles.len(), pace::TRIANGLE) + context.step),
    };
    context.stages.run(stage, || timed(label, work))
}

/// What each texel of the mesh's atlas stands for.
fn texels(context: &FitContext<'_>, original: &Shape<'_>, cage: &[f32]) -> (Vec<Texel>, Sums) {
    let (scene, stages) = (context.scene, context.stages);
    let size = scene.size as usize;
    let bands = size.div_ceil(BAND) as u64;
    let done = AtomicU64::new(0);
    let mut texels = vec![Texel::default(); size * size];
    let band = each(BAND * size, pace::DETAIL_TEXEL);
    let stage = Stage {
        phase: Phase::Detail,
        total: bands,
        unit: ("texels of the original", band),
    };
    let of_bands = texels.par_chunks_mut((BAND * size).max(1)).enumerate();
    let work = of_bands.map(|(band, texels)| {
        let mut ticker = Ticker::default();
        let mut sums = Sums::default();
        for (at, texel) in (band * BAND * size..).zip(texels) {
            let triangle = context.atlas.triangles[at];
            if triangle != NOTHING {
                let angle;
                (*texel, angle) = of_texel(scene, original, (triangle, at), cage);
                sums.texels += 1.0;
                sums.found += f64::from(texel.found) / (PLACES * PLACES) as f64;
                sums.angle += f64::from(angle);
                // A line takes as long as some 20 steps of other loops.
                ticker.did(20 * PLACES * PLACES);
            }
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        stages.progress.progress(Phase::Detail, done, bands);
        sums
    });
    let of_bands: Vec<Sums> =
        stages.run(stage, || timed("texels of the original", || work.collect()));
    // Bands are added in one order, whatever the number of threads.
    let sums = of_bands.iter().fold(Sums::default(), |all, band| Sums {
        texels: all.texels + band.texels,
        found: all.found + band.found,
        angle: all.angle + band.angle,
    });
    (texels, sums)
}

/// What one texel of a triangle stands for, and the angle of its normal to the mesh's, in degrees.
fn of_texel(
    scene: &Scene,
    original: &Shape<'_>,
    (triangle, texel): (u32, usize),
    cage: &[f32],
) -> (Texel, f32) {
    let size = scene.size as usize;
    let corners = scene.triangles[triangle as usize].map(|corner| corner as usize);
    let positions = corners.map(|corner| scene.positions[corner]);
    let normals = corners.map(|corner| scene.normals[corner]);
    let mut sum = Found::default();
    let (mut found, mut taken, mut own) = (0_u8, 0_u8, [0.0; 3]);
    let mut triangles = [NOTHING; 2];
    for (count, place) in ORDER.into_iter().enumerate() {
        let [one, other] = triangles;
        if count == triangles.len() && one != NOTHING && one == other {
            break;
        }
        let within = |k: usize| (k as f64 + 0.5) / PLACES as f64;
        let at = [
            (texel % size) as f64 + within(place % PLACES),
            (texel / size) as f64 + within(place / PLACES),
        ];
        let weights = within_triangle(barycentrics_at(scene, triangle, at));
        let Some(normal) = unit_vector(blend(&normals, weights)) else {
            continue;
        };
        let reach = (0..3).map(|k| weights[k] * cage[corners[k]]).sum();
        let of_place = original.stands_for(blend(&positions, weights), normal, reach);
        (found, taken) = (found + u8::from(of_place.is_some()), taken + 1);
        if let (Some(of_place), Some(triangle)) = (of_place, triangles.get_mut(count)) {
            *triangle = of_place.triangle;
        }
        let of_place = of_place.unwrap_or(Found {
            triangle: NOTHING,
            normal,
            open: 1.0,
        });
        for axis in 0..3 {
            sum.normal[axis] += of_place.normal[axis];
            own[axis] += normal[axis];
        }
        sum.open += of_place.open;
    }
    let taken = taken.max(1);
    let own = unit_vector(own).unwrap_or([0.0, 0.0, 1.0]);
    let normal = unit_vector(sum.normal).unwrap_or(own);
    let texel = Texel {
        normal: pack_normal(normal, found > 0),
        open: byte(sum.open / f32::from(taken)),
        found: found * (ORDER.len() as u8 / taken),
    };
    let angle = dot(normal, own).clamp(-1.0, 1.0).acos();
    (texel, angle.to_degrees())
}

impl Shape<'_> {
    /// What a place of the mesh stands for: the hit of its line within `reach` on both sides, or the nearest point.
    fn stands_for(&self, from: [f32; 3], along: [f32; 3], reach: f32) -> Option<Found> {
        let line = Line {
            from,
            along,
            reach: [-reach, reach],
            facing: Facing::Along,
        };
        let hit = self.hierarchy.meets(&line);
        let (triangle, weights) = match hit {
            Some(hit) => (hit.triangle, hit.weights),
            None => {
                let nearest = self.hierarchy.nearest(from, reach)?;
                (nearest.triangle, nearest.weights)
            }
        };
        let normal = unit_vector(blend(&self.of(triangle, self.normals), weights))?;
        if hit.is_none() && dot(normal, along) <= 0.0 {
            return None;
        }
        let open = self.open.as_ref().map_or(1.0, |open| {
            let corners = self.triangles[triangle as usize];
            let shares = corners.iter().zip(weights);
            shares
                .map(|(&corner, weight)| weight * open[corner as usize])
                .sum()
        });
        Some(Found {
            triangle,
            normal,
            open,
        })
    }

    /// What the corners of a triangle have.
    fn of(&self, triangle: u32, points: &[[f32; 3]]) -> [[f32; 3]; 3] {
        self.triangles[triangle as usize].map(|corner| points[corner as usize])
    }
}

/// Barycentric coordinates, moved into the triangle: a place of a texel on its border may lie beyond it.
fn within_triangle(weights: [f32; 3]) -> [f32; 3] {
    let inside = weights.map(|weight| weight.max(0.0));
    let sum: f32 = inside.iter().sum();
    inside.map(|weight| weight / sum)
}

/// The texels of one layer, continued into the gutter.
fn continued(layer: Layer, texels: &[Texel], size: usize) -> Vec<[u8; 4]> {
    let normal = layer == Layer::Normal;
    let own = |texel: &Texel| {
        let [x, y, z] = match normal {
            true => unpack_normal(texel.normal).0,
            false => [f32::from(texel.open) / 255.0; 3],
        };
        [x, y, z, if texel.found > 0 { 1.0 } else { 0.0 }]
    };
    let mut filled: Vec<[f32; 4]> = ticking(texels.par_iter()).map(own).collect();
    pull_push(&mut filled, size);
    let filled = ticking(filled.par_iter().zip(texels));
    let bytes = filled.map(|(&[x, y, z, _], texel)| match (normal, texel.found > 0) {
        (true, true) => texel.normal,
        (true, false) => pack_normal([x, y, z], false),
        (false, _) => [byte(x), byte(x), byte(x), 255],
    });
    bytes.collect()
}

fn byte(share: f32) -> u8 {
    (share.clamp(0.0, 1.0) * 255.0).round() as u8
}
