//! Checks that a viewer could show the texture of a finished GLB.
//!
//! Kiln measures with the texels that it hands to its PNG encoder, so good figures do not prove that the file is
//! readable. This module takes the picture out of the GLB and decodes it with another crate's decoder, including
//! checksums.

use std::io::Cursor;

use serde_json::Value;

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GlbError {
    /// Header, JSON or picture are missing.
    #[error("the GLB has no {0}")]
    Missing(&'static str),
    /// The picture is broken.
    #[error("the texture in the GLB cannot be decoded")]
    Texture(#[source] png::DecodingError),
}

/// Decodes the first image of a GLB.
pub(crate) fn check_texture(bytes: &[u8]) -> Result<(), GlbError> {
    let image = find_image(bytes)?;
    let mut reader = png::Decoder::new(Cursor::new(image))
        .read_info()
        .map_err(GlbError::Texture)?;
    while reader.next_row().map_err(GlbError::Texture)?.is_some() {}
    reader.finish().map_err(GlbError::Texture)
}

fn find_image(bytes: &[u8]) -> Result<&[u8], GlbError> {
    // 12 bytes of header, then chunks of length, kind and data. JSON is the first, BIN the second (glTF 2.0, 4.4).
    let (json, rest) = chunk(bytes.get(12..).unwrap_or_default(), b"JSON")?;
    let (binary, _) = chunk(rest, b"BIN\0")?;
    let json: Value = serde_json::from_slice(json).unwrap_or_default();
    let view = json["images"][0]["bufferView"].as_u64();
    let view = view.and_then(|index| json["bufferViews"].get(usize::try_from(index).ok()?));
    let view = view.ok_or(GlbError::Missing("image"))?;
    let number = |name: &str| usize::try_from(view[name].as_u64().unwrap_or(0)).unwrap_or(0);
    let start = number("byteOffset");
    binary
        .get(start..start.saturating_add(number("byteLength")))
        .ok_or(GlbError::Missing("bytes for its image"))
}

/// Splits off the first chunk: its data, and what follows it.
fn chunk<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> Result<(&'a [u8], &'a [u8]), GlbError> {
    let missing = GlbError::Missing("chunk of the kind expected");
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(missing);
    };
    let [a, b, c, d, found @ ..] = *head;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    match rest.split_at_checked(length) {
        Some(parts) if found == *kind => Ok(parts),
        _ => Err(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 64, 64);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().expect("a header");
        let pixels: Vec<u8> = (0..64 * 64 * 3_u32)
            .map(|k| (k.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        writer.write_image_data(&pixels).expect("pixels");
        writer.finish().expect("an end");
        file
    }

    fn glb(image: &[u8]) -> Vec<u8> {
        let json = serde_json::json!({
            "images": [{"bufferView": 1}],
            "bufferViews": [{"byteLength": 4}, {"byteOffset": 4, "byteLength": image.len()}],
        });
        let mut bytes = b"glTF\x02\0\0\0\0\0\0\0".to_vec();
        let binary = [b"mesh", image].concat();
        for (kind, data) in [(b"JSON", json.to_string().into_bytes()), (b"BIN\0", binary)] {
            let length = u32::try_from(data.len()).expect("short");
            bytes.extend(length.to_le_bytes());
            bytes.extend(kind);
            bytes.extend(data);
        }
        bytes
    }

    /// The same picture with its deflate stream cut short, and every checksum of the container correct.
    fn cut_stream(good: &[u8]) -> Vec<u8> {
        let mut file = good[..8].to_vec();
        let mut rest = &good[8..];
        while let Some((head, after)) = rest.split_first_chunk::<8>() {
            let [a, b, c, d, kind @ ..] = *head;
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            let kept = if kind == *b"IDAT" { length / 2 } else { length };
            let data = &after[..kept];
            file.extend(u32::try_from(kept).expect("short").to_be_bytes());
            file.extend(kind);
            file.extend(data);
            file.extend(crc32(&[&kind, data].concat()).to_be_bytes());
            rest = &after[length + 4..];
        }
        file
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| {
                (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg())
            })
        })
    }

    #[test]
    fn readable_texture_passes_and_a_broken_one_is_named() {
        let good = picture();
        check_texture(&glb(&good)).expect("readable");
        let error = check_texture(&glb(&cut_stream(&good))).expect_err("half a stream");
        assert!(matches!(error, GlbError::Texture(_)), "{error}");
        for broken in [&b"glTF"[..], &glb(&good)[..200], b""] {
            let error = check_texture(broken).expect_err("no GLB");
            assert!(matches!(error, GlbError::Missing(_)), "{error}");
        }
    }
}
