//! The range of each option, for flags and JSON alike, and what of a spec does not go together.

use std::str::FromStr;
use std::time::Duration;

use proto::job::Detail;
use proto::limits::{
    MAX_HOLE_EDGES, MAX_HOLE_SIZE, MAX_TEXTURE_SIZE, MAX_TRIANGLES, MAX_VIEWS, MAX_WELD,
    MIN_TEXTURE_SIZE,
};
use proto::pages::{Pages, PagesError};
use proto::splats;

use super::{JobOptions, Source, bad_name, single};
use crate::store::Digest;
use crate::words::printable;

/// A name is shown in lists and logs.
pub(super) const MAX_NAME: usize = 80;
/// Names of adapters are short; proto bounds a packet, not this text.
pub(super) const MAX_DEVICE: usize = 256;
/// A worker that does nothing needs as much.
pub(crate) const LEAST_MEMORY: u64 = 16 << 20;
/// 2^63: more than any machine has, and far from where an `f64` leaves the range of `u64`.
const MOST_BYTES: f64 = 9_223_372_036_854_775_808.0;
/// A year is as good as for ever, and far from where clocks overflow.
pub(crate) const MOST_SECONDS: f64 = 31_536_000.0;

/// Whether a value is good, and what is said of one that is not.
pub(crate) type Rule<T> = (fn(&T) -> bool, fn() -> String);

pub(crate) const TEXTURE_SIZE: Rule<u32> = (
    |size| (MIN_TEXTURE_SIZE..=MAX_TEXTURE_SIZE).contains(size) && size.is_multiple_of(4),
    || format!("must be {MIN_TEXTURE_SIZE} to {MAX_TEXTURE_SIZE} and a multiple of 4"),
);
pub(super) const PAGES: Rule<u32> = (
    |count| Pages::try_from(*count).is_ok(),
    || PagesError.to_string(),
);
pub(super) const TARGET_FACES: Rule<u32> = (
    |count| (1..=MAX_TRIANGLES).contains(&(*count as usize)),
    || format!("must be a whole number from 1 to {MAX_TRIANGLES}"),
);
pub(super) const SIMPLIFY: Rule<f64> = (
    |share| (0.0..1.0).contains(share),
    || "must be the share of triangles to remove: at least 0, less than 1".to_owned(),
);
pub(super) const FILL_HOLES: Rule<f64> = (
    |size| *size > 0.0 && single(*size) <= MAX_HOLE_SIZE,
    || format!("must be above 0, and {MAX_HOLE_SIZE} at most"),
);
pub(super) const HOLE_EDGES: Rule<u32> = (
    |count| (3..=MAX_HOLE_EDGES).contains(count),
    || format!("must be from 3 to {MAX_HOLE_EDGES}"),
);
pub(super) const WELD: Rule<f64> = (
    |share| *share > 0.0 && single(*share) <= MAX_WELD,
    || format!("must be above 0, and {MAX_WELD} at most"),
);
pub(super) const TEXTURE_QUALITY: Rule<u32> = (
    |quality| (1..=100).contains(quality),
    || "must be from 1 to 100".to_owned(),
);
pub(super) const ALPHA_CUTOFF: Rule<f64> = (
    |cutoff| (0.0..=1.0).contains(cutoff),
    || "must be a share of opacity: 0 to 1".to_owned(),
);
/// Characters are what a schema counts.
pub(super) const DEVICE: Rule<String> = (
    |name| !name.is_empty() && name.chars().count() <= MAX_DEVICE,
    || "must be auto, gpu, cpu, or a part of an adapter's name".to_owned(),
);
pub(super) const HOLDOUT: Rule<u32> = (
    |count| (*count as usize) < MAX_VIEWS,
    || format!("must be a whole number below {MAX_VIEWS}"),
);
pub(crate) const PSNR: Rule<f64> = (
    |psnr| *psnr > 0.0 && *psnr <= 100.0,
    || "must be a PSNR in dB: above 0, and 100 at most".to_owned(),
);
pub(super) const MEMORY: Rule<u64> = (
    |bytes| *bytes >= LEAST_MEMORY,
    || "must be at least 16M: a worker that does nothing needs as much".to_owned(),
);
pub(super) const SECONDS: Rule<f64> = (
    |seconds| *seconds > 0.0 && *seconds <= MOST_SECONDS,
    || format!("must be a number of seconds above 0, and {MOST_SECONDS} (a year) at most"),
);

/// The parser of a flag's value.
pub(crate) fn flag<T: FromStr + 'static>(
    (good, why): Rule<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| text.parse().ok().filter(good).ok_or_else(why)
}

