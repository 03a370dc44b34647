//! Mesh and picture, or mesh and vertex colours → a GLB with one mesh. It uses no extensions but those asked for
//! ([`quantised`], `EXT_texture_webp`, `KHR_texture_basisu`). Of several pages ([`super::pages`]) each is a primitive
//! with its own material.
//!
//! ```text
//!   header 12 │ chunk JSON, padded by spaces │ chunk BIN, padded by zeros
//!                                              positions f32×3 | normals f32×3 | uvs f32×2 | indices u16 or u32 | PNG
//!                                                                              | or colours u16×4
//! ```
//!
//! What common exporters of baked meshes get wrong:
//!
//! - `metallicFactor` is 0. The default is 1, a dark mirror. It is 1 only where a picture supplies metalness.
//! - There are normals; without them viewers must shade flat.
//! - There is a sampler, mipmapped and clamped, since the atlas does not repeat.
//! - The material is double-sided. Meshes of image-to-3D models have triangles of either winding, and the bake culled
//!   no view, so culling would hide a surface that the pictures show.
//!
//! A material of more layers ([`super::material`]) adds its pictures after the base colour, and tangents after the
//! indices. Colours are either in the texture, without `COLOR_0`, or in `COLOR_0`, which glTF reads as linear light.

use std::borrow::Cow;
use std::collections::BTreeSet;

use proto::job::{AlphaMode, Compress, Form, TextureFormat};
use proto::labels::Labels;
use proto::table::{Colours, Mesh};
use serde_json::{Value, json};

use super::material::{Material, Picture};
use crate::image::render::srgb;

pub(super) mod container;
mod leaf;
pub mod provenance;
pub mod quantised;

use container::{
    ARRAY_BUFFER, Binary, ELEMENT_ARRAY_BUFFER, UNSIGNED_BYTE, UNSIGNED_INT, UNSIGNED_SHORT,
    container,
};
pub(super) use leaf::unit;
pub use leaf::{Dress, GlbError, Leaf};
use leaf::{Parts, bounds};

const FLOAT: u32 = 5126;
const LINEAR: u32 = 9729;
const LINEAR_MIPMAP_LINEAR: u32 = 9987;
const CLAMP_TO_EDGE: u32 = 33071;

/// The table's sRGB colours as `COLOR_0`. 16 bits, since a byte of linear light is coarse in the dark, by up to 6 sRGB
/// steps below 20.
pub fn light(colours: &Colours) -> Vec<[u16; 4]> {
    let linear = srgb::linear_table();
    let step = |value: u8| (linear[usize::from(value)] * f32::from(u16::MAX)).round() as u16;
    let of = |&[r, g, b, alpha]: &[u8; 4]| [step(r), step(g), step(b), u16::from(alpha) * 257];
    colours.colours.iter().map(of).collect()
}

/// Converts a colour of [`light`] back to sRGB.
pub fn display([r, g, b, alpha]: [u16; 4]) -> [u8; 4] {
    let linear = |step: u16| f32::from(step) / f32::from(u16::MAX);
    let byte = |step: u16| (srgb::encode(linear(step)) * 255.0).round() as u8;
    [byte(r), byte(g), byte(b), (alpha / 257) as u8]
}

/// Writes the GLB.
///
/// # Errors
/// An inconsistent mesh, or too large a result.
pub fn write(mesh: &Mesh, dress: Dress<'_>, compress: Compress) -> Result<Vec<u8>, GlbError> {
    write_with(mesh, dress, &Material::default(), compress)
}

/// Writes a GLB whose material has more than a base colour.
///
/// # Errors
/// As [`write()`].
pub fn write_with(
    mesh: &Mesh,
    dress: Dress<'_>,
    material: &Material,
    compress: Compress,
) -> Result<Vec<u8>, GlbError> {
    let form = Form {
        compress,
        ..Form::default()
    };
    let leaf = Leaf {
        mesh: Cow::Borrowed(mesh),
        dress,
        tangents: material.tangents.as_deref(),
        provenance: None,
        tile: None,
    };
    write_leaves(&[leaf], material, &form)
}

