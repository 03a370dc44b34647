//! Reads the triangles of a PLY, ASCII or binary in either byte order.
//!
//! Polygons become fans, triangle strips their triangles. Texture coordinates come from the vertices (`s t`, `u v`, `texture_u texture_v`) or from a
//! `texcoord` list of each face, which takes precedence. v points up in PLY and down here. Other elements and
//! properties are skipped.
//!
//! Why not `ply-rs-bw` (MIT, maintained): it holds every element as a map from property names to values, hundreds of
//! bytes per vertex, so a scan of a million faces would take gigabytes. Here counts are checked against the bytes left
//! before memory is reserved.

mod header;

mod values;

#[cfg(test)]
mod tests;

use proto::limits::MAX_TRIANGLES;

pub(in crate::prepare) use self::header::{Element, header};
pub(in crate::prepare) use self::values::Values;
use super::corners::unify;
use super::raw::{NoUvs, Offset, RawMesh, relative};

/// Why a PLY file is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum PlyError {
    /// A malformed header.
    #[error("header line {line}: {what}")]
    Header {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An element announces more entries than there are bytes.
    #[error(
        "{count} entries of element {element} need at least {needed} bytes, {present} are left"
    )]
    Count {
        element: String,
        count: u64,
        /// Bytes they need at least.
        needed: u64,
        present: usize,
    },
    /// The file ends within an entry.
    #[error("ends within entry {entry} of element {element}")]
    End { element: String, entry: u64 },
    /// A word is no number.
    #[error("entry {entry} of element {element} has a word that is no number")]
    Word { element: String, entry: u64 },
    /// A corner names no vertex.
    #[error("face {face} names vertex {vertex} of {vertices}")]
    Index {
        face: u64,
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

pub(super) fn read(bytes: &[u8], want_uvs: bool, offset: &Offset) -> Result<RawMesh, PlyError> {
    let (encoding, elements, body) = header(bytes)?;
    let mut values = Values {
        encoding,
        rest: body,
    };
    // Faces may precede the vertices that they name. Those that are missing then are found by the caller's check.
    let vertices = elements.iter().find(|element| element.name == "vertex");
    let vertices = vertices.map_or(0, |element| element.count.min(u64::from(u32::MAX)));
    let mut shape = Shape {
        vertices: vertices as usize,
        offset: *offset,
        ..Shape::default()
    };
    for element in &elements {
        values.check_count(element)?;
        match element.name.as_str() {
            "vertex" => shape.read_vertices(element, &mut values, want_uvs)?,
            "face" => shape.read_faces(element, &mut values, want_uvs)?,
            "tristrips" => shape.read_strips(element, &mut values)?,
            _ => skip(element, &mut values)?,
        }
    }
    shape.finish(want_uvs)
}

/// Passes over an element.
pub(in crate::prepare) fn skip(element: &Element, values: &mut Values<'_>) -> Result<(), PlyError> {
    match element.properties.is_empty() {
        true => Ok(()),
        false => rows(element, values, |_row| {}),
    }
}

/// Calls `each` for every entry with the numbers of its properties, in their order; of a list with its first.
pub(in crate::prepare) fn rows(
    element: &Element,
    values: &mut Values<'_>,
    mut each: impl FnMut(&[f64]),
) -> Result<(), PlyError> {
    let mut row = vec![0.0; element.properties.len()];
    let mut list = Vec::new();
    for entry in 0..element.count {
        for (value, property) in row.iter_mut().zip(&element.properties) {
            values
                .property(property, &mut list)
                .map_err(|stop| stop.at(element, entry))?;
            *value = list.first().copied().unwrap_or(0.0);
        }
        each(&row);
    }
    Ok(())
}

#[derive(Default)]
struct Shape {
    /// How many the header announces.
    vertices: usize,
    offset: Offset,
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
        let place = |names: &[&str]| element.place(names, false);
        let required = |name| place(&[name]).ok_or(PlyError::NoCoordinate(name));
        let [x, y, z] = [required("x")?, required("y")?, required("z")?];
        let u = place(&["s", "u", "texture_u", "texture_s"]);
        let v = place(&["t", "v", "texture_v", "texture_t"]);
        let uv = u.zip(v).filter(|_| want_uvs);
        self.positions.reserve_exact(element.count as usize);
        rows(element, values, |row| {
            let at = [x, y, z].map(|at| row[at]);
            self.positions.push(relative(at, &self.offset));
            if let Some((u, v)) = uv {
                self.uvs.push(flipped(row[u], row[v]));
            }
        })
    }

    fn read_faces(
        &mut self,
        element: &Element,
        values: &mut Values<'_>,
        want_uvs: bool,
    ) -> Result<(), PlyError> {
        let place = |names: &[&str]| element.place(names, true);
        let Some(corners_at) = element.corners() else {
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

    /// Triangle strips, as Stanford's scans have them: each corner makes a triangle with the two before it, turned by
    /// one for every second. -1 ends a strip.
    fn read_strips(&mut self, element: &Element, values: &mut Values<'_>) -> Result<(), PlyError> {
        let Some(corners_at) = element.corners() else {
            return skip(element, values);
        };
        let mut list = Vec::new();
        for entry in 0..element.count {
            for (at, property) in element.properties.iter().enumerate() {
                let read = values.property(property, &mut list);
                read.map_err(|stop| stop.at(element, entry))?;
                if at != corners_at {
                    continue;
                }
                for strip in list.split(|&corner| corner == -1.0) {
                    for (number, corners) in strip.windows(3).enumerate() {
                        let [a, b, c] = [corners[0], corners[1], corners[2]];
                        let corners = if number % 2 == 0 {
                            [a, b, c]
                        } else {
                            [b, a, c]
                        };
                        self.add_polygon(entry, &corners)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add_polygon(&mut self, face: u64, corners: &[f64]) -> Result<(), PlyError> {
        let vertices = self.vertices;
        let index = |&vertex: &f64| {
            // Written so that NaN fails.
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
            // Skipped: `finish` finds that the lengths differ.
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
