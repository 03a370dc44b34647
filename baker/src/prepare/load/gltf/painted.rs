//! Reads a glTF's or GLB's mesh with the base colour pictures of its materials, or with their normal maps.
//!
//! Pictures lie in a buffer view, a `data:` URI or a file beneath the mesh's folder. The decoders of the views read
//! them, with the same limits. The base colour factor is multiplied in. A material without a picture gets a texel of
//! its factor.

use std::collections::HashMap;

use gltf::json;
use proto::limits::MAX_IMAGE_FILE_BYTES;
use proto::message::Code;

use super::{GltfError, RawMesh, Reader, read_with};
use crate::image::render::{Image, srgb};
use crate::prepare::load::buffers::{decode_base64, decode_percent};
use crate::prepare::load::raw::{Offset, Wanted};
use crate::prepare::picture;
use crate::worker::folder::Folder;
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

/// Largest number of pictures of a mesh, each decoded whole.
const MOST: usize = 64;

/// A decoded picture, row-major from the top, sRGB.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) texels: Vec<[u8; 4]>,
}

/// The base colour pictures of a mesh.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pictures {
    pub(crate) pictures: Vec<Picture>,
    /// Index of each triangle's picture.
    pub(crate) of_triangle: Vec<u16>,
}

impl Pictures {
    pub(crate) fn images(&self) -> Vec<Image<'_>> {
        self.pictures
            .iter()
            .filter_map(|picture| Image::new(picture.width, picture.height, &picture.texels))
            .collect()
    }
}

/// Which textures of the materials are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::prepare::load) enum Shown {
    /// Base colours.
    Colours,
    /// Normal maps, which use the texture coordinates of the base colours.
    Normals,
}

/// The texel of a material without a picture.
const PLAIN: [u8; 4] = [255; 4];
/// The same of normals: straight up.
const FLAT: [u8; 4] = [128, 128, 255, 255];

/// Reads the bytes of the file `name`, a GLB or bare JSON.
pub(in crate::prepare::load) fn read(
    file: (&[u8], bool),
    name: &str,
    folder: &Folder<'_>,
    (offset, shown): (&Offset, Shown),
    progress: &dyn Progress,
) -> Result<(RawMesh, Pictures), GltfError> {
    let wanted = Wanted {
        uvs: true,
        set: None,
        offset: *offset,
    };
    read_with(file, name, folder, (wanted, false), progress, |reader| {
        pictures(reader, shown, progress)
    })
}

fn pictures(
    reader: &mut Reader<'_>,
    shown: Shown,
    progress: &dyn Progress,
) -> Result<Pictures, GltfError> {
    let mut all = Pictures::default();
    // By image and factor, so that materials which show the same share a picture.
    let mut known: HashMap<(Option<usize>, [u32; 3]), u16> = HashMap::new();
    for part in 0..reader.parts.len() {
        let (triangles, material) = (reader.parts[part].triangles, reader.parts[part].material);
        let json = material.and_then(|index| reader.root.materials.get(index));
        let surface = json.map(|json| &json.pbr_metallic_roughness);
        let colours = shown == Shown::Colours;
        let texture = match shown {
            Shown::Colours => (surface.and_then(|surface| surface.base_color_texture.as_ref()))
                .map(|texture| texture.index),
            Shown::Normals => {
                (json.and_then(|json| json.normal_texture.as_ref())).map(|texture| texture.index)
            }
        };
        if texture.is_none() && colours && reader.parts[part].coloured {
            return Err(GltfError::VertexColours);
        }
        let factor = surface.filter(|_| colours);
        let factor = factor.map_or([1.0; 4], |surface| surface.base_color_factor.0);
        let factor = [factor[0], factor[1], factor[2]].map(|x| x.clamp(0.0, 1.0));
        let image = match texture {
            None => None,
            Some(texture) => {
                let missing = GltfError::NoImage {
                    material: material.unwrap_or_default(),
                };
                Some(image_of(reader.root, texture.value()).ok_or(missing)?)
            }
        };
        let key = (image, factor.map(f32::to_bits));
        let number = match known.get(&key) {
            Some(&number) => number,
            None if all.pictures.len() >= MOST => {
                return Err(GltfError::TooLarge {
                    what: "textures",
                    limit: MOST,
                });
            }
            None => {
                let mut picture = match image {
                    Some(image) => decode(reader, image, progress)?,
                    None => Picture {
                        width: 1,
                        height: 1,
                        texels: vec![if colours { PLAIN } else { FLAT }],
                    },
                };
                tint(&mut picture, factor);
                all.pictures.push(picture);
                let number = (all.pictures.len() - 1) as u16;
                known.insert(key, number);
                number
            }
        };
        all.of_triangle
            .extend(std::iter::repeat_n(number, triangles));
    }
    Ok(all)
}