/// Writes a GLB of several pages. Each picture of `material` has one file per page. The node carries the form's offset,
/// where the mesh's local origin lies; accessors and their bounds stay local. Names and credits are the form's labels.
///
/// # Errors
/// As [`write()`].
pub fn write_leaves(
    leaves: &[Leaf<'_>],
    material: &Material,
    form: &Form,
) -> Result<Vec<u8>, GlbError> {
    let (compress, labels) = (form.compress, &form.labels);
    leaves.iter().try_for_each(Leaf::check)?;
    let mut binary = Binary::default();
    let mut shapes = Shapes::new(leaves, compress, &mut binary)?;
    let (materials, pictures) = materials(leaves, material, labels, &mut binary);
    shapes.shift(&form.offset);
    shapes.node["name"] = json!(labels.node_name());
    shapes.add_provenance(leaves, compress, &mut binary)?;
    let mut document = json!({
        "asset": asset(labels),
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [shapes.node],
        "meshes": [{"name": labels.mesh_name(), "primitives": shapes.primitives}],
        "accessors": shapes.accessors,
        "materials": materials,
    });
    let mut extensions = shapes.extensions.to_vec();
    if !pictures.images.is_empty() {
        document["images"] = json!(pictures.images);
        document["samplers"] = json!([{
            "magFilter": LINEAR,
            "minFilter": LINEAR_MIPMAP_LINEAR,
            "wrapS": CLAMP_TO_EDGE,
            "wrapT": CLAMP_TO_EDGE,
        }]);
        document["textures"] = json!(pictures.textures);
        extensions.extend(pictures.extensions);
    }
    if !extensions.is_empty() {
        document["extensionsUsed"] = json!(extensions);
        document["extensionsRequired"] = json!(extensions);
    }
    let mut buffers = vec![json!({"byteLength": binary.bytes.len()})];
    buffers.extend(shapes.fallback.map(|bytes| {
        json!({"byteLength": bytes, "extensions": {"EXT_meshopt_compression": {"fallback": true}}})
    }));
    document["bufferViews"] = json!(binary.views);
    document["buffers"] = json!(buffers);
    container(document.to_string().into_bytes(), binary.bytes)
}

/// Who made the file, and who made what it is made of.
fn asset(labels: &Labels) -> Value {
    let mut asset =
        json!({"version": "2.0", "generator": concat!("kiln ", env!("CARGO_PKG_VERSION"))});
    if let Some(copyright) = labels.copyright.given() {
        asset["copyright"] = json!(copyright);
    }
    for (key, value) in labels.credits() {
        asset["extras"][key] = json!(value);
    }
    asset
}

/// The primitives of all pages, and what they share.
#[derive(Default)]
struct Shapes {
    node: Value,
    accessors: Vec<Value>,
    primitives: Vec<Value>,
    /// Bytes of the uncompressed fallback buffer.
    fallback: Option<usize>,
    /// Required extensions.
    extensions: &'static [&'static str],
}

