//! Reads the triangles of a glTF's or GLB's default scene in world coordinates.
//!
//! The `gltf` crate supplies the JSON types. Every reference between them or into bytes is checked here and in the
//! files beside: the crate's validation indexes before it checks, and its readers trust counts. `serde_json`'s depth
//! limit keeps nesting from overflowing the stack. Transforms are applied in f64; one that mirrors flips the winding.
//! Only vertices that triangles use are kept.

mod error;
pub(super) mod painted;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use gltf::json;
use json::mesh::{Mode, Semantic};
use json::validation::Checked;
use proto::limits::{MAX_TRIANGLES, MAX_VERTICES};
use proto::message::Phase;
use serde_json::Value;

pub use self::error::GltfError;
use super::accessor::{self, AccessorError, Elements, Use};
use super::buffers::Buffers;
use super::glb;
use super::raw::{NoUvs, RawMesh, Wanted};
use super::scene::{self, Instance};
use crate::worker::folder::Folder;
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

/// Supported extensions that change how positions are stored.
const GEOMETRY_EXTENSIONS: [&str; 3] = [
    "KHR_mesh_quantization",
    "EXT_meshopt_compression",
    "KHR_meshopt_compression",
];
/// Prefixes of extensions that do not touch positions: the bake replaces what they do.
const OTHER_EXTENSIONS: [&str; 6] = [
    "KHR_materials_",
    "KHR_texture_",
    "EXT_texture_",
    "MSFT_texture_",
    "KHR_lights_",
    "KHR_animation_",
];

/// Reads the bytes of the file `name`, a GLB or bare JSON.
pub(super) fn read(
    bytes: &[u8],
    is_glb: bool,
    name: &str,
    folder: &Folder<'_>,
    wanted: Wanted,
    progress: &dyn Progress,
) -> Result<RawMesh, GltfError> {
    let nothing = |_: &mut Reader<'_>| Ok(());
    let (mesh, ()) = read_with(
        (bytes, is_glb),
        name,
        folder,
        (wanted, true),
        progress,
        nothing,
    )?;
    Ok(mesh)
}

/// Like [`read`], plus what `more` reads.
fn read_with<T>(
    (bytes, is_glb): (&[u8], bool),
    name: &str,
    folder: &Folder<'_>,
    (wanted, one_set): (Wanted, bool),
    progress: &dyn Progress,
    more: impl FnOnce(&mut Reader<'_>) -> Result<T, GltfError>,
) -> Result<(RawMesh, T), GltfError> {
    let (json, bin) = if is_glb {
        let chunks = glb::split(bytes)?;
        (
            &bytes[chunks.json],
            chunks.bin.map(|range: Range<usize>| &bytes[range]),
        )
    } else {
        (bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes), None)
    };
    let root = parse(json)?;
    check_root(&root)?;
    let instances = scene::instances_at(&root, json, &wanted.offset)?;
    if instances.is_empty() {
        return Err(GltfError::NoMesh);
    }
    let beside = name.rfind('/').map_or("", |slash| &name[..=slash]);
    let mut reader = Reader {
        root: &root,
        buffers: Buffers::new(&root, folder, beside, bin),
        parts: Vec::new(),
        want_uvs: wanted.uvs,
        set: wanted.set,
        one_set,
        used_set: None,
        mesh: RawMesh {
            positions: Vec::new(),
            uvs: Ok(Vec::new()),
            triangles: Vec::new(),
        },
        skipped: 0,
        without_uvs: 0,
    };
    let total = instances.len() as u64;
    for (done, instance) in instances.iter().enumerate() {
        progress.progress(Phase::LoadMesh, done as u64, total);
        progress.expect("a node of the mesh", each(bytes.len(), pace::PARSE_BYTE));
        let count = reader
            .root
            .meshes
            .get(instance.mesh)
            .map_or(0, |mesh| mesh.primitives.len());
        for primitive in 0..count {
            reader.add(instance, primitive)?;
        }
    }
    warn(&root, &instances, reader.skipped, progress);
    let more = more(&mut reader)?;
    Ok((reader.finish()?, more))
}

