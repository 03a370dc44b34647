//! glTF → splats: the primitives of points with the extension `KHR_gaussian_splatting` (its release candidate), wherever a node
//! of the default scene has them.
//!
//! ```text
//!   POSITION   centre                               …:OPACITY                0 to 1
//!   …:ROTATION quaternion (x, y, z, w)              …:SH_DEGREE_l_COEF_n     coefficients of red, green and blue; of
//!   …:SCALE    standard deviations, not logarithms                           degree 0 always, of 1 to 3 all or none
//! ```
//!
//! A node moves, turns and evenly scales its splats: centres, axes and harmonics follow. Kiln sorts by depth along the view,
//! whatever `sortingMethod` says. Splats that another extension packs are refused; so are those of another kernel.

use std::collections::{BTreeMap, HashMap};

use gltf::json;
use kiln_splat::{Cloud, Dropped, MAX_DEGREE, Splat, Turn, coefficients};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::content::{Origin, SplatError, Splats, check_count};
use crate::prepare::load::accessor::{self, Elements, Use};
use crate::prepare::load::buffers::Buffers;
use crate::prepare::load::gltf::{self as document, Place};
use crate::prepare::load::scene::{self, Instance, Transform};
use crate::prepare::load::{GltfError, Offset};
use crate::prepare::transforms::lenient;
use crate::worker::folder::Folder;

/// The first bytes of a GLB.
pub(super) const MARK: &[u8] = b"glTF";
const POSITION: &str = "POSITION";
const ROTATION: &str = "KHR_gaussian_splatting:ROTATION";
const SCALE: &str = "KHR_gaussian_splatting:SCALE";
const OPACITY: &str = "KHR_gaussian_splatting:OPACITY";
const CONSTANT: &str = "KHR_gaussian_splatting:SH_DEGREE_0_COEF_0";
const HARMONICS: &str = "coefficients of spherical harmonics";
/// Modes of a primitive.
const POINTS: u32 = 0;
const TRIANGLES: [u32; 3] = [4, 5, 6];
/// How far a node's axes may be from equally long and from right angles, as a share.
const EVEN: f64 = 1e-3;
/// Longest word of a file that an error repeats.
const WORD: usize = 60;

/// What the `gltf` crate drops: the names of attributes that it does not know.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    meshes: Vec<Mesh>,
}

#[derive(Deserialize)]
struct Mesh {
    #[serde(default)]
    primitives: Vec<Primitive>,
}

#[derive(Deserialize)]
struct Primitive {
    #[serde(default)]
    attributes: HashMap<String, usize>,
    mode: Option<u32>,
    indices: Option<IgnoredAny>,
    targets: Option<IgnoredAny>,
    #[serde(default)]
    extensions: Extensions,
}

#[derive(Deserialize, Default)]
struct Extensions {
    #[serde(rename = "KHR_gaussian_splatting")]
    style: Option<Style>,
}

/// How splats are meant.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Style {
    kernel: Option<String>,
    color_space: Option<String>,
    projection: Option<String>,
    #[serde(default)]
    extensions: BTreeMap<String, IgnoredAny>,
}

/// None where no primitive of the scene has splats. `beside` is the path of the file's folder within `folder`.
pub(super) fn read(
    bytes: &[u8],
    (folder, beside): (&Folder<'_>, &str),
) -> Result<Option<Splats>, SplatError> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let is_glb = !text.trim_ascii_start().starts_with(b"{");
    let (text, bin) = document::parts(bytes, is_glb)?;
    let root = document::parse(text, false)?;
    let document = Document::parse(text)?;
    if !document.primitives().any(Primitive::has_splats) {
        return Ok(None);
    }
    document::check_root(&root)?;
    let instances = scene::instances_at(&root, text, &Offset::default());
    let instances = instances.map_err(GltfError::from)?;
    let (mut parts, mut solid) = (Vec::new(), false);
    for instance in &instances {
        let mesh = document.meshes.get(instance.mesh);
        let primitives = mesh.map_or(&[][..], |mesh| &mesh.primitives);
        for (number, primitive) in primitives.iter().enumerate() {
            solid |= primitive.is_solid();
            if let Some(style) = &primitive.extensions.style {
                let place = Place {
                    mesh: instance.mesh,
                    primitive: number,
                };
                parts.push(Part::new(&root, instance, (primitive, style), place)?);
            }
        }
    }
    let Some(linear) = parts.first().map(|part| part.linear) else {
        return Ok(None);
    };
    if let Some(other) = parts.iter().find(|part| part.linear != linear) {
        return Err(refused(
            other.place,
            "has another colorSpace than the splats before it",
        ));
    }
    let mut buffers = Buffers::new(&root, folder, beside, bin);
    for part in &parts {
        part.load(&root, &mut buffers)?;
    }
    let degree = parts.iter().map(Part::degree).max().unwrap_or(0);
    let mut cloud = Cloud::new(degree);
    let (mut total, mut meaningless) = (0, 0);
    for part in &parts {
        let rows = part.open(&root, &buffers)?;
        total += rows.position.count() as u64;
        check_count(total)?;
        meaningless += rows.append(&part.motion, &mut cloud);
    }
    Ok(Some(Splats {
        cloud,
        dropped: Dropped {
            meaningless,
            huge: 0,
        },
        origin: Origin::Gltf { linear, solid },
    }))
}

