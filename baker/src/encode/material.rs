//! Baked layers → the pictures of a glTF material: which slot, which channel, and how opaque it is.
//!
//! | picture | made of | slot |
//! |---|---|---|
//! | base colour | the texture; alpha is opacity, unless all of it is opaque | `baseColorTexture`, `alphaMode` |
//! | ORM | red occlusion, green roughness, blue metallic, as far as they are there | `metallicRoughnessTexture`, `occlusionTexture` |
//! | normal | see [`super::relief`] | `normalTexture` |
//! | emissive | as fitted | `emissiveTexture` |
//!
//! Colours have the format that was asked for. Numbers are stored without loss, or as UASTC where KTX2 is asked for: what JPEG
//! and ETC1S lose is chosen for eyes, and `KHR_texture_basisu` advises the same. Of several pages each has a file of its own;
//! what the pictures hold is the same for all.

use proto::blob::BlobFile;
use proto::job::{AlphaMode, Form, TextureFormat};
use proto::message::Failure;
use proto::table::{Layer, LayerTexture, Mesh, Provenance, Texture};

use super::pages::Sheets;
use super::picture::{self, TextureError};
use super::png::Kind;
use super::relief::relief;
use crate::pace;
use crate::progress::{Progress, each};
use crate::run::internal;

/// An opacity from here on is whole.
const WHOLE: u8 = 250;
/// Below the first it is as good as none, from the second on as good as whole: steps ring a little once they are fitted.
const CLEAR: u8 = 64;
const DENSE: u8 = 236;
/// Normals whose mean cosine with the mesh's is less are likely not in the space that the file says.
const LEAST_AGREEMENT: f32 = 0.7;

/// One picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its file, or those of its pages.
    pub files: Vec<Vec<u8>>,
    /// Of the files.
    pub format: TextureFormat,
    /// What the files hold, as one atlas.
    pub texels: Vec<[u8; 4]>,
}

/// The material beside its base colour.
#[derive(Clone, Debug, Default)]
pub struct Material {
    /// The base colour's alpha counts; never [`AlphaMode::Auto`] or [`AlphaMode::Opaque`].
    pub alpha: Option<AlphaMode>,
    /// Where [`AlphaMode::Mask`] cuts.
    pub alpha_cutoff: f32,
    /// Red is occlusion, green roughness, blue metallic.
    pub orm: Option<Picture>,
    /// Green and blue of it count.
    pub metallic_roughness: bool,
    /// Red of it counts.
    pub occlusion: bool,
    /// In the frames of the tangents.
    pub normal: Option<Picture>,
    /// sRGB.
    pub emissive: Option<Picture>,
    /// Of the mesh's vertices; there are some where there is a normal map.
    pub tangents: Option<Vec<[f32; 4]>>,
    /// The opacity, for the sheet.
    pub opacity: Option<Vec<[u8; 4]>>,
}

/// The layers as bake made them.
#[derive(Debug, Default)]
pub struct Layers(Vec<LayerTexture>);

impl Layers {
    /// Reads the tables.
    ///
    /// # Errors
    /// One is broken, or no layer of this texture.
    pub fn read(blobs: &[BlobFile], size: u32, wanted: &[Layer]) -> Result<Self, Failure> {
        let mut layers = Vec::new();
        for (blob, &wanted) in blobs.iter().zip(wanted) {
            let layer = LayerTexture::read(&mut blob.reader()).map_err(|error| internal(&error))?;
            if layer.size != size || layer.layer != wanted {
                return Err(internal(&TextureError::Differs));
            }
            layers.push(layer);
        }
        Ok(Self(layers))
    }

    /// Whether there are normals, which need tangents.
    #[must_use]
    pub fn have_normals(&self) -> bool {
        self.0.iter().any(|layer| layer.layer == Layer::Normal)
    }

    fn take(&mut self, layer: Layer) -> Option<Vec<[u8; 4]>> {
        let at = self.0.iter().position(|known| known.layer == layer)?;
        Some(self.0.swap_remove(at).texels)
    }
}

