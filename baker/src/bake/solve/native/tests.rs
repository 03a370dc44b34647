//! The processor's adapter as a whole: it is repeatable, the memory bound leaves no trace in its results, and each call
//! does what it says.

use crate::bake::fixture::{around, camera, cube, noise, paint, ties, view, waves};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::footprint::footprints;
use crate::bake::model::row_cache::BUDGET;
use crate::bake::solve::native::*;

/// Four plots, of which three are cut.
const SIZE: u32 = 100;
const STRENGTH: Strength = Strength {
    smoothness: 0.01,
    seam: 0.02,
};

fn views(count: u32) -> Vec<View> {
    let (mesh, size) = (cube(), [41, 37]);
    let texture = paint(&mesh, SIZE, waves);
    (0..count)
        .map(|k| {
            let camera = camera(around(k, count, 2.2), 50.0, size, [0.5, 1.0]);
            view(10 + k, &mesh, &texture, camera, size)
        })
        .collect()
}

fn native(views: &[View], budget: usize) -> Native {
    let scene = Scene::new(&cube(), SIZE);
    let ties = ties(&Atlas::new(&scene));
    let mut native = Native::with_budget(scene, ties, 2, Blend::Linear, RowBudget::new(budget));
    for view in views {
        native.add_view(view).expect("the processor does not fail");
    }
    native
}

/// `Σ a · value` over the rows of all views, for each texel.
fn sums<const N: usize>(views: &[View], value: impl Fn([u8; 4]) -> [f64; N]) -> Vec<[f64; N]> {
    let scene = Scene::new(&cube(), SIZE);
    let mut sums = vec![[0.0; N]; scene.texels()];
    for rows in views.iter().flat_map(|view| footprints(&scene, view, 2)) {
        for row in 0..rows.len() {
            let value = value(rows.colours[row]);
            for entry in rows.row(row) {
                let sum = &mut sums[entry.texel as usize];
                for k in 0..N {
                    sum[k] += f64::from(entry.weight) * value[k];
                }
            }
        }
    }
    sums
}

/// Everything that the adapter can do; returns its final texels and residuals.
fn work(mut native: Native) -> (Vec<[f32; 4]>, Vec<ViewResiduals>) {
    native.average().expect("the processor does not fail");
    for scale in [0.2, 0.05] {
        let trust = vec![Belief::from(scale); native.cache.weights.len()];
        native.reweight(&trust, STRENGTH).expect("likewise");
        native.solve(4).expect("likewise");
    }
    let residuals = native.residuals().expect("likewise");
    (native.read_texels().expect("likewise"), residuals)
}

fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads start")
        .install(work)
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let views = views(5);
    let with = |threads, views: &[View]| with_threads(threads, || work(native(views, BUDGET)));
    let one = with(1, &views);
    for threads in [1, 2, 3, 7] {
        assert!(one == with(threads, &views), "{threads} threads");
    }
    assert!(
        one.0 != with(1, &views[1..]).0,
        "another job gives other bytes"
    );
}

#[test]
fn rows_that_are_not_stored_change_nothing() {
    let views = views(7);
    with_threads(3, || {
        let all = native(&views, BUDGET);
        assert_eq!(all.cache.stored_views(), 7);
        let half = all.cache.stored_bytes() / 2;
        let kept = work(all);
        for (budget, views_kept) in [(0, 0..=0), (half, 1..=6)] {
            let bounded = native(&views, budget);
            let count = bounded.cache.stored_views();
            assert!(
                views_kept.contains(&count),
                "{count} kept of {budget} bytes"
            );
            let groups: Vec<usize> = bounded.cache.groups().map(|g| g.views.len()).collect();
            assert_eq!(groups.iter().sum::<usize>(), 7, "{groups:?}");
            assert!(groups.len() > 1);
            assert!(work(bounded) == kept, "a budget of {budget} bytes");
        }
    });
}

#[test]
fn average_is_the_weighted_mean_of_the_pixels() {
    let views = views(4);
    let mut native = native(&views, BUDGET);
    native.average().expect("the processor does not fail");
    let light = |byte: u8| ((f64::from(byte) / 255.0 + 0.055) / 1.055).powf(2.4);
    let sums = sums(&views, |[r, g, b, _]| [light(r), light(g), light(b), 1.0]);
    let texels = native.read_texels().expect("likewise");
    let seen = sums.iter().filter(|sum| sum[3] > 0.0).count();
    assert!((500..texels.len()).contains(&seen), "{seen} texels seen");
    for (texel, sum) in texels.iter().zip(&sums) {
        let weight = sum[3].max(1e-30);
        for channel in 0..3 {
            // Every observed byte is above 10, where the encoding has its power law. Weights have 16 bits.
            assert!((f64::from(texel[channel]) - sum[channel] / weight).abs() < 1e-3);
        }
        assert!((f64::from(texel[3]) - sum[3]).abs() <= 1e-3 * sum[3] + 1e-4);
    }
}

