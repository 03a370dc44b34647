//! The options of a job, each defined once: a field here is a flag of `kiln bake` and `kiln submit`, a key of a list of
//! jobs, of a spec over HTTP and of a crash folder, and a property of `/openapi.json`. Its doc comment is the help text
//! and the description in the schema; its default is that of the flag.
//!
//! ```json
//! {"mesh": {"path": "/data/a/mesh.glb"}, "views": {"path": "/data/a/transforms.json"}, "texture_size": 2048}
//! {"mesh":  {"files": {"mesh.glb": "<sha256>"}, "main": "mesh.glb"},
//!  "views": {"files": {"transforms.json": "<sha256>", "images/0.png": "<sha256>"}, "main": "transforms.json"}}
//! {"arrays": "<sha256>"}
//! ```
//!
//! JSON may come from anybody. No field names a program, a sandbox or a place that is written to, and unknown keys are
//! refused.
//!
//! A new option is a field, its rule in `options/check.rs` if it has a range, and its use.

mod check;

mod schema;

mod source;

#[cfg(test)]
mod tests;

pub mod whole;

use std::sync::LazyLock;
use std::time::Duration;

use clap::{Args, Parser};
use proto::job::{
    AlphaMode, Blend, Compress, Detail, Device, Form, Frame, Product, Quality, Refine, Repair,
    Simplify, TextureFormat, Up,
};
use proto::limits::{MAX_HOLE_EDGES, MAX_HOLE_SIZE, MAX_TRIANGLES, MAX_VIEWS, MAX_WELD};
use proto::pages::Pages;
use proto::splats::{self, Harmonics, SplatFilter, SplatOptions, SplatViews};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::ladder::Policy;
use crate::store::Digest;

pub use check::Wrong;
pub(crate) use check::{LEAST_MEMORY, MOST_SECONDS, PSNR, TEXTURE_SIZE, bytes, flag, seconds};
pub use schema::{SHA256, schemas};
pub use source::{ARRAYS, Source, bad_name, plain_name};

/// See the head of this file. JSON has the keys in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Spec", transform = schema::finish)]
pub struct JobOptions {
    /// For people, in lists.
    #[arg(skip)]
    #[schemars(extend("maxLength" = check::MAX_NAME, "pattern" = schema::PRINTABLE))]
    pub name: String,
    /// GLB, glTF, PLY, OBJ or safetensors; or Gaussian splats, whose surface is the mesh if no views are named.
    #[arg(skip)]
    #[serde(deserialize_with = "source::object")]
    #[schemars(schema_with = "schema::source_or_null")]
    pub mesh: Option<Source>,
    /// A `transforms.json`, a model of COLMAP by its `images.bin` or `images.txt`, another program's cameras (`.sfm`,
    /// `.mlp`, `.out`, `.xml`, `cameras.json`), a safetensors file, or Gaussian splats
    /// (PLY, SPZ, SOG, `.splat`, glTF with `KHR_gaussian_splatting`).
    #[arg(skip)]
    #[serde(deserialize_with = "source::object")]
    #[schemars(schema_with = "schema::source_or_null")]
    pub views: Option<Source>,
    /// What the mesh was simplified from: what `detail` bakes is its shape. A mesh file, in the same place, size and axes.
    #[arg(skip)]
    #[serde(deserialize_with = "source::object")]
    #[schemars(schema_with = "schema::source_or_null")]
    pub original: Option<Source>,
    /// SHA-256 of a safetensors file with mesh and views, in place of both.
    #[arg(skip)]
    #[schemars(with = "Option<String>", extend("pattern" = schema::SHA256))]
    pub arrays: Option<Digest>,

