//! Decimated views of a cube.

use std::collections::BTreeSet;

use proto::table::View;

use crate::bake::fixture::{around, camera, cube, memory, paint, view, waves};
use crate::bake::intake::decimate::cells::{Cells, EDGE, LEVELS};
use crate::bake::intake::decimate::shown::LevelCounts;
use crate::bake::intake::decimate::*;
use crate::bake::model::footprint::{footprints_above, texel_coords};
use crate::bake::model::raster::{NOTHING, Projected, raster};

const SIZE: u32 = 64;
/// At this size, near views have pixels of about a texel.
const FINE: u32 = 192;
const PICTURE: [u32; 2] = [150, 140];
const TAPS: u32 = 2;

/// Views from these places.
fn views_from(eyes: impl Iterator<Item = [f64; 3]>) -> Vec<View> {
    let mesh = cube();
    let texture = paint(&mesh, SIZE, waves);
    let seen = |(k, eye)| {
        let camera = camera(eye, 170.0, PICTURE, [1.5, -2.0]);
        view(k, &mesh, &texture, camera, PICTURE)
    };
    (0..).zip(eyes).map(seen).collect()
}

/// `count` places all around, from none of which the cube's top is seen.
fn below(count: u32) -> impl Iterator<Item = [f64; 3]> {
    (0..count).map(move |k| {
        let [x, y, z] = around(k, count, 2.2);
        [x, -y.abs(), z]
    })
}

/// `count` views that do not show the cube's top, then two from straight above.
fn views(count: u32) -> Vec<View> {
    let above = |k: u32| [0.02 + 0.05 * f64::from(k), 2.2, 0.03];
    views_from(below(count).chain((0..2).map(above)))
}

fn scene_in(size: u32) -> (Scene, Atlas) {
    let scene = Scene::new(&cube(), size);
    let atlas = Atlas::new(&scene);
    (scene, atlas)
}

fn decimation(views: &[View], rows: f64) -> Option<Decimation> {
    decimation_in(SIZE, views, rows)
}

fn decimation_in(size: u32, views: &[View], rows: f64) -> Option<Decimation> {
    let (scene, atlas) = scene_in(size);
    let decimated = Decimator {
        scene: &scene,
        atlas: &atlas,
        taps: TAPS,
        memory: memory(rows),
    };
    match Survey::of(decimated, views) {
        Decision::Decimated(decimation) => Some(decimation),
        Decision::AllFit | Decision::TooMany(_) => None,
    }
}

fn decimated(views: &[View], decimation: &Decimation) -> Vec<View> {
    let mut views = views.to_vec();
    views
        .iter_mut()
        .for_each(|view| decimation.kept().decimate(view));
    views
}

/// Observed weight of each texel and the views that see it; then the number of all rows.
fn seen(views: &[View]) -> (Vec<(f32, BTreeSet<u32>)>, usize) {
    seen_in(SIZE, views)
}

fn seen_in(size: u32, views: &[View]) -> (Vec<(f32, BTreeSet<u32>)>, usize) {
    let (scene, _) = scene_in(size);
    let mut seen = vec![(0.0, BTreeSet::new()); (size * size) as usize];
    let mut count = 0;
    for view in views {
        // Including entries of negligible weight.
        for rows in footprints_above(&scene, view, TAPS, 0.0) {
            count += rows.len();
            for entry in &rows.entries {
                let texel = &mut seen[entry.texel as usize];
                texel.0 += entry.weight;
                texel.1.insert(view.index);
            }
        }
    }
    (seen, count)
}

/// What the views show of each cell, as far as it is fine.
fn shown(size: u32, views: &[View], enough: Enough) -> Vec<ShownCell> {
    let (scene, atlas) = scene_in(size);
    let cells = Cells::new(&scene, &atlas);
    let counts = LevelCounts::new(&cells, STRIDE);
    for view in views {
        counts.enter(&cells.look(view, STRIDE));
    }
    counts.shown(&cells, enough)
}