/// The image of a texture. Images named by extensions take precedence, since the plain one is a fallback.
fn image_of(root: &json::Root, texture: usize) -> Option<usize> {
    let texture = root.textures.get(texture)?;
    let extensions = texture.extensions.as_ref();
    let named = ["KHR_texture_basisu", "EXT_texture_webp"]
        .into_iter()
        .find_map(|name| extensions?.others.get(name)?.get("source")?.as_u64());
    let image = match named {
        Some(image) => usize::try_from(image).ok()?,
        None => texture.source.value(),
    };
    (image < root.images.len()).then_some(image)
}

fn decode(
    reader: &mut Reader<'_>,
    image: usize,
    progress: &dyn Progress,
) -> Result<Picture, GltfError> {
    let wrong = |what: String, code| GltfError::Image { image, what, code };
    let json = &reader.root.images[image];
    let owned;
    let bytes: &[u8] = match (&json.buffer_view, &json.uri) {
        (Some(view), _) => {
            let view = view.value();
            let loaded = reader.buffers.load_view(view);
            let bytes = loaded.and_then(|()| reader.buffers.view(view));
            bytes.map_err(|error| wrong(error.to_string(), error.code()))?
        }
        (None, Some(uri)) => {
            owned = fetch(reader, uri).map_err(|(what, code)| wrong(what, code))?;
            &owned
        }
        (None, None) => return Err(wrong("has no bytes".to_owned(), Code::InvalidAsset)),
    };
    let refused = |error: picture::PictureError| wrong(error.to_string(), error.code());
    let header = picture::probe_texture(bytes).map_err(refused)?;
    progress.expect("a texture", each(header.pixels() * 4, pace::DECODE_BYTE));
    let picture = picture::decode(bytes, header).map_err(refused)?;
    Ok(Picture {
        width: picture.width as usize,
        height: picture.height as usize,
        texels: picture.pixels,
    })
}

fn fetch(reader: &Reader<'_>, uri: &str) -> Result<Vec<u8>, (String, Code)> {
    if let Some(data) = uri.strip_prefix("data:") {
        let encoded = data.split_once(";base64,").map(|(_, encoded)| encoded);
        let bytes = encoded.and_then(decode_base64);
        return bytes.ok_or(("is not valid base64".to_owned(), Code::InvalidAsset));
    }
    if let Some((scheme, _)) = uri.split_once("://") {
        let what = format!("lies at {scheme}://…: nothing is fetched");
        return Err((what, Code::UnsupportedFeature));
    }
    let Some(name) = decode_percent(uri) else {
        return Err(("has a malformed URI".to_owned(), Code::InvalidAsset));
    };
    let (folder, beside) = reader.buffers.place();
    let file = if name.starts_with('/') {
        name
    } else {
        format!("{beside}{name}")
    };
    let read = folder.read(&file, MAX_IMAGE_FILE_BYTES);
    read.map_err(|error| (format!("{file}: {error}"), error.code_of_named()))
}