    /// Edge of the texture in texels, or of each of its pages; with `texture_auto` the most that is chosen.
    #[arg(skip = 1024_u32)]
    #[serde(deserialize_with = "whole::number")]
    #[schemars(extend("minimum" = 256, "maximum" = 8192, "multipleOf" = 4))]
    pub texture_size: u32,
    /// Choose the edge at which half of the seen surface has no more texels than pixels in the view that shows it largest,
    /// `texture_size` at most. The report's `prepare.texture` says what was chosen and why.
    #[arg(skip)]
    pub texture_auto: bool,
    /// Textures in place of one: 1, 4, 9 or 16.
    ///
    /// Each has `--texture-size`²; side by side they have 8192 texels at most (4 pages of 4096², 9 of 2728², 16 of
    /// 2048²). A GLB has a material for each; an OBJ has UDIM tiles, 1001, 1002, 1011 and on, named so. With
    /// `--keep-uvs` the mesh's coordinates lie in these tiles.
    #[arg(hide_short_help = true, long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = flag(check::PAGES), help_heading = "Result")]
    #[serde(deserialize_with = "whole::number")]
    #[schemars(extend("enum" = [1, 4, 9, 16]))]
    pub pages: u32,
    /// Simplify the mesh to so many triangles.
    ///
    /// It then has as many at most. The surface of splats alone has 30,000 unless told otherwise.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = flag(check::TARGET_FACES), conflicts_with = "simplify", help_heading = "Result")]
    #[serde(deserialize_with = "whole::optional")]
    #[schemars(extend("minimum" = 1, "maximum" = MAX_TRIANGLES))]
    pub target_faces: Option<u32>,
    /// Share of the triangles to remove, 0 to 1.
    ///
    /// 0.95 keeps one in twenty. Not together with `--target-faces`.
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = flag(check::SIMPLIFY), help_heading = "Result")]
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1))]
    pub simplify: Option<f64>,

    /// Remove what no view from outside can see.
    ///
    /// Inner shells, and the walls of cavities, cut off where that takes the shortest cut. What the job's own views
    /// show stays.
    #[arg(hide_short_help = true, long, help_heading = "Mesh")]
    pub remove_unseen: bool,
    /// Fill holes up to this area.
    ///
    /// A share of the square of the mesh's longest side (TRELLIS has 0.04, the flag's value without one). It bounds
    /// the openings that `--remove-unseen` leaves, too, which is 0.04 otherwise. Not together with `--keep-uvs`.
    #[arg(hide_short_help = true, long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "0.04", value_parser = flag(check::FILL_HOLES), conflicts_with = "keep_uvs", help_heading = "Mesh")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = f64::from(MAX_HOLE_SIZE)))]
    pub fill_holes: Option<f64>,
    /// Leave holes of more edges than this.
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = Repair::HOLE_EDGES, allow_negative_numbers = true, value_parser = flag(check::HOLE_EDGES), help_heading = "Mesh")]
    #[serde(deserialize_with = "whole::number")]
    #[schemars(extend("minimum" = 3, "maximum" = MAX_HOLE_EDGES))]
    pub hole_edges: u32,
    /// Weld borders that are nearer than this.
    ///
    /// Puts points of open borders together that are nearer than this: a share of the mesh's diagonal, such as
    /// 0.00001, the flag's value without one.
    #[arg(hide_short_help = true, long, value_name = "DISTANCE", num_args = 0..=1, require_equals = true, default_missing_value = "0.00001", value_parser = flag(check::WELD), help_heading = "Mesh")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = check::decimal(MAX_WELD)))]
    pub weld: Option<f64>,
    /// Wind the triangles of each part one way.
    ///
    /// Their front is where it is seen from.
    #[arg(hide_short_help = true, long, help_heading = "Mesh")]
    pub orient: bool,
    /// The axis that points up.
    ///
    /// Of the mesh and its views: with `z` or `-y`, both are turned, and the result has y up as glTF wants. Models of
    /// COLMAP, and splats trained on them, mostly have `-y`.
    #[arg(
        value_name = "AXIS",
        long,
        default_value_t,
        value_enum,
        allow_hyphen_values = true,
        help_heading = "Mesh"
    )]
    pub up: Up,
    /// Where the mesh stands among the cameras.
    ///
    /// `auto` compares silhouettes and takes another convention of axes, units or matrices where it clearly fits,
    /// says so, and refuses a mesh that lies nowhere. `given` takes both as they are.
    #[arg(
        hide_short_help = true,
        value_name = "HOW",
        long,
        default_value_t,
        value_enum,
        help_heading = "Mesh"
    )]
    pub frame: Frame,

    /// Keep the texture coordinates of the mesh.
    ///
    /// It is then not unwrapped anew.
    #[arg(long, help_heading = "Result")]
    pub keep_uvs: bool,
    /// The texture's picture.
    ///
    /// `png` and `webp` are lossless, `jpeg` is small, `webp-lossy` is smaller where the texture is smooth.
    /// `ktx2-etc1s` and `ktx2-uastc` (Basis Universal, a GLB only) stay compressed on the device, with mips in the
    /// file: ETC1S is smallest, UASTC close to lossless; what is no colour is UASTC in both. Not every viewer reads
    /// WebP (`EXT_texture_webp`); Blender 5.0, assimp and trimesh do not read KTX2 (`KHR_texture_basisu`).
    #[arg(
        value_name = "FORM",
        long,
        default_value_t,
        value_enum,
        help_heading = "Result"
    )]
    pub texture_format: TextureFormat,
    /// Quality of JPEG, lossy WebP, ETC1S: 1 to 100.
    ///
    /// By default 90, 90 and 75.
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = flag(check::TEXTURE_QUALITY), help_heading = "Result")]
    #[serde(deserialize_with = "whole::optional")]
    #[schemars(extend("minimum" = 1, "maximum" = 100))]
    pub texture_quality: Option<u32>,
    /// How a GLB stores its mesh.
    ///
    /// `meshopt` quantises and compresses it (`KHR_mesh_quantization`, `EXT_meshopt_compression`), which Blender 5.0,
    /// assimp and trimesh do not read.
    #[arg(
        value_name = "HOW",
        hide_short_help = true,
        long,
        default_value_t,
        value_enum,
        help_heading = "Result"
    )]
    pub compress: Compress,
    /// Colour the vertices, and make no texture.
    ///
    /// For tools that take no texture: each vertex gets a colour, and vertices that an unwrap splits are joined. It is
    /// `COLOR_0` of a GLB; red, green and blue of a PLY (`MeshLab`, point tools); behind the positions of an OBJ. The
    /// processor does it, whatever --device says.
    #[arg(
        long,
        visible_alias = "vertex-colors",
        conflicts_with = "provenance_attribute",
        help_heading = "Result"
    )]
    #[serde(alias = "vertex_colors")]
    pub vertex_colours: bool,
    /// Tell for each vertex how well it was seen.
    ///
    /// Gives the vertices of a GLB the attribute `_PROVENANCE` (scalar, normalised byte): the share, 0 to 1, of what
    /// lies around each that the views have shown; weakly observed texels count half, inferred ones not.
    #[arg(hide_short_help = true, long, help_heading = "Result")]
    pub provenance_attribute: bool,
    /// Bring back the shape that simplification takes.
    ///
    /// In textures of a GLB: `normal` is a normal map of the surface before it, `occlusion` how much ambient light arrives
    /// there; of the mesh that Kiln simplifies, or of `--original`. Where views show these channels themselves, they win.
    #[arg(
        value_name = "WHAT",
        long,
        default_value_t,
        value_enum,
        conflicts_with = "vertex_colours",
        help_heading = "Result"
    )]
    pub detail: Detail,
    /// How viewers take opacity.
    ///
    /// Of opacity that views bring as a channel (see `channels` in transforms.json): `auto` goes by what it holds.
    #[arg(
        hide_short_help = true,
        long,
        default_value_t,
        value_enum,
        value_name = "MODE",
        help_heading = "Result"
    )]
    pub alpha_mode: AlphaMode,
    /// What is less opaque than this is not there.
    ///
    /// With `--alpha-mode mask`.
    #[arg(hide_short_help = true, long, value_name = "A", default_value_t = 0.5, allow_negative_numbers = true, value_parser = flag(check::ALPHA_CUTOFF), help_heading = "Result")]
    #[schemars(extend("minimum" = 0, "maximum" = 1))]
    pub alpha_cutoff: f64,
    /// The texture coordinates that are kept.
    ///
    /// With `--keep-uvs`: take the set `TEXCOORD_N` of a glTF; by default the one that each material's base colour
    /// uses.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "N",
        requires = "keep_uvs",
        help_heading = "Result"
    )]
    #[serde(deserialize_with = "whole::optional")]
    #[schemars(extend("maximum" = u32::MAX))]
    pub uv_set: Option<u32>,

    /// Work put into the fit.
    #[arg(
        value_name = "WORK",
        long,
        default_value_t,
        value_enum,
        help_heading = "Fit"
    )]
    pub quality: Quality,
    /// How the views blend colours within a pixel.
    ///
    /// `linear` for renders and photographs, `srgb` for Gaussian splats. By default `srgb` where the views are
    /// splats, else `linear`.
    #[arg(
        value_name = "SPACE",
        hide_short_help = true,
        long,
        value_enum,
        help_heading = "Fit"
    )]
    pub blend: Option<Blend>,
    /// Correct cameras and exposures.
    ///
    /// Moves cameras to where the mesh's silhouette fits the views' alpha, and evens out exposures: `auto` only where
    /// they are clearly off, `on` wherever it helps at all. The report says what was moved, and what was not and why.
    #[arg(
        hide_short_help = true,
        value_name = "WHEN",
        long,
        default_value_t,
        value_enum,
        help_heading = "Fit"
    )]
    pub refine: Refine,
    /// What bakes.
    ///
    /// `auto` takes a GPU if there is one, `gpu` insists on one, `cpu` needs no driver; or a part of an adapter's
    /// name as `kiln doctor` shows it.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = flag(check::DEVICE), help_heading = "Fit")]
    #[schemars(extend("minLength" = 1, "maxLength" = check::MAX_DEVICE))]
    pub device: String,
    /// Keep N views out of the fit to measure with.
    ///
    /// The report says how well the texture explains them. Views that the transforms.json names in `test_filenames`
    /// or `val_filenames` are kept out anyway.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = flag(check::HOLDOUT), help_heading = "Fit")]
    #[serde(deserialize_with = "whole::number")]
    #[schemars(extend("maximum" = MAX_VIEWS - 1))]
    pub holdout: u32,
    /// Chooses the held-out views.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "N",
        allow_negative_numbers = true,
        default_value_t = 0,
        help_heading = "Fit"
    )]
    #[serde(deserialize_with = "whole::number")]
    #[schemars(extend("maximum" = u64::MAX))]
    pub seed: u64,

    /// Views that are drawn of splats.
    ///
    /// `auto` 48 from all around the mesh, a pixel as large as a texel; so many; or `trellis`, the 100 of its own
    /// `render_multiview`.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "auto|N|trellis",
        default_value_t,
        help_heading = "Splats"
    )]
    #[schemars(with = "String", extend("pattern" = schema::SPLAT_VIEWS))]
    pub splat_views: SplatViews,
    /// The filter that the splats were trained with.
    ///
    /// `classic` (INRIA, gsplat), `mip` (Mip-Splatting; `mip:0.1` is TRELLIS). A number behind a colon is its
    /// variance in px² of a picture of 512 pixels, 0.3 otherwise. `auto` goes by the file, and the report says what
    /// was taken and why.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "auto|classic|mip[:V]",
        default_value_t,
        help_heading = "Splats"
    )]
    #[schemars(with = "String", extend("pattern" = schema::SPLAT_FILTER))]
    pub splat_filter: SplatFilter,
    /// Spherical harmonics of splats.
    ///
    /// `view` draws what each view sees, `0` the colours without highlights.
    #[arg(
        hide_short_help = true,
        long,
        default_value_t,
        value_enum,
        value_name = "view|0",
        help_heading = "Splats"
    )]
    pub sh: Harmonics,

    /// Plan with at most this much GPU memory.
    ///
    /// Such as 1G or 512M, where G is 2^30 bytes. What does not fit is fitted in parts of the texture, one after the
    /// other, which takes longer and gives a result nearly as good. By default what is fastest, as far as the device
    /// has it. A sidecar's own --vram-budget counts where it is less.
    #[arg(hide_short_help = true, long, value_name = "BYTES", value_parser = bytes, help_heading = "Run")]
    #[serde(deserialize_with = "whole::optional")]
    #[schemars(extend("minimum" = LEAST_MEMORY, "maximum" = u64::MAX))]
    pub vram_budget: Option<u64>,
    /// Measure every GPU stage.
    ///
    /// By the device's own clock, into the report's `bake.gpu_times`. Slows the bake a little.
    #[arg(hide_short_help = true, long, help_heading = "Run")]
    pub gpu_times: bool,
    /// What a repeated bake may do differently.
    ///
    /// When it has failed. Each step allows those before it, and the report says which were taken.
    #[arg(
        value_name = "STEPS",
        hide_short_help = true,
        long,
        default_value_t,
        value_enum,
        help_heading = "Run"
    )]
    pub fallback: Policy,
    /// Give up after this many seconds.
    #[arg(long = "timeout", value_name = "SECONDS", default_value = "3600", allow_negative_numbers = true, value_parser = flag(check::SECONDS), help_heading = "Run")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MOST_SECONDS))]
    pub timeout_s: f64,

    /// Make `preview.png`, too: a contact sheet to judge the result by.
    #[arg(skip)]
    pub preview: bool,
    /// Make `report.html`, too: one page, for any browser and without a network, with views beside their renders, errors,
    /// atlas, warnings and times.
    #[arg(skip)]
    pub html: bool,
    /// Make `coverage.png`, `residual.png` and `provenance.png`, too: indexed pictures in the texture's layout that say how
    /// many pixels see each texel, how far the views are from the result there, and whether the texel is observed (green), weak
    /// (yellow: less than one pixel in all views) or inferred (pink). The indices are codes, and each picture explains its own
    /// in a text named Description. A result without a texture has none.
    #[arg(skip)]
    pub maps: bool,

    /// Fail below this PSNR, in dB.
    ///
    /// That of the held-out views counts where there are any, else that of the views of the fit. The job fails as soon as it
    /// is known, with exit code 65, and puts nothing in place. Vertex colours without held-out views have none, and are refused.
    #[arg(long, value_name = "DB", allow_negative_numbers = true, value_parser = flag(check::PSNR), help_heading = "Fit")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 100))]
    pub min_psnr: Option<f64>,
}

