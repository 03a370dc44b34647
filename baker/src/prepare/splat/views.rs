//! Splats → views of them: cameras all around. Bake and encode draw what these see; what prepare itself looks at is drawn
//! here.
//!
//! Splats bring no cameras. A few stand around the splats themselves at first, small, to find how the mesh lies among
//! them by its silhouettes. Then others are placed about the mesh, so near that a pixel is about a texel.

use std::f64::consts::{FRAC_PI_2, TAU};

use kiln_raster::vector::{cross, dot};
use kiln_splat::{Filter, Fineness, View, around, coefficients, draw, extract};
use proto::message::{Code, Failure, Phase, SplatSummary};
use proto::splats::{Harmonics, SplatFilter, SplatOptions, SplatViews as Wanted};
use proto::table::{Camera, Manner, SplatScene};

use super::content::{Origin, Splats};
use super::read;
use crate::image::splats::{VIEW, announce, drawing_bytes, pixel};
use crate::prepare::load::{NoUvs, RawMesh};
use crate::prepare::picture::{Colours, Picture};
use crate::prepare::transforms::Pose;
use crate::worker::folder::Folder;
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

/// Views from which the place of the mesh is found, and their edge in pixels.
const PROBES: usize = 16;
const PROBE_EDGE: u32 = 256;
/// Views of `auto`, and of TRELLIS' `render_multiview`.
const VIEWS: usize = 48;
const TRELLIS_VIEWS: usize = 100;
/// Field of view, in degrees, as TRELLIS has it.
const FIELD: f64 = 40.0;
/// Distance of TRELLIS' cameras from the origin, and the edge of its pictures in pixels.
const TRELLIS: (f64, u32) = (2.0, 1024);
/// Least and largest edge of a picture in pixels.
const EDGES: [f64; 2] = [256.0, 2048.0];
/// Share of an atlas that its charts cover, about.
const COVERED: f64 = 0.65;
/// Room around what is looked at.
const ROOM: f64 = 1.05;
/// How fine the surface of splats without a mesh is.
const FINENESS: Fineness = Fineness {
    voxels: 400,
    views: 100,
};
/// Alpha of a silhouette's pixels.
const HALF: u8 = 128;

/// What views may be.
const WANTED: &str = "a mesh needs --views: a transforms.json, a COLMAP model, a safetensors file, or Gaussian splats as PLY, SPZ, SOG, .splat or glTF (KHR_gaussian_splatting); if mesh and views are swapped: kiln bake MESH --views VIEWS";

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct SplatViews {
    splats: Splats,
    filter: Filter,
    degree: usize,
    /// Edge of the pictures in pixels.
    edge: u32,
    /// Focal length in pixels.
    focal: f64,
    /// Of the cameras, in the world of the splats.
    own: Vec<Pose>,
    /// The same in the world of the mesh.
    poses: Vec<Pose>,
    /// [`Self::filter`] for these pictures.
    drawn: Filter,
    /// They look at the splats as a whole, not at a mesh.
    probing: bool,
}

impl SplatViews {
    /// Reads the bytes of the file `name` of a folder, and sets small views all around its splats.
    ///
    /// # Errors
    /// The file holds no splats, or they cannot be read.
    pub(crate) fn read(
        bytes: &[u8],
        name: &str,
        folder: &Folder<'_>,
        options: &SplatOptions,
    ) -> Result<Self, Failure> {
        let failure = |message: String, hint: &str| Failure {
            code: Code::InvalidAsset,
            message: format!("{name}: {message}"),
            hint: hint.to_owned(),
        };
        announce();
        match read(bytes, name, folder) {
            None => Err(failure("has no Gaussian splats".to_owned(), WANTED)),
            Some(Err(error)) => Err(failure(error.to_string(), "")),
            Some(Ok(splats)) => Ok(Self::new(splats, options)),
        }
    }