/// Multiplies in linear light, as glTF demands.
fn tint(picture: &mut Picture, factor: [f32; 3]) {
    if factor == [1.0; 3] {
        return;
    }
    let table = srgb::linear_table();
    let maps = factor
        .map(|factor| table.map(|light| (srgb::encode(light * factor) * 255.0).round() as u8));
    for texel in &mut picture.texels {
        for (channel, map) in maps.iter().enumerate() {
            texel[channel] = map[usize::from(texel[channel])];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::png;
    use crate::worker::folder::Local;
    use crate::worker::progress::Silent;
    use proto::message::Root;
    use serde_json::Value;

    /// Two triangles, a primitive each. The first has the picture in the BIN chunk and a factor, the second a factor
    /// alone.
    fn glb(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let picture = png::encode(2, 1, &[[255, 188, 0, 255], [10, 20, 30, 255]]).unwrap();
        let points: [f32; 9] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let uvs: [f32; 6] = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0];
        let mut bin: Vec<u8> = points.iter().flat_map(|x| x.to_le_bytes()).collect();
        bin.extend(uvs.iter().flat_map(|x| x.to_le_bytes()));
        bin.extend(&picture);
        let length = picture.len();
        bin.resize(bin.len().next_multiple_of(4), 0);
        let primitive = |material: u32| serde_json::json!({"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "material": material});
        let mut json = serde_json::json!({
            "asset": {"version": "2.0"},
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": [primitive(0), primitive(1)]}],
            "materials": [
                {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "baseColorFactor": [0.5, 1.0, 1.0, 1.0]}},
                {"pbrMetallicRoughness": {"baseColorFactor": [0.0, 1.0, 0.214_041_14, 1.0]}},
            ],
            "textures": [{"source": 0}],
            "images": [{"bufferView": 2, "mimeType": "image/png"}],
            "accessors": [
                {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
                {"bufferView": 1, "componentType": 5126, "count": 3, "type": "VEC2"},
            ],
            "bufferViews": [
                {"buffer": 0, "byteOffset": 0, "byteLength": 36},
                {"buffer": 0, "byteOffset": 36, "byteLength": 24},
                {"buffer": 0, "byteOffset": 60, "byteLength": length},
            ],
            "buffers": [{"byteLength": bin.len()}],
        });
        change(&mut json);
        let mut text = json.to_string().into_bytes();
        text.resize(text.len().next_multiple_of(4), b' ');
        let total = 12 + 8 + text.len() + 8 + bin.len();
        let mut file = b"glTF\x02\0\0\0".to_vec();
        file.extend((total as u32).to_le_bytes());
        for (kind, bytes) in [(b"JSON", text), (b"BIN\0", bin)] {
            file.extend((bytes.len() as u32).to_le_bytes());
            file.extend(kind);
            file.extend(bytes);
        }
        file
    }

    fn read_glb(change: impl FnOnce(&mut Value)) -> Result<(RawMesh, Pictures), GltfError> {
        let dir = tempfile::tempdir().unwrap();
        let local = Local(dir.path().to_path_buf());
        let folder = Folder::new(&local, Root::Mesh);
        let file = glb(change);
        read(
            (&file, true),
            "a.glb",
            &folder,
            (&[0.0; 3], Shown::Colours),
            &Silent,
        )
    }

    #[test]
    fn each_triangle_has_its_picture_and_factors_are_light() {
        let (mesh, pictures) = read_glb(|_| ()).unwrap();
        assert_eq!(
            (mesh.triangles.len(), pictures.of_triangle),
            (2, vec![0, 1])
        );
        // In sRGB, half the light of 255 is 188 and of 10 is 5; a factor of 0.214 is 128.
        let texels: Vec<_> = pictures.pictures.iter().map(|p| p.texels.clone()).collect();
        assert_eq!(texels[0], [[188, 188, 0, 255], [5, 20, 30, 255]]);
        assert_eq!(texels[1], [[0, 255, 128, 255]]);
        assert_eq!(
            (pictures.pictures[0].width, pictures.pictures[0].height),
            (2, 1)
        );
    }

    #[test]
    fn one_picture_is_decoded_once() {
        let (_, pictures) = read_glb(|json| {
            json["materials"][1] = json["materials"][0].clone();
        })
        .unwrap();
        assert_eq!(
            (pictures.pictures.len(), pictures.of_triangle),
            (1, vec![0, 0])
        );
    }

    #[test]
    fn what_cannot_be_shown_is_named() {
        let error = |change: fn(&mut Value)| read_glb(change).unwrap_err().to_string();
        assert_eq!(
            error(|json| json["textures"][0]["source"] = 7.into()),
            "material 0 names no image that is there"
        );
        assert_eq!(
            error(|json| json["bufferViews"][2]["byteLength"] = 40.into()),
            "image 0: is cut off: the file ends before the picture does"
        );
        assert_eq!(
            error(|json| json["images"][0] = serde_json::json!({"uri": "http://a/b.png"})),
            "image 0: lies at http://…: nothing is fetched"
        );
        assert_eq!(
            error(|json| json["images"][0] = serde_json::json!({"uri": "b.png"})),
            "image 0: b.png: no such file"
        );
        assert_eq!(
            error(|json| {
                json["materials"][1] = serde_json::json!({});
                json["meshes"][0]["primitives"][1]["attributes"]["COLOR_0"] = 0.into();
            }),
            "its colours are those of its vertices, and not in a texture"
        );
    }
}
