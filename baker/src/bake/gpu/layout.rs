//! What Rust and WGSL must agree on: constants and structures, which are written here only. Every shader gets them with
//! its source, and a test compares offsets and sizes of the structures as both sides have them.
//!
//! A row bin is a square of the texture with the rows whose box begins there.

use bytemuck::{Pod, Zeroable};
use kiln_splat::numbers;
use proto::job::Blend;

use crate::bake::model::colour::SLOPE_FLOOR;
use crate::bake::model::footprint::{LEAST_ENTRY, MIN_ALPHA, TOGETHER_TEXELS};
use crate::bake::model::subset::{ONE_IN, SQUARES};
use crate::bake::plan::window::{self, COARSE, SMALL_TEXTURE};
use crate::bake::solve::backend::{BINS, BINS_PER_OCTAVE, BLOCK, CONSENSUS_POWER};
use crate::bake::solve::multilevel::LEVELS;

/// Invocations of a workgroup over the rows of a patch with a list of texels: two waves of the widest adapters.
pub(super) const LIST_LANES: u32 = 64;
/// Invocations of a workgroup over the rows of a bin. Its memory limits how many workgroups run, so small ones leave a
/// device underused: products take 23, 18 and 14 with 64, 128 and 256 invocations.
pub(super) const ROW_BIN_LANES: u32 = 256;
/// Largest number of rows of a patch with a list of texels: those of a block.
pub(super) const LISTED_MOST: u32 = 64;
/// Edge of a workgroup over pixels.
pub(super) const PIXEL_LANES: u32 = 8;
/// Invocations of a workgroup over texels; every adapter allows 256.
pub(super) const TEXEL_LANES: u32 = 256;
/// Largest number of workgroups of a dispatch over all texels. 8192² texels make 256 steps each, far below the 65,535
/// after which lavapipe silently ends loops. One workgroup can sum the results of all.
pub(super) const TEXEL_GROUPS: u32 = 1024;
/// Largest number of texels that a patch with a list touches.
pub(super) const PATCH_TEXELS: u32 = 256;
/// Workgroups in one row of a large dispatch: adapters allow 65,535.
pub(super) const GROUPS_ACROSS: u32 = 1 << 15;
/// Invocations of a workgroup over triangles, or over the samples of one.
pub(super) const TRIANGLE_LANES: u32 = 64;
/// Workgroups that draw a large triangle. One that fills 6144² samples, a region of six taps, makes 36,864 steps in
/// each invocation.
pub(super) const PARTS: u32 = 16;
/// Largest number of regions of a tile.
pub(super) const REGIONS: u32 = 16;
/// Bits of a listed triangle's number; the region is above them.
pub(super) const TRIANGLE_BITS: u32 = 28;
const _: () = assert!(REGIONS <= 1 << (u32::BITS - TRIANGLE_BITS));
const _: () = assert!(
    PIXEL_LANES == BLOCK,
    "a workgroup of footprint.wgsl is a block"
);
/// Pixels of a block.
pub(super) const PIXELS: usize = (BLOCK * BLOCK) as usize;
/// Words of the tally, and the distance of its counters: a cache sector of real GPUs.
pub(super) const TALLY_WORDS: usize = 2048;
const TALLY_STRIDE: usize = 8;
/// [`Patch::kind`]: with a list of texels; rows of a bin; seam constraints, with a list of texels.
pub(super) const LISTED: u32 = 0;
const ROW_BIN_ROWS: u32 = 1;
pub(super) const SEAM: u32 = 2;
/// Edge of a bin in texels. Rows whose box begins in it are stored together, whatever their view.
pub(super) const ROW_BIN: u32 = 16;
/// Bins that a row can name: those of a texture of 8192².
const ROW_BINS: u32 = 1 << 18;
/// Edge of the largest box that a bin takes, in texels.
pub(super) const BOX: u32 = 5;
/// Value of the box bits of a row without a box.
pub(super) const NO_BOX: u32 = 31;
const _: () = assert!(
    BOX * BOX <= NO_BOX && ROW_BIN * ROW_BIN == 256,
    "patch.wgsl counts on it"
);
/// Edge of the texels that the rows of a bin touch. The workgroup memory for these texels fits the 16 KiB that WebGPU
/// guarantees.
const ROW_BIN_REACH: u32 = ROW_BIN + BOX - 1;
/// Rows of a bin that one workgroup takes. residual.wgsl sums as many residuals by halves of words.
pub(super) const ROW_BIN_MOST: u32 = 1024;
/// Number of ranks of boxes by size (`row_bins.wgsl`).
pub(super) const RANKS: u32 = 4;
/// Fixed-point steps of a weight in a box.
const WEIGHT_STEPS: f32 = 65535.0;
/// Bits of an entry that are its place in its patch's list of texels.
const PLACE: u32 = 255;
const _: () = assert!(PATCH_TEXELS <= PLACE + 1, "patch.wgsl counts on it");
/// Near plane in scene units; the scene has radius 1. Depth is `NEAR / z`.
pub(super) const NEAR: f32 = 1e-4;
/// Depth of the backdrop: above the 0 of a cleared target, and behind any surface nearer than 10²⁶.
pub(super) const BACKDROP: f32 = 1e-30;