    fn new(splats: Splats, options: &SplatOptions) -> Self {
        let filter = match options.filter {
            SplatFilter::Auto => splats.origin.filter().0,
            SplatFilter::Classic(variance) => Filter::Classic(variance),
            SplatFilter::Mip(variance) => Filter::Mip(variance),
        };
        let degree = match options.harmonics {
            Harmonics::View => splats.cloud.degree,
            Harmonics::Constant => 0,
        };
        let (centre, radius) = splats.cloud.ball();
        let mut views = Self {
            splats,
            filter,
            degree,
            edge: PROBE_EDGE,
            focal: focal(PROBE_EDGE),
            own: Vec::new(),
            poses: Vec::new(),
            drawn: filter,
            probing: true,
        };
        views.stand_around(centre, radius, PROBES);
        views
    }

    /// What is said of splats that are left out.
    pub(crate) fn warning(&self) -> Option<String> {
        let dropped = self.splats.dropped;
        (dropped.count() > 0).then(|| {
            format!(
                "{} of {} splats are left out: {} have numbers without a meaning, {} are a million times as large as all others",
                dropped.count(),
                self.splats.cloud.len() + dropped.count(),
                dropped.meaningless,
                dropped.huge
            )
        })
    }

    /// How they are drawn, for the report.
    pub(crate) fn summary(&self, options: &SplatOptions) -> SplatSummary {
        let filter = match self.filter {
            Filter::Classic(variance) => SplatFilter::Classic(variance),
            Filter::Mip(variance) => SplatFilter::Mip(variance),
        };
        let reason = match options.filter {
            SplatFilter::Auto => self.splats.origin.filter().1,
            _ => "it was asked for",
        };
        SplatSummary {
            splats: self.splats.cloud.len() as u64,
            dropped: self.splats.dropped.count() as u64,
            degree: self.splats.cloud.degree as u32,
            filter: filter.to_string(),
            reason: reason.to_owned(),
            edge: self.edge,
        }
    }

    /// Looks at a surface in the world of the splats instead, for a texture of so many texels along its edge.
    pub(crate) fn look_at(
        &mut self,
        (positions, triangles): (&[[f64; 3]], &[[u32; 3]]),
        options: &SplatOptions,
        texture: u32,
    ) {
        self.probing = false;
        let centre = middle(positions);
        let reach = positions.iter().map(|at| distance(*at, centre));
        let radius = reach.fold(0.0, f64::max);
        let texel = (area(positions, triangles) / COVERED).sqrt() / f64::from(texture);
        // As many pixels as texels lie along the diameter of what is looked at.
        let wanted = 2.0 * ROOM * radius / texel;
        self.edge = match wanted.is_finite() {
            true => wanted.clamp(EDGES[0], EDGES[1]).ceil() as u32,
            false => EDGES[0] as u32,
        };
        match options.views {
            Wanted::Auto => self.stand_around(centre, radius, VIEWS),
            Wanted::Count(count) => self.stand_around(centre, radius, count as usize),
            Wanted::Trellis => {
                self.edge = TRELLIS.1;
                self.drawn = self.filter;
                self.focal = focal(self.edge);
                let all = (0..TRELLIS_VIEWS).map(|k| {
                    // Of its own world (z up) as its PLY has it.
                    let [x, y, z] = hammersley(k, TRELLIS_VIEWS);
                    from([0.0; 3], [x, -z, y], (TRELLIS.0, [0.0, -1.0, 0.0]))
                });
                self.stand(all.collect());
            }
        }
    }

    /// Sets views around a ball that fills their pictures.
    fn stand_around(&mut self, centre: [f64; 3], radius: f64, count: usize) {
        self.focal = focal(self.edge);
        self.drawn = self.filter.widened(self.edge);
        let distance = ROOM * radius / (FIELD / 2.0).to_radians().sin();
        let all = (0..count).map(|k| {
            let direction = around(k, count);
            // An axis far from the viewing direction.
            let up = match direction[1].abs() < 0.9 {
                true => [0.0, 1.0, 0.0],
                false => [0.0, 0.0, 1.0],
            };
            from(centre, direction, (distance, up))
        });
        self.stand(all.collect());
    }

