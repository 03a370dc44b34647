//! SOG of `PlayCanvas`, versions 1 and 2 → splats: `meta.json` with pictures beside it, or all of them in one zip archive.
//! Splat k is texel k of a picture, row by row.
//!
//! ```text
//!   means    two pictures, low and high bytes: shares of the ranges of sign(x) · ln(1 + |x|)
//!   quats    A - 252: which of (w, x, y, z) is the largest; RGB: the others, ±√½
//!   scales   RGB: logarithms, by a table
//!   sh0      RGB: coefficients, by a table; A: opacity
//!   shN      centroids: one texel a coefficient, 64 centroids a row, by a table; labels: R + 256 · G, the centroid of a splat
//! ```
//!
//! Version 2 has its tables (codebooks) in `meta.json`. Those of version 1, which names no version, are even steps between a
//! least and a largest value, and its opacities are logits.
//!
//! Sizes are known before anything is unpacked or decoded: a bomb ends there.

use std::borrow::Cow;

use kiln_splat::{Cloud, Dropped, Splat, coefficients};
use proto::limits::MAX_SPLATS;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::content::{Origin, SplatError, Splats, check_count, share, with_largest};
use super::zip::{self, Archive};
use crate::prepare::picture::{self, Format, Picture};

const META: &str = "meta.json";
/// A thousand numbers need some 20 KiB.
const MAX_META_BYTES: usize = 1 << 20;
/// Texels of a picture: there may be more than splats.
const MAX_TEXELS: u64 = 4 * MAX_SPLATS;
/// A picture that is larger than its texels is none of a lossless format.
const MAX_PICTURE_BYTES: usize = 4 * MAX_TEXELS as usize;
const MAX_NAME_BYTES: usize = 255;
/// Centroids in a row of their picture.
const IN_ROW: usize = 64;
/// As many as labels of 16 bits can tell.
const MAX_CENTROIDS: u64 = 1 << 16;
/// The alpha of a quaternion whose first component is left out.
const FIRST: u8 = 252;
/// Numbers of a codebook.
const LEVELS: usize = 256;

/// Gives the bytes of the file of this name in the same folder.
pub(super) type Beside<'a> = dyn Fn(&str) -> Option<Vec<u8>> + 'a;

