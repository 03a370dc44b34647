//! The products of the solver against the sum of squares itself, computed over whole mip levels.

use super::*;
use crate::bake::atlas::Atlas;
use crate::bake::fixture::{Random, cube, waves};
use crate::bake::raster::NOTHING;
use crate::bake::scene::Scene;
use crate::bake::seams;

/// Odd, so that mips leave a row and a column out.
const SIZE: usize = 75;

fn random(count: usize, seed: u64) -> Vec<[f32; 4]> {
    let mut random = Random(seed);
    let mut texel = || {
        std::array::from_fn(|c| {
            if c < 3 {
                random.within(0.1, 0.9) as f32
            } else {
                0.0
            }
        })
    };
    (0..count).map(|_| texel()).collect()
}

/// A system over the cube with the rows and anchors that made it.
fn system(texels: &[[f32; 4]]) -> (System, Vec<Vec<Row>>, Vec<f32>) {
    let scene = Scene::new(&cube(), SIZE as u32);
    let atlas = Atlas::new(&scene);
    let (sides, charts) = seams::seams(&scene, &atlas);
    let charted = Charted {
        texels,
        charts: &charts,
        size: SIZE,
    };
    let of_level = |level| {
        let mut rows = rows(SIZE, &sides, level);
        charted.aim(&mut rows, level);
        rows
    };
    let rows: Vec<Vec<Row>> = (0..levels(SIZE)).map(of_level).collect();
    let hierarchy = Hierarchy::new(&charts, SIZE, &rows);
    let observed: Vec<f32> = atlas
        .triangles
        .iter()
        .map(|&t| if t == NOTHING { 0.0 } else { 2.0 })
        .collect();
    let anchors = anchors(&hierarchy.texels, &charts, &observed, 1.0);
    let start = gather(&hierarchy.texels, texels);
    let mut system = System::new(hierarchy, &rows, Space::Colour(Blend::Linear));
    system.linearise(texels, SIZE, &rows, &start, &anchors);
    (system, rows, anchors)
}

/// `Σ w d² (…)` of what the rows see of a texture, in one channel; `target` counts the pull as from its colours.
fn squares(system: &System, rows: &[Vec<Row>], texels: &[[f32; 4]], target: bool) -> f64 {
    let (mut sum, mut mip) = (0.0, texels.to_vec());
    for (level, rows) in rows.iter().enumerate() {
        if level > 0 {
            mip = half(&mip, SIZE >> (level - 1));
        }
        for (row, lookups) in rows.iter().zip(0..) {
            let shown = row.taps.map(|taps| {
                let parts =
                    taps.map(|tap| f64::from(tap.weight) * f64::from(mip[tap.texel as usize][1]));
                parts.iter().sum::<f64>()
            });
            let goal = row
                .target
                .filter(|_| target)
                .map_or(0.0, |target| f64::from(target[1]));
            let (off, mean) = (shown[0] - shown[1], 0.5 * (shown[0] + shown[1]) - goal);
            let found: &Lookups = &system.lookups[level];
            let pull = f64::from(found.pulls[lookups]);
            sum += f64::from(found.strengths[lookups][1]) * (off * off + pull * mean * mean);
        }
    }
    sum
}

fn product(one: &[[f32; 4]], other: &[[f32; 4]]) -> f64 {
    one.iter()
        .zip(other)
        .map(|(a, b)| f64::from(a[1]) * f64::from(b[1]))
        .sum()
}

fn applied(system: &mut System, change: &[[f32; 4]]) -> Vec<[f32; 4]> {
    let mut product = vec![[0.0; 4]; change.len()];
    system.apply(change, &mut product);
    product
}

