//! Seams agree as the survey of finished files measures them, and observed texels stay.

use proto::table::Mesh;

use crate::bake::finish::gutter::gutter;
use crate::bake::finish::seams::*;
use crate::bake::fixture::{Random, cube, mesh, paint, sphere, waves};
use crate::bake::model::colour::to_byte;
use crate::bake::model::raster::NOTHING;
use crate::image::render::{Image, Textures};
use crate::image::survey;

/// A mesh's texels in linear light as a fit would leave them: charts painted, gutter black.
fn painted(
    mesh: &Mesh,
    size: u32,
    colour: impl Fn([f32; 3]) -> [f32; 3],
) -> (Scene, Atlas, Vec<[f32; 4]>) {
    let scene = Scene::new(mesh, size);
    let atlas = Atlas::new(&scene);
    let texture = paint(mesh, size, colour);
    let texels = texture
        .texels
        .iter()
        .zip(&atlas.triangles)
        .map(|(texel, &triangle)| {
            let [r, g, b, _] = texel.map(|byte| decode(f32::from(byte) / 255.0));
            if triangle == NOTHING {
                [0.0; 4]
            } else {
                [r, g, b, 0.0]
            }
        })
        .collect();
    (scene, atlas, texels)
}

/// All charts are well observed, the gutter not at all.
fn seen(atlas: &Atlas) -> Vec<f32> {
    let weight = |&triangle: &u32| if triangle == NOTHING { 0.0 } else { 4.0 };
    atlas.triangles.iter().map(weight).collect()
}

/// The survey's figures of these texels.
fn residual(mesh: &Mesh, size: u32, texels: &[[u8; 4]]) -> [f32; survey::LEVELS] {
    let images = [Image::new(size as usize, size as usize, texels).unwrap()];
    let textures = Textures {
        images: &images,
        of_triangle: &[],
    };
    survey::survey(mesh, textures, &[survey::cover(mesh, textures, 0)]).seam_residual
}

fn bytes(texels: &[[f32; 4]]) -> Vec<[u8; 4]> {
    let byte = |texel: &[f32; 4]| {
        let [r, g, b] = [0, 1, 2].map(|c| to_byte(texel[c], Blend::Linear));
        [r, g, b, 255]
    };
    texels.iter().map(byte).collect()
}

/// The survey's figures with the gutter of a pull-push, and after mending.
fn before_and_after(
    mesh: &Mesh,
    size: u32,
    colour: impl Fn([f32; 3]) -> [f32; 3],
) -> [[f32; 4]; 2] {
    let (scene, atlas, mut texels) = painted(mesh, size, colour);
    let observed = seen(&atlas);
    let plain = gutter(texels.clone(), &observed, &atlas, size, Blend::Linear);
    let before = residual(mesh, size, &plain.texels);
    mend(&mut texels, &observed, &scene, &atlas, Blend::Linear);
    [before, residual(mesh, size, &bytes(&texels))]
}

#[test]
fn both_sides_of_a_seam_agree_at_every_mip_level() {
    // Faces of different colours, rotated against each other: no two sides of a seam run alike.
    let [before, after] = before_and_after(&cube(), 128, waves);
    assert!(
        before[1..].iter().all(|&off| off > 2.5),
        "the pull-push does not do it: {before:?}"
    );
    assert!(
        after
            .iter()
            .zip([0.4, 0.8, 1.2, 2.5])
            .all(|(&off, most)| off < most),
        "{after:?}"
    );

    // One chart that meets itself; its mesh is fine where the texture is coarse.
    let [before, after] = before_and_after(&sphere(24, 16), 128, waves);
    let better = before
        .iter()
        .zip(&after)
        .all(|(before, after)| after * 1.4 < *before);
    assert!(better, "{before:?} {after:?}");
}

#[test]
fn texels_that_are_seen_stay_and_those_that_are_not_give_way() {
    // One face is a step darker than the rest: its seams cannot agree without a change.
    let step = |at: [f32; 3]| if at[0] > 0.499 { [0.4; 3] } else { [0.6; 3] };
    let (scene, atlas, start) = painted(&cube(), 64, step);
    let dark = |texel: usize| {
        let triangle = atlas.triangles[texel];
        triangle != NOTHING && triangle / 2 == 3
    };
    let largest = |observed: &[f32], dim: bool| {
        let mut texels = start.clone();
        mend(&mut texels, observed, &scene, &atlas, Blend::Linear);
        (0..texels.len())
            .filter(|&texel| atlas.triangles[texel] != NOTHING && dark(texel) == dim)
            .map(|texel| (encode(texels[texel][1]) - encode(start[texel][1])).abs())
            .fold(0.0, f32::max)
    };
    let everywhere = seen(&atlas);
    let firm = largest(&everywhere, true);
    let elsewhere: Vec<f32> = (0..everywhere.len())
        .map(|texel| if dark(texel) { 0.0 } else { everywhere[texel] })
        .collect();
    let (unseen, other) = (largest(&elsewhere, true), largest(&elsewhere, false));
    // The gutter beside a border gives way first, and it suffices.
    assert!(
        firm < 0.002 && unseen > 3.0 * firm && other < 0.002,
        "{firm} {unseen} {other}"
    );
}

#[test]
fn where_there_is_no_seam_nothing_but_the_gutter_changes() {
    // One square, no edge of which meets another.
    let corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.5], [0.0, 0.5]];
    let square = mesh(
        corners.map(|[x, y]| [x, y, 0.0]).to_vec(),
        corners
            .map(|[x, y]| [0.2 + 0.5 * x, 0.3 + 0.6 * y])
            .to_vec(),
        vec![[0, 1, 2], [0, 2, 3]],
    );
    let (scene, atlas, start) = painted(&square, 32, waves);
    let observed = seen(&atlas);
    let plain = gutter(start.clone(), &observed, &atlas, 32, Blend::Linear);
    let mut texels = start;
    mend(&mut texels, &observed, &scene, &atlas, Blend::Linear);
    assert_eq!(bytes(&texels), plain.texels);
}

