//! Reads one slice of `observations` or `masks` as a [`Picture`], in pieces, so that it holds a megabyte beside the
//! pixels.
//!
//! Floats are rounded to the nearest of 256 steps (TRELLIS truncates, which darkens by half a step). A U8 mask counts
//! in 255ths, unless no value of the view's mask is above 1: then it consists of zeros and ones.

use safetensors::Dtype;

use super::header::{Arrays, Tensor};
use super::{ArraysError, Problem};
use crate::prepare::picture::{Colours, Picture};
use crate::worker::folder::FolderError;

/// Floats farther outside 0-1 than this raise a warning; a renderer's overshoot stays within.
const OVERSHOOT: f32 = 1.0;

/// Reads view `index`. The flag says that floats of it were far outside 0-1.
pub(super) fn read(
    arrays: &Arrays,
    observations: &Tensor<4>,
    masks: Option<&Tensor<3>>,
    index: usize,
) -> Result<(Picture, bool), ArraysError> {
    let [_, height, width, _] = observations.shape;
    let count = width * height;
    let mut pixels: Vec<[u8; 4]> = Vec::new();
    pixels
        .try_reserve_exact(count)
        .map_err(|_refused| FolderError::Memory(4 * count as u64))?;
    let mut steps = Steps::default();
    arrays.pieces(observations, 3 * index * count, 3 * count, 3, |bytes| {
        if observations.dtype == Dtype::F32 {
            for channels in bytes.as_chunks::<4>().0.as_chunks::<3>().0 {
                let mut pixel = [255; 4];
                for (channel, &bytes) in channels.iter().enumerate() {
                    pixel[channel] = steps.of(f32::from_le_bytes(bytes)).map_err(|value| {
                        let at = pixels.len();
                        let place = vec![index, at / width, at % width, channel];
                        observations.wrong(not_a_number(place, value))
                    })?;
                }
                pixels.push(pixel);
            }
        } else {
            let opaque = |&[r, g, b]: &[u8; 3]| [r, g, b, 255];
            pixels.extend(bytes.as_chunks::<3>().0.iter().map(opaque));
        }
        Ok(())
    })?;
    if let Some(masks) = masks {
        mask(arrays, masks, index, width, &mut pixels, &mut steps)?;
    }
    let picture = Picture {
        width: width as u32,
        height: height as u32,
        has_alpha: pixels.iter().any(|pixel| pixel[3] != 255),
        pixels,
        colours: Colours::default(),
    };
    Ok((picture, steps.far_outside))
}

fn mask(
    arrays: &Arrays,
    masks: &Tensor<3>,
    index: usize,
    width: usize,
    pixels: &mut [[u8; 4]],
    steps: &mut Steps,
) -> Result<(), ArraysError> {
    let count = pixels.len();
    let mut at = 0;
    arrays.pieces(masks, index * count, count, 1, |bytes| {
        if masks.dtype == Dtype::F32 {
            for &bytes in bytes.as_chunks::<4>().0 {
                let step = steps.of(f32::from_le_bytes(bytes));
                pixels[at][3] = step.map_err(|value| {
                    masks.wrong(not_a_number(vec![index, at / width, at % width], value))
                })?;
                at += 1;
            }
        } else {
            for (pixel, &byte) in pixels[at..].iter_mut().zip(bytes) {
                pixel[3] = byte;
            }
            at += bytes.len();
        }
        Ok(())
    })?;
    let flags = masks.dtype == Dtype::BOOL
        || masks.dtype == Dtype::U8 && pixels.iter().all(|pixel| pixel[3] <= 1);
    if flags {
        for pixel in pixels {
            pixel[3] = if pixel[3] == 0 { 0 } else { 255 };
        }
    }
    Ok(())
}

#[derive(Default)]
struct Steps {
    far_outside: bool,
}

impl Steps {
    /// Rounds to the nearest of 256 steps. Returns a value that is not finite as the error.
    fn of(&mut self, value: f32) -> Result<u8, f32> {
        if !value.is_finite() {
            return Err(value);
        }
        self.far_outside |= !(-OVERSHOOT..=1.0 + OVERSHOOT).contains(&value);
        Ok((value.clamp(0.0, 1.0) * 255.0).round() as u8)
    }
}

fn not_a_number(place: Vec<usize>, value: f32) -> Problem {
    Problem::Number {
        place,
        value: f64::from(value),
        wanted: "a finite number",
    }
}
