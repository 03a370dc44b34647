//! Makes single Vulkan calls of a real bake fail, on llvmpipe or a GPU. As in `SQLite`'s tests, it first counts the
//! calls and then loops over them.
//!
//! ```text
//!  world  asset, layer, one undisturbed bake ─▶ its GLB and the list of its calls
//!  cell   call × (four errors × once, for ever; hang), or a dropped command ─▶ the bake again
//!  judge  the same GLB bit for bit, or an error that fits the fault; no process and no file left
//! ```

mod asset;
mod cell;
mod judge;
mod sample;
mod world;

pub use cell::{Cell, drops, faults};
pub use judge::{Kind, Seen, Violation, judge};
pub use sample::sample;
pub use world::{Finished, LLVMPIPE, Source, Walls, World, WorldError};
