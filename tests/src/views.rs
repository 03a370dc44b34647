//! Writes cameras around a mesh and pictures for them: `transforms.json` and PNG files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use png::{BitDepth, ColorType, Encoder};
use serde_json::{Value, json};

use crate::ball::{cross, unit};

/// A posed picture.
#[derive(Clone, Debug)]
pub struct View {
    /// Position of the camera.
    pub eye: [f64; 3],
    /// The point in the middle of the picture.
    pub target: [f64; 3],
    /// Width and height of the picture in pixels.
    pub size: [u32; 2],
    /// How its pixels are stored.
    pub kind: Kind,
}

/// A pixel format of a PNG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 8-bit RGB.
    Rgb,
    /// 8-bit RGBA, half of its pixels opaque.
    Rgba,
    /// RGBA that is fully transparent.
    Clear,
    /// 16-bit RGB.
    Rgb16,
    /// 16-bit RGBA.
    Rgba16,
    /// 8-bit grey.
    Grey,
    /// 16-bit grey.
    Grey16,
    /// Grey with alpha.
    GreyAlpha,
    /// 1-bit grey.
    Grey1,
    /// A palette with 4-bit indices.
    Palette,
    /// The same, with an opacity per palette entry.
    PaletteAlpha,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Rgb,
        Self::Rgba,
        Self::Clear,
        Self::Rgb16,
        Self::Rgba16,
        Self::Grey,
        Self::Grey16,
        Self::GreyAlpha,
        Self::Grey1,
        Self::Palette,
        Self::PaletteAlpha,
    ];

    fn layout(self) -> (ColorType, BitDepth) {
        match self {
            Self::Rgb => (ColorType::Rgb, BitDepth::Eight),
            Self::Rgba | Self::Clear => (ColorType::Rgba, BitDepth::Eight),
            Self::Rgb16 => (ColorType::Rgb, BitDepth::Sixteen),
            Self::Rgba16 => (ColorType::Rgba, BitDepth::Sixteen),
            Self::Grey => (ColorType::Grayscale, BitDepth::Eight),
            Self::Grey16 => (ColorType::Grayscale, BitDepth::Sixteen),
            Self::GreyAlpha => (ColorType::GrayscaleAlpha, BitDepth::Eight),
            Self::Grey1 => (ColorType::Grayscale, BitDepth::One),
            Self::Palette | Self::PaletteAlpha => (ColorType::Indexed, BitDepth::Four),
        }
    }
}

/// Views from all around at this distance, spread evenly (Fibonacci), that look at the origin.
pub fn around(count: usize, distance: f64, size: [u32; 2]) -> Vec<View> {
    let golden = std::f64::consts::PI * (3.0 - 5_f64.sqrt());
    let view = |k: usize| {
        let y = 1.0 - (2 * k + 1) as f64 / count as f64;
        let (sin, cos) = (golden * k as f64).sin_cos();
        let radius = (1.0 - y * y).sqrt();
        View {
            eye: [cos * radius, y, sin * radius].map(|x| x * distance),
            target: [0.0; 3],
            size,
            kind: Kind::Rgb,
        }
    };
    (0..count).map(view).collect()
}

/// Writes the pictures of the views and the `transforms.json` that names them.
pub fn write(views: &[View], transforms: &Path, picture: impl Fn(usize) -> String) {
    let folder = transforms.parent().expect("a folder");
    let frames: Vec<Value> = views
        .iter()
        .enumerate()
        .map(|(number, view)| {
            let name = picture(number);
            draw(view, &folder.join(&name));
            json!({
                "file_path": name,
                "transform_matrix": pose(view),
                "camera_angle_x": 0.8,
                "w": view.size[0],
                "h": view.size[1],
            })
        })
        .collect();
    let text = json!({ "frames": frames }).to_string();
    fs::write(transforms, text).expect("transforms.json");
}

/// Camera-to-world matrix with OpenGL axes: x right, y up, looking along -z.
fn pose(view: &View) -> [[f64; 4]; 4] {
    let back = unit([0, 1, 2].map(|k| view.eye[k] - view.target[k]));
    let up = if back[1].abs() > 0.9 {
        [0.0, 0.0, 1.0]
    } else {
        [0.0, 1.0, 0.0]
    };
    let right = unit(cross(up, back));
    let up = cross(back, right);
    let row = |k: usize| [right[k], up[k], back[k], view.eye[k]];
    [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]]
}

fn draw(view: &View, path: &Path) {
    let [width, height] = view.size;
    let (color, depth) = view.kind.layout();
    let mut encoder = Encoder::new(
        BufWriter::new(File::create(path).expect("a picture")),
        width,
        height,
    );
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == ColorType::Indexed {
        encoder.set_palette(
            (0..16)
                .flat_map(|k| [k * 16, 255 - k * 16, 128])
                .collect::<Vec<u8>>(),
        );
    }
    if view.kind == Kind::PaletteAlpha {
        encoder.set_trns((0..16).map(|k| 255 - k * 2).collect::<Vec<u8>>());
    }
    let mut writer = encoder.write_header().expect("a header");
    let bits = color.samples() * depth as usize * width as usize;
    let row = bits.div_ceil(8);
    // Any bytes are valid pixels; only alpha is chosen.
    let mut bytes: Vec<u8> = (0..row * height as usize)
        .map(|k| (k * 7 + k / row * 13) as u8)
        .collect();
    let (samples, wide) = (color.samples(), depth as usize / 8);
    let alpha = |k: usize| match view.kind {
        Kind::Clear => Some(0),
        Kind::Rgba | Kind::Rgba16 | Kind::GreyAlpha => {
            Some(if k.is_multiple_of(2) { 255 } else { 90 })
        }
        _ => None,
    };
    for (k, pixel) in bytes.chunks_mut((samples * wide).max(1)).enumerate() {
        if let Some(alpha) = alpha(k) {
            pixel[(samples - 1) * wide..].fill(alpha);
        }
    }
    writer.write_image_data(&bytes).expect("pixels");
}
