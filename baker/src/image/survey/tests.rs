//! Unwraps whose figures can be computed by hand.

use crate::image::render::Image;
use crate::image::survey::*;

/// Two unit squares side by side on the surface and apart in the texture: its left half, and its right half, which is
/// rotated by 180° if `turned`.
fn squares(turned: bool) -> Mesh {
    let square = |x: f32| {
        [
            [x, 0.0, 0.0],
            [x + 1.0, 0.0, 0.0],
            [x + 1.0, 1.0, 0.0],
            [x, 1.0, 0.0],
        ]
    };
    // Within the texels' centres, so that lookups at the borders use texels of their own chart.
    let place = |left: f32| {
        let (l, r) = (left + 1.0 / 64.0, left + 31.0 / 64.0);
        [[l, 0.25], [r, 0.25], [r, 0.75], [l, 0.75]]
    };
    let mut uvs = [place(0.0), place(0.5)].concat();
    if turned {
        uvs[4..].rotate_left(2);
    }
    Mesh {
        positions: [square(0.0), square(1.0)].concat(),
        normals: vec![[0.0, 0.0, 1.0]; 8],
        uvs,
        surface_vertices: vec![0, 1, 2, 3, 1, 5, 6, 2],
        triangles: vec![[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]],
        charts: 2,
    }
}

fn measure(mesh: &Mesh, edge: usize, texel: impl Fn(usize, usize) -> [u8; 4]) -> AtlasFigures {
    let texels: Vec<[u8; 4]> = (0..edge * edge)
        .map(|k| texel(k % edge, k / edge))
        .collect();
    let images = [Image::new(edge, edge, &texels).unwrap()];
    let textures = Textures {
        images: &images,
        of_triangle: &[],
    };
    survey(mesh, textures, &[cover(mesh, textures, 0)])
}

#[test]
fn a_step_at_the_seam_is_the_residual_at_every_level() {
    // The left half is 100, the right 112: both sides of the one seam are constant.
    let step = |column: usize, _| {
        let value = if column < 32 { 100 } else { 112 };
        [value, value, value, 255]
    };
    let figures = measure(&squares(true), 64, step);
    assert_eq!(figures.charts, 2);
    // Rotated, the seam's other side is the right border of the texture, where no mip mixes the halves except the
    // deepest bilinear one: level 3 has 8 texels, and the left side's lookup at 31/64 takes 3/8 from the right half.
    let [zero, one, two, three] = figures.seam_residual;
    assert!((zero - 12.0).abs() < 0.01, "{zero}");
    assert!(
        one < 12.01 && two < one && three < two && three > 6.0,
        "{figures:?}"
    );
    // One edge of length 1, and a bounding box of 2×1.
    assert!((figures.seam_length - 1.0 / 5.0_f32.sqrt()).abs() < 1e-6);
    // Columns 1-30 of 32 in each half, the middle half of the rows.
    assert!(
        (figures.used - 60.0 / 64.0 * 0.5).abs() < 0.02,
        "{}",
        figures.used
    );
    assert!((figures.density_spread - 1.0).abs() < 1e-4);
}

#[test]
fn one_colour_has_no_seams_and_one_chart_neither() {
    let plain = |_, _| [9, 200, 30, 255];
    let figures = measure(&squares(true), 64, plain);
    let mut residual = figures.seam_residual.into_iter();
    assert!(residual.all(|value| value < 1e-4), "{figures:?}");
    assert!(figures.seam_length > 0.0);

    // Once they touch, both squares are one chart without a seam.
    let mut joined = squares(false);
    joined.uvs[4] = joined.uvs[1];
    joined.uvs[7] = joined.uvs[2];
    let noise = |column: usize, row: usize| [(column * 7) as u8, (row * 5) as u8, 0, 255];
    let figures = measure(&joined, 64, noise);
    assert_eq!((figures.charts, figures.seam_length), (1, 0.0));
    assert_eq!(figures.seam_residual, [0.0; 4]);
}

#[test]
fn a_seam_is_as_bad_as_its_texels() {
    // Both sides run the same way over a gradient along the seam: equal by construction, and different once one side is
    // shifted.
    let along = |shift: usize| {
        move |column: usize, row: usize| {
            let value = (row + if column < 32 { 0 } else { shift }) as u8 * 2;
            [value, value, value, 255]
        }
    };
    let good = measure(&squares(false), 64, along(0)).seam_residual[0];
    let bad = measure(&squares(false), 64, along(5)).seam_residual[0];
    assert!(good < 0.01, "{good}");
    assert!((bad - 10.0).abs() < 0.2, "{bad}");
}

#[test]
fn density_counts_by_area() {
    let mut mesh = squares(true);
    // The second square gets a quarter of the texels along an axis: densities differ by 4.
    for uv in &mut mesh.uvs[4..] {
        *uv = [0.5 + (uv[0] - 0.5) / 4.0, uv[1] / 4.0];
    }
    let figures = measure(&mesh, 64, |_, _| [0; 4]);
    assert!(
        (figures.density_spread - 4.0).abs() < 1e-3,
        "{}",
        figures.density_spread
    );
}

#[test]
fn two_pictures_are_two_charts() {
    let mesh = squares(false);
    let texels = [[10, 10, 10, 255], [30, 30, 30, 255]].map(|texel| vec![texel; 16]);
    let images = [
        Image::new(4, 4, &texels[0]).unwrap(),
        Image::new(4, 4, &texels[1]).unwrap(),
    ];
    let textures = Textures {
        images: &images,
        of_triangle: &[0, 0, 1, 1],
    };
    let owners = [cover(&mesh, textures, 0), cover(&mesh, textures, 1)];
    assert!(owners[0].iter().all(|&owner| owner == NOTHING || owner < 2));
    assert!(
        owners[1]
            .iter()
            .any(|&owner| owner >= 2 && owner != NOTHING)
    );
    let figures = survey(&mesh, textures, &owners);
    assert_eq!(figures.charts, 2);
    assert!(
        figures
            .seam_residual
            .iter()
            .all(|value| (value - 20.0).abs() < 0.01),
        "{figures:?}"
    );
}