/// Random triangles over six places of the surface, each of them a chart of its own.
fn soup(seed: u64, size: f64, uv: impl Fn(&mut Random) -> [f32; 2]) -> Mesh {
    let mut random = Random(seed);
    let places: Vec<[f32; 3]> = (0..6)
        .map(|_| std::array::from_fn(|_| random.within(-size, size) as f32))
        .collect();
    let (mut positions, mut uvs, mut triangles) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..14u32 {
        for _ in 0..3 {
            positions.push(places[random.next() as usize % 6]);
            uvs.push(uv(&mut random));
        }
        triangles.push([3 * k, 3 * k + 1, 3 * k + 2]);
    }
    mesh(positions, uvs, triangles)
}

#[test]
fn charts_of_any_kind_give_colours() {
    let within = |random: &mut Random| [0, 1].map(|_| random.within(0.0, 1.0) as f32);
    // Edges without length, edges of many triangles, overlapping charts, charts far outside of the texture, and charts
    // without area.
    let far = |random: &mut Random| [0, 1].map(|_| random.within(-40.0, 40.0) as f32);
    let beyond = |random: &mut Random| [0, 1].map(|_| random.within(-0.5, 1.5) as f32);
    let point = |_: &mut Random| [0.4, 0.6];
    let empty = Mesh {
        triangles: Vec::new(),
        ..soup(1, 1.0, within)
    };
    let meshes = [
        soup(2, 1.0, within),
        soup(3, 0.0, within),
        soup(4, 1.0, far),
        soup(5, 1.0, beyond),
        soup(6, 1.0, point),
        empty,
    ];
    for (number, mesh) in meshes.iter().enumerate() {
        // Below 8 texels there are fewer levels; 17 and 27 have odd rows that mips leave out.
        for size in [1, 2, 5, 16, 17, 27] {
            for blend in [Blend::Linear, Blend::Srgb] {
                let scene = Scene::new(mesh, size);
                let atlas = Atlas::new(&scene);
                let count = scene.texels();
                let mut random = Random(7);
                let mut texels: Vec<[f32; 4]> = (0..count)
                    .map(|_| std::array::from_fn(|_| random.within(-0.1, 1.1) as f32))
                    .collect();
                let observed: Vec<f32> = (0..count).map(|k| (k % 3) as f32).collect();
                mend(&mut texels, &observed, &scene, &atlas, blend);
                let wrong = texels
                    .iter()
                    .filter(|texel| !texel[..3].iter().all(|x| (0.0..=1.000_001).contains(x)))
                    .count();
                assert_eq!(wrong, 0, "mesh {number}, {size}², {blend:?}");
            }
        }
    }
}

#[test]
fn an_edge_of_three_faces_has_one_colour() {
    // Three squares around one edge, like the pages of a book.
    let (mut positions, mut uvs, mut triangles) = (Vec::new(), Vec::new(), Vec::new());
    for page in 0..3u32 {
        let angle = f64::from(page) * 2.0;
        let out = [angle.cos() as f32, 0.0, angle.sin() as f32];
        positions.extend([[0.0; 3], out, [out[0], 1.0, out[2]], [0.0, 1.0, 0.0]]);
        let left = 0.05 + page as f32 / 3.0;
        uvs.extend([
            [left, 0.1],
            [left + 0.22, 0.1],
            [left + 0.22, 0.8],
            [left, 0.8],
        ]);
        let k = 4 * page;
        triangles.extend([[k, k + 1, k + 2], [k, k + 2, k + 3]]);
    }
    let book = mesh(positions, uvs, triangles);
    let [before, after] = before_and_after(&book, 256, waves);
    assert!(before[2] > 1.5 && before[3] > 3.0, "{before:?}");
    assert!(after.iter().all(|&off| off < 1.0), "{after:?}");
}

#[test]
fn the_same_bits_come_from_any_number_of_threads() {
    let on = |threads: usize| {
        let (scene, atlas, mut texels) = painted(&cube(), 96, waves);
        let observed = seen(&atlas);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| mend(&mut texels, &observed, &scene, &atlas, Blend::Linear));
        texels
            .iter()
            .flatten()
            .map(|x| x.to_bits())
            .collect::<Vec<u32>>()
    };
    assert!(on(1) == on(3));
}

#[test]
fn what_seams_take_is_bounded_by_the_texture() {
    let side = |x: f64| SeamSide {
        ends: [[x, 0.0], [x, 1000.0]],
        inward: [1.0, 0.0],
        chart: 0,
    };
    let seams: Vec<[SeamSide; 2]> = (0..4000)
        .map(|k| [side(f64::from(k) / 20.0), side(0.5)])
        .collect();
    let count = |seams: &[[SeamSide; 2]]| rows::rows(256, seams, 0).len();
    assert_eq!(count(&seams[..100]), 100 * 2000);
    let all = count(&seams) as f64;
    let most = 2.0 * crate::bake::model::atlas::most_length(256);
    assert!(
        (0.9 * most..most + 4000.0).contains(&all),
        "{all} of {most}"
    );
    let lengths: f64 = rows::rows(256, &seams, 0)
        .iter()
        .map(|row| f64::from(row.length))
        .sum();
    assert!(
        (lengths / 4e6 - 1.0).abs() < 1e-3,
        "they stand for all of the length: {lengths}"
    );
}
