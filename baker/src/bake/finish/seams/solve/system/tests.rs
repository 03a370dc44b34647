//! The products of the solver against the sum of squares itself, computed over whole mip levels.

use proto::job::Blend;

use crate::bake::finish::seams;
use crate::bake::finish::seams::rows::{levels, rows};
use crate::bake::finish::seams::side::Charted;
use crate::bake::finish::seams::solve::system::*;
use crate::bake::finish::seams::solve::{ROUNDS, anchors};
use crate::bake::fixture::{Random, cube, waves};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::raster::NOTHING;
use crate::bake::model::scene::Scene;

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

/// A system over the cube with its rows, before its first round.
fn system(texels: &[[f32; 4]], firm: Option<f32>) -> (SeamSystem, Vec<Vec<SeamRow>>) {
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
    let rows: Vec<Vec<SeamRow>> = (0..levels(SIZE)).map(of_level).collect();
    let forest = Forest::new(&charts, SIZE, &rows);
    let observed: Vec<f32> = atlas
        .triangles
        .iter()
        .map(|&t| if t == NOTHING { 0.0 } else { 2.0 })
        .collect();
    let anchors = match firm {
        Some(firm) => vec![firm; forest.texels.len()],
        None => anchors(&forest.texels, &charts, &observed, 1.0),
    };
    let space = (SIZE, Space::Colour(Blend::Linear));
    let mut system = SeamSystem::new(forest, &rows, anchors, space);
    system.look(texels, SIZE, &rows);
    system.linearise(&rows, false);
    (system, rows)
}

