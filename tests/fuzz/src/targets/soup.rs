//! A few random triangles through all mesh stages of prepare: read equally from PLY and OBJ, cleaned, simplified,
//! unwrapped, and written as a table that bake accepts.

use std::time::Duration;

use arbitrary::Unstructured;
use baker::prepare::load::{Offset, RawMesh};
use baker::prepare::{clean, simplify, unwrap};
use baker::worker::progress::Silent;
use proto::job::Simplify;

use super::mesh::{load, passes};

/// Few points, for speed: faults between charts need only a few charts.
const MOST_POINTS: usize = 12;
const MOST_TRIANGLES: usize = 16;
const TEXTURE_SIZE: u32 = 64;

/// Input: how points are written, target of the simplification, number of points, points, three bytes per triangle.
pub fn soup(bytes: &[u8]) -> bool {
    let Ok(soup) = take(&mut Unstructured::new(bytes)) else {
        return false;
    };
    let [ply, obj] = [to_ply(&soup), to_obj(&soup)].map(|(name, file)| load(&file, name));
    let (raw, other) = match (ply, obj) {
        (Ok(ply), Ok(obj)) => (ply, obj),
        (ply, obj) => {
            assert_eq!(ply.is_ok(), obj.is_ok(), "{ply:?} but {obj:?}");
            return false;
        }
    };
    assert_eq!(bits(&raw), bits(&other), "PLY and OBJ say the same");
    assert_eq!(
        bits(&raw),
        (soup.points, soup.triangles),
        "what was written"
    );
    let Ok(clean) = clean::clean(&raw.0) else {
        return false;
    };
    let order = Simplify::TargetFaces(soup.target);
    let target = simplify::target(order, clean.triangles.len());
    let surface = match target.expect("a number above zero") {
        Some(target) => match simplify::simplify(&clean, target) {
            Ok(simplified) => simplified.mesh,
            Err(_nothing_left) => return false,
        },
        None => clean,
    };
    let unwrapped = unwrap::unwrap_with(
        &surface,
        (TEXTURE_SIZE, unwrap::Pages::ONE),
        soup.deadline,
        unwrap::Work {
            improved: soup.improved,
            ..unwrap::Work::FULL
        },
        &Silent,
    )
    .expect("threads");
    if unwrapped.utilisation <= 0.0 {
        // Too many charts for so small a texture, which prepare refuses.
        return false;
    }
    assert_eq!(
        unwrapped.mesh.triangles.len(),
        surface.triangles.len(),
        "no triangle is lost"
    );
    let mesh = &unwrapped.mesh;
    for (flat, corners) in mesh.triangles.iter().zip(&surface.triangles) {
        let points = flat.map(|vertex| mesh.surface_vertices[vertex as usize]);
        assert_eq!(points, *corners, "each triangle is the one it was");
        let moved = flat.map(|vertex| mesh.positions[vertex as usize]);
        assert_eq!(
            moved,
            corners.map(|point| surface.positions[point as usize])
        );
    }
    assert!(
        unwrapped.utilisation <= 1.0,
        "a share: {}",
        unwrapped.utilisation
    );
    passes(&unwrapped.mesh);
    true
}

struct Soup {
    points: Vec<[u32; 3]>,
    triangles: Vec<[u32; 3]>,
    target: u32,
    /// Deadline for the better of the two segmentations, which is ten times slower when instrumented.
    deadline: Duration,
    /// Segmentations that are packed with effort.
    improved: usize,
}

fn take(bytes: &mut Unstructured<'_>) -> arbitrary::Result<Soup> {
    let (form, target, count): (u8, u8, u8) = bytes.arbitrary()?;
    let count = usize::from(count) % MOST_POINTS + 3;
    let mut points = Vec::new();
    for _ in 0..count {
        let mut point = [0.0_f32; 3];
        for x in &mut point {
            *x = match form % 4 {
                // On a coarse grid, where points coincide and triangles degenerate.
                0 => f32::from(bytes.arbitrary::<i8>()? % 4),
                1 => f32::from(bytes.arbitrary::<i16>()?) / 256.0,
                2 => f32::from(bytes.arbitrary::<i8>()?) * 10_f32.powi(i32::from(form >> 2) - 32),
                _ => f32::from_bits(bytes.arbitrary()?),
            };
        }
        // Text has only one NaN.
        points.push(point.map(|x| if x.is_nan() { f32::NAN } else { x }.to_bits()));
    }
    let mut triangles = Vec::new();
    while triangles.len() < MOST_TRIANGLES && bytes.len() >= 3 {
        let corners: [u8; 3] = bytes.arbitrary()?;
        triangles.push(corners.map(|corner| u32::from(corner) % count as u32));
    }
    Ok(Soup {
        deadline: Duration::from_secs(if form < 224 { 0 } else { 60 }),
        improved: usize::from(form == 255),
        points,
        triangles,
        target: u32::from(target) % MOST_TRIANGLES as u32 + 1,
    })
}

fn to_ply(soup: &Soup) -> (&'static str, Vec<u8>) {
    let mut file = format!(
        "ply\nformat binary_big_endian 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n\
         element face {}\nproperty list uchar uint vertex_indices\nend_header\n",
        soup.points.len(),
        soup.triangles.len()
    )
    .into_bytes();
    for x in soup.points.iter().flatten() {
        file.extend(x.to_be_bytes());
    }
    for corners in &soup.triangles {
        file.push(3);
        file.extend(corners.iter().flat_map(|corner| corner.to_be_bytes()));
    }
    ("soup.ply", file)
}

fn to_obj(soup: &Soup) -> (&'static str, Vec<u8>) {
    let mut file = String::from("o soup\n");
    for point in &soup.points {
        let [x, y, z] = point.map(f32::from_bits);
        // The shortest text that reads back as the same number.
        file += &format!("v {x:?} {y:?} {z:?}\n");
    }
    for corners in &soup.triangles {
        let [a, b, c] = corners.map(|corner| corner + 1);
        file += &format!("f {a} {b} {c}\n");
    }
    ("soup.obj", file.into_bytes())
}

/// Points of the file as bits, and triangles. Text holds f64, of which the nearest f32 was written.
fn bits((raw, offset): &(RawMesh, Offset)) -> (Vec<[u32; 3]>, Vec<[u32; 3]>) {
    let place = |point: &[f32; 3]| {
        let axis = |k: usize| match offset[k] {
            // As it is: the sum would lose the sign of a zero.
            0.0 => point[k],
            by => (by + f64::from(point[k])) as f32,
        };
        [0, 1, 2].map(|k| axis(k).to_bits())
    };
    let positions = raw.positions.iter().map(place).collect();
    (positions, raw.triangles.clone())
}
