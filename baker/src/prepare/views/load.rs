//! Decodes and masks the picture of one frame of `transforms.json`, or of one image of a COLMAP model, and gives it its
//! camera.

use proto::limits::MAX_IMAGE_FILE_BYTES;
use proto::message::{Code, Failure, Refusal};
use proto::programs;
use proto::table::{Camera, Layer};

use super::straighten::{self, Numbers};
use super::upright::{self, Exif};
use super::{borders, names};
use crate::prepare::colmap::is_model;
use crate::prepare::picture::{self, Header, Meaning, Orientation, Picture, PictureError};
use crate::prepare::transforms::{Frame, Lens};
use crate::worker::folder::{Folder, FolderError};
use crate::worker::progress::unit;

/// How to mend a link that leads out of the folder.
const LINK: &str = "files are read only beneath the folder that was given: copy the set with its links followed (cp -rL)";

struct File {
    name: String,
    /// Found under another name than its own, with or without an ending.
    renamed: bool,
    bytes: Vec<u8>,
    header: Header,
    /// How it is turned once it is decoded.
    turn: Orientation,
}

/// A mask of a picture.
struct Mask {
    file: File,
    /// White is left out, not black.
    inverted: bool,
    /// The frame does not name it: it lies beside its picture.
    beside: bool,
}

/// The files of a frame, read but not decoded.
pub(super) struct FrameFiles {
    index: usize,
    picture: File,
    mask: Option<Mask>,
    layers: Vec<(Layer, File)>,
    straightened: bool,
    exif: Exif,
}

/// A frame's pictures as one pinhole camera would have taken them.
pub(super) struct Decoded {
    pub(super) picture: Picture,
    pub(super) camera: Camera,
    /// Of the same size as `picture`.
    pub(super) layers: Vec<(Layer, Picture)>,
    /// Black wedges at its border were made transparent.
    pub(super) wedged: bool,
}

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
        let mut picture = File::read(folder, transforms, &frame.file, index)?;
        let exif = picture.settle(&frame.lens, is_model(transforms));
        let mut mask = match &frame.mask {
            Some(name) => Some(Mask {
                file: File::read(folder, transforms, name, index)?,
                inverted: false,
                beside: false,
            }),
            None => Mask::beside(folder, &picture.name, index, is_model(transforms))?,
        };
        if let Some(mask) = &mut mask {
            mask.file.follow(&picture);
        }
        let layers = frame.layers.pictures.iter().filter(|_| layered);
        let layers = layers.map(|(layer, name)| {
            let mut file = File::read(folder, transforms, name, index)?;
            file.follow(&picture);
            match (file.size(), picture.size()) {
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
            straightened: frame.lens.distortion.is_some() || frame.face.is_some(),
            exif,
        })
    }

    /// Whether a mask is used that the frame does not name.
    pub(super) fn masked_beside(&self) -> bool {
        self.mask.as_ref().is_some_and(|mask| mask.beside)
    }

    /// Whether the picture lies under another name than the frame says.
    pub(super) fn renamed(&self) -> bool {
        self.picture.renamed
    }

    /// What is made of the picture's EXIF orientation.
    pub(super) fn exif(&self) -> Exif {
        self.exif
    }

    /// Width and height as the camera has them.
    pub(super) fn size(&self) -> [u32; 2] {
        self.picture.size()
    }

    /// Bytes of these files and of their decoding, an upper bound.
    pub(super) fn decoding_bytes(&self) -> usize {
        let file = |file: &File| file.bytes.len() + file.header.decoding_bytes();
        let straight = match self.straightened {
            true => straighten::bytes(self.picture.header.pixels()),
            false => 0,
        };
        let layers = self.layers.iter().map(|(_, layer)| file(layer) + straight);
        file(&self.picture)
            + self.mask.as_ref().map_or(0, |mask| file(&mask.file))
            + straight
            + layers.sum::<usize>()
    }

    /// The picture alone, to see whether it has wedges; none where a mask says what counts, or it cannot be decoded.
    pub(super) fn sampled(&self) -> Option<Picture> {
        let unmasked = self.mask.is_none();
        let picture = unmasked.then(|| self.picture.decode(self.index, Meaning::Numbers));
        picture?.ok()
    }

    /// Decodes, masks and undistorts; clears the black wedges at its border where the set has `wedges`. Fails where the lens
    /// described by `transforms` does not suit the picture.
    pub(super) fn decode(
        &self,
        transforms: &str,
        frame: &Frame,
        wedges: bool,
    ) -> Result<Decoded, Failure> {
        let mut picture = self.picture.decode(self.index, Meaning::Colours)?;
        unit();
        if let Some(mask) = &self.mask {
            let file = &mask.file;
            apply_mask(
                &mut picture,
                &file.decode(self.index, Meaning::Mask)?,
                mask.inverted,
            )
            .map_err(|message| file.failure(self.index, Code::InvalidAsset, &message))?;
        }
        unit();
        let wedged = wedges && self.mask.is_none() && borders::clear(&mut picture);
        let mut layers = Vec::new();
        for (layer, file) in &self.layers {
            let meaning = match layer.is_colour() {
                true => Meaning::Colours,
                false => Meaning::Numbers,
            };
            layers.push((*layer, file.decode(self.index, meaning)?));
            unit();
        }
        let (mut camera, _) = frame
            .camera([picture.width, picture.height])
            .map_err(|problem| Failure {
                code: problem.code(),
                message: format!(
                    "{transforms}: frame {}: {}: {problem}",
                    self.index, self.picture.name
                ),
                hint: problem.hint().to_owned(),
            })?;
        if self.straightened {
            let (focal, centre) = (camera.focal, camera.centre);
            let pinhole = |picture: &Picture, numbers| match (frame.face, &frame.lens.distortion) {
                (Some(face), _) => (straighten::face(picture, face, numbers), centre),
                (None, Some(lens)) => straighten::straighten(picture, focal, centre, lens, numbers),
                (None, None) => (picture.clone(), centre),
            };
            for (layer, picture) in &mut layers {
                let numbers = match layer.is_colour() {
                    true => Numbers::Srgb,
                    false => Numbers::Plain,
                };
                (*picture, _) = pinhole(picture, numbers);
            }
            (picture, camera.centre) = pinhole(&picture, Numbers::Srgb);
        }
        Ok(Decoded {
            picture,
            camera,
            layers,
            wedged,
        })
    }
}

