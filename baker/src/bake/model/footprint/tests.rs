//! Footprints against the reference renderer and plain lookups.

use crate::bake::fixture::{Random, blank_view, camera, cube, mesh, noise};
use crate::bake::model::footprint::*;
use crate::image::render::render;
use proto::job::Blend;
use proto::table::{Mesh, Texture};

const TAPS: u32 = 3;

/// An opaque grey view of the whole picture.
fn grey(eye: [f64; 3], size: [u32; 2]) -> View {
    let camera = camera(eye, 1.2 * f64::from(size[0]), size, [0.7, -1.1]);
    let pixels = (0..size[0] * size[1])
        .map(|k| [(k % 251) as u8, 2, 3, 255])
        .collect();
    blank_view(4, camera, size, pixels)
}

/// A square of edge 2 that uses the whole texture to its very edges.
fn square() -> Mesh {
    mesh(
        vec![
            [-1.0, -1.0, 0.0],
            [1.0, -1.0, 0.0],
            [1.0, 1.0, 0.0],
            [-1.0, 1.0, 0.0],
        ],
        vec![[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.0]],
        vec![[0, 1, 2], [0, 2, 3]],
    )
}

/// Largest difference, in sRGB, between `A x` and the reference renderer with `taps`² lookups a pixel. Also asserts
/// that exactly the pixels that it shows as fully covered have a row.
fn difference(mesh: &Mesh, texture: &Texture, view: &View, taps: u32) -> f32 {
    let scene = Scene::new(mesh, texture.size);
    let size = [view.width, view.height];
    let picture = render(mesh, texture.into(), &view.camera, size, taps, Blend::Srgb);
    let mut has_row = vec![false; picture.colours.len()];
    let mut largest = 0.0f32;
    for rows in footprints_above(&scene, view, TAPS, 0.0) {
        assert_eq!(rows.view, view.index);
        for row in 0..rows.len() {
            let pixel = rows.pixels[row] as usize;
            assert!(!std::mem::replace(&mut has_row[pixel], true), "one row");
            assert_eq!(rows.colours[row], view.pixels[pixel]);
            for channel in 0..3 {
                let seen: f32 = rows
                    .row(row)
                    .iter()
                    .map(|entry| {
                        let texel = texture.texels[entry.texel as usize];
                        entry.weight * f32::from(texel[channel]) / 255.0
                    })
                    .sum();
                largest = largest.max((seen - picture.colours[pixel][channel]).abs());
            }
        }
    }
    if taps == TAPS {
        let covered: Vec<bool> = picture.coverage.iter().map(|&share| share == 1.0).collect();
        assert_eq!(has_row, covered);
        assert!(covered.contains(&true) && covered.contains(&false));
    }
    largest
}

#[test]
fn a_row_is_the_mean_of_its_lookups() {
    let cases = [
        (cube(), 32, [1.2, 0.9, -1.6], [37, 41]),
        (cube(), 61, [-0.6, -1.9, 0.4], [33, 19]),
        // Texels larger than pixels, and the clamped edge.
        (square(), 5, [0.4, 0.3, 3.0], [48, 40]),
        // Many texels to a pixel.
        (square(), 128, [0.4, 0.3, -8.0], [48, 40]),
        (square(), 1, [0.0, 0.2, 4.0], [20, 20]),
    ];
    for (mesh, size, eye, picture) in cases {
        let (texture, view) = (noise(size, 5), grey(eye, picture));
        let largest = difference(&mesh, &texture, &view, TAPS);
        // Texel positions are 32-bit: 2⁻²³ · 128 texels · 255/255 a texel, and sums of 36 terms.
        assert!(largest < 6e-5, "{largest} at {size} texels");
        if size > 1 {
            let with_one_more = difference(&mesh, &texture, &view, TAPS + 1);
            assert!(
                with_one_more > 1e-3,
                "another model agrees: {with_one_more}"
            );
        }
    }
}

#[test]
fn weights_are_positive_sum_to_one_and_name_each_texel_once() {
    let scene = Scene::new(&cube(), 24);
    let mut count = 0;
    for taps in 1..5 {
        for rows in footprints(&scene, &grey([1.2, 0.9, -1.6], [40, 33]), taps) {
            assert_eq!(rows.starts.len(), rows.len() + 1);
            assert_eq!(rows.pixels.len(), rows.len());
            for row in 0..rows.len() {
                let entries = rows.row(row);
                let sum: f32 = entries.iter().map(|entry| entry.weight).sum();
                assert!((sum - 1.0).abs() < 1e-5, "{sum}");
                assert!(entries.iter().all(|e| e.weight > 0.0 && e.texel < 24 * 24));
                let mut texels: Vec<u32> = entries.iter().map(|entry| entry.texel).collect();
                texels.sort_unstable();
                texels.dedup();
                assert_eq!(texels.len(), entries.len());
                count += 1;
            }
        }
    }
    assert!(count > 500, "only {count} rows");
}

