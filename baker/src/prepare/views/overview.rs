//! Mesh and views, as they were understood → a contact sheet: the outline of the mesh over some of the pictures.
//!
//! A wrong frame, unit, lens, mask or order of the pictures is seen on it before anything is baked: the outline does not
//! follow what the picture shows. Lenses are straightened and masks applied, as the bake gets them.

use proto::job::Blend;
use proto::message::{Failure, Phase};
use proto::table::{Camera, Mesh};

use super::set::{Set, turned};
use super::stand::Stand;
use crate::image::png;
use crate::image::render::{Paint, render};
use crate::image::sheet::canvas::Canvas;
use crate::image::sheet::tile::{self, Shrink, Tile};
use crate::image::sheet::{ADVANCE, BACKGROUND, CELL, FAINT, GAP, LINE, MARGIN, TEXT};
use crate::prepare::frame::picked;
use crate::prepare::picture::Picture;
use crate::worker::failure::internal;
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

/// Most views on the sheet, and how many lie side by side.
const VIEWS: usize = 9;
const COLUMNS: usize = 3;
/// Most characters below a picture.
const CHARACTERS: usize = CELL / ADVANCE;
/// Least alpha of a pixel that the picture shows.
const SHOWN: u8 = 24;

const OUTLINE: [u8; 3] = [255, 190, 0];
const MESH_ALONE: [u8; 3] = [230, 60, 160];
const PICTURE_ALONE: [u8; 3] = [40, 140, 255];

/// Draws the sheet as a PNG.
///
/// # Errors
/// The views cannot be read.
pub(super) fn overview(
    set: &Set<'_>,
    stand: &Stand,
    mesh: &Mesh,
    progress: &dyn Progress,
) -> Result<Vec<u8>, Failure> {
    let mut numbers = picked(set.len(), VIEWS);
    numbers.sort_unstable();
    let rows = numbers.len().div_ceil(COLUMNS);
    let mut canvas = Canvas::new(column(COLUMNS) - GAP + MARGIN, BACKGROUND);
    let mut y = MARGIN;
    for (line, colour) in title(mesh, set, stand).iter().zip([TEXT, FAINT]) {
        canvas.text([column(0), y], line, colour);
        y += LINE;
    }
    y += GAP;
    for row in 0..rows {
        progress.progress(Phase::Preview, row as u64, rows as u64);
        let row = &numbers[row * COLUMNS..numbers.len().min((row + 1) * COLUMNS)];
        let mut below = Vec::new();
        let mut height = 0;
        for (k, &index) in row.iter().enumerate() {
            let source = set.source(index)?;
            progress.expect(
                &set.name(index),
                each(source.decoding_bytes(), pace::DECODE_BYTE)
                    + each(mesh.triangles.len(), pace::TRIANGLE),
            );
            let words = match source.whole() {
                Some((picture, camera)) => {
                    let cell = Cell::new(&picture, &turned(camera, set.up), mesh);
                    height = height.max(canvas.tile([column(k), y], &cell.tile, CELL));
                    cell.words(&picture, &camera)
                }
                None => "cannot be decoded".to_owned(),
            };
            let named = format!("view {index}: {}", tail(&set.name(index)));
            below.push((named, words));
        }
        y += height + 8;
        for (k, (named, words)) in below.iter().enumerate() {
            canvas.text([column(k), y], named, TEXT);
            canvas.text([column(k), y + LINE], words, FAINT);
        }
        y += 2 * LINE + GAP;
    }
    let legend = [
        (OUTLINE, "outline of the mesh"),
        (MESH_ALONE, "mesh, transparent picture"),
        (PICTURE_ALONE, "picture without mesh"),
    ];
    for (k, (colour, words)) in legend.into_iter().enumerate() {
        canvas.fill([column(k), y + 3], [14, 14], colour);
        canvas.text([column(k) + 24, y], words, FAINT);
    }
    let drawn = canvas.finish(y + LINE + MARGIN, png::encode);
    drawn.map_err(|error| internal(&error))
}

fn column(k: usize) -> usize {
    MARGIN + k * (CELL + GAP)
}

/// What was understood of mesh and frame.
fn title(mesh: &Mesh, set: &Set<'_>, stand: &Stand) -> [String; 2] {
    let mut corners = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
    for at in &mesh.positions {
        for k in 0..3 {
            corners[0][k] = corners[0][k].min(at[k]);
            corners[1][k] = corners[1][k].max(at[k]);
        }
    }
    let [x, y, z] = [0, 1, 2].map(|k| corners[1][k] - corners[0][k]);
    [
        format!(
            "mesh: {} triangles, {x:.4} x {y:.4} x {z:.4}, y up   views: {}, in {}",
            mesh.triangles.len(),
            set.len(),
            tail(set.file)
        ),
        match (stand.is_other(), stand.left_out.len()) {
            (true, _) => "frame: not as the files say, see the warning".to_owned(),
            (false, 0) => "frame: as the files say".to_owned(),
            (false, count) => format!("frame: as the files say; {count} views look elsewhere"),
        },
    ]
}

/// The end of a name, as far as it fits below a picture.
fn tail(name: &str) -> String {
    let count = name.chars().count();
    let most = CHARACTERS - 12;
    match count > most {
        true => format!("...{}", name.chars().skip(count - most).collect::<String>()),
        false => name.to_owned(),
    }
}

/// A picture with the mesh over it.
struct Cell {
    tile: Tile,
    /// Intersection over union of what picture and mesh cover, where the picture has alpha.
    overlap: Option<f64>,
}

