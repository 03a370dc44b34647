//! Windows drawn from recorded visible blocks only, and in tiles too large for a pool, against the same windows drawn
//! whole.

use std::collections::{BTreeMap, BTreeSet};

use proto::table::View;

use super::{Setup, ball, fit, no_rows, options, view};
use crate::bake::gpu::Gpu;
use crate::bake::gpu::tiles::{Drawn, Part, Shape, parts};
use crate::bake::intake::pixel_mask::PixelMask;
use crate::bake::model::footprint::footprints;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{Backend, Ties};

const SIZE: u32 = 240;

fn views() -> Vec<View> {
    let of = |k: u32| view(k, 150 + k, 110, 3.0, f64::from(k));
    (0..4).map(of).collect()
}

fn ties(window: &Window) -> Ties {
    Ties {
        links: vec![0; window.texels()],
        seams: no_rows(),
    }
}

fn begun(window: &Window, options: &Setup) -> Option<Gpu> {
    super::begun(&ball(24, SIZE).within(window), &ties(window), options)
}

/// Rows, texels, and bytes written to the device, of a window that gets the views.
fn given(gpu: &mut Gpu, views: &[View]) -> (u64, Vec<[f32; 4]>, u64) {
    given_of(gpu, views, None)
}

/// The same for decimated views.
fn given_of(gpu: &mut Gpu, views: &[View], kept: Option<&PixelMask>) -> (u64, Vec<[f32; 4]>, u64) {
    let before = gpu.moved()[0];
    let views: Vec<&View> = views.iter().collect();
    gpu.add_views(&views, kept).expect("rows");
    gpu.average().expect("average");
    let written = gpu.moved()[0] - before;
    let texels = gpu.read_texels().expect("texels");
    (gpu.rows_held().rows, texels, written)
}

fn assert_alike(one: &[[f32; 4]], other: &[[f32; 4]]) {
    for (texel, (one, other)) in one.iter().zip(other).enumerate() {
        let off = one
            .iter()
            .zip(other)
            .map(|(one, other)| (one - other).abs());
        // Its tiles have other corners, so offsets from them round differently.
        assert!(off.fold(0.0, f32::max) < 1e-3, "{texel}: {one:?} {other:?}");
    }
}

#[test]
fn of_a_window_that_was_foreseen_all_is_drawn_that_it_shows_and_little_else() {
    let (views, options) = (views(), options());
    let beside = [80, 81, 2600].into();
    let bands = [
        Window::band(SIZE, 0..8, 0..6, &beside),
        Window::band(SIZE, 4..22, 6..20, &beside),
    ];
    let half = Window::band(SIZE, 8..18, 10..16, &beside);
    let Some(mut gpu) = begun(&Window::strips(SIZE, &[3..5, 30..34]), &options) else {
        return;
    };
    let blocks = views
        .iter()
        .map(|view| u64::from(view.width.div_ceil(8) * view.height.div_ceil(8)));
    gpu.await_blocks(blocks.sum());
    gpu.foresee(&bands).expect("memory");
    given(&mut gpu, &views);
    for window in [&bands[0], &bands[1], &half] {
        let scene = ball(24, SIZE).within(window);
        gpu.reset(&scene, &ties(window), options.taps, options.blend)
            .expect("begun anew");
        let (rows, texels, written) = given(&mut gpu, &views);
        let mut whole = begun(window, &options).expect("an adapter");
        let (all, wanted, most) = given(&mut whole, &views);
        // At a pole there are few.
        assert!(rows == all && rows > 50, "{rows} of {all} rows");
        assert_alike(&texels, &wanted);
        assert!(written < most * 3 / 4, "{written} of {most} bytes");
    }
}

#[test]
fn pools_of_a_window_are_those_of_the_next_unless_more_blocks_are_awaited() {
    let options = options();
    let band = |first| Window::band(SIZE, first..first + 12, first..first + 12, &[].into());
    let Some(mut gpu) = begun(&band(4), &options) else {
        return;
    };
    gpu.await_blocks(2000);
    given(&mut gpu, &views());
    // With as many texels.
    let next = band(20);
    assert_eq!(next.texels(), band(4).texels());
    let scene = ball(24, SIZE).within(&next);
    gpu.reset(&scene, &ties(&next), options.taps, options.blend)
        .expect("begun anew");
    let spares = |gpu: &Gpu| fit(gpu).store.spares();
    assert!(spares(&gpu) > 0);
    gpu.await_blocks(2000);
    assert!(spares(&gpu) > 0, "no more than before");
    gpu.await_blocks(2001);
    assert_eq!(spares(&gpu), 0);
}

