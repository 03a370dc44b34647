//! Provides the bytes of a glTF document's buffers and buffer views, with bounds checked before anything is read.
//!
//! A buffer is the GLB's binary chunk, a `data:` URI or a file beneath the mesh's folder; nothing is fetched. Each is
//! loaded when a view first needs it, so images are never read here.

use std::collections::HashMap;
use std::ops::Range;

use gltf::json;
use proto::limits::MAX_MESH_FILE_BYTES;
use proto::message::Code;

use super::compressed::{self, CompressedError};
use crate::worker::folder::{Folder, FolderError};

/// Why bytes of a glTF document are not available.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// An index out of range.
    #[error("{what} {index} of {count} is used")]
    NoSuch {
        what: &'static str,
        index: usize,
        count: usize,
    },
    /// `byteLength` is larger than the bytes present.
    #[error("buffer {buffer} ends early (needs {needed} bytes, has {present})")]
    Short {
        buffer: usize,
        needed: u64,
        present: usize,
    },
    /// A view reaches beyond its buffer.
    #[error(
        "buffer view {view} reaches past the end of buffer {buffer} (starts at {offset} with {length} bytes, of {present})"
    )]
    View {
        view: usize,
        buffer: usize,
        offset: u64,
        length: u64,
        present: u64,
    },
    /// No URI and no binary chunk.
    #[error("buffer {0} has neither a URI nor a binary chunk")]
    NoContent(usize),
    /// `http:` and the like.
    #[error("buffer {buffer} lies at {uri}: nothing is fetched")]
    Remote {
        buffer: usize,
        /// The scheme of its address.
        uri: String,
    },
    /// A `data:` URI that is not base64.
    #[error("buffer {0} is not valid base64")]
    Base64(usize),
    /// A `%` without two hexadecimal digits, or not UTF-8 once decoded.
    #[error("buffer {0} has a malformed URI")]
    Uri(usize),
    /// The file cannot be read.
    #[error("buffer {buffer}, file {file}: {error}")]
    File {
        buffer: usize,
        file: String,
        #[source]
        error: FolderError,
    },
    /// `EXT_meshopt_compression`.
    #[error("buffer view {view}: {error}")]
    Compressed {
        view: usize,
        #[source]
        error: CompressedError,
    },
}

impl BufferError {
    /// The code reported to the user.
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Remote { .. } => Code::UnsupportedFeature,
            Self::File { error, .. } => error.code_of_named(),
            Self::Compressed { error, .. } => error.code(),
            Self::NoSuch { .. }
            | Self::Short { .. }
            | Self::View { .. }
            | Self::NoContent(_)
            | Self::Base64(_)
            | Self::Uri(_) => Code::InvalidAsset,
        }
    }
}

/// The bytes of a document, loaded on demand.
pub(in crate::prepare) struct Buffers<'a> {
    root: &'a json::Root,
    folder: &'a Folder<'a>,
    /// Path of the mesh file's folder within `folder`, with a trailing slash; empty at the top.
    beside: &'a str,
    bin: Option<&'a [u8]>,
    loaded: HashMap<usize, Vec<u8>>,
    decoded: HashMap<usize, Vec<u8>>,
}

impl<'a> Buffers<'a> {
    pub(in crate::prepare) fn new(
        root: &'a json::Root,
        folder: &'a Folder<'a>,
        beside: &'a str,
        bin: Option<&'a [u8]>,
    ) -> Self {
        Self {
            root,
            folder,
            beside,
            bin,
            loaded: HashMap::new(),
            decoded: HashMap::new(),
        }
    }

    /// The folder, and the path of the mesh file's folder within it.
    pub(super) fn place(&self) -> (&'a Folder<'a>, &'a str) {
        (self.folder, self.beside)
    }

    /// Loads what view `index` needs, so that [`Self::view`] can borrow it.
    pub(super) fn load_view(&mut self, index: usize) -> Result<(), BufferError> {
        let view = self.json_view(index)?;
        let Some(compression) = compressed::of(view) else {
            return self.load(view.buffer.value());
        };
        if self.decoded.contains_key(&index) {
            return Ok(());
        }
        let wrap = |error| BufferError::Compressed { view: index, error };
        let compression = compression.map_err(wrap)?;
        self.load(compression.buffer)?;
        let range = self.range(
            index,
            compression.buffer,
            compression.offset,
            compression.length,
        )?;
        let bytes = compression
            .decode(&self.bytes(compression.buffer)[range])
            .map_err(wrap)?;
        self.decoded.insert(index, bytes);
        Ok(())
    }

    /// Borrows a view's bytes. They are empty unless [`Self::load_view`] succeeded.
    pub(super) fn view(&self, index: usize) -> Result<&[u8], BufferError> {
        if let Some(bytes) = self.decoded.get(&index) {
            return Ok(bytes);
        }
        let view = self.json_view(index)?;
        let buffer = view.buffer.value();
        let offset = view.byte_offset.unwrap_or_default().0;
        let range = self.range(index, buffer, offset, view.byte_length.0)?;
        Ok(&self.bytes(buffer)[range])
    }

