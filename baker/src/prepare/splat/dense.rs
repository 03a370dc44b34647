//! `.splat` → splats: 32 bytes each, without a header. Position and scales are floats, colour with opacity and the quaternion
//! (w, x, y, z) are bytes.

use kiln_splat::{Cloud, Dropped, Splat};

use super::content::{Origin, SplatError, Splats, check_count, constant};

const BYTES: usize = 32;

pub(super) fn read(bytes: &[u8]) -> Result<Splats, SplatError> {
    let (entries, rest) = bytes.as_chunks::<BYTES>();
    if !rest.is_empty() {
        return Err(SplatError::Damaged("its size is no multiple of 32 bytes"));
    }
    check_count(entries.len() as u64)?;
    let mut cloud = Cloud::new(0);
    let mut dropped = Dropped::default();
    for entry in entries {
        let (floats, bytes) = entry.split_at(24);
        let floats = floats.as_chunks::<4>().0;
        let number = |k: usize| f32::from_le_bytes(floats[k]);
        let splat = Splat {
            position: [0, 1, 2].map(number),
            scales: [3, 4, 5].map(number),
            rotation: [4, 5, 6, 7].map(|k| (f32::from(bytes[k]) - 128.0) / 128.0),
            opacity: f32::from(bytes[3]) / 255.0,
            constant: [0, 1, 2].map(|k| constant(f64::from(bytes[k]) / 255.0)),
        };
        dropped.meaningless += usize::from(!cloud.push(&splat, &[]));
    }
    Ok(Splats {
        cloud,
        dropped,
        origin: Origin::Dense,
    })
}
