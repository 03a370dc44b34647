//! The GLB container: a JSON chunk and a BIN chunk, and the views into the latter.

use serde_json::{Value, json};

use super::leaf::GlbError;

pub(super) const ARRAY_BUFFER: u32 = 34962;
pub(super) const ELEMENT_ARRAY_BUFFER: u32 = 34963;
pub(super) const UNSIGNED_BYTE: u32 = 5121;
pub(super) const UNSIGNED_SHORT: u32 = 5123;
pub(super) const UNSIGNED_INT: u32 = 5125;

/// The growing BIN chunk and its buffer views.
#[derive(Default)]
pub(super) struct Binary {
    pub(super) bytes: Vec<u8>,
    pub(super) views: Vec<Value>,
}

impl Binary {
    /// Appends `bytes`, aligned to four, and returns the index of their view.
    pub(super) fn view(&mut self, bytes: &[u8], target: Option<u32>) -> usize {
        let offset = self.append(bytes);
        let mut view = json!({"buffer": 0, "byteOffset": offset, "byteLength": bytes.len()});
        if let Some(target) = target {
            view["target"] = json!(target);
        }
        self.views.push(view);
        self.views.len() - 1
    }

    /// Appends `bytes`, aligned to four, and returns their offset.
    pub(super) fn append(&mut self, bytes: &[u8]) -> usize {
        let offset = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        pad(&mut self.bytes, 0);
        offset
    }
}

/// Puts both chunks into a file.
pub(super) fn container(mut json: Vec<u8>, binary: Vec<u8>) -> Result<Vec<u8>, GlbError> {
    pad(&mut json, b' ');
    let total = 12 + 8 + json.len() + 8 + binary.len();
    let length = u32::try_from(total).map_err(|_too_long| GlbError::TooLong(total as u64))?;
    let mut file = Vec::with_capacity(total);
    file.extend_from_slice(b"glTF");
    file.extend_from_slice(&2_u32.to_le_bytes());
    file.extend_from_slice(&length.to_le_bytes());
    for (kind, bytes) in [(b"JSON", json), (b"BIN\0", binary)] {
        // Below `length`, so it fits.
        file.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        file.extend_from_slice(kind);
        file.extend_from_slice(&bytes);
    }
    Ok(file)
}

fn pad(bytes: &mut Vec<u8>, with: u8) {
    bytes.resize(bytes.len().next_multiple_of(4), with);
}

/// JSON and BIN chunks of a GLB written by this crate.
pub(in crate::encode) fn chunks(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let rest = bytes.strip_prefix(b"glTF\x02\0\0\0")?.get(4..)?;
    let take = |rest: &[u8]| -> Option<usize> {
        let length = rest.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*length)).ok()
    };
    let length = take(rest)?;
    let json = rest.get(8..8 + length)?;
    let rest = rest.get(8 + length..)?;
    let length = take(rest)?;
    Some((serde_json::from_slice(json).ok()?, rest.get(8..8 + length)?))
}
