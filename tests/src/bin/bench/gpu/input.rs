//! Makes an input from the repository's sample mesh, which is embedded here: a mesh of the requested number of
//! triangles, and posed views of it with a painted texture, by the project's own renderer, or splats on it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use baker::image::render::{Image, render};
use baker::prepare::clean;
use baker::prepare::load::{self, NoUvs, RawMesh};
use baker::prepare::simplify::simplify;
use baker::worker::folder::{Files, Folder, FolderError};
use baker::worker::progress::Silent;
use kiln_tests::ball::cross;
use kiln_tests::picture::Picture;
use kiln_tests::shapes::{Shape, quartered};
use kiln_tests::splats::{Splat, ply};
use proto::job::Blend;
use proto::message::Root;
use proto::table::{Camera, Mesh};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::photographs;

const MESH: &[u8] = include_bytes!("../../../../data/spot/mesh_uv.glb");
/// Triangles of [`MESH`].
const TRIANGLES: u32 = 5856;
/// Number of triangles to which the lowest level is simplified.
pub(super) const FEWEST: u32 = 1000;
/// Edge of the painted texture: finer than most that are baked. The second is for photographs.
const PAINTED: [usize; 2] = [2048, 8192];
/// Samples per pixel along each axis.
const SAMPLES: u32 = 4;
/// Held-out views, between those to bake from.
const HELD_OUT: u32 = 2;
/// Distance of the cameras. The focal length is in units of the picture's edge: the mesh fills most of the picture.
const DISTANCE: f64 = 3.2;
const FOCAL: f64 = 1.6;

/// The sizes of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Sizes {
    /// Views to bake from.
    pub(crate) views: u32,
    /// Their edge in pixels.
    pub(crate) edge: u32,
    /// How often each triangle of the sample is cut into four; below zero the mesh is simplified.
    pub(crate) level: i32,
    /// Splats in place of views.
    pub(crate) cloud: Option<Cloud>,
    /// Whether views are photographs of so many pixels down, of a mesh of [`photographs::TRIANGLES`].
    pub(crate) photographs: bool,
}

/// Gaussian splats on the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Cloud {
    pub(crate) splats: u32,
    /// Of their harmonics.
    pub(crate) degree: u32,
}

impl Sizes {
    pub(crate) fn triangles(self) -> u32 {
        if self.photographs {
            return photographs::TRIANGLES as u32;
        }
        u32::try_from(self.level).map_or(FEWEST, |level| TRIANGLES << (2 * level))
    }
}

/// Files on disk.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) mesh: PathBuf,
    pub(crate) views: PathBuf,
}

/// A folder of files, without a supervisor in between.
#[derive(Debug)]
struct Here<'a>(&'a Path);

impl Files for Here<'_> {
    fn open(&self, _: Root, name: &str, _: u64) -> Result<(OwnedFd, u64), FolderError> {
        let file = File::open(self.0.join(name)).map_err(FolderError::Io)?;
        let size = file.metadata().map_err(FolderError::Io)?.len();
        Ok((file.into(), size))
    }
}

/// Makes the input of these sizes in `folder`.
pub(crate) fn make(sizes: Sizes, folder: &Path) -> io::Result<Input> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("sample.glb"), MESH)?;
    let (files, silent) = (Here(folder), Silent);
    let read = load::read(
        &Folder::new(&files, Root::Mesh),
        "sample.glb",
        true,
        &silent,
    );
    let raw = read.map_err(|error| io::Error::other(error.to_string()))?;
    let uvs = raw
        .uvs
        .map_err(|error| io::Error::other(error.to_string()))?;
    let positions = centred(&raw.positions);
    let mut shape = Shape {
        positions: positions.clone(),
        triangles: raw.triangles.clone(),
    };
    for _ in 0..sizes.level.max(0) {
        shape = quartered(&shape, |middle| middle);
    }
    if sizes.photographs {
        shape = simplified(&shape)?;
    }
    let mesh = folder.join("mesh.ply");
    fs::write(&mesh, shape.ply())?;
    let model = Mesh {
        normals: vec![[0.0; 3]; positions.len()],
        surface_vertices: (0..positions.len() as u32).collect(),
        positions,
        uvs,
        triangles: raw.triangles,
        charts: 0,
    };
    let views = match sizes.cloud {
        Some(cloud) => scatter(&model, cloud, folder)?,
        None => draw(&model, sizes, folder)?,
    };
    Ok(Input { mesh, views })
}

/// The same surface, of fewer triangles.
fn simplified(shape: &Shape) -> io::Result<Shape> {
    let raw = RawMesh {
        positions: shape.positions.clone(),
        uvs: Err(NoUvs::NotAsked),
        triangles: shape.triangles.clone(),
    };
    let clean = clean::clean(&raw).map_err(io::Error::other)?;
    let simplified = simplify(&clean, photographs::TRIANGLES).map_err(io::Error::other)?;
    Ok(Shape {
        positions: simplified.mesh.positions,
        triangles: simplified.mesh.triangles,
    })
}