/// With this, no pixel is too coarse.
const NEVER: Enough = Enough {
    pixels: f64::INFINITY,
    views: f64::INFINITY,
};

#[test]
fn rows_that_fit_or_are_few_all_stay() {
    let views = views(ENOUGH.views as u32 - 3);
    let (_, rows) = seen(&views);
    assert!(decimation(&views, 2.0 * rows as f64).is_none());
    assert!(
        decimation(&views[..1], 10.0).is_none(),
        "three pixels a texel"
    );
}

#[test]
fn as_many_rows_stay_as_were_asked_for_and_every_texel_keeps_its_share() {
    let views = views(60);
    let (before, all) = seen(&views);
    let wanted = 0.4 * all as f64;
    let decimation = decimation(&views, wanted / PLANNED).expect("too many");
    let (after, rows) = seen(&decimated(&views, &decimation));
    assert!(
        (rows as f64 / wanted - 1.0).abs() < 0.15,
        "{rows} of {wanted}"
    );
    let staying = all as f64 - decimation.left_out() as f64;
    assert!(
        (staying / rows as f64 - 1.0).abs() < 0.1,
        "{staying} {rows}"
    );
    let sparse = before.iter().filter(|(_, views)| views.len() == 2).count();
    assert!(sparse > 200, "two views show the top");
    for ((weight, views), (left, still)) in before.iter().zip(&after) {
        if views.len() <= 2 {
            assert_eq!(views, still, "what few show keeps them");
        }
        // A texel in the middle of a face, seen as often as most.
        if views.len() > 30 && *weight > 20.0 {
            assert!(
                still.len() as f64 > 0.6 * ENOUGH.views,
                "{} of {}",
                still.len(),
                views.len()
            );
            assert!(*left as f64 > 0.5 * PIXELS, "{left} of {weight}");
        }
    }
}

#[test]
fn every_texel_keeps_the_least_or_nothing_is_left_out() {
    let views = views(80);
    let (_, all) = seen(&views);
    let shown = shown(SIZE, &views, ENOUGH);
    let least = Quota {
        pixels: PIXELS,
        views: VIEWS,
    };
    let rows = least.kept(&shown) / PLANNED;
    assert!(decimation(&views, 0.9 * rows).is_none());
    let decimation = decimation(&views, 1.1 * rows).expect("enough");
    let (after, rows) = seen(&decimated(&views, &decimation));
    assert!(rows < all / 2);
    let weights = after.iter().filter(|(weight, _)| *weight > 0.0);
    let (sum, count) = weights.fold((0.0, 0), |(sum, count), (weight, _)| {
        (sum + weight, count + 1)
    });
    let mean = f64::from(sum) / f64::from(count);
    // Blocks follow the neediest of their cells, and a cell is seven pixels across here.
    assert!((PIXELS..4.0 * PIXELS).contains(&mean), "{mean}");
}

#[test]
fn the_same_views_are_decimated_alike_and_others_are_let_be() {
    let views = views(60);
    let (_, all) = seen(&views);
    let rows = 0.6 * all as f64;
    let [one, other] = [(); 2].map(|()| decimation(&views, rows).expect("too many"));
    assert_eq!(decimated(&views, &one), decimated(&views, &other));
    let mut stranger = views[3].clone();
    stranger.index = 999;
    let before = stranger.clone();
    one.kept().decimate(&mut stranger);
    assert_eq!(stranger, before);
    // Colours stay; alpha is unchanged or 0.
    for (view, decimated) in views.iter().zip(decimated(&views, &one)) {
        for (a, b) in view.pixels.iter().zip(&decimated.pixels) {
            assert!(a[..3] == b[..3] && (b[3] == a[3] || b[3] == 0));
        }
    }
}

