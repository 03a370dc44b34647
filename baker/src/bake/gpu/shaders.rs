//! The shader files as the host sees them: the bindings of each, listed once and in order, and its entry points.
//!
//! All entry points of a file share one layout, so one bind group serves them all. Group 0 is the tally, except for
//! drawing. Group 1 is the file's own. Group 2 is the pool of rows, for entry points over rows. A test parses every
//! file and compares names, kinds, order and workgroup sizes.

use proto::job::Blend;

#[cfg(test)]
use super::layout::{
    LIST_LANES, PIXEL_LANES, ROW_BIN_LANES, SPLAT_LANES, SPLAT_TILE, TEXEL_LANES, TRIANGLE_LANES,
};
use super::layout::{Patches, prelude};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Uniform,
    Read,
    Write,
    /// Texture of unsigned integers.
    Ids,
}

/// What an invocation handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Pixels,
    Rows,
    Texels,
    /// One invocation for the whole dispatch.
    Submission,
    Triangles,
    Listed,
    /// Splats, or pairs of a tile and a splat.
    Splats,
    /// The pixels of a tile of splats.
    SplatPixels,
    /// Drawn by the graphics pipeline (`raster.rs`).
    Graphics,
}

#[cfg(test)]
impl Over {
    pub(super) fn workgroup(self, patches: Patches) -> [u32; 3] {
        let lanes = match patches {
            Patches::Listed => LIST_LANES,
            Patches::RowBins => ROW_BIN_LANES,
        };
        match self {
            Self::Pixels => [PIXEL_LANES, PIXEL_LANES, 1],
            Self::Rows => [lanes, 1, 1],
            Self::Texels => [TEXEL_LANES, 1, 1],
            Self::Triangles | Self::Listed => [TRIANGLE_LANES, 1, 1],
            Self::Splats => [SPLAT_LANES, 1, 1],
            Self::SplatPixels => [SPLAT_TILE, SPLAT_TILE, 1],
            Self::Submission => [1, 1, 1],
            Self::Graphics => [0, 0, 0],
        }
    }
}

#[derive(Debug)]
pub(super) struct Shader {
    pub(super) name: &'static str,
    text: &'static [&'static str],
    pub(super) bindings: &'static [(&'static str, Kind)],
    pub(super) entries: &'static [(&'static str, Over)],
}

impl Shader {
    /// The shader's whole source for a job; for a shader over rows, compiled for this kind of patches.
    pub(super) fn source(&self, taps: u32, blend: Blend, patches: Patches) -> String {
        let mut source = self.text.concat();
        source.push_str(&prelude(taps, blend));
        source.push_str(&patches.prelude());
        source
    }

    /// Whether its stages clear the workgroup memory that they sum in themselves.
    pub(super) fn clears_memory(&self) -> bool {
        let clears = |over| matches!(over, Over::Rows | Over::Splats | Over::SplatPixels);
        self.entries.iter().any(|(_, over)| clears(*over))
    }

    pub(super) fn is_over_rows(&self) -> bool {
        self.entries.iter().any(|(_, over)| *over == Over::Rows)
    }
}

/// Group 0 of every compute entry point.
pub(super) const TALLY: &[(&str, Kind)] = &[("tally", Kind::Write)];

/// Group 2 of every entry point over rows.
pub(super) const ROWS: &[(&str, Kind)] = &[
    ("visited", Kind::Uniform),
    ("patches", Kind::Read),
    ("rows", Kind::Read),
    ("words", Kind::Read),
    ("trust", Kind::Write),
    ("tones", Kind::Uniform),
    ("blocks", Kind::Write),
    ("order", Kind::Read),
    ("row_bins", Kind::Read),
];

