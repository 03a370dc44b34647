//! What every message and report speaks of: the roles of processes, the phases of their work, and the adapter that a bake opens.

use serde::{Deserialize, Serialize};

worded! {
    /// What a child process is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum Role {
        /// Untrusted files into flat tables.
        Prepare = "prepare",
        /// Flat tables into a texture.
        Bake = "bake",
        /// Texture and mesh into a GLB.
        Encode = "encode",
    }
}

worded! {
    /// A step of the pipeline, in the order of the data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Phase {
        /// A child has been spawned and has not spoken about its work yet.
        Start = "start",
        /// Mesh file into triangles.
        LoadMesh = "load_mesh",
        /// Prepare: find the surface of splats without a mesh.
        Surface = "surface",
        /// Weld, drop, check.
        Clean = "clean",
        /// Weld, orient, remove what is unseen, fill holes.
        Repair = "repair",
        /// Fewer triangles.
        Simplify = "simplify",
        /// Charts and atlas.
        Unwrap = "unwrap",
        /// Pictures into pixels.
        DecodeViews = "decode_views",
        /// Adapter, device, pipelines.
        OpenDevice = "open_device",
        /// Cameras and exposures to where silhouettes and views agree.
        Refine = "refine",
        /// Views into triangle ids and footprints.
        Raster = "raster",
        /// Weighted average and pull-push.
        Init = "init",
        /// Reweighted least squares.
        Fit = "fit",
        /// Past the chart borders.
        Gutter = "gutter",
        /// Normals and occlusion of the surface before simplification.
        Detail = "detail",
        /// Texels into PNG.
        Png = "png",
        /// Mesh and PNG into GLB.
        Glb = "glb",
        /// Held-out views against the result.
        Measure = "measure",
        /// The contact sheet, and the maps.
        Preview = "preview",
        /// The supervisor puts the result in place.
        Commit = "commit",
    }
}

impl Phase {
    /// A role may be in both at the same time.
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
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The phase at that place.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// The adapter that baked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
