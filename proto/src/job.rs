//! A job's options: the vocabulary that the command line, the packets and the report share.

use std::ops::Neg;

use serde::{Deserialize, Serialize};

use crate::labels::{Label, Labels};
use crate::list::list;
use crate::pages::Pages;
use crate::splats::SplatOptions;
use crate::table::{Layer, LayerSet};

/// How much work the fit does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// Seconds on two cores.
    Draft,
    /// The default.
    #[default]
    Standard,
    /// More samples and iterations.
    Best,
}

/// The colour space in which a pixel's footprint is averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Blend {
    /// In linear light: for renders of meshes, and photographs.
    #[default]
    Linear,
    /// In encoded colours: for sources that blend them, such as Gaussian splats.
    Srgb,
}

/// Which adapter bakes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// A GPU if there is one, otherwise the processor; the report says which.
    #[default]
    Auto,
    /// A GPU, or the job fails.
    Gpu,
    /// The processor, without any graphics driver.
    Cpu,
    /// The adapter whose name contains this text, ignoring case; software adapters count.
    Name(String),
}

/// How much memory a bake may plan with. A job that ran out of memory is retried with less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// As much as is fastest.
    #[default]
    Full,
    /// A quarter of the memory for rows, and for views that wait: slower, but as good.
    Small,
}

impl Memory {
    /// Bytes of views that a bake may hold before it knows all of them. If there are more, it takes the first ones in
    /// earlier.
    pub fn held_view_bytes(self) -> u64 {
        match self {
            Self::Full => 512 << 20,
            Self::Small => 128 << 20,
        }
    }
}

/// What a bake makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Product {
    /// [`crate::table::Texture`].
    #[default]
    Texture,
    /// [`crate::table::Colours`]: one colour per vertex, the ladder's last rung.
    VertexColours,
}

/// The kind of file of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Container {
    /// glTF in one file, including the texture.
    #[default]
    Glb,
    /// Binary PLY, with the texture beside it.
    Ply,
    /// Wavefront OBJ, with its material and the texture beside it.
    Obj,
}

/// The image format of the texture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TextureFormat {
    /// Lossless; every viewer reads it.
    #[default]
    Png,
    /// Small and lossy; every viewer reads it.
    Jpeg,
    /// Lossless (`EXT_texture_webp`).
    Webp,
    /// Half the size of a JPEG where the texture is smooth (`EXT_texture_webp`). For colours: data textures are `webp`.
    #[serde(rename = "webp-lossy")]
    WebpLossy,
    /// Basis Universal ETC1S, transcoded to the device's own format (`KHR_texture_basisu`): small. For colours: data
    /// textures are `ktx2-uastc`.
    #[serde(rename = "ktx2-etc1s")]
    #[cfg_attr(feature = "options", value(name = "ktx2-etc1s"))]
    Ktx2Etc1s,
    /// Basis Universal UASTC, 8 bits a texel before Zstandard: close to lossless.
    #[serde(rename = "ktx2-uastc")]
    #[cfg_attr(feature = "options", value(name = "ktx2-uastc"))]
    Ktx2Uastc,
}

impl TextureFormat {
    /// File name extension.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Webp | Self::WebpLossy => "webp",
            Self::Ktx2Etc1s | Self::Ktx2Uastc => "ktx2",
        }
    }

    /// Whether it has a quality setting of 1 to 100.
    pub fn has_quality(self) -> bool {
        matches!(self, Self::Jpeg | Self::WebpLossy | Self::Ktx2Etc1s)
    }

    /// Whether only a GLB can hold it: readers of PLY and OBJ do not know the format.
    pub fn needs_gltf(self) -> bool {
        matches!(self, Self::Ktx2Etc1s | Self::Ktx2Uastc)
    }

    /// MIME type, as in glTF.
    pub fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp | Self::WebpLossy => "image/webp",
            Self::Ktx2Etc1s | Self::Ktx2Uastc => "image/ktx2",
        }
    }
}

