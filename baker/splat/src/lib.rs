#![doc = include_str!("../README.md")]

mod blend;
mod cloud;
mod colour;
mod draw;
mod exp;
mod project;
mod tiles;

pub use cloud::{Cloud, Dropped, MAX_DEGREE, Splat, coefficients};
pub use draw::{Picture, View, draw};
pub use project::Filter;
