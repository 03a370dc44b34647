//! Raster and footprint against the native backend's rows, which use double precision and another rasteriser.

use std::collections::{BTreeMap, BTreeSet};

use proto::table::View;

use super::{Random, Setup, ball, fit, gpu, options, small, soup, view};
use crate::bake::gpu::Gpu;
use crate::bake::gpu::raster::Way;
use crate::bake::gpu::tiles::{Drawn, parts};
use crate::bake::model::footprint::footprints;
use crate::bake::model::rows::Rows;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::Backend;

/// Footprints by pixel.
type ByPixel = BTreeMap<u32, BTreeMap<u32, f32>>;

fn by_pixel(chunks: &[Rows]) -> ByPixel {
    let mut found = ByPixel::new();
    for rows in chunks {
        for row in 0..rows.len() {
            let entries = rows.row(row);
            let texels: BTreeMap<u32, f32> = entries
                .iter()
                .map(|entry| (entry.texel, entry.weight))
                .collect();
            assert_eq!(texels.len(), entries.len(), "a row holds each texel once");
            let sum: f32 = texels.values().sum();
            assert!((sum - 1.0).abs() < 2e-5, "weights sum to {sum}");
            assert!(
                found.insert(rows.pixels[row], texels).is_none(),
                "a pixel has one row"
            );
        }
    }
    found
}

/// Shares of pixels that only one side has, and of common ones whose weights differ by more than `tolerance` in sum.
fn differences(ours: &ByPixel, theirs: &ByPixel, tolerance: f32) -> (f64, f64) {
    let only = |one: &ByPixel, other: &ByPixel| {
        (one.keys().filter(|pixel| !other.contains_key(pixel))).count()
    };
    let one_sided = only(ours, theirs) + only(theirs, ours);
    let mut wrong = 0;
    let mut common = 0;
    for (pixel, own) in ours {
        let Some(other) = theirs.get(pixel) else {
            continue;
        };
        common += 1;
        let missing: f32 = other
            .iter()
            .filter(|(texel, _)| !own.contains_key(texel))
            .map(|(_, w)| w)
            .sum();
        let off: f32 = own
            .iter()
            .map(|(texel, w)| (w - other.get(texel).unwrap_or(&0.0)).abs())
            .sum();
        wrong += usize::from(missing + off > tolerance);
    }
    let all = ours.len().max(theirs.len()).max(1) as f64;
    (
        one_sided as f64 / all,
        f64::from(wrong as u32) / f64::from(common.max(1)),
    )
}

fn gpu_rows(gpu: &Gpu, view: &View) -> ByPixel {
    by_pixel(&[fit(gpu).rows_of(view).expect("rows")])
}

fn native_rows(scene: &Scene, view: &View, taps: u32) -> ByPixel {
    by_pixel(&footprints(scene, view, taps))
}

/// Pixels on an edge may fall to either side if a sample is within 1/256 pixel of it.
const EDGE_SHARE: f64 = 0.02;
/// Weights differ by what a shift of 1e-4 texel changes, four weights a tap.
const WEIGHT_TOLERANCE: f32 = 2e-3;

/// Checks both rasters; returns the number of covered pixels.
fn agrees(scene: &Scene, view: &View, options: &Setup) -> usize {
    let [compute, graphics] = [Way::Compute, Way::Graphics].map(|way| {
        let options = Setup {
            way: Some(way),
            ..*options
        };
        agrees_by(scene, view, &options)
    });
    assert!(compute.abs_diff(graphics) <= 1 + compute / 50);
    compute
}

fn agrees_by(scene: &Scene, view: &View, options: &Setup) -> usize {
    let Some(gpu) = gpu(scene, options) else {
        return 1;
    };
    let ours = gpu_rows(&gpu, view);
    let theirs = native_rows(scene, view, options.taps);
    let (one_sided, wrong) = differences(&ours, &theirs, WEIGHT_TOLERANCE);
    assert!(
        one_sided <= EDGE_SHARE,
        "{one_sided} of the pixels on one side only, of {}",
        theirs.len()
    );
    assert!(wrong <= EDGE_SHARE, "{wrong} of the footprints differ");
    ours.len()
}

