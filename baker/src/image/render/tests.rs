//! The renderer on cases whose pictures follow from the conventions alone.

use proto::job::Blend;
use proto::table::{Camera, Mesh};

use crate::image::render::{Image, Paint, Render, render};

const IDENTITY: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// At the origin, looking along +z, one pixel per unit at depth `focal`.
fn camera(focal: f64, centre: [f64; 2]) -> Camera {
    Camera {
        rotation: IDENTITY,
        translation: [0.0; 3],
        focal: [focal, focal],
        centre,
    }
}

fn mesh(positions: Vec<[f32; 3]>, uvs: Vec<[f32; 2]>, triangles: Vec<[u32; 3]>) -> Mesh {
    let points = positions.len() as u32;
    let normals = vec![[0.0, 0.0, 1.0]; positions.len()];
    Mesh {
        positions,
        normals,
        uvs,
        surface_vertices: (0..points).collect(),
        triangles,
        charts: 1,
    }
}

/// A rectangle at depth `z` with uv (0, 0) top left and (1, 1) bottom right, in camera axes (y down).
fn card([left, top, right, bottom]: [f32; 4], z: f32) -> Mesh {
    mesh(
        vec![
            [left, top, z],
            [right, top, z],
            [right, bottom, z],
            [left, bottom, z],
        ],
        vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]],
        vec![[0, 1, 2], [0, 2, 3]],
    )
}

fn join(mut a: Mesh, b: Mesh) -> Mesh {
    let offset = a.positions.len() as u32;
    a.positions.extend(b.positions);
    a.uvs.extend(b.uvs);
    a.normals.extend(b.normals);
    a.surface_vertices
        .extend(b.surface_vertices.iter().map(|point| point + offset));
    a.triangles
        .extend(b.triangles.iter().map(|t| t.map(|corner| corner + offset)));
    a
}

fn draw(
    mesh: &Mesh,
    texels: &[[u8; 4]],
    texture: [usize; 2],
    camera: &Camera,
    size: [u32; 2],
    samples: u32,
) -> Render {
    let image = Image::new(texture[0], texture[1], texels).expect("sizes agree");
    render(mesh, image.into(), camera, size, samples, Blend::Linear)
}

/// No two texels alike, no symmetry.
fn pattern(width: usize, height: usize) -> Vec<[u8; 4]> {
    (0..width * height)
        .map(|k| {
            [
                (k * 20 % 251) as u8,
                (k * 53 % 241) as u8,
                (k * 97 % 239) as u8,
                255,
            ]
        })
        .collect()
}

#[test]
fn texel_lands_on_its_pixel() {
    // A 4×3 texture on columns 2..6 and rows 1..4 of an 8×6 picture, one texel to a pixel.
    let texels = pattern(4, 3);
    let image = draw(
        &card([2.0, 1.0, 6.0, 4.0], 1.0),
        &texels,
        [4, 3],
        &camera(1.0, [0.0, 0.0]),
        [8, 6],
        1,
    );
    for (pixel, colour) in image.to_rgba8().into_iter().enumerate() {
        let (column, row) = (pixel % 8, pixel / 8);
        let inside = (2..6).contains(&column) && (1..4).contains(&row);
        let wanted = if inside {
            texels[(row - 1) * 4 + column - 2]
        } else {
            [0; 4]
        };
        assert_eq!(colour, wanted, "column {column}, row {row}");
    }
}

#[test]
fn coverage_is_the_covered_share_and_samples_are_centred() {
    // Left edge at a quarter of pixel 1, right edge in the middle of pixel 3; with 4 samples 3/4 and 2/4.
    let image = draw(
        &card([1.25, 0.0, 3.5, 2.0], 1.0),
        &pattern(1, 1),
        [1, 1],
        &camera(1.0, [0.0, 0.0]),
        [5, 2],
        4,
    );
    assert_eq!(image.coverage[..5], [0.0, 0.75, 1.0, 0.5, 0.0]);
    // A rectangle that misses every sample centre covers nothing.
    let image = draw(
        &card([1.13, 0.0, 1.37, 2.0], 1.0),
        &pattern(1, 1),
        [1, 1],
        &camera(1.0, [0.0, 0.0]),
        [5, 2],
        4,
    );
    assert_eq!(image.coverage[1], 0.0);
}

