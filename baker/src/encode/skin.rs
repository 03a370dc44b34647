//! The colours from bake, as the files hold them.

use proto::blob::BlobFile;
use proto::job::Product;
use proto::message::Failure;
use proto::table::{Colours, Mesh, Texture};

use super::glb::{GlbError, light};
use crate::image::render::Paint;
use crate::worker::failure::internal;

/// The colours from bake.
#[derive(Clone, Debug)]
pub enum Skin {
    /// See [`Product::Texture`].
    Texture(Texture),
    /// See [`Product::VertexColours`]. In linear light, as the GLB has them, see [`super::glb::light`].
    Vertices(Vec<[u16; 4]>),
}

impl From<Texture> for Skin {
    fn from(texture: Texture) -> Self {
        Self::Texture(texture)
    }
}

impl Skin {
    pub(super) fn read(product: Product, blob: &BlobFile, mesh: &Mesh) -> Result<Self, Failure> {
        let input = &mut blob.reader();
        let skin = match product {
            Product::Texture => {
                Self::Texture(Texture::read(input).map_err(|error| internal(&error))?)
            }
            Product::VertexColours => {
                let colours = Colours::read(input).map_err(|error| internal(&error))?;
                if colours.colours.len() != mesh.positions.len() {
                    return Err(internal(&GlbError::Colours {
                        colours: colours.colours.len(),
                        positions: mesh.positions.len(),
                    }));
                }
                Self::Vertices(light(&colours))
            }
        };
        Ok(skin)
    }

    pub(super) fn paint(&self) -> Paint<'_> {
        match self {
            Self::Texture(texture) => texture.into(),
            Self::Vertices(colours) => Paint::Vertices(colours),
        }
    }
}
