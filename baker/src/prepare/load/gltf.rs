//! Reads the triangles of a glTF's or GLB's default scene in world coordinates.
//!
//! The `gltf` crate supplies the JSON types. Every reference between them or into bytes is checked here and in the
//! files beside: the crate's validation indexes before it checks, and its readers trust counts. `serde_json`'s depth
//! limit keeps nesting from overflowing the stack. Transforms are applied in f64; one that mirrors flips the winding.
//! Only vertices that triangles use are kept. A shape is what a viewer shows before any animation: morph targets at
//! their default weights ([`morph`]), then the skin in its rest pose ([`skin`]), at each of its places ([`instances`]).

mod error;
mod instances;
mod labels;
mod morph;
pub(super) mod painted;
mod skin;
mod sources;
mod texcoord;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use gltf::json;
use json::mesh::{Mode, Semantic};
use json::validation::Checked;
use proto::labels::Labels;
use proto::limits::{MAX_TRIANGLES, MAX_VERTICES};
use proto::message::Phase;
use serde_json::Value;

pub use self::error::GltfError;
use self::instances::Places;
use self::skin::{Bones, Skins};
use self::sources::Sources;
use self::texcoord::Shift;
use super::accessor::{self, AccessorError, Elements};
use super::buffers::Buffers;
use super::glb;
use super::raw::{NoUvs, Offset, RawMesh, Wanted};
use super::scene::{self, Instance, Transform};
use crate::prepare::transforms::lenient;
use crate::worker::folder::Folder;
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

/// Supported extensions that change how positions are stored or placed.
const GEOMETRY_EXTENSIONS: [&str; 4] = [
    "EXT_mesh_gpu_instancing",
    "KHR_mesh_quantization",
    "EXT_meshopt_compression",
    "KHR_meshopt_compression",
];
/// Prefixes of extensions that do not touch positions: the bake replaces what they do.
const OTHER_EXTENSIONS: [&str; 7] = [
    "KHR_materials_",
    "KHR_texture_",
    "EXT_texture_",
    "MSFT_texture_",
    "KHR_lights_",
    "KHR_animation_",
    // Of points, which are no triangles.
    "KHR_gaussian_splatting",
];

/// Reads the bytes of the file `name`, a GLB or bare JSON, and what it calls itself.
pub(super) fn read(
    bytes: &[u8],
    is_glb: bool,
    name: &str,
    folder: &Folder<'_>,
    wanted: Wanted,
    progress: &dyn Progress,
) -> Result<(RawMesh, Labels), GltfError> {
    let (json, _) = parts(bytes, is_glb)?;
    let labels = |reader: &mut Reader<'_>| Ok(labels::of(reader.root, &reader.parts, json));
    let file = (bytes, is_glb);
    read_with(file, name, folder, (wanted, true), progress, labels)
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
    let (json, bin) = parts(bytes, is_glb)?;
    let root = parse(json, wanted.uvs)?;
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
        offset: wanted.offset,
        skins: Skins::default(),
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
            reader.add(instance, primitive, progress)?;
        }
    }
    warn(&root, &instances, reader.skipped, progress);
    let more = more(&mut reader)?;
    Ok((reader.finish()?, more))
}

/// The JSON of a GLB or glTF, and the binary chunk of a GLB.
pub(in crate::prepare) fn parts(
    bytes: &[u8],
    is_glb: bool,
) -> Result<(&[u8], Option<&[u8]>), GltfError> {
    if !is_glb {
        let json = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        return Ok((json, None));
    }
    let chunks = glb::split(bytes)?;
    let bin = chunks.bin.map(|range: Range<usize>| &bytes[range]);
    Ok((&bytes[chunks.json], bin))
}

