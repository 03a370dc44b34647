//! `PlayCanvas`' compressed PLY → splats: four words a splat, and the ranges of each chunk of 256.
//!
//! ```text
//!   packed_position, packed_scale   11, 10, 11 bits: shares of the chunk's range; scales are logarithms
//!   packed_rotation                 2 bits: which of (w, x, y, z) is the largest; 3 × 10 bits: the others, ±√½
//!   packed_color                    8 bits each: shares of the chunk's range of colours (0 to 1 where it has none), opacity
//!   f_rest_N of element sh          8 bits: -4 to 4, red, then green, then blue
//! ```

use kiln_splat::{Cloud, Dropped, Splat, coefficients};

use super::content::{Origin, SplatError, Splats, constant, with_largest};
use crate::prepare::load::ply::{Element, Values, rows};

/// Splats that share a chunk.
const CHUNK: usize = 256;
const RANGES: [&str; 18] = [
    "min_x",
    "min_y",
    "min_z",
    "max_x",
    "max_y",
    "max_z",
    "min_scale_x",
    "min_scale_y",
    "min_scale_z",
    "max_scale_x",
    "max_scale_y",
    "max_scale_z",
    "min_r",
    "min_g",
    "min_b",
    "max_r",
    "max_g",
    "max_b",
];
/// Ranges that every file has; older ones have none of colours.
const NEEDED: usize = 12;
const WORDS: [&str; 4] = [
    "packed_position",
    "packed_rotation",
    "packed_scale",
    "packed_color",
];

#[derive(Default)]
pub(super) struct Packed {
    /// Least and largest values, in the order of [`RANGES`].
    chunks: Vec<[f64; 18]>,
    /// In the order of [`WORDS`].
    words: Vec<[u32; 4]>,
    harmonics: Vec<u8>,
    /// Of each channel.
    each: usize,
}

impl Packed {
    pub(super) fn read_chunks(
        &mut self,
        element: &Element,
        values: &mut Values<'_>,
    ) -> Result<(), SplatError> {
        let places = RANGES.map(|name| element.place(&[name], false));
        for (place, name) in places.iter().zip(RANGES).take(NEEDED) {
            place.ok_or(SplatError::Missing(name))?;
        }
        rows(element, values, |row| {
            self.chunks.push(std::array::from_fn(|k| {
                let without = f64::from(u8::from(k >= NEEDED + 3));
                places[k].map_or(without, |at| row[at])
            }));
        })?;
        Ok(())
    }

    pub(super) fn read_vertices(
        &mut self,
        element: &Element,
        values: &mut Values<'_>,
    ) -> Result<(), SplatError> {
        let mut places = [0; 4];
        for (place, name) in places.iter_mut().zip(WORDS) {
            *place = element
                .place(&[name], false)
                .ok_or(SplatError::Missing(name))?;
        }
        rows(element, values, |row| {
            self.words.push(places.map(|at| row[at] as u32));
        })?;
        Ok(())
    }

    pub(super) fn read_harmonics(
        &mut self,
        element: &Element,
        values: &mut Values<'_>,
    ) -> Result<(), SplatError> {
        let rest = |number: usize| element.place(&[format!("f_rest_{number}").as_str()], false);
        let places: Vec<usize> = (0..).map_while(rest).collect();
        self.each = places.len() / 3;
        rows(element, values, |row| {
            self.harmonics
                .extend(places.iter().map(|&at| row[at] as u8));
        })?;
        Ok(())
    }

    pub(super) fn splats(self) -> Result<Splats, SplatError> {
        let degree = (0..=3).find(|&degree| coefficients(degree) == self.each);
        let degree = degree.ok_or(SplatError::Harmonics(self.each))?;
        if self.words.len().div_ceil(CHUNK) > self.chunks.len() {
            return Err(SplatError::Damaged("has fewer chunks than its splats need"));
        }
        if self.harmonics.len() < self.words.len() * 3 * self.each {
            return Err(SplatError::Damaged("has fewer harmonics than splats"));
        }
        let mut cloud = Cloud::new(degree);
        let mut dropped = Dropped::default();
        let mut harmonics = vec![[0.0; 3]; self.each];
        for (index, words) in self.words.iter().enumerate() {
            let bytes = &self.harmonics[index * 3 * self.each..];
            for (k, harmonic) in harmonics.iter_mut().enumerate() {
                let value = |channel: usize| f32::from(bytes[channel * self.each + k]);
                *harmonic = [0, 1, 2].map(|channel| value(channel) * 8.0 / 255.0 - 4.0);
            }
            let splat = unpacked(words, &self.chunks[index / CHUNK]);
            dropped.meaningless += usize::from(!cloud.push(&splat, &harmonics));
        }
        Ok(Splats {
            cloud,
            dropped,
            origin: Origin::Packed,
        })
    }
}

/// The `bits` above the lowest `shift`, as a share of the largest such number.
fn part(word: u32, shift: u32, bits: u32) -> f64 {
    let most = (1 << bits) - 1;
    f64::from(word >> shift & most) / f64::from(most)
}

fn unpacked([position, rotation, scale, colour]: &[u32; 4], chunk: &[f64; 18]) -> Splat {
    let within = |share: f64, first: usize, k: usize| {
        let (least, most) = (chunk[first + k], chunk[first + 3 + k]);
        least + share * (most - least)
    };
    let three = |word: u32| [part(word, 21, 11), part(word, 11, 10), part(word, 0, 11)];
    let (at, logs) = (three(*position), three(*scale));
    let shares = [24, 16, 8].map(|shift| part(*colour, shift, 8));
    Splat {
        position: [0, 1, 2].map(|k| within(at[k], 0, k) as f32),
        scales: [0, 1, 2].map(|k| within(logs[k], 6, k).exp() as f32),
        rotation: smallest_three(*rotation),
        opacity: part(*colour, 0, 8) as f32,
        constant: [0, 1, 2].map(|k| constant(within(shares[k], NEEDED, k))),
    }
}

/// A unit quaternion without its largest component.
fn smallest_three(word: u32) -> [f32; 4] {
    let others = [20, 10, 0].map(|shift| (part(word, shift, 10) - 0.5) * std::f64::consts::SQRT_2);
    with_largest((word >> 30) as usize, others)
}
