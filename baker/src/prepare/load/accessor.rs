//! Reads the elements of a glTF accessor as floats or indices, one at a time.
//!
//! [`Elements::open`] checks every number of the accessor, its views and its sparse part against the bytes present.
//! Afterwards reading an element cannot fail, and nothing is allocated. The `gltf` crate's readers trust these numbers
//! and panic where they are wrong, so only its JSON types are used.

mod strided;

use gltf::json;
use json::accessor::{ComponentType, Type};
use json::validation::Checked;
use proto::limits::MAX_VERTICES;

use self::strided::{Strided, open_strided};
use super::buffers::{BufferError, Buffers};

/// Why an accessor cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AccessorError {
    /// An index out of range.
    #[error("accessor {index} of {count} is used")]
    NoSuch { index: usize, count: usize },
    /// Its view or buffer is wrong.
    #[error("accessor {accessor}: {error}")]
    Bytes {
        accessor: usize,
        #[source]
        error: BufferError,
    },
    /// A type that this use does not allow.
    #[error("accessor {accessor} is {found}, where {wanted} belongs")]
    Type {
        accessor: usize,
        found: String,
        wanted: &'static str,
    },
    /// More elements than bytes.
    #[error(
        "accessor {accessor} reaches past the end of buffer view {view} (needs {needed} bytes, has {present})"
    )]
    PastEnd {
        accessor: usize,
        view: usize,
        /// Bytes it needs, saturated at the largest number.
        needed: u64,
        present: usize,
    },
    /// Elements that overlap.
    #[error(
        "buffer view {view} has byteStride {stride}, less than the {element} bytes of an element of accessor {accessor}"
    )]
    Stride {
        accessor: usize,
        view: usize,
        stride: u64,
        element: u64,
    },
    /// Too many elements without a view.
    #[error("accessor {accessor} has {count} elements and no bytes for them")]
    Unbacked { accessor: usize, count: u64 },
    /// A sparse index out of order or range.
    #[error(
        "sparse index {position} of accessor {accessor} is {value}: out of order or not below {count}"
    )]
    Sparse {
        accessor: usize,
        /// Position in the sparse part.
        position: u64,
        value: u32,
        count: u64,
    },
}

/// What an accessor is read as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::prepare) enum Use {
    /// Three coordinates, scales or channels; integers with `KHR_mesh_quantization`.
    Position,
    /// Like positions, of a morph target: mostly sparse, for as many vertices as the primitive has.
    Offset,
    TexCoord,
    Index,
    /// Numbers of four joints.
    Joints,
    /// Weights of four joints, or a quaternion.
    Four,
    /// An opacity.
    Scalar,
    /// An inverse bind matrix.
    Matrix,
}