/// Parses a file as the crate does. Where that fails it parses once more without parts that no bake needs: a scene
/// without nodes is valid, and animation channels have no node where an extension names their target.
fn parse(bytes: &[u8]) -> Result<json::Root, GltfError> {
    let whole = match json::deserialize::from_slice(bytes) {
        Ok(root) => return Ok(root),
        Err(error) => GltfError::Json(error),
    };
    let Ok(mut file) = serde_json::from_slice::<serde_json::Map<_, _>>(bytes) else {
        return Err(whole);
    };
    file.remove("animations");
    let scenes = file.get_mut("scenes").and_then(Value::as_array_mut);
    for scene in scenes
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        scene
            .entry("nodes")
            .or_insert_with(|| Value::Array(Vec::new()));
    }
    serde_json::from_value(Value::Object(file)).map_err(|_| whole)
}

fn check_root(root: &json::Root) -> Result<(), GltfError> {
    let minimum = root
        .asset
        .min_version
        .as_ref()
        .unwrap_or(&root.asset.version);
    if !root.asset.version.starts_with("2.") || !matches!(minimum.as_str(), "2.0" | "2.1") {
        return Err(GltfError::Version(minimum.clone()));
    }
    for name in &root.extensions_required {
        let harmless = OTHER_EXTENSIONS.iter().any(|start| name.starts_with(start));
        if !harmless && !GEOMETRY_EXTENSIONS.contains(&name.as_str()) {
            return Err(GltfError::Extension(name.clone()));
        }
    }
    Ok(())
}

fn warn(root: &json::Root, instances: &[Instance], skipped: usize, progress: &dyn Progress) {
    if root.scenes.len() > 1 {
        let scene = root.scene.map_or(0, |scene| scene.value());
        progress.warning(&format!(
            "the file has {} scenes; only scene {scene} is baked",
            root.scenes.len()
        ));
    }
    if skipped > 0 {
        progress.warning(&format!(
            "{skipped} primitives of points or lines were left out"
        ));
    }
    if instances.iter().any(|instance| instance.skinned) {
        progress.warning("the mesh has a skin: its bind pose is baked");
    }
    let used = |instance: &Instance| root.meshes.get(instance.mesh);
    let mut primitives = instances
        .iter()
        .filter_map(used)
        .flat_map(|mesh| &mesh.primitives);
    if primitives.any(|primitive| {
        primitive
            .targets
            .as_ref()
            .is_some_and(|targets| !targets.is_empty())
    }) {
        progress.warning("the mesh has morph targets: its base shape is baked");
    }
    if root
        .extensions_used
        .iter()
        .any(|name| name == "EXT_mesh_gpu_instancing")
    {
        progress.warning("EXT_mesh_gpu_instancing is not read: each instanced mesh is baked once");
    }
}

/// The triangles of a primitive, which has one material.
struct Part {
    triangles: usize,
    material: Option<usize>,
    /// It has vertex colours.
    coloured: bool,
}

struct Reader<'a> {
    root: &'a json::Root,
    buffers: Buffers<'a>,
    /// Primitives in the order of their triangles.
    parts: Vec<Part>,
    want_uvs: bool,
    /// The texture coordinate set asked for by number.
    set: Option<u32>,
    /// All primitives must use the same set.
    one_set: bool,
    /// The set of the primitives so far.
    used_set: Option<u32>,
    mesh: RawMesh,
    /// Number of primitives of points or lines.
    skipped: usize,
    /// Number of triangle primitives without texture coordinates.
    without_uvs: usize,
}

