//! Decodes `OpenEXR` and Radiance HDR, which hold light as floating point numbers, to RGBA.
//!
//! Colours become sRGB: from the file's chromaticities (BT.709 where it has none), 1 being white. What is brighter is clipped,
//! and reported ([`Colours::Clipped`]), since it is a matter of exposure and tone mapping that only the user can decide.
//! `OpenEXR` multiplies colours by alpha; this is undone. The picture is the display window; what the data window leaves out of
//! it is transparent.
//!
//! Of an `OpenEXR` with several parts the first with channels R, G and B, or Y, counts. Multi-layer files of Blender, whose
//! channels have longer names, and deep pictures are refused by name.

use std::io::Cursor;

use exr::meta::MetaData;
use exr::meta::header::Header as Part;
use exr::prelude::{ReadChannels, ReadLayers, ReadSpecificChannel, Vec2, read as reader};
use image::ImageDecoder;
use image::codecs::hdr::HdrDecoder;

use super::colour::{self, Samples, Way};
use super::error::PictureError;
use super::pixels::buffer;
use super::probe::check_size;
use super::webp;
use super::{Colours, Header, Meaning};

/// Most channels of a part: all of a block are decompressed at once.
const MOST_CHANNELS: usize = 256;

/// Width and height of an `OpenEXR`'s display window.
pub(super) fn exr_size(bytes: &[u8]) -> Result<[u32; 2], PictureError> {
    let part = part(bytes)?;
    let size = |size: Vec2<usize>| {
        let edge = |edge: usize| u32::try_from(edge).unwrap_or(u32::MAX);
        [edge(size.x()), edge(size.y())]
    };
    let ([width, height], [w, h]) = (
        size(part.layer_size),
        size(part.shared_attributes.display_window.size),
    );
    check_size(width, height)?;
    Ok([w, h])
}

/// Width and height of a Radiance HDR.
pub(super) fn hdr_size(bytes: &[u8]) -> Result<[u32; 2], PictureError> {
    Ok(hdr(bytes)?.dimensions().into())
}

/// The decoder of a Radiance HDR. It is strict about headers, but knows one of the format's two signatures.
fn hdr(bytes: &[u8]) -> Result<HdrDecoder<Cursor<&[u8]>>, PictureError> {
    let decoder = match bytes.starts_with(b"#?RGBE") {
        true => HdrDecoder::new_nonstrict(Cursor::new(bytes)),
        false => HdrDecoder::new(Cursor::new(bytes)),
    };
    decoder.map_err(webp::damaged)
}

/// Samples of 16 bits, linear, and whether one was above 1.
struct Light {
    bytes: Vec<u8>,
    clipped: bool,
}

impl Light {
    /// Nothing, with room for all pixels.
    fn new(header: Header) -> Result<Self, PictureError> {
        Ok(Self {
            bytes: buffer(header, 8)?,
            clipped: false,
        })
    }

    /// Sets a pixel of straight colours.
    fn set(&mut self, at: usize, rgba: [f32; 4]) {
        self.clipped |= rgba[..3].iter().any(|&x| x > 1.0 + 0.5 / 255.0);
        let place = self.bytes.get_mut(8 * at..8 * at + 8);
        for (place, value) in place.unwrap_or_default().chunks_exact_mut(2).zip(rgba) {
            // NaN becomes 0.
            let sample = (value.clamp(0.0, 1.0) * 65535.0).round() as u16;
            place.copy_from_slice(&sample.to_be_bytes());
        }
    }

    fn pixels(self, way: Way, meaning: Meaning) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
        let samples = Samples {
            bytes: self.bytes,
            channels: 4,
            wide: true,
        };
        let (pixels, colours) = samples.pixels(way, meaning)?;
        let clipped = self.clipped && meaning == Meaning::Colours;
        Ok((pixels, if clipped { Colours::Clipped } else { colours }))
    }
}

