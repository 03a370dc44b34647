//! What a caller asks for: the vocabulary shared by the command line, the packets and the report.

use serde::{Deserialize, Serialize};

use crate::list::list;
use crate::pages::Pages;
use crate::table::Layer;

/// How much work goes into the fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// Seconds on two cores; better than the averaging bakers.
    Draft,
    /// The default.
    #[default]
    Standard,
    /// More taps and iterations.
    Best,
}

/// The space in which a pixel's footprint is averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blend {
    /// Linear light: renders of meshes, and photographs.
    #[default]
    Linear,
    /// Display space: sources that blend encoded colours, such as Gaussian splats.
    Srgb,
}

/// Which adapter bakes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// A GPU where one is found, otherwise the processor; the report says which.
    #[default]
    Auto,
    /// A GPU or nothing.
    Gpu,
    /// The processor, without any graphics driver.
    Cpu,
    /// The adapter whose name contains this text, letter case aside; software adapters count.
    Name(String),
}

/// How much memory a bake may plan with: a rung of the ladder that a job climbs down when memory ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// What is fastest.
    #[default]
    Full,
    /// A quarter of the memory for rows, and for views that wait: slower, as good.
    Small,
}

impl Memory {
    /// Bytes of views that a bake holds until it knows all of them; of larger ones it takes the first in before.
    #[must_use]
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
    /// [`crate::table::Colours`]: one colour for each vertex, the ladder's last rung.
    VertexColours,
}

/// What kind of file the result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Container {
    /// glTF in one file, the texture within it.
    #[default]
    Glb,
    /// Binary PLY, the texture beside it.
    Ply,
    /// Wavefront OBJ, its material and the texture beside it.
    Obj,
}

/// The picture format of the texture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextureFormat {
    /// Lossless; every viewer reads it.
    #[default]
    Png,
    /// Small and lossy; every viewer reads it.
    Jpeg,
    /// Lossless (`EXT_texture_webp`).
    Webp,
    /// Half a JPEG where the texture is smooth (`EXT_texture_webp`); colours alone, and numbers are as [`Self::Webp`] has them.
    #[serde(rename = "webp-lossy")]
    WebpLossy,
    /// Basis Universal, whatever the device's own format (`KHR_texture_basisu`): small, colours alone; numbers are as
    /// [`Self::Ktx2Uastc`] has them.
    #[serde(rename = "ktx2-etc1s")]
    Ktx2Etc1s,
    /// Basis Universal at 8 bits a texel before Zstandard: close to lossless.
    #[serde(rename = "ktx2-uastc")]
    Ktx2Uastc,
}

impl TextureFormat {
    /// The ending of its files.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Webp | Self::WebpLossy => "webp",
            Self::Ktx2Etc1s | Self::Ktx2Uastc => "ktx2",
        }
    }

    /// Whether its pictures have a quality of 1 to 100.
    #[must_use]
    pub fn has_quality(self) -> bool {
        matches!(self, Self::Jpeg | Self::WebpLossy | Self::Ktx2Etc1s)
    }

    /// Whether only a GLB can hold it: what reads PLY and OBJ knows no such picture.
    #[must_use]
    pub fn needs_gltf(self) -> bool {
        matches!(self, Self::Ktx2Etc1s | Self::Ktx2Uastc)
    }

    /// As glTF names it.
    #[must_use]
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
#[serde(rename_all = "lowercase")]
pub enum Compress {
    /// Plain floats.
    #[default]
    None,
    /// Quantised and compressed: `KHR_mesh_quantization`, `EXT_meshopt_compression`.
    Meshopt,
}

/// How a renderer takes the opacity that views brought, as glTF names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlphaMode {
    /// As the opacity is: all but whole, all but whole or none, or anything between.
    #[default]
    Auto,
    /// Not at all.
    Opaque,
    /// What is below the cutoff is not there.
    Mask,
    /// As a share.
    Blend,
}

/// The form of the result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Form {
    /// The kind of file.
    pub container: Container,
    /// The texture's.
    pub texture: TextureFormat,
    /// Of a JPEG or ETC1S: 1 to 100.
    pub quality: u8,
    /// The mesh's, in a GLB.
    pub compress: Compress,
    /// The vertices of a GLB carry `_PROVENANCE`.
    pub provenance: bool,
    /// Textures that the atlas is cut into.
    pub pages: Pages,
    /// Name of the result without its ending: by it a mesh names the files beside it. Empty for a GLB.
    pub stem: String,
    /// Of a GLB whose views bring opacity.
    pub alpha: AlphaMode,
    /// Of [`AlphaMode::Mask`]: 0 to 1.
    pub alpha_cutoff: f32,
}

impl Form {
    /// Name of the file of a page's texture beside a PLY or OBJ: of several pages as UDIM tiles are named.
    #[must_use]
    pub fn picture(&self, page: u32) -> String {
        let (stem, ending) = (&self.stem, self.texture.ending());
        match self.pages {
            Pages::ONE => format!("{stem}_texture.{ending}"),
            pages => format!("{stem}_texture.{}.{ending}", pages.udim(page)),
        }
    }

    /// Name of the material's file beside an OBJ.
    #[must_use]
    pub fn material(&self) -> String {
        format!("{}.mtl", self.stem)
    }
}

/// Whether cameras and exposures may be moved to where the mesh's silhouette and the other views want them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Refine {
    /// They are taken as given.
    Off,
    /// Moved where the views say clearly that they are off.
    #[default]
    Auto,
    /// Moved wherever that explains the views better, however little.
    On,
}

/// How many triangles to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Simplify {
    /// The mesh as it came.
    #[default]
    Keep,
    /// At most this many triangles.
    TargetFaces(u32),
    /// This share of the triangles is *removed*, as TRELLIS means it: 0.95 keeps 5 %.
    RemoveShare(f32),
}

