//! Reads a finished file with Kiln's own reader of untrusted meshes, and compares it with the mesh and texels that it
//! was made of.
//!
//! A file that does not read back never counts as a success. What a lossy file holds replaces the original in all later
//! measurements.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

use proto::job::AlphaMode;
use proto::message::{Refusal, Root};
use proto::table::Mesh;
use rayon::prelude::*;
use serde_json::Value;

use super::glb::container::chunks;
use super::material::Material;
use super::pages::{Leaf, Sheets};
use super::picture;
use crate::image::survey::weld;
use crate::prepare::load::{self, LoadError, Offset, Picture, RawMesh, Wanted};
use crate::worker::folder::{Files, Folder, FolderError};
use crate::worker::progress::Progress;

/// Why a file does not count.
#[derive(Debug, thiserror::Error)]
pub enum ReadBackError {
    /// Our own reader refuses it.
    #[error("the finished file does not read back: {0}")]
    Load(#[from] LoadError),
    /// It holds another mesh.
    #[error("the finished file reads back as another mesh: {0}")]
    Mesh(String),
    /// It holds another texture.
    #[error("the finished file reads back with another texture")]
    Texture,
    /// A slot of its material is not as it was made.
    #[error("the finished file reads back with another {0}")]
    Slot(&'static str),
}

/// How far what is read may be from what was written.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// In units of the mesh.
    pub position: f32,
    /// In units of the texture.
    pub uv: f32,
}

impl Tolerance {
    /// Exact.
    pub const NONE: Self = Self {
        position: 0.0,
        uv: 0.0,
    };

    /// For PLY and OBJ, where v points up: two subtractions, each with its rounding.
    pub const TURNED: Self = Self {
        position: 0.0,
        uv: 2.0 * f32::EPSILON,
    };
}

/// What the file should hold.
#[derive(Clone, Copy, Debug)]
pub struct ReadBack<'a> {
    /// A name for the file; its ending matters.
    pub name: &'a str,
    /// Whether it holds texture coordinates.
    pub uvs: bool,
    /// Texels of its pictures, page by page; none where it holds no pictures.
    pub texels: Option<&'a [Cow<'a, [[u8; 4]]>]>,
    /// The page of each triangle; empty with one page.
    pub of_triangle: &'a [u16],
    /// Whether the pictures hold alpha.
    pub alpha: bool,
    /// Where the mesh's local origin lies in the file.
    pub offset: Offset,
    /// How far it may be from the mesh.
    pub tolerance: Tolerance,
}

/// A file without others beside it.
#[derive(Debug)]
struct Alone;

impl Files for Alone {
    fn open(&self, _: Root, _: &str, _: u64) -> Result<(OwnedFd, u64), FolderError> {
        Err(Refusal::Unlisted.into())
    }
}

/// Reads the bytes of a file made from `mesh`. Returns the mesh that it holds.
///
/// # Errors
/// It holds something else.
pub fn read_back(
    read: &ReadBack<'_>,
    bytes: &[u8],
    mesh: &Mesh,
    progress: &dyn Progress,
) -> Result<Mesh, ReadBackError> {
    let &ReadBack {
        name,
        uvs,
        texels,
        of_triangle,
        alpha,
        offset,
        mut tolerance,
    } = read;
    // A sum with the offset is rounded, and once more as it is undone.
    let largest = offset.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    tolerance.position += (largest * 4.0 * f64::EPSILON) as f32;
    // A texel as one number, without the bytes that are not stored.
    let stored = if alpha { [255; 4] } else { [255, 255, 255, 0] };
    let number = |texel: &[u8; 4]| u32::from_ne_bytes(*texel) & u32::from_ne_bytes(stored);
    let folder = Folder::new(&Alone, Root::Mesh);
    let raw = match texels {
        None => {
            let wanted = Wanted {
                uvs,
                offset,
                ..Wanted::default()
            };
            load::read_bytes(bytes, name, &folder, wanted, progress)?.0
        }
        Some(texels) => {
            let (raw, pictures) = load::painted_bytes(bytes, name, &folder, &offset, progress)?;
            let same = |(one, other): (&[u8; 4], &[u8; 4])| number(one) == number(other);
            let page = |(picture, texels): (&Picture, &Cow<'_, [[u8; 4]]>)| {
                picture.texels.len() == texels.len()
                    && (picture.texels.par_iter().zip(texels.par_iter())).all(same)
            };
            let shown = of_triangle.is_empty() || pictures.of_triangle == of_triangle;
            let mut pairs = pictures.pictures.iter().zip(texels);
            if pictures.pictures.len() != texels.len() || !shown || !pairs.all(page) {
                return Err(ReadBackError::Texture);
            }
            raw
        }
    };
    compare(mesh, &raw, uvs, tolerance).map_err(ReadBackError::Mesh)?;
    Ok(Mesh {
        normals: vec![[0.0; 3]; raw.positions.len()],
        surface_vertices: weld(&raw.positions),
        uvs: (raw.uvs).unwrap_or_else(|_none| vec![[0.0; 2]; raw.positions.len()]),
        positions: raw.positions,
        triangles: raw.triangles,
        charts: mesh.charts,
    })
}