impl Mask {
    /// The mask beside the picture `name`, where there is one by a convention that is known.
    fn beside(
        folder: &Folder<'_>,
        name: &str,
        index: usize,
        model: bool,
    ) -> Result<Option<Self>, Failure> {
        for names::Companion {
            name,
            root,
            inverted,
        } in names::masks(name, model)
        {
            let folder = root.map_or(*folder, |root| folder.beside(root));
            let Ok(bytes) = folder.read(&name, MAX_IMAGE_FILE_BYTES) else {
                continue;
            };
            let header = picture::probe(&bytes).map_err(|error| broken(&name, index, &error))?;
            let file = File::new(name, false, bytes, header);
            return Ok(Some(Self {
                file,
                inverted,
                beside: true,
            }));
        }
        Ok(None)
    }
}

impl File {
    fn new(name: String, renamed: bool, bytes: Vec<u8>, header: Header) -> Self {
        Self {
            turn: picture::orientation(&bytes, header),
            name,
            renamed,
            bytes,
            header,
        }
    }

    fn stored(&self) -> [u32; 2] {
        [self.header.width, self.header.height]
    }

    /// Width and height once it is turned.
    fn size(&self) -> [u32; 2] {
        upright::shown(self.stored(), self.turn)
    }

    /// Decides whether the picture of a camera is turned.
    fn settle(&mut self, lens: &Lens, model: bool) -> Exif {
        let exif = upright::judge(self.turn, self.stored(), lens, model);
        if exif != Exif::Applied {
            self.turn = Orientation::NoTransforms;
        }
        exif
    }

    /// Turns a mask or a layer as its picture: by its own orientation, or by the picture's where it alone makes the sizes
    /// equal.
    fn follow(&mut self, picture: &Self) {
        let own = match picture.turn {
            Orientation::NoTransforms => Orientation::NoTransforms,
            _ => self.turn,
        };
        let sideways = self.stored() == picture.stored() && picture.size() != picture.stored();
        self.turn = match own {
            Orientation::NoTransforms if sideways => picture.turn,
            own => own,
        };
    }

