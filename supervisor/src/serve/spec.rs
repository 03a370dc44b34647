//! The JSON of a job → checked options, with defaults filled in, and where its inputs are.
//!
//! ```json
//! {"mesh": {"path": "/data/a/mesh.glb"}, "views": {"path": "/data/a/transforms.json"}, "texture_size": 2048}
//! {"mesh":  {"files": {"mesh.glb": "<sha256>"}, "main": "mesh.glb"},
//!  "views": {"files": {"transforms.json": "<sha256>", "images/0.png": "<sha256>"}, "main": "transforms.json"}}
//! {"arrays": "<sha256>"}
//! ```

mod form;

mod mesh;

mod object;

pub mod whole;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::job::{AlphaMode, Blend, Compress, Device, Quality, Refine, Repair, TextureFormat, Up};
use proto::limits::{MAX_TEXTURE_SIZE, MAX_VIEWS, MIN_TEXTURE_SIZE};
use proto::pages::Pages;
use serde::{Deserialize, Serialize};

use super::problem::Problem;
use crate::ladder::Policy;
use crate::store::Digest;

/// The name under which a safetensors file lies among a job's inputs.
pub const ARRAYS: &str = "arrays.safetensors";
/// A name is shown in lists and logs.
const MAX_NAME: usize = 80;
/// One file of a job, in bytes of its name.
const MAX_FILE_NAME: usize = 255;
/// A year is as good as for ever, and far from where clocks overflow.
const MAX_TIMEOUT_S: f64 = 31_536_000.0;

/// Where a file and those that it names are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, try_from = "object::Keys")]
pub enum Source {
    /// Beneath a folder that the operator allowed.
    Path {
        /// Absolute.
        path: PathBuf,
        /// The folder of the pictures of a model of COLMAP, if not beside it; absolute.
        #[serde(skip_serializing_if = "Option::is_none")]
        images: Option<PathBuf>,
    },
    /// Uploaded.
    Files {
        /// SHA-256 in hex, by the name beneath one folder.
        files: BTreeMap<String, Digest>,
        /// The one that names the others.
        main: String,
    },
}

/// See the head of this file. The fields without comment are the flags of `kiln bake`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the flags of kiln bake, which explains them")]
pub struct JobSpec {
    /// For people.
    pub name: String,
    /// GLB, glTF, PLY, OBJ or safetensors.
    #[serde(deserialize_with = "object::source")]
    pub mesh: Option<Source>,
    /// `transforms.json`, a model's `images.bin` or `images.txt`, or a safetensors file.
    #[serde(deserialize_with = "object::source")]
    pub views: Option<Source>,
    /// A safetensors file with mesh and views, by its SHA-256, in place of both.
    pub arrays: Option<Digest>,
    #[serde(deserialize_with = "whole::number")]
    pub texture_size: u32,
    pub texture_auto: bool,
    #[serde(deserialize_with = "whole::number")]
    pub pages: u32,
    #[serde(deserialize_with = "whole::optional")]
    pub target_faces: Option<u32>,
    pub simplify: Option<f64>,
    pub remove_unseen: bool,
    pub fill_holes: Option<f64>,
    #[serde(deserialize_with = "whole::number")]
    pub hole_edges: u32,
    pub weld: Option<f64>,
    pub orient: bool,
    pub up: Up,
    pub keep_uvs: bool,
    pub texture_format: TextureFormat,
    #[serde(deserialize_with = "whole::optional")]
    pub texture_quality: Option<u32>,
    pub compress: Compress,
    pub vertex_colours: bool,
    pub provenance_attribute: bool,
    pub alpha_mode: AlphaMode,
    pub alpha_cutoff: f64,
    #[serde(deserialize_with = "whole::optional")]
    pub uv_set: Option<u32>,
    pub quality: Quality,
    pub blend: Blend,
    pub refine: Refine,
    pub device: String,
    #[serde(deserialize_with = "whole::number")]
    pub holdout: u32,
    #[serde(deserialize_with = "whole::number")]
    pub seed: u64,
    /// No more than the sidecar's own.
    #[serde(deserialize_with = "whole::optional")]
    pub vram_budget: Option<u64>,
    pub gpu_times: bool,
    pub fallback: Policy,
    pub timeout_s: f64,
    /// Make `preview.png`, too.
    pub preview: bool,
    /// Make `coverage.png`, `residual.png` and `provenance.png`, too.
    pub maps: bool,
}