impl Use {
    fn allows(self, kind: Type, component: ComponentType) -> bool {
        match self {
            Self::Position | Self::Offset => kind == Type::Vec3 && component != ComponentType::U32,
            Self::Joints => {
                kind == Type::Vec4 && matches!(component, ComponentType::U8 | ComponentType::U16)
            }
            Self::Four => kind == Type::Vec4 && component != ComponentType::U32,
            Self::Scalar => kind == Type::Scalar && component != ComponentType::U32,
            Self::Matrix => kind == Type::Mat4 && component == ComponentType::F32,
            Self::TexCoord => kind == Type::Vec2 && component != ComponentType::U32,
            Self::Index => {
                let unsigned = matches!(
                    component,
                    ComponentType::U8 | ComponentType::U16 | ComponentType::U32
                );
                kind == Type::Scalar && unsigned
            }
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Position | Self::Offset => "VEC3 of floats or 8- or 16-bit integers",
            Self::Joints => "VEC4 of unsigned 8- or 16-bit integers",
            Self::Four => "VEC4 of floats or 8- or 16-bit integers",
            Self::Scalar => "SCALAR of floats or 8- or 16-bit integers",
            Self::Matrix => "MAT4 of floats",
            Self::TexCoord => "VEC2 of floats or 8- or 16-bit integers",
            Self::Index => "SCALAR of unsigned integers",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::prepare) struct Elements<'a> {
    count: usize,
    normalized: bool,
    /// None means zeros, except in the sparse part.
    base: Option<Strided<'a>>,
    /// Sorted indices, the values for them, and their number.
    sparse: Option<(Strided<'a>, Strided<'a>, usize)>,
}

pub(in crate::prepare) fn load(
    root: &json::Root,
    buffers: &mut Buffers<'_>,
    index: usize,
) -> Result<(), AccessorError> {
    let json = accessor(root, index)?;
    let sparse = json
        .sparse
        .iter()
        .flat_map(|sparse| [sparse.indices.buffer_view, sparse.values.buffer_view]);
    for view in json.buffer_view.into_iter().chain(sparse) {
        let loaded = buffers.load_view(view.value());
        loaded.map_err(|error| AccessorError::Bytes {
            accessor: index,
            error,
        })?;
    }
    Ok(())
}

fn accessor(root: &json::Root, index: usize) -> Result<&json::Accessor, AccessorError> {
    let count = root.accessors.len();
    root.accessors
        .get(index)
        .ok_or(AccessorError::NoSuch { index, count })
}

/// Where the elements of one accessor are looked up.
#[derive(Clone, Copy)]
struct Views<'a, 'b> {
    buffers: &'a Buffers<'b>,
    accessor: usize,
    /// Type and bytes of an element.
    element: (ComponentType, u64),
}

impl<'a> Views<'a, '_> {
    fn strided(self, view: usize, offset: u64, count: u64) -> Result<Strided<'a>, AccessorError> {
        let Self {
            buffers,
            accessor,
            element,
        } = self;
        open_strided(buffers, accessor, view, offset, count, element)
    }

    /// Sorted indices and the values for them. The accessor has `count` elements.
    fn sparse(
        self,
        json: &json::accessor::sparse::Sparse,
        count: u64,
    ) -> Result<(Strided<'a>, Strided<'a>, usize), AccessorError> {
        let (places, values) = (&json.indices, &json.values);
        let Checked::Valid(kind) = places.component_type else {
            return Err(AccessorError::Type {
                accessor: self.accessor,
                found: "an unknown type".to_owned(),
                wanted: Use::Index.wanted(),
            });
        };
        let of_indices = Self {
            element: (kind.0, kind.0.size() as u64),
            ..self
        };
        let own = json.count.0;
        let (view, offset) = (places.buffer_view.value(), places.byte_offset.0);
        let indices = of_indices.strided(view, offset, own)?;
        let (view, offset) = (values.buffer_view.value(), values.byte_offset.0);
        let values = self.strided(view, offset, own)?;
        check_sparse(self.accessor, &indices, own, count)?;
        Ok((indices, values, own as usize))
    }
}

impl<'a> Elements<'a> {
    /// Checks accessor `index` for its use. Its views must be loaded.
    pub(in crate::prepare) fn open(
        root: &'a json::Root,
        buffers: &'a Buffers<'_>,
        index: usize,
        purpose: Use,
    ) -> Result<Self, AccessorError> {
        let json = accessor(root, index)?;
        let (kind, component) = match (json.type_, json.component_type) {
            (Checked::Valid(kind), Checked::Valid(component))
                if purpose.allows(kind, component.0) =>
            {
                (kind, component.0)
            }
            (kind, component) => {
                return Err(AccessorError::Type {
                    accessor: index,
                    found: describe(kind, component),
                    wanted: purpose.wanted(),
                });
            }
        };
        let views = Views {
            buffers,
            accessor: index,
            element: (component, (component.size() * kind.multiplicity()) as u64),
        };
        let count = json.count.0;
        let base = match json.buffer_view {
            Some(view) => {
                let offset = json.byte_offset.unwrap_or_default().0;
                Some(views.strided(view.value(), offset, count)?)
            }
            None if count > most_unbacked(json.sparse.as_ref(), purpose) => {
                return Err(AccessorError::Unbacked {
                    accessor: index,
                    count,
                });
            }
            None => None,
        };
        let sparse = json.sparse.as_ref();
        // Backed by bytes or below the bound, so it fits usize.
        Ok(Self {
            count: count as usize,
            normalized: json.normalized,
            base,
            sparse: sparse.map(|json| views.sparse(json, count)).transpose()?,
        })
    }

