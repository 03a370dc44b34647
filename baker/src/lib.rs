//! Kiln's worker. One process runs one role for one job:
//!
//! - [`prepare`] reads the mesh file and the pictures and writes flat tables. Untrusted bytes end here. It uses no GPU.
//! - [`bake`] turns flat tables into a texture, on its own GPU context or on the processor.
//! - [`encode`] turns texture and mesh into PNG, GLB and preview. It uses no GPU.
//! - [`compare`] runs in place of prepare: it turns finished meshes and views into figures.
//!
//! Invariants:
//!
//! - A worker never outlives its supervisor or its job.
//! - It is sandboxed from its first act on ([`sandbox`]), and the supervisor opens every file for it.
//! - A panic is a bug. Like every crash it leaves a note of where it happened (`last_words`).
//! - Unsafe code is denied, except where an attribute gives the reason.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod sandbox;

mod failure;
pub mod folder;
mod memory;
mod pace;
pub mod progress;
pub mod session;
mod step_times;

pub mod prepare;

pub mod bake;

pub mod encode;

pub mod compare;

pub mod render;

pub mod survey;

mod doctor;
#[cfg(feature = "failpoints")]
mod failpoints;
mod last_words;
mod run;

pub use last_words::Noted;
pub use run::run;