impl Default for JobSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            mesh: None,
            views: None,
            arrays: None,
            texture_size: 1024,
            texture_auto: false,
            pages: 1,
            target_faces: None,
            simplify: None,
            remove_unseen: false,
            fill_holes: None,
            hole_edges: Repair::HOLE_EDGES,
            weld: None,
            orient: false,
            up: Up::default(),
            keep_uvs: false,
            texture_format: TextureFormat::default(),
            texture_quality: None,
            compress: Compress::default(),
            vertex_colours: false,
            provenance_attribute: false,
            alpha_mode: AlphaMode::default(),
            alpha_cutoff: 0.5,
            uv_set: None,
            quality: Quality::default(),
            blend: Blend::default(),
            refine: Refine::default(),
            device: "auto".to_owned(),
            holdout: 0,
            seed: 0,
            vram_budget: None,
            gpu_times: false,
            fallback: Policy::default(),
            timeout_s: 3600.0,
            preview: false,
            maps: false,
        }
    }
}

impl JobSpec {
    /// Reads and checks a spec; `sources`: whether it must name its inputs itself.
    ///
    /// # Errors
    /// The first key that is wrong, and why.
    pub fn read(text: &[u8], sources: bool) -> Result<Self, Problem> {
        // Of a list, serde would take the values in the order of the fields.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(Problem::field("", "a spec is a JSON object"));
        }
        let mut json = serde_json::Deserializer::from_slice(text);
        let spec: Self = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            let why = crate::words::printable(&error.into_inner().to_string(), 300);
            Problem::field(if path == "." { "" } else { &path }, why)
        })?;
        json.end()
            .map_err(|error| Problem::field("", error.to_string()))?;
        spec.check(sources)?;
        Ok(spec)
    }

    pub(crate) fn check(&self, sources: bool) -> Result<(), Problem> {
        let wrong = |field: &str, why: String| Err(Problem::field(field, why));
        // Characters are what a schema counts.
        if self.name.chars().count() > MAX_NAME
            || self.name != crate::words::printable(&self.name, usize::MAX)
        {
            return wrong(
                "name",
                format!("must be printable, and at most {MAX_NAME} characters"),
            );
        }
        match (&self.mesh, &self.views, &self.arrays) {
            (None, None, None) if !sources => {}
            (Some(mesh), Some(views), None) if sources => {
                mesh.check("mesh")?;
                views.check("views")?;
            }
            (None, None, Some(_)) if sources => {}
            _ if sources => {
                return wrong(
                    "mesh",
                    "name mesh and views, or arrays in place of both".to_owned(),
                );
            }
            _ => {
                return wrong(
                    "mesh",
                    "the inputs are in the body: name none here".to_owned(),
                );
            }
        }
        let size = self.texture_size;
        if !(MIN_TEXTURE_SIZE..=MAX_TEXTURE_SIZE).contains(&size) || !size.is_multiple_of(4) {
            let why =
                format!("must be {MIN_TEXTURE_SIZE} to {MAX_TEXTURE_SIZE} and a multiple of 4");
            return wrong("texture_size", why);
        }
        match Pages::try_from(self.pages) {
            Err(error) => return wrong("pages", error.to_string()),
            Ok(pages) if size > pages.largest() => {
                let (count, most) = (pages.count(), pages.largest());
                let why = format!(
                    "{count} pages have a texture_size of {most} at most: together {MAX_TEXTURE_SIZE}"
                );
                return wrong("pages", why);
            }
            Ok(_) => {}
        }
        self.check_mesh()?;
        self.check_form()?;
        if !(0.0..=1.0).contains(&self.alpha_cutoff) {
            return wrong("alpha_cutoff", "must be 0 to 1".to_owned());
        }
        if self.device.is_empty() || self.device.chars().count() > 256 {
            return wrong(
                "device",
                "must be auto, gpu, cpu, or a part of an adapter's name".to_owned(),
            );
        }
        if self.holdout as usize >= MAX_VIEWS {
            return wrong("holdout", format!("must be below {MAX_VIEWS}"));
        }
        if !(self.timeout_s > 0.0 && self.timeout_s <= MAX_TIMEOUT_S) {
            return wrong(
                "timeout_s",
                format!("must be above 0, and {MAX_TIMEOUT_S} at most"),
            );
        }
        Ok(())
    }

    /// What bakes.
    #[must_use]
    pub fn device(&self) -> Device {
        match self.device.as_str() {
            "auto" => Device::Auto,
            "gpu" => Device::Gpu,
            "cpu" => Device::Cpu,
            name => Device::Name(name.to_owned()),
        }
    }

    /// Textures that the atlas is cut into.
    #[must_use]
    pub fn pages(&self) -> Pages {
        Pages::try_from(self.pages).unwrap_or_default()
    }

    /// For the whole job.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_s)
    }

    /// Uploaded files of the job by name: those of the mesh in `mesh/`, of the views in `views/`.
    #[must_use]
    pub fn uploads(&self) -> BTreeMap<String, Digest> {
        let mut uploads = BTreeMap::new();
        for (folder, source) in [("mesh", &self.mesh), ("views", &self.views)] {
            if let Some(Source::Files { files, .. }) = source {
                let within = files.iter();
                uploads.extend(within.map(|(name, digest)| (format!("{folder}/{name}"), *digest)));
            }
        }
        if let Some(digest) = self.arrays {
            uploads.insert(ARRAYS.to_owned(), digest);
        }
        uploads
    }

    /// Files that it names by path.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let sources = [&self.mesh, &self.views].into_iter().flatten();
        sources.filter_map(|source| match source {
            Source::Path { path, .. } => Some(path.as_path()),
            Source::Files { .. } => None,
        })
    }

    /// Of the files that it names by path, as far as they are there.
    #[must_use]
    pub fn path_bytes(&self) -> u64 {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        self.paths().map(size).sum()
    }

    /// As it is kept and shown: every key, in one order.
    ///
    /// # Panics
    /// Never: every field is JSON.
    #[must_use]
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Of [`Self::canonical`]: two jobs with the same one are the same job.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical())
    }
}

