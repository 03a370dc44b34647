//! The smallest jobs that go through every stage: a tetrahedron whose texture has two charts, so that there are seams, and
//! two views of it, or splats at its corners.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::picture::Picture;
use crate::splats::{Splat, ply};

const EDGE: u32 = 24;

const MESH: &str = "\
v 1 1 1
v -1 -1 1
v -1 1 -1
v 1 -1 -1
vt 0.05 0.05
vt 0.45 0.05
vt 0.05 0.45
vt 0.55 0.05
vt 0.95 0.05
vt 0.55 0.45
f 1/1 2/2 4/3
f 1/4 3/5 2/6
";

/// Corners of the tetrahedron.
const CORNERS: [[f32; 3]; 4] = [
    [1.0, 1.0, 1.0],
    [-1.0, -1.0, 1.0],
    [-1.0, 1.0, -1.0],
    [1.0, -1.0, -1.0],
];

/// Writes `mesh.obj`, `transforms.json` and its pictures, and `splats.ply`.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("mesh.obj"), MESH)?;
    let splats = CORNERS.map(|at| Splat {
        at,
        scale: 0.5,
        constant: at,
    });
    fs::write(folder.join("splats.ply"), ply(&splats, 1, 0.1))?;
    let mut frames = String::new();
    for (view, side) in [1, -1].into_iter().enumerate() {
        picture(&folder.join(format!("{view}.png")), view as u8);
        let comma = if view > 0 { ", " } else { "" };
        // Columns are right, up and back. The camera is four units before the origin, or behind it.
        write!(
            frames,
            "{comma}{{\"file_path\": \"{view}.png\", \"transform_matrix\": \
             [[{side}, 0, 0, 0], [0, 1, 0, 0], [0, 0, {side}, {}], [0, 0, 0, 1]]}}",
            4 * side
        )
        .map_err(io::Error::other)?;
    }
    let views = format!("{{\"camera_angle_x\": 0.9, \"frames\": [{frames}]}}");
    fs::write(folder.join("transforms.json"), views)
}

fn picture(path: &Path, view: u8) {
    let edge = EDGE as u8;
    let row = |y| (0..edge).flat_map(move |x| [10 * x, 10 * y, 100 + 50 * view, 255]);
    let picture = Picture {
        size: [EDGE; 2],
        colour: png::ColorType::Rgba,
        bytes: (0..edge).flat_map(row).collect(),
    };
    picture.write(path);
}