#[test]
fn footprints_of_a_ball_agree_at_every_number_of_taps() {
    let scene = ball(24, 260);
    for taps in [1, 2, 3, 4, 6] {
        let covered = agrees(
            &scene,
            &view(0, 37, 53, 3.5, 0.4),
            &Setup { taps, ..options() },
        );
        assert!(covered > 300, "{covered} pixels");
    }
}

#[test]
fn footprints_within_a_window_agree_and_leave_out_what_is_elsewhere() {
    // Squares of four texels, and of eight.
    let small = [
        Window::band(260, 16..32, 18..30, &[3, 80, 2800, 2801, 4000].into()),
        Window::band(260, 0..18, 0..16, &BTreeSet::new()),
        Window::band(260, 44..65, 46..65, &[5].into()),
        Window::strips(260, &[8..12, 40..44, 60..65]),
    ];
    let large = [Window::band(
        2052,
        64..128,
        65..127,
        &[3, 400, 50_000].into(),
    )];
    let view = view(0, 97, 113, 3.5, 0.4);
    for taps in [2, 4] {
        let options = Setup { taps, ..options() };
        let all = agrees(&ball(24, 260), &view, &options);
        for window in small.iter().chain(&large) {
            let scene = ball(24, window.size).within(window);
            let covered = agrees(&scene, &view, &options);
            assert!(covered > 200 && covered < all, "{covered} of {all} pixels");
        }
    }
}

#[test]
fn tiles_of_a_small_binding_give_the_same_footprints() {
    let scene = ball(24, 260);
    let small = Setup { taps: 2, ..small() };
    let covered = agrees(&scene, &view(0, 61, 47, 3.5, 2.0), &small);
    assert!(covered > 300, "{covered} pixels");
}

#[test]
fn a_camera_inside_sees_the_far_side_of_what_is_before_it() {
    let covered = agrees(&ball(24, 260), &view(0, 40, 30, 0.2, 1.0), &options());
    assert!(covered > 1000, "{covered} pixels");
}

#[test]
fn a_camera_that_looks_away_sees_nothing() {
    assert!(agrees(&ball(8, 256), &view(0, 37, 53, -3.0, 0.0), &options()) <= 1);
}

#[test]
fn soup_with_degenerate_triangles_agrees() {
    let mut random = Random(7);
    let (mut positions, mut uvs) = (Vec::new(), Vec::new());
    for triangle in 0..60u32 {
        let base: [f32; 3] = std::array::from_fn(|_| random.next() * 2.0 - 1.0);
        for corner in 0..3 {
            let spread = match triangle % 10 {
                0 => 0.0,
                1 if corner == 2 => 0.0,
                _ => 0.8,
            };
            positions.push(std::array::from_fn(|axis| {
                base[axis] + spread * (random.next() - 0.5)
            }));
            uvs.push([random.next(), random.next()]);
        }
    }
    let triangles = (0..60).map(|k| [3 * k, 3 * k + 1, 3 * k + 2]);
    let scene = soup(positions, uvs, triangles.chain([[5, 5, 6]]).collect(), 256);
    // Neighbouring footprints without common texels: each has dozens of texels.
    let few = Setup {
        taps: 2,
        ..options()
    };
    agrees(&scene, &view(0, 64, 64, 3.0, 0.7), &few);
}

#[test]
fn one_triangle_and_one_pixel_agree() {
    let positions = vec![[-9.0, -9.0, 0.0], [9.0, -9.0, 0.0], [0.0, 9.0, 0.0]];
    let uvs = vec![[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]];
    let scene = soup(positions, uvs, vec![[0, 1, 2]], 256);
    let mut one = view(0, 1, 1, 5.0, 0.0);
    one.pixels = vec![[1, 2, 3, 255]];
    assert_eq!(agrees(&scene, &one, &options()), 1);
}

#[test]
fn texels_of_one_column_agree() {
    // A square whose texture is a line from the middle of a texel down: hundreds of texels in one column.
    let u = 100.5 / 1024.0;
    let positions = [[-9.0, -9.0], [9.0, -9.0], [9.0, 9.0], [-9.0, 9.0]];
    let positions = positions.map(|[x, y]| [x, y, 0.0]).to_vec();
    let uvs = [0.0, 0.3, 1.0, 0.7].map(|v| [u, v]).to_vec();
    let scene = soup(positions, uvs, vec![[0, 1, 2], [0, 2, 3]], 1024);
    let mut few = view(0, 16, 16, 15.0, 0.0);
    few.pixels.fill([1, 2, 3, 255]);
    assert_eq!(agrees(&scene, &few, &options()), 256);
}

