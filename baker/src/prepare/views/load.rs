//! Decodes and masks the picture of one frame of `transforms.json`, or of one image of a COLMAP model, and gives it its
//! camera.

use proto::limits::MAX_IMAGE_FILE_BYTES;
use proto::message::{Code, Failure, Refusal};
use proto::table::{Camera, Layer};

use super::straighten::{self, Numbers};
use crate::prepare::colmap::is_model;
use crate::prepare::folder::{Folder, FolderError};
use crate::prepare::named_by_input;
use crate::prepare::picture::{self, Header, Picture, PictureError};
use crate::prepare::transforms::Frame;

struct File {
    name: String,
    bytes: Vec<u8>,
    header: Header,
}

/// The files of a frame, read but not decoded.
pub(super) struct FrameFiles {
    index: usize,
    picture: File,
    mask: Option<File>,
    layers: Vec<(Layer, File)>,
    straightened: bool,
}

/// A frame's pictures as one pinhole camera would have taken them.
pub(super) struct Decoded {
    pub(super) picture: Picture,
    pub(super) camera: Camera,
    /// Of the same size as `picture`.
    pub(super) layers: Vec<(Layer, Picture)>,
}

/// Endings tried in this order where the `file_path` is not there as written.
const EXTENSIONS: [&str; 5] = ["", ".png", ".jpg", ".jpeg", ".webp"];

impl FrameFiles {
    /// Reads the files of frame `index` of `transforms`, with those of its layers where `layered`, and checks their
    /// sizes.
    pub(super) fn read(
        folder: &Folder<'_>,
        transforms: &str,
        index: usize,
        frame: &Frame,
        layered: bool,
    ) -> Result<Self, Failure> {
        let picture = File::read(folder, transforms, &frame.file, index)?;
        let mask = frame
            .mask
            .as_ref()
            .map(|mask| File::read(folder, transforms, mask, index))
            .transpose()?;
        let layers = frame.layers.pictures.iter().filter(|_| layered);
        let layers = layers.map(|(layer, name)| {
            let file = File::read(folder, transforms, name, index)?;
            let size = |file: &File| [file.header.width, file.header.height];
            match (size(&file), size(&picture)) {
                (one, other) if one == other => Ok((*layer, file)),
                ([w, h], [pw, ph]) => {
                    let name = layer.name();
                    let text = format!("{name} has {w}x{h} pixels, its view's picture {pw}x{ph}");
                    Err(file.failure(index, Code::InvalidAsset, &text))
                }
            }
        });
        Ok(Self {
            index,
            layers: layers.collect::<Result<_, _>>()?,
            picture,
            mask,
            straightened: frame.lens.distortion.is_some(),
        })
    }

    pub(super) fn size(&self) -> [u32; 2] {
        [self.picture.header.width, self.picture.header.height]
    }

    /// Bytes of these files and of their decoding, an upper bound.
    pub(super) fn decoding_bytes(&self) -> usize {
        // 16-bit RGBA is the largest format that a decoder writes; the 8-bit pixels exist at the same time.
        let file = |file: &File| file.bytes.len() + file.header.pixels() * (8 + 4);
        let straight = match self.straightened {
            true => straighten::bytes(self.picture.header.pixels()),
            false => 0,
        };
        let layers = self.layers.iter().map(|(_, layer)| file(layer) + straight);
        file(&self.picture) + self.mask.as_ref().map_or(0, file) + straight + layers.sum::<usize>()
    }

    /// Decodes, masks and undistorts. Fails where the lens described by `transforms` does not suit the picture.
    pub(super) fn decode(&self, transforms: &str, frame: &Frame) -> Result<Decoded, Failure> {
        let mut picture = self.picture.decode(self.index)?;
        if let Some(mask) = &self.mask {
            apply_mask(&mut picture, &mask.decode(self.index)?)
                .map_err(|message| mask.failure(self.index, Code::InvalidAsset, &message))?;
        }
        let mut layers = Vec::new();
        for (layer, file) in &self.layers {
            layers.push((*layer, file.decode(self.index)?));
        }
        let (focal, mut centre) = frame
            .lens
            .intrinsics([picture.width, picture.height])
            .map_err(|problem| Failure {
                code: problem.code(),
                message: format!(
                    "{transforms}: frame {}: {}: {problem}",
                    self.index, self.picture.name
                ),
                hint: problem.hint().to_owned(),
            })?;
        if let Some(distortion) = &frame.lens.distortion {
            for (layer, picture) in &mut layers {
                let numbers = match layer.is_colour() {
                    true => Numbers::Srgb,
                    false => Numbers::Plain,
                };
                (*picture, _) = straighten::straighten(picture, focal, centre, distortion, numbers);
            }
            (picture, centre) =
                straighten::straighten(&picture, focal, centre, distortion, Numbers::Srgb);
        }
        let camera = Camera {
            rotation: frame.pose.rotation,
            translation: frame.pose.translation,
            focal,
            centre,
        };
        Ok(Decoded {
            picture,
            camera,
            layers,
        })
    }
}

