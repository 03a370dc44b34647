//! Which accessors a primitive is read from, and their elements once their bytes are loaded.
//!
//! Loading changes the buffers and elements borrow them, so the list comes first. An attribute that has fewer elements
//! than there are vertices is refused, since reading past its end would invent values.

use gltf::json;
use json::mesh::{Mode, Semantic};

use super::skin::{Bones, Skins};
use super::{Corners, GltfError, Place, attribute, instances, morph};
use crate::prepare::load::accessor::{Elements, Use};
use crate::prepare::load::buffers::Buffers;
use crate::prepare::load::scene::Instance;

/// The accessors that an instance of a primitive is read from.
pub(super) struct Sources {
    position: usize,
    pub(super) uv: Option<usize>,
    index: Option<usize>,
    /// Weights and offsets of morph targets.
    morphs: Vec<(f64, usize)>,
    /// The skin, where the primitive has joints and weights for it.
    pub(super) skin: Option<usize>,
    bones: Vec<[usize; 2]>,
    pub(super) places: [Option<usize>; 3],
}

impl Sources {
    pub(super) fn new(
        root: &json::Root,
        instance: &Instance,
        primitive: &json::mesh::Primitive,
        set: Option<u32>,
        place: Place,
    ) -> Result<Self, GltfError> {
        /// Sets of four joints; more are not in use anywhere.
        const SETS: u32 = 8;
        let attribute = |semantic| attribute(primitive, semantic);
        let pair = |set| {
            let joints = attribute(Semantic::Joints(set))?;
            Some([joints, attribute(Semantic::Weights(set))?])
        };
        let node = instance.node.and_then(|node| root.nodes.get(node));
        let skin = node.and_then(|node| Some(node.skin?.value()));
        let bones: Vec<[usize; 2]> = match skin {
            Some(_) => (0..SETS).map_while(pair).collect(),
            None => Vec::new(),
        };
        Ok(Self {
            position: attribute(Semantic::Positions).ok_or_else(|| place.lacks("POSITION"))?,
            uv: set.and_then(|set| attribute(Semantic::TexCoords(set))),
            index: primitive.indices.map(|index| index.value()),
            morphs: morph::active(root, instance, primitive)?,
            skin: skin.filter(|_| !bones.is_empty()),
            bones,
            places: instances::accessors(root, instance.node)?,
        })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        let single = [Some(self.position), self.uv, self.index];
        let single = single.into_iter().chain(self.places).flatten();
        let morphs = self.morphs.iter().map(|&(_, index)| index);
        single
            .chain(morphs)
            .chain(self.bones.iter().copied().flatten())
    }

    /// Opens what is loaded: a list of triangles without a shift of texture coordinates.
    pub(super) fn open<'a>(
        &self,
        root: &'a json::Root,
        (buffers, skins): (&'a Buffers<'_>, &'a Skins),
        place: Place,
    ) -> Result<Corners<'a>, GltfError> {
        let open = |index, purpose| {
            let opened = Elements::open(root, buffers, index, purpose);
            opened.map_err(|error| place.accessor(error))
        };
        let positions = open(self.position, Use::Position)?;
        let for_each = |what, index, purpose| -> Result<Elements<'a>, GltfError> {
            let (elements, vertices) = (open(index, purpose)?, positions.count());
            match elements.count() < vertices {
                true => Err(place.fewer(what, elements.count(), vertices)),
                false => Ok(elements),
            }
        };
        let uv = |index| for_each("texture coordinates", index, Use::TexCoord);
        let morph = |&(weight, index): &(f64, usize)| -> Result<_, GltfError> {
            let offsets = for_each("offsets of a morph target", index, Use::Offset)?;
            Ok((weight, offsets))
        };
        let bones = |&[joints, weights]: &[usize; 2]| -> Result<_, GltfError> {
            let joints = for_each("joints", joints, Use::Joints)?;
            Ok([joints, for_each("weights of joints", weights, Use::Four)?])
        };
        let sets = self.bones.iter().map(bones).collect::<Result<_, _>>()?;
        Ok(Corners {
            mode: Mode::Triangles,
            positions,
            uvs: self.uv.map(uv).transpose()?,
            shift: None,
            indices: self
                .index
                .map(|index| open(index, Use::Index))
                .transpose()?,
            morphs: self.morphs.iter().map(morph).collect::<Result<_, _>>()?,
            bones: self.skin.map(|skin| Bones {
                sets,
                matrices: skins.matrices(skin),
            }),
        })
    }
}
