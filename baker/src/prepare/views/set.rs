//! The source of a job's views: `transforms.json`, a COLMAP model with its pictures, cameras of other programs, a safetensors file, or splats, whose
//! cameras are Kiln's own. One interface to what each says of a view.

use proto::job::{PrepareJob, Up};
use proto::limits::{
    MAX_ARRAYS_FILE_BYTES, MAX_COLMAP_FILE_BYTES, MAX_MESH_FILE_BYTES, MAX_TRANSFORMS_BYTES,
};
use proto::message::{Failure, Root, SplatSummary};
use proto::programs::Program;
use proto::splats::{SplatOptions, are_in};
use proto::table::{Camera, LayerSet, SplatScene};

use super::borders;
use super::crop::Outline;
use super::layers;
use super::load::{Decoded, FrameFiles};
use super::show::Loaded;
use super::upright::Exif;
use crate::prepare::arrays::{self, ArrayViews};
use crate::prepare::frame::{Candidate, Silhouette, Similarity};
use crate::prepare::load::{ArraysError, Offset, RawMesh};
use crate::prepare::picture::Picture;
use crate::prepare::repair::Eye;
use crate::prepare::splat::SplatViews;
use crate::prepare::texels::Lookout;
use crate::prepare::transforms::{self, Applied, Distortion, Face, Frame, Pose};
use crate::prepare::{colmap, programs};
use crate::worker::folder::{Folder, FolderError};
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

/// Longest edge, in pixels, of the small cameras used for what views see ([`Set::eyes`]) and for how large it appears
/// ([`Set::lookouts`]).
const EYE_EDGE: f64 = 1024.0;
const LOOKOUT_EDGE: f64 = 256.0;

/// All views of a job, none decoded.
#[derive(Debug)]
pub(super) struct Set<'a> {
    /// The pictures' folder.
    folder: Folder<'a>,
    /// The name of `transforms.json`, of the COLMAP images or of the safetensors file.
    pub(super) file: &'a str,
    pub(super) up: Up,
    /// Read layers, too.
    pub(super) layered: bool,
    /// Clear the black wedges at the borders of opaque pictures.
    pub(super) wedges: bool,
    /// Views of splats are drawn as they are loaded. Otherwise bake and encode draw them.
    pub(super) drawn: bool,
    /// Whose cameras they are, where it is one of [`programs`].
    program: Option<Program>,
    /// What `transforms.json` says of a world before its own.
    pub(super) applied: Option<Applied>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Frames(Vec<Frame>),
    Arrays(Box<ArrayViews>),
    Splats(Box<SplatViews>),
}

/// A view that can be decoded on any thread.
pub(super) struct Source<'a> {
    index: usize,
    file: &'a str,
    up: Up,
    wedges: bool,
    drawn: bool,
    kind: SourceKind<'a>,
}

