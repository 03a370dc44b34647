#![doc = include_str!("../README.md")]

mod bounds;
mod cells;
mod scene;
mod spans;
pub mod vector;

pub use bounds::{Bounds, triangle_bounds};
pub use cells::touched;
pub use scene::{Edges, Hits, Line, NOTHING, Scene};
pub use spans::columns;