#[test]
fn half_a_pixel_of_camera_shift_is_noticed() {
    let scene = ball(24, 260);
    let seen = view(0, 37, 53, 3.5, 0.4);
    let mut shifted = seen.clone();
    shifted.camera.centre[0] += 0.5;
    let Some(gpu) = gpu(&scene, &options()) else {
        return;
    };
    let (_, wrong) = differences(
        &gpu_rows(&gpu, &shifted),
        &native_rows(&scene, &seen, 3),
        WEIGHT_TOLERANCE,
    );
    assert!(wrong > 0.5, "only {wrong} of the footprints differ");
}

#[test]
fn a_view_is_told_of_tile_by_tile_and_announced_by_its_size() {
    use crate::worker::progress::heard::{Heard, during};

    let scene = ball(8, 64);
    // Pools of some 17 Ki entries, and small tiles.
    let small = Setup {
        taps: 2,
        binding_limit: Some(70 << 10),
        ..options()
    };
    let Some(mut gpu) = gpu(&scene, &small) else {
        return;
    };
    let seen = view(0, 256, 128, 3.5, 2.0);
    let (shape, _) = fit(&gpu).tile_shape();
    let tiles = parts(&seen, shape, Drawn::default()).len();
    assert!(tiles > 4, "{shape:?}");
    let (rows, heard) = during(|| gpu.add_view(&seen));
    rows.expect("rows");
    let units = heard.iter().filter(|&said| *said == Heard::Unit).count();
    assert!(units >= tiles, "{units} for {tiles} tiles");
    let Some(Heard::Expect(_, predicted)) = heard.first() else {
        panic!("a unit before a prediction");
    };
    let bytes = u64::from(seen.width * seen.height * 4);
    assert!(predicted.as_nanos() >= u128::from(bytes), "{predicted:?}");
    // A driver may work within the call that submits, so that call is announced too.
    let waits = heard.iter().filter_map(|said| match said {
        Heard::Wait(label) => Some(label.as_str()),
        _ => None,
    });
    let waits: Vec<&str> = waits.collect();
    assert!(
        waits.contains(&"footprint") && waits.contains(&"read-back"),
        "{waits:?}"
    );
}

/// Slivers and quarters that share edges and vertex positions, but no vertices, as at a seam. Every second edge passes
/// exactly through the centres of samples.
#[test]
fn nothing_shows_through_a_closed_surface_by_either_raster() {
    let eighth = std::f64::consts::FRAC_PI_4;
    let angles: Vec<f64> = (0..8)
        .flat_map(|k| [0.0, 0.02, 0.0203, 0.4].map(|more| f64::from(k) * eighth + more))
        .collect();
    let corner = |angle: f64| [9.0 * angle.cos() as f32, 9.0 * angle.sin() as f32, 0.0];
    let next = angles.iter().cycle().skip(1);
    let positions: Vec<[f32; 3]> = (angles.iter().zip(next))
        .flat_map(|(&angle, &next)| [[0.0; 3], corner(angle), corner(next)])
        .collect();
    let triangles = (0..angles.len() as u32).map(|k| [3 * k, 3 * k + 1, 3 * k + 2]);
    let uvs = vec![[0.5; 2]; positions.len()];
    let scene = soup(positions, uvs, triangles.collect(), 64);
    for way in [Way::Compute, Way::Graphics] {
        let options = Setup {
            way: Some(way),
            taps: 6,
            ..options()
        };
        let Some(gpu) = gpu(&scene, &options) else {
            return;
        };
        for turn in 0..4 {
            let mut view = view(0, 120, 90, 0.9, f64::from(turn) * 0.21);
            view.camera.centre = [60.0, 45.0];
            view.pixels.fill([10, 20, 30, 255]);
            let covered = gpu_rows(&gpu, &view).len();
            assert_eq!(
                covered,
                120 * 90,
                "{way:?}: a pixel without a row has a hole"
            );
        }
    }
}