    fn stand(&mut self, poses: Vec<Pose>) {
        self.poses.clone_from(&poses);
        self.own = poses;
    }

    /// The closed surface that the splats show, in their world.
    ///
    /// # Errors
    /// They show nothing solid, or their file holds a mesh.
    pub(crate) fn surface(&self, name: &str, progress: &dyn Progress) -> Result<RawMesh, Failure> {
        if let Origin::Gltf { solid: true, .. } = self.splats.origin {
            return Err(Failure {
                code: Code::InvalidAsset,
                message: format!("{name}: holds triangles beside its splats, and is a mesh"),
                hint: "give a mesh in a file of its own, and this file as --views".to_owned(),
            });
        }
        let splats = self.splats.cloud.len();
        let tell = |done: usize, total: usize| {
            progress.progress(Phase::Surface, done as u64, total as u64);
            progress.expect("a view of the splats", each(splats, pace::SPLAT) + VIEW);
        };
        tell(0, 0);
        let found = extract(&self.splats.cloud, self.filter, FINENESS, &tell);
        let found = found.ok_or_else(|| Failure {
            code: Code::InvalidAsset,
            message: format!(
                "{name}: its splats show no solid surface: they are clear, all in one point, or too small for how far from the origin they lie"
            ),
            hint: "give a mesh, and these splats as --views".to_owned(),
        })?;
        if found.left_out > 0 {
            progress.warning(&format!(
                "{name}: {} small parts of the surface are left out: floaters, or what is apart from the object",
                found.left_out
            ));
        }
        Ok(RawMesh {
            positions: found.surface.positions,
            uvs: Err(NoUvs::Absent),
            triangles: found.surface.triangles,
        })
    }

    /// Makes the pictures so small.
    pub(crate) fn shrink(&mut self, edge: u32) {
        (self.edge, self.focal) = (edge, focal(edge));
    }

    /// Number of views, at least one.
    pub(crate) fn len(&self) -> usize {
        self.poses.len()
    }

    /// Of the cameras, in the world of the mesh.
    pub(crate) fn poses(&self) -> &[Pose] {
        &self.poses
    }

    /// Moves the cameras with the world of the mesh; what they show stays.
    pub(crate) fn take(&mut self, taken: impl Fn(&Pose) -> Pose) {
        self.poses.iter_mut().for_each(|pose| *pose = taken(pose));
    }

    /// Width and height of every picture.
    pub(crate) fn size(&self) -> [u32; 2] {
        [self.edge; 2]
    }

    /// A camera in the world of the mesh.
    pub(crate) fn camera(&self, index: usize) -> Camera {
        self.camera_at(&self.poses[index])
    }

    fn camera_at(&self, pose: &Pose) -> Camera {
        Camera {
            rotation: pose.rotation,
            translation: pose.translation,
            focal: [self.focal; 2],
            centre: [f64::from(self.edge) / 2.0; 2],
        }
    }

    /// Bytes that drawing a view takes, an upper bound for splats that are small.
    pub(crate) fn drawing_bytes(&self) -> usize {
        drawing_bytes(self.splats.cloud.len(), self.size())
    }

    /// The splats and their cameras, for roles that draw the views.
    pub(crate) fn scene(&self) -> SplatScene {
        let (cloud, degree) = (&self.splats.cloud, self.degree);
        let (variance, keeps_sum) = match self.drawn {
            Filter::Classic(variance) => (variance, false),
            Filter::Mip(variance) => (variance, true),
        };
        let (own, all) = (coefficients(degree), coefficients(cloud.degree).max(1));
        let harmonics = cloud.harmonics.chunks_exact(all);
        SplatScene {
            positions: cloud.positions.clone(),
            scales: cloud.scales.clone(),
            rotations: cloud.rotations.clone(),
            opacities: cloud.opacities.clone(),
            constants: cloud.constants.clone(),
            harmonics: harmonics
                .flat_map(|of_splat| &of_splat[..own])
                .copied()
                .collect(),
            degree: degree as u32,
            manner: Manner {
                variance,
                keeps_sum,
                linear: self.is_linear(),
            },
            size: self.size(),
            cameras: self.own.iter().map(|pose| self.camera_at(pose)).collect(),
        }
    }

