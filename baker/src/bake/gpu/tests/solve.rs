//! Everything after the footprints against [`super::reference`], over the rows that the device itself made.

use proto::job::{Blend, Memory};
use proto::table::View;

use super::reference::{self, System, Texels};
use super::{
    Random, Setup, add, ball, begin, begun, device, fit, gpu, links, options, push, small, soup,
    view,
};
use crate::bake::gpu::Gpu;
use crate::bake::model::colour::to_display;
use crate::bake::model::footprint::footprints;
use crate::bake::model::rows::{Entry, Rows};
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{
    BINS, Backend, BackendError, Belief, Strength, Ties, ViewResiduals, bin_of,
};
use crate::bake::solve::native::Native;
use crate::worker::progress::heard::{self, Heard};

pub(super) const SIZE: u32 = 260;
pub(super) const WIDTHS: [u32; 3] = [37, 45, 53];

pub(super) fn views() -> Vec<View> {
    (0..3)
        .map(|k| view(k + 5, WIDTHS[k as usize], 53, 3.2, f64::from(k)))
        .collect()
}

pub(super) fn random_texels(seed: u64) -> Vec<[f32; 4]> {
    let mut random = Random(seed);
    (0..SIZE * SIZE)
        .map(|_| std::array::from_fn(|_| random.next()))
        .collect()
}

pub(super) fn double(texels: &[[f32; 4]]) -> Texels {
    texels
        .iter()
        .map(|t| [f64::from(t[0]), f64::from(t[1]), f64::from(t[2])])
        .collect()
}

pub(super) const STRENGTH: Strength = Strength {
    smoothness: 1e-2,
    seam: 0.05,
};

/// Links of the scene's atlas, and seam constraints between random texels.
pub(super) fn ties(scene: &Scene) -> Ties {
    let mut random = Random(99);
    let mut ties = links(scene);
    for _ in 0..500 {
        let entries = [0.25, 0.75, -0.5, -0.5].map(|weight| Entry {
            texel: (random.next() * (SIZE * SIZE) as f32) as u32,
            weight,
        });
        push(&mut ties.seams, entries, [0; 4], 0);
    }
    ties
}

/// A job with three views, and its rows.
pub(super) fn job(scene: &Scene, options: &Setup) -> Option<(Gpu, Vec<Rows>)> {
    let mut gpu = begun(scene, &ties(scene), options)?;
    let views = views();
    let rows = views.iter().map(|view| {
        gpu.add_view(view).expect("rows");
        fit(&gpu).rows_of(view).expect("rows")
    });
    let rows = rows.collect();
    Some((gpu, rows))
}

pub(super) fn largest_difference(ours: &[[f32; 4]], theirs: &[[f64; 3]]) -> f64 {
    ours.iter()
        .zip(theirs)
        .flat_map(|(a, b)| (0..3).map(move |c| (f64::from(a[c]) - b[c]).abs()))
        .fold(0.0, f64::max)
}

/// PSNR between two textures.
fn psnr(ours: &[[f32; 4]], theirs: &[[f32; 4]]) -> f64 {
    let squares = ours.iter().zip(theirs).flat_map(|(a, b)| {
        let shown = |value| to_display(value, Blend::Linear);
        (0..3).map(move |c| f64::from((shown(a[c]) - shown(b[c])).powi(2)))
    });
    -10.0 * (squares.sum::<f64>() / (3 * ours.len()) as f64).log10()
}

#[test]
fn average_is_the_weighted_mean() {
    let scene = ball(24, SIZE);
    for blend in [Blend::Linear, Blend::Srgb] {
        let Some((mut gpu, rows)) = job(&scene, &Setup { blend, ..options() }) else {
            return;
        };
        gpu.average().expect("done");
        let ours = gpu.read_texels().expect("texels");
        let theirs = reference::average(&rows, blend, ours.len());
        let mut largest = [0.0f64; 2];
        for (a, b) in ours.iter().zip(&theirs) {
            for c in 0..3 {
                // A weight of 1e-4 is a thousand steps of a sum, which limits the accuracy of its mean.
                let difference = (f64::from(a[c]) - b[c]).abs() * b[3].min(1.0);
                largest[0] = largest[0].max(difference);
            }
            largest[1] = largest[1].max((f64::from(a[3]) - b[3]).abs() / (1.0 + b[3]));
        }
        assert!(largest[0] < 1e-5 && largest[1] < 1e-5, "{largest:?}");
    }
}