/// Nothing but options, none of which is given.
#[derive(Parser)]
struct Plain {
    #[command(flatten)]
    options: JobOptions,
}

impl Default for JobOptions {
    /// What a command line says that gives no flag.
    fn default() -> Self {
        static PLAIN: LazyLock<JobOptions> = LazyLock::new(|| Plain::parse_from(["kiln"]).options);
        PLAIN.clone()
    }
}

impl JobOptions {
    /// What bakes.
    pub fn device(&self) -> Device {
        match self.device.as_str() {
            "auto" => Device::Auto,
            "gpu" => Device::Gpu,
            "cpu" => Device::Cpu,
            name => Device::Name(name.to_owned()),
        }
    }

    /// How views of this file name blend colours.
    pub fn blend(&self, views: &str) -> Blend {
        Self::blended(self.blend, views)
    }

    /// How views of this file name blend colours, where it may be given.
    pub fn blended(given: Option<Blend>, views: &str) -> Blend {
        given.unwrap_or(match splats::are_in(views) {
            true => Blend::Srgb,
            false => Blend::Linear,
        })
    }

    /// Whether cameras of views of this file name are corrected. Those of splats are Kiln's own: they are exact.
    pub fn refine(&self, views: &str) -> Refine {
        match (self.refine, splats::are_in(views)) {
            (Refine::Auto, true) => Refine::Off,
            (refine, _) => refine,
        }
    }

