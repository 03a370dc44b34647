//! Finished meshes and the surface that they were simplified from → how far the normals that a viewer shades with differ
//! from that surface's, in degrees, as the views' cameras see both.
//!
//! Each pixel's line meets both at the nearest place. There a mesh has its smooth normal, turned by its normal map in the
//! frame of its tangents (`MikkTSpace`), and the original its smooth normal: that of its points, as a bake has them. Normals
//! that files bring are not read. Both face the viewer. A pixel counts where both are met. Lines are exact, so the figures
//! do not depend on a renderer's samples.

use proto::message::{Failure, NormalFigures};
use proto::table::{Camera, Mesh};
use rayon::prelude::*;

use crate::bake::model::hierarchy::{Facing, Hierarchy, Hit, Line, blend, cross, dot, unit_vector};
use crate::bake::model::normals::point_normals;
use crate::bake::model::scene::{Frame, every};
use crate::encode::tangents::tangents;
use crate::image::survey::weld;
use crate::prepare::load::{self, NoUvs, Offset, Picture, Pictures, RawMesh};
use crate::worker::folder::Folder;
use crate::worker::pace;
use crate::worker::progress::{Progress, Ticker, each};

/// Pixels along the longer side of a view from which on it is looked at by every second pixel, every third and so on.
const EDGE: u32 = 1024;
/// Width of a step of the angles, in degrees, and their number.
const STEP: f64 = 0.01;
const STEPS: usize = 18_000;

/// A surface in scene units, and what it is shaded with.
pub(super) struct Shaded {
    tree: Hierarchy,
    mesh: Mesh,
    /// A map and the frames of its vertices.
    relief: Option<(Pictures, Vec<[f32; 4]>)>,
}

/// How often each angle was seen.
#[derive(Clone)]
pub(super) struct Angles {
    counts: Vec<u64>,
    sum: f64,
}

impl Default for Angles {
    fn default() -> Self {
        Self {
            counts: vec![0; STEPS + 1],
            sum: 0.0,
        }
    }
}

