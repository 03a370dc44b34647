//! PLY, ASCII and binary of both byte orders → triangles.
//!
//! Polygons become fans. Texture coordinates come from the vertices (`s t`, `u v`, `texture_u texture_v`) or from a
//! `texcoord` list of each face, which wins; v points up in PLY and down here. Other elements and properties are skipped.
//!
//! Why no crate: `ply-rs-bw` (MIT, kept up) holds every element as a map from property names to values, hundreds of bytes
//! for a vertex, so a scan of a million faces would take gigabytes. Here counts are held against the bytes that are left
//! before anything is reserved.

use proto::limits::MAX_TRIANGLES;

use super::corners::unify;
use super::{NoUvs, RawMesh};

/// Why a PLY file is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum PlyError {
    /// The header is not one.
    #[error("header line {line}: {what}")]
    Header {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An element with more entries than there are bytes.
    #[error(
        "{count} entries of element {element} need at least {needed} bytes, {present} are left"
    )]
    Count {
        /// Name of the element.
        element: String,
        /// Entries it announces.
        count: u64,
        /// Bytes they need at least.
        needed: u64,
        /// Bytes left.
        present: usize,
    },
    /// The file ends within an entry.
    #[error("ends within entry {entry} of element {element}")]
    End {
        /// Name of the element.
        element: String,
        /// The entry.
        entry: u64,
    },
    /// A word that is no number.
    #[error("entry {entry} of element {element} has a word that is no number")]
    Word {
        /// Name of the element.
        element: String,
        /// The entry.
        entry: u64,
    },
    /// A corner that names no vertex.
    #[error("face {face} names vertex {vertex} of {vertices}")]
    Index {
        /// The face.
        face: u64,
        /// What stands there.
        vertex: f64,
        /// How many vertices there are.
        vertices: usize,
    },
    /// Points only.
    #[error("has {vertices} vertices and no faces")]
    NoFaces {
        /// How many vertices there are.
        vertices: usize,
    },
    /// Vertices without coordinates.
    #[error("its vertices have no {0}")]
    NoCoordinate(&'static str),
    /// Beyond the bound.
    #[error("has more than the {MAX_TRIANGLES} triangles that are taken")]
    TooManyTriangles,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    Ascii,
    Little,
    Big,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
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

    fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

#[derive(Debug)]
struct Property {
    name: String,
    /// Type of the length, for a list.
    list: Option<Number>,
    number: Number,
}

#[derive(Debug)]
struct Element {
    name: String,
    count: u64,
    properties: Vec<Property>,
}

/// Reads the bytes of a file.
pub(super) fn read(bytes: &[u8], want_uvs: bool) -> Result<RawMesh, PlyError> {
    let (encoding, elements, body) = header(bytes)?;
    let mut values = Values {
        encoding,
        rest: body,
    };
    let mut shape = Shape::default();
    for element in &elements {
        values.check_count(element)?;
        match element.name.as_str() {
            "vertex" => shape.read_vertices(element, &mut values, want_uvs)?,
            "face" => shape.read_faces(element, &mut values, want_uvs)?,
            _ => skip(element, &mut values)?,
        }
    }
    shape.finish(want_uvs)
}

fn header(bytes: &[u8]) -> Result<(Encoding, Vec<Element>, &[u8]), PlyError> {
    let mut encoding = None;
    let mut elements: Vec<Element> = Vec::new();
    let mut rest = bytes;
    for line in 1.. {
        let wrong = |what| PlyError::Header { line, what };
        let end = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .ok_or(wrong("the header does not end"))?;
        let text = std::str::from_utf8(&rest[..end])
            .unwrap_or("comment")
            .trim_end();
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
            ["property", "list", length, number, name] => {
                let list = Some(Number::named(length).ok_or(wrong("unknown type"))?);
                let number = Number::named(number).ok_or(wrong("unknown type"))?;
                let element = elements
                    .last_mut()
                    .ok_or(wrong("a property before any element"))?;
                element.properties.push(Property {
                    name: name.to_owned(),
                    list,
                    number,
                });
            }
            ["property", number, name] => {
                let number = Number::named(number).ok_or(wrong("unknown type"))?;
                let element = elements
                    .last_mut()
                    .ok_or(wrong("a property before any element"))?;
                element.properties.push(Property {
                    name: name.to_owned(),
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

/// The numbers of the body, one after the other. Every type of PLY fits f64 exactly.
struct Values<'a> {
    encoding: Encoding,
    rest: &'a [u8],
}

/// Why there is no next number.
enum Stop {
    End,
    Word,
}

impl Stop {
    fn at(self, element: &Element, entry: u64) -> PlyError {
        let element = element.name.clone();
        match self {
            Self::End => PlyError::End { element, entry },
            Self::Word => PlyError::Word { element, entry },
        }
    }
}

impl Values<'_> {
    /// Refuses a count that the bytes left cannot hold.
    fn check_count(&self, element: &Element) -> Result<(), PlyError> {
        let shortest = |property: &Property| match self.encoding {
            // A digit and what parts it from the next.
            Encoding::Ascii => 2,
            Encoding::Little | Encoding::Big => property.list.unwrap_or(property.number).bytes(),
        };
        let entry: usize = element.properties.iter().map(shortest).sum();
        let needed = element.count.saturating_mul(entry as u64);
        let present = self.rest.len();
        // The last number of an ASCII file need not be followed by anything.
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
                std::str::from_utf8(word)
                    .ok()
                    .and_then(|word| word.parse().ok())
                    .ok_or(Stop::Word)
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
    fn property(&mut self, property: &Property, into: &mut Vec<f64>) -> Result<(), Stop> {
        into.clear();
        let length = match property.list {
            None => 1.0,
            Some(number) => self.next(number)?,
        };
        if length.is_nan() || length < 0.0 {
            return Err(Stop::Word);
        }
        // A long list ends with the bytes, not with memory.
        for _ in 0..length as u64 {
            into.push(self.next(property.number)?);
        }
        Ok(())
    }
}

fn skip(element: &Element, values: &mut Values<'_>) -> Result<(), PlyError> {
    let mut list = Vec::new();
    if element.properties.is_empty() {
        return Ok(());
    }
    for entry in 0..element.count {
        for property in &element.properties {
            values
                .property(property, &mut list)
                .map_err(|stop| stop.at(element, entry))?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Shape {
    positions: Vec<[f32; 3]>,
    uvs: Vec<[f32; 2]>,
    triangles: Vec<[u32; 3]>,
    corner_uvs: Vec<[[f32; 2]; 3]>,
}

fn flipped(u: f64, v: f64) -> [f32; 2] {
    [u as f32, (1.0 - v) as f32]
}

impl Shape {
    fn read_vertices(
        &mut self,
        element: &Element,
        values: &mut Values<'_>,
        want_uvs: bool,
    ) -> Result<(), PlyError> {
        let place = |names: &[&str]| {
            let named = |property: &Property| {
                property.list.is_none() && names.contains(&property.name.as_str())
            };
            element.properties.iter().position(named)
        };
        let required = |name| place(&[name]).ok_or(PlyError::NoCoordinate(name));
        let [x, y, z] = [required("x")?, required("y")?, required("z")?];
        let u = place(&["s", "u", "texture_u", "texture_s"]);
        let v = place(&["t", "v", "texture_v", "texture_t"]);
        let uv = u.zip(v).filter(|_| want_uvs);
        let mut entry_values = vec![0.0; element.properties.len()];
        let mut list = Vec::new();
        self.positions.reserve_exact(element.count as usize);
        for entry in 0..element.count {
            for (value, property) in entry_values.iter_mut().zip(&element.properties) {
                values
                    .property(property, &mut list)
                    .map_err(|stop| stop.at(element, entry))?;
                *value = list.first().copied().unwrap_or(0.0);
            }
            self.positions
                .push([x, y, z].map(|at| entry_values[at] as f32));
            if let Some((u, v)) = uv {
                self.uvs.push(flipped(entry_values[u], entry_values[v]));
            }
        }
        Ok(())
    }

    fn read_faces(
        &mut self,
        element: &Element,
        values: &mut Values<'_>,
        want_uvs: bool,
    ) -> Result<(), PlyError> {
        let place = |names: &[&str]| {
            let named = |property: &Property| {
                property.list.is_some() && names.contains(&property.name.as_str())
            };
            element.properties.iter().position(named)
        };
        let corners_at = place(&["vertex_indices", "vertex_index"]);
        let Some(corners_at) = corners_at else {
            return skip(element, values);
        };
        let uvs_at = place(&["texcoord"]).filter(|_| want_uvs);
        let mut lists = vec![Vec::new(); element.properties.len()];
        for face in 0..element.count {
            for (list, property) in lists.iter_mut().zip(&element.properties) {
                values
                    .property(property, list)
                    .map_err(|stop| stop.at(element, face))?;
            }
            self.add_polygon(face, &lists[corners_at])?;
            if let Some(at) = uvs_at {
                self.add_corner_uvs(lists[corners_at].len(), &lists[at]);
            }
        }
        Ok(())
    }

    fn add_polygon(&mut self, face: u64, corners: &[f64]) -> Result<(), PlyError> {
        let vertices = self.positions.len();
        let index = |&vertex: &f64| {
            // Written so that NaN fails. A position's number fits u32 or the file would be larger than is read.
            let valid = vertex >= 0.0 && vertex < vertices as f64 && vertex.fract() == 0.0;
            if valid {
                Ok(vertex as u32)
            } else {
                Err(PlyError::Index {
                    face,
                    vertex,
                    vertices,
                })
            }
        };
        let corners: Vec<u32> = corners.iter().map(index).collect::<Result<_, _>>()?;
        if corners.len().saturating_sub(2) > MAX_TRIANGLES - self.triangles.len() {
            return Err(PlyError::TooManyTriangles);
        }
        if let [first, rest @ ..] = &corners[..] {
            self.triangles
                .extend(rest.windows(2).map(|pair| [*first, pair[0], pair[1]]));
        }
        Ok(())
    }

    fn add_corner_uvs(&mut self, corners: usize, list: &[f64]) {
        if list.len() != 2 * corners {
            // The lists part ways: `finish` sees that their lengths differ.
            return;
        }
        let uvs: Vec<[f32; 2]> = list
            .chunks_exact(2)
            .map(|uv| flipped(uv[0], uv[1]))
            .collect();
        if let [first, rest @ ..] = &uvs[..] {
            self.corner_uvs
                .extend(rest.windows(2).map(|pair| [*first, pair[0], pair[1]]));
        }
    }

    fn finish(self, want_uvs: bool) -> Result<RawMesh, PlyError> {
        if self.triangles.is_empty() {
            return Err(PlyError::NoFaces {
                vertices: self.positions.len(),
            });
        }
        if !self.corner_uvs.is_empty() && self.corner_uvs.len() == self.triangles.len() {
            return Ok(unify(&self.positions, &self.triangles, &self.corner_uvs));
        }
        let uvs = match (want_uvs, self.uvs.is_empty(), self.corner_uvs.is_empty()) {
            (false, _, _) => Err(NoUvs::NotAsked),
            (true, false, _) => Ok(self.uvs),
            (true, true, true) => Err(NoUvs::Absent),
            (true, true, false) => Err(NoUvs::PartlyAbsent),
        };
        Ok(RawMesh {
            positions: self.positions,
            uvs,
            triangles: self.triangles,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: &str = "ply\nformat ascii 1.0\ncomment made by hand\nelement vertex 4\nproperty float x\n\
        property float y\nproperty list uchar int neighbours\nproperty double z\nproperty float s\nproperty float t\n\
        element face 1\nproperty uchar red\nproperty list uchar int vertex_indices\nend_header\n\
        0 0 2 1 2 5 0 0\n1 0 0 5 1 0\r\n1 1 0 5 1 1\n0 1 0 5 0 1\n200 4 0 1 2 3";

    #[test]
    fn ascii_polygons_become_fans() {
        let mesh = read(SQUARE.as_bytes(), true).unwrap();
        assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3]]);
        assert_eq!(mesh.positions[2], [1.0, 1.0, 5.0]);
        assert_eq!(mesh.uvs.unwrap()[3], [0.0, 0.0]);
        assert_eq!(
            read(SQUARE.as_bytes(), false).unwrap().uvs,
            Err(NoUvs::NotAsked)
        );
    }

    /// The square in binary, with an element to skip between the two that count.
    fn binary(encoding: &str, float: fn(f32) -> [u8; 4], int: fn(i32) -> [u8; 4]) -> Vec<u8> {
        let mut file = format!(
            "ply\nformat {encoding} 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n\
             element edge 2\nproperty list uchar int ends\nelement face 1\nproperty list uchar int vertex_index\n\
             property list uchar float texcoord\nend_header\n"
        )
        .into_bytes();
        for point in [
            [0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0],
            [1.0, 1.0, 0.0],
            [0.0, 1.0, 0.0],
        ] {
            file.extend(point.map(float).concat());
        }
        file.extend([&[1][..], &int(7), &[0]].concat());
        file.extend([&[4][..], &[0, 1, 2, 3].map(int).concat()].concat());
        file.extend(
            [
                &[8][..],
                &[0.0, 0.0, 0.5, 0.0, 0.5, 1.0, 0.0, 1.0].map(float).concat(),
            ]
            .concat(),
        );
        file
    }

    #[test]
    fn both_byte_orders_and_face_texcoords_are_read() {
        let little = read(
            &binary("binary_little_endian", f32::to_le_bytes, i32::to_le_bytes),
            true,
        )
        .unwrap();
        let big = read(
            &binary("binary_big_endian", f32::to_be_bytes, i32::to_be_bytes),
            true,
        )
        .unwrap();
        assert_eq!(little, big);
        assert_eq!(little.triangles, [[0, 1, 2], [0, 2, 3]]);
        assert_eq!(
            little.uvs.unwrap(),
            [[0.0, 1.0], [0.5, 1.0], [0.5, 0.0], [0.0, 0.0]]
        );
    }

    #[test]
    fn every_truncation_ends_in_an_error() {
        let file = binary("binary_little_endian", f32::to_le_bytes, i32::to_le_bytes);
        for end in 0..file.len() {
            assert!(read(&file[..end], true).is_err(), "{end}");
        }
    }

    #[test]
    fn hostile_headers_and_bodies_are_named() {
        let error = |from: &str, to: &str| {
            read(SQUARE.replace(from, to).as_bytes(), true)
                .unwrap_err()
                .to_string()
        };
        assert!(
            error("vertex 4", "vertex 4000000000")
                .starts_with("4000000000 entries of element vertex need")
        );
        assert!(
            error("vertex 4", "vertex -1").starts_with("header line 4: the count is no number")
        );
        assert_eq!(
            error("4 0 1 2 3", "4 0 1 2 4"),
            "face 0 names vertex 4 of 4"
        );
        assert_eq!(
            error("4 0 1 2 3", "4 0 1 -2 3"),
            "face 0 names vertex -2 of 4"
        );
        assert_eq!(
            error("200 4 0", "200 x 0"),
            "entry 0 of element face has a word that is no number"
        );
        assert_eq!(
            error("200 4 0", "200 250 0"),
            "ends within entry 0 of element face"
        );
        assert_eq!(
            error("200 4 0 1 2 3", "200 2 0 1"),
            "has 4 vertices and no faces"
        );
        assert_eq!(
            error("property double z\n", "property double w\n"),
            "its vertices have no z"
        );
        assert_eq!(error("ascii", "morse"), "header line 2: unknown format");
        assert_eq!(
            error("end_header", "end"),
            "header line 14: is not understood"
        );
    }
}
