//! The fit on a small cube whose truth is known, scored by the reference renderer on a view that it was not given.

use super::*;
use crate::bake::atlas::Atlas;
use crate::bake::fixture::{Random, around, camera, cube, paint, ties, view, waves};
use crate::bake::native::Native;
use crate::bake::plan::Round;
use crate::bake::scene::Scene;
use crate::bake::{fill, gutter, start};
use crate::render::render;
use proto::job::{Blend, Memory, Quality};
use proto::table::{Camera, Texture, View};

const TEXTURE: u32 = 96;
const PICTURE: [u32; 2] = [64, 64];
const VIEWS: u32 = 12;

fn seen_from(eye: [f64; 3]) -> Camera {
    camera(eye, 72.0, PICTURE, [0.0, 0.0])
}

fn truth() -> Texture {
    paint(&cube(), TEXTURE, waves)
}

fn views(count: u32) -> Vec<View> {
    let truth = truth();
    (0..count)
        .map(|k| {
            let camera = seen_from(around(k, count, 2.0));
            view(k, &cube(), &truth, camera, PICTURE)
        })
        .collect()
}

/// Each byte off by noise of this standard deviation (of three evenly distributed numbers), in sRGB bytes.
fn noisy(mut views: Vec<View>, deviation: f64) -> Vec<View> {
    let mut random = Random(2);
    for pixel in views.iter_mut().flat_map(|view| &mut view.pixels) {
        for byte in &mut pixel[..3] {
            let sum: f64 = (0..3).map(|_| random.within(-1.0, 1.0)).sum();
            *byte = (f64::from(*byte) + deviation * sum).round() as u8;
        }
    }
    views
}

/// The third view shows a solid block instead of the object.
fn blocked(mut views: Vec<View>) -> Vec<View> {
    for pixel in &mut views[2].pixels {
        *pixel = [255, 0, 255, 255];
    }
    views
}

fn plan(scales: &[f32]) -> Plan {
    Plan {
        taps: 4,
        smoothness: Smoothness::FromSpread,
        rounds: scales
            .iter()
            .map(|&scale| Round {
                scale,
                iterations: 10,
            })
            .collect(),
    }
}

fn baked(views: &[View], plan: &Plan) -> (Texture, Fitted) {
    let scene = Scene::new(&cube(), TEXTURE);
    let atlas = Atlas::new(&scene);
    let blend = Blend::Linear;
    let mut native = Native::new(scene.clone(), ties(&atlas), plan.taps, blend, Memory::Full);
    for view in views {
        native.add_view(view).expect("the processor does not fail");
    }
    let observed = start(&mut native, &scene, &atlas).expect("likewise");
    let fitted = fit(&mut native, plan, |_, _| ()).expect("likewise");
    let texels = native.read_texels().expect("likewise");
    let texture = gutter::gutter(texels, &observed, &atlas, TEXTURE, blend);
    (texture, fitted)
}

/// PSNR in dB on three views that no fit was given, over the pixels that the cube covers wholly.
fn score(texture: &Texture) -> f64 {
    let (mesh, truth) = (cube(), truth());
    let (mut sum, mut count) = (0.0, 0.0);
    for eye in [[1.2, 0.8, 1.5], [-1.4, -1.1, 0.9], [0.3, 1.4, -1.6]] {
        let shown = |texture: &Texture| {
            let camera = seen_from(eye);
            render(&mesh, texture.into(), &camera, PICTURE, 6, Blend::Linear)
        };
        let (one, other) = (shown(texture), shown(&truth));
        for (pixel, _) in one.coverage.iter().enumerate().filter(|(_, c)| **c == 1.0) {
            for channel in 0..3 {
                let error = one.colours[pixel][channel] - other.colours[pixel][channel];
                sum += f64::from(error * error);
                count += 1.0;
            }
        }
    }
    assert!(count > 5000.0);
    -10.0 * (sum / count).log10()
}

const ROBUST: [f32; 3] = [0.1, 0.05, 0.02];

#[test]
fn a_view_that_was_not_given_is_explained() {
    let clean = score(&baked(&views(VIEWS), &plan(&ROBUST)).0);
    assert!(clean > 48.2, "{clean} dB");
    let standard = score(&baked(&views(VIEWS), &Plan::new(Quality::Standard)).0);
    assert!(standard > 45.9, "{standard} dB");
    // Without the fit, the filled average is what would be handed over.
    let average = score(&baked(&views(VIEWS), &plan(&[])).0);
    assert!(average < clean - 6.0, "{average} dB");
}

#[test]
fn one_false_view_costs_little_and_without_the_robust_loss_it_costs_all() {
    let views = blocked(views(24));
    let robust = score(&baked(&views, &plan(&ROBUST)).0);
    assert!(robust > 47.6, "{robust} dB");
    let plain = score(&baked(&views, &plan(&[f32::INFINITY; 3])).0);
    assert!(plain < 30.0, "{plain} dB");
}

