//! Fills gutters and makes both sides of each seam agree, at every mip level that [`crate::image::survey`] measures. Input:
//! fitted texels.
//!
//! | module | input → output |
//! |---|---|
//! | `unfold` | seams → the seam that each gutter texel continues; texels → gutter, from the face beyond |
//! | `side` | a seam's side: its place, direction and chart |
//! | `rows` | seams → lookups of both sides at each level, and what both should show |
//! | `hierarchy` | texels that may move → their mip texels, coarse over fine |
//! | `lookups` | rows and nodes → what rows see of the nodes, and what they give back to them |
//! | `solve` | lookups → the smallest change of texels that makes the sides agree |
//!
//! The fit knows mip 0 alone. A coarser texel near a seam mixes its chart with gutter and with whatever lies beyond. So
//! no filling of the gutter alone makes both sides agree; but the gutter is free, and large enough to balance the rest.
//! Hence a least squares problem over gutter texels and those that lookups on a seam itself read:
//!
//! ```text
//!   minimise  Σ_k Σ_s w_s d² [ (A_ks x − B_ks x)²  +  τ² ((A_ks x + B_ks x) / 2 − t_ks)² ]  +  Σ_i a_i d_i² (x_i − x⁰_i)²
//!   A, B   bilinear lookups at mip level k (box filter) at place s of a seam, on its two sides
//!   t      what both would show if they saw their own charts alone; it keeps them from agreeing on a foreign colour
//!   w      length of seam that a lookup stands for, in texels
//!   d      d sRGB / d linear there: differences are judged where they are seen
//!   a      anchor: firm where pixels observe the texel, next to nothing in the gutter; x⁰ the fitted or unfolded texel
//! ```

mod hierarchy;
mod lookups;
mod rows;
mod side;
mod solve;
mod unfold;

use proto::job::Blend;
use rayon::prelude::*;

use crate::bake::model::atlas::{Atlas, NO_CHART, chart_of, charts, pairs};
use crate::bake::model::colour::{Space, decode, encode};
use crate::bake::model::scene::Scene;
use crate::bake::solve::pull_push::pull_push;
use crate::worker::progress::{ticked, ticking, unit};
use crate::worker::step_times::timed;
use side::{SHORTEST, SeamSide};
use solve::Agreement;

/// Nearer than this in texels, two sides of an edge are one place of the texture.
const SAME: f64 = 1e-3;
/// The part of mending a texture's seams that depends only on its charts and observed weights, and is prepared before
/// the texels exist.
#[derive(Debug)]
pub struct Mending {
    size: usize,
    space: Space,
    seams: Vec<[SeamSide; 2]>,
    /// Chart of each texel.
    charts: Vec<u32>,
    known: Vec<bool>,
    /// The seam that each gutter texel continues, see [`unfold`].
    nearest: Vec<u32>,
    /// None where there is nothing to balance.
    agreement: Option<Agreement>,
}

impl Mending {
    /// `observed` is the weight with which pixels observe each texel.
    pub fn new(scene: &Scene, atlas: &Atlas, observed: &[f32], space: impl Into<Space>) -> Self {
        let space = space.into();
        let size = scene.size as usize;
        let (seams, charts) = timed("seams", || seams(scene, atlas));
        unit();
        let known: Vec<bool> = (ticking(charts.par_iter()).zip(observed))
            .map(|(&chart, &weight)| chart != NO_CHART || weight > 0.0)
            .collect();
        let nearest = timed("nearest seams", || {
            unfold::nearest(|texel| known[texel], &charts, size, &seams)
        });
        unit();
        // Values that balance mips in the gutter are black or white in places, and not unit vectors.
        let agreement = match space {
            Space::Direction => None,
            _ => Agreement::new(&seams, &charts, observed, size, space),
        };
        Self {
            size,
            space,
            seams,
            charts,
            known,
            nearest,
            agreement,
        }
    }

    /// Fills the gutter of `texels` and makes the seams agree.
    pub fn mend(self, texels: &mut [[f32; 4]]) {
        let Self {
            size,
            space,
            charts,
            ..
        } = self;
        // Mips are means of light, whatever the fit averaged, unless the texture holds no light.
        let light = |value: f32| match space {
            Space::Colour(Blend::Linear) | Space::Data | Space::Direction => value.clamp(0.0, 1.0),
            Space::Colour(Blend::Srgb) => decode(value.clamp(0.0, 1.0)),
        };
        let known = ticking(texels.par_iter_mut()).zip(&self.known);
        known.with_min_len(1 << 14).for_each(|(texel, &known)| {
            let [r, g, b, _] = *texel;
            *texel = [light(r), light(g), light(b), f32::from(u8::from(known))];
        });
        timed("unfold", || {
            unfold::fill(texels, &charts, size, &self.seams, &self.nearest);
        });
        unit();
        timed("pull-push", || pull_push(texels, size));
        unit();
        if let Some(agreement) = self.agreement {
            solve::agree(texels, &charts, size, agreement);
        }
        if space == Space::Colour(Blend::Srgb) {
            ticking(texels.par_iter_mut()).for_each(|texel| {
                let [r, g, b, a] = *texel;
                *texel = [encode(r), encode(g), encode(b), a];
            });
        }
        unit();
    }
}

/// [`Mending`] at once.
#[cfg(test)]
fn mend(
    texels: &mut [[f32; 4]],
    observed: &[f32],
    scene: &Scene,
    atlas: &Atlas,
    space: impl Into<Space>,
) {
    Mending::new(scene, atlas, observed, space).mend(texels);
}

/// The seams of a scene, and the chart of each texel.
fn seams(scene: &Scene, atlas: &Atlas) -> (Vec<[SeamSide; 2]>, Vec<u32>) {
    let charts = charts(scene);
    let place = |vertex: u32| scene.texel_coords[vertex as usize].map(f64::from);
    let side = |side: &crate::bake::model::atlas::SeamEdge| {
        let [a, b] = side.vertices.map(place);
        let apex = place(side.apex);
        let along = [b[0] - a[0], b[1] - a[1]];
        let length = along[0].hypot(along[1]).max(SHORTEST);
        let normal = [-along[1] / length, along[0] / length];
        let inside = (apex[0] - a[0]) * normal[0] + (apex[1] - a[1]) * normal[1];
        SeamSide {
            ends: [a, b],
            inward: normal.map(|x| x * inside.signum()),
            chart: charts[side.apex as usize],
        }
    };
    let apart = |[one, other]: &[SeamSide; 2]| {
        let all = one
            .ends
            .as_flattened()
            .iter()
            .zip(other.ends.as_flattened());
        let mut distances = all.map(|(a, b)| (a - b).abs());
        distances.clone().all(f64::is_finite) && distances.any(|distance| distance > SAME)
    };
    let seams = ticked(pairs(scene).iter())
        .map(|pair| pair.each_ref().map(side))
        .filter(apart)
        .collect();
    let of_texel = |&triangle: &u32| chart_of(scene, &charts, triangle);
    let of_texels = ticking(atlas.triangles.par_iter()).map(of_texel).collect();
    (seams, of_texels)
}

#[cfg(test)]
mod tests;