/// What tells a `meta.json` of splats.
#[derive(Deserialize)]
struct Head {
    version: Option<u64>,
    means: Option<IgnoredAny>,
    quats: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Meta {
    /// Of version 2.
    count: Option<u64>,
    antialias: Option<bool>,
    means: Means,
    scales: Values,
    quats: Quats,
    sh0: Values,
    #[serde(rename = "shN")]
    harmonics: Option<Harmonics>,
}

#[derive(Deserialize)]
struct Means {
    /// Of version 1: the count, and 3.
    #[serde(default)]
    shape: Vec<u64>,
    mins: [f64; 3],
    maxs: [f64; 3],
    files: [String; 2],
}

/// With a codebook in version 2, with ranges of each channel in version 1.
#[derive(Deserialize)]
struct Values {
    #[serde(default)]
    codebook: Vec<Option<f64>>,
    #[serde(default)]
    mins: Vec<f64>,
    #[serde(default)]
    maxs: Vec<f64>,
    files: [String; 1],
}

#[derive(Deserialize)]
struct Quats {
    /// Of version 1.
    encoding: Option<String>,
    files: [String; 1],
}

#[derive(Deserialize)]
struct Harmonics {
    /// Of version 2, as the degree and the codebook.
    count: Option<u64>,
    bands: Option<u64>,
    #[serde(default)]
    codebook: Vec<Option<f64>>,
    /// Of version 1.
    mins: Option<f64>,
    maxs: Option<f64>,
    files: [String; 2],
}

/// What the 256 values of a channel mean.
type Table = [f64; LEVELS];

struct Tables {
    /// Logarithms.
    scales: [Table; 3],
    constants: [Table; 3],
    /// Shares.
    opacities: Table,
    harmonics: Table,
}

/// Harmonics that splats share.
#[derive(Default)]
struct Palette {
    degree: usize,
    /// The coefficients of each.
    centroids: Vec<[f32; 3]>,
    /// The centroid of each splat; none without harmonics.
    labels: Vec<usize>,
}

/// None where the file is no SOG.
pub(super) fn read(
    bytes: &[u8],
    name: &str,
    beside: &Beside<'_>,
) -> Result<Option<Splats>, SplatError> {
    let name = name.to_ascii_lowercase();
    let named = name.ends_with(".sog");
    let (files, text) = if named || bytes.starts_with(&zip::MARK) {
        let archive = match Archive::new(bytes, META) {
            Ok(archive) if named || archive.has(META) => archive,
            Err(what) if named => return Err(SplatError::Damaged(what)),
            _ => return Ok(None),
        };
        let text = archive.get(META, MAX_META_BYTES).map_err(of_meta)?;
        (Files::Archive(archive), text)
    } else if name.ends_with(META) {
        (Files::Beside(beside), Cow::Borrowed(bytes))
    } else {
        return Ok(None);
    };
    if text.len() > MAX_META_BYTES {
        return Err(of_meta(too_large(text.len(), MAX_META_BYTES)));
    }
    let unread = |error: serde_json::Error| of_meta(format!("cannot be read: {error}"));
    let head: Head = serde_json::from_slice(&text).map_err(unread)?;
    if !named && (head.means.is_none() || head.quats.is_none()) {
        return Ok(None);
    }
    let is_first = match head.version {
        None => true,
        Some(2) => false,
        Some(other) => return Err(SplatError::SogVersion(other)),
    };
    let meta: Meta = serde_json::from_slice(&text).map_err(unread)?;
    meta.splats(&files, is_first).map(Some)
}

impl Meta {
    fn splats(&self, files: &Files<'_>, is_first: bool) -> Result<Splats, SplatError> {
        let stored = match is_first {
            true => self.means.shape.first().copied(),
            false => self.count,
        };
        let count = check_count(stored.ok_or_else(|| of_meta("does not say how many splats"))?)?;
        let tables = match is_first {
            true => self.ranges()?,
            false => self.codebooks()?,
        };
        let mut planes = Planes {
            files,
            count,
            first: None,
        };
        let [low, high] = &self.means.files;
        let (low, high) = (planes.read(low)?, planes.read(high)?);
        let quats = planes.read(&self.quats.files[0])?;
        let scales = planes.read(&self.scales.files[0])?;
        let colours = planes.read(&self.sh0.files[0])?;
        let palette = match &self.harmonics {
            Some(harmonics) => harmonics.read(&mut planes, &tables.harmonics)?,
            None => Palette::default(),
        };
        let each = coefficients(palette.degree);
        let mut cloud = Cloud::new(palette.degree);
        let mut dropped = Dropped::default();
        for index in 0..count {
            let value = |tables: &[Table; 3], texel: [u8; 4]| {
                [0, 1, 2].map(|k| tables[k][usize::from(texel[k])])
            };
            let [x, y, z, largest] = quats[index];
            let splat = Splat {
                position: [0, 1, 2].map(|k| {
                    let share = u16::from_le_bytes([low[index][k], high[index][k]]);
                    self.means.at(k, f64::from(share) / 65535.0) as f32
                }),
                scales: value(&tables.scales, scales[index]).map(|log| log.exp() as f32),
                // Another alpha is none of a quaternion.
                rotation: largest.checked_sub(FIRST).map_or([0.0; 4], |largest| {
                    let others = [x, y, z].map(|byte| f64::from(byte) / 255.0 - 0.5);
                    let others = others.map(|x| x * std::f64::consts::SQRT_2);
                    with_largest(usize::from(largest), others)
                }),
                opacity: tables.opacities[usize::from(colours[index][3])] as f32,
                constant: value(&tables.constants, colours[index]).map(|x| x as f32),
            };
            let label = palette.labels.get(index).copied().unwrap_or(0);
            let harmonics = &palette.centroids[label * each..][..each];
            dropped.meaningless += usize::from(!cloud.push(&splat, harmonics));
        }
        let antialiased = self.antialias == Some(true);
        Ok(Splats {
            cloud,
            dropped,
            origin: Origin::Sog { antialiased },
        })
    }

    /// Of version 2.
    fn codebooks(&self) -> Result<Tables, SplatError> {
        let harmonics = self.harmonics.as_ref();
        Ok(Tables {
            scales: [codebook("scales", &self.scales.codebook)?; 3],
            constants: [codebook("sh0", &self.sh0.codebook)?; 3],
            opacities: steps(0.0, 1.0),
            harmonics: harmonics.map_or(Ok([0.0; LEVELS]), |all| codebook("shN", &all.codebook))?,
        })
    }

