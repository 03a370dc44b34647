//! What a bake is going to take, as a dry run tells it: bytes of each group of buffers, rows that stay and rows that are drawn
//! again, seconds of each stage.

use serde::{Deserialize, Serialize};

use crate::list::list;
use crate::message::{AdapterInfo, Phase};

/// What became of the rows, of which each pixel that counts has one: kept, all at once or part by part, or made again for every
/// pass over them where a part did not fit after all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsHeld {
    /// All of them.
    pub rows: u64,
    /// Those that stay.
    pub kept: u64,
    /// Views of the fit.
    pub views: u32,
    /// Views of which at least a part is drawn again for every pass.
    pub views_redrawn: u32,
    /// Pixels on the mesh that have no row, about: where very many views show a place, some of them were left out, so that the
    /// rows of the others stay.
    pub left_out: u64,
    /// Parts of the texture that are fitted one after the other, so that the rows of each stay; 0 where all of it is at once.
    pub parts: u32,
}

/// Buffers that are made together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferGroup {
    /// One number for each texel, many times: colours, weights, what the solver needs.
    Texture,
    /// Vertices and triangles.
    Mesh,
    /// Samples and pixels of the part of a view that is drawn at once.
    Tile,
    /// Rows of the seams.
    Seams,
    /// Rows that stay.
    RowsKept,
    /// The room into which rows are drawn again.
    RowsRedrawn,
    /// Sums and weights of each view.
    Views,
    /// The texels of the last reweighting: only where rows are drawn again.
    WeighedTexels,
    /// What the host reads from: only for a while.
    ReadBack,
}

impl BufferGroup {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
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
        }
    }
}

/// Bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferBytes {
    /// Which.
    pub group: BufferGroup,
    /// Buffers and textures in it.
    pub count: u32,
    /// All of them together.
    pub bytes: u64,
}

/// Device memory by the driver's own account, before the bake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverAccount {
    /// What the process with its compiled stages has in KiB.
    pub used_kib: u64,
    /// What it could have beside that in KiB, as long as others use what they do now.
    pub free_kib: u64,
}

/// Wall time of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseSeconds {
    /// The phase.
    pub phase: Phase,
    /// Seconds, about.
    pub seconds: f64,
}

/// Result of a dry run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BakePlan {
    /// The adapter that would bake.
    pub adapter: AdapterInfo,
    /// Edge of the texture in texels.
    pub texture_size: u32,
    /// Device memory by its driver, if it gives an account.
    pub driver: Option<DriverAccount>,
    /// Device memory that the bake plans with in KiB; none where the processor bakes.
    pub budget_kib: Option<u64>,
    /// Device memory in the order in which it is made; empty where the processor bakes.
    #[serde(deserialize_with = "list")]
    pub buffers: Vec<BufferBytes>,
    /// Largest sum of buffers and textures alive at once in KiB; 0 for the processor. What a bake reports under the same name.
    pub peak_vram_kib: u64,
    /// What is kept of the rows.
    pub rows: RowsHeld,
    /// Views whose rows were made and counted; the others are taken to be like them, pixel by pixel.
    pub sampled_views: u32,
    /// Passes over all rows, about: each draws again what is not kept.
    pub passes: u32,
    /// Textures that are fitted one after the other: the base colour, and each set of channels.
    pub textures: u32,
    /// Bake and encode, about; without `prepare`, which a dry run has done.
    #[serde(deserialize_with = "list")]
    pub seconds: Vec<PhaseSeconds>,
    /// Resident memory of the bake's process in KiB, about.
    pub bake_rss_kib: u64,
    /// Resident memory of encode in KiB, about.
    pub encode_rss_kib: u64,
    /// Peak resident memory of the dry run itself in KiB.
    pub peak_rss_kib: u64,
}