const _: () = assert!(LEVELS == 3, "multilevel.wgsl has an entry point for each");

// `residual.wgsl` multiplies this out, and a block's sum of weights must fit 32 bits.
const _: () = assert!(
    CONSENSUS_POWER == 4 && BLOCK * BLOCK <= 64,
    "residual.wgsl counts on it"
);

/// Edge of a workgroup over the pixels of a tile of splats: the twin's tiles.
pub(super) const SPLAT_TILE: u32 = numbers::TILE as u32;
/// Invocations of a workgroup over splats, or over pairs of a tile and a splat.
pub(super) const SPLAT_LANES: u32 = 256;
/// Rows of tiles of a window, and one more: the counters of a workgroup are in its memory.
pub(super) const SPLAT_ROWS: u32 = 1024;
/// Words in front of the counters of a view's rows of tiles.
pub(super) const COUNTED: u32 = 3;
/// Values of a digit by which pairs are sorted, its bits, and pairs that an invocation takes.
pub(super) const DIGITS: u32 = 16;
pub(super) const DIGIT_BITS: u32 = DIGITS.ilog2();
pub(super) const SORTED_EACH: u32 = 8;
const _: () = assert!(
    SPLAT_LANES * SORTED_EACH < 1 << 16 && SPLAT_LANES.is_multiple_of(DIGITS),
    "splat_sort.wgsl counts on it"
);
/// Numbers that an invocation sums at a time.
const SUMMED_EACH: u32 = 4;
/// Stands for an infinite number: shaders may take for granted that there is none.
const HUGE: f32 = 3e38;

/// Constants of the stages of splats, as their twin on the processor has them.
fn splat_prelude() -> String {
    use numbers::{C0, C1, C2, C3, CLOSED, HALF, LEAST_ALPHA, LEVELS, MOST_ALPHA, NEAR, SLACK};
    let list = |numbers: &[f32]| {
        let words: Vec<String> = numbers.iter().map(|x| format!("{x:?}f")).collect();
        format!("array({})", words.join(", "))
    };
    let (second, third) = (list(&C2), list(&C3));
    format!(
        "const SPLAT_TILE: u32 = {SPLAT_TILE}u; const SPLAT_LANES: u32 = {SPLAT_LANES}u; const SPLAT_ROWS: u32 = {SPLAT_ROWS}u; const COUNTED: u32 = {COUNTED}u; \
         const DIGITS: u32 = {DIGITS}u; const SORTED_EACH: u32 = {SORTED_EACH}u; const SUMMED_EACH: u32 = {SUMMED_EACH}u; const HUGE: f32 = {HUGE:?}f; \
         const SPLAT_NEAR: f32 = {NEAR:?}f; const SPLAT_LEVELS: f32 = {LEVELS:?}f; const SPLAT_SLACK: f32 = {SLACK:?}f; const HALF: f32 = {HALF:?}f; \
         const LEAST_ALPHA: f32 = {LEAST_ALPHA:?}f; const MOST_ALPHA: f32 = {MOST_ALPHA:?}f; const CLOSED: f32 = {CLOSED:?}f; \
         const C0: f32 = {C0:?}f; const C1: f32 = {C1:?}f; const C2 = {second}; const C3 = {third};\n"
    )
}