/// Makes the pictures, and puts the opacity into the texture's alpha. `tangents` belong to the mesh's vertices.
///
/// # Errors
/// A picture cannot be made.
pub fn material(
    mut layers: Layers,
    (mesh, sheets): (&Mesh, &Sheets),
    tangents: Option<Vec<[f32; 4]>>,
    texture: &mut Texture,
    form: &Form,
    progress: &dyn Progress,
) -> Result<Material, Failure> {
    let size = texture.size;
    let encode = |texels: Vec<[u8; 4]>, kind: Kind| {
        let colour = kind == Kind::Colour;
        let format = match form.texture {
            TextureFormat::Jpeg if !colour => TextureFormat::Png,
            TextureFormat::WebpLossy if !colour => TextureFormat::Webp,
            TextureFormat::Ktx2Etc1s if !colour => TextureFormat::Ktx2Uastc,
            format => format,
        };
        progress.expect("a picture", each(texels.len(), picture::pace(format)));
        let made = sheets.encode(size, &texels, |size, texels| match colour {
            true => picture::encode(format, form.quality, size, texels),
            false => picture::encode_data(kind, format, size, texels),
        });
        let (files, held) = made.map_err(|error| internal(&error))?;
        Ok::<_, Failure>(Picture {
            files,
            format,
            texels: held.unwrap_or(texels),
        })
    };
    let mut made = Material {
        alpha_cutoff: form.alpha_cutoff,
        ..Material::default()
    };
    if let (Some(normals), Some(tangents)) = (layers.take(Layer::Normal), tangents) {
        progress.expect("the normal map", each(normals.len(), 10 * pace::TEXEL));
        let relief = relief(mesh, &tangents, size, &normals);
        drop(normals);
        if let Some(agreement) = relief.agreement.filter(|&cosine| cosine < LEAST_AGREEMENT) {
            progress.warning(&format!(
                "the views' normals point elsewhere than the mesh's (mean cosine {agreement:.2}): does normal_space say \
                 in which axes they are?"
            ));
        }
        made.normal = Some(encode(relief.texels, Kind::Direction)?);
        made.tangents = Some(tangents);
    }
    let emissive = layers.take(Layer::Emissive);
    made.emissive = emissive
        .map(|texels| encode(texels, Kind::Colour))
        .transpose()?;
    let occlusion = layers.take(Layer::Occlusion);
    let metal = layers.take(Layer::MetallicRoughness);
    (made.occlusion, made.metallic_roughness) = (occlusion.is_some(), metal.is_some());
    let orm = match (occlusion, metal) {
        (Some(occlusion), Some(mut metal)) => {
            for (texel, [red, ..]) in metal.iter_mut().zip(occlusion) {
                texel[0] = red;
            }
            Some(metal)
        }
        (occlusion, metal) => occlusion.or(metal),
    };
    made.orm = orm.map(|texels| encode(texels, Kind::Data)).transpose()?;
    match layers.take(Layer::Opacity) {
        Some(opacity) => {
            made.alpha = alpha(form.alpha, &opacity, &texture.provenance);
            if made.alpha.is_some() {
                for (texel, [opacity, ..]) in texture.texels.iter_mut().zip(&opacity) {
                    texel[3] = *opacity;
                }
            }
            made.opacity = Some(opacity);
        }
        None if matches!(form.alpha, AlphaMode::Mask | AlphaMode::Blend) => {
            progress.warning("--alpha-mode changes nothing: no view has a channel opacity");
        }
        None => {}
    }
    Ok(made)
}

/// How opacity counts, if it does: what is asked for, or what most texels that are not whole are.
fn alpha(mode: AlphaMode, opacity: &[[u8; 4]], provenance: &[u8]) -> Option<AlphaMode> {
    match mode {
        AlphaMode::Opaque => None,
        AlphaMode::Mask | AlphaMode::Blend => Some(mode),
        AlphaMode::Auto => {
            let charted = |&(_, &kind): &(&[u8; 4], &u8)| kind != Provenance::Gutter as u8;
            let of_charts = opacity.iter().zip(provenance).filter(charted);
            let (mut whole, mut clear, mut between) = (true, 0_u64, 0_u64);
            for ([value, ..], _) in of_charts {
                whole &= *value >= WHOLE;
                clear += u64::from(*value < CLEAR);
                between += u64::from((CLEAR..DENSE).contains(value));
            }
            match whole {
                true => None,
                false if clear > 0 && clear >= between => Some(AlphaMode::Mask),
                false => Some(AlphaMode::Blend),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opacity_is_taken_for_what_most_of_it_is() {
        let of = |values: &[u8]| {
            let texels: Vec<[u8; 4]> = values.iter().map(|&value| [value; 4]).collect();
            let mut provenance = vec![Provenance::Observed as u8; values.len()];
            // Of the gutter nothing counts.
            let texels = [&texels[..], &[[128; 4]]].concat();
            provenance.push(Provenance::Gutter as u8);
            [
                AlphaMode::Auto,
                AlphaMode::Opaque,
                AlphaMode::Mask,
                AlphaMode::Blend,
            ]
            .map(|mode| alpha(mode, &texels, &provenance))
        };
        let (mask, blend) = (Some(AlphaMode::Mask), Some(AlphaMode::Blend));
        assert_eq!(of(&[255, 252, 250]), [None, None, mask, blend]);
        assert_eq!(of(&[255, 0, 9, 3, 128, 247]), [mask, None, mask, blend]);
        assert_eq!(of(&[255, 0, 128, 240]), [mask, None, mask, blend]);
        assert_eq!(of(&[255, 0, 128, 204]), [blend, None, mask, blend]);
        assert_eq!(of(&[255, 255, 249]), [blend, None, mask, blend]);
    }
}