fn refused(place: Place, what: impl Into<String>) -> SplatError {
    SplatError::Primitive {
        mesh: place.mesh,
        primitive: place.primitive,
        what: what.into(),
    }
}

impl Document {
    /// Where numbers are no JSON, as Python writes them, they are read as nothing.
    fn parse(text: &[u8]) -> Result<Self, GltfError> {
        let plain = |_error| serde_json::from_slice(&lenient::plain(text, lenient::NULL));
        serde_json::from_slice(text)
            .or_else(plain)
            .map_err(GltfError::Json)
    }

    fn primitives(&self) -> impl Iterator<Item = &Primitive> {
        self.meshes.iter().flat_map(|mesh| &mesh.primitives)
    }
}

impl Primitive {
    fn has_splats(&self) -> bool {
        self.extensions.style.is_some()
    }

    fn is_solid(&self) -> bool {
        let mode = self.mode.unwrap_or(TRIANGLES[0]);
        !self.has_splats() && TRIANGLES.contains(&mode)
    }

    fn attribute(&self, name: &str) -> Option<usize> {
        self.attributes.get(name).copied()
    }

    /// The coefficients of degree 1 to 3, as far as there are all of a degree; else the degree of which there is a part.
    fn harmonics(&self) -> Result<Vec<usize>, usize> {
        let mut found = Vec::new();
        let mut whole = true;
        for degree in 1..=MAX_DEGREE {
            let name = |k: usize| format!("KHR_gaussian_splatting:SH_DEGREE_{degree}_COEF_{k}");
            let all = 2 * degree + 1;
            let there: Vec<usize> = (0..all).filter_map(|k| self.attribute(&name(k))).collect();
            if !there.is_empty() && (there.len() < all || !whole) {
                return Err(degree);
            }
            whole = !there.is_empty();
            found.extend(there);
        }
        Ok(found)
    }

    /// Whether colours are linear light; else why the splats are refused.
    fn check(&self, root: &json::Root, style: &Style) -> Result<bool, String> {
        let position = self.attribute(POSITION);
        let position = position.and_then(|index| root.accessors.get(index));
        let plain = position.is_some_and(|it| it.buffer_view.is_some() || it.sparse.is_some());
        if let (false, Some(name)) = (plain, style.extensions.keys().next()) {
            return Err(format!(
                "its splats are packed ({}), which is not read: export them without that extension",
                short(name)
            ));
        }
        let other = |key: &str, value: &Option<String>, known: &str| match value {
            Some(value) => format!("has the {key} {}: {known}", short(value)),
            None => format!("KHR_gaussian_splatting has no {key}: {known}"),
        };
        if style.kernel.as_deref() != Some("ellipse") {
            return Err(other("kernel", &style.kernel, "ellipse is read"));
        }
        if !matches!(style.projection.as_deref(), None | Some("perspective")) {
            return Err(other(
                "projection",
                &style.projection,
                "perspective is read",
            ));
        }
        if self.mode != Some(POINTS) {
            return Err("its splats are no points: their mode is not 0".to_owned());
        }
        if self.indices.is_some() || self.targets.is_some() {
            return Err(
                "its splats have indices or morph targets, which are not read: export them without"
                    .to_owned(),
            );
        }
        match style.color_space.as_deref() {
            Some("srgb_rec709_display") => Ok(false),
            Some("lin_rec709_display") => Ok(true),
            _ => Err(other(
                "colorSpace",
                &style.color_space,
                "srgb_rec709_display and lin_rec709_display are read",
            )),
        }
    }
}