/// The axis that points up in the mesh and its views. The result's is y, as glTF has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Up {
    /// Nothing is turned.
    #[default]
    Y,
    /// Mesh and cameras are turned: (x, y, z) becomes (x, z, -y).
    Z,
}

/// What is mended of the mesh before it is simplified; nothing unless asked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repair {
    /// Points of borders nearer than this share of the bounding box's diagonal become one.
    pub weld: Option<f32>,
    /// Each part is wound one way, outwards.
    pub orient: bool,
    /// What no view from outside sees goes.
    pub remove_unseen: bool,
    /// Holes up to this area are filled: a share of the square of the bounding box's longest side, as TRELLIS has it for its
    /// unit cube. It bounds the openings that [`Self::remove_unseen`] leaves, too.
    pub fill_holes: Option<f32>,
    /// Holes of more edges stay.
    pub hole_edges: u32,
    /// What points up.
    pub up: Up,
}

impl Repair {
    /// TRELLIS' `fill_holes_max_size`.
    pub const HOLE_SIZE: f32 = 0.04;
    /// TRELLIS' `fill_holes_max_hole_nbe` of a mesh that is not simplified.
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

/// The job of the prepare role: files into flat tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrepareJob {
    /// Name of the mesh file beneath [`crate::message::Root::Mesh`].
    pub mesh_file: String,
    /// Name of `transforms.json` beneath [`crate::message::Root::Views`].
    pub views_file: String,
    /// Edge of the atlas in texels, all pages together: padding and packing follow it.
    pub texture_size: u32,
    /// What it is cut into: no chart crosses their borders.
    pub pages: Pages,
    /// Choose a smaller edge where the views resolve no more, and tell it: [`crate::message::FromChild::Chosen`].
    pub texture_auto: bool,
    /// What is mended first.
    pub repair: Repair,
    /// Triangles to keep.
    pub simplify: Simplify,
    /// Use the mesh's own texture coordinates.
    pub keep_uvs: bool,
    /// Of these the set with this number; without it the one that each material's base colour uses.
    pub uv_set: Option<u32>,
    /// This many views are kept out of the fit, to measure with.
    pub holdout: u32,
    /// Chooses the held-out views.
    pub seed: u64,
    /// Work put into the unwrap.
    pub quality: Quality,
    /// Wall-clock budget of the unwrap, after which the fallback makes the atlas.
    pub unwrap_deadline_ms: u64,
    /// Read the views' channels, too; otherwise say that they are left out.
    pub layers: bool,
}

/// What the bake role can do before there is data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WarmJob {
    /// Adapter.
    pub device: Device,
    /// Adapters by name that are not to be used: they failed.
    #[serde(deserialize_with = "list")]
    pub avoid: Vec<String>,
    /// Which of several adapters that would do equally well: this, modulo their number.
    pub nth: u32,
    /// Work put into the fit: it chooses the pipelines.
    pub quality: Quality,
    /// Space of the footprint's average: it chooses the pipelines.
    pub blend: Blend,
}

/// The job of the bake role, after its [`WarmJob`]: flat tables into a texture. Fd: the surface whose views they are. The mesh with
/// its atlas follows ([`crate::message::ToChild::Mesh`]), perhaps after some of the views.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BakeJob {
    /// What to make.
    pub product: Product,
    /// How much memory to plan with.
    pub memory: Memory,
    /// Edge of the atlas in texels, as far as it is known before the mesh comes.
    pub texture_size: Option<u32>,
    /// Make [`crate::table::maps::Maps`], too, where the product is a texture.
    pub maps: bool,
    /// Move cameras and exposures first.
    pub refine: Refine,
    /// Bytes of device memory to plan with; none for what is fastest.
    pub vram_budget: Option<u64>,
    /// Measure every GPU stage by the device's clock.
    pub gpu_times: bool,
    /// Draw what the fit did not believe: [`crate::message::Table::Rejected`] for each view, where the product is a texture.
    pub rejected: bool,
    /// Make nothing, and tell what a texture that is stored so would take: [`crate::message::Done::Plan`].
    pub dry_run: Option<TextureFormat>,
}

/// The job of the encode role: the bake's product and the mesh into files. Fds: mesh, product, [`crate::table::Refined`] if
/// `has_refined`, layers, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncodeJob {
    /// What the second fd holds.
    pub product: Product,
    /// Space of the footprint's average, for the renders of the preview and the held-out views.
    pub blend: Blend,
    /// Draw the contact sheet.
    pub preview: bool,
    /// Paint the texture's maps; there are none of vertex colours.
    pub maps: bool,
    /// A third fd holds the cameras and exposures that the fit ended with; otherwise it took them as given.
    pub has_refined: bool,
    /// The form of the result.
    pub form: Form,
    /// What the further fds hold.
    #[serde(deserialize_with = "list")]
    pub layers: Vec<Layer>,
}

/// A job of the prepare role beside its own: finished meshes and views into figures and a sheet. Untrusted bytes end there, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareJob {
    /// Name of the first mesh file beneath [`crate::message::Root::Mesh`].
    pub first: String,
    /// Name of the second beneath [`crate::message::Root::Second`], if there is one.
    pub second: Option<String>,
    /// Name of `transforms.json` beneath [`crate::message::Root::Views`].
    pub views_file: String,
    /// Space of the footprint's average.
    pub blend: Blend,
    /// What points up in the views. Finished meshes are glTF's, with y up: they stay as they are.
    pub up: Up,
    /// Draw the sheet: [`crate::message::Table::Preview`].
    pub picture: bool,
}
