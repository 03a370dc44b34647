//! Reads `transforms.json`, as instant-ngp, nerfstudio and Blender exporters write it, as [`Frame`]s: the picture's
//! file, its pose in `OpenCV` axes, and a lens that becomes a camera once the picture's size is known.
//!
//! - A key of a frame overrides the same key of the file.
//! - Keys that change what a pixel sees are either obeyed (`OpenCV`'s radial and tangential distortion) or refused by
//!   name (thin prism, rolling shutter). They are never ignored. Other unknown keys are skipped unread,
//!   whatever their size.
//! - `applied_transform` and `applied_scale` (nerfstudio) say how the poses were moved out of another program's world.
//!   The poses already contain them and are taken as written. The file cannot tell whether the mesh is in the same
//!   world: the silhouettes do ([`super::frame`]), or else a warning.
//! - `channels` of a frame names pictures of the material's other layers, see [`channels`].
//! - Named splits are nerfstudio's. `test_filenames` and `val_filenames` list the `file_path`s of frames that are held
//!   out. `train_filenames`, where given, lists all frames that may be fitted; the others are held out. A frame in
//!   lists of both kinds is held out with a warning, since a fitted view measures nothing. A name that no frame has is
//!   refused. Unlike in nerfstudio, no list needs the others, and every frame is read.

mod channels;
mod distortion;
mod error;
mod fisheye;
mod frame;
mod keys;
pub(crate) mod lenient;
mod lens;
mod panorama;
mod pose;
mod split;
#[cfg(test)]
mod tests;

use proto::limits::MAX_VIEWS;
use serde_json::Value;

use crate::prepare::foreign;
pub(crate) use channels::{FrameLayers, NormalSpace};
pub(crate) use distortion::Distortion;
#[cfg(test)]
pub(in crate::prepare) use distortion::tests::lens as lens_of;
pub(crate) use error::{NoRotation, Problem, TransformsError};
pub(crate) use fisheye::{Curved, Fisheye};
pub(crate) use frame::{Frame, with_faces};
use keys::{File, Keys};
pub(crate) use lens::{Known, Lens, MAX_PIXELS};
pub(crate) use panorama::Face;
pub(crate) use pose::Pose;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transforms {
    /// In the file's order, at least one.
    pub(crate) frames: Vec<Frame>,
    /// What the user should know.
    pub(crate) warnings: Vec<String>,
    /// The poses were moved out of another program's world.
    pub(crate) applied: Option<Applied>,
}

/// `applied_transform` and `applied_scale`: a place of that world is moved by three rows of a matrix, then multiplied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Applied {
    /// The key that says so.
    pub(crate) key: &'static str,
    /// Without a matrix that can be read, the identity.
    pub(crate) rows: [[f64; 4]; 3],
    pub(crate) scale: f64,
}

impl Applied {
    fn from_keys(keys: &Keys) -> Option<Self> {
        let identity = [
            [1.0, 0.0, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
        ];
        let rows = keys.applied_transform.as_ref().and_then(three_rows);
        let scale = keys.applied_scale.as_ref().and_then(Value::as_f64);
        Some(Self {
            key: keys.applied?,
            rows: rows.unwrap_or(identity),
            scale: scale.unwrap_or(1.0),
        })
    }

    /// What to know where the silhouettes do not tell whether the mesh was moved, too.
    pub(crate) fn warning(&self) -> String {
        format!(
            "{} is present: the poses are taken as written, so the mesh has to be in the same world as they are",
            self.key
        )
    }
}

/// The first three rows of a matrix in JSON.
pub(crate) fn three_rows(matrix: &Value) -> Option<[[f64; 4]; 3]> {
    let mut rows = [[0.0; 4]; 3];
    for (r, row) in rows.iter_mut().enumerate() {
        for (c, entry) in row.iter_mut().enumerate() {
            *entry = matrix.get(r)?.get(c)?.as_f64()?;
        }
    }
    Some(rows)
}

/// Parses the bytes of `transforms.json`.
///
/// # Errors
/// The first problem found.
pub(crate) fn parse(bytes: &[u8]) -> Result<Transforms, TransformsError> {
    if let Some(foreign) = foreign::recognise(bytes) {
        return Err(TransformsError::Foreign(foreign));
    }
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match text {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] | [0, _, ..] | [_, 0, ..] => {
            return Err(TransformsError::Utf16);
        }
        _ if text.iter().all(u8::is_ascii_whitespace) => return Err(TransformsError::Empty),
        _ => {}
    }
    let other = |error| foreign::program(text).map_or(error, TransformsError::Program);
    let file = read_file(text).map_err(other)?;
    let Some(list) = file.frames else {
        return Err(other(TransformsError::NoFrames));
    };
    if list.count > MAX_VIEWS {
        return Err(TransformsError::TooManyFrames(list.count));
    }
    if list.count == 0 {
        return Err(TransformsError::EmptyFrames);
    }

