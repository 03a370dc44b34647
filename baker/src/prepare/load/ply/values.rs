//! Reads the numbers of a PLY file's body in sequence, never more than there are bytes.

use super::PlyError;
use super::header::{Element, Encoding, Number, Property};
use crate::prepare::load::lines::is_nan;

/// The numbers of the body. f64 holds every PLY type exactly.
pub(in crate::prepare) struct Values<'a> {
    pub(in crate::prepare) encoding: Encoding,
    pub(in crate::prepare) rest: &'a [u8],
}

/// Why there is no next number.
pub(in crate::prepare) enum Stop {
    End,
    Word,
}

impl Stop {
    pub(in crate::prepare) fn at(self, element: &Element, entry: u64) -> PlyError {
        let element = element.name.clone();
        match self {
            Self::End => PlyError::End { element, entry },
            Self::Word => PlyError::Word { element, entry },
        }
    }
}

impl Values<'_> {
    /// Refuses a count that the remaining bytes cannot hold.
    pub(in crate::prepare) fn check_count(&self, element: &Element) -> Result<(), PlyError> {
        let shortest = |property: &Property| match self.encoding {
            // A digit and a separator.
            Encoding::Ascii => 2,
            Encoding::Little | Encoding::Big => property.list.unwrap_or(property.number).bytes(),
        };
        let entry: usize = element.properties.iter().map(shortest).sum();
        let needed = element.count.saturating_mul(entry as u64);
        let present = self.rest.len();
        // The last number of an ASCII file needs no separator.
        if needed > present as u64 + 1 {
            return Err(PlyError::Count {
                element: element.name.clone(),
                count: element.count,
                needed,
                present,
            });
        }
        Ok(())
    }

    fn next(&mut self, number: Number) -> Result<f64, Stop> {
        match self.encoding {
            Encoding::Ascii => {
                let text = self.rest.trim_ascii_start();
                let end = text
                    .iter()
                    .position(u8::is_ascii_whitespace)
                    .unwrap_or(text.len());
                let (word, rest) = text.split_at(end);
                self.rest = rest;
                if word.is_empty() {
                    return Err(Stop::End);
                }
                let number = std::str::from_utf8(word)
                    .ok()
                    .and_then(|word| word.parse().ok());
                match number {
                    Some(number) => Ok(number),
                    None if is_nan(word) => Ok(f64::NAN),
                    None => Err(Stop::Word),
                }
            }
            Encoding::Little | Encoding::Big => {
                let (field, rest) = self
                    .rest
                    .split_at_checked(number.bytes())
                    .ok_or(Stop::End)?;
                self.rest = rest;
                let mut bytes = [0; 8];
                bytes[..field.len()].copy_from_slice(field);
                if self.encoding == Encoding::Big {
                    bytes[..field.len()].reverse();
                }
                let [a, b, c, d, ..] = bytes;
                Ok(match number {
                    Number::I8 => f64::from(i8::from_le_bytes([a])),
                    Number::U8 => f64::from(a),
                    Number::I16 => f64::from(i16::from_le_bytes([a, b])),
                    Number::U16 => f64::from(u16::from_le_bytes([a, b])),
                    Number::I32 => f64::from(i32::from_le_bytes([a, b, c, d])),
                    Number::U32 => f64::from(u32::from_le_bytes([a, b, c, d])),
                    Number::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
                    Number::F64 => f64::from_le_bytes(bytes),
                })
            }
        }
    }

    /// Reads a property into `into`: one number, or the numbers of a list.
    pub(in crate::prepare) fn property(
        &mut self,
        property: &Property,
        into: &mut Vec<f64>,
    ) -> Result<(), Stop> {
        into.clear();
        let length = match property.list {
            None => 1.0,
            Some(number) => self.next(number)?,
        };
        if length.is_nan() || length < 0.0 {
            return Err(Stop::Word);
        }
        // A too long list ends at the end of the bytes, before it takes memory.
        for _ in 0..length as u64 {
            into.push(self.next(property.number)?);
        }
        Ok(())
    }
}