/// A supervisor that hears nothing for a while takes the worker for stuck.
#[test]
fn what_a_software_driver_compiles_at_the_first_dispatch_is_work_that_shows() {
    let scene = ball(24, SIZE);
    let Some((mut gpu, _)) = job(&scene, &options()) else {
        return;
    };
    let software = fit(&gpu).device.is_software();
    gpu.average().expect("all views have their rows");
    let mut units = || {
        let (done, heard) = heard::during(|| gpu.residuals());
        done.expect("done");
        heard.iter().filter(|said| **said == Heard::Unit).count()
    };
    let [first, second] = [units(), units()];
    // One for rows in bins, one for rows in lists.
    assert_eq!(first - second, if software { 2 } else { 0 });
}

#[test]
fn residuals_are_counted_by_size() {
    let scene = ball(24, SIZE);
    let Some((mut gpu, rows)) = job(&scene, &options()) else {
        return;
    };
    let texels = random_texels(3);
    gpu.write_texels(&texels).expect("written");
    let found = gpu.residuals().expect("residuals");
    let x = double(&texels);
    assert_eq!(
        found.iter().map(|of| of.view).collect::<Vec<_>>(),
        [5, 6, 7]
    );
    for (of, rows) in found.iter().zip(&rows) {
        assert_eq!(of.rows, rows.len() as u64);
        let mut histogram = [0u32; BINS];
        let mut squares = 0.0;
        for row in 0..rows.len() {
            let residual = reference::residual(rows, row, &x, Blend::Linear);
            histogram[bin_of(residual as f32)] += 1;
            squares += residual * residual;
        }
        assert!(
            (of.sum_squares / squares - 1.0).abs() < 1e-4,
            "{} and {squares}",
            of.sum_squares
        );
        // A residual at a bin's border may fall to either side.
        let moved: u32 = of
            .histogram
            .iter()
            .zip(&histogram)
            .map(|(a, b)| a.abs_diff(*b))
            .sum();
        assert!(
            f64::from(moved) < 0.01 * rows.len() as f64,
            "{moved} of {} in other bins",
            rows.len()
        );
        assert_eq!(of.histogram.iter().sum::<u32>() as usize, rows.len());
    }
}

#[test]
fn reference_gradient_is_the_derivative_of_its_objective() {
    let scene = ball(24, SIZE);
    let Some((_, rows)) = job(&scene, &options()) else {
        return;
    };
    let ties = ties(&scene);
    let x = double(&random_texels(11));
    let trust = [0.1, 0.2, 0.3].map(Belief::from);
    let system = System::new(&rows, &ties, Blend::Linear, &x, &trust, STRENGTH);
    let gradient = system.gradient(&x);
    let mut random = Random(5);
    for _ in 0..20 {
        let texel = (random.next() * (SIZE * SIZE) as f32) as usize;
        for c in 0..3 {
            // Exact for a quadratic, except for rounding in a sum of thousands.
            let h = 0.1;
            let at = |step: f64| {
                let mut x = x.clone();
                x[texel][c] += step;
                system.objective(&x)
            };
            let difference = (at(h) - at(-h)) / (2.0 * h);
            let tolerance =
                1e-6 * system.objective(&x).abs() / h * 1e-3 + 1e-6 * gradient[texel][c].abs();
            assert!(
                (difference - gradient[texel][c]).abs() <= tolerance.max(1e-7),
                "texel {texel} channel {c}"
            );
        }
    }
}

/// Texels after one reweighting and `iterations`, by the device and by the reference.
fn solved(blend: Blend, iterations: u32, scale_error: f32) -> Option<(Vec<[f32; 4]>, Texels)> {
    let scene = ball(24, SIZE);
    let (mut gpu, rows) = job(&scene, &Setup { blend, ..options() })?;
    let ties = ties(&scene);
    let texels = random_texels(21);
    let shares = [1.0, 0.25, 1.0];
    let trust = |error: f32| {
        let scales = [0.4 * error, 0.6 * error, f32::INFINITY];
        std::array::from_fn::<_, 3, _>(|view| Belief {
            scale: scales[view],
            share: shares[view],
        })
    };
    gpu.write_texels(&texels).expect("written");
    gpu.reweight(&trust(scale_error), STRENGTH)
        .expect("weighed");
    gpu.solve(iterations).expect("solved");
    let ours = gpu.read_texels().expect("texels");
    let mut theirs = double(&texels);
    let start = theirs.clone();
    System::new(&rows, &ties, blend, &start, &trust(1.0), STRENGTH).solve(&mut theirs, iterations);
    Some((ours, theirs))
}