#[test]
fn a_scale_of_zero_takes_a_view_out() {
    let mut odd = views(5);
    // A view that contradicts all others.
    for pixel in &mut odd[2].pixels {
        *pixel = [255, 0, 255, pixel[3]];
    }
    let others: Vec<View> = [0, 1, 3, 4].map(|k| odd[k].clone()).to_vec();
    let solved = |views: &[View], scales: &[f32]| {
        let mut native = native(views, BUDGET);
        let trust: Vec<Belief> = scales.iter().copied().map(Belief::from).collect();
        let grey = vec![[0.3; 4]; native.texels.len()];
        native
            .write_texels(&grey)
            .expect("the processor does not fail");
        native.reweight(&trust, STRENGTH).expect("likewise");
        native.solve(5).expect("likewise");
        native.read_texels().expect("likewise")
    };
    let out = solved(&odd, &[0.1, 0.1, 0.0, 0.1, 0.1]);
    assert!(out == solved(&others, &[0.1; 4]));
    assert!(out != solved(&odd, &[0.1; 5]), "it did count");
}

#[test]
fn residuals_are_zero_for_the_truth_and_plain_numbers_for_black() {
    let views = views(3);
    let mut native = native(&views, 0);
    native
        .write_texels(&vec![[0.0; 4]; (SIZE * SIZE) as usize])
        .expect("the processor does not fail");
    let black = native.residuals().expect("likewise");
    let scene = Scene::new(&cube(), SIZE);
    for (view, found) in views.iter().zip(&black) {
        let (mut rows, mut squares, mut histogram) = (0, 0.0, [0; BINS]);
        for chunk in footprints(&scene, view, 2) {
            for [r, g, b, _] in chunk.colours {
                let [r, g, b] = [r, g, b].map(|byte| f64::from(byte) / 255.0);
                let square = (r * r + g * g + b * b) / 3.0;
                rows += 1;
                squares += square;
                histogram[bin_of(square.sqrt() as f32)] += 1;
            }
        }
        assert_eq!((found.view, found.rows), (view.index, rows));
        assert!((found.sum_squares / squares - 1.0).abs() < 1e-5);
        let moved: u32 = (0..BINS)
            .map(|bin| found.histogram[bin].abs_diff(histogram[bin]))
            .sum();
        assert!(moved <= 4, "rounding at the bins' ends moves {moved}");
    }
    // The true texture leaves only rounding, and 2×2 against the picture's 6×6 lookups at the cube's edges.
    let truth = paint(&cube(), SIZE, waves);
    let as_texels = |texture: &proto::table::Texture| -> Vec<[f32; 4]> {
        let table = observed(Blend::Linear);
        let value = |byte: u8| table[byte as usize].value;
        texture
            .texels
            .iter()
            .map(|texel| texel.map(value))
            .collect()
    };
    let mut worst = |texture| {
        native.write_texels(&as_texels(texture)).expect("likewise");
        let residuals = native.residuals().expect("likewise");
        residuals
            .iter()
            .map(|view| (view.sum_squares / view.rows as f64).sqrt())
            .fold(0.0, f64::max)
    };
    let (explained, not) = (worst(&truth), worst(&noise(SIZE, 3)));
    assert!(explained < 0.015, "{explained}");
    assert!(not > 0.1, "{not}");
}

#[test]
fn pixels_that_show_little_do_not_lower_the_weight_around_them() {
    let mut views = views(1);
    for pixel in views[0].pixels.iter_mut().step_by(2) {
        pixel[3] = pixel[3].min(128);
    }
    let mut native = native(&views, 0);
    // A scale at which no pixel is an outlier.
    (native.reweight(&[Belief::from(f32::INFINITY)], STRENGTH))
        .expect("the processor does not fail");
    let weights = &native.cache.weights[0];
    assert!(weights.len() > 100);
    for group in native.cache.groups() {
        for (&weight, row) in weights.iter().zip(group.rows[0].iter()) {
            let alpha = row.colour[3];
            assert_eq!(weight, alpha_weight(alpha), "alpha {alpha}");
        }
    }
}