impl Source {
    fn check(&self, field: &str) -> Result<(), Problem> {
        match self {
            Self::Path { path, .. } if !path.is_absolute() => {
                Err(Problem::field(field, "path must be absolute"))
            }
            Self::Path {
                images: Some(_), ..
            } if field == "mesh" => Err(Problem::field(field, "images is for views")),
            Self::Path {
                images: Some(images),
                ..
            } if !images.is_absolute() => Err(Problem::field(field, "images must be absolute")),
            Self::Path { .. } => Ok(()),
            Self::Files { files, main } => {
                if !files.contains_key(main) {
                    let why = format!("main {main:?} is not among the files");
                    return Err(Problem::field(field, why));
                }
                for name in files.keys() {
                    if let Some(why) = bad_name(name) {
                        return Err(Problem::field(field, format!("the name {name:?} {why}")));
                    }
                }
                Ok(())
            }
        }
    }
}

/// The name of an uploaded file in its plain form: `./train/r_0.png` is `train/r_0.png`.
///
/// # Errors
/// What is wrong with it.
pub fn plain_name(name: &str) -> Result<String, &'static str> {
    let parts: Vec<&str> = name.split('/').filter(|part| *part != ".").collect();
    let plain = parts.join("/");
    match bad_name(&plain) {
        Some(why) => Err(why),
        None => Ok(plain),
    }
}

/// What is wrong with the plain name of an uploaded file, if something is.
#[must_use]
pub fn bad_name(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > MAX_FILE_NAME {
        return Some("is empty or longer than 255 bytes");
    }
    if name.chars().any(char::is_control) || name.contains('\\') {
        return Some("has control characters or backslashes");
    }
    // A hidden part would not be opened for prepare either.
    let bad = |part: &str| part.is_empty() || part.starts_with('.');
    name.split('/')
        .any(bad)
        .then_some("is not relative, or has an empty or hidden part")
}

#[cfg(test)]
mod tests {
    use proto::job::Simplify;

    use super::*;

    const PATHS: &str = r#""mesh": {"path": "/a.glb"}, "views": {"path": "/t.json"}"#;

    fn read(more: &str) -> Result<JobSpec, Problem> {
        JobSpec::read(format!("{{{PATHS}{more}}}").as_bytes(), true)
    }

