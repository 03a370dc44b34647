//! The smallest job that goes through every stage: a tetrahedron whose texture has two charts, so that there are seams,
//! and two views of it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::Path;

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

/// Writes `mesh.obj`, `transforms.json` and its pictures.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("mesh.obj"), MESH)?;
    let mut frames = String::new();
    for (view, side) in [1, -1].into_iter().enumerate() {
        picture(&folder.join(format!("{view}.png")), view as u8)?;
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

fn picture(path: &Path, view: u8) -> io::Result<()> {
    let edge = EDGE as u8;
    let pixels: Vec<u8> = (0..edge)
        .flat_map(|y| (0..edge).flat_map(move |x| [10 * x, 10 * y, 100 + 50 * view, 255]))
        .collect();
    let mut encoder = png::Encoder::new(File::create(path)?, EDGE, EDGE);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    Ok(writer.finish()?)
}
