//! Decompresses buffer views of `EXT_meshopt_compression`.
//!
//! meshoptimizer's decoders accept any bytes and at worst return garbage, which the checks of indices and coordinates
//! then find. The filters for normals and rotations are left out, since only positions and texture coordinates are
//! read.

use gltf::json;
use proto::message::Code;

/// Largest size of a decoded view.
const MAX_DECODED_BYTES: u64 = 512 << 20;
/// Highest compression ratio of the codecs: 256 equal bytes, one of each vertex, take two bits.
const MAX_EXPANSION: u64 = 1024;
/// Largest `byteStride` of vertex data. The extension allows 256; no exporter writes more than this.
const MAX_STRIDE: usize = 128;

/// Why a compressed view cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum CompressedError {
    /// The extension's object is incomplete or contradicts itself.
    #[error("EXT_meshopt_compression has no usable {0}")]
    Malformed(&'static str),
    /// Beyond the bound.
    #[error("decompresses to {0} bytes, more than is taken")]
    TooLarge(u64),
    /// More bytes than its compressed bytes can encode.
    #[error("decompresses to {decoded} bytes from {encoded}, which is not possible")]
    TooDense {
        /// Bytes by its counts.
        decoded: u64,
        /// Compressed bytes.
        encoded: usize,
    },
    /// A filter that is for normals and rotations.
    #[error("EXT_meshopt_compression with filter {0} on positions or texture coordinates")]
    Filter(String),
    /// The bytes do not decode.
    #[error("the compressed bytes are damaged ({0})")]
    Damaged(#[source] meshopt::Error),
}

impl CompressedError {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::TooLarge(_) => Code::LimitExceeded,
            Self::Filter(_) => Code::UnsupportedFeature,
            Self::Malformed(_) | Self::TooDense { .. } | Self::Damaged(_) => Code::InvalidAsset,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Attributes,
    Triangles,
    Indices,
}

#[derive(Debug)]
pub(super) struct Compression {
    pub(super) buffer: usize,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) stride: usize,
    count: usize,
    mode: Mode,
    exponential: bool,
}

/// The compression of a view, if it has one.
pub(super) fn of(view: &json::buffer::View) -> Option<Result<Compression, CompressedError>> {
    let others = &view.extensions.as_ref()?.others;
    let fields = others.get("EXT_meshopt_compression")?;
    Some(parse(fields))
}

fn parse(fields: &json::Value) -> Result<Compression, CompressedError> {
    let number = |name: &'static str| match fields.get(name) {
        None => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or(CompressedError::Malformed(name)),
    };
    let required = |name| number(name)?.ok_or(CompressedError::Malformed(name));
    let word = |name| fields.get(name).and_then(json::Value::as_str);
    let mode = match word("mode") {
        Some("ATTRIBUTES") => Mode::Attributes,
        Some("TRIANGLES") => Mode::Triangles,
        Some("INDICES") => Mode::Indices,
        _ => return Err(CompressedError::Malformed("mode")),
    };
    let (count, stride) = (required("count")?, required("byteStride")?);
    let bytes = count.saturating_mul(stride);
    if bytes > MAX_DECODED_BYTES {
        return Err(CompressedError::TooLarge(bytes));
    }
    let fits = match mode {
        Mode::Attributes => stride % 4 == 0 && (4..=MAX_STRIDE as u64).contains(&stride),
        Mode::Triangles => matches!(stride, 2 | 4) && count % 3 == 0,
        Mode::Indices => matches!(stride, 2 | 4),
    };
    if !fits {
        return Err(CompressedError::Malformed("byteStride"));
    }
    let exponential = match word("filter") {
        None | Some("NONE") => false,
        Some("EXPONENTIAL") if mode == Mode::Attributes => true,
        Some(other) => return Err(CompressedError::Filter(other.to_owned())),
    };
    Ok(Compression {
        buffer: usize::try_from(required("buffer")?)
            .map_err(|_too_large| CompressedError::Malformed("buffer"))?,
        offset: number("byteOffset")?.unwrap_or(0),
        length: required("byteLength")?,
        stride: stride as usize,
        count: count as usize,
        mode,
        exponential,
    })
}

impl Compression {
    /// Decodes to `count · stride` bytes.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, CompressedError> {
        let count = self.count;
        let decoded = count as u64 * self.stride as u64;
        if decoded > bytes.len() as u64 * MAX_EXPANSION {
            return Err(CompressedError::TooDense {
                decoded,
                encoded: bytes.len(),
            });
        }
        let decoded = match (self.mode, self.stride) {
            (Mode::Attributes, _) => return self.decode_vertices(bytes),
            (Mode::Triangles, 2) => meshopt::decode_index_buffer::<u16>(bytes, count).map(plain),
            (Mode::Triangles, _) => meshopt::decode_index_buffer::<u32>(bytes, count).map(plain),
            (Mode::Indices, 2) => meshopt::decode_index_sequence::<u16>(bytes, count).map(plain),
            (Mode::Indices, _) => meshopt::decode_index_sequence::<u32>(bytes, count).map(plain),
        };
        decoded.map_err(CompressedError::Damaged)
    }

    fn decode_vertices(&self, bytes: &[u8]) -> Result<Vec<u8>, CompressedError> {
        // The wrapper takes the stride as a type.
        macro_rules! by_words {
            ($($words:literal)*) => {
                match self.stride / 4 {
                    $($words => meshopt::decode_vertex_buffer::<[u32; $words]>(bytes, self.count).map(plain),)*
                    _ => return Err(CompressedError::Malformed("byteStride")),
                }
            };
        }
        let decoded = by_words!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
        let mut bytes = decoded.map_err(CompressedError::Damaged)?;
        if self.exponential {
            let mut words: Vec<[u32; 1]> = bytemuck::pod_collect_to_vec(&bytes);
            meshopt::decode_filter_exp(&mut words);
            bytes = plain(words);
        }
        Ok(bytes)
    }
}