impl Reader<'_> {
    fn finish(mut self) -> Result<RawMesh, GltfError> {
        if self.mesh.triangles.is_empty() {
            return Err(GltfError::NoTriangles {
                skipped: self.skipped,
            });
        }
        match &self.mesh.uvs {
            _ if !self.want_uvs => self.mesh.uvs = Err(NoUvs::NotAsked),
            Ok(_) if self.set.is_some() && self.without_uvs > 0 => {
                self.mesh.uvs = Err(NoUvs::NoSuchSet);
            }
            Ok(uvs) if uvs.is_empty() => self.mesh.uvs = Err(NoUvs::Absent),
            Ok(_) if self.without_uvs > 0 => self.mesh.uvs = Err(NoUvs::PartlyAbsent),
            Ok(_) | Err(_) => {}
        }
        Ok(self.mesh)
    }

    /// Adds the triangles of primitive `number` of an instance's mesh.
    fn add(&mut self, instance: &Instance, number: usize) -> Result<(), GltfError> {
        let root = self.root;
        let mesh = root.meshes.get(instance.mesh);
        let Some(primitive) = mesh.and_then(|json| json.primitives.get(number)) else {
            return Ok(());
        };
        let place = Place {
            mesh: instance.mesh,
            primitive: number,
        };
        let Some(mode) = place.mode(primitive)? else {
            self.skipped += 1;
            return Ok(());
        };
        let attribute = |semantic| {
            let index = primitive.attributes.get(&Checked::Valid(semantic));
            index.map(|index| index.value())
        };
        let position = attribute(Semantic::Positions).ok_or_else(|| place.lacks("POSITION"))?;
        let uv = if self.want_uvs {
            self.uv_set(primitive)
                .and_then(|set| attribute(Semantic::TexCoords(set)))
        } else {
            None
        };
        let index = primitive.indices.map(|index| index.value());
        let at = |error| place.accessor(error);
        for accessor in [Some(position), uv, index].into_iter().flatten() {
            accessor::load(root, &mut self.buffers, accessor).map_err(at)?;
        }
        let open = |index, purpose| Elements::open(root, &self.buffers, index, purpose).map_err(at);
        let corners = Corners {
            mode,
            positions: open(position, Use::Position)?,
            uvs: uv.map(|uv| open(uv, Use::TexCoord)).transpose()?,
            indices: index.map(|index| open(index, Use::Index)).transpose()?,
        };
        let triangles = corners.triangles(place)?;
        if triangles > MAX_TRIANGLES - self.mesh.triangles.len() {
            return Err(GltfError::TooLarge {
                what: "triangles",
                limit: MAX_TRIANGLES,
            });
        }
        corners.append(triangles, instance, place, &mut self.mesh)?;
        if self.mesh.positions.len() > MAX_VERTICES {
            return Err(GltfError::TooLarge {
                what: "vertices",
                limit: MAX_VERTICES,
            });
        }
        self.parts.push(Part {
            triangles,
            material: primitive.material.map(|index| index.value()),
            coloured: attribute(Semantic::Colors(0)).is_some(),
        });
        if uv.is_none() && triangles > 0 {
            self.without_uvs += 1;
            // Keeps both lists equally long. `finish` drops the made-up coordinates.
            if let Ok(all) = &mut self.mesh.uvs
                && !all.is_empty()
            {
                all.resize(self.mesh.positions.len(), [0.0; 2]);
            }
        }
        Ok(())
    }

    /// The texture coordinate set that the base colour uses, 0 without a texture; none where the material transforms
    /// it.
    fn uv_set(&mut self, primitive: &json::mesh::Primitive) -> Option<u32> {
        if self.set.is_some() {
            return self.set;
        }
        let set = self.own_uv_set(primitive)?;
        match self.used_set.replace(set) {
            Some(other) if other != set && self.one_set => {
                self.mesh.uvs = Err(NoUvs::Sets(other.min(set), other.max(set)));
                None
            }
            _ => Some(set),
        }
    }

    /// Like [`Self::uv_set`], where none is asked for by number.
    fn own_uv_set(&mut self, primitive: &json::mesh::Primitive) -> Option<u32> {
        let material = primitive
            .material
            .and_then(|index| self.root.materials.get(index.value()));
        let Some(texture) =
            material.and_then(|json| json.pbr_metallic_roughness.base_color_texture.as_ref())
        else {
            return Some(0);
        };
        let extensions = texture.extensions.as_ref();
        if extensions.is_some_and(|all| all.others.contains_key("KHR_texture_transform")) {
            self.mesh.uvs = Err(NoUvs::Transformed);
            return None;
        }
        Some(texture.tex_coord)
    }
}

/// A primitive of a mesh, for errors.
#[derive(Clone, Copy)]
struct Place {
    mesh: usize,
    primitive: usize,
}

impl Place {
    fn lacks(self, what: &'static str) -> GltfError {
        let Self { mesh, primitive } = self;
        GltfError::Lacks {
            mesh,
            primitive,
            what,
        }
    }

    fn accessor(self, error: AccessorError) -> GltfError {
        let Self { mesh, primitive } = self;
        GltfError::Accessor {
            mesh,
            primitive,
            error,
        }
    }

