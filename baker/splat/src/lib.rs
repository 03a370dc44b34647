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
mod work;

pub use cloud::{Cloud, Dropped, MAX_DEGREE, Splat, coefficients};
pub use draw::{Picture, draw};
pub use extract::{Extracted, Fineness, around, extract};
pub use surface::Surface;
pub use turn::Turn;
pub use view::{Filter, View};
pub use work::install;

/// Numbers of the model, for a twin of this renderer on another device.
pub mod numbers {
    pub use crate::blend::{CLOSED, MOST_ALPHA};
    pub use crate::colour::{C0, C1, C2, C3};
    pub use crate::ellipse::{LEAST_ALPHA, LEVELS};
    pub use crate::shape::{BOUND, HALF, NEAR};
    pub use crate::tiles::{SLACK, TILE};
}