/// A shader's constants and structures, appended to it as one line, so that line numbers in messages stay right.
pub(super) fn prelude(taps: u32, blend: Blend) -> String {
    let linear = blend == Blend::Linear;
    let [small, large] = window::SQUARES;
    format!(
        "const LISTED: u32 = {LISTED}u; const LISTED_MOST: u32 = {LISTED_MOST}u; const ROW_BIN_ROWS: u32 = {ROW_BIN_ROWS}u; const ROW_BIN: u32 = {ROW_BIN}u; const ROW_BINS: u32 = {ROW_BINS}u; \
         const BOX: u32 = {BOX}u; const NO_BOX: u32 = {NO_BOX}u; const ROW_BIN_REACH: u32 = {ROW_BIN_REACH}u; \
         const ROW_BIN_MOST: u32 = {ROW_BIN_MOST}u; const RANKS: u32 = {RANKS}u; const WEIGHT_STEPS: f32 = {WEIGHT_STEPS:?}f; const TAPS: u32 = {taps}u; const LINEAR: bool = {linear}; \
         const PIXEL_LANES: u32 = {PIXEL_LANES}u; const TEXEL_LANES: u32 = {TEXEL_LANES}u; const BINS: u32 = {BINS}u; \
         const BINS_PER_OCTAVE: f32 = {BINS_PER_OCTAVE:?}f; const NEAR: f32 = {NEAR:?}f; const BACKDROP: f32 = {BACKDROP:?}f; \
         const MIN_ALPHA: u32 = {MIN_ALPHA}u; const LEAST_ENTRY: f32 = {LEAST_ENTRY:?}f; \
         const TOGETHER_TEXELS: u32 = {TOGETHER_TEXELS}u; const PATCH_TEXELS: u32 = {PATCH_TEXELS}u; \
         const GROUPS_ACROSS: u32 = {GROUPS_ACROSS}u; const TRIANGLE_LANES: u32 = {TRIANGLE_LANES}u; \
         const PARTS: u32 = {PARTS}u; const REGIONS: u32 = {REGIONS}u; const TRIANGLE_BITS: u32 = {TRIANGLE_BITS}u; const SEAM: u32 = {SEAM}u; \
         const TALLY_WORDS: u32 = {TALLY_WORDS}u; const TALLY_STRIDE: u32 = {TALLY_STRIDE}u; \
         const SMALL_TEXTURE: u32 = {SMALL_TEXTURE}u; const SQUARE_OF_SMALL: u32 = {small}u; const SQUARE_OF_LARGE: u32 = {large}u; const COARSE: u32 = {COARSE}u; const SQUARES: u32 = {SQUARES}u; const ONE_IN: u32 = {ONE_IN}u; \
         const LEVELS: u32 = {LEVELS}u; const BLOCK: u32 = {BLOCK}u; const SLOPE_FLOOR: f32 = {SLOPE_FLOOR:?}f;\n"
    ) + &splat_prelude()
        + &structures_in_wgsl()
}

/// The kind of patches that a stage over rows is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Patches {
    /// With a list of texels.
    Listed,
    /// Bins of rows with a box.
    RowBins,
}

impl Patches {
    pub(super) const BOTH: [Self; 2] = [Self::Listed, Self::RowBins];