#[test]
fn deviations_are_means_by_footprint_and_alpha() {
    let mut views = views(4);
    // Pixels that are not quite opaque count an eighth; weights of a fit do not matter.
    for pixel in views[1].pixels.iter_mut().step_by(3) {
        pixel[3] = pixel[3].min(159);
    }
    let mut native = native(&views, 0);
    let grey = vec![[0.1; 4]; (SIZE * SIZE) as usize];
    native
        .write_texels(&grey)
        .expect("the processor does not fail");
    native
        .reweight(&[Belief::from(0.05); 4], STRENGTH)
        .expect("likewise");
    let found = native.deviations().expect("likewise");
    let shown = 1.055 * 0.1f64.powf(1.0 / 2.4) - 0.055;
    let sums = sums(&views, |[r, g, b, alpha]| {
        let worth = ((f64::from(alpha) - 127.0) / 128.0).powf(1.5);
        let off = [r, g, b].map(|byte| (f64::from(byte) / 255.0 - shown).abs());
        [worth * off.iter().sum::<f64>() / 3.0, worth]
    });
    let seen = sums.iter().filter(|sum| sum[1] > 0.0).count();
    assert!((500..sums.len()).contains(&seen), "{seen} texels seen");
    for (found, [off, weight]) in found.into_iter().zip(sums) {
        if weight > 0.0 {
            // Weights have 16 bits.
            assert!((f64::from(found) - off / weight).abs() < 1e-3);
        } else {
            assert_eq!(found, -1.0);
        }
    }
}

/// Weights of a 40×25 view after the neighbourhood weight; its rows are all its pixels.
fn consensus(weight: impl Fn(u32, u32) -> f32) -> Vec<f32> {
    let pixels: Vec<u32> = (0..40 * 25).collect();
    let mut weights: Vec<f32> = pixels.iter().map(|k| weight(k % 40, k / 40)).collect();
    let rows = || pixels.iter().map(|&pixel| (pixel, true));
    apply_consensus([40, 25], rows, &mut weights);
    weights
}

#[test]
fn a_lone_inlier_among_outliers_counts_little_and_a_lone_outlier_stays_one() {
    let lone = |x: u32, y: u32| (x, y) == (20, 12);
    let inlier = consensus(|x, y| if lone(x, y) { 1.0 } else { 0.01 });
    assert!(inlier[12 * 40 + 20] < 1e-6, "{}", inlier[12 * 40 + 20]);
    let outlier = consensus(|x, y| if lone(x, y) { 0.01 } else { 1.0 });
    assert!(outlier[12 * 40 + 20] <= 0.01);
    assert!(outlier[12 * 40 + 21] > 0.98, "its neighbours keep theirs");
    // Two blocks away nothing changes at all.
    assert_eq!(outlier[12 * 40 + 39], 1.0);
    assert!(consensus(|_, _| 1.0).iter().all(|&weight| weight == 1.0));
}

#[test]
fn consensus_is_the_power_of_the_mean_of_nine_blocks() {
    let weight = |x: u32, y: u32| (x * 7 + y * 13) as f32 % 11.0 / 11.0;
    let found = consensus(weight);
    for (x, y) in [(0, 0), (39, 24), (17, 9), (8, 23)] {
        let near = |at: u32, of: u32| (at / BLOCK).abs_diff(of / BLOCK) <= 1;
        let around: Vec<f32> = (0..40 * 25)
            .filter(|k| near(k % 40, x) && near(k / 40, y))
            .map(|k| weight(k % 40, k / 40))
            .collect();
        let mean = around.iter().sum::<f32>() / around.len() as f32;
        let wanted = weight(x, y) * mean.powi(CONSENSUS_POWER);
        assert!((found[(y * 40 + x) as usize] - wanted).abs() < 1e-5);
    }
}

#[test]
fn a_view_is_told_of_band_by_band_and_announced_by_its_size() {
    use crate::bake::fixture::blank_view;
    use crate::bake::model::footprint::BAND;
    use crate::worker::progress::heard::{Heard, during};

    let add = |size: [u32; 2]| {
        let camera = camera(around(0, 1, 2.2), 50.0, size, [0.5, 1.0]);
        let pixels = vec![[255; 4]; (size[0] * size[1]) as usize];
        let view = blank_view(0, camera, size, pixels);
        // Progress is recorded by thread, so one thread does everything.
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let (_, heard) = one
            .expect("a thread")
            .install(|| during(|| native(&[view], usize::MAX)));
        heard
    };
    let units = |heard: &[Heard]| heard.iter().filter(|&said| *said == Heard::Unit).count();
    let announced = |heard: &[Heard]| {
        let last = heard.iter().rev().find_map(|said| match said {
            Heard::Expect(_, predicted) => Some(*predicted),
            Heard::Unit | Heard::Wait(_) => None,
        });
        last.expect("a prediction")
    };
    let (large, small) = (add([8192, 8192]), add([64, 64]));
    assert!(units(&large) >= (8192 / BAND) as usize, "{}", units(&large));
    // A copy of the view's pixels takes a quarter of a second on a fast machine, and is one unit.
    assert!(announced(&large) >= std::time::Duration::from_secs(1));
    assert!(announced(&small) < std::time::Duration::from_millis(20));
}