    /// How views are made of splats.
    pub const fn splats(&self) -> SplatOptions {
        SplatOptions {
            views: self.splat_views,
            filter: self.splat_filter,
            harmonics: self.sh,
        }
    }

    /// Textures that the atlas is cut into.
    pub fn pages(&self) -> Pages {
        Pages::try_from(self.pages).unwrap_or_default()
    }

    /// What is made.
    pub fn product(&self) -> Product {
        match self.vertex_colours {
            true => Product::VertexColours,
            false => Product::Texture,
        }
    }

    /// For the whole job.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_s)
    }

    /// What is to be simplified.
    pub fn simplify(&self) -> Simplify {
        match (self.target_faces, self.simplify) {
            (Some(count), _) => Simplify::TargetFaces(count),
            (None, Some(share)) if share > 0.0 => Simplify::RemoveShare(below_one(share)),
            (None, _) => Simplify::Keep,
        }
    }

    /// What is to be mended of the mesh.
    pub fn repair(&self) -> Repair {
        Repair {
            weld: self.weld.map(single),
            orient: self.orient,
            remove_unseen: self.remove_unseen,
            fill_holes: self.fill_holes.map(single),
            hole_edges: self.hole_edges,
            up: self.up,
        }
    }

    /// The form of the result: a GLB.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a share is rounded, and a quality has 100 at most"
    )]
    pub fn form(&self) -> Form {
        let quality = self.texture_quality.unwrap_or(match self.texture_format {
            // 0.8 dB below the best that it can, in half the time.
            TextureFormat::Ktx2Etc1s => 75,
            // A JPEG is hardly to be told from the original.
            _ => 90,
        });
        Form {
            texture: self.texture_format,
            quality: quality as u8,
            compress: self.compress,
            provenance: self.provenance_attribute,
            pages: self.pages(),
            alpha: self.alpha_mode,
            alpha_cutoff: self.alpha_cutoff as f32,
            ..Form::default()
        }
    }
}

/// The nearest `f32`, which of a number above 0 is above 0 too.
#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn single(value: f64) -> f32 {
    (value as f32).max(f32::MIN_POSITIVE)
}

/// The nearest `f32` that is less than 1, as `share` is.
#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn below_one(share: f64) -> f32 {
    (share as f32).min(1.0_f32.next_down())
}