#[test]
fn conjugate_gradients_follow_the_reference() {
    for (blend, iterations, tolerance) in [
        (Blend::Linear, 0, 1e-9),
        (Blend::Linear, 1, 1e-4),
        (Blend::Linear, 12, 1e-3),
        (Blend::Srgb, 5, 1e-4),
    ] {
        let Some((ours, theirs)) = solved(blend, iterations, 1.0) else {
            return;
        };
        let largest = largest_difference(&ours, &theirs);
        assert!(
            largest <= tolerance,
            "{largest} after {iterations} iterations"
        );
    }
}

#[test]
fn a_view_with_scale_0_is_out() {
    let scene = ball(24, SIZE);
    let Some((mut all, _)) = job(&scene, &options()) else {
        return;
    };
    let mut without = begun(&scene, &ties(&scene), &options()).expect("an adapter");
    add(&mut without, &views()[..2]);
    let texels = random_texels(21);
    let solve = |gpu: &mut Gpu, scales: &[f32]| {
        gpu.write_texels(&texels).expect("written");
        let trust: Vec<Belief> = scales.iter().copied().map(Belief::from).collect();
        gpu.reweight(&trust, STRENGTH).expect("weighed");
        gpu.solve(3).expect("solved");
        gpu.read_texels().expect("texels")
    };
    let out = solve(&mut all, &[0.4, 0.6, 0.0]);
    let never = solve(&mut without, &[0.4, 0.6]);
    // Scales of sums follow the number of rows, excluded ones included.
    assert!(largest_difference(&out, &double(&never)) < 1e-4);
}

#[test]
fn a_texel_that_next_to_nothing_holds_keeps_its_value() {
    // Two boards side by side, each a line of texture. The left one lies on the middle of a column. The right one lies
    // a hundredth of a texel off it, so its pixels show that much of the next column. Its view hardly counts.
    let column = 100;
    let [far, near] = [9.0, -9.0];
    let board = |left: f32, right: f32, off: f32, v: f32| {
        let u = (column as f32 + 0.5 + off) / SIZE as f32;
        let positions = [[left, near], [right, near], [right, far], [left, far]];
        let at = |share: f32| [u, v + 0.45 * share];
        (
            positions.map(|[x, y]| [x, y, 0.0]),
            [0.0, 0.3, 1.0, 0.7].map(at),
        )
    };
    let boards = [board(near, 0.0, 0.0, 0.0), board(0.0, far, 0.01, 0.5)];
    let positions = boards.iter().flat_map(|board| board.0).collect();
    let uvs = boards.iter().flat_map(|board| board.1).collect();
    let triangles = vec![[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]];
    let Some(mut gpu) = gpu(&soup(positions, uvs, triangles, SIZE), &options()) else {
        return;
    };
    for half in [0, 1] {
        let mut few = view(half, 16, 16, 5.0, 0.0);
        for (at, pixel) in (0..).zip(&mut few.pixels) {
            let alpha = if at % 16 / 8 == half { 255 } else { 0 };
            *pixel = [30 + (at % 20) as u8, 60, 140 + (at % 7) as u8, alpha];
        }
        gpu.add_view(&few).expect("rows");
        let rows = fit(&gpu).rows_of(&few).expect("rows");
        assert!(rows.len() > 64, "{}", rows.len());
        let beside = |entry: &&Entry| entry.texel % SIZE == column + 1;
        let weights: Vec<f32> = (rows.entries.iter().filter(beside))
            .map(|entry| entry.weight)
            .collect();
        let few = weights.iter().all(|&weight| weight < 2e-2);
        assert!(few && (weights.len() > 64) == (half == 1), "{weights:?}");
    }
    // As dark as the pixels, which therefore weigh more.
    let start = vec![[0.02, 0.05, 0.3, 0.0]; (SIZE * SIZE) as usize];
    gpu.write_texels(&start).expect("written");
    let hardly = Belief {
        scale: f32::INFINITY,
        share: 1e-6,
    };
    gpu.reweight(&[Belief::from(f32::INFINITY), hardly], STRENGTH)
        .expect("weighed");
    gpu.solve(6).expect("solved");
    let solved = gpu.read_texels().expect("texels");
    let mut moved = [0; 2];
    for (at, (one, other)) in (0..).zip(start.iter().zip(&solved)) {
        if at % SIZE == column {
            moved[(at / SIZE >= SIZE / 2) as usize] += u32::from(one != other);
        } else {
            assert_eq!(one, other, "texel {at}");
        }
    }
    assert!(moved.iter().all(|&moved| moved > 20), "{moved:?}");
}