/// Checks the materials of a GLB, one per page, against `material`: every slot and its picture, except the base colour.
///
/// # Errors
/// It holds something else.
pub fn read_material(
    bytes: &[u8],
    material: &Material,
    sheets: &Sheets,
) -> Result<(), ReadBackError> {
    let (document, binary) = chunks(bytes).ok_or(ReadBackError::Slot("container"))?;
    let materials = document["materials"].as_array().map_or(0, Vec::len);
    if materials != sheets.leaves().len() {
        return Err(ReadBackError::Slot("number of materials"));
    }
    let mut leaves = sheets.leaves().iter().enumerate();
    leaves.try_for_each(|leaf| read_leaf(&document, binary, material, sheets, leaf))
}

/// Checks the material of one page.
fn read_leaf(
    document: &Value,
    binary: &[u8],
    material: &Material,
    sheets: &Sheets,
    (number, leaf): (usize, &Leaf),
) -> Result<(), ReadBackError> {
    let surface = &document["materials"][number];
    let orm = |used: bool| material.orm.as_ref().filter(|_| used);
    let slots = [
        (
            "pbrMetallicRoughness/metallicRoughnessTexture",
            orm(material.metallic_roughness),
        ),
        ("occlusionTexture", orm(material.occlusion)),
        ("normalTexture", material.normal.as_ref()),
        ("emissiveTexture", material.emissive.as_ref()),
    ];
    for (slot, wanted) in slots {
        let texture = surface.pointer(&format!("/{slot}/index"));
        let found = texture.and_then(|index| picture_of(document, binary, index));
        let same = match (wanted, found) {
            (None, None) => texture.is_none(),
            (Some(wanted), Some(file)) => {
                let atlas = wanted.texels.len().isqrt() as u32;
                let wanted = sheets.cut(leaf, atlas, &wanted.texels);
                picture::decode(file, sheets.edge(atlas)).is_ok_and(|texels| {
                    let mut pairs = texels.iter().zip(wanted.iter());
                    pairs.all(|(one, other)| one[..3] == other[..3])
                })
            }
            _ => false,
        };
        if !same {
            return Err(ReadBackError::Slot(slot));
        }
    }
    let primitive = &document["meshes"][0]["primitives"][number];
    if primitive["material"] != number {
        return Err(ReadBackError::Slot("material"));
    }
    let tangents = primitive.pointer("/attributes/TANGENT");
    if tangents.is_some() != material.tangents.is_some() {
        return Err(ReadBackError::Slot("TANGENT"));
    }
    let mode = match material.alpha {
        Some(AlphaMode::Mask) => Some("MASK"),
        Some(AlphaMode::Blend) => Some("BLEND"),
        Some(AlphaMode::Auto | AlphaMode::Opaque) | None => None,
    };
    if surface["alphaMode"].as_str() != mode {
        return Err(ReadBackError::Slot("alphaMode"));
    }
    Ok(())
}

/// The file of a texture's picture.
fn picture_of<'a>(document: &Value, binary: &'a [u8], texture: &Value) -> Option<&'a [u8]> {
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let texture = &document["textures"][number(texture)?];
    let named = ["EXT_texture_webp", "KHR_texture_basisu"]
        .into_iter()
        .find_map(|name| texture.pointer(&format!("/extensions/{name}/source")));
    let image = &document["images"][number(named.unwrap_or(&texture["source"]))?];
    let view = &document["bufferViews"][number(&image["bufferView"])?];
    let start = number(&view["byteOffset"])?;
    binary.get(start..start + number(&view["byteLength"])?)
}

