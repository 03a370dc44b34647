//! A whole real bake on llvmpipe (or a GPU), and one of its Vulkan calls made to fail: first count the calls, then loop over them, as
//! `SQLite` is tested.
//!
//! ```text
//!  world  asset, layer, one undisturbed bake ─▶ its GLB and the list of its calls
//!  cell   call × (four errors × once, for ever; hang), or a dropped command ─▶ the bake again
//!  judge  the same GLB bit for bit, or an error that is right for the fault; no process and no file left
//! ```

mod asset;

mod world;

mod cell;

mod judge;

mod sample;

pub use cell::{Cell, drops, faults};
pub use judge::{Kind, Seen, Violation, judge};
pub use sample::sample;
pub use world::{Finished, LLVMPIPE, Walls, World, WorldError};