#[test]
fn a_scale_that_is_five_per_cent_off_is_noticed() {
    let Some((ours, theirs)) = solved(Blend::Linear, 5, 1.05) else {
        return;
    };
    let largest = largest_difference(&ours, &theirs);
    assert!(largest > 2e-3, "only {largest}");
}

/// A whole fit's texels and residual sums, and whether rows were redrawn.
type Fitted = (Vec<[f32; 4]>, Vec<f64>, bool);

fn fitted(scene: &Scene, options: &Setup) -> Option<Fitted> {
    let (mut gpu, _) = job(scene, options)?;
    let streamed = fit(&gpu).store.streamed();
    gpu.average().expect("average");
    for _ in 0..2 {
        gpu.reweight(&[Belief::from(0.2); 3], STRENGTH)
            .expect("weights");
        gpu.solve(3).expect("solved");
    }
    let sums = gpu
        .residuals()
        .expect("residuals")
        .iter()
        .map(|of| of.sum_squares)
        .collect();
    let texels = gpu.read_texels().expect("texels");
    Some((texels, sums, streamed))
}

#[test]
fn the_same_job_gives_the_same_bytes() {
    let scene = ball(24, SIZE);
    let Some(first) = fitted(&scene, &options()) else {
        return;
    };
    assert!(
        first == fitted(&scene, &options()).expect("an adapter"),
        "two runs differ"
    );
    assert!(!first.2);
}

#[test]
fn tiles_that_do_not_fit_after_all_come_to_the_same() {
    let scene = ball(24, SIZE);
    let small = small();
    let texels = |surprised: bool| {
        let mut gpu = gpu(&scene, &small)?;
        for view in &views() {
            if surprised {
                gpu.fit.as_mut().expect("alive").store.expect_nothing();
            }
            gpu.add_view(view).expect("rows");
        }
        gpu.average().expect("average");
        Some(gpu.read_texels().expect("texels"))
    };
    assert!(texels(false) == texels(true));
}

#[test]
fn views_given_together_and_one_by_one_come_to_the_same() {
    // Added together, pools are made while others are filled, and two are filled alternately; added one by one, neither
    // happens.
    let scene = ball(24, SIZE);
    let views: Vec<View> = (0..24)
        .map(|k| view(k, 70 + k, 60, 3.0, 0.3 * f64::from(k)))
        .collect();
    let small = small();
    let texels = |together: bool| {
        let mut gpu = gpu(&scene, &small)?;
        let all: Vec<&View> = views.iter().collect();
        for some in all.chunks(if together { all.len() } else { 1 }) {
            gpu.add_views(some, None).expect("rows");
        }
        gpu.average().expect("average");
        let held = gpu.rows_held();
        assert_eq!((held.kept, held.views), (held.rows, 24));
        Some((gpu.read_texels().expect("texels"), held.rows))
    };
    assert!(texels(true) == texels(false));
}

#[test]
fn views_that_were_forgotten_leave_no_trace() {
    let scene = ball(24, SIZE);
    let ties = ties(&scene);
    let texels = |options: &Setup, forgotten: bool| {
        let mut gpu = begun(&scene, &ties, options)?;
        if forgotten {
            let views: Vec<View> = views().into_iter().rev().collect();
            add(&mut gpu, &views);
            gpu.forget().expect("nothing is drawn any more");
            assert_eq!(gpu.rows_held(), proto::plan::RowsHeld::default());
        }
        add(&mut gpu, &views());
        gpu.average().expect("average");
        gpu.reweight(&[Belief::from(0.2); 3], STRENGTH)
            .expect("weights");
        gpu.solve(3).expect("solved");
        Some((gpu.read_texels().expect("texels"), gpu.rows_held()))
    };
    for options in [options(), scarce(&scene, &options())] {
        assert!(texels(&options, true) == texels(&options, false));
    }
}