/// Moves and scales into a ball of radius 1 around the origin.
fn centred(positions: &[[f32; 3]]) -> Vec<[f32; 3]> {
    let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for position in positions {
        for axis in 0..3 {
            low[axis] = low[axis].min(position[axis]);
            high[axis] = high[axis].max(position[axis]);
        }
    }
    let centre: [f32; 3] = std::array::from_fn(|axis| 0.5 * (low[axis] + high[axis]));
    let off = |p: &[f32; 3]| -> [f32; 3] { std::array::from_fn(|axis| p[axis] - centre[axis]) };
    let radius = positions
        .iter()
        .map(|p| off(p).iter().map(|x| x * x).sum::<f32>())
        .fold(0.0, f32::max)
        .sqrt();
    positions
        .iter()
        .map(|p| off(p).map(|x| x / radius))
        .collect()
}

/// A texture with detail of every size: soft waves, sharp edges, and lines of two texels.
fn painted(edge: usize) -> Vec<[u8; 4]> {
    let texel = |index: usize| {
        let (x, y) = ((index % edge) as f32, (index / edge) as f32);
        let (u, v) = (x / edge as f32, y / edge as f32);
        let wave = |f: f32, g: f32| 0.5 + 0.5 * (f * u + g * v).sin();
        let check = f32::from(((u * 24.0) as u32 + (v * 24.0) as u32).is_multiple_of(2));
        let line = f32::from((x as u32 % 64 < 2) || (y as u32 % 64 < 2));
        let colour = [
            0.15 + 0.5 * wave(31.0, 17.0) + 0.2 * check,
            0.2 + 0.4 * wave(-23.0, 40.0) + 0.25 * check,
            0.25 + 0.55 * wave(90.0, -70.0),
        ];
        let [r, g, b] = colour.map(|c| (255.0 * c * (1.0 - 0.6 * line)) as u8);
        [r, g, b, 255]
    };
    (0..edge * edge).into_par_iter().map(texel).collect()
}

/// Standard deviation of splats, as a multiple of how far they are from each other: few gaps are seen between them.
const WIDE: f64 = 0.5;

/// Spreads splats evenly over the surface. Their colours change slowly: of splats
/// that cover each other, each view has another one in front.
fn scatter(model: &Mesh, cloud: Cloud, folder: &Path) -> io::Result<PathBuf> {
    let corners = |triangle: &[u32; 3]| triangle.map(|corner| model.positions[corner as usize]);
    let mut reached = 0.0_f64;
    let areas = model.triangles.iter().map(|triangle| {
        let [a, b, c] = corners(triangle).map(|at| at.map(f64::from));
        let [u, v] = [b, c].map(|to| std::array::from_fn(|k| to[k] - a[k]));
        reached += cross(u, v).iter().map(|x| x * x).sum::<f64>().sqrt() / 2.0;
        reached
    });
    let areas: Vec<f64> = areas.collect();
    let count = f64::from(cloud.splats);
    let scale = (WIDE * (reached / count).sqrt()) as f32;
    let splat = |k: u32| {
        let along = (f64::from(k) + 0.5) / count * reached;
        let triangle = areas.partition_point(|end| *end < along);
        // Two numbers that fill a square evenly (Roberts' R2 sequence), folded into a triangle.
        let [mut s, mut t] = [0.754_877_666, 0.569_840_291].map(|step| f64::from(k) * step % 1.0);
        if s + t > 1.0 {
            (s, t) = (1.0 - s, 1.0 - t);
        }
        let [a, b, c] = corners(&model.triangles[triangle.min(areas.len() - 1)]);
        let mix =
            |k: usize| (1.0 - s - t) * f64::from(a[k]) + s * f64::from(b[k]) + t * f64::from(c[k]);
        let at = [0, 1, 2].map(|k| mix(k) as f32);
        Splat {
            at,
            scale,
            constant: at.map(|along| 1.5 * (6.0 * along).sin()),
        }
    };
    let splats: Vec<Splat> = (0..cloud.splats).into_par_iter().map(splat).collect();
    let path = folder.join("splats.ply");
    fs::write(&path, ply(&splats, cloud.degree, 0.01))?;
    Ok(path)
}

