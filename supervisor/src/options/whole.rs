//! A whole number in JSON, also as `512.0` or `5.12e2`, which JSON Schema calls an integer and many languages write → an integer.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// Every whole number up to here is an `f64`, and its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// For `deserialize_with`.
///
/// # Errors
/// No number, one with a fraction, or one that `T` cannot hold.
pub fn number<'de, D: Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<T, D::Error> {
    from.deserialize_u64(Whole(PhantomData))
}

/// As [`number`], or null.
///
/// # Errors
/// As [`number`].
pub fn optional<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    from.deserialize_option(Optional(PhantomData))
}

struct Whole<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for Whole<T> {
    type Value = T;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a whole number")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        T::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        if value.fract() != 0.0 || !(0.0..=EXACT).contains(&value) {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and in range, as the lines above say"
        )]
        self.visit_u64(value as u64)
    }
}

struct Optional<T>(PhantomData<T>);

impl<'de, T: TryFrom<u64>> Visitor<'de> for Optional<T> {
    type Value = Option<T>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a whole number or null")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        number(from).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: TryFrom<u64>>(text: &str) -> Option<T> {
        number(&mut serde_json::Deserializer::from_str(text)).ok()
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_point() {
        for (text, wanted) in [
            ("512", Some(512)),
            ("512.0", Some(512)),
            ("5.12e2", Some(512)),
            ("0.0", Some(0)),
            ("512.5", None),
            ("-1", None),
            ("-1.0", None),
            ("4294967296", None),
            ("1e300", None),
            ("\"512\"", None),
            ("true", None),
        ] {
            assert_eq!(read::<u32>(text), wanted, "{text}");
        }
        assert_eq!(read::<u64>("18446744073709551615"), Some(u64::MAX));
        // Beyond 2^53 a number with a point may be another than was meant.
        assert_eq!(read::<u64>("18014398509481984.0"), None);
    }

    #[test]
    fn null_is_none() {
        let read = |text| optional::<_, u32>(&mut serde_json::Deserializer::from_str(text)).ok();
        assert_eq!(read("null"), Some(None));
        assert_eq!(read("7.0"), Some(Some(7)));
        assert_eq!(read("7.5"), None);
    }
}
