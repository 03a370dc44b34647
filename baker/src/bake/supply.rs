//! Where views come from, and where the textures of their layers go: the supervisor; in tests anything.

mod handed;

pub use handed::HandedViews;

use proto::message::Failure;
use proto::table::{LayerSet, LayerTexture, LayeredView, View};

use super::layers;

/// Where views come from, and where the textures of their layers go.
pub trait Supply {
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

/// Views without layers: they are asked for once, and nothing else is.
impl<F: FnMut() -> Result<Option<View>, Failure>> Supply for F {
    fn next(&mut self, _: LayerSet) -> Result<Option<(LayeredView, LayerSet)>, Failure> {
        let layers = Vec::new();
        Ok(self()?.map(|view| (LayeredView { view, layers }, LayerSet::default())))
    }

    fn again(&mut self) -> Result<(), Failure> {
        Err(layers::no_layers())
    }

    fn put(&mut self, _: &LayerTexture) -> Result<(), Failure> {
        Err(layers::no_layers())
    }
}
