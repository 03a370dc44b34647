//! A mesh or views in a spec → [`Source`], from a JSON object alone: serde takes a list of a struct's values for the struct, too.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Source;

/// For `deserialize_with`.
///
/// # Errors
/// It is neither an object of a source nor null.
pub(super) fn source<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Source>, D::Error> {
    from.deserialize_option(Object)
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Option<Source>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object with path, or with files and main")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Source::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}