impl Cell {
    fn new(picture: &Picture, camera: &Camera, mesh: &Mesh) -> Self {
        let size = [picture.width as usize, picture.height as usize];
        let mut shrink = Shrink::new(size, CELL);
        let Tile { width, height, .. } = shrink.picture();
        let mut shown = vec![false; width * height];
        for (index, &pixel) in picture.pixels.iter().enumerate() {
            let at = [index % size[0], index / size[0]];
            shrink.add(at, tile::light(pixel));
            shown[at[1] * height / size[1] * width + at[0] * width / size[0]] |= pixel[3] >= SHOWN;
        }
        let mut tile = shrink.picture();
        let covered = covered(mesh, camera, size, [width, height]);
        let count = |wanted: &dyn Fn(bool, bool) -> bool| {
            let both = shown.iter().zip(&covered);
            both.filter(|(shown, covered)| wanted(**shown, **covered))
                .count() as f64
        };
        let has_alpha = picture.has_alpha;
        let overlap = count(&|a, b| a && b) / count(&|a, b| a || b).max(1.0);
        for at in 0..width * height {
            let (x, y) = (at % width, at / width);
            let inside = |x: usize, y: usize| x < width && y < height && covered[y * width + x];
            let beside = [
                (x.wrapping_sub(1), y),
                (x + 1, y),
                (x, y.wrapping_sub(1)),
                (x, y + 1),
            ];
            let edge = covered[at] && beside.iter().any(|&(x, y)| !inside(x, y));
            let pixel = &mut tile.pixels[at];
            match (edge, covered[at], shown[at]) {
                (true, ..) => *pixel = OUTLINE,
                (false, true, false) => *pixel = mixed(*pixel, MESH_ALONE),
                (false, false, true) if has_alpha => *pixel = mixed(*pixel, PICTURE_ALONE),
                _ => {}
            }
        }
        Self {
            tile,
            overlap: has_alpha.then_some(overlap),
        }
    }

    /// Size, focal lengths, and how well mesh and picture overlap.
    fn words(&self, picture: &Picture, camera: &Camera) -> String {
        let [fx, fy] = camera.focal;
        let overlap = match self.overlap {
            Some(overlap) => format!("overlap {:.0} %", overlap * 100.0),
            None => "opaque".to_owned(),
        };
        let (width, height) = (picture.width, picture.height);
        format!("{width}x{height} f {fx:.0} {fy:.0} {overlap}")
    }
}

fn mixed(a: [u8; 3], b: [u8; 3]) -> [u8; 3] {
    [0, 1, 2].map(|k| a[k].midpoint(b[k]))
}

/// The pixels of a picture of size `from`, shrunk to `to`, that the mesh covers at least by half.
fn covered(mesh: &Mesh, camera: &Camera, from: [usize; 2], to: [usize; 2]) -> Vec<bool> {
    let scale = [0, 1].map(|k| to[k] as f64 / from[k].max(1) as f64);
    let small = Camera {
        focal: [0, 1].map(|k| camera.focal[k] * scale[k]),
        centre: [0, 1].map(|k| camera.centre[k] * scale[k]),
        ..*camera
    };
    let white = vec![[u16::MAX; 4]; mesh.positions.len()];
    let size = to.map(|edge| edge as u32);
    let drawn = render(
        mesh,
        Paint::Vertices(&white),
        &small,
        size,
        2,
        Blend::Linear,
    );
    drawn.coverage.iter().map(|&share| share >= 0.5).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::picture::Colours;

    /// A square 2 wide, its lower left quarter missing in the picture's alpha: x right, y down, looking along z.
    #[test]
    fn outline_and_tints_lie_where_mesh_and_picture_do() {
        let mesh = Mesh {
            positions: vec![
                [-1.0, -1.0, 0.0],
                [1.0, -1.0, 0.0],
                [1.0, 1.0, 0.0],
                [-1.0, 1.0, 0.0],
            ],
            normals: vec![[0.0, 0.0, 1.0]; 4],
            uvs: vec![[0.0; 2]; 4],
            surface_vertices: vec![0, 1, 2, 3],
            triangles: vec![[0, 1, 2], [0, 2, 3]],
            charts: 1,
        };
        // The square covers columns and rows 10 to 30 of 40.
        let camera = Camera {
            rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [0.0, 0.0, 2.0],
            focal: [20.0; 2],
            centre: [20.0; 2],
        };
        let pixel = |at: usize| match (at % 40 < 20, at / 40 >= 20) {
            (true, true) => [0; 4],
            _ => [10, 20, 30, 255],
        };
        let picture = Picture {
            width: 40,
            height: 40,
            has_alpha: true,
            pixels: (0..1600).map(pixel).collect(),
            colours: Colours::default(),
        };
        let cell = Cell::new(&picture, &camera, &mesh);
        let at = |x: usize, y: usize| cell.tile.pixels[y * cell.tile.width + x];
        assert_eq!(at(10, 15), OUTLINE);
        assert_eq!(at(25, 15), [10, 20, 30]);
        assert_eq!(at(5, 5), mixed([10, 20, 30], PICTURE_ALONE));
        assert_eq!(at(15, 25), mixed([128; 3], MESH_ALONE));
        assert_eq!(at(5, 35), [128; 3]);
        // 300 pixels of both; 400 of the mesh and 900 beyond it.
        let overlap = cell.overlap.expect("it has alpha");
        assert!((overlap - 300.0 / 1300.0).abs() < 1e-9, "{overlap}");
        assert_eq!(cell.words(&picture, &camera), "40x40 f 20 20 overlap 23 %");
    }

    #[test]
    fn names_keep_their_ends() {
        assert_eq!(tail("r_0.png"), "r_0.png");
        let long = format!("{}/r_123.png", "folder".repeat(9));
        assert!(tail(&long).starts_with("...") && tail(&long).ends_with("/r_123.png"));
        assert!(tail(&long).len() < CHARACTERS);
    }
}