/// How the mesh of a GLB is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Compress {
    /// Plain floats.
    #[default]
    None,
    /// Quantised and compressed: `KHR_mesh_quantization`, `EXT_meshopt_compression`.
    Meshopt,
}

/// How a renderer uses the opacity of the views, in glTF's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AlphaMode {
    /// Chosen by the opacity: opaque if every texel is nearly so, a mask if more are clear than between, else blended.
    #[default]
    Auto,
    /// Opacity is ignored.
    Opaque,
    /// Texels below the cutoff are not drawn.
    Mask,
    /// Opacity is a share.
    Blend,
}

/// The form of the result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Form {
    /// Kind of file.
    pub container: Container,
    /// Format of the texture.
    pub texture: TextureFormat,
    /// Quality of a JPEG, lossy WebP or ETC1S: 1 to 100.
    pub quality: u8,
    /// How the mesh of a GLB is stored.
    pub compress: Compress,
    /// Whether the vertices of a GLB carry `_PROVENANCE`.
    pub provenance: bool,
    /// Pages that the atlas is cut into.
    pub pages: Pages,
    /// The result's file name without extension, from which the files beside it are named. Empty for a GLB.
    pub stem: String,
    /// Alpha mode of a GLB whose views have opacity.
    pub alpha: AlphaMode,
    /// Cutoff of [`AlphaMode::Mask`]: 0 to 1.
    pub alpha_cutoff: f32,
    /// [`crate::message::PrepareSummary::offset`]: a GLB's node carries it, PLY and OBJ add it to their coordinates.
    pub offset: [f64; 3],
    /// [`crate::message::PrepareSummary::labels`].
    pub labels: Labels,
}

impl Form {
    /// File name of a page's texture beside a PLY or OBJ; several pages are named as UDIM tiles.
    pub fn picture(&self, page: u32) -> String {
        let (stem, ending) = (&self.stem, self.texture.ending());
        match self.pages {
            Pages::ONE => format!("{stem}_texture.{ending}"),
            pages => format!("{stem}_texture.{}.{ending}", pages.udim(page)),
        }
    }

    /// File name of the material beside an OBJ.
    pub fn material(&self) -> String {
        format!("{}.mtl", self.stem)
    }
}

/// Whether cameras and exposures may be corrected to fit the mesh's silhouette and the other views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Refine {
    /// They stay as given.
    Off,
    /// Corrected where the views clearly show that they are wrong.
    #[default]
    Auto,
    /// Corrected wherever that explains the views better, however little.
    On,
}

/// How many triangles to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Simplify {
    /// All of them.
    #[default]
    Keep,
    /// At most this many triangles.
    TargetFaces(u32),
    /// *Removes* this share of the triangles, as TRELLIS defines it: 0.95 keeps 5 %.
    RemoveShare(f32),
}

/// The axis that points up in the mesh and its views. In the result it is y, as in glTF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Up {
    /// Nothing is rotated.
    #[default]
    Y,
    /// Mesh and cameras are rotated: (x, y, z) becomes (x, z, -y).
    Z,
    /// The same: (x, y, z) becomes (x, -y, -z). The worlds of COLMAP, and of splats trained on them, mostly have y down.
    #[serde(rename = "-y")]
    #[cfg_attr(feature = "options", value(name = "-y"))]
    Down,
}

impl Up {
    /// A direction or a point of the files, as it is in the result.
    pub fn turned<T: Copy + Neg<Output = T>>(self, [x, y, z]: [T; 3]) -> [T; 3] {
        match self {
            Self::Y => [x, y, z],
            Self::Z => [x, z, -y],
            Self::Down => [x, -y, -z],
        }
    }

    /// One of the result, as it is in the files.
    pub fn back<T: Copy + Neg<Output = T>>(self, [x, y, z]: [T; 3]) -> [T; 3] {
        match self {
            Self::Z => [x, -z, y],
            Self::Y | Self::Down => self.turned([x, y, z]),
        }
    }
}