    /// Of version 1.
    fn ranges(&self) -> Result<Tables, SplatError> {
        if self.quats.encoding.as_deref() != Some("quaternion_packed") {
            return Err(of_meta("has an encoding of quats that is not read"));
        }
        let of = |values: &Values, what: &str, k: usize| {
            let range = values.mins.get(k).zip(values.maxs.get(k));
            range
                .map(|(least, most)| steps(*least, *most))
                .ok_or_else(|| of_meta(format!("has no range of each channel of {what}")))
        };
        let scales = |k| of(&self.scales, "scales", k);
        let sh0 = |k| of(&self.sh0, "sh0", k);
        let harmonics = match &self.harmonics {
            Some(all) => {
                let range = all.mins.zip(all.maxs);
                let (least, most) = range.ok_or_else(|| of_meta("has no range of shN"))?;
                steps(least, most)
            }
            None => [0.0; LEVELS],
        };
        Ok(Tables {
            scales: [scales(0)?, scales(1)?, scales(2)?],
            constants: [sh0(0)?, sh0(1)?, sh0(2)?],
            opacities: sh0(3)?.map(|logit| f64::from(share(logit))),
            harmonics,
        })
    }
}

impl Means {
    /// The coordinate at a share of its range.
    fn at(&self, k: usize, share: f64) -> f64 {
        let log = self.mins[k] + share * (self.maxs[k] - self.mins[k]);
        log.abs().exp_m1().copysign(log)
    }
}

impl Harmonics {
    fn read(&self, planes: &mut Planes<'_>, table: &Table) -> Result<Palette, SplatError> {
        if self.bands == Some(0) {
            return Ok(Palette::default());
        }
        let [name, labels] = &self.files;
        let (mut degree, mut count) = (0, 0);
        let picture = texels(planes.files, name, |[width, height]| {
            (degree, count) = self.size([width, height])?;
            Ok(())
        })?;
        let centroids = picture.pixels[..count * coefficients(degree)]
            .iter()
            .map(|[r, g, b, _]| [r, g, b].map(|&level| table[usize::from(level)] as f32))
            .collect();
        let labels: Vec<usize> = (planes.read(labels)?.into_iter())
            .map(|[low, high, ..]| usize::from(u16::from_le_bytes([low, high])))
            .collect();
        match labels.iter().find(|&&label| label >= count) {
            Some(&label) => Err(SplatError::Label {
                label,
                last: count - 1,
            }),
            None => Ok(Palette {
                degree,
                centroids,
                labels,
            }),
        }
    }

    /// Degree and count of the centroids in a picture of this size. Version 1 tells the degree by its width.
    fn size(&self, [width, height]: [u32; 2]) -> Result<(usize, usize), String> {
        let degree_of = |width| (1..=3).find(|&degree| IN_ROW * coefficients(degree) == width);
        let (degree, count) = match (self.bands, self.count) {
            (None, None) => (
                degree_of(width as usize).ok_or_else(|| {
                    format!("is {width} pixels wide: 192, 512 and 960 are those of a degree")
                })?,
                (IN_ROW as u64 * u64::from(height)).min(MAX_CENTROIDS),
            ),
            (Some(bands @ 1..=3), Some(count @ 1..=MAX_CENTROIDS)) => (bands as usize, count),
            _ => {
                return Err(format!(
                    "has no meaning: shN has 0 to 3 bands and a count of 1 to {MAX_CENTROIDS}"
                ));
            }
        };
        let (wide, high) = (
            IN_ROW * coefficients(degree),
            (count as usize).div_ceil(IN_ROW),
        );
        match width as usize == wide && height as usize >= high {
            true => Ok((degree, count as usize)),
            false => Err(format!(
                "is {width}x{height} pixels large: {count} centroids of degree {degree} are {wide}x{high}"
            )),
        }
    }
}

/// Pictures of one texel a splat.
struct Planes<'a> {
    files: &'a Files<'a>,
    count: usize,
    /// The size of all.
    first: Option<[u32; 2]>,
}