/// Renders the views and writes them with their cameras.
fn draw(model: &Mesh, sizes: Sizes, folder: &Path) -> io::Result<PathBuf> {
    let painted_edge = PAINTED[usize::from(sizes.photographs)];
    let texels = painted(painted_edge);
    let image = Image::new(painted_edge, painted_edge, &texels)
        .ok_or_else(|| io::Error::other("a texture has as many texels as it says"))?;
    let (all, edge) = (sizes.views + HELD_OUT, sizes.edge);
    let size = match sizes.photographs {
        true => photographs::size(edge),
        false => [edge; 2],
    };
    let every = all / HELD_OUT;
    let (mut frames, mut fit, mut test): (Vec<Value>, Vec<String>, Vec<String>) =
        Default::default();
    for number in 0..all {
        let axes = axes(number, all);
        let camera = camera(axes, size);
        let shown = render(model, image.into(), &camera, size, SAMPLES, Blend::Linear);
        let held_out = number % every == every - 1 && test.len() < HELD_OUT as usize;
        let name = match sizes.photographs {
            true => format!("{number}.jpg"),
            false => format!("{number}.png"),
        };
        if sizes.photographs {
            let exposure = match held_out {
                true => 1.0,
                false => photographs::exposure(fit.len() as u32, sizes.views),
            };
            let file = photographs::develop(&shown, exposure, |pixel| direction(&camera, pixel))?;
            fs::write(folder.join(&name), file)?;
        } else {
            let picture = Picture {
                size,
                colour: png::ColorType::Rgba,
                bytes: shown.to_rgba8().into_iter().flatten().collect(),
            };
            picture.write(&folder.join(&name));
        }
        let [right, up, back] = axes;
        let row = |k: usize| [right[k], up[k], back[k], DISTANCE * back[k]];
        frames.push(json!({
            "file_path": name,
            "transform_matrix": [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]],
        }));
        if held_out { &mut test } else { &mut fit }.push(name);
    }
    let (focal, [x, y]) = (
        FOCAL * f64::from(edge),
        size.map(|edge| 0.5 * f64::from(edge)),
    );
    let whole = json!({
        "fl_x": focal, "fl_y": focal, "cx": x, "cy": y, "w": size[0], "h": size[1],
        "train_filenames": fit, "test_filenames": test, "frames": frames,
    });
    let path = folder.join("transforms.json");
    fs::write(&path, whole.to_string())?;
    Ok(path)
}

/// Where a camera's pixel looks, in world space, not normalised.
fn direction(camera: &Camera, pixel: [usize; 2]) -> [f32; 3] {
    let [x, y] = [0, 1].map(|k| (pixel[k] as f64 + 0.5 - camera.centre[k]) / camera.focal[k]);
    let [right, down, forward] = camera.rotation;
    std::array::from_fn(|k| (x * right[k] + y * down[k] + forward[k]) as f32)
}

/// Right, up and back of a camera that looks at the origin: one of `all`, spread evenly (Fibonacci).
fn axes(number: u32, all: u32) -> [[f64; 3]; 3] {
    let golden = std::f64::consts::PI * (3.0 - 5_f64.sqrt());
    let y = 1.0 - f64::from(2 * number + 1) / f64::from(all);
    let (sin, cos) = (golden * f64::from(number)).sin_cos();
    let radius = (1.0 - y * y).sqrt();
    let back = [cos * radius, y, sin * radius];
    let right = [sin, 0.0, -cos];
    [right, cross(back, right), back]
}

/// The same camera in the renderer's convention: world to camera, x right, y down, z forward.
fn camera([right, up, back]: [[f64; 3]; 3], size: [u32; 2]) -> Camera {
    let focal = FOCAL * f64::from(size[1]);
    Camera {
        rotation: [right, up.map(|x| -x), back.map(|x| -x)],
        translation: [0.0, 0.0, DISTANCE],
        focal: [focal; 2],
        centre: size.map(|edge| 0.5 * f64::from(edge)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_camera_is_the_same_in_both_conventions() {
        for number in 0..7 {
            let [right, up, back] = axes(number, 7);
            for (a, b) in [(right, up), (up, back), (back, right)] {
                let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                assert!(dot.abs() < 1e-12, "at right angles");
            }
            let camera = camera([right, up, back], [64; 2]);
            // A point to the right and above, nearer than the origin, in OpenGL axes.
            let point: [f64; 3] =
                std::array::from_fn(|k| 0.1 * right[k] + 0.2 * up[k] + 0.3 * back[k]);
            let seen: [f64; 3] = std::array::from_fn(|row| {
                let turned: f64 = (0..3).map(|k| camera.rotation[row][k] * point[k]).sum();
                turned + camera.translation[row]
            });
            for (seen, wanted) in seen.iter().zip([0.1, -0.2, DISTANCE - 0.3]) {
                assert!((seen - wanted).abs() < 1e-12, "{seen} {wanted}");
            }
        }
    }

    #[test]
    fn the_sample_is_cut_into_as_many_triangles_as_it_says() {
        let folder = tempfile::tempdir().expect("a folder");
        for level in [0, 1] {
            let sizes = Sizes {
                views: 2,
                edge: 32,
                level,
                cloud: None,
                photographs: false,
            };
            let input = make(sizes, folder.path()).expect("an input");
            let ply = fs::read(input.mesh).expect("a mesh");
            let wanted = format!("element face {}\n", sizes.triangles());
            assert!(String::from_utf8_lossy(&ply).contains(&wanted), "{wanted}");
            let views: Value =
                serde_json::from_slice(&fs::read(input.views).expect("views")).expect("JSON");
            assert_eq!(views["train_filenames"].as_array().map(Vec::len), Some(2));
            assert_eq!(views["test_filenames"].as_array().map(Vec::len), Some(2));
        }
    }
}
