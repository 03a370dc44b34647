//! What Rust and WGSL must agree on: constants, which exist here only, and structures, which exist on both sides. A test parses
//! every shader and compares names, offsets and sizes.

use bytemuck::{Pod, Zeroable};
use proto::job::Blend;

use crate::bake::backend::{BINS, BINS_PER_OCTAVE, BLOCK, CONSENSUS_POWER};
use crate::bake::colour::SLOPE_FLOOR;
use crate::bake::footprint::{LEAST_ENTRY, MIN_ALPHA, TOGETHER_TEXELS};
use crate::bake::multilevel::LEVELS;
use crate::bake::subset::{ONE_IN, SQUARES};
use crate::bake::window::{self, COARSE, SMALL_TEXTURE};

/// Invocations of a workgroup over the rows of a patch with a list of texels: two waves of the widest adapters.
pub(super) const LIST_LANES: u32 = 64;
/// And of one over the rows of a plot: with fewer, what a workgroup sums in its memory leaves a device with too few at work (of 64,
/// 128 and 256 products take 23, 18 and 14).
pub(super) const PLOT_LANES: u32 = 256;
/// Rows of a patch with a list of texels at most: those of a block.
pub(super) const LISTED_MOST: u32 = 64;
/// Edge of a workgroup over pixels.
pub(super) const PIXEL_LANES: u32 = 8;
/// Invocations of a workgroup over texels; every adapter allows 256.
pub(super) const TEXEL_LANES: u32 = 256;
/// Workgroups of a dispatch over all texels at most: 8192² texels make 256 steps each, far below the 65,535 after which
/// lavapipe ends loops without a word, and the results of all fit one workgroup's final sum.
pub(super) const TEXEL_GROUPS: u32 = 1024;
/// Texels that a patch with a list touches at most.
pub(super) const PATCH_TEXELS: u32 = 256;
/// Workgroups in one row of a dispatch that has many: adapters allow 65,535.
pub(super) const GROUPS_ACROSS: u32 = 1 << 15;
/// Invocations of a workgroup over triangles, or over the samples of one.
pub(super) const TRIANGLE_LANES: u32 = 64;
/// Workgroups that draw a large triangle: one that fills 6144² samples, a region of six taps, makes 36,864
/// steps in each invocation.
pub(super) const PARTS: u32 = 16;
/// Regions of a tile at most.
pub(super) const REGIONS: u32 = 16;
/// Bits of a listed triangle's number; above them is its region.
pub(super) const TRIANGLE_BITS: u32 = 28;
const _: () = assert!(REGIONS <= 1 << (u32::BITS - TRIANGLE_BITS));
const _: () = assert!(
    PIXEL_LANES == BLOCK,
    "a workgroup of footprint.wgsl is a block"
);
/// Words of the tally, and how far apart those are that are counted in: a sector of the caches of real GPUs.
pub(super) const TALLY_WORDS: usize = 2048;
const TALLY_STRIDE: usize = 8;
/// [`Patch::kind`]: with a list of texels; the rows of a plot; with a list of texels, and of seams.
pub(super) const LISTED: u32 = 0;
const PLOT_ROWS: u32 = 1;
pub(super) const SEAM: u32 = 2;
/// Edge of a plot in texels: rows that begin in the same are together, whatever view they are of.
pub(super) const PLOT: u32 = 16;
/// Plots that a row can name: those of a texture of 8192².
const PLOTS: u32 = 1 << 18;
/// Edge of the largest box of a row that a plot takes, in texels.
pub(super) const BOX: u32 = 5;
/// Of a row without: its bits for a box.
pub(super) const NO_BOX: u32 = 31;
const _: () = assert!(
    BOX * BOX <= NO_BOX && PLOT * PLOT == 256,
    "patch.wgsl counts on it"
);
/// Edge of what the rows of a plot touch. What a workgroup needs for these texels fits the least memory of its own that WebGPU
/// promises, 16 KiB.
const PLOT_REACH: u32 = PLOT + BOX - 1;
/// Rows of a plot that one workgroup takes. Residuals of so many are summed by halves of words, see residual.wgsl.
pub(super) const PLOT_MOST: u32 = 1024;
/// Ranks of boxes by their size, see plots.wgsl.
pub(super) const RANKS: u32 = 4;
/// Steps of a weight in a box.
const WEIGHT_STEPS: f32 = 65535.0;
/// Bits of an entry that are its place in its patch's list of texels.
const PLACE: u32 = 255;
const _: () = assert!(PATCH_TEXELS <= PLACE + 1, "patch.wgsl counts on it");
/// Near plane in scene units, whose ball has radius 1. Depth is `NEAR / z`.
pub(super) const NEAR: f32 = 1e-4;
/// Depth of what is drawn behind everything, above the 0 of a cleared target. A surface would be this far away at 10²⁶.
pub(super) const BACKDROP: f32 = 1e-30;

const _: () = assert!(LEVELS == 3, "multilevel.wgsl has an entry point for each");

// `residual.wgsl` multiplies this out; a block's sum of weights fits 32 bits.
const _: () = assert!(
    CONSENSUS_POWER == 4 && BLOCK * BLOCK <= 64,
    "residual.wgsl counts on it"
);

