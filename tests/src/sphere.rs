//! The smallest inputs that take a job through every phase: a sphere of 512 triangles and seven views of it, one of
//! them for the contact sheet and the measurement. A bake of it at draft quality takes some hundred milliseconds.

use std::f32::consts::PI;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::picture::Picture;

/// Edge of a view in pixels.
const EDGE: u32 = 48;
/// Arguments besides mesh and views with which every phase of every role has work to do.
pub const ARGUMENTS: [&str; 10] = [
    "--quality",
    "draft",
    "--texture-size",
    "256",
    "--target-faces",
    "400",
    "--holdout",
    "1",
    "--preview",
    "out/sheet.png",
];
/// The phases of each role in such a job, by their JSON names.
pub const PHASES: [(&str, &[&str]); 3] = [
    (
        "prepare",
        &["load_mesh", "clean", "simplify", "unwrap", "decode_views"],
    ),
    (
        "bake",
        &["open_device", "refine", "raster", "init", "fit", "gutter"],
    ),
    ("encode", &["png", "glb", "measure", "preview"]),
];

/// Writes `mesh.obj`, `transforms.json` and the pictures into `folder`.
pub fn write(folder: &Path) {
    fs::write(folder.join("mesh.obj"), mesh()).expect("a mesh");
    let mut frames = Vec::new();
    for view in 0..7_u32 {
        let name = format!("{view}.png");
        picture(view).write(&folder.join(&name));
        frames.push(json!({ "file_path": name, "transform_matrix": pose(view) }));
    }
    let (centre, focal) = (f64::from(EDGE) / 2.0, 1.2 * f64::from(EDGE));
    let transforms = json!({
        "fl_x": focal, "fl_y": focal, "cx": centre, "cy": centre, "w": EDGE, "h": EDGE, "frames": frames,
    });
    fs::write(folder.join("transforms.json"), transforms.to_string()).expect("views");
}

/// Rings of latitude from pole to pole.
fn mesh() -> String {
    const RINGS: usize = 17;
    const SIDES: usize = 16;
    let mut text = String::from("v 0 0 1\n");
    for ring in 1..RINGS {
        for side in 0..SIDES {
            let (down, around) = (
                PI * ring as f32 / RINGS as f32,
                2.0 * PI * side as f32 / SIDES as f32,
            );
            let (x, y) = (down.sin() * around.cos(), down.sin() * around.sin());
            writeln!(text, "v {x} {y} {}", down.cos()).expect("memory");
        }
    }
    text.push_str("v 0 0 -1\n");
    let vertex = |ring: usize, side: usize| 2 + (ring - 1) * SIDES + side % SIDES;
    let last = 2 + (RINGS - 1) * SIDES;
    for side in 0..SIDES {
        let (a, b) = (vertex(1, side), vertex(1, side + 1));
        writeln!(text, "f 1 {a} {b}").expect("memory");
        let (a, b) = (vertex(RINGS - 1, side), vertex(RINGS - 1, side + 1));
        writeln!(text, "f {last} {b} {a}").expect("memory");
        for ring in 1..RINGS - 1 {
            let [a, b] = [0, 1].map(|more| vertex(ring, side + more));
            let [c, d] = [0, 1].map(|more| vertex(ring + 1, side + more));
            writeln!(text, "f {a} {c} {d}\nf {a} {d} {b}").expect("memory");
        }
    }
    text
}

/// The camera at distance 3, along each axis in both directions and once between two axes.
fn pose(view: u32) -> [[f32; 4]; 4] {
    let back = [
        [1.0, 0.0, 0.0],
        [-1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, -1.0, 0.0],
        [0.0, 0.0, 1.0],
        [0.0, 0.0, -1.0],
        [0.6, 0.0, 0.8],
    ][view as usize];
    let cross = |a: [f32; 3], b: [f32; 3]| {
        [0, 1, 2].map(|i| a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3])
    };
    let up = if view / 2 == 1 {
        [0.0, 0.0, 1.0]
    } else {
        [0.0, 1.0, 0.0]
    };
    let right = cross(up, back);
    let row = |i: usize| [right[i], up_of(back, right)[i], back[i], 3.0 * back[i]];
    [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]]
}

fn up_of(back: [f32; 3], right: [f32; 3]) -> [f32; 3] {
    [0, 1, 2]
        .map(|i| back[(i + 1) % 3] * right[(i + 2) % 3] - back[(i + 2) % 3] * right[(i + 1) % 3])
}

fn picture(view: u32) -> Picture {
    let pixel = |pixel: u32| {
        let (x, y) = (pixel % EDGE * 5, pixel / EDGE * 5);
        [x, y, 30 * view].map(|value| value as u8)
    };
    Picture {
        size: [EDGE; 2],
        colour: png::ColorType::Rgb,
        bytes: (0..EDGE * EDGE).flat_map(pixel).collect(),
    }
}