    /// How the corners make triangles; none for points and lines.
    fn mode(self, primitive: &json::mesh::Primitive) -> Result<Option<Mode>, GltfError> {
        const DRACO: &str = "KHR_draco_mesh_compression";
        let Checked::Valid(mode) = primitive.mode else {
            return Err(self.lacks("known mode"));
        };
        if !matches!(
            mode,
            Mode::Triangles | Mode::TriangleStrip | Mode::TriangleFan
        ) {
            return Ok(None);
        }
        let extensions = primitive.extensions.as_ref();
        let draco = extensions.is_some_and(|all| all.others.contains_key(DRACO));
        if draco && primitive.attributes.is_empty() {
            return Err(GltfError::Extension(DRACO.to_owned()));
        }
        Ok(Some(mode))
    }
}

/// The elements of a primitive.
struct Corners<'a> {
    mode: Mode,
    positions: Elements<'a>,
    uvs: Option<Elements<'a>>,
    indices: Option<Elements<'a>>,
}

impl Corners<'_> {
    fn count(&self) -> usize {
        let indices = self.indices.as_ref();
        indices.map_or(self.positions.count(), Elements::count)
    }

    /// The number of triangles.
    fn triangles(&self, Place { mesh, primitive }: Place) -> Result<usize, GltfError> {
        let count = self.count();
        match self.mode {
            Mode::Triangles if !count.is_multiple_of(3) => Err(GltfError::Remainder {
                mesh,
                primitive,
                count,
            }),
            Mode::Triangles => Ok(count / 3),
            _ => Ok(count.saturating_sub(2)),
        }
    }

    /// Appends the triangles in world coordinates, with the vertices that they use.
    fn append(
        &self,
        triangles: usize,
        instance: &Instance,
        Place { mesh, primitive }: Place,
        into: &mut RawMesh,
    ) -> Result<(), GltfError> {
        let vertices = self.positions.count();
        let mut used = Used::new(vertices, self.count());
        let first = into.positions.len();
        let mirrored = scene::mirrors(&instance.transform);
        for triangle in 0..triangles {
            let mut corners = corners_of(self.mode, triangle);
            if mirrored {
                corners.swap(1, 2);
            }
            let mut wound = [0; 3];
            for (vertex, corner) in wound.iter_mut().zip(corners) {
                let indices = self.indices.as_ref();
                let index = indices.map_or(corner as u32, |indices| indices.index(corner));
                if index as usize >= vertices {
                    return Err(GltfError::Index {
                        mesh,
                        primitive,
                        vertex: index,
                        vertices,
                    });
                }
                let (place, new) = used.place(index);
                if new {
                    let point = self.positions.floats(index as usize);
                    let point = scene::apply(&instance.transform, point);
                    into.positions.push(point.map(|x| x as f32));
                    if let (Ok(all), Some(uvs)) = (&mut into.uvs, &self.uvs) {
                        all.push(uvs.floats(index as usize).map(|x| x as f32));
                    }
                }
                *vertex = first as u32 + place;
            }
            into.triangles.push(wound);
        }
        Ok(())
    }
}

/// Corners of a triangle within a list, strip or fan. Every second triangle of a strip is wound the other way.
fn corners_of(mode: Mode, triangle: usize) -> [usize; 3] {
    match mode {
        Mode::TriangleStrip => [
            triangle,
            triangle + 1 + triangle % 2,
            triangle + 2 - triangle % 2,
        ],
        Mode::TriangleFan => [0, triangle + 1, triangle + 2],
        _ => [3 * triangle, 3 * triangle + 1, 3 * triangle + 2],
    }
}

/// Renumbers vertices in the order of their first use.
enum Used {
    /// By vertex: for primitives that use many of their vertices.
    Dense(Vec<u32>, u32),
    /// For primitives that share the vertices of a large mesh.
    Sparse(HashMap<u32, u32>),
}

impl Used {
    fn new(vertices: usize, corners: usize) -> Self {
        if vertices / 8 <= corners {
            Self::Dense(vec![u32::MAX; vertices], 0)
        } else {
            Self::Sparse(HashMap::new())
        }
    }

    /// The new number of `vertex`, and whether this is its first use.
    fn place(&mut self, vertex: u32) -> (u32, bool) {
        match self {
            Self::Dense(places, next) => {
                let place = &mut places[vertex as usize];
                let new = *place == u32::MAX;
                if new {
                    *place = *next;
                    *next += 1;
                }
                (*place, new)
            }
            Self::Sparse(places) => {
                let next = places.len() as u32;
                let place = *places.entry(vertex).or_insert(next);
                (place, place == next)
            }
        }
    }
}
