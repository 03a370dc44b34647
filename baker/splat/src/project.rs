//! Splats and a view → ellipses on the picture, and the colours that the view sees.
//!
//! The covariance of a splat is projected by the Jacobian of the perspective at its centre (Zwicker et al., "EWA Splatting",
//! 2002; Kerbl et al., 2023). x/z and y/z of the Jacobian are clamped to 1.3 times half the field of view, as there, so that
//! splats beside the picture do not grow without bound.

use rayon::prelude::*;

use crate::cloud::{Cloud, coefficients};
use crate::colour::shown;
use crate::draw::View;

/// Least depth of a splat's centre.
const NEAR: f32 = 0.01;
/// Bound of x/z and y/z in the Jacobian, as a multiple of half the field of view.
const BOUND: f32 = 1.3;
/// Least alpha that is drawn, and its inverse.
pub(crate) const LEAST_ALPHA: f32 = 1.0 / 255.0;
/// Splats a chunk of work.
const CHUNK: usize = 4096;

/// How the pixel's own extent is taken into account. Splats are drawn with the filter that they were trained with, or
/// their edges change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// The variance (px²) is added to the projected covariance: 0.3 in the reference code of 2023 and in gsplat.
    Classic(f32),
    /// The same, and the opacity is reduced such that the splat's sum stays (Yu et al., "Mip-Splatting", 2024): 0.1 in TRELLIS,
    /// 0.3 in gsplat.
    Mip(f32),
}

impl Filter {
    const fn variance(self) -> f32 {
        match self {
            Self::Classic(variance) | Self::Mip(variance) => variance,
        }
    }
}

/// A splat as a view sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ellipse {
    /// Centre in pixels; that of the first pixel is (0.5, 0.5).
    pub(crate) centre: [f32; 2],
    /// Inverse of the covariance: xx, xy, yy.
    pub(crate) conic: [f32; 3],
    /// Half the size of the box that holds every pixel with an alpha of [`LEAST_ALPHA`] and more.
    pub(crate) reach: [f32; 2],
    pub(crate) opacity: f32,
    pub(crate) colour: [f32; 3],
    /// View-space z, positive.
    pub(crate) depth: f32,
}

/// The splats that may show, in the order of the cloud.
pub(crate) fn project(cloud: &Cloud, view: &View, filter: Filter, degree: usize) -> Vec<Ellipse> {
    let eye = eye(view);
    let count = coefficients(cloud.degree);
    let degree = degree.min(cloud.degree);
    let chunks: Vec<Vec<Ellipse>> = (0..cloud.len().div_ceil(CHUNK))
        .into_par_iter()
        .map(|chunk| {
            let all = chunk * CHUNK..cloud.len().min((chunk + 1) * CHUNK);
            let seen = all.filter_map(|index| {
                let mut ellipse = ellipse(cloud, index, view, filter)?;
                let harmonics = &cloud.harmonics[index * count..][..count];
                let direction = direction(cloud.positions[index], eye);
                ellipse.colour = shown(cloud.constants[index], harmonics, degree, direction);
                Some(ellipse)
            });
            seen.collect()
        })
        .collect();
    chunks.concat()
}

/// The camera's place in the world: -Rᵀ t.
fn eye(view: &View) -> [f32; 3] {
    let (r, t) = (&view.rotation, view.translation);
    std::array::from_fn(|k| -(r[0][k] * t[0] + r[1][k] * t[1] + r[2][k] * t[2]))
}

fn direction(at: [f32; 3], eye: [f32; 3]) -> [f32; 3] {
    let along: [f32; 3] = std::array::from_fn(|k| at[k] - eye[k]);
    let length = along.iter().map(|x| x * x).sum::<f32>().sqrt();
    along.map(|x| x / length.max(f32::MIN_POSITIVE))
}