    pub(super) fn prelude(self) -> String {
        let (binned, lanes, places) = match self {
            Self::Listed => (false, LIST_LANES, PATCH_TEXELS),
            Self::RowBins => (true, ROW_BIN_LANES, ROW_BIN_REACH * ROW_BIN_REACH),
        };
        format!(
            "const BINNED: bool = {binned}; const ROW_LANES: u32 = {lanes}u; const PLACES: u32 = {places}u;\n"
        )
    }
}

/// Declares structures that WGSL has too.
macro_rules! shared {
    ($($(#[$of:meta])* struct $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$of])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
            #[repr(C)]
            pub(super) struct $name {
                $($(#[$doc])* pub(super) $field: $type,)*
            }
        )*

        /// The same in WGSL.
        fn structures_in_wgsl() -> String {
            let field = |name: &str, of: &str| format!("{name}: {}, ", in_wgsl(of));
            [$(
                concat!("struct ", stringify!($name), " { ").to_owned(),
                $(field(stringify!($field), stringify!($type)),)*
                "} ".to_owned(),
            )*].concat()
        }

        /// The name of each structure, its fields with their offsets, and its size.
        #[cfg(test)]
        pub(super) fn structures() -> Vec<(&'static str, Vec<(String, u32)>, u32)> {
            let field = |name: &str, offset: usize| (name.to_owned(), offset as u32);
            vec![$((
                stringify!($name),
                vec![$(field(stringify!($field), std::mem::offset_of!($name, $field))),*],
                size_of::<$name>() as u32,
            )),*]
        }
    };
}

/// A type of a field in WGSL.
fn in_wgsl(of: &str) -> &str {
    match of {
        "[f32; 2]" => "vec2<f32>",
        "[f32; 4]" => "vec4<f32>",
        "[u32; 2]" => "vec2<u32>",
        scalar => scalar,
    }
}

shared! {
    /// A tile's part of one view, with the view's camera in scene units.
    struct Region {
        /// Rows of the camera's rotation, each with its component of the translation.
        row_x: [f32; 4],
        row_y: [f32; 4],
        row_z: [f32; 4],
        focal: [f32; 2],
        /// In pixels from the region's top left corner, so that small numbers keep their digits.
        centre: [f32; 2],
        size: [u32; 2],
        /// Top left corner in the view.
        origin: [u32; 2],
        texture_size: u32,
        /// Position of the view among those added, its first block among the blocks of all views, and its blocks across
        /// (lower half) and down (upper half).
        view: u32,
        first_block: u32,
        blocks: u32,
        /// The rows of the window that the window solves for: first, and past the last. 0 where the window is the whole
        /// texture.
        core: [u32; 2],
        /// Where the visibility bits of the texture's squares are (`visible.rs`); 0 where no visible blocks are recorded.
        squares_at: u32,
        /// Listed blocks of all regions of the tile.
        listed: u32,
        /// Where the map of its blocks is.
        map_at: u32,
        unused_0: u32,
        unused_1: u32,
        unused_2: u32,
    }

    /// Contents or capacity of a pool of rows.
    struct Pool {
        /// Listed patches; bins are not counted.
        patches: u32,
        rows: u32,
        /// Of entries and boxes, and of the patches' lists of texels.
        words: u32,
    }

    /// Which patches of a pool a pass visits: those of the subset, or all. Those of the subset lie at the beginning of the
    /// buffer, the others at its end.
    struct Visited {
        patches: u32,
        /// At the beginning.
        first: u32,
        /// Unused places between those and the others.
        gap: u32,
        /// The same for bins.
        row_bins: u32,
        first_row_bins: u32,
        row_bins_gap: u32,
        /// Texels in a row of the window, and in all.
        size: u32,
        count: u32,
        /// 1 where the rows of bins are visited through `order`, not moved into it.
        ordered: u32,
        unused_0: u32,
        unused_1: u32,
        unused_2: u32,
    }

    /// Parameters of sorting rows into bins (`row_bins.wgsl`).
    struct Ordering {
        /// Rows of the pool that have a box.
        rows: u32,
        /// Bins of the window, and bins in a line.
        row_bins: u32,
        across: u32,
        /// Texels in a row of the window.
        size: u32,
        /// Capacity for patches: those of the subset lie at its beginning, the others at its end.
        room: u32,
        /// Invocations of a dispatch over rows, and over bins.
        row_stride: u32,
        row_bin_stride: u32,
    }

    /// Rows that one workgroup takes, and the texels that they touch.
    struct Patch {
        /// Index of its first row; for a bin, index in `order`.
        first_row: u32,
        /// Where its list of texels begins in the words; for a bin, its corner texel.
        first_texel: u32,
        /// Rows in the lower half, at most [`LISTED_MOST`] where there is a list; texels of the list in the upper, at most
        /// [`PATCH_TEXELS`].
        counts: u32,
        /// [`LISTED`], [`ROW_BIN_ROWS`] or [`SEAM`]. The entries of a seam are signed, its target is 0, and its rows have a
        /// weight for each channel.
        kind: u32,
    }

    struct Row {
        /// Where its entries or its box begin in the words.
        start: u32,
        /// Bit 0: the row is in the subset. Bits 1-5: its box, or [`NO_BOX`]. Without one, the bits above count the
        /// entries; with one, bits 6-13 are the box's corner in its bin, and the bits above are the bin.
        shape: u32,
        /// Observed sRGB, and alpha.
        colour: u32,
        /// Its block among those of all views; the lower six bits are its pixel within the block.
        place: u32,
    }

    /// Blocks and robust loss of a view.
    struct Judged {
        /// 1/c² of the robust loss: 0 for an infinite scale, negative for an excluded view.
        scale: f32,
        share: f32,
        /// As in [`Region`].
        first_block: u32,
        blocks: u32,
    }

    /// Parameters of every stage over texels.
    struct Texels {
        size: u32,
        count: u32,
        /// Workgroups of a dispatch over all texels, and their invocations. Each takes every `stride`-th texel.
        groups: u32,
        stride: u32,
        /// λ of links as a share of the mean diagonal, and the weight of seams as a multiple of λ.
        smoothness: f32,
        seam_ratio: f32,
        /// 1 where only the rows of the subset exist.
        narrowed: u32,
    }

    /// What a dispatch of `project` does (`splat_project.wgsl`).
    struct SplatTurn {
        /// Of the first layer of workgroups.
        first_shot: u32,
        /// 1 where nothing is stored.
        counting: u32,
        splats: u32,
        /// Invocations of a layer.
        stride: u32,
        /// Words of a shot's counters.
        counters: u32,
        /// Words of a splat's harmonics.
        words: u32,
        degree: u32,
        /// 1 where the opacity makes up for the filter.
        mip: u32,
    }

    /// A view of splats, and the window of it that is drawn.
    struct SplatShot {
        /// Rows of the camera's rotation, each with its component of the translation.
        row_x: [f32; 4],
        row_y: [f32; 4],
        row_z: [f32; 4],
        /// The camera's place in the world, and the variance that is added, px².
        eye: [f32; 4],
        focal: [f32; 2],
        /// In pixels from the window's top left corner.
        centre: [f32; 2],
        /// Largest |x/z| and |y/z| in the Jacobian.
        most: [f32; 2],
        /// Width and height of the window, and its tiles across and down.
        size: [f32; 2],
        tiles: [u32; 2],
        /// Bits of the least depth, and the key of a splat that does not show.
        least: u32,
        hidden: u32,
    }

    /// The digit by which pairs are sorted.
    struct SplatSorting {
        /// Its lowest bit.
        shift: u32,
        unused_0: u32,
        unused_1: u32,
        unused_2: u32,
    }

    /// Rows of tiles of a window that are drawn together.
    struct SplatBand {
        /// Tiles of the window, across and down.
        across: u32,
        down: u32,
        first_row: u32,
        rows: u32,
        /// Width and height of the window in pixels.
        width: u32,
        height: u32,
        /// Splats that show.
        visible: u32,
        /// Pairs of each tile that are blended: the first one's number, and how many at most.
        first: u32,
        most: u32,
        /// 1 where no more pairs follow.
        last: u32,
        /// 1 where pairs are stored, 0 where they are counted.
        storing: u32,
        unused: u32,
    }

    /// Scalars of one channel's solver. The host never reads them; the type is here for its layout.
    struct Scalars {
        alpha: f32,
        beta: f32,
        rz: f32,
        /// λ at unit slope, absolute.
        smoothness: f32,
        /// `|x| + 1 < 2^reach_x`, `|p| < 2^reach_p`.
        reach_x: i32,
        reach_p: i32,
        unused_0: u32,
        unused_1: u32,
    }
}

impl Pool {
    /// Capacity of a pool of `words` words. A row with a box has some six words, a patch of other rows hundreds. Other
    /// proportions leave part of the pool unused.
    pub(super) const fn of_words(words: u32) -> Self {
        Self {
            patches: words / 256,
            rows: words / 6,
            words,
        }
    }

    /// Initial capacity for patches of bins. Each has hundreds of rows where a texture has no more texels than its
    /// views have pixels.
    pub(super) const fn row_bins(self) -> u32 {
        self.rows / 16 + 16
    }

    /// Bytes of its buffers.
    pub(super) const fn bytes(self) -> u64 {
        let patches = self.patches as u64 + self.row_bins() as u64;
        // Includes its weight.
        let row = size_of::<Row>() as u64 + 4;
        patches * size_of::<Patch>() as u64 + self.rows as u64 * row + self.words as u64 * 4
    }

    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            patches: self.patches.saturating_add(more.patches),
            rows: self.rows.saturating_add(more.rows),
            words: self.words.saturating_add(more.words),
        }
    }

    pub(super) fn within(self, room: Self) -> bool {
        self.patches <= room.patches && self.rows <= room.rows && self.words <= room.words
    }
}

/// Largest number of blocks of all views that a [`Row::place`] can name.
pub(super) const MOST_BLOCKS: u64 = 1 << 26;

/// [`Row::shape`] of a row without a box.
pub(super) fn listed_shape(entries: u32) -> u32 {
    entries << 6 | NO_BOX << 1
}

/// An entry: a weight in single precision whose lowest eight bits are its place in the patch's list.
pub(super) fn entry(weight: f32, place: u32) -> u32 {
    (weight.to_bits() + PLACE.div_ceil(2)) & !PLACE | place
}

/// Size of a row's box and its corner in the bin; none for a row without one.
#[cfg(test)]
pub(super) fn box_of(shape: u32) -> Option<([u32; 2], [u32; 2])> {
    let (shape, corner) = (shape >> 1 & NO_BOX, shape >> 6 & 255);
    let size = [shape % BOX + 1, shape / BOX + 1];
    (shape != NO_BOX).then_some((size, [corner % ROW_BIN, corner / ROW_BIN]))
}

#[cfg(test)]
pub(super) fn row_bin_of(shape: u32) -> u32 {
    shape >> 14
}

#[cfg(test)]
pub(super) fn box_weights(words: &[u32], texels: u32) -> Vec<f32> {
    let of = |k: u32| words[k as usize / 2] >> (16 * (k % 2)) & 0xffff;
    (0..texels).map(|k| of(k) as f32 / WEIGHT_STEPS).collect()
}

#[cfg(test)]
pub(super) fn entry_parts(entry: u32) -> (f32, u32) {
    (f32::from_bits(entry & !PLACE), entry & PLACE)
}

/// Workgroups for `count` texels. Each invocation takes every n-th texel.
pub(super) fn texel_groups(count: u32) -> u32 {
    count.div_ceil(TEXEL_LANES).clamp(1, TEXEL_GROUPS)
}
