//! Transposes, sizes, and a hole that is filled in few iterations.

use proto::job::Blend;

use crate::bake::fixture::{Random, all_links};
use crate::bake::model::row_cache::RowCache;
use crate::bake::model::rows::{Entry, Rows};
use crate::bake::solve::backend::{Strength, Ties};
use crate::bake::solve::multilevel::*;
use crate::bake::solve::normal::{LeastSquares, Normal, conjugate_gradients};

fn random(count: usize, random: &mut Random) -> Sums {
    let number = |_| [random.within(-1.0, 1.0) as f32, 0.5, -0.5, 0.0];
    (0..count).map(number).collect()
}

fn dot(a: &Sums, b: &Sums) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(a[0] * b[0]));
    products.sum()
}

#[test]
fn prolongation_is_the_transpose_of_restriction_and_carries_constants() {
    for size in [[8_usize, 6], [7, 5], [1, 9], [2, 1]] {
        let [width, height] = size;
        let coarser = size.map(|edge| edge.div_ceil(2));
        let source = &mut Random(3);
        let fine = random(width * height, source);
        let mut level = CoarseLevel {
            size: coarser,
            values: random(coarser[0] * coarser[1], source),
            inverses: Vec::new(),
        };
        let prolonged = |level: &CoarseLevel| -> Sums {
            let at = |place: usize| level.prolonged([place % width, place / width]);
            (0..width * height).map(at).collect()
        };
        let mut restricted = vec![[0.0; 4]; coarser[0] * coarser[1]];
        restrict(size, &fine, &mut restricted);
        let one = dot(&restricted, &level.values);
        let other = dot(&fine, &prolonged(&level));
        assert!((one - other).abs() < 1e-5, "{size:?}: {one} {other}");
        level.values.fill([1.0; 4]);
        assert!(
            prolonged(&level).iter().all(|x| (x[0] - 1.0).abs() < 1e-6),
            "{size:?}"
        );
    }
}

#[test]
fn cells_are_those_of_all_levels() {
    for size in [[64, 64], [33, 7], [1, 1]] {
        let [across, down] = size;
        let hold = Hold {
            mass: [1.0; 3],
            stiffness: [0.0; 3],
        };
        let mut levels = Multilevel::new(across, across * down);
        levels.weigh(|_| [1.0; 3], |_, _| hold);
        let levels = levels.levels;
        let sum: usize = levels.iter().map(|level| level.values.len()).sum();
        assert_eq!(cells(size), sum, "{size:?}");
        // All texels weigh one, and none is lost at a border.
        let last = &levels[levels.len() - 1];
        let mass: f32 = last.inverses.iter().map(|x| 1.0 / (MASS * x[0])).sum();
        assert!(
            (mass - (across * down) as f32).abs() < 1e-3,
            "{size:?}: {mass}"
        );
    }
}

const EDGE: usize = 48;

/// Texels of a square after so many iterations. Pixels show only its left and right columns, dark and bright.
fn ramp(iterations: u32, levels: bool) -> Vec<f32> {
    let column = |texel: usize| texel % EDGE;
    let ends = |texel: &usize| column(*texel) == 0 || column(*texel) == EDGE - 1;
    let mut rows = Rows::of_view(0);
    for texel in (0..EDGE * EDGE).filter(ends) {
        let entry = Entry {
            texel: texel as u32,
            weight: 1.0,
        };
        let colour = if column(texel) == 0 { 51 } else { 204 };
        rows.push(&[entry], [colour, colour, colour, 255], rows.len() as u32);
    }
    let ties = Ties {
        links: all_links(EDGE),
        seams: Rows::of_view(0),
    };
    let problem = LeastSquares {
        rows: &RowCache::of_rows(&[vec![rows]], EDGE),
        ties: &ties,
        blend: Blend::Srgb,
    };
    let strength = Strength {
        smoothness: 0.01,
        seam: 0.02,
    };
    let mut texels = vec![[0.5; 4]; EDGE * EDGE];
    let mut normal = Normal::new(EDGE * EDGE, EDGE, &ties.seams);
    normal.weigh(problem, strength, &texels);
    if !levels {
        normal.multilevel.shares.fill([0.0; 4]);
    }
    conjugate_gradients(&mut normal, problem, &mut texels, iterations);
    texels.iter().map(|texel| texel[0]).collect()
}

/// Largest distance from the expected ramp, in steps of 255.
fn off(texels: &[f32]) -> f32 {
    let at = |texel: usize| 51.0 + 153.0 * (texel % EDGE) as f32 / (EDGE - 1) as f32;
    let off = |(texel, value): (usize, &f32)| (255.0 * value - at(texel)).abs();
    texels.iter().enumerate().map(off).fold(0.0, f32::max)
}

#[test]
fn what_no_pixel_shows_is_filled_in_few_iterations() {
    let (with, without) = (off(&ramp(10, true)), off(&ramp(10, false)));
    assert!(with < 3.0, "{with} steps off");
    assert!(without > 25.0, "{without} without levels");
    assert!(off(&ramp(200, false)) < 0.5, "the ramp is the solution");
}
