//! Kiln's worker. A process of it has one role and one job:
//!
//! - [`prepare`]: mesh file and pictures into flat tables (untrusted bytes end here; no GPU),
//! - [`bake`]: flat tables into a texture (own GPU context, or the processor),
//! - [`encode`]: texture and mesh into PNG, GLB and preview (no GPU);
//!
//! or, in prepare's place, [`compare`]: finished meshes and views into figures.
//!
//! Invariants: a worker never outlives its supervisor or its job; it lives in a sandbox from its first act on ([`sandbox`])
//! and has each file opened by its supervisor; a panic is a bug, and like every crash it says where
//! it was (`last_words`), which alone is where this crate is unsafe.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod sandbox;

mod laps;
mod pace;
pub mod progress;
pub mod session;

pub mod prepare;

pub mod bake;

pub mod encode;

pub mod compare;

pub mod render;

mod spans;
pub mod survey;

mod doctor;
#[cfg(feature = "failpoints")]
mod failpoints;
mod last_words;
mod run;

pub use last_words::Noted;
pub use run::run;
