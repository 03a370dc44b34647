//! Parses the header of a PLY file: its encoding, and its elements with their properties in the order of the body.

use super::PlyError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::prepare) enum Encoding {
    Ascii,
    Little,
    Big,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::prepare) enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    F64,
}

impl Number {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "char" | "int8" => Self::I8,
            "uchar" | "uint8" => Self::U8,
            "short" | "int16" => Self::I16,
            "ushort" | "uint16" => Self::U16,
            "int" | "int32" => Self::I32,
            "uint" | "uint32" => Self::U32,
            "float" | "float32" => Self::F32,
            "double" | "float64" => Self::F64,
            _ => return None,
        })
    }

    pub(in crate::prepare) fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

#[derive(Debug)]
pub(in crate::prepare) struct Property {
    pub(in crate::prepare) name: String,
    /// For a list, the type of its length.
    pub(in crate::prepare) list: Option<Number>,
    pub(in crate::prepare) number: Number,
}

#[derive(Debug)]
pub(in crate::prepare) struct Element {
    pub(in crate::prepare) name: String,
    pub(in crate::prepare) count: u64,
    pub(in crate::prepare) properties: Vec<Property>,
}

impl Element {
    /// Index of the list of a face's corners: the one that is named so, else the first of integers.
    pub(in crate::prepare) fn corners(&self) -> Option<usize> {
        let named = self.place(&["vertex_indices", "vertex_index"], true);
        let whole = |property: &Property| {
            property.list.is_some() && !matches!(property.number, Number::F32 | Number::F64)
        };
        named.or_else(|| self.properties.iter().position(whole))
    }

    /// Index of the first property with one of these names that is a list, or is not, as `list` says.
    pub(in crate::prepare) fn place(&self, names: &[&str], list: bool) -> Option<usize> {
        self.properties.iter().position(|property| {
            property.list.is_some() == list && names.contains(&property.name.as_str())
        })
    }
}

/// Parses the header. Returns encoding, elements and the body.
pub(in crate::prepare) fn header(
    bytes: &[u8],
) -> Result<(Encoding, Vec<Element>, &[u8]), PlyError> {
    let mut encoding = None;
    let mut elements: Vec<Element> = Vec::new();
    let mut rest = bytes;
    // Lines of an old Mac end with a carriage return alone.
    let line_end = match bytes.get(3..5) {
        Some([b'\r', next]) if *next != b'\n' => b'\r',
        _ => b'\n',
    };
    for line in 1.. {
        let wrong = |what| PlyError::Header { line, what };
        let end = rest
            .iter()
            .position(|&byte| byte == line_end)
            .ok_or(wrong("the header does not end"))?;
        // Names in Latin-1 stay names: a property that is passed over would shift all values behind it.
        let text = String::from_utf8_lossy(&rest[..end]);
        let text = text.trim_end();
        rest = &rest[end + 1..];
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        match words[..] {
            ["ply"] if line == 1 => {}
            _ if line == 1 => return Err(wrong("does not say ply")),
            [] | ["comment" | "obj_info", ..] => {}
            ["format", name, _version] => {
                encoding = Some(match name {
                    "ascii" => Encoding::Ascii,
                    "binary_little_endian" => Encoding::Little,
                    "binary_big_endian" => Encoding::Big,
                    _ => return Err(wrong("unknown format")),
                });
            }
            ["element", name, count] => {
                let count = count
                    .parse()
                    .map_err(|_not_a_number| wrong("the count is no number"))?;
                elements.push(Element {
                    name: name.to_owned(),
                    count,
                    properties: Vec::new(),
                });
            }
            // Some programs write names of several words, or none.
            ["property", "list", length, number, ref name @ ..] => {
                let list = Some(Number::named(length).ok_or(wrong("unknown type"))?);
                let number = Number::named(number).ok_or(wrong("unknown type"))?;
                let element = elements
                    .last_mut()
                    .ok_or(wrong("a property before any element"))?;
                element.properties.push(Property {
                    name: name.join(" "),
                    list,
                    number,
                });
            }
            ["property", number, ref name @ ..] => {
                let number = Number::named(number).ok_or(wrong("unknown type"))?;
                let element = elements
                    .last_mut()
                    .ok_or(wrong("a property before any element"))?;
                element.properties.push(Property {
                    name: name.join(" "),
                    list: None,
                    number,
                });
            }
            ["end_header"] => {
                let encoding = encoding.ok_or(wrong("no format was named"))?;
                return Ok((encoding, elements, rest));
            }
            _ => return Err(wrong("is not understood")),
        }
    }
    Err(PlyError::Header {
        line: 0,
        what: "the header does not end",
    })
}
