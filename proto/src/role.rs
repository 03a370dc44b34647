//! What every message and report speaks of: the roles of processes, the phases of their work, and the adapter that a bake opens.

use serde::{Deserialize, Serialize};

/// What a child process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Untrusted files into flat tables.
    Prepare,
    /// Flat tables into a texture.
    Bake,
    /// Texture and mesh into a GLB.
    Encode,
}

impl Role {
    /// The word on the command line of `kiln-baker`, in logs and in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Bake => "bake",
            Self::Encode => "encode",
        }
    }
}

/// A step of the pipeline, in the order of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A child has been spawned and has not spoken about its work yet.
    Start,
    /// Mesh file into triangles.
    LoadMesh,
    /// Prepare: find the surface of splats without a mesh.
    Surface,
    /// Weld, drop, check.
    Clean,
    /// Weld, orient, remove what is unseen, fill holes.
    Repair,
    /// Fewer triangles.
    Simplify,
    /// Charts and atlas.
    Unwrap,
    /// Pictures into pixels.
    DecodeViews,
    /// Adapter, device, pipelines.
    OpenDevice,
    /// Cameras and exposures to where silhouettes and views agree.
    Refine,
    /// Views into triangle ids and footprints.
    Raster,
    /// Weighted average and pull-push.
    Init,
    /// Reweighted least squares.
    Fit,
    /// Past the chart borders.
    Gutter,
    /// Normals and occlusion of the surface before simplification.
    Detail,
    /// Texels into PNG.
    Png,
    /// Mesh and PNG into GLB.
    Glb,
    /// Held-out views against the result.
    Measure,
    /// The contact sheet, and the maps.
    Preview,
    /// The supervisor puts the result in place.
    Commit,
}

impl Phase {
    /// In the order of the data.
    pub const ALL: [Self; 20] = [
        Self::Start,
        Self::LoadMesh,
        Self::Surface,
        Self::Clean,
        Self::Repair,
        Self::Simplify,
        Self::Unwrap,
        Self::DecodeViews,
        Self::OpenDevice,
        Self::Refine,
        Self::Raster,
        Self::Init,
        Self::Fit,
        Self::Gutter,
        Self::Detail,
        Self::Png,
        Self::Glb,
        Self::Measure,
        Self::Preview,
        Self::Commit,
    ];

    /// A role may be in both at the same time.
    #[must_use]
    pub fn is_beside(self, other: Self) -> bool {
        // Prepare has a thread for the views and one for the mesh.
        let of_mesh = |phase| {
            matches!(
                phase,
                Self::Clean | Self::Repair | Self::Simplify | Self::Unwrap
            )
        };
        match (self, other) {
            (Self::DecodeViews, phase) | (phase, Self::DecodeViews) => of_mesh(phase),
            _ => false,
        }
    }

    /// Its place in [`Phase::ALL`]: what the flight recorder stores.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The phase at that place.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// The word in logs, in JSON and in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::LoadMesh => "load_mesh",
            Self::Surface => "surface",
            Self::Clean => "clean",
            Self::Repair => "repair",
            Self::Simplify => "simplify",
            Self::Unwrap => "unwrap",
            Self::DecodeViews => "decode_views",
            Self::OpenDevice => "open_device",
            Self::Refine => "refine",
            Self::Raster => "raster",
            Self::Init => "init",
            Self::Fit => "fit",
            Self::Gutter => "gutter",
            Self::Detail => "detail",
            Self::Png => "png",
            Self::Glb => "glb",
            Self::Measure => "measure",
            Self::Preview => "preview",
            Self::Commit => "commit",
        }
    }
}

/// The adapter that baked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterInfo {
    /// `NVIDIA H200`, `llvmpipe (…)`, `processor (8 threads)`.
    pub name: String,
    /// `vulkan`, `metal`, `dx12` or `native`.
    pub backend: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `native`.
    pub kind: String,
    /// Driver and version, empty for the native one.
    pub driver: String,
}