#[test]
fn products_are_those_of_the_sum_of_squares() {
    let texels = random(SIZE * SIZE, 1);
    let (mut system, rows, _) = system(&texels);
    let count = system.hierarchy.texels.len();
    let (u, v) = (random(count, 2), random(count, 3));
    let (au, av) = (applied(&mut system, &u), applied(&mut system, &v));
    assert!(
        (product(&u, &av) / product(&v, &au) - 1.0).abs() < 1e-5,
        "symmetric"
    );

    let mut spread = vec![[0.0; 4]; SIZE * SIZE];
    for (&texel, value) in system.hierarchy.texels.iter().zip(&u) {
        spread[texel as usize] = *value;
    }
    let stay: f64 = u
        .iter()
        .zip(&system.anchors)
        .map(|(u, a)| f64::from(a[1]) * f64::from(u[1]).powi(2))
        .sum();
    let seen = squares(&system, &rows, &spread, false);
    assert!(seen > 0.1 * stay, "both parts show");
    let wanted = seen + stay;
    assert!(
        (product(&u, &au) / wanted - 1.0).abs() < 1e-4,
        "{} {wanted}",
        product(&u, &au)
    );
}

#[test]
fn the_first_step_goes_down_the_slope_of_the_sum_of_squares() {
    let texels = random(SIZE * SIZE, 4);
    let (mut system, rows, _) = system(&texels);
    let start = gather(&system.hierarchy.texels, &texels);
    let down = system.defect(&rows, &start, &start);
    let change = random(start.len(), 5);
    let at = |step: f32| {
        let mut moved = texels.clone();
        for (&texel, change) in system.hierarchy.texels.iter().zip(&change) {
            moved[texel as usize][1] += step * change[1];
        }
        squares(&system, &rows, &moved, true)
    };
    // The sum is quadratic: central differences are exact but for rounding. At the start the anchors have no slope.
    let slope = (at(0.05) - at(-0.05)) / 0.1;
    let found = -2.0 * product(&down, &change);
    assert!((slope / found - 1.0).abs() < 1e-3, "{slope} {found}");
}

#[test]
fn the_diagonal_is_that_of_the_products() {
    let texels = random(SIZE * SIZE, 6);
    let (mut system, ..) = system(&texels);
    let diagonal = system.diagonal();
    let count = diagonal.len();
    let mut like = 0;
    let tried: Vec<usize> = (0..count).step_by(count / 60).collect();
    for &texel in &tried {
        let mut unit = vec![[0.0; 4]; count];
        unit[texel] = [1.0; 4];
        let wanted = applied(&mut system, &unit)[texel][1];
        like += u32::from((diagonal[texel][1] / wanted - 1.0).abs() < 1e-3);
        assert!((0.3..3.0).contains(&(diagonal[texel][1] / wanted)));
    }
    // Others are read through several taps of a row.
    assert!(like as usize * 2 > tried.len(), "{like} of {}", tried.len());
}

#[test]
fn it_converges_in_the_iterations_that_it_has() {
    let scene = Scene::new(&cube(), SIZE as u32);
    let paint = crate::bake::fixture::paint(&cube(), SIZE as u32, waves);
    let texels: Vec<[f32; 4]> = paint
        .texels
        .iter()
        .map(|t| t.map(|byte| (f32::from(byte) / 255.0).powi(2)))
        .collect();
    let (mut system, rows, _) = system(&texels);
    assert_eq!(scene.texels(), texels.len());
    let start = gather(&system.hierarchy.texels, &texels);
    let mut left = |iterations| {
        let mut residual = {
            system.linearise(&texels, SIZE, &rows, &start, &vec![1.0; start.len()]);
            system.defect(&rows, &start, &start)
        };
        let inverse: Vec<[f32; 4]> = system
            .diagonal()
            .iter()
            .map(|d| d.map(|x| 1.0 / x.max(1e-20)))
            .collect();
        let before = product(&residual, &residual);
        system.conjugate_gradients(&mut residual, &inverse, iterations);
        product(&residual, &residual) / before
    };
    let (one, all) = (left(1), left(ROUNDS[0]));
    assert!(all < 1e-3 && all < 0.05 * one, "{one} {all}");
}
