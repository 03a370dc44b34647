//! Where mesh and views come from, and where the textures of other channels go. That is the
//! supervisor, or anything in tests.

mod handed;

pub use handed::HandedViews;

use std::time::Instant;

use proto::message::Failure;
use proto::table::{LayerSet, LayerTexture, LayeredView, Mesh, View};

use crate::image::splats::Undrawn;

/// A mesh and its atlas.
#[derive(Clone, Debug)]
pub struct Unwrapped {
    /// The mesh with texture coordinates.
    pub mesh: Mesh,
    /// Edge of its atlas in texels.
    pub texture_size: u32,
    /// Time at which it came.
    pub came: Instant,
}

/// Draws views of splats, several at a time.
pub(crate) trait Artist {
    /// Fills in the pixels of views that have none.
    ///
    /// # Errors
    /// What draws them failed.
    fn draw(&mut self, splats: &Undrawn, views: &mut [&mut View]) -> Result<(), Failure>;
}

/// Source of the mesh and its views, and receiver of the textures of other channels.
///
/// A call fails if what it asks for does not come, or what it sends is not taken.
pub trait ViewSource {
    /// The next view that comes before the mesh, without its other channels, and the set of those that it has. None
    /// once the mesh is there, or every view was yielded.
    fn early(&mut self) -> Result<Option<(View, LayerSet)>, Failure>;

    /// Whether every view came before the mesh.
    fn all_came(&self) -> bool;

    /// The mesh; called once.
    fn mesh(&mut self) -> Result<Unwrapped, Failure>;

    /// The next view with the `wanted` ones of its other channels, and the set of those that it has; none after the
    /// last.
    fn next(&mut self, wanted: LayerSet) -> Result<Option<(LayeredView, LayerSet)>, Failure>;

    /// Requests all views again.
    fn again(&mut self) -> Result<(), Failure>;

    /// Sends a texture.
    fn put(&mut self, texture: &LayerTexture) -> Result<(), Failure>;
}