/// None where the splat does not show.
fn ellipse(cloud: &Cloud, index: usize, view: &View, filter: Filter) -> Option<Ellipse> {
    let (r, t) = (&view.rotation, view.translation);
    let at = cloud.positions[index];
    let [x, y, z] = [0, 1, 2].map(|k| r[k][0] * at[0] + r[k][1] * at[1] + r[k][2] * at[2] + t[k]);
    let visible = z > NEAR;
    if !visible || cloud.opacities[index] < LEAST_ALPHA {
        return None;
    }
    let [fx, fy] = view.focal;
    let bound = |size: u32, focal: f32| BOUND * size as f32 / (2.0 * focal);
    let (most_u, most_v) = (bound(view.size[0], fx), bound(view.size[1], fy));
    let (u, v) = (
        (x / z).clamp(-most_u, most_u),
        (y / z).clamp(-most_v, most_v),
    );
    // Rows of the Jacobian times the rotation of the view, times the axes of the splat: the projected axes.
    let rows: [[f32; 3]; 2] = [
        std::array::from_fn(|k| fx / z * (r[0][k] - u * r[2][k])),
        std::array::from_fn(|k| fy / z * (r[1][k] - v * r[2][k])),
    ];
    let axes = axes(cloud.rotations[index], cloud.scales[index]);
    let project =
        |row: &[f32; 3]| axes.map(|axis| row[0] * axis[0] + row[1] * axis[1] + row[2] * axis[2]);
    let [p, q] = [project(&rows[0]), project(&rows[1])];
    let dot = |a: &[f32; 3], b: &[f32; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let (xx, xy, yy) = (dot(&p, &p), dot(&p, &q), dot(&q, &q));
    // Of the axes, not of the products: that would cancel for flat splats.
    let cross = [
        p[1] * q[2] - p[2] * q[1],
        p[2] * q[0] - p[0] * q[2],
        p[0] * q[1] - p[1] * q[0],
    ];
    let bare = dot(&cross, &cross);
    let blur = filter.variance();
    let (a, c) = (xx + blur, yy + blur);
    let det = bare + blur * (xx + yy + blur);
    if !(det > 0.0 && det.is_finite()) {
        return None;
    }
    let opacity = match filter {
        Filter::Classic(_) => cloud.opacities[index],
        Filter::Mip(_) => {
            let share = bare.max(1e-6) / det.max(1e-6);
            cloud.opacities[index] * share.clamp(0.0, 1.0).sqrt()
        }
    };
    if opacity < LEAST_ALPHA {
        return None;
    }
    // The square of three standard deviations that the sources cut at, and the ellipse where alpha vanishes.
    let middle = 0.5 * (a + c);
    let largest = middle + (middle * middle - det).max(0.1).sqrt();
    let square = (3.0 * largest.sqrt()).ceil();
    let radius = (2.0 * (opacity * 255.0).ln()).max(0.0);
    let reach = [a, c].map(|variance| (radius * variance).sqrt().min(square));
    let centre = [fx * x / z + view.centre[0], fy * y / z + view.centre[1]];
    let inside =
        (0..2).all(|k| centre[k] + reach[k] > 0.0 && centre[k] - reach[k] < view.size[k] as f32);
    inside.then_some(Ellipse {
        centre,
        conic: [c / det, -xy / det, a / det],
        reach,
        opacity,
        colour: [0.0; 3],
        depth: z,
    })
}

/// The axes of a splat in the world, each as long as its standard deviation.
fn axes([w, x, y, z]: [f32; 4], scales: [f32; 3]) -> [[f32; 3]; 3] {
    let columns = [
        [
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y + w * z),
            2.0 * (x * z - w * y),
        ],
        [
            2.0 * (x * y - w * z),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z + w * x),
        ],
        [
            2.0 * (x * z + w * y),
            2.0 * (y * z - w * x),
            1.0 - 2.0 * (x * x + y * y),
        ],
    ];
    std::array::from_fn(|k| columns[k].map(|along| along * scales[k]))
}
