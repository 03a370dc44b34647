//! The forecast of a dry run: bytes of each group of buffers, rows that stay in memory or are computed again, seconds
//! of each stage.

use serde::{Deserialize, Serialize};

use crate::list::list;
use crate::role::{AdapterInfo, Phase};

/// What became of the rows of the least-squares system. Each pixel that counts has one row. Rows stay in memory, all at
/// once or one subdomain at a time. Those that do not fit where there are no subdomains are computed again for every pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsHeld {
    /// Number of rows.
    pub rows: u64,
    /// Rows that stay in memory.
    pub kept: u64,
    /// Views of the fit.
    pub views: u32,
    /// Views of which at least a part is drawn again for every pass.
    pub views_redrawn: u32,
    /// Approximate number of pixels on the mesh without a row. Where very many views show a place, decimation leaves
    /// some of them out, so that the rows of the others stay.
    pub left_out: u64,
    /// Subdomains of the texture that are fitted one after the other, so that the rows of each stay; 0 if the texture
    /// is fitted at once.
    pub parts: u32,
}

/// Buffers that are allocated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferGroup {
    /// Planes with one number per texel: colours, weights, solver vectors.
    Texture,
    /// Vertices and triangles.
    Mesh,
    /// Samples and pixels of the part of a view that is drawn at once.
    Tile,
    /// Seam constraints.
    Seams,
    /// Rows that stay.
    RowsKept,
    /// Space for rows that are computed again.
    RowsRedrawn,
    /// Sums and weights per view.
    Views,
    /// The texels of the last reweighting: only if rows are computed again.
    WeighedTexels,
    /// Buffers that the host reads: for a short time only.
    ReadBack,
    /// Splats, and what drawing views of them takes.
    Splats,
}

impl BufferGroup {
    /// Name for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Texture => "planes of the texture",
            Self::Mesh => "mesh",
            Self::Tile => "tile that is drawn",
            Self::Seams => "seams",
            Self::RowsKept => "rows that stay",
            Self::RowsRedrawn => "room for rows drawn again",
            Self::Views => "sums of the views",
            Self::WeighedTexels => "texels of the last weights",
            Self::ReadBack => "read-back, for a while",
            Self::Splats => "splats, and what draws them",
        }
    }
}

/// Bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferBytes {
    /// Which group.
    pub group: BufferGroup,
    /// Number of buffers and textures in it.
    pub count: u32,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Device memory before the bake, as the driver reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverAccount {
    /// Memory that the process uses after compiling its stages, in KiB.
    pub used_kib: u64,
    /// Further memory that it could have, in KiB, if other processes keep using what they use now.
    pub free_kib: u64,
}

/// Wall time of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseSeconds {
    /// The phase.
    pub phase: Phase,
    /// Approximate seconds.
    pub seconds: f64,
}

/// Result of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BakePlan {
    /// The adapter that would bake.
    pub adapter: AdapterInfo,
    /// Edge of the texture in texels.
    pub texture_size: u32,
    /// The driver's report of device memory, if it gives one.
    pub driver: Option<DriverAccount>,
    /// Device memory that the bake plans with, in KiB; `None` if the processor bakes.
    pub budget_kib: Option<u64>,
    /// Device memory in the order of allocation; empty if the processor bakes.
    #[serde(deserialize_with = "list")]
    pub buffers: Vec<BufferBytes>,
    /// Largest sum of buffers and textures alive at once, in KiB; 0 for the processor. A bake reports it under the same
    /// name.
    pub peak_vram_kib: u64,
    /// What becomes of the rows.
    pub rows: RowsHeld,
    /// Views whose rows were made and counted. The others are assumed to be like them, pixel by pixel.
    pub sampled_views: u32,
    /// Approximate number of passes over all rows. Each draws again what does not stay.
    pub passes: u32,
    /// Textures that are fitted one after the other: the base colour, and each set of channels.
    pub textures: u32,
    /// Approximate seconds of bake and encode; the dry run has done `prepare` itself.
    #[serde(deserialize_with = "list")]
    pub seconds: Vec<PhaseSeconds>,
    /// Approximate resident memory of the bake's process in KiB.
    pub bake_rss_kib: u64,
    /// Approximate resident memory of encode in KiB.
    pub encode_rss_kib: u64,
    /// Peak resident memory of the dry run itself in KiB.
    pub peak_rss_kib: u64,
}