#[test]
fn rows_beyond_the_budget_are_drawn_again_with_the_same_result() {
    let scene = ball(24, SIZE);
    let Some(held) = fitted(&scene, &options()) else {
        return;
    };
    // Pools and tiles as small as under the smaller budget: other tiles have other offsets to their cameras.
    let small = small();
    let scarce = scarce(&scene, &small);
    let (budget, streamed) = (scarce.vram_budget, fitted(&scene, &scarce));
    let streamed = streamed.expect("an adapter");
    assert!(streamed.2, "everything stayed within {budget} bytes");
    let small = fitted(&scene, &small).expect("an adapter");
    assert!(!small.2);
    assert!(
        streamed.0 == small.0 && streamed.1 == small.1,
        "streaming changes the result"
    );
    // Other tiles have other offsets to their cameras, so bytes differ but the picture does not. Exceptions: a texel
    // shown only by entries near the threshold, and weights in a box that differ by one step (2⁻¹⁶).
    let (mut off, mut far) = (0.0f64, 0);
    for (one, other) in small.0.iter().zip(&held.0) {
        let difference = largest_difference(&[*one], &double(&[*other]));
        far += u32::from(difference > 5e-3);
        if one[3].min(other[3]) > 0.1 {
            off = off.max(difference);
        }
    }
    assert!(off < 4e-3 && far < 30, "{off}, {far} texels");
}

/// About the least budget that the fixed buffers fit: rows are redrawn for each pass.
pub(super) fn scarce(scene: &Scene, options: &Setup) -> Setup {
    let mut scarce = Setup {
        vram_budget: 8 << 20,
        ..*options
    };
    let begun = |options: &Setup| {
        let device = device().expect("an adapter");
        begin(device, scene.clone(), &ties(scene), options).is_ok()
    };
    while !begun(&scarce) {
        scarce.vram_budget += 128 << 10;
    }
    scarce
}

/// PSNR between the textures of both backends after three rounds with such beliefs, from these views.
fn alike(
    gpu: Gpu,
    (scene, ties): (&Scene, Ties),
    views: &[View],
    belief: f32,
    strength: Strength,
) -> f64 {
    let (taps, blend) = (options().taps, Blend::Linear);
    let mut native = Native::new(scene.clone(), ties, taps, blend, Memory::Full);
    add(&mut native, views);
    let fitted = |mut backend: Box<dyn Backend>| {
        backend.average().expect("average");
        for _ in 0..3 {
            let trust: Vec<Belief> = backend
                .residuals()
                .expect("residuals")
                .iter()
                .map(|_| Belief::from(belief))
                .collect();
            backend.reweight(&trust, strength).expect("weights");
            backend.solve(5).expect("solved");
        }
        backend.read_texels().expect("texels")
    };
    let (ours, theirs) = (fitted(Box::new(gpu)), fitted(Box::new(native)));
    psnr(&ours, &theirs)
}

#[test]
fn both_adapters_come_to_the_same_texture() {
    let scene = ball(24, SIZE);
    let Some((gpu, _)) = job(&scene, &options()) else {
        return;
    };
    let psnr = alike(gpu, (&scene, ties(&scene)), &views(), 0.4, STRENGTH);
    // A few pixels on edges have a row on one side only, and pictures of noise amplify that.
    assert!(psnr > 45.0, "{psnr} dB between the two");
}

/// The sum that λ is relative to has 64 bits in 256 places. With few views it stays within the lower 32 bits of each.
#[test]
fn so_many_rows_that_their_trust_needs_a_second_word_take_the_same_smoothness() {
    let scene = ball(24, 32);
    let ties = links(&scene);
    let Some(mut gpu) = begun(&scene, &ties, &options()) else {
        return;
    };
    let views: Vec<View> = (0..3)
        .map(|k| view(k, 144, 144, 3.2, f64::from(k)))
        .collect();
    let entries = views.iter().flat_map(|view| footprints(&scene, view, 3));
    let trust: f32 = entries
        .flat_map(|rows| rows.entries)
        .map(|entry| entry.weight * entry.weight)
        .sum();
    assert!(trust > 256.0 * 8.0, "{trust} at most, and a word holds 4");
    add(&mut gpu, &views);
    let strength = Strength {
        smoothness: 2.0,
        ..STRENGTH
    };
    let psnr = alike(gpu, (&scene, ties), &views, f32::INFINITY, strength);
    assert!(psnr > 45.0, "{psnr} dB between the two");
}