#[test]
fn footprint_is_averaged_in_the_space_asked_for() {
    let texels = [[0, 0, 0, 255], [255, 255, 255, 255]];
    let image = Image::new(2, 1, &texels).expect("sizes agree");
    let scene = card([0.0, 0.0, 1.0, 1.0], 1.0);
    let mean = |blend| {
        render(
            &scene,
            image.into(),
            &camera(1.0, [0.0, 0.0]),
            [1, 1],
            8,
            blend,
        )
        .colours[0][0]
    };
    // Symmetric about the middle, so the mean is exactly a half in either space.
    assert!((mean(Blend::Linear) - 0.735_357).abs() < 1e-4);
    assert!((mean(Blend::Srgb) - 0.5).abs() < 1e-6);
}

#[test]
fn slanted_plane_is_perspective_correct() {
    // The plane z = 2 + x from x = -1 to 3. Its u is linear in x, which a ramp in display values shows.
    let scene = mesh(
        vec![
            [-1.0, -5.0, 1.0],
            [3.0, -5.0, 5.0],
            [3.0, 5.0, 5.0],
            [-1.0, 5.0, 1.0],
        ],
        vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]],
        vec![[0, 1, 2], [0, 2, 3]],
    );
    let ramp: Vec<[u8; 4]> = (0..=255).map(|k| [k, k, k, 255]).collect();
    let image = Image::new(256, 1, &ramp).expect("sizes agree");
    let image = render(
        &scene,
        image.into(),
        &camera(50.0, [32.0, 8.0]),
        [64, 16],
        1,
        Blend::Srgb,
    );
    let mut seen = 0;
    for column in 0..64 {
        let slope = (column as f32 + 0.5 - 32.0) / 50.0;
        // x = slope · z and z = 2 + x.
        let x = 2.0 * slope / (1.0 - slope);
        let u = (x + 1.0) / 4.0;
        if !(0.01..0.99).contains(&u) {
            continue;
        }
        seen += 1;
        let wanted = (u * 256.0 - 0.5) / 255.0;
        let got = image.colours[8 * 64 + column][0];
        assert!(
            (got - wanted).abs() < 1e-5,
            "column {column}: {got} instead of {wanted}"
        );
    }
    assert!(seen > 50, "only {seen} columns compared");
}

#[test]
fn nearest_surface_wins_whatever_order_and_winding() {
    let near = card([1.0, 0.0, 3.0, 2.0], 1.0);
    let mut far = card([0.0, 0.0, 8.0, 8.0], 2.0);
    far.uvs.fill([1.0, 1.0]);
    let mut near = Mesh {
        uvs: vec![[0.0, 0.0]; 4],
        ..near
    };
    let texels = [
        [255, 0, 0, 255],
        [255, 0, 0, 255],
        [0, 0, 255, 255],
        [0, 0, 255, 255],
    ];
    for turn in 0..4 {
        if turn % 2 == 1 {
            near.triangles.iter_mut().for_each(|t| t.swap(0, 1));
        }
        let scene = if turn < 2 {
            join(near.clone(), far.clone())
        } else {
            join(far.clone(), near.clone())
        };
        let image = draw(&scene, &texels, [1, 4], &camera(1.0, [0.0, 0.0]), [4, 2], 2).to_rgba8();
        let row = [
            [0, 0, 255, 255],
            [255, 0, 0, 255],
            [255, 0, 0, 255],
            [0, 0, 255, 255],
        ];
        assert_eq!(
            (&image[..4], &image[4..]),
            (&row[..], &row[..]),
            "turn {turn}"
        );
    }
}

