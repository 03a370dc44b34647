//! A test set with a known material: a ball, and views of each of its channels as a renderer writes them. 16 rays per
//! pixel are averaged in the space of the channel's numbers.
//!
//! Nothing in the material is symmetric, so a map that is mirrored, rotated or has swapped channels differs.

use std::f64::consts::PI;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::picture::Picture;

/// A point or direction.
pub type Vector = [f64; 3];

/// The channel that a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// `file_path`: sRGB, with the ball's own alpha.
    Base,
    /// Roughness in green, metallic in blue.
    MetallicRoughness,
    /// n/2 + ½.
    Normal,
    /// sRGB.
    Emissive,
    /// In red.
    Occlusion,
    /// In red: 0 or 1.
    Opacity,
}

impl Channel {
    /// All except the base colour.
    pub const LAYERS: [Self; 5] = [
        Self::MetallicRoughness,
        Self::Normal,
        Self::Emissive,
        Self::Occlusion,
        Self::Opacity,
    ];

    /// Its key in `transforms.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::MetallicRoughness => "metallic_roughness",
            Self::Normal => "normal",
            Self::Emissive => "emissive",
            Self::Occlusion => "occlusion",
            Self::Opacity => "opacity",
        }
    }

    /// Whether its numbers are sRGB encodings of light.
    fn is_colour(self) -> bool {
        matches!(self, Self::Base | Self::Emissive)
    }

    /// The value at a point of the unit ball: components in 0-1, or a unit vector for [`Channel::Normal`].
    pub fn at(self, [x, y, z]: Vector) -> Vector {
        let wave = |of: f64| 0.5 + 0.4 * of.sin();
        match self {
            Self::Base => [
                wave(5.0 * x + z),
                wave(4.0 * y - x),
                wave(6.0 * z + 2.0 * y),
            ],
            Self::MetallicRoughness => [0.0, wave(6.0 * x + 1.0), wave(5.0 * y - 2.0 * z)],
            Self::Emissive => [
                wave(3.0 * z + 0.4),
                wave(7.0 * y + x),
                wave(4.0 * x - 3.0 * y),
            ],
            Self::Occlusion => [wave(4.0 * z + 2.0 * x); 3],
            Self::Opacity => {
                [if (3.0 * x + 2.0 * y).sin() > -0.5 {
                    1.0
                } else {
                    0.0
                }; 3]
            }
            Self::Normal => {
                let bump = [
                    0.5 * (5.0 * y + 0.3).sin(),
                    0.5 * (4.0 * z + 1.1).sin(),
                    0.5 * (6.0 * x - 0.7).sin(),
                ];
                let along = dot(bump, [x, y, z]);
                unit([0, 1, 2].map(|k| [x, y, z][k] * (1.0 - along) + bump[k]))
            }
        }
    }
}

/// The axes in which normals are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The mesh's.
    World,
    /// `OpenGL`'s of each camera.
    Camera,
}

/// How the views are written.
#[derive(Clone, Debug)]
pub struct Views {
    /// Number of views, all around.
    pub count: usize,
    /// Width and height of the pictures in pixels.
    pub edge: usize,
    /// The axes of the normals.
    pub space: Space,
    /// Mesh, cameras and normals have z up: (x, y, z) is written as (x, -z, y).
    pub z_up: bool,
    /// The channels of the views.
    pub channels: Vec<Channel>,
    /// Factors of the base colour's light, used cyclically by the views.
    pub exposures: Vec<f64>,
}

impl Default for Views {
    fn default() -> Self {
        Self {
            count: 24,
            edge: 160,
            space: Space::Camera,
            z_up: false,
            channels: Channel::LAYERS.into(),
            exposures: vec![1.0],
        }
    }
}

/// Distance of the cameras from the middle.
const DISTANCE: f64 = 3.2;
/// Focal length as a multiple of the picture's width.
const FOCAL: f64 = 1.4;
/// Rays across a pixel.
const RAYS: usize = 4;