impl Shaded {
    /// The original, less the offset of the meshes, and the ball around it.
    pub(super) fn original(
        (folder, name): (&Folder<'_>, &str),
        offset: Offset,
        turn: impl Fn([f32; 3]) -> [f32; 3],
        progress: &dyn Progress,
    ) -> Result<(Self, Frame), Failure> {
        let raw = load::read_beside(folder, name, offset, progress);
        let mut raw = raw.map_err(|error| error.failure(name))?;
        raw.positions.iter_mut().for_each(|at| *at = turn(*at));
        let frame = Frame::around(&raw.positions, &raw.triangles);
        let made = Self::new(raw, frame, None, progress);
        Ok((made, frame))
    }

    /// A finished mesh with its normal map, less an offset.
    pub(super) fn finished(
        (folder, name): (&Folder<'_>, &str),
        (offset, frame): (Offset, Frame),
        progress: &dyn Progress,
    ) -> Result<Self, Failure> {
        let read = load::read_relief(folder, name, offset, progress);
        let (raw, maps) = read.map_err(|error| error.failure(name))?;
        let mapped = maps.pictures.iter().any(|map| map.texels.len() > 1);
        Ok(Self::new(raw, frame, mapped.then_some(maps), progress))
    }

    fn new(raw: RawMesh, frame: Frame, maps: Option<Pictures>, progress: &dyn Progress) -> Self {
        let triangles = raw.triangles.len();
        progress.expect("normals", each(triangles, 3 * pace::TRIANGLE));
        let positions = frame.normalise(&raw.positions);
        let surface_vertices = weld(&positions);
        // Corners of one place share a normal, whatever splits them.
        let welded = raw.triangles.iter();
        let welded: Vec<[u32; 3]> = welded
            .map(|corners| corners.map(|corner| surface_vertices[corner as usize]))
            .collect();
        let points = surface_vertices.iter().max();
        let mut places = vec![[0.0; 3]; points.map_or(0, |&most| most as usize + 1)];
        for (&point, &at) in surface_vertices.iter().zip(&positions) {
            places[point as usize] = at;
        }
        let normals = point_normals(&places, &welded);
        let mapped = maps.filter(|_| !matches!(raw.uvs, Err(NoUvs::Absent | NoUvs::PartlyAbsent)));
        let mesh = Mesh {
            normals: (surface_vertices.iter())
                .map(|&point| normals[point as usize])
                .collect(),
            uvs: raw.uvs.unwrap_or_else(|_| vec![[0.0; 2]; positions.len()]),
            surface_vertices,
            positions,
            triangles: raw.triangles,
            charts: 0,
        };
        let (mesh, relief) = match mapped {
            Some(maps) => {
                let (mesh, tangents) = tangents(&mesh);
                (mesh, Some((maps, tangents)))
            }
            None => (mesh, None),
        };
        Self {
            tree: Hierarchy::new(&mesh.positions, &mesh.triangles),
            mesh,
            relief,
        }
    }

    fn of<const N: usize>(&self, triangle: u32, values: &[[f32; N]]) -> [[f32; N]; 3] {
        self.mesh.triangles[triangle as usize].map(|corner| values[corner as usize])
    }

    /// The normal that a hit is shaded with, facing against `along`.
    fn normal(&self, hit: &Hit, along: [f32; 3]) -> Option<[f32; 3]> {
        let normals = self.of(hit.triangle, &self.mesh.normals);
        let smooth = unit_vector(blend(&normals, hit.weights))?;
        let normal = match &self.relief {
            None => smooth,
            Some((maps, tangents)) => {
                let corners = self.of(hit.triangle, tangents);
                let tangent =
                    unit_vector(blend(&corners.map(|[x, y, z, _]| [x, y, z]), hit.weights))?;
                let bitangents = std::array::from_fn(|corner| {
                    let [x, y, z, w] = corners[corner];
                    cross(normals[corner], [x, y, z]).map(|value| value * w)
                });
                let bitangent = unit_vector(blend(&bitangents, hit.weights))?;
                let uvs = self.of(hit.triangle, &self.mesh.uvs);
                let uv = [0, 1].map(|k| {
                    (0..3)
                        .map(|corner| hit.weights[corner] * uvs[corner][k])
                        .sum()
                });
                let number = maps.of_triangle.get(hit.triangle as usize);
                let map = &maps.pictures[usize::from(number.copied().unwrap_or_default())];
                let [x, y, z] = looked_up(map, uv);
                unit_vector(std::array::from_fn(|k| {
                    x * tangent[k] + y * bitangent[k] + z * smooth[k]
                }))?
            }
        };
        let [a, b, c] = self.of(hit.triangle, &self.mesh.positions);
        let less = |p: [f32; 3], q: [f32; 3]| std::array::from_fn(|k| p[k] - q[k]);
        let behind = dot(cross(less(b, a), less(c, a)), along) > 0.0;
        Some(if behind { normal.map(|x| -x) } else { normal })
    }
}

/// A normal map's value, bilinearly, clamped at its edge.
fn looked_up(map: &Picture, uv: [f32; 2]) -> [f32; 3] {
    let size = [map.width, map.height];
    let at: [f32; 2] = std::array::from_fn(|k| uv[k] * size[k] as f32 - 0.5);
    let mut sum = [0.0; 3];
    for (right, down) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let [x, y] = [(at[0], right, size[0]), (at[1], down, size[1])].map(|(at, next, size)| {
            let first = at.floor();
            let share = if next == 1 {
                at - first
            } else {
                1.0 - at + first
            };
            let texel = (first as i64 + next).clamp(0, size as i64 - 1);
            (texel as usize, share)
        });
        let texel = map.texels[y.0 * map.width + x.0];
        for (sum, byte) in sum.iter_mut().zip(texel) {
            *sum += x.1 * y.1 * (f32::from(byte) / 127.5 - 1.0);
        }
    }
    sum
}

impl Angles {
    /// Adds a picture of both by a camera of the world.
    pub(super) fn look(
        &mut self,
        (mesh, original): (&Shaded, &Shaded),
        frame: &Frame,
        (camera, size): (&Camera, [u32; 2]),
    ) {
        let stride = (size[0].max(size[1]) / EDGE).max(1);
        let camera = every(&frame.camera(camera), stride);
        let [width, height] = size.map(|pixels| pixels / stride);
        let rows: Vec<Vec<f32>> = (0..height)
            .into_par_iter()
            .map(|row| {
                let mut ticker = Ticker::default();
                let of = |column: u32| {
                    ticker.did(40);
                    let line = line(&camera, [column, row])?;
                    let [one, other] = [mesh, original].map(|surface| {
                        let hit = surface.tree.meets(&line)?;
                        surface.normal(&hit, line.along)
                    });
                    Some(dot(one?, other?).clamp(-1.0, 1.0).acos().to_degrees())
                };
                (0..width).filter_map(of).collect()
            })
            .collect();
        for angle in rows.into_iter().flatten().map(f64::from) {
            self.counts[((angle / STEP) as usize).min(STEPS)] += 1;
            self.sum += angle;
        }
    }