/// A word of the file, as an error repeats it.
fn short(word: &str) -> String {
    let plain = word.chars().take(WORD);
    plain
        .map(|letter| {
            if letter.is_control() {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}

/// The splats of a primitive, where a node has them: accessors, and what the node does to them.
struct Part {
    place: Place,
    position: usize,
    rotation: usize,
    scale: usize,
    opacity: usize,
    constant: usize,
    harmonics: Vec<usize>,
    linear: bool,
    motion: Motion,
}

impl Part {
    fn new(
        root: &json::Root,
        instance: &Instance,
        (primitive, style): (&Primitive, &Style),
        place: Place,
    ) -> Result<Self, SplatError> {
        let linear = primitive.check(root, style);
        let linear = linear.map_err(|what| refused(place, what))?;
        let part = |degree| {
            format!(
                "has a part of the coefficients of degree {degree}, or not those of the degree below"
            )
        };
        let harmonics = primitive.harmonics();
        let needed = |name: &'static str| -> Result<usize, GltfError> {
            primitive.attribute(name).ok_or_else(|| place.lacks(name))
        };
        Ok(Self {
            place,
            position: needed(POSITION)?,
            rotation: needed(ROTATION)?,
            scale: needed(SCALE)?,
            opacity: needed(OPACITY)?,
            constant: needed(CONSTANT)?,
            harmonics: harmonics.map_err(|degree| refused(place, part(degree)))?,
            linear,
            motion: Motion::of(root, instance)?,
        })
    }

    fn degree(&self) -> usize {
        let has = |degree: &usize| coefficients(*degree) <= self.harmonics.len();
        (0..=MAX_DEGREE).rev().find(has).unwrap_or(0)
    }

    fn load(&self, root: &json::Root, buffers: &mut Buffers<'_>) -> Result<(), GltfError> {
        let own = [
            self.position,
            self.rotation,
            self.scale,
            self.opacity,
            self.constant,
        ];
        for index in own.into_iter().chain(self.harmonics.iter().copied()) {
            let loaded = accessor::load(root, buffers, index);
            loaded.map_err(|error| self.place.accessor(error))?;
        }
        Ok(())
    }

    fn open<'a>(
        &self,
        root: &'a json::Root,
        buffers: &'a Buffers<'_>,
    ) -> Result<Rows<'a>, GltfError> {
        let open = |index, purpose| {
            let opened = Elements::open(root, buffers, index, purpose);
            opened.map_err(|error| self.place.accessor(error))
        };
        let position = open(self.position, Use::Position)?;
        let splats = position.count();
        let for_each = |what, index, purpose| {
            let rows = open(index, purpose)?;
            match rows.count() < splats {
                true => Err(self.place.fewer(what, rows.count(), splats)),
                false => Ok(rows),
            }
        };
        let harmonics = self.harmonics.iter();
        let harmonics = harmonics.map(|&index| for_each(HARMONICS, index, Use::Position));
        Ok(Rows {
            position,
            rotation: for_each(ROTATION, self.rotation, Use::Four)?,
            scale: for_each(SCALE, self.scale, Use::Position)?,
            opacity: for_each(OPACITY, self.opacity, Use::Scalar)?,
            constant: for_each(CONSTANT, self.constant, Use::Position)?,
            harmonics: harmonics.collect::<Result<_, _>>()?,
        })
    }
}

/// The numbers of a primitive's splats.
struct Rows<'a> {
    position: Elements<'a>,
    rotation: Elements<'a>,
    scale: Elements<'a>,
    opacity: Elements<'a>,
    constant: Elements<'a>,
    harmonics: Vec<Elements<'a>>,
}