/// Layout of a group of these bindings.
pub(super) fn bind_layout(
    device: &wgpu::Device,
    label: &str,
    bindings: &[(&str, Kind)],
) -> wgpu::BindGroupLayout {
    let buffer = |ty| wgpu::BindingType::Buffer {
        ty,
        has_dynamic_offset: false,
        min_binding_size: None,
    };
    let texture = |sample_type| wgpu::BindingType::Texture {
        sample_type,
        view_dimension: wgpu::TextureViewDimension::D2,
        multisampled: false,
    };
    let entries: Vec<_> = (0..)
        .zip(bindings)
        .map(|(binding, (_, kind))| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: match kind {
                // The vertex stage reads these two kinds as well.
                Kind::Uniform | Kind::Read => {
                    wgpu::ShaderStages::COMPUTE | wgpu::ShaderStages::VERTEX
                }
                Kind::Write | Kind::Ids => wgpu::ShaderStages::COMPUTE,
            },
            ty: match kind {
                Kind::Uniform => buffer(wgpu::BufferBindingType::Uniform),
                Kind::Read => buffer(wgpu::BufferBindingType::Storage { read_only: true }),
                Kind::Write => buffer(wgpu::BufferBindingType::Storage { read_only: false }),
                Kind::Ids => texture(wgpu::TextureSampleType::Uint),
            },
            count: None,
        })
        .collect();
    let descriptor = wgpu::BindGroupLayoutDescriptor {
        label: Some(label),
        entries: &entries,
    };
    device.create_bind_group_layout(&descriptor)
}

const TALLY_WGSL: &str = include_str!("shaders/tally.wgsl");
const TILE_WGSL: &str = include_str!("shaders/tile.wgsl");
const PATCH_WGSL: &str = include_str!("shaders/patch.wgsl");
const ROWS_WGSL: &str = include_str!("shaders/rows.wgsl");
const NEAR_WGSL: &str = include_str!("shaders/near.wgsl");
const NEAR_TEXELS_WGSL: &str = include_str!("shaders/near_texels.wgsl");
const TEXELS_WGSL: &str = include_str!("shaders/texels.wgsl");
const DISPLAY_WGSL: &str = include_str!("shaders/display.wgsl");
const SPLAT_ELLIPSE_WGSL: &str = include_str!("shaders/splat_ellipse.wgsl");
const SPLAT_BAND_WGSL: &str = include_str!("shaders/splat_band.wgsl");
const SPLAT_SCAN_WGSL: &str = include_str!("shaders/splat_scan.wgsl");

pub(super) static RASTER: Shader = Shader {
    name: "raster",
    text: &[include_str!("shaders/raster.wgsl"), TILE_WGSL],
    bindings: &[
        ("regions", Kind::Uniform),
        ("positions", Kind::Read),
        ("triangles", Kind::Read),
    ],
    entries: &[("project", Over::Graphics), ("nearest", Over::Graphics)],
};

pub(super) static NEAREST: Shader = Shader {
    name: "nearest",
    text: &[include_str!("shaders/nearest.wgsl"), TALLY_WGSL, TILE_WGSL],
    bindings: &[
        ("regions", Kind::Uniform),
        ("positions", Kind::Read),
        ("triangles", Kind::Read),
        ("nearest", Kind::Write),
        ("listed", Kind::Write),
        ("groups", Kind::Write),
        ("places", Kind::Read),
    ],
    entries: &[
        ("small", Over::Triangles),
        ("arrange", Over::Submission),
        ("large", Over::Listed),
    ],
};