    fn read(
        folder: &Folder<'_>,
        transforms: &str,
        name: &str,
        index: usize,
    ) -> Result<Self, Failure> {
        let failed = |error: &FolderError| {
            let shown = if name.is_empty() { "file_path" } else { name };
            let tried = match error {
                FolderError::Refused(Refusal::Missing) if !names::has_ending(name) => {
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
                FolderError::Refused(Refusal::Missing | Refusal::Outside)
                    if programs::of_name(transforms).is_some() =>
                {
                    "names are those that the program gave its pictures (Metashape: its labels), beneath the folder of this file: --images names another; or convert it to transforms.json (ns-process-data)"
                }
                FolderError::Refused(Refusal::Missing) => {
                    "file_path is relative to transforms.json; .png, .jpg, .jpeg and .webp may be left out"
                }
                FolderError::Refused(Refusal::Outside) => {
                    "files are read only beneath the folder of transforms.json, and symbolic links are followed only there: move or copy the pictures beside it"
                }
                FolderError::Refused(Refusal::Link(_)) => LINK,
                _ => "",
            };
            Failure {
                code: error.code_of_named(),
                message: format!("{transforms}: frame {index}: {shown}: {error}{tried}"),
                hint: hint.to_owned(),
            }
        };
        let mut first = None;
        for candidate in names::candidates(transforms, name) {
            let bytes = match folder.read(&candidate, MAX_IMAGE_FILE_BYTES) {
                Ok(bytes) => bytes,
                // A name that was only guessed and is none says nothing.
                Err(
                    error @ FolderError::Refused(
                        Refusal::Missing
                        | Refusal::Outside
                        | Refusal::Unlisted
                        | Refusal::Link(_)
                        | Refusal::NotAFile(_),
                    ),
                ) => {
                    first.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(failed(&error)),
            };
            return match picture::probe(&bytes) {
                Ok(header) => {
                    let renamed = !candidate.contains(name);
                    Ok(Self::new(candidate, renamed, bytes, header))
                }
                Err(error) => Err(broken(&candidate, index, &error)),
            };
        }
        let error = match first {
            // Without an ending it is no picture's name yet.
            Some(FolderError::Refused(Refusal::Unlisted)) if !names::has_ending(name) => {
                Refusal::Missing.into()
            }
            first => first.unwrap_or(Refusal::EmptyName.into()),
        };
        Err(failed(&error))
    }

    fn decode(&self, index: usize, meaning: Meaning) -> Result<Picture, Failure> {
        picture::decode_as(&self.bytes, self.header, (meaning, self.turn))
            .map_err(|error| broken(&self.name, index, &error))
    }

    fn failure(&self, index: usize, code: Code, message: &str) -> Failure {
        Failure {
            code,
            message: format!("{} (frame {index}): {message}", self.name),
            hint: String::new(),
        }
    }
}

fn broken(name: &str, index: usize, error: &PictureError) -> Failure {
    let hint = match error {
        PictureError::Foreign(foreign) if !foreign.hint.is_empty() => foreign.hint,
        PictureError::Format(_)
        | PictureError::Flavour(_)
        | PictureError::Foreign(_)
        | PictureError::Unknown => {
            "views are PNG, JPEG, WebP, TIFF, BMP, PNM, OpenEXR or HDR pictures, grey or RGB: convert the pictures"
        }
        PictureError::Hdr(_) => "export the pictures in SDR: sRGB or Display P3",
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

/// Multiplies alpha by a mask as nerfstudio has it: white counts, black does not; the other way round where `inverted`.
/// A mask of 0 and one other value alone counts as one of 0 and 255. One of transparent pixels in one colour is its alpha;
/// of another with colours, the largest channel counts. A mask of the picture's shape, but not of its size, is enlarged or
/// reduced to the nearest pixel, as `OpenMVS` does.
fn apply_mask(picture: &mut Picture, mask: &Picture, inverted: bool) -> Result<(), String> {
    let [width, height] = [picture.width, picture.height].map(u64::from);
    let [mask_width, mask_height] = [mask.width, mask.height].map(u64::from);
    // Edges are rounded: one may be off by a pixel.
    let off = (width * mask_height).abs_diff(height * mask_width);
    if off > width.max(height).max(mask_width).max(mask_height) {
        return Err(format!(
            "the mask has {mask_width}x{mask_height} pixels, its picture {width}x{height}: another shape"
        ));
    }
    let first = mask.pixels.first().map(|pixel| &pixel[..3]);
    let plain = mask.pixels.iter().all(|pixel| Some(&pixel[..3]) == first);
    let by_alpha = mask.has_alpha && plain;
    let value = |[red, green, blue, alpha]: [u8; 4]| match by_alpha {
        true => alpha,
        false => red.max(green).max(blue),
    };
    let mut used = [false; 256];
    for &pixel in &mask.pixels {
        used[usize::from(value(pixel))] = true;
    }
    let mut others = (1..=255).filter(|&other| used[other]);
    let only = others.next().filter(|_| others.next().is_none());
    for (at, pixel) in (0_u64..).zip(&mut picture.pixels) {
        let column = at % width * mask_width / width;
        let row = at / width * mask_height / height;
        let value = u32::from(value(mask.pixels[(row * mask_width + column) as usize]));
        let white = match only {
            Some(only) if value as usize == only => 255,
            _ => value,
        };
        let white = if inverted { 255 - white } else { white };
        pixel[3] = ((u32::from(pixel[3]) * white + 127) / 255) as u8;
    }
    picture.has_alpha = picture.pixels.iter().any(|pixel| pixel[3] != 255);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(pixels: &[[u8; 4]]) -> Picture {
        Picture {
            width: pixels.len() as u32,
            height: 1,
            pixels: pixels.to_vec(),
            has_alpha: false,
            colours: picture::Colours::default(),
        }
    }

    #[test]
    fn masks_of_every_tool_leave_out_what_they_mean() {
        let grey = |values: [u8; 3]| picture(&values.map(|value| [value, value, value, 255]));
        // Values of the mask, whether white is left out, and what is left of an opaque picture.
        let cases = [
            ([0, 128, 255], false, [0, 128, 255]),
            ([0, 128, 255], true, [255, 127, 0]),
            ([0, 1, 1], false, [0, 255, 255]),
            ([0, 1, 1], true, [255, 0, 0]),
            ([0, 1, 2], false, [0, 1, 2]),
            ([0, 0, 0], false, [0, 0, 0]),
        ];
        for (mask, inverted, alpha) in cases {
            let mut masked = grey([9; 3]);
            apply_mask(&mut masked, &grey(mask), inverted).expect("one size");
            let found: Vec<u8> = masked.pixels.iter().map(|pixel| pixel[3]).collect();
            assert_eq!(found, alpha, "{mask:?} {inverted}");
        }
        let cut = |value: u8, alpha: u8| [value, value, value, alpha];
        // Other masks of three pixels, and of one.
        let cases: [(&[[u8; 4]], [u8; 3]); 4] = [
            (
                &[[200, 0, 0, 255], [0, 0, 0, 255], [200, 0, 0, 255]],
                [255, 0, 255],
            ),
            (&[cut(0, 255), cut(0, 0), cut(0, 128)], [255, 0, 128]),
            (&[cut(255, 255), cut(255, 0), cut(255, 0)], [255, 0, 0]),
            (
                &[
                    cut(0, 255),
                    cut(0, 255),
                    cut(90, 255),
                    cut(90, 255),
                    cut(0, 255),
                    cut(90, 255),
                ],
                [0, 255, 0],
            ),
        ];
        for (pixels, alpha) in cases {
            let mut mask = picture(pixels);
            mask.has_alpha = pixels.iter().any(|pixel| pixel[3] != 255);
            let (mut masked, height) = (grey([9; 3]), pixels.len() / 3);
            mask.height = height as u32;
            mask.width = 3;
            if height == 2 {
                // Twice as wide and as high.
                mask = picture(&[&pixels[..6], &pixels[..6]].concat());
                (mask.width, mask.height) = (6, 2);
            }
            apply_mask(&mut masked, &mask, false).expect("one shape");
            let found: Vec<u8> = masked.pixels.iter().map(|pixel| pixel[3]).collect();
            assert_eq!(found, alpha, "{pixels:?}");
        }
        let mut upright = picture(&[[0; 4]; 3]);
        (upright.width, upright.height) = (1, 3);
        let text = apply_mask(&mut grey([9; 3]), &upright, false).expect_err("another shape");
        assert!(
            text.starts_with("the mask has 1x3 pixels, its picture 3x1"),
            "{text}"
        );
    }
}