impl File {
    fn read(
        folder: &Folder<'_>,
        transforms: &str,
        name: &str,
        index: usize,
    ) -> Result<Self, Failure> {
        let failed = |error: &FolderError| {
            let shown = if name.is_empty() { "file_path" } else { name };
            let tried = match error {
                FolderError::Refused(Refusal::Missing) if !has_ending(name) => {
                    ", nor with .png, .jpg, .jpeg or .webp behind it"
                }
                _ => "",
            };
            let hint = match error {
                FolderError::Refused(Refusal::Missing | Refusal::Outside)
                    if is_model(transforms) =>
                {
                    "names of a model are those of files beneath the folder of its pictures: --images names it"
                }
                FolderError::Refused(Refusal::Missing) => {
                    "file_path is relative to transforms.json; .png, .jpg, .jpeg and .webp may be left out"
                }
                FolderError::Refused(Refusal::Outside) => {
                    "files are read only beneath the folder of transforms.json"
                }
                _ => "",
            };
            Failure {
                code: named_by_input(error),
                message: format!("{transforms}: frame {index}: {shown}: {error}{tried}"),
                hint: hint.to_owned(),
            }
        };
        // Names are relative to the file that holds them.
        let base = transforms.rsplit_once('/').map_or("", |(base, _)| base);
        let mut unlisted = false;
        for extension in EXTENSIONS {
            // An empty name stays empty and an absolute one absolute.
            let candidate = match (base, name) {
                ("", _) | (_, "") => format!("{name}{extension}"),
                _ if name.starts_with('/') => format!("{name}{extension}"),
                _ => format!("{base}/{name}{extension}"),
            };
            let bytes = match folder.read(&candidate, MAX_IMAGE_FILE_BYTES) {
                Ok(bytes) => bytes,
                Err(FolderError::Refused(Refusal::Missing)) => continue,
                // Without an ending it is no picture's name yet.
                Err(FolderError::Refused(Refusal::Unlisted)) if extension.is_empty() => {
                    unlisted = true;
                    continue;
                }
                Err(error) => return Err(failed(&error)),
            };
            let name = format!("{name}{extension}");
            return match picture::probe(&bytes) {
                Ok(header) => Ok(Self {
                    name,
                    bytes,
                    header,
                }),
                Err(error) => Err(broken(&name, index, &error)),
            };
        }
        let refusal = if unlisted && has_ending(name) {
            Refusal::Unlisted
        } else {
            Refusal::Missing
        };
        Err(failed(&refusal.into()))
    }

    fn decode(&self, index: usize) -> Result<Picture, Failure> {
        picture::decode(&self.bytes, self.header).map_err(|error| broken(&self.name, index, &error))
    }

    fn failure(&self, index: usize, code: Code, message: &str) -> Failure {
        Failure {
            code,
            message: format!("{} (frame {index}): {message}", self.name),
            hint: String::new(),
        }
    }
}

/// `view.gif` has an ending; `view` and `take.1/view` have none.
fn has_ending(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.trim_start_matches('.').contains('.')
}

fn broken(name: &str, index: usize, error: &PictureError) -> Failure {
    let hint = match error {
        PictureError::Format(_) | PictureError::Flavour(_) | PictureError::Unknown => {
            "views are PNG, JPEG or WebP pictures in RGB"
        }
        PictureError::TooLarge { .. } => {
            "make the pictures smaller; the camera may keep its w and h"
        }
        _ => "",
    };
    Failure {
        code: error.code(),
        message: format!("{name} (frame {index}): {error}"),
        hint: hint.to_owned(),
    }
}

/// Multiplies alpha by a mask as nerfstudio has it: white counts, black does not.
fn apply_mask(picture: &mut Picture, mask: &Picture) -> Result<(), String> {
    if (mask.width, mask.height) != (picture.width, picture.height) {
        return Err(format!(
            "the mask has {}x{} pixels, its picture {}x{}",
            mask.width, mask.height, picture.width, picture.height
        ));
    }
    for (pixel, mask) in picture.pixels.iter_mut().zip(&mask.pixels) {
        let white = mask[..3]
            .iter()
            .map(|&channel| u32::from(channel))
            .sum::<u32>();
        pixel[3] = ((u32::from(pixel[3]) * white + 382) / 765) as u8;
    }
    picture.has_alpha = picture.pixels.iter().any(|pixel| pixel[3] != 255);
    Ok(())
}
