#![doc = include_str!("../README.md")]

mod blend;
mod cloud;
mod colour;
mod cover;
mod draw;
mod ellipse;
mod exp;
mod extract;
mod lanes;
mod machine;
mod order;
mod project;
mod shape;
mod surface;
mod tiles;
mod turn;
mod view;
mod volume;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use cloud::{Cloud, Dropped, MAX_DEGREE, Splat, coefficients};
pub use draw::{Picture, draw};
pub use extract::{Extracted, Fineness, around, extract};
pub use surface::Surface;
pub use turn::Turn;
pub use view::{Filter, View};