#[test]
fn what_makes_next_to_nothing_of_a_pixel_has_no_entry_where_taps_lie_together_and_the_others_share_it()
 {
    let view = grey([-0.6, -1.9, 0.4], [33, 19]);
    // A pixel covers one texel or a few; then some hundred, in which four taps each way lie apart.
    for (size, together) in [(61, true), (700, false)] {
        let scene = Scene::new(&cube(), size);
        let (all, kept) = (
            footprints_above(&scene, &view, 4, 0.0),
            footprints(&scene, &view, 4),
        );
        assert_eq!(all.len(), kept.len());
        let (mut small, mut dropped, mut of) = (0, 0, 0);
        for (all, kept) in all.iter().zip(&kept) {
            assert_eq!(all.pixels, kept.pixels);
            for row in 0..all.len() {
                let (before, after) = (all.row(row), kept.row(row));
                let counts = |entry: &&Entry| entry.weight >= LEAST_ENTRY;
                of += before.len();
                small += before.iter().filter(|entry| !counts(entry)).count();
                if before.len() == after.len() {
                    continue;
                }
                dropped += before.len() - after.len();
                let large: Vec<&Entry> = before.iter().filter(counts).collect();
                let sum: f32 = large.iter().map(|entry| entry.weight).sum();
                assert_eq!(large.len(), after.len());
                for (entry, own) in large.into_iter().zip(after) {
                    assert_eq!(entry.texel, own.texel);
                    assert!((entry.weight / sum - own.weight).abs() < 1e-6);
                }
            }
        }
        let share = small as f64 / of as f64;
        assert!(share > 0.03, "{share} of the entries");
        match together {
            true => assert!((0.03..0.2).contains(&(dropped as f64 / of as f64))),
            false => assert!(dropped * 20 < small, "{dropped} of {small}"),
        }
    }
}

#[test]
fn a_pixel_less_than_half_opaque_has_no_row() {
    let scene = Scene::new(&square(), 16);
    let mut view = grey([0.0, 0.1, 2.0], [8, 8]);
    let has_row = |view: &View, pixel: u32| {
        footprints(&scene, view, TAPS)
            .iter()
            .any(|rows| rows.pixels.contains(&pixel))
    };
    for (alpha, wanted) in [
        (255, true),
        (MIN_ALPHA, true),
        (MIN_ALPHA - 1, false),
        (0, false),
    ] {
        view.pixels[3 * 8 + 5][3] = alpha;
        assert_eq!(has_row(&view, 3 * 8 + 5), wanted, "alpha {alpha}");
        assert!(has_row(&view, 3 * 8 + 4));
    }
}

#[test]
fn bands_follow_the_picture_from_the_top() {
    let scene = Scene::new(&square(), 16);
    let view = grey([0.0, 0.1, 2.0], [24, 3 * BAND + 5]);
    let pixels: Vec<u32> = footprints(&scene, &view, 1)
        .iter()
        .flat_map(|rows| rows.pixels.clone())
        .collect();
    assert!(pixels.is_sorted() && pixels.len() > 100);
}

#[test]
fn lookups_outside_are_those_of_the_edge() {
    let at = |u: f32, v: f32| {
        let mut footprint = Vec::new();
        add_tap(&mut footprint, 4, u, v, 1.0);
        footprint
    };
    let corner = |texel| [Entry { texel, weight: 1.0 }];
    assert_eq!(at(0.5, 0.5), corner(0));
    assert_eq!(at(-3.2, 0.1), corner(0));
    assert_eq!(at(1e30, -1e30), corner(3));
    assert_eq!(at(-1e30, 1e30), corner(12));
    assert_eq!(at(4.0, 4.0), corner(15));
}

#[test]
fn shares_of_one_texel_are_merged() {
    let mut random = Random(9);
    let mut footprint = Vec::new();
    let mut plain = [0.0f32; 36];
    for _ in 0..20 {
        let [u, v] = std::array::from_fn(|_| random.within(0.0, 6.0) as f32);
        add_tap(&mut footprint, 6, u, v, 0.05);
        for j in 0..6 {
            for i in 0..6 {
                // A hat function around each texel's centre; beyond the outermost centres it stays 1.
                let hat = |x: f32, k: usize| {
                    (1.0 - (x.clamp(0.5, 5.5) - (k as f32 + 0.5)).abs()).max(0.0)
                };
                plain[j * 6 + i] += 0.05 * hat(u, i) * hat(v, j);
            }
        }
    }
    for entry in &footprint {
        let wanted = std::mem::take(&mut plain[entry.texel as usize]);
        assert!((entry.weight - wanted).abs() < 1e-6);
    }
    assert!(plain.iter().all(|&rest| rest < 1e-6), "a texel is missing");
}