    pub(in crate::prepare) fn count(&self) -> usize {
        self.count
    }

    /// Where element `element` lies: in the sparse part or in the base.
    fn find(&self, element: usize) -> Option<(&Strided<'a>, usize)> {
        if let Some((indices, values, count)) = &self.sparse {
            let (mut low, mut high) = (0, *count);
            while low < high {
                let middle = usize::midpoint(low, high);
                match (indices.index(middle) as usize).cmp(&element) {
                    std::cmp::Ordering::Less => low = middle + 1,
                    std::cmp::Ordering::Equal => return Some((values, middle)),
                    std::cmp::Ordering::Greater => high = middle,
                }
            }
        }
        self.base.as_ref().map(|base| (base, element))
    }

    /// Element `element` as numbers; zeros out of range.
    pub(in crate::prepare) fn floats<const N: usize>(&self, element: usize) -> [f64; N] {
        match self.find(element) {
            Some((strided, at)) => std::array::from_fn(|k| strided.float(at, k, self.normalized)),
            None => [0.0; N],
        }
    }

    /// Element `element` as integers, normalised or not; zeros out of range.
    pub(super) fn whole<const N: usize>(&self, element: usize) -> [u32; N] {
        match self.find(element) {
            Some((strided, at)) => std::array::from_fn(|k| strided.float(at, k, false) as u32),
            None => [0; N],
        }
    }

    /// Element `element` as an index; zero out of range.
    pub(in crate::prepare) fn index(&self, element: usize) -> u32 {
        self.find(element)
            .map_or(0, |(strided, at)| strided.index(at))
    }
}

/// Largest number of elements of an accessor without a view. They are all zero except the sparse ones. More such points
/// have no use, and each takes memory.
fn most_unbacked(sparse: Option<&json::accessor::sparse::Sparse>, purpose: Use) -> u64 {
    match (purpose, sparse) {
        // No longer than the positions, of which alone memory is taken.
        (Use::TexCoord | Use::Offset | Use::Joints | Use::Four, _) => MAX_VERTICES as u64,
        (_, None) => 1024,
        (_, Some(sparse)) => sparse.count.0.saturating_mul(16).saturating_add(1024),
    }
}

fn check_sparse(
    accessor: usize,
    indices: &Strided<'_>,
    sparse_count: u64,
    count: u64,
) -> Result<(), AccessorError> {
    let mut last = None;
    for position in 0..sparse_count {
        let value = indices.index(position as usize);
        if u64::from(value) >= count || last.is_some_and(|last| last >= value) {
            return Err(AccessorError::Sparse {
                accessor,
                position,
                value,
                count,
            });
        }
        last = Some(value);
    }
    Ok(())
}

fn describe(
    kind: Checked<Type>,
    component: Checked<json::accessor::GenericComponentType>,
) -> String {
    let component = match component {
        Checked::Valid(component) => match component.0 {
            ComponentType::I8 => "8-bit integers",
            ComponentType::U8 => "unsigned 8-bit integers",
            ComponentType::I16 => "16-bit integers",
            ComponentType::U16 => "unsigned 16-bit integers",
            ComponentType::U32 => "unsigned 32-bit integers",
            ComponentType::F32 => "floats",
        },
        Checked::Invalid => "an unknown type",
    };
    let kind = match kind {
        Checked::Valid(Type::Scalar) => "SCALAR",
        Checked::Valid(Type::Vec2) => "VEC2",
        Checked::Valid(Type::Vec3) => "VEC3",
        Checked::Valid(Type::Vec4) => "VEC4",
        Checked::Valid(Type::Mat2 | Type::Mat3 | Type::Mat4) => "a matrix",
        Checked::Invalid => "an unknown shape",
    };
    format!("{kind} of {component}")
}