#[test]
fn two_charts_in_one_square_of_the_texture_are_two_places() {
    // Faces of the cube lie side by side in its texture: some squares contain two of them.
    let (_, atlas) = scene_in(SIZE);
    let shown = shown(SIZE, &views(60), NEVER);
    let squares = (SIZE / EDGE).pow(2) as usize;
    assert!(shown.len() > squares / 2);
    let texels: f64 = shown.iter().map(|cell| cell.texels).sum();
    assert_eq!(texels, atlas.covered as f64, "each texel is of one cell");
    assert!(shown.iter().any(|cell| cell.views == 2.0));
    assert!(shown.iter().any(|cell| cell.views > 30.0));
}

#[test]
fn samples_say_how_many_pixels_a_place_has() {
    let (scene, atlas) = scene_in(SIZE);
    let views = views(30);
    let cells = Cells::new(&scene, &atlas);
    let of = |stride: u32| {
        let of_cells = cells.pixels(&views, stride);
        of_cells.iter().sum::<f64>()
    };
    let (_, rows) = seen(&views);
    let (every, third) = (of(1), of(3));
    assert!((third / every - 1.0).abs() < 0.02, "{third} of {every}");
    // Rows are fewer by the pixels on outlines.
    assert!(
        (every / rows as f64 - 1.03).abs() < 0.04,
        "{every} of {rows}"
    );
}

#[test]
fn a_place_is_asked_for_by_pixels_or_views_whichever_is_more() {
    let need = |pixels: f64, views: f64| {
        let cell = ShownCell {
            texels: 10.0,
            pixels: 10.0 * pixels,
            views,
            coarsest: 0,
        };
        let wanted = Quota {
            pixels: 4.0,
            views: 24.0,
        };
        let Need { blocks, pixels } = wanted.of(&cell);
        [blocks, pixels]
    };
    assert_eq!(need(3.0, 100.0), [1.0, 1.0], "too few pixels");
    assert_eq!(need(40.0, 20.0), [1.0, 0.1], "too few views");
    assert_eq!(need(8.0, 480.0), [0.5, 1.0]);
    assert_eq!(need(40.0, 96.0), [0.25, 0.4]);
}

#[test]
fn a_sample_says_how_many_texels_its_pixel_covers() {
    let (scene, atlas) = scene_in(SIZE);
    let cells = Cells::new(&scene, &atlas);
    let (mut compared, mut levels) = (0, BTreeSet::new());
    for (view, stride) in views(6).iter().zip([1, 2, 3, 4, 5, 8]) {
        let observation = cells.look(view, stride);
        let [width, height] = PICTURE;
        let projected = Projected::of_scene(&scene, &scene.camera(&view.camera), width, height);
        let every: Vec<u32> = (0..scene.triangles.len() as u32).collect();
        let hits = raster(&projected, &every, width, 0, height, 1).triangles;
        for (sample, (&cell, &level)) in
            (0..).zip(observation.cells.iter().zip(&observation.levels))
        {
            let [x, y] = observation.grid.pixel(sample);
            let at = |x: u32, y: u32| hits.get((y * width + x) as usize).copied();
            let triangle = at(x, y).expect("within the picture");
            assert!(cell == NOTHING || triangle != NOTHING);
            if cell == NOTHING || [at(x + 1, y), at(x, y + 1)] != [Some(triangle); 2] {
                continue;
            }
            // Area of a pixel on the texture, from its sides.
            let place = |x: f64, y: f64| texel_coords(&scene, &projected, triangle, x, y);
            let [middle, right, down] = [[0.5, 0.5], [1.0, 0.5], [0.5, 1.0]]
                .map(|[a, b]| place(f64::from(x) + a, f64::from(y) + b).map(f64::from));
            let [right, down] = [right, down].map(|to| [to[0] - middle[0], to[1] - middle[1]]);
            let texels = 4.0 * (right[0] * down[1] - right[1] * down[0]).abs();
            let wanted = 3.0 * texels.log2() + LEVELS as f64 / 2.0;
            let off = (f64::from(level) + 0.5 - wanted).abs();
            assert!(off < 0.7, "{level} {wanted}");
            compared += 1;
            levels.insert(level);
        }
    }
    assert!(compared > 5000 && levels.len() > 3, "{compared} {levels:?}");
}