enum SourceKind<'a> {
    Frame(FrameFiles, &'a Frame),
    /// With or without its layers.
    Slice(&'a ArrayViews, bool),
    Splats(&'a SplatViews),
}

impl<'a> Set<'a> {
    /// Reads the file `name`; of a safetensors file everything but the pictures. Splats get views from all around
    /// themselves ([`Self::look_at`]).
    pub(super) fn read(
        folder: &'a Folder<'a>,
        name: &'a str,
        (up, splats): (Up, &SplatOptions),
        progress: &dyn Progress,
    ) -> Result<Self, Failure> {
        let failed = |error: &FolderError| Failure {
            code: error.code(),
            message: format!("{name}: {error}"),
            hint: String::new(),
        };
        let limit = match colmap::is_model(name) {
            true => MAX_COLMAP_FILE_BYTES,
            false => MAX_ARRAYS_FILE_BYTES,
        };
        let mut program = None;
        let opened = folder.open(name, limit).map_err(|error| failed(&error))?;
        let mut applied = None;
        let warn = |text: &str| progress.warning(&format!("{name}: {text}"));
        let kind = if colmap::is_model(name) {
            Kind::Frames(colmap::read(folder, &opened, name)?)
        } else if are_in(name) {
            progress.expect("splats", each(opened.size() as usize, pace::PARSE_BYTE));
            let bytes = opened
                .read(MAX_MESH_FILE_BYTES)
                .map_err(|error| failed(&error))?;
            let views = SplatViews::read(&bytes, name, folder, splats)?;
            if let Some(text) = views.warning() {
                warn(&text);
            }
            Kind::Splats(Box::new(views))
        } else if arrays::are_in(&opened, name).map_err(|error| failed(&error))? {
            let views = ArrayViews::read(opened, warn).map_err(|error| refused(name, &error))?;
            Kind::Arrays(Box::new(views))
        } else {
            let bytes = opened
                .read(MAX_TRANSFORMS_BYTES)
                .map_err(|error| failed(&error))?;
            program = programs::of(name, &bytes);
            if let Some(program) = program {
                let frames = programs::read(program, &bytes, (folder, name))?;
                Kind::Frames(frames)
            } else {
                let read = transforms::parse(&bytes).map_err(|error| Failure {
                    code: error.code(),
                    message: format!("{name}: {error}"),
                    hint: error.hint().to_owned(),
                })?;
                read.warnings.iter().for_each(|text| warn(text));
                applied = read.applied;
                Kind::Frames(read.frames)
            }
        };
        if let Kind::Frames(frames) = &kind {
            let faces = frames.iter().filter(|frame| frame.face.is_some()).count();
            if faces > 0 {
                let six = Face::ALL.map(Face::name).join(", ");
                warn(&format!(
                    "{} panoramas are resampled as {faces} views, the faces of a cube each: {six}",
                    faces / Face::ALL.len()
                ));
            }
            let curved = |frame: &&Frame| {
                let lens = &frame.lens.distortion;
                matches!(lens, Some(Distortion::Curved(lens)) if lens.is_fisheye())
            };
            let count = frames.iter().filter(curved).count();
            if count > 0 {
                warn(&format!(
                    "{count} views have a fisheye lens: they are resampled as a pinhole takes them, without what lies farther off the axis than 1.5 times their size holds"
                ));
            }
        }
        Ok(Self {
            folder: match colmap::is_model(name) || program.is_some() {
                true => folder.beside(Root::Pictures),
                false => *folder,
            },
            program,
            file: name,
            up,
            layered: false,
            wedges: false,
            drawn: true,
            applied,
            kind,
        })
    }

    /// The matrices are camera-to-world with OpenGL axes, not world-to-camera with `OpenCV` axes.
    pub(super) fn opengl(&self) -> bool {
        matches!(self.kind, Kind::Frames(_))
            && !colmap::is_model(self.file)
            && self.program.is_none()
    }

    /// The poses as the file says, without [`Up`].
    pub(super) fn poses(&self) -> Vec<Pose> {
        match &self.kind {
            Kind::Frames(frames) => frames.iter().map(Frame::view_pose).collect(),
            Kind::Arrays(views) => {
                let pose = |camera: &Camera| Pose {
                    rotation: camera.rotation,
                    translation: camera.translation,
                };
                views.cameras().iter().map(pose).collect()
            }
            Kind::Splats(views) => views.poses().to_vec(),
        }
    }

    /// Whether the cameras are Kiln's own.
    pub(super) fn has_own_cameras(&self) -> bool {
        matches!(self.kind, Kind::Splats(_))
    }

    /// What the views are drawn from, where they are splats.
    pub(super) fn splats(&self, job: &PrepareJob) -> Option<SplatSummary> {
        match &self.kind {
            Kind::Splats(views) => Some(views.summary(&job.splats)),
            Kind::Frames(_) | Kind::Arrays(_) => None,
        }
    }

    /// The splats that the views are to be drawn of; none where these have pictures.
    pub(super) fn scene(&self) -> Option<SplatScene> {
        match &self.kind {
            Kind::Splats(views) => Some(views.scene()),
            Kind::Frames(_) | Kind::Arrays(_) => None,
        }
    }

    /// The surface that splats show; none where the views are no splats.
    pub(super) fn surface(&self, progress: &dyn Progress) -> Option<Result<RawMesh, Failure>> {
        match &self.kind {
            Kind::Splats(views) => Some(views.surface(self.file, progress)),
            Kind::Frames(_) | Kind::Arrays(_) => None,
        }
    }

    /// Places the cameras of splats about a mesh, which is less an offset, with y up, and lies at a place in the world of
    /// the views, for a texture of so many texels along its edge.
    pub(super) fn look_at(
        &mut self,
        (positions, triangles): (&[[f32; 3]], &[[u32; 3]]),
        (place, offset): (&Similarity, Offset),
        (options, texture): (&SplatOptions, u32),
    ) {
        let up = self.up;
        if let Kind::Splats(views) = &mut self.kind {
            let positions = positions.iter();
            let positions: Vec<[f64; 3]> = positions
                .map(|at| place.onto(in_file(at.map(f64::from), offset, up)))
                .collect();
            views.look_at((&positions, triangles), options, texture);
        }
    }

    /// Takes another frame for the given one.
    pub(super) fn take(&mut self, candidate: &Candidate) {
        match &mut self.kind {
            Kind::Frames(frames) => frames.iter_mut().for_each(|frame| {
                frame.pose = candidate.pose(&frame.pose);
                frame.lens.mirror_centre(candidate.mirrored);
            }),
            Kind::Arrays(views) => {
                views.move_cameras(candidate.mirrored, |pose| candidate.pose(pose));
            }
            Kind::Splats(views) => views.take(|pose| candidate.pose(pose)),
        }
    }

    /// Moves the cameras into the world of a mesh whose positions are less `offset`, with y up.
    pub(super) fn shift(&mut self, offset: &Offset) {
        if *offset == Offset::default() {
            return;
        }
        let place = Similarity {
            offset: self.up.back(*offset),
            ..Similarity::NONE
        };
        self.take(&Candidate {
            place,
            ..Candidate::GIVEN
        });
    }

    /// A small file beside the views' own; none where there is none.
    pub(super) fn beside(&self, name: &str) -> Option<Vec<u8>> {
        let name = sibling(self.file, name);
        self.folder.read(&name, MAX_TRANSFORMS_BYTES).ok()
    }

    /// The layers of a view beside its colours, read or not.
    pub(super) fn layers(&self, index: usize) -> LayerSet {
        match &self.kind {
            Kind::Frames(frames) => frames[index].layers.set(),
            Kind::Arrays(views) => views.layer_set(),
            Kind::Splats(_) => LayerSet::default(),
        }
    }

    /// Number of views, at least one.
    pub(super) fn len(&self) -> usize {
        match &self.kind {
            Kind::Frames(frames) => frames.len(),
            Kind::Arrays(views) => views.len(),
            Kind::Splats(views) => views.len(),
        }
    }

    /// The view's name in messages.
    pub(super) fn name(&self, index: usize) -> String {
        match &self.kind {
            Kind::Frames(frames) => frames[index].name(),
            Kind::Arrays(_) => format!("observations[{index}]"),
            Kind::Splats(_) => format!("camera {index}"),
        }
    }

    /// The view shows the same picture as the one before it.
    pub(super) fn continues(&self, index: usize) -> bool {
        match &self.kind {
            Kind::Frames(frames) => frames[index].continues(),
            Kind::Arrays(_) | Kind::Splats(_) => false,
        }
    }

    /// The view is a part of a panorama.
    pub(super) fn is_face(&self, index: usize) -> bool {
        matches!(&self.kind, Kind::Frames(frames) if frames[index].face.is_some())
    }

    /// The file itself holds the view out of the fit.
    pub(super) fn held_out(&self, index: usize) -> bool {
        match &self.kind {
            Kind::Frames(frames) => frames[index].held_out,
            Kind::Arrays(_) | Kind::Splats(_) => false,
        }
    }

    /// The camera convention of the file, as a hint.
    pub(super) fn convention(&self) -> &'static str {
        match self.kind {
            Kind::Frames(_) if colmap::is_model(self.file) => {
                "COLMAP's world must be the mesh's: a mesh that was made from this model, or one that was aligned with it"
            }
            Kind::Frames(_) if self.program.is_some() => {
                "the cameras' world must be the mesh's: a mesh that the same program exported with them"
            }
            Kind::Frames(_) => {
                "transform_matrix is camera-to-world with OpenGL axes, in the world of the mesh (glTF: y up)"
            }
            Kind::Splats(_) => "splats and mesh must lie in one world",
            Kind::Arrays(_) => {
                "extrinsics are world-to-camera with OpenCV axes (x right, y down, z forward), in the world of the mesh"
            }
        }
    }

    /// The cameras, scaled to a small picture. A camera without a stated picture size is taken for one of a square
    /// picture.
    pub(super) fn eyes(&self) -> Vec<Eye> {
        let eye = |camera: Camera, size: [f64; 2]| small(turned(camera, self.up), size, EYE_EDGE);
        match &self.kind {
            Kind::Frames(frames) => {
                let of_frame = |frame: &Frame| {
                    let unknown = [
                        EYE_EDGE as u32,
                        EYE_EDGE as u32 >> u32::from(frame.face.is_some()),
                    ];
                    let size = frame.lens.stated_size().unwrap_or(unknown);
                    let (camera, size) = frame.camera(size).ok()?;
                    Some(eye(camera, size.map(f64::from)))
                };
                frames.iter().filter_map(of_frame).collect()
            }
            Kind::Arrays(views) => {
                let size = views.size().map(|edge| edge as f64);
                views.cameras().iter().map(|&at| eye(at, size)).collect()
            }
            Kind::Splats(views) => {
                let size = views.size().map(f64::from);
                let cameras = (0..views.len()).map(|index| views.camera(index));
                cameras.map(|at| eye(at, size)).collect()
            }
        }
    }

    /// See [`super::Views::lookouts`].
    pub(super) fn lookouts(&self) -> Result<Vec<Lookout>, Failure> {
        let lookout = |camera: Camera, size: [f64; 2], enlarged: f64| {
            let eye = small(turned(camera, self.up), size, LOOKOUT_EDGE);
            let zoom = size[0].max(size[1]) / LOOKOUT_EDGE * enlarged;
            Lookout { eye, zoom }
        };
        Ok(match &self.kind {
            Kind::Frames(frames) => {
                let Some(first) = frames.first() else {
                    return Ok(Vec::new());
                };
                let found = FrameFiles::read(&self.folder, self.file, 0, first, false)?.size();
                let stated = first.lens.stated_size().unwrap_or(found);
                let enlarged = f64::from(found[0]) / f64::from(stated[0].max(1));
                let of_frame = |frame: &Frame| {
                    let (size, enlarged) = match frame.lens.stated_size() {
                        Some(size) => (size, enlarged),
                        None => (found, 1.0),
                    };
                    let (camera, size) = frame.camera(size).ok()?;
                    Some(lookout(camera, size.map(f64::from), enlarged))
                };
                let fitted = frames.iter().filter(|frame| !frame.held_out);
                fitted.filter_map(of_frame).collect()
            }
            Kind::Arrays(views) => {
                let size = views.size().map(|edge| edge as f64);
                let cameras = views.cameras().iter();
                cameras.map(|&camera| lookout(camera, size, 1.0)).collect()
            }
            Kind::Splats(views) => {
                let size = views.size().map(f64::from);
                let cameras = (0..views.len()).map(|index| views.camera(index));
                cameras.map(|camera| lookout(camera, size, 1.0)).collect()
            }
        })
    }

    /// Reads the files of view `index`. A slice of a safetensors file is read when it is decoded.
    pub(super) fn source(&self, index: usize) -> Result<Source<'_>, Failure> {
        let kind = match &self.kind {
            Kind::Frames(frames) => {
                let frame = &frames[index];
                // A panorama is one frame of its file.
                let number = index
                    - frames[..=index]
                        .iter()
                        .filter(|frame| frame.continues())
                        .count();
                let files = FrameFiles::read(&self.folder, self.file, number, frame, self.layered)?;
                SourceKind::Frame(files, frame)
            }
            Kind::Arrays(views) => SourceKind::Slice(views, self.layered),
            Kind::Splats(views) => SourceKind::Splats(views),
        };
        Ok(Source {
            index,
            file: self.file,
            up: self.up,
            wedges: self.wedges,
            drawn: self.drawn,
            kind,
        })
    }
}

