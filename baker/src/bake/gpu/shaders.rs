//! The shader files as the host sees them: bindings and entry points, read from their text.
//!
//! All entry points of a file share one layout, so one bind group serves them all. Group 0 is the tally, except for
//! drawing. Group 1 is the file's own. Group 2 is the pool of rows, for entry points over rows. A binding is declared on
//! one line, and an entry point's attributes stand on the line before it. A test holds what is read here against a
//! parser of the language.

use proto::job::Blend;

use super::layout::{Patches, prelude};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Uniform,
    Read,
    Write,
    /// Texture of unsigned integers.
    Ids,
}

/// A compute entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    /// Its workgroup, as the shader has it.
    workgroup: &'static str,
}

impl Entry {
    /// Whether it is compiled for both kinds of patches.
    pub(super) fn is_over_rows(self) -> bool {
        self.workgroup == "ROW_LANES"
    }
}

#[derive(Debug)]
pub(super) struct Shader {
    pub(super) name: &'static str,
    text: &'static [&'static str],
}

impl Shader {
    /// The shader's whole source for a job; for a shader over rows, compiled for this kind of patches.
    pub(super) fn source(&self, taps: u32, blend: Blend, patches: Patches) -> String {
        let mut source = self.text.concat();
        source.push_str(&prelude(taps, blend));
        source.push_str(&patches.prelude());
        source
    }

    /// Its compute entry points.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let pairs = self
            .text
            .iter()
            .flat_map(|text| text.lines().zip(text.lines().skip(1)));
        let entry = |(attributes, line): (&'static str, &'static str)| {
            let workgroup = attributes.strip_prefix("@compute @workgroup_size(")?;
            let (name, _) = line.strip_prefix("fn ")?.split_once('(')?;
            let workgroup = workgroup.strip_suffix(')')?;
            Some(Entry { name, workgroup })
        };
        pairs.filter_map(entry).collect()
    }

    /// What the group of its own binds. It is the first where there is no tally.
    pub(super) fn bindings(&self) -> Vec<Kind> {
        let own = u32::from(!self.entries().is_empty());
        bindings(self.text, own)
    }

    /// Whether its stages clear the workgroup memory that they sum in themselves.
    pub(super) fn clears_memory(&self) -> bool {
        let clears = ["ROW_LANES", "SPLAT_LANES", "SPLAT_TILE, SPLAT_TILE"];
        (self.entries().iter()).any(|entry| clears.contains(&entry.workgroup))
    }

    pub(super) fn is_over_rows(&self) -> bool {
        self.entries().iter().any(|entry| entry.is_over_rows())
    }
}

/// Group 0 of every compute entry point.
pub(super) fn tally() -> Vec<Kind> {
    bindings(&[TALLY_WGSL], 0)
}

/// Group 2 of every entry point over rows.
pub(super) fn rows() -> Vec<Kind> {
    bindings(&[ROWS_WGSL], 2)
}

/// The kinds that a group binds, in order.
fn bindings(text: &[&str], group: u32) -> Vec<Kind> {
    let group = format!("@group({group}) @binding(");
    let mut found: Vec<(u32, Kind)> = (text.iter().flat_map(|text| text.lines()))
        .filter_map(|line| {
            let (number, declared) = line.strip_prefix(&group)?.split_once(") var")?;
            let kind = match declared.split_once('>').map(|(space, _)| space) {
                Some("<uniform") => Kind::Uniform,
                Some("<storage, read") => Kind::Read,
                Some("<storage, read_write") => Kind::Write,
                _ => Kind::Ids,
            };
            Some((number.parse().ok()?, kind))
        })
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, kind)| kind).collect()
}

/// Layout of a group of these bindings.
pub(super) fn bind_layout(
    device: &wgpu::Device,
    label: &str,
    bindings: &[Kind],
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
        .map(|(binding, kind)| wgpu::BindGroupLayoutEntry {
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
const SPLAT_SCAN_WGSL: &str = include_str!("shaders/splat_scan.wgsl");

pub(super) static RASTER: Shader = Shader {
    name: "raster",
    text: &[include_str!("shaders/raster.wgsl"), TILE_WGSL],
};

pub(super) static NEAREST: Shader = Shader {
    name: "nearest",
    text: &[include_str!("shaders/nearest.wgsl"), TALLY_WGSL, TILE_WGSL],
};

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
};

pub(super) static ROW_BINS: Shader = Shader {
    name: "row_bins",
    text: &[
        include_str!("shaders/row_bins.wgsl"),
        TALLY_WGSL,
        PATCH_WGSL,
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
};

pub(super) static SPLAT_PROJECT: Shader = Shader {
    name: "splat_project",
    text: &[
        include_str!("shaders/splat_project.wgsl"),
        TALLY_WGSL,
        SPLAT_ELLIPSE_WGSL,
    ],
};

pub(super) static SPLAT_SORT: Shader = Shader {
    name: "splat_sort",
    text: &[
        include_str!("shaders/splat_sort.wgsl"),
        TALLY_WGSL,
        SPLAT_SCAN_WGSL,
    ],
};

pub(super) static SPLAT_TILES: Shader = Shader {
    name: "splat_tiles",
    text: &[
        include_str!("shaders/splat_tiles.wgsl"),
        TALLY_WGSL,
        SPLAT_ELLIPSE_WGSL,
        SPLAT_SCAN_WGSL,
    ],
};

pub(super) static SPLAT_BLEND: Shader = Shader {
    name: "splat_blend",
    text: &[include_str!("shaders/splat_blend.wgsl"), TALLY_WGSL],
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
};

pub(super) static REGULARISE: Shader = Shader {
    name: "regularise",
    text: &[
        include_str!("shaders/regularise.wgsl"),
        TALLY_WGSL,
        include_str!("shaders/planes.wgsl"),
        TEXELS_WGSL,
        DISPLAY_WGSL,
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
};

pub(super) static SOLVE: Shader = Shader {
    name: "solve",
    text: &[
        include_str!("shaders/solve.wgsl"),
        TALLY_WGSL,
        include_str!("shaders/planes.wgsl"),
        TEXELS_WGSL,
    ],
};

pub(super) static TICK: Shader = Shader {
    name: "tick",
    text: &[include_str!("shaders/tick.wgsl"), TALLY_WGSL],
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
