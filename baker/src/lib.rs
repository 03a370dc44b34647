//! Kiln's worker. One process runs one role for one job.
//!
//! ```text
//!  mesh file ──┐  prepare                    bake                      encode
//!  pictures ───┼─▶ load, clean, repair, ──▶  cameras, rows, fit, ──▶  PNG or KTX2, GLB, PLY, OBJ,
//!  cameras ────┘   simplify, unwrap, views   seams, maps              each read back; scores, sheet
//!                     │ Surface, Mesh, View     │ Texture or Colours      │ files
//!                     ▼                         ▼                         ▼
//!              ═══════ supervisor: sealed memory, one table or file each, over a socket ═══════
//!
//!  finished meshes, views ─▶ compare ─▶ figures, sheet          (in place of prepare)
//! ```
//!
//! - [`prepare`] reads the mesh file and the pictures and writes flat tables. Untrusted bytes end here. It uses no GPU.
//! - [`bake`] turns flat tables into a texture, on its own GPU context or on the processor.
//! - [`encode`] turns texture and mesh into PNG, GLB and preview. It uses no GPU.
//! - [`compare`] runs in place of prepare: it turns finished meshes and views into figures.
//!
//! Layers, lowest first. A module uses its own layer and those above it in this table, and no circle of imports has more
//! than three files.
//!
//! | layer | modules |
//! |---|---|
//! | crates of their own, which know nothing of Kiln | `kiln_raster`, `kiln_atlas` |
//! | a process: what every role needs to run | [`worker`]: session, sandbox, progress, last words |
//! | pictures and geometry: no role, no session | [`image`]: PNG, sheets, reference renderer, errors between pictures |
//! | roles | [`prepare`], [`bake`], [`encode`], [`compare`] |
//! | dispatch | `run`, `doctor` |
//!
//! Of roles, encode and compare read meshes with prepare's readers, and prepare finds what views resolve with bake's
//! rasteriser.
//!
//! Invariants:
//!
//! - A worker never outlives its supervisor or its job.
//! - It is sandboxed from its first act on ([`worker::sandbox`]), and the supervisor opens every file for it.
//! - A panic is a bug. Like every crash it leaves a note of where it happened (`worker::last_words`).
//! - Unsafe code is denied, except where an attribute gives the reason.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod image;

pub mod worker;

pub mod bake;
pub mod compare;
pub mod encode;
pub mod prepare;

mod doctor;
mod run;

pub use crate::worker::last_words::Noted;
pub use run::run;