#[test]
fn surface_across_the_camera_plane_is_cut_there() {
    // A floor one unit below the camera (y down), from ten units behind to ten in front: visible from 1/10 below the
    // horizon downwards, and not mirrored above it.
    let floor = mesh(
        vec![
            [-1e3, 1.0, -10.0],
            [1e3, 1.0, -10.0],
            [1e3, 1.0, 10.0],
            [-1e3, 1.0, 10.0],
        ],
        vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]],
        vec![[0, 1, 2], [0, 2, 3]],
    );
    let image = draw(
        &floor,
        &pattern(4, 4),
        [4, 4],
        &camera(40.0, [16.0, 16.0]),
        [32, 32],
        2,
    );
    for (pixel, &coverage) in image.coverage.iter().enumerate() {
        let row = pixel / 32;
        assert_eq!(
            coverage,
            if row >= 20 { 1.0 } else { 0.0 },
            "row {row}, column {}",
            pixel % 32
        );
    }
}

#[test]
fn camera_inside_a_box_sees_it_all_around() {
    let corner = |k: u32| {
        [
            (k & 1) as f32 * 2.0 - 1.0,
            (k >> 1 & 1) as f32 * 2.0 - 1.0,
            (k >> 2) as f32 * 2.0 - 1.0,
        ]
    };
    let faces = [
        [0, 1, 3, 2],
        [4, 5, 7, 6],
        [0, 1, 5, 4],
        [2, 3, 7, 6],
        [0, 2, 6, 4],
        [1, 3, 7, 5],
    ];
    let scene = mesh(
        (0..8).map(corner).collect(),
        vec![[0.5, 0.5]; 8],
        faces
            .iter()
            .flat_map(|f| [[f[0], f[1], f[2]], [f[0], f[2], f[3]]])
            .collect(),
    );
    // 140° wide, off-centre and rotated, so that edges and corners show and faces cross the camera plane.
    let (sin, cos) = 0.4_f64.sin_cos();
    let mut view = camera(6.0, [16.0, 16.0]);
    view.rotation = [[cos, 0.0, -sin], [0.0, 1.0, 0.0], [sin, 0.0, cos]];
    view.translation = [0.1, -0.3, 0.2];
    let image = draw(&scene, &[[9, 99, 199, 255]], [1, 1], &view, [32, 32], 3);
    assert!(
        image
            .to_rgba8()
            .iter()
            .all(|&pixel| pixel == [9, 99, 199, 255])
    );
}

#[test]
fn behind_the_camera_nothing_shows() {
    let image = draw(
        &card([-5.0, -5.0, 5.0, 5.0], -1.0),
        &pattern(1, 1),
        [1, 1],
        &camera(4.0, [4.0, 4.0]),
        [8, 8],
        2,
    );
    assert!(image.coverage.iter().all(|&c| c == 0.0));
}

#[test]
fn shared_edges_leave_no_gap_and_cover_no_more() {
    // A fan of slivers around a point at a sample centre, with spokes through many others.
    let spokes = 97;
    let mut positions = vec![[16.5, 16.5, 1.0]];
    positions.extend((0..spokes).map(|k| {
        let angle = k as f32 / spokes as f32 * std::f32::consts::TAU;
        [
            16.5 + 40.0 * angle.cos(),
            16.5 + 40.0 * angle.sin(),
            1.0 + (k % 5) as f32 * 0.01,
        ]
    }));
    let uvs = vec![[0.5, 0.5]; positions.len()];
    let triangles = (0..spokes)
        .map(|k| [0, 1 + k, 1 + (k + 1) % spokes])
        .collect();
    let scene = mesh(positions, uvs, triangles);
    let image = draw(
        &scene,
        &pattern(1, 1),
        [1, 1],
        &camera(1.0, [0.0, 0.0]),
        [33, 33],
        5,
    );
    let gaps = image.coverage.iter().filter(|&&c| c != 1.0).count();
    assert_eq!(gaps, 0, "{gaps} pixels with a gap");
}

