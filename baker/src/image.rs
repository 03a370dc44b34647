//! Pictures and figures, without a role and without a session: PNG, sheets of tiles, a reference renderer, errors between
//! pictures, statistics of a texture, views of splats.

pub mod measure;
pub mod png;
pub mod render;
pub(crate) mod sheet;
pub(crate) mod splats;
pub mod survey;