impl Planes<'_> {
    fn read(&mut self, name: &str) -> Result<Vec<[u8; 4]>, SplatError> {
        let picture = texels(self.files, name, |size| {
            let [width, height] = size;
            let [wide, high] = *self.first.get_or_insert(size);
            if u64::from(width) * u64::from(height) < self.count as u64 {
                let count = self.count;
                return Err(format!(
                    "is {width}x{height} pixels large, too few for {count} splats"
                ));
            }
            match size == [wide, high] {
                true => Ok(()),
                false => Err(format!(
                    "is {width}x{height} pixels large, others are {wide}x{high}"
                )),
            }
        })?;
        let mut texels = picture.pixels;
        texels.truncate(self.count);
        texels.shrink_to_fit();
        Ok(texels)
    }
}

/// Decodes a picture of a size that `check` takes.
fn texels(
    files: &Files<'_>,
    name: &str,
    check: impl FnOnce([u32; 2]) -> Result<(), String>,
) -> Result<Picture, SplatError> {
    let plain = !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.contains(['/', '\\'])
        && !name.contains(char::is_control)
        && name != "..";
    if !plain {
        return Err(of_meta("names a picture that cannot be beside it"));
    }
    let of_it = |reason| of(name, reason);
    let bytes = files.get(name).map_err(of_it)?;
    if bytes.is_empty() {
        return Err(of(name, "is empty"));
    }
    let header = picture::probe(&bytes).map_err(|error| of_it(error.to_string()))?;
    if !is_lossless(&bytes, header.format) {
        return Err(of(name, "is neither a lossless WebP nor a PNG"));
    }
    let (width, height) = (header.width, header.height);
    if header.pixels() as u64 > MAX_TEXELS {
        return Err(of_it(format!(
            "is {width}x{height} pixels large, more than {MAX_TEXELS} in all"
        )));
    }
    check([width, height]).map_err(of_it)?;
    picture::decode(&bytes, header).map_err(|error| of_it(error.to_string()))
}

/// Whether the numbers of the picture are those that were written.
fn is_lossless(bytes: &[u8], format: Format) -> bool {
    match format {
        Format::Png => true,
        Format::WebP => {
            let mut rest = bytes.get(12..).unwrap_or_default();
            while let Some([a, b, c, d, l0, l1, l2, l3]) = rest.first_chunk() {
                match &[*a, *b, *c, *d] {
                    b"VP8L" => return true,
                    b"VP8 " => return false,
                    _ => {}
                }
                let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
                // Chunks are padded to even lengths.
                rest = rest.get(8 + length + length % 2..).unwrap_or_default();
            }
            false
        }
        Format::Jpeg
        | Format::Tiff
        | Format::Bmp
        | Format::Pnm
        | Format::Exr
        | Format::Hdr
        | Format::Ktx2 => false,
    }
}

/// Where the pictures are.
enum Files<'a> {
    Beside(&'a Beside<'a>),
    Archive(Archive<'a>),
}

impl<'a> Files<'a> {
    fn get(&self, name: &str) -> Result<Cow<'a, [u8]>, String> {
        match self {
            Self::Archive(archive) => archive.get(name, MAX_PICTURE_BYTES),
            Self::Beside(beside) => match beside(name).ok_or("is missing")? {
                file if file.len() > MAX_PICTURE_BYTES => {
                    Err(too_large(file.len(), MAX_PICTURE_BYTES))
                }
                file => Ok(Cow::Owned(file)),
            },
        }
    }
}

fn too_large(size: usize, most: usize) -> String {
    format!("is {size} bytes large, more than {most}")
}

fn of(name: &str, reason: impl Into<String>) -> SplatError {
    SplatError::File {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

fn of_meta(reason: impl Into<String>) -> SplatError {
    of(META, reason)
}

/// Even steps.
fn steps(least: f64, most: f64) -> Table {
    std::array::from_fn(|level| least + level as f64 / 255.0 * (most - least))
}

/// Some writers have no number for the first level: it continues the others.
fn codebook(what: &str, levels: &[Option<f64>]) -> Result<Table, SplatError> {
    let levels: &[Option<f64>; LEVELS] = levels.try_into().map_err(|_error| {
        let length = levels.len();
        of_meta(format!(
            "has a codebook of {what} of {length} numbers, not {LEVELS}"
        ))
    })?;
    if levels[1..].contains(&None) {
        return Err(of_meta(format!("has a codebook of {what} with a null")));
    }
    let mut table = levels.map(Option::unwrap_or_default);
    if levels[0].is_none() {
        table[0] = table[1] + (table[1] - table[LEVELS - 1]) / 255.0;
    }
    Ok(table)
}