/// Compares triangle by triangle; the corners may start at another one.
fn compare(mesh: &Mesh, raw: &RawMesh, uvs: bool, tolerance: Tolerance) -> Result<(), String> {
    let (wanted, found) = (mesh.triangles.len(), raw.triangles.len());
    if wanted != found {
        return Err(format!("it has {found} triangles and not {wanted}"));
    }
    let coordinates = match &raw.uvs {
        Ok(coordinates) => Some(coordinates),
        Err(missing) if uvs => return Err(missing.to_string()),
        Err(_) => None,
    };
    let within =
        |a: &[f32], b: &[f32], most: f32| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= most);
    let corner = |mine: u32, theirs: u32| {
        let (mine, theirs) = (mine as usize, theirs as usize);
        within(
            &mesh.positions[mine],
            &raw.positions[theirs],
            tolerance.position,
        ) && (!uvs
            || coordinates.is_some_and(|all| within(&mesh.uvs[mine], &all[theirs], tolerance.uv)))
    };
    for (number, (mine, theirs)) in mesh.triangles.iter().zip(&raw.triangles).enumerate() {
        let turned = |turn: usize| (0..3).all(|k| corner(mine[k], theirs[(k + turn) % 3]));
        if !(0..3).any(turned) {
            return Err(format!("triangle {number} lies elsewhere"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proto::job::{Compress, Container, Form, TextureFormat};

    use super::super::glb::{self, Dress, quantised};
    use super::super::part::order;
    use super::super::{obj, ply};
    use super::*;
    use crate::worker::progress::Silent;

    /// A wavy grid of 20×20 squares, its left and right halves apart in the texture.
    fn grid() -> Mesh {
        let mut mesh = Mesh {
            charts: 2,
            ..Mesh::default()
        };
        for half in 0..2_u32 {
            let first = mesh.positions.len() as u32;
            for k in 0..21 * 11_u32 {
                let (x, y) = (half * 10 + k % 11, k / 11);
                let height = (x as f32 * 0.7).sin() + (y as f32 * 0.9).cos();
                mesh.positions
                    .push([x as f32 * 0.1 - 7.0, height, y as f32 * 0.3 + 100.0]);
                mesh.normals.push([0.1 * (x % 3) as f32, 1.0, 0.0]);
                let across = (k % 11) as f32 / 10.0 * 0.45 + half as f32 * 0.5 + 0.02;
                mesh.uvs.push([across, y as f32 / 20.0 * 0.9 + 0.03]);
            }
            for k in 0..20 * 10_u32 {
                let at = first + k / 10 * 11 + k % 10;
                mesh.triangles.push([at, at + 11, at + 1]);
                mesh.triangles.push([at + 1, at + 11, at + 12]);
            }
        }
        mesh.surface_vertices = weld(&mesh.positions);
        mesh
    }

    fn texels() -> Vec<[u8; 4]> {
        (0..64 * 64_u32)
            .map(|k| [(k % 64) as u8 * 3, (k / 64) as u8, 80, 255])
            .collect()
    }

    fn check(
        bytes: &[u8],
        mesh: &Mesh,
        texels: Option<&[[u8; 4]]>,
        tolerance: Tolerance,
        name: &str,
    ) -> Result<Mesh, ReadBackError> {
        let pages = texels.map(|texels| [Cow::Borrowed(texels)]);
        let read = ReadBack {
            name,
            uvs: true,
            texels: pages.as_ref().map(|pages| &pages[..]),
            of_triangle: &[],
            alpha: false,
            offset: Offset::default(),
            tolerance,
        };
        read_back(&read, bytes, mesh, &Silent)
    }

    #[test]
    fn every_glb_reads_back_and_meshopt_makes_it_small() {
        let texels = texels();
        for format in [
            TextureFormat::Png,
            TextureFormat::Jpeg,
            TextureFormat::Webp,
            TextureFormat::WebpLossy,
            TextureFormat::Ktx2Etc1s,
            TextureFormat::Ktx2Uastc,
        ] {
            let (file, held) = picture::encode(format, 90, 64, &texels).unwrap();
            let held = held.as_ref().unwrap_or(&texels);
            let mesh = grid();
            let plain = glb::write(&mesh, Dress::Texture(&file, format), Compress::None).unwrap();
            let back = check(&plain, &mesh, Some(held), Tolerance::NONE, "a.glb").unwrap();
            assert_eq!(back.triangles.len(), 800);

            let (mesh, _) = order(&mesh);
            let tolerance = Tolerance {
                position: quantised::position_error(&mesh),
                uv: quantised::UV_ERROR,
            };
            let small =
                glb::write(&mesh, Dress::Texture(&file, format), Compress::Meshopt).unwrap();
            let back = check(&small, &mesh, Some(held), tolerance, "a.glb").unwrap();
            let bytes = |glb: &Vec<u8>| glb.len() - file.len();
            assert!(
                bytes(&small) * 2 < bytes(&plain),
                "{} of {}",
                small.len(),
                plain.len()
            );
            // The seam of 20 edges is still one, and no crack has opened beside it.
            let points = |mesh: &Mesh| {
                let mut points: Vec<u32> = weld(&mesh.positions);
                points.sort_unstable();
                points.dedup();
                points.len()
            };
            assert_eq!((points(&back), back.positions.len()), (21 * 21, 21 * 22));
            // Without its tolerance the lossy file does not pass.
            let exact = check(&small, &mesh, Some(held), Tolerance::NONE, "a.glb");
            assert!(matches!(exact, Err(ReadBackError::Mesh(_))), "{exact:?}");
        }
    }

    #[test]
    fn ply_and_obj_read_back() {
        let mesh = grid();
        let form = |container| Form {
            container,
            stem: "a".to_owned(),
            ..Form::default()
        };
        let dress = Dress::Texture(b"", TextureFormat::Png);
        let files = [
            ("a.ply", ply::write(&mesh, dress, &form(Container::Ply))),
            (
                "a.obj",
                obj::write(&mesh, &Sheets::one(&mesh), dress, &form(Container::Obj)),
            ),
        ];
        for (name, file) in files {
            check(&file, &mesh, None, Tolerance::TURNED, name).unwrap();
            let mut other = mesh.clone();
            other.uvs[7][1] += 0.001;
            let moved = check(&file, &other, None, Tolerance::TURNED, name);
            assert!(
                matches!(moved, Err(ReadBackError::Mesh(_))),
                "{name}: {moved:?}"
            );
            assert!(
                check(
                    &file[..file.len() - 9],
                    &mesh,
                    None,
                    Tolerance::TURNED,
                    name
                )
                .is_err()
            );
        }
    }

    #[test]
    fn an_offset_is_written_and_the_local_mesh_read_back() {
        let (mesh, dress) = (grid(), Dress::Texture(b"", TextureFormat::Png));
        let offset = [451_201.0, 97.5, -5_412_299.031_25];
        let form = |container| Form {
            container,
            stem: "a".to_owned(),
            offset,
            ..Form::default()
        };
        let colours = vec![[9; 4]; mesh.positions.len()];
        let glb = |mesh, compress| {
            let leaf = glb::Leaf {
                mesh: Cow::Borrowed(mesh),
                dress: Dress::Vertices(&colours),
                tangents: None,
                provenance: None,
                tile: None,
            };
            let form = Form {
                compress,
                ..form(Container::Glb)
            };
            glb::write_leaves(&[leaf], &Material::default(), &form).unwrap()
        };
        let (sorted, _) = order(&mesh);
        let small = Tolerance {
            position: quantised::position_error(&sorted),
            uv: 0.0,
        };
        let obj = obj::write(&mesh, &Sheets::one(&mesh), dress, &form(Container::Obj));
        let files = [
            ("a.glb", glb(&mesh, Compress::None), &mesh, Tolerance::NONE),
            ("a.glb", glb(&sorted, Compress::Meshopt), &sorted, small),
            (
                "a.ply",
                ply::write(&mesh, dress, &form(Container::Ply)),
                &mesh,
                Tolerance::TURNED,
            ),
            ("a.obj", obj, &mesh, Tolerance::TURNED),
        ];
        for (name, file, mesh, tolerance) in files {
            let read = |offset| {
                let read = ReadBack {
                    name,
                    uvs: false,
                    texels: None,
                    of_triangle: &[],
                    alpha: false,
                    offset,
                    tolerance,
                };
                read_back(&read, &file, mesh, &Silent).map(drop)
            };
            read(offset).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(read([0.0; 3]).is_err(), "{name} carries the offset");
        }
        // Bounds stay local.
        let (document, _) = chunks(&glb(&mesh, Compress::None)).unwrap();
        assert_eq!(
            document["nodes"][0]["translation"],
            serde_json::json!(offset)
        );
        assert_eq!(document["accessors"][0]["max"][2], 106.0);
    }

    #[test]
    fn another_mesh_or_texture_does_not_pass() {
        let (texels, mesh) = (texels(), grid());
        let (file, _) = picture::encode(TextureFormat::Png, 90, 64, &texels).unwrap();
        let dress = Dress::Texture(&file, TextureFormat::Png);
        let glb = glb::write(&mesh, dress, Compress::None).unwrap();
        let of = |mesh: &Mesh, texels: &[[u8; 4]]| {
            check(&glb, mesh, Some(texels), Tolerance::NONE, "a.glb").map(drop)
        };
        of(&mesh, &texels).unwrap();
        let mut other = texels.clone();
        other[5][0] ^= 1;
        assert!(matches!(of(&mesh, &other), Err(ReadBackError::Texture)));
        let mut moved = mesh.clone();
        moved.positions[3][1] += 1e-4;
        assert!(matches!(of(&moved, &texels), Err(ReadBackError::Mesh(_))));
        let mut fewer = mesh.clone();
        fewer.triangles.pop();
        assert!(matches!(of(&fewer, &texels), Err(ReadBackError::Mesh(_))));
        // The same triangle wound the other way.
        let mut turned = mesh;
        turned.triangles[0].swap(0, 1);
        assert!(matches!(of(&turned, &texels), Err(ReadBackError::Mesh(_))));
    }
}