    /// `byteStride` of a view, where given.
    pub(super) fn stride(&self, index: usize) -> Result<Option<u64>, BufferError> {
        let view = self.json_view(index)?;
        if let Some(Ok(compression)) = compressed::of(view) {
            return Ok(Some(compression.stride as u64));
        }
        Ok(view.byte_stride.map(|stride| stride.0 as u64))
    }

    fn json_view(&self, index: usize) -> Result<&'a json::buffer::View, BufferError> {
        let count = self.root.buffer_views.len();
        let missing = BufferError::NoSuch {
            what: "buffer view",
            index,
            count,
        };
        self.root.buffer_views.get(index).ok_or(missing)
    }

    /// The byte range of a view within its buffer, checked.
    fn range(
        &self,
        view: usize,
        buffer: usize,
        offset: u64,
        length: u64,
    ) -> Result<Range<usize>, BufferError> {
        let present = self.bytes(buffer).len() as u64;
        match offset.checked_add(length) {
            // Both ends fit usize, since the buffer is in memory.
            Some(end) if end <= present => Ok(offset as usize..end as usize),
            _ => Err(BufferError::View {
                view,
                buffer,
                offset,
                length,
                present,
            }),
        }
    }

    /// A loaded buffer, up to its `byteLength`.
    fn bytes(&self, buffer: usize) -> &[u8] {
        let bytes = match (self.loaded.get(&buffer), self.bin) {
            (Some(bytes), _) => bytes,
            (None, Some(bin)) if self.is_bin(buffer) => bin,
            _ => &[],
        };
        let length = self
            .root
            .buffers
            .get(buffer)
            .map_or(0, |json| json.byte_length.0);
        &bytes[..bytes
            .len()
            .min(usize::try_from(length).unwrap_or(usize::MAX))]
    }

    fn is_bin(&self, buffer: usize) -> bool {
        buffer == 0
            && self
                .root
                .buffers
                .first()
                .is_some_and(|json| json.uri.is_none())
    }

    fn load(&mut self, buffer: usize) -> Result<(), BufferError> {
        let count = self.root.buffers.len();
        let Some(json) = self.root.buffers.get(buffer) else {
            return Err(BufferError::NoSuch {
                what: "buffer",
                index: buffer,
                count,
            });
        };
        if self.loaded.contains_key(&buffer) {
            return Ok(());
        }
        let present = match (&json.uri, self.bin) {
            (Some(uri), _) => {
                let bytes = self.fetch(buffer, uri)?;
                let present = bytes.len();
                self.loaded.insert(buffer, bytes);
                present
            }
            (None, Some(bin)) if buffer == 0 => bin.len(),
            (None, _) => return Err(BufferError::NoContent(buffer)),
        };
        if json.byte_length.0 > present as u64 {
            return Err(BufferError::Short {
                buffer,
                needed: json.byte_length.0,
                present,
            });
        }
        Ok(())
    }

    fn fetch(&self, buffer: usize, uri: &str) -> Result<Vec<u8>, BufferError> {
        if let Some(data) = uri.strip_prefix("data:") {
            let encoded = data
                .split_once(";base64,")
                .ok_or(BufferError::Base64(buffer))?
                .1;
            return decode_base64(encoded).ok_or(BufferError::Base64(buffer));
        }
        if let Some((scheme, _)) = uri.split_once("://") {
            return Err(BufferError::Remote {
                buffer,
                uri: format!("{scheme}://…"),
            });
        }
        let name = decode_percent(uri).ok_or(BufferError::Uri(buffer))?;
        // An absolute name stays absolute and is refused as such.
        let file = if name.starts_with('/') {
            name
        } else {
            format!("{}{name}", self.beside)
        };
        let read = self.folder.read(&file, MAX_MESH_FILE_BYTES);
        read.map_err(|error| BufferError::File {
            buffer,
            file,
            error,
        })
    }
}

/// RFC 4648 with or without padding. Anything else is an error.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    if text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for &letter in group {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        let missing = 4 - group.len();
        let decoded = (bits << (6 * missing)).to_be_bytes();
        bytes.extend_from_slice(&decoded[1..4 - missing]);
    }
    Some(bytes)
}

pub(super) fn decode_percent(uri: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest.split_at_checked(2)?;
        let value = |digit: u8| char::from(digit).to_digit(16);
        bytes.push((value(digits.0[0])? * 16 + value(digits.0[1])?) as u8);
        rest = digits.1;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_strictly() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmE=", "fooba"),
        ] {
            assert_eq!(decode_base64(text).unwrap(), bytes.as_bytes(), "{text}");
        }
        for text in ["Z", "Zm9v!", "Zm 9v", "Zm9vZ", "Zg==Zg=="] {
            assert_eq!(decode_base64(text), None, "{text}");
        }
    }

    #[test]
    fn percent_is_decoded_once() {
        assert_eq!(decode_percent("a%20b%2f%252e").unwrap(), "a b/%2e");
        for uri in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decode_percent(uri), None, "{uri}");
        }
    }
}