fn plain<T: bytemuck::NoUninit>(values: Vec<T>) -> Vec<u8> {
    bytemuck::cast_slice(&values).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(mode: &str, count: u64, stride: u64, filter: &str) -> json::Value {
        let text = format!(
            r#"{{"buffer":0,"byteLength":1,"mode":"{mode}","count":{count},"byteStride":{stride},"filter":"{filter}"}}"#
        );
        json::deserialize::from_str(&text).unwrap()
    }

    #[test]
    fn vertices_and_indices_come_back() {
        let vertices: Vec<[u32; 3]> = (0..50).map(|i| [i, i * i, 7]).collect();
        let encoded = meshopt::encode_vertex_buffer(&vertices).unwrap();
        let decode = |value, bytes: &[u8]| parse(&value).unwrap().decode(bytes);
        assert_eq!(
            decode(fields("ATTRIBUTES", 50, 12, "NONE"), &encoded).unwrap(),
            plain(vertices)
        );
        assert!(decode(fields("ATTRIBUTES", 50, 16, "NONE"), &encoded).is_err());

        let indices: Vec<u32> = vec![0, 1, 2, 2, 1, 3];
        let encoded = meshopt::encode_index_buffer(&indices, 4).unwrap();
        assert_eq!(
            decode(fields("TRIANGLES", 6, 4, "NONE"), &encoded).unwrap(),
            plain(indices)
        );
        assert!(decode(fields("TRIANGLES", 6, 4, "NONE"), b"rubbish").is_err());
    }

    #[test]
    fn the_densest_there_is_decodes_and_nothing_denser_takes_memory() {
        for stride in [4, 32, 128] {
            let alike = vec![[0u32; 32]; 100_000 * stride / 128];
            let bytes = plain(alike);
            let count = bytes.len() / stride;
            let encoded = match stride {
                4 => meshopt::encode_vertex_buffer(&bytemuck::pod_collect_to_vec::<_, [u32; 1]>(
                    &bytes,
                )),
                32 => meshopt::encode_vertex_buffer(&bytemuck::pod_collect_to_vec::<_, [u32; 8]>(
                    &bytes,
                )),
                _ => meshopt::encode_vertex_buffer(&bytemuck::pod_collect_to_vec::<_, [u32; 32]>(
                    &bytes,
                )),
            };
            let fields = fields("ATTRIBUTES", count as u64, stride as u64, "NONE");
            let decoded = parse(&fields).unwrap().decode(&encoded.unwrap());
            assert_eq!(decoded.unwrap(), bytes, "{stride}");
        }
        let many = fields("ATTRIBUTES", 4 << 20, 128, "NONE");
        assert!(matches!(
            parse(&many).unwrap().decode(&[0xa0; 300]),
            Err(CompressedError::TooDense { encoded: 300, .. })
        ));
    }

    #[test]
    fn the_exponential_filter_is_undone() {
        let numbers = [[1.5f32, -0.25, 1024.0]];
        let filtered = meshopt::encode_filter_exp(&numbers, 15, meshopt::EncodeExpMode::Separate);
        let encoded = meshopt::encode_vertex_buffer(&filtered).unwrap();
        let compression = parse(&fields("ATTRIBUTES", 1, 12, "EXPONENTIAL")).unwrap();
        assert_eq!(
            compression.decode(&encoded).unwrap(),
            plain(numbers.to_vec())
        );
    }

    #[test]
    fn hostile_numbers_are_refused_before_memory_is_taken() {
        let code = |value| parse(&value).unwrap_err().code();
        assert_eq!(
            code(fields("ATTRIBUTES", 1 << 60, 12, "NONE")),
            Code::LimitExceeded
        );
        assert_eq!(code(fields("ATTRIBUTES", 9, 6, "NONE")), Code::InvalidAsset);
        assert_eq!(
            code(fields("ATTRIBUTES", 9, 8, "OCTAHEDRAL")),
            Code::UnsupportedFeature
        );
        assert_eq!(code(fields("TRIANGLES", 10, 4, "NONE")), Code::InvalidAsset);
        assert_eq!(code(fields("WHAT", 9, 8, "NONE")), Code::InvalidAsset);
    }
}