#[test]
fn a_job_that_goes_on_in_a_window_is_one_that_began_there() {
    let scene = ball(24, SIZE);
    let window = Window::band(SIZE, 18..38, 20..36, &[80, 81, 3600].into());
    let within = scene.within(&window);
    let whole = links(&scene);
    let ties = Ties {
        links: window.links(&whole.links),
        ..whole.clone()
    };
    let fitted = |mut backend: Box<dyn Backend>| {
        add(&mut *backend, &views());
        backend.average().expect("average");
        backend
            .reweight(&[Belief::from(0.4); 3], STRENGTH)
            .expect("weights");
        backend.solve(6).expect("solved");
        backend.narrow(true).expect("narrowed");
        let rows = |of: &ViewResiduals| of.rows;
        let core: Vec<u64> = backend
            .residuals()
            .expect("residuals")
            .iter()
            .map(rows)
            .collect();
        backend.narrow(false).expect("widened");
        (
            backend.read_texels().expect("texels"),
            core,
            backend.row_memory(10_000),
            backend.deviations().expect("maps are asked for"),
        )
    };
    let options = Setup {
        maps: true,
        ..options()
    };
    let Some(mut other) = begun(&scene, &whole, &options) else {
        return;
    };
    other.add_view(&views()[0]).expect("rows");
    other
        .reset(&within, &ties, options.taps, options.blend)
        .expect("begun anew");
    let ours = fitted(Box::new(
        begun(&within, &ties, &options).expect("an adapter"),
    ));
    let again = fitted(Box::new(other));
    assert!(
        ours == again,
        "the same bytes, and the same memory for rows"
    );
    let (taps, full) = (options.taps, Memory::Full);
    let native = Native::new(within.clone(), ties.clone(), taps, Blend::Linear, full);
    let theirs = fitted(Box::new(native));
    for (ours, theirs) in ours.1.iter().zip(&theirs.1) {
        assert!(
            ours.abs_diff(*theirs) <= 2 + theirs / 50 && *ours > 50,
            "{ours} {theirs} rows"
        );
    }
    let psnr = psnr(window.of_core(&ours.0), window.of_core(&theirs.0));
    assert!(psnr > 40.0, "{psnr} dB between the two");
}

#[test]
fn memory_for_rows_is_what_is_left_by_the_planes_of_a_window() {
    let Some(gpu) = gpu(&ball(8, SIZE), &options()) else {
        return;
    };
    let of = |texels: usize| gpu.row_memory(texels).all;
    let texels = (SIZE * SIZE) as usize;
    // For windows, whose pools and tiles have sizes of their own.
    assert!(of(texels / 8) >= of(texels / 2) && of(texels / 2) > of(20 * texels));
    assert_eq!(of(100 * texels), 0, "nothing is left");
    let small = small();
    let gpu = super::gpu(&ball(8, SIZE), &small).expect("an adapter");
    assert!(gpu.row_memory(75 << 10).all > 0);
    assert_eq!(gpu.row_memory(76 << 10).all, 0, "beyond a binding");
}

#[test]
fn a_budget_below_the_texture_is_out_of_memory() {
    let Some(device) = device() else {
        return;
    };
    let options = Setup {
        vram_budget: 1 << 20,
        ..options()
    };
    let error = begin(device, ball(8, SIZE), &Ties::default(), &options)
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(
        BackendError::from(error),
        BackendError::OutOfMemory(_)
    ));
}

#[test]
fn a_job_without_views_leaves_texels_alone() {
    let Some(mut gpu) = gpu(&ball(8, SIZE), &options()) else {
        return;
    };
    let texels = random_texels(4);
    gpu.write_texels(&texels).expect("written");
    gpu.reweight(&[], STRENGTH).expect("weighed");
    gpu.solve(2).expect("solved");
    assert!(gpu.residuals().expect("residuals").is_empty());
    assert!(gpu.read_texels().expect("texels") == texels);
    gpu.average().expect("averaged");
    // What is not observed keeps its colour and has no weight.
    let unseen = texels.iter().map(|&[r, g, b, _]| [r, g, b, 0.0]);
    assert!(gpu.read_texels().expect("texels").into_iter().eq(unseen));
}

#[test]
fn rows_that_were_not_visited_are_missed() {
    let Some((mut gpu, _)) = job(&ball(24, SIZE), &options()) else {
        return;
    };
    fit(&gpu).device.tally().ask(1);
    assert!(matches!(gpu.residuals(), Err(BackendError::Incomplete(_))));
    assert!(
        matches!(gpu.residuals(), Err(BackendError::Lost(_))),
        "a failed adapter stays failed"
    );
}