const fn footprint_bindings(ids: Kind) -> [(&'static str, Kind); 14] {
    [
        ("regions", Kind::Uniform),
        ("positions", Kind::Read),
        ("triangles", Kind::Read),
        ("texel_coords", Kind::Read),
        ("pixels", Kind::Read),
        ("ids", ids),
        ("counters", Kind::Write),
        ("room", Kind::Uniform),
        ("new_patches", Kind::Write),
        ("new_rows", Kind::Write),
        ("new_words", Kind::Write),
        ("squares", Kind::Read),
        ("visible", Kind::Write),
        ("places", Kind::Read),
    ]
}

const FOOTPRINT_WGSL: &str = include_str!("shaders/footprint.wgsl");

/// Footprints of what [`RASTER`] drew.
pub(super) static FOOTPRINT_DRAWN: Shader = Shader {
    name: "footprint",
    text: &[
        FOOTPRINT_WGSL,
        include_str!("shaders/ids_drawn.wgsl"),
        TALLY_WGSL,
        TILE_WGSL,
        PATCH_WGSL,
    ],
    bindings: &footprint_bindings(Kind::Ids),
    entries: &[("footprint", Over::Pixels)],
};

/// Footprints of what [`NEAREST`] found.
pub(super) static FOOTPRINT_NEAREST: Shader = Shader {
    name: "footprint",
    text: &[
        FOOTPRINT_WGSL,
        include_str!("shaders/ids_nearest.wgsl"),
        TALLY_WGSL,
        TILE_WGSL,
        PATCH_WGSL,
    ],
    bindings: &footprint_bindings(Kind::Read),
    entries: &[("footprint", Over::Pixels)],
};

pub(super) static ROW_BINS: Shader = Shader {
    name: "row_bins",
    text: &[
        include_str!("shaders/row_bins.wgsl"),
        TALLY_WGSL,
        PATCH_WGSL,
    ],
    bindings: &[
        ("ordering", Kind::Uniform),
        ("rows", Kind::Read),
        ("keys", Kind::Write),
        ("counters", Kind::Write),
        ("row_bins", Kind::Write),
        ("order", Kind::Write),
        ("words", Kind::Read),
        ("new_rows", Kind::Write),
        ("new_words", Kind::Write),
    ],
    entries: &[
        ("count_boxes", Over::Texels),
        ("lay_out", Over::Texels),
        ("put_in_order", Over::Texels),
        ("move_rows", Over::Texels),
    ],
};

pub(super) static AVERAGE: Shader = Shader {
    name: "average",
    text: &[
        include_str!("shaders/average.wgsl"),
        TALLY_WGSL,
        PATCH_WGSL,
        ROWS_WGSL,
        TEXELS_WGSL,
    ],
    bindings: &[
        ("texels", Kind::Uniform),
        ("counts", Kind::Write),
        ("sum_r", Kind::Write),
        ("sum_g", Kind::Write),
        ("sum_b", Kind::Write),
        ("sum_w", Kind::Write),
        ("x_r", Kind::Write),
        ("x_g", Kind::Write),
        ("x_b", Kind::Write),
        ("weight", Kind::Write),
    ],
    entries: &[
        ("count", Over::Rows),
        ("scatter", Over::Rows),
        ("mean", Over::Texels),
    ],
};

pub(super) static RESIDUAL: Shader = Shader {
    name: "residual",
    text: &[
        include_str!("shaders/residual.wgsl"),
        TALLY_WGSL,
        PATCH_WGSL,
        ROWS_WGSL,
        NEAR_WGSL,
        NEAR_TEXELS_WGSL,
        DISPLAY_WGSL,
    ],
    bindings: &[
        ("x_r", Kind::Read),
        ("x_g", Kind::Read),
        ("x_b", Kind::Read),
        ("judged", Kind::Read),
        ("sums", Kind::Write),
    ],
    entries: &[
        ("residual", Over::Rows),
        ("survey", Over::Rows),
        ("survey_kept", Over::Rows),
        ("reweigh", Over::Rows),
        ("reweigh_redrawn", Over::Rows),
    ],
};

pub(super) static SPLAT_PROJECT: Shader = Shader {
    name: "splat_project",
    text: &[
        include_str!("shaders/splat_project.wgsl"),
        TALLY_WGSL,
        SPLAT_ELLIPSE_WGSL,
    ],
    bindings: &[
        ("turn", Kind::Uniform),
        ("shots", Kind::Read),
        ("places", Kind::Read),
        ("turns", Kind::Read),
        ("scales", Kind::Read),
        ("constants", Kind::Read),
        ("harmonics", Kind::Read),
        ("counters", Kind::Write),
        ("ellipses", Kind::Write),
        ("reaches", Kind::Write),
        ("keys", Kind::Write),
    ],
    entries: &[("project", Over::Splats)],
};

pub(super) static SPLAT_SORT: Shader = Shader {
    name: "splat_sort",
    text: &[
        include_str!("shaders/splat_sort.wgsl"),
        TALLY_WGSL,
        SPLAT_SCAN_WGSL,
    ],
    bindings: &[
        ("sorting", Kind::Uniform),
        ("total", Kind::Read),
        ("pairs", Kind::Read),
        ("sorted", Kind::Write),
        ("sums", Kind::Write),
    ],
    entries: &[
        ("count_digits", Over::Splats),
        ("sum_digits", Over::Splats),
        ("scatter", Over::Splats),
    ],
};

pub(super) static SPLAT_TILES: Shader = Shader {
    name: "splat_tiles",
    text: &[
        include_str!("shaders/splat_tiles.wgsl"),
        TALLY_WGSL,
        SPLAT_BAND_WGSL,
        SPLAT_ELLIPSE_WGSL,
        SPLAT_SCAN_WGSL,
    ],
    bindings: &[
        ("band", Kind::Uniform),
        ("ellipses", Kind::Read),
        ("reaches", Kind::Read),
        ("order", Kind::Write),
        ("sums", Kind::Write),
        ("total", Kind::Write),
        ("pairs", Kind::Write),
    ],
    entries: &[("list", Over::Splats), ("sum_pairs", Over::Splats)],
};

pub(super) static SPLAT_BLEND: Shader = Shader {
    name: "splat_blend",
    text: &[
        include_str!("shaders/splat_blend.wgsl"),
        TALLY_WGSL,
        SPLAT_BAND_WGSL,
    ],
    bindings: &[
        ("band", Kind::Uniform),
        ("ellipses", Kind::Read),
        ("sorted", Kind::Read),
        ("total", Kind::Read),
        ("ranges", Kind::Write),
        ("carried", Kind::Write),
        ("pixels", Kind::Write),
    ],
    entries: &[("find_ranges", Over::Splats), ("blend", Over::SplatPixels)],
};

pub(super) static DEVIATION: Shader = Shader {
    name: "deviation",
    text: &[
        include_str!("shaders/deviation.wgsl"),
        TALLY_WGSL,
        PATCH_WGSL,
        ROWS_WGSL,
        NEAR_WGSL,
        NEAR_TEXELS_WGSL,
        TEXELS_WGSL,
        DISPLAY_WGSL,
    ],
    bindings: &[
        ("texels", Kind::Uniform),
        ("x_r", Kind::Read),
        ("x_g", Kind::Read),
        ("x_b", Kind::Read),
        ("counts", Kind::Read),
        ("sum_e", Kind::Write),
        ("sum_w", Kind::Write),
        ("deviation", Kind::Write),
    ],
    entries: &[("deviate", Over::Rows), ("mean_deviation", Over::Texels)],
};

pub(super) static NORMAL: Shader = Shader {
    name: "normal",
    text: &[
        include_str!("shaders/normal.wgsl"),
        TALLY_WGSL,
        PATCH_WGSL,
        ROWS_WGSL,
        NEAR_WGSL,
        TEXELS_WGSL,
    ],
    bindings: &[
        ("texels", Kind::Uniform),
        ("v_r", Kind::Read),
        ("v_g", Kind::Read),
        ("v_b", Kind::Read),
        ("out_r", Kind::Write),
        ("out_g", Kind::Write),
        ("out_b", Kind::Write),
        ("exponents", Kind::Read),
        ("scalars", Kind::Read),
        ("trusted", Kind::Write),
    ],
    entries: &[
        ("weigh_seams", Over::Rows),
        ("bound", Over::Rows),
        ("diagonal", Over::Rows),
        ("defect", Over::Rows),
        ("apply", Over::Rows),
    ],
};

const PLANES: &[(&str, Kind)] = &[
    ("texels", Kind::Uniform),
    ("x_r", Kind::Write),
    ("x_g", Kind::Write),
    ("x_b", Kind::Write),
    ("r_r", Kind::Write),
    ("r_g", Kind::Write),
    ("r_b", Kind::Write),
    ("p_r", Kind::Write),
    ("p_g", Kind::Write),
    ("p_b", Kind::Write),
    ("q_r", Kind::Write),
    ("q_g", Kind::Write),
    ("q_b", Kind::Write),
    ("diagonal_r", Kind::Write),
    ("diagonal_g", Kind::Write),
    ("diagonal_b", Kind::Write),
    ("exponents", Kind::Write),
    ("counts", Kind::Read),
    ("lambda_r", Kind::Write),
    ("lambda_g", Kind::Write),
    ("lambda_b", Kind::Write),
    ("trusted", Kind::Read),
    ("links", Kind::Write),
    ("partials", Kind::Write),
    ("scalars", Kind::Write),
    ("coarse_r", Kind::Write),
    ("coarse_g", Kind::Write),
    ("coarse_b", Kind::Write),
];

pub(super) static REGULARISE: Shader = Shader {
    name: "regularise",
    text: &[
        include_str!("shaders/regularise.wgsl"),
        TALLY_WGSL,
        include_str!("shaders/planes.wgsl"),
        TEXELS_WGSL,
        DISPLAY_WGSL,
    ],
    bindings: PLANES,
    entries: &[
        ("observe", Over::Texels),
        ("reduce_observe", Over::Texels),
        ("soften", Over::Texels),
        ("scale", Over::Texels),
        ("settle", Over::Texels),
        ("enlist", Over::Texels),
    ],
};

pub(super) static MULTILEVEL: Shader = Shader {
    name: "multilevel",
    text: &[
        include_str!("shaders/multilevel.wgsl"),
        TALLY_WGSL,
        include_str!("shaders/planes.wgsl"),
        TEXELS_WGSL,
    ],
    bindings: PLANES,
    entries: &[
        ("weigh_texels", Over::Texels),
        ("weigh_1", Over::Texels),
        ("weigh_2", Over::Texels),
        ("weigh_3", Over::Texels),
        ("invert", Over::Texels),
        ("restrict_1", Over::Texels),
        ("restrict_2", Over::Texels),
        ("restrict_3", Over::Texels),
        ("prolong_2", Over::Texels),
        ("prolong_1", Over::Texels),
    ],
};

pub(super) static SOLVE: Shader = Shader {
    name: "solve",
    text: &[
        include_str!("shaders/solve.wgsl"),
        TALLY_WGSL,
        include_str!("shaders/planes.wgsl"),
        TEXELS_WGSL,
    ],
    bindings: PLANES,
    entries: &[
        ("measure", Over::Texels),
        ("reduce_measure", Over::Texels),
        ("begin", Over::Texels),
        ("set_out", Over::Texels),
        ("reduce_set_out", Over::Texels),
        ("finish_apply", Over::Texels),
        ("reduce_apply", Over::Texels),
        ("advance", Over::Texels),
        ("project", Over::Texels),
        ("reduce_project", Over::Texels),
        ("direct", Over::Texels),
        ("reduce_direct", Over::Texels),
    ],
};

pub(super) static TICK: Shader = Shader {
    name: "tick",
    text: &[include_str!("shaders/tick.wgsl"), TALLY_WGSL],
    bindings: &[],
    entries: &[("tick", Over::Submission)],
};

/// Every file, in the order of the data flow.
#[cfg(test)]
pub(super) static ALL: [&Shader; 17] = [
    &RASTER,
    &NEAREST,
    &FOOTPRINT_DRAWN,
    &FOOTPRINT_NEAREST,
    &ROW_BINS,
    &AVERAGE,
    &RESIDUAL,
    &NORMAL,
    &REGULARISE,
    &MULTILEVEL,
    &SOLVE,
    &DEVIATION,
    &SPLAT_PROJECT,
    &SPLAT_SORT,
    &SPLAT_TILES,
    &SPLAT_BLEND,
    &TICK,
];