/// A time as a flag gives it.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    flag(SECONDS)(text).map(Duration::from_secs_f64)
}

/// Bytes of memory as a flag gives them: 512M, 3g, 1.5GiB. Every unit is a power of 1024, with or without `B` or `iB` behind
/// it, since that is how memory is counted.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| match number.trim_end().split_once('.') {
        None => number
            .trim_end()
            .parse::<u64>()
            .ok()?
            .checked_mul(1 << shift),
        Some((_, parts)) if parts.is_empty() || shift == 0 => None,
        Some(_) => whole(
            number.trim_end().parse::<f64>().ok()? * f64::from(1_u32 << (shift - 10)) * 1024.0,
        ),
    });
    let bytes =
        bytes.ok_or("must be a number of bytes, or of K, M, G or T, such as 512M or 1.5G")?;
    (MEMORY.0(&bytes).then_some(bytes)).ok_or_else(MEMORY.1)
}

/// The nearest whole number of bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
fn whole(bytes: f64) -> Option<u64> {
    (0.0..MOST_BYTES)
        .contains(&bytes)
        .then_some(bytes.round() as u64)
}

/// A bound as people write it: 0.01, not the nearest `f32` as an `f64`.
pub(super) fn decimal(bound: f32) -> f64 {
    bound.to_string().parse().unwrap_or(f64::from(bound))
}

/// A key of a spec whose value is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct Wrong {
    /// The key; empty for the spec as a whole.
    pub key: String,
    /// What is wrong with it.
    pub why: String,
}

impl Wrong {
    pub(super) fn new(key: &str, why: impl Into<String>) -> Self {
        let (key, why) = (key.to_owned(), why.into());
        Self { key, why }
    }
}

impl JobOptions {
    /// Reads and checks a spec; `sources`: whether it must name its inputs itself.
    ///
    /// # Errors
    /// The first key that is wrong, and why.
    pub fn read(text: &[u8], sources: bool) -> Result<Self, Wrong> {
        // Of a list, serde would take the values in the order of the fields.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(Wrong::new("", "a spec is a JSON object"));
        }
        let mut json = serde_json::Deserializer::from_slice(text);
        let options: Self = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            let why = printable(&error.into_inner().to_string(), 300);
            Wrong::new(if path == "." { "" } else { &path }, why)
        })?;
        json.end()
            .map_err(|error| Wrong::new("", error.to_string()))?;
        options.check(sources)?;
        Ok(options)
    }

    /// As it is kept and shown: every key, in one order.
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Of [`Self::canonical`]: two jobs with the same one are the same job.
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical())
    }

    /// Checks every value by itself and beside the others; see [`Self::read`].
    ///
    /// # Errors
    /// The first key that is wrong, and why.
    pub fn check(&self, sources: bool) -> Result<(), Wrong> {
        fn within<T>(key: &str, value: Option<&T>, (good, why): Rule<T>) -> Result<(), Wrong> {
            match value.is_none_or(good) {
                true => Ok(()),
                false => Err(Wrong::new(key, why())),
            }
        }
        if self.name.chars().count() > MAX_NAME || self.name != printable(&self.name, usize::MAX) {
            let why = format!("must be printable, and at most {MAX_NAME} characters");
            return Err(Wrong::new("name", why));
        }
        self.check_sources(sources)?;
        within("texture_size", Some(&self.texture_size), TEXTURE_SIZE)?;
        within("pages", Some(&self.pages), PAGES)?;
        within("target_faces", self.target_faces.as_ref(), TARGET_FACES)?;
        within("simplify", self.simplify.as_ref(), SIMPLIFY)?;
        within("fill_holes", self.fill_holes.as_ref(), FILL_HOLES)?;
        within("hole_edges", Some(&self.hole_edges), HOLE_EDGES)?;
        within("weld", self.weld.as_ref(), WELD)?;
        let quality = self.texture_quality.as_ref();
        within("texture_quality", quality, TEXTURE_QUALITY)?;
        within("alpha_cutoff", Some(&self.alpha_cutoff), ALPHA_CUTOFF)?;
        within("device", Some(&self.device), DEVICE)?;
        within("holdout", Some(&self.holdout), HOLDOUT)?;
        within("vram_budget", self.vram_budget.as_ref(), MEMORY)?;
        within("timeout_s", Some(&self.timeout_s), SECONDS)?;
        within("min_psnr", self.min_psnr.as_ref(), PSNR)?;
        self.check_together()
    }

    fn check_sources(&self, wanted: bool) -> Result<(), Wrong> {
        match &self.original {
            Some(original) if wanted => original.check("original")?,
            Some(_) => {
                let why = "the inputs are in the body: name none here";
                return Err(Wrong::new("original", why));
            }
            None => {}
        }
        match (&self.mesh, &self.views, &self.arrays) {
            (None, None, None) if !wanted => Ok(()),
            (None, None, Some(_)) if wanted => Ok(()),
            (Some(mesh), Some(views), None) if wanted => {
                mesh.check("mesh")?;
                views.check("views")
            }
            (Some(mesh), None, None) if wanted && splats::are_in(mesh.main()) => mesh.check("mesh"),
            _ => Err(Wrong::new(
                "mesh",
                match wanted {
                    true => {
                        "name mesh and views, splats alone as the mesh, or arrays in place of both"
                    }
                    false => "the inputs are in the body: name none here",
                },
            )),
        }
    }

    fn check_together(&self) -> Result<(), Wrong> {
        let (count, most) = (self.pages, self.pages().largest());
        if self.texture_size > most {
            let why = format!(
                "{count} pages have a texture_size of {most} at most: together {MAX_TEXTURE_SIZE}"
            );
            return Err(Wrong::new("pages", why));
        }
        let lossless = !self.texture_format.has_quality();
        let bare = self.vertex_colours;
        let wrong = [
            (
                self.target_faces.is_some() && self.simplify.is_some(),
                "simplify",
                "not together with target_faces",
            ),
            (
                self.uv_set.is_some() && !self.keep_uvs,
                "uv_set",
                "is for keep_uvs: which of the mesh's sets is kept",
            ),
            (
                self.fill_holes.is_some() && self.keep_uvs,
                "fill_holes",
                "not together with keep_uvs: what is filled has no texture coordinates",
            ),
            (
                self.texture_quality.is_some() && lossless,
                "texture_quality",
                "is for texture_format jpeg, webp-lossy and ktx2-etc1s",
            ),
            (
                bare && self.maps,
                "vertex_colours",
                "not together with maps: they have no texture",
            ),
            (
                bare && self.provenance_attribute,
                "vertex_colours",
                "not together with provenance_attribute",
            ),
            (
                bare && self.detail != Detail::Off,
                "vertex_colours",
                "not together with detail: they have no texture",
            ),
            (
                self.original.is_some() && self.detail == Detail::Off,
                "original",
                "does nothing without detail",
            ),
            (
                bare && self.pages != 1,
                "vertex_colours",
                "not together with pages: they have no texture",
            ),
        ];
        match wrong.into_iter().find(|(wrong, ..)| *wrong) {
            Some((_, key, why)) => Err(Wrong::new(key, why)),
            None => Ok(()),
        }
    }
}