    #[test]
    fn defaults_are_those_of_the_command_line() {
        let spec = read("").expect("enough");
        assert_eq!(spec.texture_size, 1024);
        assert_eq!(
            (spec.device(), spec.simplify()),
            (Device::Auto, Simplify::Keep)
        );
        assert_eq!(spec.repair(), Repair::default());
        assert_eq!(spec.timeout(), Duration::from_secs(3600));
        assert!(spec.uploads().is_empty());
        let again = JobSpec::read(spec.canonical().as_bytes(), true).expect("canonical");
        assert_eq!((again.digest(), &again), (spec.digest(), &spec));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key() {
        for (more, field) in [
            (r#", "texture_size": 1023"#, "texture_size"),
            (r#", "texture_size": "big""#, "texture_size"),
            (r#", "pages": 2"#, "pages"),
            (r#", "pages": 4, "texture_size": 4100"#, "pages"),
            (r#", "simplify": 1.0"#, "simplify"),
            (r#", "simplify": 0.5, "target_faces": 5"#, "simplify"),
            (r#", "target_faces": 0"#, "target_faces"),
            (r#", "fill_holes": 0"#, "fill_holes"),
            (r#", "fill_holes": true"#, "fill_holes"),
            (r#", "fill_holes": 0.04, "keep_uvs": true"#, "fill_holes"),
            (r#", "hole_edges": 2"#, "hole_edges"),
            (r#", "hole_edges": 513"#, "hole_edges"),
            (r#", "weld": 0.02"#, "weld"),
            (r#", "up": "x""#, "up"),
            (r#", "alpha_mode": "clip""#, "alpha_mode"),
            (r#", "alpha_cutoff": 1.5"#, "alpha_cutoff"),
            (r#", "texture_format": "gif""#, "texture_format"),
            (r#", "texture_quality": 90"#, "texture_quality"),
            (
                r#", "texture_format": "jpeg", "texture_quality": 101"#,
                "texture_quality",
            ),
            (
                r#", "texture_format": "ktx2-etc1s", "texture_quality": 0"#,
                "texture_quality",
            ),
            (r#", "compress": "zip""#, "compress"),
            (r#", "vertex_colours": true, "pages": 4"#, "vertex_colours"),
            (
                r#", "vertex_colours": true, "maps": true"#,
                "vertex_colours",
            ),
            (
                r#", "vertex_colours": true, "provenance_attribute": true"#,
                "vertex_colours",
            ),
            (r#", "vram_budget": 0"#, "vram_budget"),
            (r#", "gpu_times": 1"#, "gpu_times"),
            (r#", "quality": "superb""#, "quality"),
            (r#", "qualty": "draft""#, "qualty"),
            (r#", "device": """#, "device"),
            (r#", "holdout": 4096"#, "holdout"),
            (r#", "timeout_s": 0"#, "timeout_s"),
            (r#", "name": "a\nb""#, "name"),
            (r#", "arrays": "abc""#, "arrays"),
        ] {
            let problem = read(more).expect_err(more);
            assert_eq!(
                problem.field.as_deref(),
                Some(field),
                "{more}: {}",
                problem.detail
            );
        }
        for text in ["", "[]", "{} x", "{}", "null", "5"] {
            JobSpec::read(text.as_bytes(), true).expect_err(text);
        }
    }

    #[test]
    fn a_list_of_values_is_no_object() {
        let list = br#"["n", {"path": "/a.glb"}, {"path": "/t.json"}]"#;
        let problem = JobSpec::read(list, true).expect_err("a list");
        assert_eq!(problem.detail, "a spec is a JSON object");
        let files = r#"[{"t.json": "0000000000000000000000000000000000000000000000000000000000000000"}, "t.json"]"#;
        for views in [r#"["/t.json"]"#, files] {
            let text = format!(r#"{{"mesh": {{"path": "/a.glb"}}, "views": {views}}}"#);
            let problem = JobSpec::read(text.as_bytes(), true).expect_err(views);
            assert_eq!(problem.field.as_deref(), Some("views"));
            assert!(
                problem.detail.contains("an object with path"),
                "{}",
                problem.detail
            );
        }
        let none = br#" {"mesh": null, "views": null, "texture_size": 512}"#;
        JobSpec::read(none, false).expect("null is as good as nothing");
    }

    #[test]
    fn a_file_that_is_named_twice_is_refused_by_its_name() {
        let digest = "a".repeat(64);
        for (first, second) in [("t.json", "t.json"), ("t.json", "./t.json")] {
            let text = format!(
                r#"{{"mesh": {{"path": "/a.glb"}}, "views": {{"files": {{"{first}": "{digest}", "{second}": "{digest}"}}, "main": "t.json"}}}}"#
            );
            let problem = JobSpec::read(text.as_bytes(), true).expect_err("twice");
            assert!(
                problem
                    .field
                    .is_some_and(|field| field.starts_with("views"))
            );
            assert!(
                problem
                    .detail
                    .contains("two files have the name \"t.json\""),
                "{}",
                problem.detail
            );
        }
    }

    #[test]
    fn uploads_lie_apart_and_their_names_stay_beneath() {
        let digest = "a".repeat(64);
        let files = |name: &str, main: &str| {
            let text = format!(
                r#"{{"mesh": {{"path": "/a.glb"}}, "views": {{"files": {{"{name}": "{digest}"}}, "main": "{main}"}}}}"#
            );
            JobSpec::read(text.as_bytes(), true)
        };
        let spec = files("a/t.json", "a/t.json").expect("good");
        assert_eq!(
            spec.uploads().into_keys().collect::<Vec<_>>(),
            ["views/a/t.json"]
        );
        for name in [
            "../t.json",
            "/t.json",
            "a//t.json",
            ".t.json",
            "./../t.json",
            "a/../t.json",
            "./",
            "a\\\\b",
            "a\\u0000b",
            "",
        ] {
            files(name, name).expect_err(name);
        }
        files("t.json", "other.json").expect_err("main must be there");
        for name in ["./a/t.json", "a/./t.json", "././a/t.json"] {
            let spec = files(name, "./a/t.json").expect(name);
            let names: Vec<String> = spec.uploads().into_keys().collect();
            assert_eq!(names, ["views/a/t.json"]);
        }
        assert!(JobSpec::read(br#"{"texture_size": 512}"#, false).is_ok());
    }
}
