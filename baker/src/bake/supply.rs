//! Where the mesh and its views come from, and where the textures of their layers go: the supervisor; in tests anything.

mod handed;

pub use handed::HandedViews;

use std::time::Instant;

use proto::message::Failure;
use proto::table::{LayerSet, LayerTexture, LayeredView, Mesh, View};

/// A mesh and its atlas.
#[derive(Clone, Debug)]
pub struct Unwrapped {
    /// With its texture coordinates.
    pub mesh: Mesh,
    /// Edge of its atlas in texels.
    pub texture_size: u32,
    /// When it came.
    pub came: Instant,
}

/// Where the mesh and its views come from, and where the textures of their layers go.
pub trait Supply {
    /// The next view of those that come before the mesh, without its layers, and which it has; none once the mesh is there, or every
    /// view was yielded.
    ///
    /// # Errors
    /// It does not come.
    fn early(&mut self) -> Result<Option<(View, LayerSet)>, Failure>;

    /// Whether every view came before the mesh.
    fn all_came(&self) -> bool;

    /// The mesh, once.
    ///
    /// # Errors
    /// It does not come.
    fn mesh(&mut self) -> Result<Unwrapped, Failure>;

    /// The next view, with those of its layers that are wanted, and which it has; none after the last.
    ///
    /// # Errors
    /// It does not come.
    fn next(&mut self, wanted: LayerSet) -> Result<Option<(LayeredView, LayerSet)>, Failure>;

    /// All views once more.
    ///
    /// # Errors
    /// They do not come.
    fn again(&mut self) -> Result<(), Failure>;

    /// Hands a texture over.
    ///
    /// # Errors
    /// It is not taken.
    fn put(&mut self, texture: &LayerTexture) -> Result<(), Failure>;
}