impl Views {
    /// Writes `mesh.obj`, `transforms.json` and all pictures into `folder`; each channel has a folder of its name.
    pub fn write(&self, folder: &Path) {
        fs::write(folder.join("mesh.obj"), self.mesh()).expect("a mesh");
        for channel in self.channels.iter().chain(&[Channel::Base]) {
            fs::create_dir_all(folder.join(channel.name())).expect("a folder");
        }
        let frames: Vec<Value> = (0..self.count)
            .map(|view| self.frame(view, folder))
            .collect();
        let focal = FOCAL * self.edge as f64;
        let space = match self.space {
            Space::World => "world",
            Space::Camera => "camera",
        };
        let transforms = json!({
            "fl_x": focal, "fl_y": focal, "w": self.edge, "h": self.edge,
            "normal_space": space, "frames": frames,
        });
        fs::write(folder.join("transforms.json"), transforms.to_string()).expect("views");
    }

    /// Writes the pictures of a view; returns its frame.
    fn frame(&self, view: usize, folder: &Path) -> Value {
        let axes = axes(view, self.count);
        let name = |channel: Channel| format!("{}/{view}.png", channel.name());
        for &channel in self.channels.iter().chain(&[Channel::Base]) {
            let gain = match channel {
                Channel::Base => self.exposures[view % self.exposures.len()],
                _ => 1.0,
            };
            self.picture(channel, (axes, gain), &folder.join(name(channel)));
        }
        let channels: serde_json::Map<String, Value> = self
            .channels
            .iter()
            .map(|&channel| (channel.name().to_owned(), json!(name(channel))))
            .collect();
        let [right, up, back] = axes.map(|axis| self.turned(axis));
        let row = |k: usize| [right[k], up[k], back[k], DISTANCE * back[k]];
        json!({
            "file_path": name(Channel::Base),
            "transform_matrix": [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]],
            "channels": channels,
        })
    }

    /// A vector in the axes that the files use.
    fn turned(&self, [x, y, z]: Vector) -> Vector {
        if self.z_up { [x, -z, y] } else { [x, y, z] }
    }

    /// Rings of latitude from pole to pole, fine enough for a ball.
    fn mesh(&self) -> String {
        const RINGS: usize = 48;
        const SIDES: usize = 64;
        let mut text = String::new();
        let mut vertex = |point: Vector| {
            let [x, y, z] = self.turned(point);
            writeln!(text, "v {x} {y} {z}").expect("memory");
        };
        vertex([0.0, 1.0, 0.0]);
        for ring in 1..RINGS {
            for side in 0..SIDES {
                let (down, around) = (
                    PI * ring as f64 / RINGS as f64,
                    2.0 * PI * side as f64 / SIDES as f64,
                );
                let (sin, cos) = around.sin_cos();
                vertex([down.sin() * sin, down.cos(), down.sin() * cos]);
            }
        }
        vertex([0.0, -1.0, 0.0]);
        let at = |ring: usize, side: usize| 2 + (ring - 1) * SIDES + side % SIDES;
        let last = 2 + (RINGS - 1) * SIDES;
        let mut face = |a: usize, b: usize, c: usize| {
            writeln!(text, "f {a} {b} {c}").expect("memory");
        };
        for side in 0..SIDES {
            face(1, at(1, side), at(1, side + 1));
            face(last, at(RINGS - 1, side + 1), at(RINGS - 1, side));
            for ring in 1..RINGS - 1 {
                let [a, b] = [0, 1].map(|more| at(ring, side + more));
                let [c, d] = [0, 1].map(|more| at(ring + 1, side + more));
                face(a, c, d);
                face(a, d, b);
            }
        }
        text
    }

    fn picture(&self, channel: Channel, (axes, gain): ([Vector; 3], f64), path: &Path) {
        let width = if channel == Channel::Base { 4 } else { 3 };
        let mut bytes = Vec::with_capacity(self.edge * self.edge * width);
        for pixel in 0..self.edge * self.edge {
            let (mut sum, mut hits) = ([0.0; 3], 0.0);
            for ray in 0..RAYS * RAYS {
                let place = |at: usize, ray: usize| {
                    let inside = (ray as f64 + 0.5) / RAYS as f64;
                    ((at as f64 + inside) / self.edge as f64 - 0.5) / FOCAL
                };
                let across = place(pixel % self.edge, ray % RAYS);
                let down = place(pixel / self.edge, ray / RAYS);
                let Some(point) = hit(axes, [across, -down]) else {
                    continue;
                };
                let mut value = channel.at(point);
                if channel == Channel::Normal {
                    value = match self.space {
                        Space::World => self.turned(value),
                        Space::Camera => axes.map(|axis| dot(axis, value)),
                    };
                    value = value.map(|x| 0.5 * x + 0.5);
                }
                for (sum, value) in sum.iter_mut().zip(value) {
                    *sum += if channel.is_colour() {
                        light(value)
                    } else {
                        value
                    };
                }
                hits += 1.0;
            }
            let mean = sum.map(|sum| {
                let mean: f64 = if hits > 0.0 { sum / hits } else { 0.0 };
                if channel.is_colour() {
                    display((gain * mean).min(1.0))
                } else {
                    mean
                }
            });
            let alpha = hits / (RAYS * RAYS) as f64;
            let all = mean.into_iter().chain([alpha]).take(width);
            bytes.extend(all.map(|x| (x * 255.0).round() as u8));
        }
        let colour = match width {
            4 => png::ColorType::Rgba,
            _ => png::ColorType::Rgb,
        };
        let size = [self.edge as u32; 2];
        Picture {
            size,
            colour,
            bytes,
        }
        .write(path);
    }
}