    let mut warnings = Vec::new();
    let applied = Applied::from_keys(&file.keys);
    let (mut scaled, mut transposed) = (0_usize, 0_usize);
    let mut disagreeing = 0_usize;
    let frames = list.frames.into_iter().enumerate().map(|(number, keys)| {
        let (frame, notes) =
            read_frame(keys, &file.keys).map_err(|problem| TransformsError::Frame {
                frame: number,
                problem,
            })?;
        scaled += usize::from(notes.scaled);
        transposed += usize::from(notes.transposed);
        disagreeing += usize::from(notes.disagreeing);
        Ok(frame)
    });
    let mut frames = frames.collect::<Result<Vec<_>, _>>()?;
    if let [first, rest @ ..] = frames.as_slice()
        && !rest.is_empty()
        && rest.iter().all(|frame| frame.file == first.file)
        && rest.iter().any(|frame| frame.pose != first.pose)
    {
        return Err(TransformsError::SamePicture {
            name: first.file.clone(),
            count: frames.len(),
        });
    }
    let lists = split::Lists {
        train: file.train_filenames,
        val: file.val_filenames,
        test: file.test_filenames,
    };
    warnings.extend(split::hold_out(&mut frames, &lists)?);
    if scaled > 0 {
        warnings.push(format!(
            "transform_matrix of {scaled} frames contains a scale, which is taken out"
        ));
    }
    if transposed > 0 {
        warnings.push(format!(
            "transform_matrix of {transposed} frames is written column by column: it is taken transposed"
        ));
    }
    if disagreeing > 0 {
        warnings.push(format!(
            "fl_x and camera_angle_x of {disagreeing} frames disagree: fl_x is used"
        ));
    }
    let frames = with_faces(frames);
    if frames.len() > MAX_VIEWS {
        return Err(TransformsError::TooManyFrames(frames.len()));
    }
    Ok(Transforms {
        frames,
        warnings,
        applied,
    })
}

/// Reads the JSON. What fails as JSON is tried again as it is often written by hand or by Python ([`lenient`]).
fn read_file(text: &[u8]) -> Result<File, TransformsError> {
    let error = match serde_json::from_slice(text) {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    let begins = text.trim_ascii_start();
    if !begins.starts_with(b"{") && !begins.starts_with(b"[") && !begins.starts_with(b"/") {
        let word = begins
            .split(|byte| byte.is_ascii_whitespace())
            .next()
            .unwrap_or_default();
        let word = String::from_utf8_lossy(&word[..word.len().min(20)]).into_owned();
        return Err(TransformsError::NoJson(word));
    }
    match serde_json::from_slice(&lenient::plain(text, lenient::OUT_OF_RANGE)) {
        Ok(file) => Ok(file),
        // The first error counts in the file as it is.
        Err(_) => Err(TransformsError::Json(error)),
    }
}

struct Notes {
    scaled: bool,
    transposed: bool,
    disagreeing: bool,
}

fn read_frame(keys: Keys, top: &Keys) -> Result<(Frame, Notes), Problem> {
    keys.check_lens()?;
    top.check_lens()?;
    let file = keys
        .file_path
        .clone()
        .ok_or(Problem::Missing("file_path"))?;
    let matrix = keys
        .transform_matrix
        .as_ref()
        .ok_or(Problem::Missing("transform_matrix"))?;
    let (pose, written) = Pose::from_matrix(matrix)?;
    let (lens, disagreeing) = Lens::from_keys(&keys, top)?;
    let layers = FrameLayers::from_keys(keys.channels, keys.normal_space, &top.normal_space)?;
    Ok((
        Frame {
            mask: keys.mask_path,
            layers,
            ..Frame::new(file, pose, lens)
        },
        Notes {
            scaled: written.scaled,
            transposed: written.transposed,
            disagreeing,
        },
    ))
}
