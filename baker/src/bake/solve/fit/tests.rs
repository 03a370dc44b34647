//! The fit on a small cube of known texture, scored by the reference renderer on views that it was not given.

use crate::bake::finish::gutter;
use crate::bake::fixture::{Random, around, camera, cube, paint, ties, view, waves};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::bake::plan::quality::Round;
use crate::bake::solve::backend::{BINS, bin_of};
use crate::bake::solve::fill;
use crate::bake::solve::fit::*;
use crate::bake::solve::fit_texture::start;
use crate::bake::solve::native::Native;
use crate::image::render::render;
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

/// Adds noise to each byte: the sum of three uniform numbers, with this standard deviation in sRGB bytes.
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

/// The third view shows a solid block instead of most of the object, yet not enough for the whole view to be an
/// outlier.
fn blocked(mut views: Vec<View>) -> Vec<View> {
    for row in views[2].pixels.chunks_mut(PICTURE[0] as usize) {
        row[..40].fill([255, 0, 255, 255]);
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

/// On the subset from `enough` rows on.
fn cross_validated(iterations: u32, enough: u64) -> Smoothness {
    Smoothness::CrossValidated {
        iterations,
        enough,
        to_the_last: false,
    }
}

/// The processor with these views.
fn native(scene: &Scene, atlas: &Atlas, views: &[View], taps: u32) -> Native {
    let (blend, memory) = (Blend::Linear, Memory::Full);
    let mut native = Native::new(scene.clone(), ties(atlas), taps, blend, memory);
    for view in views {
        native.add_view(view).expect("the processor does not fail");
    }
    native
}

fn baked(views: &[View], plan: &Plan) -> (Texture, Fitted) {
    baked_from(views, plan, true)
}

/// If `given`, the fit is given the texels that it starts from; otherwise it reads them.
fn baked_from(views: &[View], plan: &Plan, given: bool) -> (Texture, Fitted) {
    let scene = Scene::new(&cube(), TEXTURE);
    let atlas = Atlas::new(&scene);
    let mut native = native(&scene, &atlas, views, plan.taps);
    let (start, observed) = start(&mut native, &scene, &atlas).expect("likewise");
    let fitted = fit(&mut native, plan, given.then_some(start), |_, _| ()).expect("likewise");
    let texels = native.read_texels().expect("likewise");
    let texture = gutter::gutter(texels, &observed, &atlas, TEXTURE, Blend::Linear);
    (texture, fitted)
}

/// PSNR in dB on three views that no fit was given.
fn score(texture: &Texture) -> f64 {
    let eyes = [[1.2, 0.8, 1.5], [-1.4, -1.1, 0.9], [0.3, 1.4, -1.6]];
    score_from(&eyes, texture)
}

/// PSNR in dB over the pixels that the cube covers wholly.
fn score_from(eyes: &[[f64; 3]], texture: &Texture) -> f64 {
    let (mesh, truth) = (cube(), truth());
    let (mut sum, mut count) = (0.0, 0.0);
    for &eye in eyes {
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
    assert!(count > 1000.0 * eyes.len() as f64);
    -10.0 * (sum / count).log10()
}

/// No view.
const NONE: [u32; 0] = [];

const ROBUST: [f32; 3] = [0.1, 0.05, 0.02];

#[test]
fn a_view_that_was_not_given_is_explained() {
    let clean = score(&baked(&views(VIEWS), &plan(&ROBUST)).0);
    assert!(clean > 48.2, "{clean} dB");
    let standard = score(&baked(&views(VIEWS), &Plan::new(Quality::Standard)).0);
    assert!(standard > 45.9, "{standard} dB");
    // Without the fit, the filled average would be the result.
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
fn a_subset_of_the_rows_finds_about_the_same_smoothness_and_the_texture_is_as_good() {
    let by = |enough: u64| {
        let mut plan = Plan::new(Quality::Standard);
        plan.smoothness = cross_validated(6, enough);
        plan
    };
    let views = noisy(views(VIEWS), 2.0);
    let ((all, by_all), (few, by_few)) = (baked(&views, &by(u64::MAX)), baked(&views, &by(0)));
    assert!(by_all.smoothness != by_few.smoothness, "other rows");
    let ratio = by_few.smoothness / by_all.smoothness;
    assert!((0.25..4.0).contains(&ratio), "{ratio}");
    let opened: u32 = OPENING.iter().map(|round| round.iterations).sum();
    let rounds = iterations_of(&by(0).rounds);
    assert_eq!((by_few.iterations - rounds - opened) % 6, 0);
    let (all, few) = (score(&all), score(&few));
    assert!((all - few).abs() < 0.5, "{all} and {few} dB");
}

#[test]
fn where_the_subset_shows_next_to_nothing_all_rows_find_the_smoothness() {
    // All charts lie in one square of the texture, which is not in the subset.
    let mut mesh = cube();
    for uv in &mut mesh.uvs {
        *uv = uv.map(|at| (1.05 + 0.9 * at) / 32.0);
    }
    let scene = Scene::new(&mesh, 32 * 48);
    let atlas = Atlas::new(&scene);
    let by = |enough: u64| {
        let mut native = native(&scene, &atlas, &views(VIEWS), 2);
        start(&mut native, &scene, &atlas).expect("likewise");
        let mut plan = Plan::new(Quality::Draft);
        plan.smoothness = cross_validated(6, enough);
        let fitted = fit(&mut native, &plan, None, |_, _| ()).expect("likewise");
        (fitted.smoothness, fitted.iterations)
    };
    assert_eq!(by(0), by(u64::MAX));
}

#[test]
fn texels_that_the_fit_is_given_are_those_that_it_would_read() {
    // With all rows, then with the subset while λ is sought. After the subset the texels are restored, also those that
    // the fit was given.
    for enough in [u64::MAX, 1] {
        let plan = Plan {
            smoothness: cross_validated(3, enough),
            ..plan(&[0.06, 0.03])
        };
        let [given, read] = [true, false].map(|given| baked_from(&views(VIEWS), &plan, given));
        assert!(given.0.texels == read.0.texels, "{enough}");
        assert_eq!(given.1.smoothness, read.1.smoothness);
    }
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
    let mut native = native(&scene, &atlas, &views(VIEWS), 2);
    native.average().expect("likewise");
    let mut texels = native.read_texels().expect("likewise");
    fill::fill(&scene, &atlas, &mut texels);
    native.write_texels(&texels).expect("likewise");
    let mut heard = Vec::new();
    let plan = Plan::new(Quality::Standard);
    let fitted = fit(&mut native, &plan, None, |done, total| {
        heard.push((done, total));
    })
    .expect("likewise");
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
    // |error| of a normal distribution of deviation 0.02: half lies below 0.6745 deviations.
    let mut random = Random(4);
    let mut histogram = [0; BINS];
    for _ in 0..20_000 {
        let sum: f64 = (0..12).map(|_| random.within(-0.5, 0.5)).sum();
        histogram[bin_of(0.02 * sum.abs() as f32)] += 1;
    }
    let clean = ViewResiduals {
        histogram,
        ..residuals(&[])
    };
    // A bin is 2^(1/16) wide.
    assert!((spread([&clean]) / 0.02 - 1.0).abs() < 0.045);
    let mut outliers = clean.clone();
    outliers.histogram[BINS - 1] += 2000;
    assert!((spread([&outliers]) / 0.02 - 1.0).abs() < 0.18);
}

#[test]
fn large_errors_count_alike_in_cross_validation() {
    let of = |bin| robust_error([residuals(&[(bin, 10)])].iter());
    let most = JUDGED * JUDGED;
    assert!(of(BINS - 1) < most && of(BINS - 1) > 0.9 * most);
    // Small residuals count squared: sixteen bins are a factor of two.
    assert!((of(68) / of(52) - 4.0).abs() < 1e-3);
    assert_eq!(robust_error([].iter()), 0.0);
}

#[test]
fn what_only_a_judge_shows_does_not_outvote_what_the_others_explain() {
    // A tenth of its pixels show what no other view shows, which a stronger λ blurs better: 0.19 instead of 0.2. On the
    // rest, a weaker one leaves half the error.
    let judge = |unseen: f32, rest: f32| {
        let bins = [(bin_of(unseen), 100), (bin_of(rest), 900)];
        robust_error([residuals(&bins)].iter())
    };
    assert!(judge(0.2, 0.002) < judge(0.19, 0.004));
}

#[test]
fn smoothness_from_the_spread_grows_with_it_to_a_bound() {
    let of = |bin| from_spread(spread(&[residuals(&[(bin, 10)])]));
    assert!((of(0) / 2e-3 - 1.0).abs() < 1e-3);
    assert!(of(150) > of(100));
    assert_eq!(of(BINS - 1), SMOOTHEST);
}

/// Blurs the views for which `of` holds: a mean over the opaque ones of 9×9 pixels.
fn blurred(mut views: Vec<View>, of: impl Fn(u32) -> bool) -> Vec<View> {
    for view in views.iter_mut().filter(|view| of(view.index)) {
        let sharp = view.pixels.clone();
        let [width, height] = PICTURE;
        let near = |at: u32, end: u32| at.saturating_sub(4)..(at + 5).min(end);
        for (at, pixel) in view.pixels.iter_mut().enumerate() {
            let (x, y) = (at as u32 % width, at as u32 / width);
            let around: Vec<[u8; 4]> = near(y, height)
                .flat_map(|y| near(x, width).map(move |x| (y * width + x) as usize))
                .map(|at| sharp[at])
                .filter(|pixel| pixel[3] == 255)
                .collect();
            if pixel[3] == 255 {
                for channel in 0..3 {
                    let sum: usize = around.iter().map(|pixel| usize::from(pixel[channel])).sum();
                    pixel[channel] = (sum / around.len()) as u8;
                }
            }
        }
    }
    views
}

#[test]
fn blurred_views_are_found_and_cost_no_more_than_to_be_without_them() {
    let plan = Plan::new(Quality::Standard);
    let (_, fitted) = baked(&views(24), &plan);
    assert_eq!(fitted.outliers, NONE);
    let fourth = |view: u32| view % 4 == 1;
    let with_blur = blurred(views(24), fourth);
    let (texture, fitted) = baked(&with_blur, &plan);
    assert_eq!(fitted.outliers, [1, 5, 9, 13, 17, 21]);
    let sharp: Vec<View> = (with_blur.into_iter())
        .filter(|view| !fourth(view.index))
        .collect();
    let (all, sharp) = (score(&texture), score(&baked(&sharp, &plan).0));
    assert!(all > sharp - 0.3, "{all} of {sharp} dB");
}

#[test]
fn what_only_outlier_views_show_is_still_taken_from_them() {
    // The top, at y = 0.5, is seen only by views in which all other faces are a little too bright.
    let bright = paint(&cube(), TEXTURE, |at| {
        waves(at).map(|value| if at[1] > 0.499 { value } else { value + 0.08 })
    });
    let height = |view: u32| around(view, 24, 2.0)[1];
    let above = |view: u32| height(view) > 0.5;
    let mut given = views(24);
    given.retain(|view| height(view.index) < 1.2);
    for shown in given.iter_mut().filter(|view| above(view.index)) {
        *shown = view(shown.index, &cube(), &bright, shown.camera, PICTURE);
    }
    let (texture, fitted) = baked(&given, &Plan::new(Quality::Standard));
    assert!(
        fitted.outliers.len() > 2
            && (0..24)
                .filter(|&at| above(at) && height(at) < 1.2)
                .eq(fitted.outliers)
    );
    given.retain(|view| !above(view.index));
    let (filled, _) = baked(&given, &Plan::new(Quality::Standard));
    let top = [[0.1, 2.0, 0.2]];
    let (shown, filled) = (score_from(&top, &texture), score_from(&top, &filled));
    assert!(
        shown > filled + 4.0,
        "{shown} and, never shown, {filled} dB"
    );
}

#[test]
fn a_view_is_an_outlier_by_what_a_fifth_of_its_pixels_stay_below() {
    let usual = 130;
    let view = |index, bins: &[(usize, u32)]| ViewResiduals {
        view: index,
        ..residuals(bins)
    };
    let outliers = |odd: &[(usize, u32)], count: u32, all: u32| {
        let views: Vec<ViewResiduals> = (0..all)
            .map(|at| {
                if at < count {
                    view(at, odd)
                } else {
                    view(at, &[(usual, 10)])
                }
            })
            .collect();
        Outliers::of(&views).indices(&views)
    };
    // Sixteen bins are a factor of two, so 24 are 2.8 and 28 are 3.4.
    assert_eq!(outliers(&[(usual + 28, 10)], 2, 6), [0, 1]);
    assert_eq!(outliers(&[(usual + 24, 10)], 2, 6), NONE);
    assert_eq!(outliers(&[(usual + 28, 10)], 2, 5), NONE, "too few to tell");
    assert_eq!(outliers(&[(usual + 28, 10)], 3, 6), NONE, "half of them");
    // A highlight over most of the view.
    assert_eq!(outliers(&[(usual, 3), (BINS - 1, 7)], 1, 6), NONE);
    assert_eq!(outliers(&[(usual, 1), (BINS - 1, 9)], 1, 6), [0]);
    // Residuals that 8 bits cannot tell.
    let tiny: Vec<ViewResiduals> = (0..6)
        .map(|at| view(at, &[(if at == 0 { 60 } else { 0 }, 10)]))
        .collect();
    assert!(bin_middle(60) < 0.5 / 255.0 * 3.0 && Outliers::of(&tiny).count() == 0);
}

#[test]
fn the_least_error_lies_between_those_tried() {
    let errors = |at: f64| [0.0_f64, 1.0, 2.0, 3.0].map(|k| 0.01 * (0.2 * (k - at).powi(2)).exp());
    for at in [0.6, 1.0, 1.9, 2.4] {
        assert!((least_at(&errors(at)) - at).abs() < 1e-9, "{at}");
    }
    // At either end nothing is known beyond it.
    assert_eq!(least_at(&[1.0, 2.0, 3.0]), 0.0);
    assert_eq!(least_at(&[3.0, 2.0, 1.0]), 2.0);
    // No choice between them: the strongest.
    assert_eq!(least_at(&[2.0, 2.0, 2.0]), 0.0);
    assert_eq!(least_at(&[1.0, 0.0, 1.0]), 1.0);
}

#[test]
fn a_step_that_gains_little_is_the_last_only_after_one_that_gained() {
    assert!(!is_last(&[3.18]));
    assert!(!is_last(&[3.18, 3.15]), "all are too smooth as yet");
    assert!(!is_last(&[3.18, 3.15, 3.12]));
    assert!(!is_last(&[3.18, 3.15, 2.0]));
    assert!(is_last(&[3.18, 3.15, 2.0, 1.99]));
    assert!(is_last(&[3.18, 3.19]), "it was smooth enough before");
    assert!(is_last(&[2.0, 1.0, 1.1]));
    assert!(is_last(&[0.0, 0.0]));
}

#[test]
fn a_step_that_gained_only_iterations_is_late() {
    assert!(is_late(&[30.0, 2.0, 1.99]));
    assert!(!is_late(&[30.0, 2.0, 1.9]));
    assert!(!is_late(&[3.0, 2.0, 2.01]), "the minimum lies between");
    assert!(
        !is_late(&[30.0, 26.7, 25.7, 25.4]),
        "much of what there was"
    );
    assert!(
        !is_late(&[11.9, 4.3, 3.04, 3.0]),
        "1.3 %, and the λ before it cost 2 dB"
    );
    assert!(!is_late(&[3.0]));
}

#[test]
fn flat_colours_with_sharp_edges_stay_sharp() {
    // Spots: blur at their edges is so large that it counts as an outlier, and the rest is flat.
    let spots = |at: [f32; 3]| {
        let wave: f32 = at.map(|x| (5.0 * x + 0.4).sin()).iter().sum();
        if wave > 0.6 {
            [0.05; 3]
        } else {
            [0.95, 0.9, 0.85]
        }
    };
    let (mesh, size) = (cube(), [160, 160]);
    let texture = paint(&mesh, 4 * TEXTURE, spots);
    let views: Vec<View> = (0..24)
        .map(|k| {
            let camera = camera(around(k, 24, 2.0), 180.0, size, [0.0, 0.0]);
            view(k, &mesh, &texture, camera, size)
        })
        .collect();
    let (_, fitted) = baked(&views, &Plan::new(Quality::Standard));
    assert!(fitted.smoothness < 0.1, "{}", fitted.smoothness);
}
