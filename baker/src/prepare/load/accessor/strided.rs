//! Reads elements of a buffer view at a stride. Bounds are checked once, before the first element is read.

use gltf::json::accessor::ComponentType;

use super::super::buffers::Buffers;
use super::AccessorError;

/// Elements at a stride, all within the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strided<'a> {
    bytes: &'a [u8],
    stride: usize,
    component: ComponentType,
}

impl Strided<'_> {
    /// The bytes of a component. The caller guarantees that they are in range.
    fn component<const N: usize>(&self, element: usize, component: usize) -> [u8; N] {
        let at = element * self.stride + component * N;
        self.bytes
            .get(at..)
            .and_then(|bytes| bytes.first_chunk())
            .copied()
            .unwrap_or([0; N])
    }

    /// A component of an element as a number.
    pub(super) fn float(&self, element: usize, component: usize, normalized: bool) -> f64 {
        let (value, largest) = match self.component {
            ComponentType::F32 => {
                return f64::from(f32::from_le_bytes(self.component(element, component)));
            }
            ComponentType::I8 => (
                f64::from(i8::from_le_bytes(self.component(element, component))),
                127.0,
            ),
            ComponentType::U8 => (
                f64::from(u8::from_le_bytes(self.component(element, component))),
                255.0,
            ),
            ComponentType::I16 => (
                f64::from(i16::from_le_bytes(self.component(element, component))),
                32_767.0,
            ),
            ComponentType::U16 => (
                f64::from(u16::from_le_bytes(self.component(element, component))),
                65_535.0,
            ),
            ComponentType::U32 => (
                f64::from(u32::from_le_bytes(self.component(element, component))),
                1.0,
            ),
        };
        // Signed integers have one more value below zero than above; it means -1 too.
        if normalized {
            (value / largest).max(-1.0)
        } else {
            value
        }
    }

    pub(super) fn index(&self, element: usize) -> u32 {
        match self.component {
            ComponentType::U8 | ComponentType::I8 => {
                u32::from(u8::from_le_bytes(self.component(element, 0)))
            }
            ComponentType::U16 | ComponentType::I16 => {
                u32::from(u16::from_le_bytes(self.component(element, 0)))
            }
            ComponentType::U32 | ComponentType::F32 => {
                u32::from_le_bytes(self.component(element, 0))
            }
        }
    }
}

/// Checks `count` elements of a type and size in bytes in a view of accessor `accessor` against the bytes of the view.
pub(super) fn open_strided<'a>(
    buffers: &'a Buffers<'_>,
    accessor: usize,
    view: usize,
    offset: u64,
    count: u64,
    (component, element): (ComponentType, u64),
) -> Result<Strided<'a>, AccessorError> {
    let wrap = |error| AccessorError::Bytes { accessor, error };
    let bytes = buffers.view(view).map_err(wrap)?;
    let stride = buffers.stride(view).map_err(wrap)?.unwrap_or(element);
    if stride < element {
        return Err(AccessorError::Stride {
            accessor,
            view,
            stride,
            element,
        });
    }
    let needed = match count.checked_sub(1) {
        None => Some(0),
        Some(last) => last
            .checked_mul(stride)
            .and_then(|n| n.checked_add(element))
            .and_then(|n| n.checked_add(offset)),
    };
    let needed = needed.unwrap_or(u64::MAX);
    if needed > bytes.len() as u64 {
        return Err(AccessorError::PastEnd {
            accessor,
            view,
            needed,
            present: bytes.len(),
        });
    }
    // An empty accessor may start anywhere.
    let bytes = bytes
        .get(usize::try_from(offset).unwrap_or(usize::MAX)..)
        .unwrap_or(&[]);
    Ok(Strided {
        bytes,
        stride: stride as usize,
        component,
    })
}