/// What the mesh's place among the cameras is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Frame {
    /// The files, unless silhouettes show that another convention is meant.
    #[default]
    Auto,
    /// The files alone.
    Given,
}

/// Repairs of the mesh before it is simplified; none by default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repair {
    /// Merges border points that are nearer than this share of the bounding box's diagonal.
    pub weld: Option<f32>,
    /// Makes the winding of each connected part consistent, facing outwards.
    pub orient: bool,
    /// Removes what no view from outside sees.
    pub remove_unseen: bool,
    /// Fills holes up to this area, as a share of the square of the bounding box's longest side, as TRELLIS defines it
    /// for its unit cube. It also bounds the openings that [`Self::remove_unseen`] leaves.
    pub fill_holes: Option<f32>,
    /// Holes with more edges are not filled.
    pub hole_edges: u32,
    /// The axis that points up.
    pub up: Up,
}

impl Repair {
    /// TRELLIS' `fill_holes_max_size`.
    pub const HOLE_SIZE: f32 = 0.04;
    /// TRELLIS' `fill_holes_max_hole_nbe` for a mesh that is not simplified.
    pub const HOLE_EDGES: u32 = 250;
    /// About a hundred times what rounding to 32 bits moves a point.
    pub const WELD: f32 = 1e-5;
}

impl Default for Repair {
    fn default() -> Self {
        Self {
            weld: None,
            orient: false,
            remove_unseen: false,
            fill_holes: None,
            hole_edges: Self::HOLE_EDGES,
            up: Up::Y,
        }
    }
}

/// The job of the prepare role: turns files into flat tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrepareJob {
    /// Name of the mesh file beneath [`crate::message::Root::Mesh`].
    pub mesh_file: String,
    /// Name of the file of the surface that the mesh was simplified from, beneath [`crate::message::Root::Original`], where it
    /// is given.
    pub original_file: Option<String>,
    /// Name of `transforms.json` beneath [`crate::message::Root::Views`].
    pub views_file: String,
    /// Edge of the atlas with all its pages, in texels: padding and packing depend on it.
    pub texture_size: u32,
    /// Pages that the atlas is cut into: no chart crosses their borders.
    pub pages: Pages,
    /// Choose a smaller edge if the views resolve no more, and report it: [`crate::message::FromChild::Chosen`].
    pub texture_auto: bool,
    /// The mesh is the surface of the splats that the views file holds; there is no other.
    pub surface: bool,
    /// How views are made of splats, where the views file holds them.
    pub splats: SplatOptions,
    /// Whether the silhouettes of views and mesh are compared.
    pub frame: Frame,
    /// Repairs, before anything else.
    pub repair: Repair,
    /// Triangles to keep.
    pub simplify: Simplify,
    /// Use the mesh's own texture coordinates.
    pub keep_uvs: bool,
    /// The set of texture coordinates to use; `None` for the one that each material's base colour uses.
    pub uv_set: Option<u32>,
    /// Number of views kept out of the fit for measurement.
    pub holdout: u32,
    /// Seed that chooses the held-out views.
    pub seed: u64,
    /// How much work the unwrap does.
    pub quality: Quality,
    /// Wall-clock budget of the unwrap, after which the fallback makes the atlas.
    pub unwrap_deadline_ms: u64,
    /// Also read the views' channels; otherwise warn that they are left out.
    pub layers: bool,
    /// Also draw the mesh's outline over some views: [`crate::message::Table::Preview`].
    pub overview: bool,
}

/// What the bake role can do before it has data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WarmJob {
    /// Adapter.
    pub device: Device,
    /// Names of adapters that failed and must not be used.
    #[serde(deserialize_with = "list")]
    pub avoid: Vec<String>,
    /// Index among adapters that would do equally well, modulo their number.
    pub nth: u32,
    /// How much work the fit does: it selects the pipelines.
    pub quality: Quality,
    /// Colour space of the footprint's average: it selects the pipelines.
    pub blend: Blend,
}