#[test]
fn a_tile_that_no_pool_holds_is_split() {
    // Pixels of several texels, so that nearly every sample hits texels of its own.
    let size = 1280;
    let scene = ball(24, size);
    let window = Window::strips(size, std::slice::from_ref(&(64..256)));
    let views: Vec<View> = (0..3)
        .map(|k| view(k, 32, 32, 1.7, 2.0 * f64::from(k)))
        .collect();
    let ample = Setup {
        taps: 4,
        ..options()
    };
    // Memory for the planes, and so little for rows that pools have 2¹⁶ words.
    let small = Setup {
        vram_budget: 31 * 4 * window.texels() as u64 + (25 << 18),
        ..ample
    };
    let drawn = scene.within(&window);
    let begun = |options: &Setup| super::begun(&drawn, &ties(&window), options);
    let Some(mut gpu) = begun(&small) else {
        return;
    };
    let (rows, texels, _) = given(&mut gpu, &views);
    let fit = fit(&gpu);
    let ((shape, sure), room) = (fit.tile_shape(), fit.store.room().words);
    assert!(shape.blocks > sure, "{shape:?} {sure}");
    let most = views
        .iter()
        .flat_map(|view| in_tiles(&drawn, view, ample.taps, shape));
    // Each takes a word, as these rows have no box.
    let most = most.max().unwrap_or(0);
    assert!(most > room as usize, "{most} words for a room of {room}");
    let (all, wanted, _) = given(&mut begun(&ample).expect("an adapter"), &views);
    assert!(rows == all && rows > 1000, "{rows} of {all} rows");
    assert_alike(&texels, &wanted);
}

/// Entries of a view's rows in each of its tiles, and the texels of each block.
fn in_tiles(scene: &Scene, view: &View, taps: u32, shape: Shape) -> Vec<usize> {
    let mut of_blocks: BTreeMap<[u32; 2], (usize, BTreeSet<u32>)> = BTreeMap::new();
    for rows in footprints(scene, view, taps) {
        for (row, pixel) in rows.pixels.iter().enumerate() {
            let corner = [pixel % view.width, pixel / view.width].map(|at| at / 8 * 8);
            let (entries, texels) = of_blocks.entry(corner).or_default();
            *entries += rows.row(row).len();
            texels.extend(rows.row(row).iter().map(|entry| entry.texel));
        }
    }
    let of = |part: &Part| {
        let corners = part.corners.iter();
        let blocks = corners.filter_map(|corner| of_blocks.get(corner));
        blocks.map(|(entries, texels)| entries + texels.len()).sum()
    };
    let parts = parts(view, shape, Drawn::default());
    parts.iter().map(of).collect()
}

#[test]
fn what_is_kept_of_views_is_what_is_left_of_them() {
    let (views, options) = (views(), options());
    let window = Window::whole(SIZE);
    let (Some(mut gpu), Some(mut other)) = (begun(&window, &options), begun(&window, &options))
    else {
        return;
    };
    // Decimates whole blocks of two of the views, and parts of some blocks of a third; nothing is said of the last.
    let level = |view: u32, block: u32| match (view, block % 5) {
        (2, 0..3) => (3 * block % 64) as u8,
        (0 | 1, 0..2) => 0,
        _ => 64,
    };
    let levels = |view: &View| {
        let blocks = view.width.div_ceil(8) * view.height.div_ceil(8);
        (0..blocks).map(|block| level(view.index, block)).collect()
    };
    let known = views.iter().filter(|view| view.index < 3);
    let kept: PixelMask = known.map(|view| (view.index, levels(view))).collect();
    let mut left = views.clone();
    left.iter_mut().for_each(|view| kept.decimate(view));
    let (rows, texels, _) = given_of(&mut gpu, &views, Some(&kept));
    let (wanted, others, _) = given(&mut other, &left);
    let all = given(&mut begun(&window, &options).expect("an adapter"), &views).0;
    assert_eq!(rows, wanted);
    assert!(rows < 9 * all / 10 && rows > all / 2, "{rows} of {all}");
    assert_alike(&texels, &others);
}