    /// Its figures; none where nothing was seen.
    pub(super) fn figures(&self) -> Option<NormalFigures> {
        let pixels: u64 = self.counts.iter().sum();
        // The angle that so many hundredths of the pixels do not exceed.
        let most = |hundredths: u64| {
            let mut left = (pixels * hundredths).div_ceil(100);
            let step = self.counts.iter().position(|&count| {
                let found = count >= left;
                left = left.saturating_sub(count);
                found
            });
            ((step.unwrap_or(STEPS) as f64 + 0.5) * STEP) as f32
        };
        (pixels > 0).then(|| NormalFigures {
            pixels,
            mean_deg: (self.sum / pixels as f64) as f32,
            median_deg: most(50),
            p95_deg: most(95),
        })
    }
}

/// The line of a pixel's middle, in the units of the camera's own frame.
fn line(camera: &Camera, pixel: [u32; 2]) -> Option<Line> {
    let [x, y] =
        std::array::from_fn(|k| (f64::from(pixel[k]) + 0.5 - camera.centre[k]) / camera.focal[k]);
    let world = |v: [f64; 3]| -> [f32; 3] {
        std::array::from_fn(|k| {
            (0..3)
                .map(|row| camera.rotation[row][k] * v[row])
                .sum::<f64>() as f32
        })
    };
    Some(Line {
        from: world(camera.translation.map(|x| -x)),
        along: unit_vector(world([x, y, 1.0]))?,
        reach: [0.0, f32::MAX],
        facing: Facing::Any,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::progress::Silent;

    /// A square of edge 2 in the plane z = 0, its texture upright; its far side is `lean` higher.
    fn square(lean: f32) -> RawMesh {
        let corners: [[f32; 2]; 4] = [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]];
        RawMesh {
            positions: corners.map(|[x, y]| [x, y, lean * x]).to_vec(),
            uvs: Ok(corners
                .map(|[x, y]| [(x + 1.0) / 2.0, (1.0 - y) / 2.0])
                .to_vec()),
            triangles: vec![[0, 1, 2], [0, 2, 3]],
        }
    }

    fn map(texel: [u8; 4]) -> Pictures {
        Pictures {
            pictures: vec![Picture {
                width: 2,
                height: 2,
                texels: vec![texel; 4],
            }],
            of_triangle: vec![0; 2],
        }
    }

    #[test]
    fn a_leaning_square_differs_by_its_lean_and_a_map_brings_it_back() {
        let flat = square(0.0);
        let frame = Frame::around(&flat.positions, &flat.triangles);
        let figures = |mesh: RawMesh, maps: Option<Pictures>, original: RawMesh| {
            let shaded = |raw, maps| Shaded::new(raw, frame, maps, &Silent);
            let (mesh, original) = (shaded(mesh, maps), shaded(original, None));
            let mut angles = Angles::default();
            // From above and a little aside, with y down the picture.
            let camera = Camera {
                rotation: [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
                translation: [0.1, 0.2, 5.0],
                focal: [1000.0; 2],
                centre: [256.0; 2],
            };
            angles.look((&mesh, &original), &frame, (&camera, [512; 2]));
            angles.figures().expect("pixels")
        };
        // A lean of 3 to 4 has the normal (-0.6, 0, 0.8).
        let angle = 0.6_f32.asin().to_degrees();
        let found = figures(square(0.0), None, square(0.75));
        for value in [found.mean_deg, found.median_deg, found.p95_deg] {
            assert!((value - angle).abs() < 0.02, "{found:?}");
        }
        assert!(found.pixels > 100_000, "{found:?}");
        let byte = |x: f32| ((x + 1.0) * 127.5).round() as u8;
        let leaning = [byte(-0.6), byte(0.0), byte(0.8), 255];
        let found = figures(square(0.0), Some(map(leaning)), square(0.75));
        assert!(found.mean_deg < 0.6, "{found:?}");
        let upwards = [byte(0.0), byte(0.6), byte(0.8), 255];
        let found = figures(square(0.0), Some(map(upwards)), square(0.0));
        assert!((found.mean_deg - angle).abs() < 0.6, "{found:?}");
        // One wound the other way is seen from behind, and faces the viewer all the same.
        let mut turned = square(0.75);
        turned
            .triangles
            .iter_mut()
            .for_each(|corners| corners.swap(1, 2));
        let found = figures(square(0.75), None, turned);
        assert!(found.p95_deg < 0.1, "{found:?}");
    }
}