/// A shader's constants, appended to it as one line: its own line numbers stay true in messages.
pub(super) fn prelude(taps: u32, blend: Blend) -> String {
    let linear = blend == Blend::Linear;
    let [small, large] = window::SQUARES;
    format!(
        "const LISTED: u32 = {LISTED}u; const LISTED_MOST: u32 = {LISTED_MOST}u; const PLOT_ROWS: u32 = {PLOT_ROWS}u; const PLOT: u32 = {PLOT}u; const PLOTS: u32 = {PLOTS}u; \
         const BOX: u32 = {BOX}u; const NO_BOX: u32 = {NO_BOX}u; const PLOT_REACH: u32 = {PLOT_REACH}u; \
         const PLOT_MOST: u32 = {PLOT_MOST}u; const RANKS: u32 = {RANKS}u; const WEIGHT_STEPS: f32 = {WEIGHT_STEPS:?}f; const TAPS: u32 = {taps}u; const LINEAR: bool = {linear}; \
         const PIXEL_LANES: u32 = {PIXEL_LANES}u; const TEXEL_LANES: u32 = {TEXEL_LANES}u; const BINS: u32 = {BINS}u; \
         const BINS_PER_OCTAVE: f32 = {BINS_PER_OCTAVE:?}f; const NEAR: f32 = {NEAR:?}f; const BACKDROP: f32 = {BACKDROP:?}f; \
         const MIN_ALPHA: u32 = {MIN_ALPHA}u; const LEAST_ENTRY: f32 = {LEAST_ENTRY:?}f; \
         const TOGETHER_TEXELS: u32 = {TOGETHER_TEXELS}u; const PATCH_TEXELS: u32 = {PATCH_TEXELS}u; \
         const GROUPS_ACROSS: u32 = {GROUPS_ACROSS}u; const TRIANGLE_LANES: u32 = {TRIANGLE_LANES}u; \
         const PARTS: u32 = {PARTS}u; const REGIONS: u32 = {REGIONS}u; const TRIANGLE_BITS: u32 = {TRIANGLE_BITS}u; const SEAM: u32 = {SEAM}u; \
         const TALLY_WORDS: u32 = {TALLY_WORDS}u; const TALLY_STRIDE: u32 = {TALLY_STRIDE}u; \
         const SMALL_TEXTURE: u32 = {SMALL_TEXTURE}u; const SQUARE_OF_SMALL: u32 = {small}u; const SQUARE_OF_LARGE: u32 = {large}u; const COARSE: u32 = {COARSE}u; const SQUARES: u32 = {SQUARES}u; const ONE_IN: u32 = {ONE_IN}u; \
         const LEVELS: u32 = {LEVELS}u; const BLOCK: u32 = {BLOCK}u; const SLOPE_FLOOR: f32 = {SLOPE_FLOOR:?}f;\n"
    )
}

/// Which patches a stage over rows is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Patches {
    /// With a list of texels.
    Listed,
    /// Of plots.
    Plots,
}

impl Patches {
    pub(super) const BOTH: [Self; 2] = [Self::Listed, Self::Plots];

    /// The constants of a shader that depend on it.
    pub(super) fn prelude(self) -> String {
        let (plotted, lanes, places) = match self {
            Self::Listed => (false, LIST_LANES, PATCH_TEXELS),
            Self::Plots => (true, PLOT_LANES, PLOT_REACH * PLOT_REACH),
        };
        format!(
            "const PLOTTED: bool = {plotted}; const ROW_LANES: u32 = {lanes}u; const PLACES: u32 = {places}u;\n"
        )
    }
}

/// Of a view, the region whose blocks are drawn with those of others in one tile, and its camera in scene units.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Region {
    /// Rows of the camera's rotation, each with its part of the translation.
    pub(super) row_x: [f32; 4],
    pub(super) row_y: [f32; 4],
    pub(super) row_z: [f32; 4],
    /// In pixels.
    pub(super) focal: [f32; 2],
    /// From its top left corner: small numbers keep their digits.
    pub(super) centre: [f32; 2],
    /// In pixels.
    pub(super) size: [u32; 2],
    /// Top left corner in the view.
    pub(super) origin: [u32; 2],
    pub(super) texture_size: u32,
    /// Position of the view among those added, the first of its blocks among all, and how many it has across (lower half) and down.
    pub(super) view: u32,
    pub(super) first_block: u32,
    pub(super) blocks: u32,
    /// The first row of the window that it is there for, and the first after them; none of all of a texture.
    pub(super) core: [u32; 2],
    /// Where the marks have the bits of the texture's squares, see `marks.rs`; 0 where none are to be made.
    pub(super) squares_at: u32,
    /// Blocks of all regions of the tile.
    pub(super) listed: u32,
    /// Where the map of its blocks is.
    pub(super) map_at: u32,
    pub(super) unused_0: u32,
    pub(super) unused_1: u32,
    pub(super) unused_2: u32,
}

/// How many a pool of rows holds of each, or has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Pool {
    /// Without plots.
    pub(super) patches: u32,
    pub(super) rows: u32,
    /// Of their entries and boxes, and of the patches' lists of texels.
    pub(super) words: u32,
}

