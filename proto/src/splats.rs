//! How views are made of Gaussian splats: the words of `--splat-views`, `--splat-filter` and `--sh`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_VIEWS;

/// Endings of files that hold splats where views are expected.
const ENDINGS: [&str; 6] = ["ply", "spz", "splat", "sog", "glb", "gltf"];
/// The list of an unpacked SOG.
pub const LIST: &str = "meta.json";
/// Variance of a filter that names none, in px²: that of the reference code of 2023 and of gsplat.
const VARIANCE: f32 = 0.3;
/// Largest variance that is taken, in px².
const MOST_VARIANCE: f32 = 100.0;

/// Whether views of this file name are splats.
pub fn are_in(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let ending = file.rsplit_once('.').map(|(_, ending)| ending);
    file == LIST
        || ending.is_some_and(|ending| {
            ENDINGS
                .iter()
                .any(|known| ending.eq_ignore_ascii_case(known))
        })
}

/// How views are made of splats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplatOptions {
    /// Where the cameras stand.
    pub views: SplatViews,
    /// How they are drawn.
    pub filter: SplatFilter,
    /// Which harmonics count.
    pub harmonics: Harmonics,
}

/// Where the cameras of splats stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SplatViews {
    /// 48 all around the mesh, a pixel as large as a texel.
    #[default]
    Auto,
    /// The same, this many.
    Count(u32),
    /// TRELLIS' own: 100 about the origin, at a distance of 2, of 1024² pixels.
    Trellis,
}

/// How the extent of a pixel is taken into account where splats are drawn: as they were trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SplatFilter {
    /// What the file says, or what its layout is known for.
    #[default]
    Auto,
    /// This variance, in px² of a picture of 512 pixels, is added to that of each splat.
    Classic(f32),
    /// The same, and the opacity falls as the splat grows (Yu et al., "Mip-Splatting", 2024).
    Mip(f32),
}

/// Which spherical harmonics count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Harmonics {
    /// All: each view has the colours that it sees.
    #[default]
    View,
    /// The constant ones: colours without highlights.
    #[serde(rename = "0")]
    #[cfg_attr(feature = "options", value(name = "0"))]
    Constant,
}

/// A word that is none of `--splat-views`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto, trellis, or a number of views from 1 to {MAX_VIEWS}")]
pub struct ViewsError;

/// A word that is none of `--splat-filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be auto, classic or mip, the latter two perhaps with a variance in px² of {MOST_VARIANCE} at most: mip:0.1"
)]
pub struct FilterError;

impl FromStr for SplatViews {
    type Err = ViewsError;

    fn from_str(text: &str) -> Result<Self, ViewsError> {
        match text {
            "auto" => Ok(Self::Auto),
            "trellis" => Ok(Self::Trellis),
            _ => match text.parse() {
                Ok(count) if (1..=MAX_VIEWS).contains(&(count as usize)) => Ok(Self::Count(count)),
                _ => Err(ViewsError),
            },
        }
    }
}

impl fmt::Display for SplatViews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Trellis => f.write_str("trellis"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

impl FromStr for SplatFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let (name, variance) = match text.split_once(':') {
            None => (text, Some(VARIANCE)),
            Some((name, variance)) => (name, variance.parse().ok()),
        };
        let variance = variance.filter(|variance| (0.0..=MOST_VARIANCE).contains(variance));
        match (name, variance) {
            ("auto", _) if text == "auto" => Ok(Self::Auto),
            ("classic", Some(variance)) => Ok(Self::Classic(variance)),
            ("mip", Some(variance)) => Ok(Self::Mip(variance)),
            _ => Err(FilterError),
        }
    }
}

impl fmt::Display for SplatFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Classic(variance) => write!(f, "classic:{variance}"),
            Self::Mip(variance) => write!(f, "mip:{variance}"),
        }
    }
}

impl TryFrom<String> for SplatViews {
    type Error = ViewsError;

    fn try_from(text: String) -> Result<Self, ViewsError> {
        text.parse()
    }
}

impl From<SplatViews> for String {
    fn from(views: SplatViews) -> Self {
        views.to_string()
    }
}

impl TryFrom<String> for SplatFilter {
    type Error = FilterError;

    fn try_from(text: String) -> Result<Self, FilterError> {
        text.parse()
    }
}

impl From<SplatFilter> for String {
    fn from(filter: SplatFilter) -> Self {
        filter.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        for (text, filter) in [
            ("auto", Some(SplatFilter::Auto)),
            ("classic", Some(SplatFilter::Classic(0.3))),
            ("mip:0.1", Some(SplatFilter::Mip(0.1))),
            ("classic:0", Some(SplatFilter::Classic(0.0))),
            ("auto:1", None),
            ("mip:-1", None),
            ("mip:NaN", None),
            ("mip:inf", None),
            ("mip:", None),
            ("gauss", None),
        ] {
            assert_eq!(text.parse().ok(), filter, "{text}");
            if let Some(filter) = filter {
                assert_eq!(filter.to_string().parse(), Ok(filter), "{text}");
            }
        }
        for (text, views) in [
            ("auto", Some(SplatViews::Auto)),
            ("trellis", Some(SplatViews::Trellis)),
            ("40", Some(SplatViews::Count(40))),
            ("0", None),
            ("-3", None),
            ("100000000", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), views, "{text}");
            if let Some(views) = views {
                assert_eq!(views.to_string().parse(), Ok(views), "{text}");
            }
        }
    }

    #[test]
    fn splats_are_told_by_their_name() {
        for name in [
            "a.ply",
            "b/c.PLY",
            "a.compressed.ply",
            "x.spz",
            "x.splat",
            "x.sog",
            "x.glb",
            "x.glTF",
            "s/meta.json",
        ] {
            assert!(are_in(name), "{name}");
        }
        for name in [
            "transforms.json",
            "images.bin",
            "a.safetensors",
            "ply",
            "x/ply.json",
            "ameta.json",
        ] {
            assert!(!are_in(name), "{name}");
        }
    }
}