#[test]
fn world_point_shows_where_the_camera_says() {
    // Rotated, translated, unequal focal lengths, principal point outside the picture: a dot where the formula puts it.
    let (sin, cos) = 0.3_f64.sin_cos();
    let view = Camera {
        rotation: [[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.5, -0.25, 4.0],
        focal: [60.0, 40.0],
        centre: [-10.0, 30.0],
    };
    let world = [1.5_f64, 0.75, 1.0];
    let seen = [0, 1, 2]
        .map(|k| (0..3).map(|j| view.rotation[k][j] * world[j]).sum::<f64>() + view.translation[k]);
    let wanted = [
        60.0 * seen[0] / seen[2] - 10.0,
        40.0 * seen[1] / seen[2] + 30.0,
    ];
    let [x, y, z] = world.map(|c| c as f32);
    let dot = card([x - 0.2, y - 0.2, x + 0.2, y + 0.2], z);
    let image = draw(&dot, &pattern(1, 1), [1, 1], &view, [16, 48], 8);
    let total: f32 = image.coverage.iter().sum();
    let mean = |axis: fn(usize) -> usize| {
        let sum: f32 = image
            .coverage
            .iter()
            .enumerate()
            .map(|(k, c)| (axis(k) as f32 + 0.5) * c)
            .sum();
        f64::from(sum / total)
    };
    let got = [mean(|k| k % 16), mean(|k| k / 16)];
    assert!(
        (got[0] - wanted[0]).abs() < 0.02 && (got[1] - wanted[1]).abs() < 0.02,
        "{got:?} instead of {wanted:?}"
    );
}

#[test]
fn picture_does_not_depend_on_the_bands() {
    // Taller than one band, with a pattern that differs in every row; a crop of it gives the same picture.
    let scene = card([0.0, 0.0, 40.0, 900.0], 1.0);
    let texels = pattern(40, 900);
    let whole = draw(
        &scene,
        &texels,
        [40, 900],
        &camera(1.0, [0.0, 0.0]),
        [40, 900],
        2,
    );
    let part = draw(
        &scene,
        &texels,
        [40, 900],
        &camera(1.0, [0.0, -333.0]),
        [40, 50],
        2,
    );
    assert_eq!(whole.colours[333 * 40..383 * 40], part.colours[..]);
    // The comparison can fail: one pixel off is another picture.
    assert_ne!(whole.colours[334 * 40..384 * 40], part.colours[..]);
}

#[test]
fn colours_of_vertices_are_interpolated_in_linear_light_and_in_perspective() {
    // The plane z = 2 + x of the test above, black at its left end and white at its right one.
    let scene = mesh(
        vec![
            [-1.0, -5.0, 1.0],
            [3.0, -5.0, 5.0],
            [3.0, 5.0, 5.0],
            [-1.0, 5.0, 1.0],
        ],
        vec![[0.0; 2]; 4],
        vec![[0, 1, 2], [0, 2, 3]],
    );
    let (black, white) = ([0, 0, 0, u16::MAX], [u16::MAX; 4]);
    let colours = [black, white, white, black];
    let shown = |blend| {
        let camera = camera(50.0, [32.0, 8.0]);
        render(
            &scene,
            Paint::Vertices(&colours),
            &camera,
            [64, 16],
            1,
            blend,
        )
    };
    let mut seen = 0;
    for column in 0..64 {
        let slope = (column as f32 + 0.5 - 32.0) / 50.0;
        let light = (2.0 * slope / (1.0 - slope) + 1.0) / 4.0;
        if !(0.01..0.99).contains(&light) {
            continue;
        }
        seen += 1;
        for blend in [Blend::Linear, Blend::Srgb] {
            let [red, ..] = shown(blend).colours[8 * 64 + column];
            let wanted = crate::image::render::srgb::encode(light);
            assert!(
                (red - wanted).abs() < 1e-4,
                "{red} for {wanted} in {column}"
            );
        }
    }
    assert!(seen > 30, "{seen} columns");
}