    fn is_linear(&self) -> bool {
        matches!(self.splats.origin, Origin::Gltf { linear: true, .. })
    }

    /// Draws a view. Of a view that finds the mesh's place, only what is solid is opaque.
    pub(crate) fn draw(&self, index: usize) -> Picture {
        let pose = &self.own[index];
        let view = View {
            rotation: pose.rotation.map(|row| row.map(|x| x as f32)),
            translation: pose.translation.map(|x| x as f32),
            focal: [self.focal as f32; 2],
            centre: [self.edge as f32 / 2.0; 2],
            size: [self.edge; 2],
        };
        let drawn = draw(&self.splats.cloud, &view, self.drawn, self.degree);
        let linear = self.is_linear();
        let pixels = drawn.colour.iter().zip(&drawn.alpha);
        let pixels = pixels.map(|(&colour, &alpha)| {
            let [r, g, b, alpha] = pixel(colour, alpha, linear);
            match self.probing {
                true if alpha >= HALF => [r, g, b, u8::MAX],
                true => [0; 4],
                false => [r, g, b, alpha],
            }
        });
        Picture {
            width: self.edge,
            height: self.edge,
            pixels: pixels.collect(),
            has_alpha: true,
            colours: Colours::Srgb,
        }
    }
}

fn focal(edge: u32) -> f64 {
    f64::from(edge) / 2.0 / (FIELD / 2.0).to_radians().tan()
}

/// The middle of the box around these points.
fn middle(positions: &[[f64; 3]]) -> [f64; 3] {
    let extreme = |axis: usize, start: f64, of: fn(f64, f64) -> f64| {
        positions.iter().map(|at| at[axis]).fold(start, of)
    };
    [0, 1, 2].map(|axis| {
        let low = extreme(axis, f64::INFINITY, f64::min);
        (low + extreme(axis, f64::NEG_INFINITY, f64::max)) / 2.0
    })
}

fn area(positions: &[[f64; 3]], triangles: &[[u32; 3]]) -> f64 {
    let of = |t: &[u32; 3]| {
        let [a, b, c] = t.map(|corner| positions[corner as usize]);
        let [u, v] = [b, c].map(|to| std::array::from_fn(|k| to[k] - a[k]));
        let normal: [f64; 3] = cross(u, v);
        dot(normal, normal).sqrt() / 2.0
    };
    triangles.iter().map(of).sum()
}

/// How far two points are from each other.
fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|k| (a[k] - b[k]).powi(2)).sum::<f64>().sqrt()
}

/// Direction `k` of `count` as TRELLIS' `sphere_hammersley_sequence` has it, with z up.
fn hammersley(k: usize, count: usize) -> [f64; 3] {
    let inverse = |mut k: usize| {
        let (mut sum, mut digit) = (0.0, 0.5);
        while k > 0 {
            sum += digit * (k % 2) as f64;
            (k, digit) = (k / 2, digit / 2.0);
        }
        sum
    };
    let u = k as f64 / count as f64;
    let v = inverse(k);
    let pitch = (1.0 - 2.0 * u).acos() - FRAC_PI_2;
    let yaw = v * TAU;
    [
        yaw.sin() * pitch.cos(),
        yaw.cos() * pitch.cos(),
        pitch.sin(),
    ]
}