pub(super) fn decode_exr(
    bytes: &[u8],
    header: Header,
    meaning: Meaning,
) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
    let part = part(bytes)?;
    let window = part.shared_attributes.display_window;
    let offset = part.own_attributes.layer_position - window.position;
    let create = move |_: Vec2<usize>| Light::new(header).ok();
    let set = move |light: &mut Option<Light>, at: Vec2<usize>, rgba: [f32; 4]| {
        let place = |at: usize, offset: i32, edge: u32| {
            let place = u32::try_from(at as i64 + i64::from(offset)).ok()?;
            (place < edge).then_some(place as usize)
        };
        let x = place(at.x(), offset.x(), header.width);
        let y = place(at.y(), offset.y(), header.height);
        if let (Some(light), Some(x), Some(y)) = (light, x, y) {
            let [r, g, b, a] = rgba;
            let straight = if a > 0.0 && a < 1.0 {
                [r / a, g / a, b / a, a]
            } else {
                rgba
            };
            light.set(y * header.width as usize + x, straight);
        }
    };
    let levels = || reader().no_deep_data().largest_resolution_level();
    let read = match has(&part, "R") {
        true => {
            let pixel = move |light: &mut _, at, (r, g, b, a): (f32, f32, f32, f32)| {
                set(light, at, [r, g, b, a]);
            };
            let channels = levels().rgba_channels(move |size, _| create(size), pixel);
            let image = channels.first_valid_layer().all_attributes().non_parallel();
            image
                .from_buffered(Cursor::new(bytes))
                .map(|image| image.layer_data.channel_data.pixels)
        }
        false => {
            let pixel = move |light: &mut _, at, (y, a): (f32, f32)| set(light, at, [y, y, y, a]);
            let channels = levels()
                .specific_channels()
                .required("Y")
                .optional("A", 1.0_f32);
            let channels = channels.collect_pixels(move |size, _| create(size), pixel);
            let image = channels.first_valid_layer().all_attributes().non_parallel();
            image
                .from_buffered(Cursor::new(bytes))
                .map(|image| image.layer_data.channel_data.pixels)
        }
    };
    let light = read.map_err(damaged)?;
    let light = light.ok_or(PictureError::Memory)?;
    let way = match meaning {
        Meaning::Colours => {
            let primaries = part.shared_attributes.chromaticities;
            let pair = |at: Vec2<f32>| [at.x(), at.y()];
            colour::of_light(
                primaries.map(|all| [all.white, all.red, all.green, all.blue].map(pair)),
            )
        }
        Meaning::Numbers | Meaning::Mask => Way::Same,
    };
    light.pixels(way, meaning)
}

pub(super) fn decode_hdr(
    bytes: &[u8],
    header: Header,
    meaning: Meaning,
) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
    let decoder = hdr(bytes)?;
    let mut numbers = buffer(header, 12)?;
    if decoder.total_bytes() != numbers.len() as u64 {
        return Err(PictureError::Damaged(
            "header and decoder disagree about the size".to_owned(),
        ));
    }
    decoder.read_image(&mut numbers).map_err(webp::damaged)?;
    let mut light = Light::new(header)?;
    for (at, pixel) in numbers.as_chunks::<12>().0.iter().enumerate() {
        let [r, g, b] = [0, 4, 8]
            .map(|k| f32::from_ne_bytes([pixel[k], pixel[k + 1], pixel[k + 2], pixel[k + 3]]));
        light.set(at, [r, g, b, 1.0]);
    }
    let way = match meaning {
        Meaning::Colours => colour::of_light(None),
        Meaning::Numbers | Meaning::Mask => Way::Same,
    };
    light.pixels(way, meaning)
}

/// The part that is read.
fn part(bytes: &[u8]) -> Result<Part, PictureError> {
    let meta = MetaData::read_from_buffered(Cursor::new(bytes), false).map_err(damaged)?;
    let deep = meta.headers.iter().all(|part| part.deep);
    let mut parts = meta.headers.into_iter();
    let rgb = |part: &Part| ["R", "G", "B"].iter().all(|name| has(part, name));
    let found = parts.find(|part| !part.deep && (rgb(part) || (has(part, "Y") && !has(part, "R"))));
    let found = found.ok_or(PictureError::Flavour(match deep {
        true => "a deep OpenEXR",
        false => "an OpenEXR without channels R, G and B, or Y (as a multi-layer one of Blender)",
    }))?;
    match found.channels.list.len() <= MOST_CHANNELS {
        true => Ok(found),
        false => Err(PictureError::Flavour(
            "an OpenEXR of more than 256 channels",
        )),
    }
}

fn has(part: &Part, channel: &str) -> bool {
    part.channels.list.iter().any(|own| own.name.eq(channel))
}

fn damaged(error: exr::error::Error) -> PictureError {
    match error {
        exr::error::Error::NotSupported(_) => {
            PictureError::Flavour("an OpenEXR of an unusual compression or layout")
        }
        exr::error::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            PictureError::Truncated
        }
        other => PictureError::Damaged(format!("OpenEXR, {other}")),
    }
}