/// Right, up and back of a camera that looks at the centre. Cameras are spread evenly (Fibonacci), each with a
/// different roll.
fn axes(view: usize, count: usize) -> [Vector; 3] {
    let y = 1.0 - (2 * view + 1) as f64 / count as f64;
    let (sin, cos) = (PI * (3.0 - 5_f64.sqrt()) * view as f64).sin_cos();
    let radius = (1.0 - y * y).sqrt();
    let back = [radius * cos, y, radius * sin];
    let upwards = if y.abs() > 0.9 {
        [0.0, 0.0, 1.0]
    } else {
        [0.0, 1.0, 0.0]
    };
    let right = unit(cross(upwards, back));
    let up = cross(back, right);
    let (sin, cos) = (0.7 * view as f64).sin_cos();
    let mix =
        |a: Vector, one: f64, b: Vector, other: f64| [0, 1, 2].map(|k| one * a[k] + other * b[k]);
    [mix(right, cos, up, sin), mix(up, cos, right, -sin), back]
}

/// Where a ray meets the ball.
fn hit([right, up, back]: [Vector; 3], [across, upwards]: [f64; 2]) -> Option<Vector> {
    let from = back.map(|x| x * DISTANCE);
    let along = unit([0, 1, 2].map(|k| across * right[k] + upwards * up[k] - back[k]));
    let middle = -dot(from, along);
    let inside = 1.0 - (dot(from, from) - middle * middle);
    (inside > 0.0).then(|| {
        let far = middle - inside.sqrt();
        unit([0, 1, 2].map(|k| from[k] + far * along[k]))
    })
}

/// Linear light of an sRGB value, both in 0-1.
pub fn light(display: f64) -> f64 {
    if display <= 0.04045 {
        display / 12.92
    } else {
        ((display + 0.055) / 1.055).powf(2.4)
    }
}

/// The sRGB value of linear light.
pub fn display(light: f64) -> f64 {
    if light <= 0.003_130_8 {
        light * 12.92
    } else {
        1.055 * light.powf(1.0 / 2.4) - 0.055
    }
}

/// Scales a vector to unit length.
pub fn unit(vector: Vector) -> Vector {
    let length = dot(vector, vector).sqrt();
    vector.map(|x| x / length)
}

/// Dot product.
pub fn dot(a: Vector, b: Vector) -> f64 {
    (0..3).map(|k| a[k] * b[k]).sum()
}

/// Cross product.
pub fn cross(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|k| a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3])
}