#[test]
fn noisy_views_want_a_smoother_texture_than_clean_ones() {
    let plan = Plan::new(Quality::Standard);
    let (_, clean) = baked(&views(VIEWS), &plan);
    let (_, noisy) = baked(&noisy(views(VIEWS), 12.0), &plan);
    assert!(noisy.smoothness > clean.smoothness);
}

#[test]
fn too_few_views_to_leave_one_out_take_a_fixed_smoothness() {
    let plan = Plan::new(Quality::Standard);
    let (_, fitted) = baked(&views(VIEWS)[..3], &plan);
    assert_eq!(fitted.smoothness, FEW_VIEWS);
    let iterations: u32 = plan.rounds.iter().map(|round| round.iterations).sum();
    assert_eq!(fitted.iterations, iterations);
}

#[test]
fn progress_never_falls_back_and_ends_at_all_of_it() {
    let scene = Scene::new(&cube(), 24);
    let atlas = Atlas::new(&scene);
    let mut native = Native::new(scene.clone(), ties(&atlas), 2, Blend::Linear, Memory::Full);
    for view in views(VIEWS) {
        native.add_view(&view).expect("the processor does not fail");
    }
    native.average().expect("likewise");
    let mut texels = native.read_texels().expect("likewise");
    fill::fill(&scene, &atlas, &mut texels);
    native.write_texels(&texels).expect("likewise");
    let mut heard = Vec::new();
    let plan = Plan::new(Quality::Standard);
    let fitted =
        fit(&mut native, &plan, |done, total| heard.push((done, total))).expect("likewise");
    assert!(heard.is_sorted_by_key(|&(done, _)| done));
    assert!(heard.iter().all(|&(done, total)| done <= total));
    let (done, total) = heard[heard.len() - 1];
    assert_eq!((done, total), (fitted.iterations, fitted.iterations));
}

fn residuals(bins: &[(usize, u32)]) -> ViewResiduals {
    let mut histogram = [0; BINS];
    for &(bin, count) in bins {
        histogram[bin] = count;
    }
    ViewResiduals {
        view: 0,
        rows: u64::from(bins.iter().map(|bin| bin.1).sum::<u32>()),
        histogram,
        sum_squares: 0.0,
    }
}

#[test]
fn quantiles_are_of_all_views_together() {
    let views = [residuals(&[(100, 30), (200, 10)]), residuals(&[(150, 60)])];
    assert_eq!(quantile(&views, 0.0), bin_middle(100));
    assert_eq!(quantile(&views, 0.29), bin_middle(100));
    assert_eq!(quantile(&views, 0.5), bin_middle(150));
    assert_eq!(quantile(&views, 0.95), bin_middle(200));
    assert_eq!(quantile(&views[..1], 0.5), bin_middle(100));
    assert_eq!(quantile(&[], 0.5), 0.0);
    assert_eq!(quantile(&[residuals(&[])], 0.5), 0.0);
}

#[test]
fn spread_is_the_deviation_of_normal_residuals_whatever_the_outliers() {
    // |error| of a normal distribution of deviation 0.02: half of them below 0.6745 deviations.
    let mut random = Random(4);
    let mut histogram = [0; BINS];
    for _ in 0..20_000 {
        let sum: f64 = (0..12).map(|_| random.within(-0.5, 0.5)).sum();
        histogram[crate::bake::backend::bin_of(0.02 * sum.abs() as f32)] += 1;
    }
    let clean = ViewResiduals {
        histogram,
        ..residuals(&[])
    };
    // A bin is 2^(1/16) wide.
    assert!((spread(std::slice::from_ref(&clean)) / 0.02 - 1.0).abs() < 0.045);
    let mut outliers = clean.clone();
    outliers.histogram[BINS - 1] += 2000;
    assert!((spread(&[outliers]) / 0.02 - 1.0).abs() < 0.18);
}

#[test]
fn large_errors_count_alike_in_cross_validation() {
    let of = |bin| robust_error([residuals(&[(bin, 10)])].iter());
    assert!(of(BINS - 1) < 0.011 && of(BINS - 1) > 0.009);
    // Small ones count squared: sixteen bins are a factor of two.
    assert!((of(100) / of(84) - 4.0).abs() < 1e-3);
    assert_eq!(robust_error([].iter()), 0.0);
}

#[test]
fn smoothness_from_the_spread_grows_with_it_to_a_bound() {
    let of = |bin| from_spread(&[residuals(&[(bin, 10)])]);
    assert!((of(0) / 2e-3 - 1.0).abs() < 1e-3);
    assert!(of(150) > of(100));
    assert_eq!(of(BINS - 1), STRONGEST);
}
