//! Baked layers → the pictures of a glTF material: slots, channels and alpha mode.
//!
//! | picture | made of | slot |
//! |---|---|---|
//! | base colour | the texture; alpha is opacity, unless all of it is opaque | `baseColorTexture`, `alphaMode` |
//! | ORM | occlusion, roughness, metallic in red, green, blue | `metallicRoughnessTexture`, `occlusionTexture` |
//! | normal | see [`super::relief`] | `normalTexture` |
//! | emissive | as fitted | `emissiveTexture` |
//!
//! Colours have the requested format. Numbers are stored without loss, or as UASTC with KTX2: JPEG and ETC1S lose what
//! eyes do not miss, and `KHR_texture_basisu` advises the same. Each of several pages has its own file; the texels stay
//! one atlas.

use proto::blob::BlobFile;
use proto::job::{AlphaMode, Form, TextureFormat};
use proto::message::Failure;
use proto::table::{Layer, LayerTexture, Mesh, Provenance, Texture};

use super::pages::Sheets;
use super::picture::{self, TextureError};
use super::relief::relief;
use crate::image::png::Kind;
use crate::worker::failure::internal;
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

/// Opacity from here on counts as full.
const WHOLE: u8 = 250;
/// Opacity below the first counts as none, from the second on as full, because fitted steps ring a little.
const CLEAR: u8 = 64;
const DENSE: u8 = 236;
/// Normals whose mean cosine with the mesh's normals is lower are probably in another space than stated.
const LEAST_AGREEMENT: f32 = 0.7;

/// One picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its file, or one per page.
    pub files: Vec<Vec<u8>>,
    /// Of the files.
    pub format: TextureFormat,
    /// The texels in the files, as one atlas.
    pub texels: Vec<[u8; 4]>,
}

/// The material apart from its base colour.
#[derive(Clone, Debug, Default)]
pub struct Material {
    /// How the base colour's alpha counts; never [`AlphaMode::Auto`] or [`AlphaMode::Opaque`].
    pub alpha: Option<AlphaMode>,
    /// The threshold of [`AlphaMode::Mask`].
    pub alpha_cutoff: f32,
    /// Red is occlusion, green roughness, blue metallic.
    pub orm: Option<Picture>,
    /// Whether its green and blue are used.
    pub metallic_roughness: bool,
    /// Whether its red is used.
    pub occlusion: bool,
    /// In tangent space.
    pub normal: Option<Picture>,
    /// sRGB.
    pub emissive: Option<Picture>,
    /// One per vertex; present with a normal map.
    pub tangents: Option<Vec<[f32; 4]>>,
    /// The opacity, for the contact sheet.
    pub opacity: Option<Vec<[u8; 4]>>,
}

/// The layers from bake.
#[derive(Debug, Default)]
pub struct Layers(Vec<LayerTexture>);

impl Layers {
    /// Reads the tables.
    ///
    /// # Errors
    /// One is broken, or belongs to another texture.
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
    pub fn have_normals(&self) -> bool {
        self.0.iter().any(|layer| layer.layer == Layer::Normal)
    }

    fn take(&mut self, layer: Layer) -> Option<Vec<[u8; 4]>> {
        let at = self.0.iter().position(|known| known.layer == layer)?;
        Some(self.0.swap_remove(at).texels)
    }
}

/// Makes the pictures, and writes opacity into the texture's alpha. `tangents` belong to the mesh's vertices.
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

/// The alpha mode: the one asked for, or in auto mode the one that suits most texels that are not opaque.
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
            // The gutter does not count.
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