/// Which patches of a pool are visited: the first of them, or all. Those of the subset lie at the beginning of its room and the
/// others at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Visited {
    /// In all.
    pub(super) patches: u32,
    /// At the beginning.
    pub(super) first: u32,
    /// Unused places between those and the others.
    pub(super) gap: u32,
    /// The same of plots.
    pub(super) plots: u32,
    pub(super) first_plots: u32,
    pub(super) plots_gap: u32,
    /// Texels in a row of the window, and in all.
    pub(super) size: u32,
    pub(super) count: u32,
    /// 1 where rows of plots lie elsewhere than in their order.
    pub(super) ordered: u32,
    pub(super) unused_0: u32,
    pub(super) unused_1: u32,
    pub(super) unused_2: u32,
}

/// What rows are put in order by, see plots.wgsl.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Ordering {
    /// Of the pool, with a box.
    pub(super) rows: u32,
    /// Of the window, and of those in a line.
    pub(super) plots: u32,
    pub(super) across: u32,
    /// Texels in a row of the window.
    pub(super) size: u32,
    /// Patches of plots that there is room for.
    pub(super) room: u32,
    pub(super) row_stride: u32,
    pub(super) plot_stride: u32,
}

/// Rows that one workgroup takes, and the texels that they touch.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Patch {
    /// Among all rows; of a plot, in the order of those.
    pub(super) first_row: u32,
    /// Where its list of texels begins among the words; of a plot, the texel in its corner.
    pub(super) first_texel: u32,
    /// Rows in the lower half, at most [`LISTED_MOST`] where there is a list; its texels in the upper, at most [`PATCH_TEXELS`].
    pub(super) counts: u32,
    /// [`LISTED`], [`PLOT_ROWS`] or [`SEAM`].
    pub(super) kind: u32,
}

/// One row.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Row {
    /// Where its entries or its box begin among the words.
    pub(super) start: u32,
    /// See patch.wgsl.
    pub(super) shape: u32,
    /// Observed sRGB, and alpha.
    pub(super) colour: u32,
    /// Its block among those of all views, and in the lower six bits its pixel within that.
    pub(super) place: u32,
}

/// Blocks of all views at most, so that a [`Row::place`] names each.
pub(super) const MOST_BLOCKS: u64 = 1 << 26;

/// [`Row::shape`] of a row with a list of so many entries.
pub(super) fn listed_shape(entries: u32) -> u32 {
    entries << 6 | NO_BOX << 1
}

/// A view, and how it is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Judged {
    /// 1/c² of the robust loss: 0 for an infinite scale, negative for a view that is out.
    pub(super) scale: f32,
    pub(super) share: f32,
    /// As in [`Region`].
    pub(super) first_block: u32,
    pub(super) blocks: u32,
}

/// An entry: its weight in single precision but for the last eight bits, which are its place in the patch's list.
pub(super) fn entry(weight: f32, place: u32) -> u32 {
    (weight.to_bits() + PLACE.div_ceil(2)) & !PLACE | place
}

/// Size of the box of a row, and where it begins in its plot; none of a row without.
#[cfg(test)]
pub(super) fn box_of(shape: u32) -> Option<([u32; 2], [u32; 2])> {
    let (shape, corner) = (shape >> 1 & NO_BOX, shape >> 6 & 255);
    let size = [shape % BOX + 1, shape / BOX + 1];
    (shape != NO_BOX).then_some((size, [corner % PLOT, corner / PLOT]))
}

/// Plot of a row with a box.
#[cfg(test)]
pub(super) fn plot_of(shape: u32) -> u32 {
    shape >> 14
}

/// Weights of so many texels of a box.
#[cfg(test)]
pub(super) fn box_weights(words: &[u32], texels: u32) -> Vec<f32> {
    let of = |k: u32| words[k as usize / 2] >> (16 * (k % 2)) & 0xffff;
    (0..texels).map(|k| of(k) as f32 / WEIGHT_STEPS).collect()
}

/// Weight and place of an entry.
#[cfg(test)]
pub(super) fn entry_parts(entry: u32) -> (f32, u32) {
    (f32::from_bits(entry & !PLACE), entry & PLACE)
}

/// What every stage over texels knows.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Texels {
    pub(super) size: u32,
    pub(super) count: u32,
    pub(super) groups: u32,
    pub(super) stride: u32,
    pub(super) smoothness: f32,
    pub(super) seam_ratio: f32,
    /// 1 where only the rows of the subset exist.
    pub(super) narrowed: u32,
}

/// Numbers of one channel that stay on the adapter: never read by the host, here for their layout.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Scalars {
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) rz: f32,
    pub(super) smoothness: f32,
    pub(super) reach_x: i32,
    pub(super) reach_p: i32,
    pub(super) unused_0: u32,
    pub(super) unused_1: u32,
}

/// Workgroups for all of `count` texels, each taking every n-th.
pub(super) fn texel_groups(count: u32) -> u32 {
    count.div_ceil(TEXEL_LANES).clamp(1, TEXEL_GROUPS)
}
