//! The readers of views without session, folder or pool: bytes in memory → what prepare makes of them. For the fuzz
//! targets. Meshes have [`super::load::read`], which takes any [`crate::worker::folder::Files`].

use proto::limits::{MAX_COLMAP_FILE_BYTES, MAX_MESH_FILE_BYTES};
use proto::message::{Code, Failure, Root};
use proto::splats::SplatOptions;
use proto::table::{Camera, LayeredView};

use super::splat::SplatViews;
use super::transforms::{self, Frame, Problem};
use super::{colmap, picture, views};
use crate::worker::folder::{Files, Folder};

/// A decoded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Row-major from the top; sRGB with straight alpha.
    pub pixels: Vec<[u8; 4]>,
    /// Whether some pixel is not opaque.
    pub has_alpha: bool,
}

/// Number of pixels by the header of a picture; `None` if the bytes are not a supported picture.
pub fn pixels(bytes: &[u8]) -> Option<usize> {
    picture::probe(bytes).ok().map(picture::Header::pixels)
}

/// Reads and fully prepares the first `most` views of the file `name`, of any kind, for a mesh with these vertices.
///
/// # Errors
/// The failure to report to the user.
pub fn read_views(
    files: &dyn Files,
    name: &str,
    positions: &[[f32; 3]],
    most: usize,
) -> Result<Vec<LayeredView>, Failure> {
    views::first(&Folder::new(files, Root::Views), name, positions, most)
}

/// Decodes a picture, unless its header states more than `most` pixels. The reader's own limit is too large
/// for fuzzing.
///
/// # Errors
/// The failure to report to the user.
pub fn decode_picture(bytes: &[u8], most: usize) -> Result<Decoded, Failure> {
    let failure = |error: picture::PictureError| Failure {
        code: error.code(),
        message: error.to_string(),
        hint: String::new(),
    };
    let header = picture::probe(bytes).map_err(failure)?;
    if header.pixels() > most {
        return Err(Failure {
            code: Code::LimitExceeded,
            message: format!("has more than {most} pixels"),
            hint: String::new(),
        });
    }
    let as_view = (
        picture::Meaning::Colours,
        picture::orientation(bytes, header),
    );
    let picture = picture::decode_as(bytes, header, as_view).map_err(failure)?;
    Ok(Decoded {
        width: picture.width,
        height: picture.height,
        pixels: picture.pixels,
        has_alpha: picture.has_alpha,
    })
}

/// Reads the splats of the file `name` and draws a view of 64² pixels.
///
/// # Errors
/// The failure to report to the user.
pub fn draw_splats(files: &dyn Files, name: &str) -> Result<Decoded, Failure> {
    let folder = Folder::new(files, Root::Views);
    let read = folder.read(name, MAX_MESH_FILE_BYTES);
    let bytes = read.map_err(|error| Failure {
        code: error.code(),
        message: format!("{name}: {error}"),
        hint: String::new(),
    })?;
    let mut views = SplatViews::read(&bytes, name, &folder, &SplatOptions::default())?;
    views.shrink(64);
    let picture = views.draw(0);
    Ok(Decoded {
        width: picture.width,
        height: picture.height,
        pixels: picture.pixels,
        has_alpha: picture.has_alpha,
    })
}

/// Reads a `transforms.json` into cameras; all its pictures have `size` (width, height).
///
/// # Errors
/// The failure to report to the user.
pub fn read_cameras(bytes: &[u8], size: [u32; 2]) -> Result<Vec<Camera>, Failure> {
    let read = transforms::parse(bytes).map_err(|error| Failure {
        code: error.code(),
        message: error.to_string(),
        hint: error.hint().to_owned(),
    })?;
    cameras(&read.frames, size)
}

/// Reads a COLMAP model whose images are in the file `name` into cameras; all its pictures have `size`.
///
/// # Errors
/// The failure to report to the user.
pub fn read_model(files: &dyn Files, name: &str, size: [u32; 2]) -> Result<Vec<Camera>, Failure> {
    let folder = Folder::new(files, Root::Views);
    let opened = folder.open(name, MAX_COLMAP_FILE_BYTES);
    let opened = opened.map_err(|error| Failure {
        code: error.code(),
        message: format!("{name}: {error}"),
        hint: String::new(),
    })?;
    cameras(&colmap::read(&folder, &opened, name)?, size)
}

fn cameras(frames: &[Frame], size: [u32; 2]) -> Result<Vec<Camera>, Failure> {
    let camera = |frame: &Frame| -> Result<Camera, Problem> { Ok(frame.camera(size)?.0) };
    let cameras = frames.iter().map(camera);
    cameras
        .collect::<Result<_, _>>()
        .map_err(|problem| Failure {
            code: problem.code(),
            message: problem.to_string(),
            hint: problem.hint().to_owned(),
        })
}
