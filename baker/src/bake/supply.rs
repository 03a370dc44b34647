//! Where views come from, and where the textures of their layers go: the supervisor; in tests anything.

use proto::message::{Failure, Table};
use proto::table::{LayerSet, LayerTexture, LayeredView, View};

use super::layers;
use crate::run::internal;
use crate::session::Session;

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

impl Supply for &Session {
    fn next(&mut self, wanted: LayerSet) -> Result<Option<(LayeredView, LayerSet)>, Failure> {
        self.receive_layered(wanted)
            .map_err(|error| internal(&error))
    }

    fn again(&mut self) -> Result<(), Failure> {
        Session::again(self).map_err(|error| internal(&error))
    }

    fn put(&mut self, texture: &LayerTexture) -> Result<(), Failure> {
        let bytes = LayerTexture::bytes_for(texture.size);
        Session::put(self, Table::Layer(texture.layer), bytes, |out| {
            texture.write(out)
        })
        .map_err(|error| internal(&error))
    }
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
