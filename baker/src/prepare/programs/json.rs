//! Numbers and identifiers in JSON that may be written as text: `boost::property_tree`, by which `AliceVision` writes, knows
//! nothing else.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, Visitor};

use super::wrong::{Read, Wrong};
use crate::prepare::transforms::lenient;

/// A number, or the text of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number(pub(super) f64);

/// An identifier, by its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Id(pub(super) String);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Id(text) = Id::deserialize(deserializer)?;
        let number: f64 = text
            .trim()
            .parse()
            .map_err(|_other| D::Error::custom(format_args!("{text:?} is no number")))?;
        match number.is_finite() {
            true => Ok(Self(number)),
            false => Err(D::Error::custom(format_args!("{text} is no finite number"))),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Id, E> {
                Ok(Id(text.chars().take(64).collect()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// The file as `T`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Read<T> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let found = serde_json::from_slice(text).or_else(|error| {
        serde_json::from_slice(&lenient::plain(text, lenient::OUT_OF_RANGE)).map_err(|_| error)
    });
    found.map_err(|error| Wrong::new(format!("is not readable: {error}")))
}

/// So many numbers.
pub(super) fn numbers<const N: usize>(list: &[Number], what: &str) -> Read<[f64; N]> {
    let numbers: Vec<f64> = list.iter().map(|number| number.0).collect();
    let count = numbers.len();
    let found = numbers.try_into();
    found.map_err(|_| Wrong::new(format!("{what} has {count} numbers, not {N}")))
}