impl Shapes {
    fn new(leaves: &[Leaf<'_>], compress: Compress, binary: &mut Binary) -> Result<Self, GlbError> {
        let bounds = bounds(leaves.iter().flat_map(|leaf| &leaf.mesh.positions));
        let mut all = Self::default();
        for (number, leaf) in leaves.iter().enumerate() {
            let parts = match compress {
                Compress::None => plain(leaf, binary),
                Compress::Meshopt => {
                    quantised::parts(leaf, bounds, all.fallback.unwrap_or(0), binary)?
                }
            };
            let first = all.accessors.len();
            let mut primitive = json!({
                "attributes": {"POSITION": first, "NORMAL": first + 1, parts.attribute: first + 2},
                "indices": first + 3,
                "material": number,
            });
            if leaf.tangents.is_some() {
                primitive["attributes"]["TANGENT"] = json!(first + 4);
            }
            all.primitives.push(primitive);
            all.accessors.extend(parts.accessors);
            (all.node, all.fallback) = (parts.node, parts.fallback);
            all.extensions = parts.extensions;
        }
        Ok(all)
    }

    /// Moves the node. Programs that place nodes in f64 keep the whole precision.
    fn shift(&mut self, offset: &[f64; 3]) {
        if *offset == [0.0; 3] {
            return;
        }
        let own = |k: usize| self.node["translation"][k].as_f64().unwrap_or(0.0);
        let place: [f64; 3] = std::array::from_fn(|k| own(k) + offset[k]);
        self.node["translation"] = json!(place);
    }

    /// Adds [`provenance::NAME`] to the pages that have it, as bytes with the stride of four that the format demands.
    fn add_provenance(
        &mut self,
        leaves: &[Leaf<'_>],
        compress: Compress,
        binary: &mut Binary,
    ) -> Result<(), GlbError> {
        for (leaf, primitive) in leaves.iter().zip(&mut self.primitives) {
            let Some(shares) = leaf.provenance else {
                continue;
            };
            let elements: Vec<[u8; 4]> = shares.iter().map(|&share| [share, 0, 0, 0]).collect();
            let accessor = match compress {
                Compress::None => {
                    let view = binary.view(elements.as_flattened(), Some(ARRAY_BUFFER));
                    binary.views[view]["byteStride"] = json!(4);
                    json!({
                        "bufferView": view,
                        "componentType": UNSIGNED_BYTE,
                        "count": elements.len(),
                        "type": "SCALAR",
                        "normalized": true,
                    })
                }
                Compress::Meshopt => {
                    let plain = self.fallback.get_or_insert(0);
                    quantised::scalars(&elements, plain, binary)?
                }
            };
            primitive["attributes"][provenance::NAME] = json!(self.accessors.len());
            self.accessors.push(accessor);
        }
        Ok(())
    }
}

/// The material of each page, and the pictures of all.
fn materials(
    leaves: &[Leaf<'_>],
    material: &Material,
    labels: &Labels,
    binary: &mut Binary,
) -> (Vec<Value>, Pictures) {
    let own = labels.material_name();
    let (mut materials, mut pictures) = (Vec::new(), Pictures::default());
    for (number, leaf) in leaves.iter().enumerate() {
        let tile = leaf
            .tile
            .map_or_else(String::new, |tile| format!(".{tile}"));
        let mut surface = json!({
            "name": format!("{own}{tile}"),
            "pbrMetallicRoughness": {"metallicFactor": 0, "roughnessFactor": 1},
            "doubleSided": true,
        });
        if let Dress::Texture(file, format) = leaf.dress {
            let mut add = |file: &[u8], format, slot: &str| {
                let name = format!("{own}_{slot}{tile}");
                pictures.add(file, format, &name, binary)
            };
            let base = add(file, format, "baseColor");
            surface["pbrMetallicRoughness"]["baseColorTexture"] = json!({"index": base});
            finish(&mut surface, material, &mut |picture: &Picture, slot| {
                add(&picture.files[number], picture.format, slot)
            });
        }
        materials.push(surface);
    }
    (materials, pictures)
}

/// The growing lists of images and textures, one of each per picture.
#[derive(Default)]
struct Pictures {
    images: Vec<Value>,
    textures: Vec<Value>,
    extensions: BTreeSet<&'static str>,
}

impl Pictures {
    /// Adds a picture; returns the index of its texture.
    fn add(
        &mut self,
        file: &[u8],
        format: TextureFormat,
        name: &str,
        binary: &mut Binary,
    ) -> usize {
        let (view, number) = (binary.view(file, None), self.images.len());
        let image = json!({"name": name, "bufferView": view, "mimeType": format.mime_type()});
        self.images.push(image);
        let extension = match format {
            TextureFormat::Png | TextureFormat::Jpeg => None,
            TextureFormat::Webp | TextureFormat::WebpLossy => Some("EXT_texture_webp"),
            TextureFormat::Ktx2Etc1s | TextureFormat::Ktx2Uastc => Some("KHR_texture_basisu"),
        };
        self.extensions.extend(extension);
        self.textures.push(match extension {
            None => json!({"name": name, "sampler": 0, "source": number}),
            Some(extension) => {
                json!({"name": name, "sampler": 0, "extensions": {extension: {"source": number}}})
            }
        });
        number
    }
}

/// Fills the slots beside the base colour. `add` puts a picture into the file under a name.
fn finish(surface: &mut Value, material: &Material, add: &mut dyn FnMut(&Picture, &str) -> usize) {
    if let Some(orm) = &material.orm {
        let slot = match (material.occlusion, material.metallic_roughness) {
            (true, true) => "occlusionRoughnessMetallic",
            (true, false) => "occlusion",
            (false, _) => "metallicRoughness",
        };
        let texture = json!({"index": add(orm, slot)});
        if material.metallic_roughness {
            let pbr = &mut surface["pbrMetallicRoughness"];
            pbr["metallicFactor"] = json!(1);
            pbr["metallicRoughnessTexture"] = texture.clone();
        }
        if material.occlusion {
            surface["occlusionTexture"] = texture;
        }
    }
    if let Some(normal) = &material.normal {
        surface["normalTexture"] = json!({"index": add(normal, "normal")});
    }
    if let Some(emissive) = &material.emissive {
        surface["emissiveTexture"] = json!({"index": add(emissive, "emissive")});
        surface["emissiveFactor"] = json!([1, 1, 1]);
    }
    match material.alpha {
        Some(AlphaMode::Mask) => {
            surface["alphaMode"] = json!("MASK");
            surface["alphaCutoff"] = json!(material.alpha_cutoff);
        }
        Some(AlphaMode::Blend) => surface["alphaMode"] = json!("BLEND"),
        Some(AlphaMode::Auto | AlphaMode::Opaque) | None => {}
    }
}

fn plain(leaf: &Leaf<'_>, binary: &mut Binary) -> Parts {
    let &Leaf {
        ref mesh,
        dress,
        tangents,
        ..
    } = leaf;
    let vertices = mesh.positions.len();
    let accessor = |view: usize, kind: &str| json!({"bufferView": view, "componentType": FLOAT, "count": vertices, "type": kind});
    let positions = binary.view(bytemuck::cast_slice(&mesh.positions), Some(ARRAY_BUFFER));
    let normals: Vec<[f32; 3]> = mesh.normals.iter().map(|&normal| unit(normal)).collect();
    let normals = binary.view(bytemuck::cast_slice(&normals), Some(ARRAY_BUFFER));
    let (attribute, third) = match dress {
        Dress::Texture(..) => {
            let view = binary.view(bytemuck::cast_slice(&mesh.uvs), Some(ARRAY_BUFFER));
            ("TEXCOORD_0", accessor(view, "VEC2"))
        }
        Dress::Vertices(colours) => {
            let view = binary.view(bytemuck::cast_slice(colours), Some(ARRAY_BUFFER));
            let mut colours = accessor(view, "VEC4");
            colours["componentType"] = json!(UNSIGNED_SHORT);
            colours["normalized"] = json!(true);
            ("COLOR_0", colours)
        }
    };
    let (indices, index_type) = indices(mesh, binary);
    let (low, high) = bounds(&mesh.positions);
    let mut position = accessor(positions, "VEC3");
    position["min"] = json!(low);
    position["max"] = json!(high);
    let indices = json!({
        "bufferView": indices,
        "componentType": index_type,
        "count": mesh.triangles.len() * 3,
        "type": "SCALAR",
    });
    let mut accessors = vec![position, accessor(normals, "VEC3"), third, indices];
    accessors.extend(tangents.map(|tangents| {
        let view = binary.view(bytemuck::cast_slice(tangents), Some(ARRAY_BUFFER));
        accessor(view, "VEC4")
    }));
    Parts {
        attribute,
        accessors,
        node: json!({"mesh": 0}),
        fallback: None,
        extensions: &[],
    }
}

/// Writes the indices, as narrow as they may be. Returns their view and type.
fn indices(mesh: &Mesh, binary: &mut Binary) -> (usize, u32) {
    // 65535 means primitive restart, so it is no valid 16-bit index.
    if mesh.positions.len() <= usize::from(u16::MAX) {
        let corners = mesh.triangles.as_flattened().iter();
        let short: Vec<u16> = corners.map(|&index| index as u16).collect();
        let view = binary.view(bytemuck::cast_slice(&short), Some(ELEMENT_ARRAY_BUFFER));
        return (view, UNSIGNED_SHORT);
    }
    let long = bytemuck::cast_slice(&mesh.triangles);
    let view = binary.view(long, Some(ELEMENT_ARRAY_BUFFER));
    (view, UNSIGNED_INT)
}

#[cfg(test)]
mod tests {
    use proto::labels::Label;

    use super::*;

    fn mesh(columns: u32) -> Mesh {
        // A slightly curved strip of quads with normals of not quite unit length.
        let point = |k: u32| [k as f32 / 2.0, (k % 2) as f32, (k as f32).sin() / 3.0 - 7.0];
        let vertices = 2 * columns + 2;
        Mesh {
            positions: (0..vertices).map(point).collect(),
            normals: (0..vertices)
                .map(|k| [0.0, 0.003 * (k % 3) as f32, 1.004])
                .collect(),
            uvs: (0..vertices)
                .map(|k| [k as f32 / vertices as f32, (k % 2) as f32])
                .collect(),
            surface_vertices: (0..vertices).collect(),
            triangles: (0..2 * columns).map(|k| [k, k + 1, k + 2]).collect(),
            charts: 1,
        }
    }

    /// Read by the `gltf` crate, which checks the container and every index in the JSON.
    fn check(mesh: &Mesh, file: &[u8], png: &[u8]) {
        let gltf::Gltf { document, blob } = gltf::Gltf::from_slice(file).expect("a GLB");
        let blob = blob.expect("a BIN chunk");
        assert_eq!(blob.len() % 4, 0);
        let primitive = document
            .meshes()
            .next()
            .expect("a mesh")
            .primitives()
            .next()
            .expect("a primitive");
        let reader = primitive.reader(|_| Some(&blob));
        assert!(
            reader
                .read_positions()
                .expect("positions")
                .eq(mesh.positions.iter().copied())
        );
        let uvs = reader.read_tex_coords(0).expect("coordinates").into_f32();
        assert!(uvs.eq(mesh.uvs.iter().copied()));
        let indices = reader.read_indices().expect("indices").into_u32();
        assert!(indices.eq(mesh.triangles.as_flattened().iter().copied()));
        for (normal, given) in reader.read_normals().expect("normals").zip(&mesh.normals) {
            let length = normal.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!((length - 1.0).abs() < 1e-6, "a normal of length {length}");
            assert!(
                (normal[1] / normal[2] - given[1] / given[2]).abs() < 1e-6,
                "another direction"
            );
        }
        let bounds = primitive.bounding_box();
        assert_eq!(bounds.min, super::bounds(&mesh.positions).0);
        assert_eq!(bounds.max, super::bounds(&mesh.positions).1);

        let material = primitive.material();
        let surface = material.pbr_metallic_roughness();
        assert_eq!(
            (
                surface.metallic_factor(),
                surface.roughness_factor(),
                material.double_sided()
            ),
            (0.0, 1.0, true)
        );
        let texture = surface.base_color_texture().expect("a texture").texture();
        assert_eq!(
            texture.sampler().wrap_s(),
            gltf::texture::WrappingMode::ClampToEdge
        );
        assert_eq!(
            texture.sampler().min_filter(),
            Some(gltf::texture::MinFilter::LinearMipmapLinear)
        );
        let gltf::image::Source::View { view, mime_type } = texture.source().source() else {
            panic!("not embedded")
        };
        assert_eq!(
            (
                mime_type,
                &blob[view.offset()..view.offset() + view.length()]
            ),
            ("image/png", png)
        );
        for view in document.views() {
            assert_eq!(view.offset() % 4, 0, "view {} is not aligned", view.index());
        }
    }

    #[test]
    fn everything_has_a_name_and_credits_stay() {
        let label = Label::name;
        let labels = Labels {
            node: label("Chair"),
            material: label("Oak \" <b>"),
            copyright: label("© 2026 somebody"),
            license: label("CC-BY-4.0"),
            ..Labels::default()
        };
        for (tile, labels, names, images) in [
            (None, Labels::default(), ["baked"; 3], "baked_baseColor"),
            (
                None,
                labels.clone(),
                ["Chair", "Chair", "Oak \" <b>"],
                "Oak \" <b>_baseColor",
            ),
            (
                Some(1002),
                labels,
                ["Chair", "Chair", "Oak \" <b>.1002"],
                "Oak \" <b>_baseColor.1002",
            ),
        ] {
            let leaf = Leaf {
                mesh: Cow::Owned(mesh(3)),
                dress: Dress::Texture(b"picture", TextureFormat::Webp),
                tangents: None,
                provenance: None,
                tile,
            };
            let form = Form {
                labels: labels.clone(),
                ..Form::default()
            };
            let file = write_leaves(&[leaf], &Material::default(), &form).expect("a GLB");
            let (json, _) = container::chunks(&file).expect("chunks");
            let found = ["nodes", "meshes", "materials"].map(|list| &json[list][0]["name"]);
            assert_eq!(found, names);
            assert_eq!(
                [&json["images"][0]["name"], &json["textures"][0]["name"]],
                [images; 2]
            );
            let asset = &json["asset"];
            assert!(
                asset["generator"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("kiln "))
            );
            assert_eq!(asset["copyright"].as_str(), labels.copyright.given());
            assert_eq!(asset["extras"]["license"].as_str(), labels.license.given());
            assert!(asset["extras"].get("author").is_none());
        }
    }

    #[test]
    fn everything_comes_back() {
        // Picture lengths of every remainder modulo 4, and odd numbers of 16-bit indices.
        for (columns, length) in [(1, 0), (3, 1), (7, 2), (20, 3), (21, 100)] {
            let (mesh, png) = (mesh(columns), vec![0xAB; length + 1]);
            let file = write(
                &mesh,
                Dress::Texture(&png, TextureFormat::Png),
                Compress::None,
            )
            .expect("writes");
            check(&mesh, &file, &png);
        }
    }

    #[test]
    fn indices_are_as_wide_as_they_must_be() {
        for (columns, wanted) in [
            (32_765, UNSIGNED_SHORT),
            (32_766, UNSIGNED_SHORT),
            (32_767, UNSIGNED_INT),
            (40_000, UNSIGNED_INT),
        ] {
            let mesh = mesh(columns);
            let file = write(
                &mesh,
                Dress::Texture(b"png", TextureFormat::Png),
                Compress::None,
            )
            .expect("writes");
            check(&mesh, &file, b"png");
            let document = gltf::Gltf::from_slice(&file).expect("a GLB").document;
            let kind = document.accessors().nth(3).expect("indices").data_type();
            assert_eq!(
                kind.as_gl_enum(),
                wanted,
                "{} vertices",
                mesh.positions.len()
            );
        }
    }

    #[test]
    fn uneven_mesh_is_refused() {
        let mut uneven = mesh(2);
        uneven.normals.pop();
        assert!(matches!(
            write(
                &uneven,
                Dress::Texture(b"", TextureFormat::Png),
                Compress::None
            ),
            Err(GlbError::Uneven { normals: 5, .. })
        ));
        assert!(
            write(
                &Mesh::default(),
                Dress::Texture(b"", TextureFormat::Png),
                Compress::None
            )
            .is_err()
        );
    }

    #[test]
    fn colours_of_vertices_are_linear_and_alone() {
        let mesh = mesh(7);
        let table = Colours {
            colours: (0..16).map(|k| [k * 17, 128, 20, 255]).collect(),
        };
        let colours = light(&table);
        let file = write(&mesh, Dress::Vertices(&colours), Compress::None).expect("writes");
        let gltf::Gltf { document, blob } = gltf::Gltf::from_slice(&file).expect("a GLB");
        let (blob, mut meshes) = (blob.expect("a BIN chunk"), document.meshes());
        let primitive = meshes.next().and_then(|mesh| mesh.primitives().next());
        let primitive = primitive.expect("a primitive");
        let reader = primitive.reader(|_| Some(&blob));
        assert!(
            reader
                .read_positions()
                .expect("positions")
                .eq(mesh.positions.iter().copied())
        );
        let read: Vec<[f32; 4]> = reader
            .read_colors(0)
            .expect("colours")
            .into_rgba_f32()
            .collect();
        for (read, colour) in read.iter().zip(&table.colours) {
            let light = |byte: u8| srgb::decode(f32::from(byte) / 255.0);
            let wanted = [light(colour[0]), light(128), light(20), 1.0];
            let near = |(read, wanted): (&f32, f32)| (read - wanted).abs() <= 0.51 / 65_535.0;
            assert!(read.iter().zip(wanted).all(near), "{read:?} for {wanted:?}");
        }
        let all: Vec<[u8; 4]> = (0..=255).map(|byte| [byte, 255 - byte, 0, byte]).collect();
        let there = light(&Colours {
            colours: all.clone(),
        });
        assert_eq!(there.into_iter().map(display).collect::<Vec<_>>(), all);
        assert_eq!(read.len(), 16);
        assert!(reader.read_tex_coords(0).is_none());
        assert_eq!((document.textures().len(), document.images().len()), (0, 0));
        let surface = primitive.material().pbr_metallic_roughness();
        assert!(surface.base_color_texture().is_none());
        assert_eq!(surface.base_color_factor(), [1.0; 4]);
        assert_eq!(
            (
                surface.metallic_factor(),
                primitive.material().double_sided()
            ),
            (0.0, true)
        );
        assert!(matches!(
            write(&mesh, Dress::Vertices(&colours[1..]), Compress::None),
            Err(GlbError::Colours {
                colours: 15,
                positions: 16
            })
        ));
    }
}