impl Source<'_> {
    /// Bytes of the source and of its decoding, an upper bound.
    pub(super) fn decoding_bytes(&self) -> usize {
        match &self.kind {
            SourceKind::Frame(files, _) => files.decoding_bytes(),
            SourceKind::Slice(views, _) => views.decoding_bytes(),
            SourceKind::Splats(views) => views.drawing_bytes(),
        }
    }

    /// Whether a mask beside the picture is used that its file does not name.
    pub(super) fn masked_beside(&self) -> bool {
        match &self.kind {
            SourceKind::Frame(files, _) => files.masked_beside(),
            SourceKind::Slice(..) | SourceKind::Splats(_) => false,
        }
    }

    /// What is made of the picture's EXIF orientation.
    pub(super) fn exif(&self) -> Exif {
        match &self.kind {
            SourceKind::Frame(files, _) => files.exif(),
            SourceKind::Slice(..) | SourceKind::Splats(_) => Exif::None,
        }
    }

    /// Whether the picture lies under another name than its file says.
    pub(super) fn renamed(&self) -> bool {
        match &self.kind {
            SourceKind::Frame(files, _) => files.renamed(),
            SourceKind::Slice(..) | SourceKind::Splats(_) => false,
        }
    }

    /// The whole picture, and its camera in the world of the file; none where it cannot be decoded: whoever loads it
    /// says why.
    pub(super) fn whole(&self) -> Option<(Picture, Camera)> {
        match &self.kind {
            SourceKind::Frame(files, frame) => {
                let decoded = files.decode(self.file, frame, self.wedges).ok()?;
                Some((decoded.picture, decoded.camera))
            }
            SourceKind::Slice(views, _) => {
                let (picture, camera, _) = views.decode(self.index).ok()?;
                Some((picture, camera))
            }
            SourceKind::Splats(views) => Some((views.draw(self.index), views.camera(self.index))),
        }
    }

    /// The picture's silhouette; none where it has none. A face of a panorama is cut off at its border, and tells nothing.
    pub(super) fn silhouette(&self) -> Option<Silhouette> {
        if matches!(&self.kind, SourceKind::Frame(_, frame) if frame.face.is_some()) {
            return None;
        }
        let (picture, camera) = self.whole()?;
        let lens = match &self.kind {
            SourceKind::Frame(_, frame) => frame.lens.distortion,
            SourceKind::Slice(..) | SourceKind::Splats(_) => None,
        };
        Silhouette::new(
            [picture.width, picture.height],
            &picture.pixels,
            picture.has_alpha,
            [camera.focal, camera.centre],
            lens,
        )
    }

    /// Whether an opaque picture without a mask has black wedges at its border; none where it is no such picture.
    pub(super) fn has_wedges(&self) -> Option<bool> {
        let SourceKind::Frame(files, _) = &self.kind else {
            return None;
        };
        let picture = files.sampled()?;
        (!picture.has_alpha).then(|| borders::has_wedges(&picture))
    }

    pub(super) fn load(self, outline: &Outline, holdout: bool) -> Result<Loaded, Failure> {
        let (index, file, up) = (self.index, self.file, self.up);
        let (wedges, drawn) = (self.wedges, self.drawn);
        match self.kind {
            SourceKind::Frame(files, frame) => {
                let Decoded {
                    picture,
                    camera,
                    layers: mut pictures,
                    wedged,
                } = files.decode(file, frame, wedges)?;
                // The encoded bytes are not needed any more.
                drop(files);
                // Normals are in the axes of the whole picture.
                let whole = Camera {
                    rotation: frame.pose.rotation,
                    ..camera
                };
                layers::turn(
                    &mut pictures,
                    frame.layers.normal_space,
                    &turned(whole, up),
                    up,
                );
                let camera = turned(camera, up);
                let loaded = Loaded::new(index, &picture, &pictures, camera, outline, holdout);
                Ok(Loaded { wedged, ..loaded })
            }
            SourceKind::Slice(views, layered) => {
                let (picture, camera, mut far_outside) =
                    views.decode(index).map_err(|error| refused(file, &error))?;
                let camera = turned(camera, up);
                let mut pictures = Vec::new();
                if layered {
                    let decoded = views.decode_layers(index);
                    let (layers, far) = decoded.map_err(|error| refused(file, &error))?;
                    (pictures, far_outside) = (layers, far_outside | far);
                    layers::turn(&mut pictures, views.normal_space(), &camera, up);
                }
                let loaded = Loaded::new(index, &picture, &pictures, camera, outline, holdout);
                Ok(Loaded {
                    far_outside,
                    ..loaded
                })
            }
            SourceKind::Splats(views) => {
                let camera = turned(views.camera(index), up);
                Ok(match drawn {
                    true => Loaded::new(index, &views.draw(index), &[], camera, outline, holdout),
                    false => Loaded::undrawn(index, views.size(), camera, outline, holdout),
                })
            }
        }
    }
}