#[test]
fn what_many_show_finely_keeps_no_coarse_rows_and_what_few_do_keeps_all() {
    const NEAR: u32 = 60;
    const FAR: u32 = 24;
    let views = views_from(below(NEAR).chain((0..FAR).map(|k| around(k, FAR, 5.0))));
    let decimation = decimation_in(FINE, &views, f64::INFINITY).expect("some are coarse");
    let (before, all) = seen_in(FINE, &views);
    let (after, rows) = seen_in(FINE, &decimated(&views, &decimation));
    let staying = all as f64 - decimation.left_out() as f64;
    assert!(
        (staying / rows as f64 - 1.0).abs() < 0.1,
        "{staying} {rows}"
    );
    let is_far = |view: &&u32| **view >= NEAR;
    let [mut finely, mut still_coarse, mut coarsely, mut still_needed] = [0; 4];
    for ((_, views), (_, still)) in before.iter().zip(&after) {
        let [there, left] = [views, still].map(|views| views.iter().filter(is_far).count());
        let fine = views.len() - there;
        if fine == 0 {
            // At the edge of the top, views that hardly show it may be missing.
            assert!(
                left + 2 > there,
                "only the far ones show it: {still:?} of {views:?}"
            );
            coarsely += there;
            still_needed += left;
        }
        // At the borders of a face, its cell is seen better than a texel.
        let enough = ENOUGH.views.min(views.len() as f64);
        let least = (0.6 * enough - 1.0).max(if views.is_empty() { 0.0 } else { 1.0 });
        assert!(still.len() as f64 >= least, "{still:?} of {views:?}");
        if fine as f64 >= ENOUGH.views + 2.0 {
            finely += there;
            still_coarse += left;
        }
    }
    assert!(coarsely > 1000, "the top is theirs");
    assert!(
        still_needed * 100 > coarsely * 99,
        "{still_needed} of {coarsely}"
    );
    assert!(
        finely > 1000 && still_coarse * 2 < finely,
        "{still_coarse} of {finely}"
    );
    // Of a place that too few show finely, all fine pixels stay, however little memory there is.
    let (scene, atlas) = scene_in(FINE);
    let little = Decimator {
        scene: &scene,
        atlas: &atlas,
        taps: TAPS,
        memory: memory(10.0),
    };
    let Decision::TooMany(Some(coarse)) = Survey::of(little, &views) else {
        panic!("more than fits, even without the coarse ones");
    };
    assert_eq!(decimated(&views, &coarse), decimated(&views, &decimation));
    // Where a texel is larger than every pixel, hardly any pixel is coarse: only those at the outline.
    let few = decimation_in(FINE / 6, &views, f64::INFINITY).map_or(0, |few| few.left_out());
    assert!(few * 20 < decimation.left_out(), "{few}");
}

#[test]
fn of_levels_as_many_are_fine_as_are_enough_and_views_count_once() {
    let views = views(60);
    let all = shown(FINE, &views, NEVER);
    let some = shown(FINE, &views, ENOUGH);
    for (all, some) in all.iter().zip(&some) {
        assert!(some.pixels <= all.pixels && some.views <= all.views && all.views <= 62.0);
        let enough = |cell: &ShownCell| {
            cell.pixels >= ENOUGH.pixels * cell.texels && cell.views >= ENOUGH.views
        };
        assert_eq!(enough(all), enough(some));
        assert!(enough(some) || (some.pixels, some.views) == (all.pixels, all.views));
    }
    let least = |cells: &[ShownCell]| cells.iter().map(|cell| cell.pixels).sum::<f64>();
    assert!(least(&some) < 0.95 * least(&all));
}