impl Rows<'_> {
    /// Appends the splats as their node moves them. Returns how many have numbers without a meaning.
    fn append(&self, motion: &Motion, cloud: &mut Cloud) -> usize {
        let mut meaningless = 0;
        let mut harmonics = vec![[0.0; 3]; coefficients(cloud.degree)];
        for index in 0..self.position.count() {
            let three = |rows: &Elements<'_>| rows.floats::<3>(index).map(|x| x as f32);
            for (into, rows) in harmonics.iter_mut().zip(&self.harmonics) {
                *into = three(rows);
            }
            if let Some(turn) = &motion.turn {
                turn.apply(&mut harmonics[..self.harmonics.len()]);
            }
            let [x, y, z, w] = self.rotation.floats(index);
            let [opacity] = self.opacity.floats(index);
            let splat = Splat {
                position: scene::apply(&motion.transform, self.position.floats(index))
                    .map(|x| x as f32),
                scales: self.scale.floats(index).map(|x| (motion.scale * x) as f32),
                rotation: product(motion.rotation, [w, x, y, z]).map(|x| x as f32),
                opacity: opacity as f32,
                constant: three(&self.constant),
            };
            meaningless += usize::from(!cloud.push(&splat, &harmonics));
        }
        meaningless
    }
}

/// What a node does to its splats.
struct Motion {
    transform: Transform,
    /// The part of it that scales.
    scale: f64,
    /// The part of it that turns: a unit quaternion (w, x, y, z).
    rotation: [f64; 4],
    /// The same for harmonics; none where nothing is turned.
    turn: Option<Turn>,
}

impl Motion {
    fn of(root: &json::Root, instance: &Instance) -> Result<Self, SplatError> {
        const PLACES: &str = "EXT_mesh_gpu_instancing";
        let number = instance.node.unwrap_or_default();
        let refused = |what| SplatError::Node { node: number, what };
        if let Some(node) = root.nodes.get(number).filter(|_| instance.node.is_some()) {
            let extensions = node.extensions.as_ref();
            let places = extensions.is_some_and(|all| all.others.contains_key(PLACES));
            if places || node.skin.is_some() {
                return Err(refused(
                    "has splats with a skin or EXT_mesh_gpu_instancing, which is not read: export them without",
                ));
            }
        }
        let uneven = "mirrors, shears or stretches its splats: apply its transform to them before export, or scale them evenly";
        Self::new(&instance.transform).ok_or_else(|| refused(uneven))
    }

    /// None where the transform mirrors, shears or stretches.
    fn new(transform: &Transform) -> Option<Self> {
        let [x, y, z, _] = *transform;
        let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let lengths = [x, y, z].map(|axis| dot(axis, axis).sqrt());
        let scale = lengths.iter().sum::<f64>() / 3.0;
        let axes = [x, y, z].map(|axis| axis.map(|k| k / scale));
        let is_even = lengths
            .iter()
            .all(|length| (length / scale - 1.0).abs() < EVEN);
        let [x, y, z] = axes;
        let is_right = [dot(x, y), dot(y, z), dot(z, x)]
            .iter()
            .all(|cosine| cosine.abs() < EVEN);
        if !(scale.is_normal() && is_even && is_right) || scene::mirrors(transform) {
            return None;
        }
        let rotation = quaternion(axes);
        let turns = rotation != [1.0, 0.0, 0.0, 0.0];
        Some(Self {
            transform: *transform,
            scale,
            rotation,
            turn: turns.then(|| Turn::new(axes)),
        })
    }
}

/// The unit quaternion (w, x, y, z) of a turn that takes x, y and z to these vectors.
fn quaternion([x, y, z]: [[f64; 3]; 3]) -> [f64; 4] {
    // Four times the products of its components by each other.
    let [wx, wy, wz] = [y[2] - z[1], z[0] - x[2], x[1] - y[0]];
    let [xy, zx, yz] = [x[1] + y[0], z[0] + x[2], y[2] + z[1]];
    let rows = [
        [1.0 + x[0] + y[1] + z[2], wx, wy, wz],
        [wx, 1.0 + x[0] - y[1] - z[2], xy, zx],
        [wy, xy, 1.0 - x[0] + y[1] - z[2], yz],
        [wz, zx, yz, 1.0 - x[0] - y[1] + z[2]],
    ];
    let larger = |best: usize, k: usize| {
        if rows[k][k] > rows[best][best] {
            k
        } else {
            best
        }
    };
    let row = rows[(1..4).fold(0, larger)];
    let length = row.iter().map(|q| q * q).sum::<f64>().sqrt();
    row.map(|q| q / length)
}

/// The quaternion (w, x, y, z) that turns as the second and then as the first.
fn product([a, b, c, d]: [f64; 4], [w, x, y, z]: [f64; 4]) -> [f64; 4] {
    [
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    ]
}