/// `Σ w d² (…)` of what the rows see of a texture, in one channel. With `target`, the pull is measured from the
/// targets.
fn squares(system: &SeamSystem, rows: &[Vec<SeamRow>], texels: &[[f32; 4]], target: bool) -> f64 {
    let (mut sum, mut mip) = (0.0, texels.to_vec());
    let mut strengths = system.strengths.iter();
    for (level, rows) in rows.iter().enumerate() {
        if level > 0 {
            let mut coarser = vec![[0.0; 4]; (SIZE >> level).pow(2)];
            half(&mip, SIZE >> (level - 1), &mut coarser);
            mip = coarser;
        }
        for (row, strength) in rows.iter().zip(&mut strengths) {
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
            let pull = f64::from(strength[3]);
            sum += f64::from(strength[1]) * (off * off + pull * mean * mean);
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

/// The normal matrix times a change of the nodes.
fn applied(system: &mut SeamSystem, change: &[[f32; 4]]) -> Vec<[f32; 4]> {
    system.p.copy_from_slice(change);
    system.mips.copy_from_slice(change);
    for (mips, above) in (system.mips.chunks_mut(PIECE)).zip(system.forest.above.chunks(PIECE)) {
        add_up(mips, above);
    }
    system.apply();
    system.q.clone()
}

/// A random change of those nodes that have texels of their own.
fn change(system: &SeamSystem, seed: u64) -> Vec<[f32; 4]> {
    let mut change = random(system.forest.len(), seed);
    for (change, anchor) in change.iter_mut().zip(&system.anchors) {
        if anchor[1] == 0.0 {
            *change = [0.0; 4];
        }
    }
    change
}

/// The change of each texel for a change of the nodes: colour, texel, and 1 / (a d²) of the texel.
fn spread(system: &SeamSystem, change: &[[f32; 4]]) -> Vec<([f32; 4], u32, f64)> {
    let forest = &system.forest;
    let mut all = Vec::new();
    for (node, change) in change.iter().enumerate() {
        for own in forest.own[node] as usize..forest.own[node + 1] as usize {
            let part: [f32; 4] = std::array::from_fn(|c| {
                system.give[own][c] * forest.share(node) * system.anchors[node][c] * change[c]
            });
            all.push((part, forest.texels[own], f64::from(system.give[own][1])));
        }
    }
    all
}

#[test]
fn products_are_those_of_the_sum_of_squares() {
    let texels = random(SIZE * SIZE, 1);
    let (mut system, rows) = system(&texels, None);
    system.begin(false);
    let (u, v) = (change(&system, 2), change(&system, 3));
    let (au, av) = (applied(&mut system, &u), applied(&mut system, &v));
    assert!(
        (product(&u, &av) / product(&v, &au) - 1.0).abs() < 1e-5,
        "symmetric"
    );

    let (mut moved, mut stay) = (vec![[0.0; 4]; SIZE * SIZE], 0.0);
    for (part, texel, give) in spread(&system, &u) {
        moved[texel as usize] = part;
        stay += f64::from(part[1]).powi(2) / give;
    }
    let seen = squares(&system, &rows, &moved, false);
    assert!(seen > 0.1 * stay && stay > 1e-3 * seen, "both parts show");
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
    let (mut system, rows) = system(&texels, None);
    system.begin(false);
    let change = change(&system, 5);
    let parts = spread(&system, &change);
    let at = |step: f32| {
        let mut moved = texels.clone();
        for (part, texel, _) in &parts {
            moved[*texel as usize][1] += step * part[1];
        }
        squares(&system, &rows, &moved, true)
    };
    // The sum is quadratic: central differences are exact but for rounding. At the start the anchors have no slope.
    let slope = (at(0.05) - at(-0.05)) / 0.1;
    let found = -2.0 * product(&system.r, &change);
    assert!((slope / found - 1.0).abs() < 1e-3, "{slope} {found}");
}

#[test]
fn the_diagonal_is_that_of_the_products() {
    let texels = random(SIZE * SIZE, 6);
    let (mut system, ..) = system(&texels, None);
    system.begin(false);
    let inverse = system.inverse.clone();
    let nodes: Vec<usize> = (0..inverse.len())
        .filter(|&k| inverse[k][1] > 0.0)
        .collect();
    let mut like = 0;
    let tried = nodes.iter().step_by(nodes.len() / 60);
    let count = tried.len();
    for &node in tried {
        let mut unit = vec![[0.0; 4]; inverse.len()];
        unit[node] = [1.0; 4];
        let wanted = applied(&mut system, &unit)[node][1];
        let found = 1.0 / inverse[node][1];
        like += u32::from((found / wanted - 1.0).abs() < 1e-3);
        assert!((0.3..3.0).contains(&(found / wanted)));
    }
    // The others are read through several taps of a row.
    assert!(like as usize * 2 > count, "{like} of {count}");
}

/// Smooth, and dark in places.
fn smooth() -> Vec<[f32; 4]> {
    let paint = crate::bake::fixture::paint(&cube(), SIZE as u32, waves);
    let light = |byte: u8| (f32::from(byte) / 255.0).powi(2);
    paint.texels.iter().map(|t| t.map(light)).collect()
}

#[test]
fn it_converges_in_the_iterations_that_it_has() {
    let texels = smooth();
    let (mut system, _) = system(&texels, Some(1.0));
    let mut left = |iterations| {
        let goodness = system.begin(false);
        let before = product(&system.r, &system.r);
        system.conjugate_gradients(goodness, iterations);
        product(&system.r, &system.r) / before
    };
    let (one, all) = (left(1), left(ROUNDS[0]));
    assert!(all < 1e-2 && all < 0.1 * one, "{one} {all}");
}

#[test]
fn once_solved_no_texel_could_do_better_by_itself() {
    let texels = smooth();
    let (mut system, rows) = system(&texels, None);
    let goodness = system.begin(false);
    system.conjugate_gradients(goodness, 400);
    let parts = spread(&system, &system.x);
    let slope = |share: f32, own: usize| {
        let at = |step: f32| {
            let (mut moved, mut stay) = (texels.clone(), 0.0);
            for (k, (part, texel, give)) in parts.iter().enumerate() {
                let part = share * part[1] + if k == own { step } else { 0.0 };
                moved[*texel as usize][1] += part;
                stay += f64::from(part).powi(2) / give;
            }
            squares(&system, &rows, &moved, true) + stay
        };
        (at(0.5) - at(-0.5)).abs()
    };
    let tried: Vec<usize> = (0..parts.len()).step_by(parts.len() / 40).collect();
    let sum = |share: f32| tried.iter().map(|&own| slope(share, own)).sum::<f64>();
    let (before, after) = (sum(0.0), sum(1.0));
    assert!(after < 1e-3 * before, "{before} {after}");
}