impl Source {
    /// The name of the file that names the others.
    fn main(&self) -> &str {
        match self {
            Self::Path { path, .. } => path.to_str().unwrap_or_default(),
            Self::Files { main, .. } => main,
        }
    }

    fn check(&self, key: &str) -> Result<(), Wrong> {
        let wrong = |why: &str| Err(Wrong::new(key, why));
        match self {
            Self::Path { path, images } => match images {
                _ if !path.is_absolute() => wrong("path must be absolute"),
                Some(_) if key != "views" => wrong("images is for views"),
                Some(images) if !images.is_absolute() => wrong("images must be absolute"),
                _ => Ok(()),
            },
            Self::Files { files, main } => {
                if !files.contains_key(main) {
                    return wrong(&format!("main {main:?} is not among the files"));
                }
                let bad = files.keys().find_map(|name| Some((name, bad_name(name)?)));
                bad.map_or(Ok(()), |(name, why)| {
                    wrong(&format!("the name {name:?} {why}"))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_read_with_any_usual_unit() {
        let gib = 1 << 30;
        for (text, wanted) in [
            ("3G", 3 * gib),
            ("3g", 3 * gib),
            ("3GB", 3 * gib),
            ("3GiB", 3 * gib),
            ("3 gb", 3 * gib),
            ("1.5G", 3 * gib / 2),
            ("0.5t", 512 * gib),
            ("512m", gib / 2),
            ("32768K", gib / 32),
            ("16777216", 16 << 20),
            ("16777216B", 16 << 20),
        ] {
            assert_eq!(bytes(text), Ok(wanted), "{text}");
        }
        for text in [
            "",
            "G",
            "-1G",
            "3X",
            "3GG",
            "1e9",
            "nan",
            "inf",
            "1.5",
            "1.G",
            ".5.5G",
            "99999999T",
        ] {
            let why = bytes(text).expect_err(text);
            assert!(why.contains("such as 512M"), "{text}: {why}");
        }
        assert!(
            bytes("1K")
                .expect_err("too little")
                .contains("at least 16M")
        );
    }
}