/// Parses a file as the crate does. Where that fails it parses once more without parts that no bake needs: a scene
/// without nodes is valid, animation channels have no node where an extension names their target, Python writes NaN
/// into bounds, and only texture coordinates that are kept need materials.
pub(in crate::prepare) fn parse(bytes: &[u8], want_uvs: bool) -> Result<json::Root, GltfError> {
    let whole = match json::deserialize::from_slice(bytes) {
        Ok(root) => return Ok(root),
        Err(error) => GltfError::Json(error),
    };
    let text = lenient::plain(bytes, lenient::NULL);
    let Ok(mut file) = serde_json::from_slice::<serde_json::Map<_, _>>(&text) else {
        return Err(whole);
    };
    file.remove("animations");
    file.remove("cameras");
    if !want_uvs {
        for unused in ["materials", "textures", "images", "samplers"] {
            file.remove(unused);
        }
    }
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

pub(in crate::prepare) fn check_root(root: &json::Root) -> Result<(), GltfError> {
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
    let skinned = |node: &json::Node| node.skin.is_some();
    let nodes = instances.iter().filter_map(|instance| instance.node);
    if nodes.filter_map(|node| root.nodes.get(node)).any(skinned) {
        progress.warning("the mesh has a skin: it is baked in its rest pose");
    }
}

/// The triangles of a primitive, which has one material.
struct Part {
    triangles: usize,
    node: Option<usize>,
    mesh: usize,
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
    /// What positions are less.
    offset: Offset,
    skins: Skins,
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

    /// Adds the triangles of primitive `number` of an instance's mesh, at each of its places.
    fn add(
        &mut self,
        instance: &Instance,
        number: usize,
        progress: &dyn Progress,
    ) -> Result<(), GltfError> {
        let root = self.root;
        let mesh = root.meshes.get(instance.mesh);
        let Some(primitive) = mesh.and_then(|json| json.primitives.get(number)) else {
            return Ok(());
        };
        let place = Place {
            mesh: instance.mesh,
            primitive: number,
        };
        let Some(mode) = place.mode(root, primitive)? else {
            self.skipped += 1;
            return Ok(());
        };
        let (set, shift) = self.uv_set(primitive).unzip();
        let sources = Sources::new(root, instance, primitive, set, place)?;
        for accessor in sources.all() {
            let loaded = accessor::load(root, &mut self.buffers, accessor);
            loaded.map_err(|error| place.accessor(error))?;
        }
        if let Some(skin) = sources.skin {
            self.skins.load(root, &mut self.buffers, skin)?;
        }
        let corners = Corners {
            mode,
            shift: shift.flatten(),
            ..sources.open(root, (&self.buffers, &self.skins), place)?
        };
        let of_node = match corners.bones {
            // glTF: the node's own transform does not apply to a skinned mesh.
            Some(_) => {
                let [x, y, z, _] = scene::IDENTITY;
                (None, [x, y, z, self.offset.map(|k| -k)])
            }
            None => (instance.node, instance.transform),
        };
        let places = Places::open(root, &self.buffers, of_node, sources.places)?;
        let triangles = corners.triangles(place)?;
        let all = triangles.saturating_mul(places.count());
        if all > MAX_TRIANGLES - self.mesh.triangles.len() {
            return Err(GltfError::TooLarge {
                what: "triangles",
                limit: MAX_TRIANGLES,
            });
        }
        if all > 0 {
            progress.expect("a primitive of the mesh", corners.predicted(all));
            for number in 0..places.count() {
                corners.append(triangles, &places.at(number), place, &mut self.mesh)?;
                if self.mesh.positions.len() > MAX_VERTICES {
                    return Err(GltfError::TooLarge {
                        what: "vertices",
                        limit: MAX_VERTICES,
                    });
                }
            }
        }
        self.parts.push(Part {
            triangles: all,
            node: instance.node,
            mesh: instance.mesh,
            material: primitive.material.map(|index| index.value()),
            coloured: attribute(primitive, Semantic::Colors(0)).is_some(),
        });
        if sources.uv.is_none() && all > 0 {
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

    /// The texture coordinate set that the base colour uses, 0 without a texture, and how the material moves it. A set
    /// that is asked for by number is taken as it is.
    fn uv_set(&mut self, primitive: &json::mesh::Primitive) -> Option<(u32, Option<Shift>)> {
        if !self.want_uvs {
            return None;
        }
        if let Some(set) = self.set {
            return Some((set, None));
        }
        let material = primitive.material;
        let material = material.and_then(|index| self.root.materials.get(index.value()));
        let (set, shift) = texcoord::of_material(material);
        match self.used_set.replace(set) {
            Some(other) if other != set && self.one_set => {
                self.mesh.uvs = Err(NoUvs::Sets(other.min(set), other.max(set)));
                None
            }
            _ => Some((set, shift)),
        }
    }
}

fn attribute(primitive: &json::mesh::Primitive, semantic: Semantic) -> Option<usize> {
    let index = primitive.attributes.get(&Checked::Valid(semantic));
    index.map(|index| index.value())
}

/// A primitive of a mesh, for errors.
#[derive(Clone, Copy)]
pub(in crate::prepare) struct Place {
    pub(in crate::prepare) mesh: usize,
    pub(in crate::prepare) primitive: usize,
}

impl Place {
    pub(in crate::prepare) fn lacks(self, what: &'static str) -> GltfError {
        let Self { mesh, primitive } = self;
        GltfError::Lacks {
            mesh,
            primitive,
            what,
        }
    }

    pub(in crate::prepare) fn accessor(self, error: AccessorError) -> GltfError {
        let Self { mesh, primitive } = self;
        GltfError::Accessor {
            mesh,
            primitive,
            error,
        }
    }

    pub(in crate::prepare) fn fewer(
        self,
        what: &'static str,
        count: usize,
        vertices: usize,
    ) -> GltfError {
        let Self { mesh, primitive } = self;
        GltfError::Fewer {
            mesh,
            primitive,
            what,
            count,
            vertices,
        }
    }

    /// How the corners make triangles; none for points and lines.
    fn mode(
        self,
        root: &json::Root,
        primitive: &json::mesh::Primitive,
    ) -> Result<Option<Mode>, GltfError> {
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
        // A file that does not require Draco has the same uncompressed beside it.
        let position = attribute(primitive, Semantic::Positions);
        let position = position.and_then(|index| root.accessors.get(index));
        let beside = |json: &json::Accessor| json.buffer_view.is_some() || json.sparse.is_some();
        if draco && !position.is_some_and(beside) {
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
    /// How the material moves texture coordinates.
    shift: Option<Shift>,
    indices: Option<Elements<'a>>,
    /// Weights and offsets of morph targets.
    morphs: Vec<(f64, Elements<'a>)>,
    bones: Option<Bones<'a>>,
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

    /// How long appending takes at most.
    fn predicted(&self, triangles: usize) -> Duration {
        let sets = self.bones.as_ref().map_or(0, |bones| bones.sets.len());
        each(triangles * (1 + self.morphs.len() + sets), pace::TRIANGLE)
    }

    /// A vertex as morphed and, of a skinned mesh, placed by its joints.
    fn point(&self, vertex: u32, place: Place) -> Result<[f64; 3], GltfError> {
        let point = self.positions.floats(vertex as usize);
        let point = morph::moved(&self.morphs, vertex as usize, point);
        match &self.bones {
            Some(_) => Ok(scene::apply(&self.pose(vertex, place)?, point)),
            None => Ok(point),
        }
    }

    /// What the joints do to a vertex.
    fn pose(&self, vertex: u32, Place { mesh, primitive }: Place) -> Result<Transform, GltfError> {
        let Some(bones) = &self.bones else {
            return Ok(scene::IDENTITY);
        };
        bones.at(vertex as usize).map_err(|joint| GltfError::Joint {
            mesh,
            primitive,
            vertex,
            joint,
            joints: bones.matrices.len(),
        })
    }

    /// Appends the triangles in world coordinates, with the vertices that they use.
    fn append(
        &self,
        triangles: usize,
        transform: &Transform,
        place: Place,
        into: &mut RawMesh,
    ) -> Result<(), GltfError> {
        let vertices = self.positions.count();
        let mut used = Used::new(vertices, self.count());
        let first = into.positions.len();
        let mirrored = scene::mirrors(transform);
        let joints_mirror = self.bones.as_ref().is_some_and(Bones::mirror);
        for triangle in 0..triangles {
            let mut corners = corners_of(self.mode, triangle);
            let mut mirrored = mirrored;
            if joints_mirror {
                let first = self.vertex(corners[0], place)?;
                mirrored ^= scene::mirrors(&self.pose(first, place)?);
            }
            if mirrored {
                corners.swap(1, 2);
            }
            let mut wound = [0; 3];
            for (vertex, corner) in wound.iter_mut().zip(corners) {
                let index = self.vertex(corner, place)?;
                let (number, new) = used.place(index);
                if new {
                    let point = scene::apply(transform, self.point(index, place)?);
                    into.positions.push(point.map(|x| x as f32));
                    if let (Ok(all), Some(uvs)) = (&mut into.uvs, &self.uvs) {
                        let uv = uvs.floats(index as usize);
                        let uv = self.shift.map_or(uv, |shift| texcoord::moved(&shift, uv));
                        all.push(uv.map(|x| x as f32));
                    }
                }
                *vertex = first as u32 + number;
            }
            into.triangles.push(wound);
        }
        Ok(())
    }

    /// The vertex of a corner, checked.
    fn vertex(&self, corner: usize, Place { mesh, primitive }: Place) -> Result<u32, GltfError> {
        let indices = self.indices.as_ref();
        let vertex = indices.map_or(corner as u32, |indices| indices.index(corner));
        let vertices = self.positions.count();
        match (vertex as usize) < vertices {
            true => Ok(vertex),
            false => Err(GltfError::Index {
                mesh,
                primitive,
                vertex,
                vertices,
            }),
        }
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