/// A point of the mesh, less an offset and with y up, in the world of its file.
pub(super) fn in_file(at: [f64; 3], offset: Offset, up: Up) -> [f64; 3] {
    up.back(std::array::from_fn(|k| at[k] + offset[k]))
}

/// The name of a file in the folder of another.
fn sibling(file: &str, name: &str) -> String {
    match file.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{name}"),
        None => name.to_owned(),
    }
}

/// Scales a camera so that its picture's longest edge is `edge` pixels.
fn small(camera: Camera, size: [f64; 2], edge: f64) -> Eye {
    let scale = edge / size[0].max(size[1]);
    Eye {
        camera: Camera {
            focal: camera.focal.map(|x| x * scale),
            centre: camera.centre.map(|x| x * scale),
            ..camera
        },
        size: size.map(|edge| (edge * scale).ceil().max(1.0) as usize),
    }
}

/// Moves a camera into the y-up world, as [`Up`] says.
pub(super) fn turned(camera: Camera, up: Up) -> Camera {
    Camera {
        rotation: camera.rotation.map(|row| up.turned(row)),
        ..camera
    }
}

fn refused(name: &str, error: &ArraysError) -> Failure {
    Failure {
        code: error.code(),
        message: format!("{name}: {error}"),
        hint: error.hint().to_owned(),
    }
}
