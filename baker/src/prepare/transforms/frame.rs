//! One view as `transforms.json` or another list describes it. A panorama is six of them, a face each.

use proto::table::Camera;

use super::channels::FrameLayers;
use super::error::Problem;
use super::lens::Lens;
use super::panorama::Face;
use super::pose::Pose;

/// One view as the file describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// `file_path` as written; its ending may be missing.
    pub(crate) file: String,
    /// `mask_path` (nerfstudio): a picture that is white where the view counts.
    pub(crate) mask: Option<String>,
    /// `channels`: pictures of the view's other layers.
    pub(crate) layers: FrameLayers,
    /// World to camera, of the whole picture.
    pub(crate) pose: Pose,
    /// Its intrinsics.
    pub(crate) lens: Lens,
    /// The file's named splits hold it out of the fit.
    pub(crate) held_out: bool,
    /// The part of a panorama that the view is.
    pub(crate) face: Option<Face>,
}

impl Frame {
    /// A view without mask, layers and face.
    pub(crate) fn new(file: String, pose: Pose, lens: Lens) -> Self {
        Self {
            file,
            mask: None,
            layers: FrameLayers::default(),
            pose,
            lens,
            held_out: false,
            face: None,
        }
    }

    /// World to camera, of the view.
    pub(crate) fn view_pose(&self) -> Pose {
        let Some(face) = self.face else {
            return self.pose;
        };
        let axes = face.axes();
        let dot = |row: [f64; 3], other: [f64; 3]| (0..3).map(|k| row[k] * other[k]).sum::<f64>();
        let Pose {
            rotation,
            translation,
        } = self.pose;
        let column = |c: usize| [0, 1, 2].map(|k| rotation[k][c]);
        Pose {
            rotation: axes.map(|axis| [0, 1, 2].map(|c| dot(axis, column(c)))),
            translation: axes.map(|axis| dot(axis, translation)),
        }
    }

    /// The view's camera, its picture having this width and height, and the view's own size.
    pub(crate) fn camera(&self, picture: [u32; 2]) -> Result<(Camera, [u32; 2]), Problem> {
        let Pose {
            rotation,
            translation,
        } = self.view_pose();
        let (mut focal, mut centre) = self.lens.intrinsics(picture)?;
        let mut size = picture;
        if self.face.is_some() {
            let [width, height] = picture;
            if (width / 2).abs_diff(height) > 1 {
                return Err(Problem::NoSphere { picture });
            }
            let (length, edge) = Face::lens(width);
            (focal, centre, size) = ([length; 2], [f64::from(edge) / 2.0; 2], [edge; 2]);
        }
        let camera = Camera {
            rotation,
            translation,
            focal,
            centre,
        };
        Ok((camera, size))
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> String {
        match self.face {
            Some(face) => format!("{} ({})", self.file, face.name()),
            None => self.file.clone(),
        }
    }

    /// It shows the same picture as the view before it.
    pub(crate) fn continues(&self) -> bool {
        self.face.is_some_and(|face| face != Face::Front)
    }
}

/// Puts the six faces of each panorama in its place.
pub(crate) fn with_faces(frames: Vec<Frame>) -> Vec<Frame> {
    let faces = |frame: &Frame| match frame.lens.panorama {
        true => Face::ALL.map(Some).to_vec(),
        false => vec![None],
    };
    let part = |frame: Frame| {
        move |face| Frame {
            face,
            ..frame.clone()
        }
    };
    let all = frames.into_iter();
    all.flat_map(|frame| faces(&frame).into_iter().map(part(frame)))
        .collect()
}