/// Which layers are made of the surface before simplification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "options", derive(clap::ValueEnum, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// None.
    #[default]
    Off,
    /// A normal map.
    Normal,
    /// How much ambient light arrives.
    Occlusion,
    /// Both.
    #[serde(rename = "normal,occlusion")]
    #[cfg_attr(feature = "options", value(name = "normal,occlusion"))]
    Both,
}

impl Detail {
    /// The layers.
    pub fn layers(self) -> LayerSet {
        let layers: &[Layer] = match self {
            Self::Off => &[],
            Self::Normal => &[Layer::Normal],
            Self::Occlusion => &[Layer::Occlusion],
            Self::Both => &[Layer::Normal, Layer::Occlusion],
        };
        layers.iter().copied().collect()
    }
}

/// The job of the bake role, after its [`WarmJob`]: turns flat tables into a texture. Fds: the surface that the views
/// show, and the splats that they are to be drawn of, if they come without pixels. The mesh with its atlas follows ([`crate::message::ToChild::Mesh`]), perhaps after some of the views.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BakeJob {
    /// What to make.
    pub product: Product,
    /// How much memory to plan with.
    pub memory: Memory,
    /// Edge of the atlas in texels, if it is known before the mesh comes.
    pub texture_size: Option<u32>,
    /// Also make [`crate::table::maps::Maps`], if the product is a texture.
    pub maps: bool,
    /// Layers to make of the surface before simplification, if the product is a texture.
    pub detail: Detail,
    /// Whether to correct cameras and exposures first.
    pub refine: Refine,
    /// Device memory to plan with, in bytes; `None` for what is fastest.
    pub vram_budget: Option<u64>,
    /// Measure every GPU stage with the device's clock.
    pub gpu_times: bool,
    /// Draw the pixels that the fit rejected: [`crate::message::Table::Rejected`] for each view, if the product is a
    /// texture.
    pub rejected: bool,
    /// Make nothing, and report what a texture of this format would take: [`crate::message::Done::Plan`].
    pub dry_run: Option<TextureFormat>,
}

/// The job of the encode role: turns the bake's product and the mesh into files. Fds, in this order: mesh, product,
/// [`crate::table::Refined`] if `has_refined`, layers, and the splats that views are to be drawn of, if they come without
/// pixels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EncodeJob {
    /// What the second fd holds.
    pub product: Product,
    /// Colour space of the footprint's average, for the renders of the preview and the held-out views.
    pub blend: Blend,
    /// Draw the contact sheet.
    pub preview: bool,
    /// Write the views' part of the report's page: [`crate::message::Table::Gallery`].
    pub html: bool,
    /// [`crate::message::PrepareSummary::view_names`], for that page.
    #[serde(deserialize_with = "list")]
    pub view_names: Vec<Label>,
    /// Write the texture's maps; vertex colours have none.
    pub maps: bool,
    /// A third fd holds the cameras and exposures after the fit; otherwise they are as given.
    pub has_refined: bool,
    /// The form of the result.
    pub form: Form,
    /// The layers that the further fds hold.
    #[serde(deserialize_with = "list")]
    pub layers: Vec<Layer>,
}

/// A second kind of job of the prepare role: turns finished meshes and views into figures and a contact sheet.
/// Untrusted bytes end there, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareJob {
    /// Name of the first mesh file beneath [`crate::message::Root::Mesh`].
    pub first: String,
    /// Name of the second beneath [`crate::message::Root::Second`], if there is one.
    pub second: Option<String>,
    /// Name of the surface that they were simplified from beneath [`crate::message::Root::Original`], whose normals theirs
    /// are compared with; none for no such figures.
    pub normals_of: Option<String>,
    /// Name of `transforms.json` beneath [`crate::message::Root::Views`].
    pub views_file: String,
    /// Colour space of the footprint's average.
    pub blend: Blend,
    /// The axis that points up in the views. Finished meshes are glTF with y up, and stay as they are.
    pub up: Up,
    /// Draw the sheet: [`crate::message::Table::Preview`].
    pub picture: bool,
}