/// The pose of a camera that looks at `target` from a direction and a distance; `up` is up in its picture.
fn from(target: [f64; 3], direction: [f64; 3], (distance, up): (f64, [f64; 3])) -> Pose {
    let unit = |a: [f64; 3]| a.map(|x| x / dot(a, a).sqrt());
    let ahead = unit(direction.map(|x| -x));
    let right = unit(cross(ahead, up));
    let rotation = [right, cross(ahead, right), ahead];
    let eye: [f64; 3] = std::array::from_fn(|k| target[k] + distance * direction[k]);
    Pose {
        rotation,
        translation: rotation.map(|row| -dot(row, eye)),
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use kiln_splat::{Cloud, Dropped, Splat};

    use super::super::content::Origin;
    use super::*;
    use crate::image::splats::Undrawn;
    use crate::image::splats::tests::{handed_on, undrawn};

    /// Grey splats on a ball about (1, 2, 3), a red one towards +x, a green one towards +y and a blue one towards +z.
    fn splats() -> Splats {
        let mut cloud = Cloud::new(0);
        let grey = (0..2000).map(|k| (around(k, 2000), [0.0; 3]));
        let marks = [0, 1, 2].map(|axis| {
            let mut mark = [0.0; 3];
            mark[axis] = 1.0;
            (mark.map(|x| 1.1 * x), mark.map(|x| (4.0 * x - 1.8) as f32))
        });
        for (at, constant) in grey.chain(marks) {
            let splat = Splat {
                position: std::array::from_fn(|k| (at[k] + CENTRE[k]) as f32),
                scales: [0.04; 3],
                rotation: [1.0, 0.0, 0.0, 0.0],
                opacity: 0.95,
                constant,
            };
            assert!(cloud.push(&splat, &[]));
        }
        Splats {
            cloud,
            dropped: Dropped::default(),
            origin: Origin::Inria,
        }
    }

    const CENTRE: [f64; 3] = [1.0, 2.0, 3.0];

    #[test]
    fn cameras_look_at_what_they_show_the_right_way_round() {
        let mut views = SplatViews::new(splats(), &SplatOptions::default());
        let mut found = [0; 3];
        for index in 0..views.len() {
            let picture = views.draw(index);
            let camera = views.camera(index);
            for axis in 0..3 {
                let mut mark = CENTRE;
                mark[axis] += 1.1;
                let at: [f64; 3] = std::array::from_fn(|row| {
                    dot(camera.rotation[row], mark) + camera.translation[row]
                });
                let middle: [f64; 3] = std::array::from_fn(|row| {
                    dot(camera.rotation[row], CENTRE) + camera.translation[row]
                });
                // The centre is on the axis, and a mark is seen where it is nearer.
                assert!(middle[0].abs() < 0.05 && middle[1].abs() < 0.05 && middle[2] > 1.0);
                if at[2] > middle[2] - 0.5 {
                    continue;
                }
                let [x, y] =
                    [0, 1].map(|k| (camera.focal[k] * at[k] / at[2] + camera.centre[k]) as usize);
                let pixel = picture.pixels[y * picture.width as usize + x];
                let others = (0..3).filter(|&other| other != axis);
                let brightest = others.map(|other| pixel[other]).max().unwrap_or(0);
                assert!(
                    pixel[3] == 255 && pixel[axis] > brightest + 60,
                    "{axis}: {pixel:?}"
                );
                found[axis] += 1;
            }
        }
        assert!(found.iter().all(|&found| found >= 2), "{found:?}");
        // What the pictures show stays where the cameras are moved with the world of the mesh.
        let before = views.draw(3);
        views.take(|pose| Pose {
            translation: pose.translation.map(|x| 2.0 * x),
            ..*pose
        });
        assert_eq!(views.draw(3).pixels, before.pixels);
    }

    #[test]
    fn what_is_handed_on_shows_the_same() {
        let mut splats = splats();
        // A harmonic of degree 1, which is drawn or left out.
        splats.cloud.degree = 1;
        splats.cloud.harmonics = vec![[0.3, -0.2, 0.1]; 3 * splats.cloud.len()];
        for (linear, harmonics, filter) in [
            (false, Harmonics::View, SplatFilter::Auto),
            (true, Harmonics::Constant, SplatFilter::Mip(0.2)),
        ] {
            splats.origin = Origin::Gltf {
                linear,
                solid: false,
            };
            let options = SplatOptions {
                harmonics,
                filter,
                views: Wanted::Count(3),
            };
            let mut views = SplatViews::new(splats.clone(), &options);
            let corners = [[0.0, 1.0, 2.0], [2.0, 1.0, 2.0], [0.0, 3.0, 4.0]];
            views.look_at((&corners, &[[0, 1, 2]]), &options, 256);
            let handed = handed_on(&views.scene());
            for index in 0..views.len() {
                let picture = views.draw(index);
                let mut view = undrawn(index as u32, [0, 0, picture.width, picture.height]);
                Undrawn::complete(Some(&handed), &mut view).expect("a view");
                assert!(view.pixels.iter().any(|pixel| pixel[3] > 200));
                assert!(view.pixels == picture.pixels, "{index} {options:?}");
            }
        }
    }

    #[test]
    fn pixels_are_as_large_as_texels() {
        let mut views = SplatViews::new(splats(), &SplatOptions::default());
        // A cube of edge 2 has an area of 24, and a radius of √3.
        let corner = |k: u32| [k & 1, k >> 1 & 1, k >> 2].map(|x| 2.0 * f64::from(x) - 1.0);
        let positions: Vec<[f64; 3]> = (0..8).map(corner).collect();
        let faces = [
            [0, 1, 3, 2],
            [4, 6, 7, 5],
            [0, 4, 5, 1],
            [2, 3, 7, 6],
            [0, 2, 6, 4],
            [1, 5, 7, 3],
        ];
        let triangles = faces.map(|[a, b, c, d]| [[a, b, c], [a, c, d]]).concat();
        for (texture, edge) in [(512, 307), (1024, 613), (16_384, 2048), (16, 256)] {
            views.look_at((&positions, &triangles), &SplatOptions::default(), texture);
            assert_eq!(views.size(), [edge; 2], "{texture}");
            assert_eq!(views.len(), VIEWS);
        }
        let [first, ..] = views.poses() else {
            panic!("no view")
        };
        let away = dot(first.translation, first.translation).sqrt();
        assert!((away - ROOM * 3.0_f64.sqrt() / 20.0_f64.to_radians().sin()).abs() < 1e-9);
    }

    #[test]
    fn cameras_of_trellis_are_its_own() {
        let mut views = SplatViews::new(splats(), &SplatOptions::default());
        let options = SplatOptions {
            views: Wanted::Trellis,
            ..SplatOptions::default()
        };
        views.look_at((&[], &[]), &options, 1024);
        assert_eq!((views.len(), views.size()), (100, [1024; 2]));
        assert!((views.camera(7).focal[0] / 1024.0 - 1.3737).abs() < 1e-4);
        // Number 1: u = 1/100, v = 1/2; of its own world (z up), as its PLY has it: (x, -z, y).
        let [yaw, pitch] = [PI, (1.0 - 2.0 / 100.0_f64).acos() - FRAC_PI_2];
        let at = [
            yaw.sin() * pitch.cos(),
            yaw.cos() * pitch.cos(),
            pitch.sin(),
        ];
        let wanted = [at[0], -at[2], at[1]].map(|x| 2.0 * x);
        let pose = &views.poses()[1];
        let eye: [f64; 3] = std::array::from_fn(|k| {
            -(0..3)
                .map(|row| pose.rotation[row][k] * pose.translation[row])
                .sum::<f64>()
        });
        assert!(distance(eye, wanted) < 1e-9, "{eye:?} {wanted:?}");
        for pose in &views.poses()[1..] {
            assert!((dot(pose.translation, pose.translation) - 4.0).abs() < 1e-9);
        }
    }
}
