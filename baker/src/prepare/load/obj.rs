//! Reads the triangles of a Wavefront OBJ: `v`, `vt` and `f`, and the names of `o` and `usemtl`; skips everything else.
//!
//! Polygons become fans. Negative indices count back from the last line read. A backslash joins lines. v points up in
//! OBJ and down here.
//!
//! Why not `tobj`: it refuses a whole file for one byte of a name that is not UTF-8, does not join lines, splits the
//! file into models that would have to be merged again, and names the line in none of its errors.

use proto::labels::{Label, Labels};
use proto::limits::MAX_TRIANGLES;

use super::corners::unify;
use super::lines::{is_nan, lines};
use super::raw::{NoUvs, Offset, RawMesh, relative};

/// Why an OBJ file is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ObjError {
    /// A `v` or `vt` lacks numbers.
    #[error("line {0}: has too few numbers, or words that are none")]
    Number(usize),
    /// A number is written with a decimal comma.
    #[error("line {0}: has a number with a decimal comma (0,5)")]
    Comma(usize),
    /// A corner is no index.
    #[error("line {line}: {word} is no corner of a face")]
    Corner {
        /// Number of the line, from 1.
        line: usize,
        /// The word.
        word: String,
    },
    /// An index out of range.
    #[error("line {line}: names {what} {index}, {count} were read")]
    Index {
        /// Number of the line, from 1.
        line: usize,
        /// Vertex or texture coordinate.
        what: &'static str,
        /// The index.
        index: i64,
        /// How many were read before this line.
        count: usize,
    },
    /// Beyond the bound.
    #[error("has more than the {MAX_TRIANGLES} triangles that are taken")]
    TooManyTriangles,
}

/// A corner: vertex, and texture coordinate if any.
type Corner = (u32, Option<u32>);

/// Reads a file, and what it calls itself.
pub(super) fn read(
    bytes: &[u8],
    want_uvs: bool,
    offset: &Offset,
) -> Result<(RawMesh, Labels), ObjError> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut shape = Shape {
        want_uvs,
        offset: *offset,
        ..Shape::default()
    };
    let mut joined = Vec::new();
    for (number, line) in lines(bytes) {
        let line = line.trim_ascii_end();
        if let Some(start) = line.strip_suffix(b"\\") {
            joined.extend_from_slice(start);
            joined.push(b' ');
        } else if joined.is_empty() {
            shape.read_line(number, line)?;
        } else {
            joined.extend_from_slice(line);
            shape.read_line(number, &joined)?;
            joined.clear();
        }
    }
    shape.read_line(0, &joined)?;
    let labels = Labels {
        node: shape.object.of_all(),
        material: shape.material.of_all(),
        ..Labels::default()
    };
    Ok((shape.finish(), labels))
}

#[derive(Default)]
struct Shape {
    want_uvs: bool,
    offset: Offset,
    positions: Vec<[f32; 3]>,
    uvs: Vec<[f32; 2]>,
    triangles: Vec<[Corner; 3]>,
    polygon: Vec<Corner>,
    object: Naming,
    material: Naming,
}

/// The name that faces are under, and whether all of them are under the same.
#[derive(Default)]
struct Naming {
    current: Vec<u8>,
    /// Of the faces so far; none where they have several.
    shared: Option<Option<Vec<u8>>>,
}

impl Naming {
    fn begin(&mut self, line: &[u8], key: &[u8]) {
        let name = line.trim_ascii_start().get(key.len()..);
        let name = name.unwrap_or_default().trim_ascii();
        // Each face compares it, and no label keeps more.
        self.current = name[..name.len().min(1024)].to_vec();
    }

    fn face(&mut self) {
        match &mut self.shared {
            None => self.shared = Some(Some(self.current.clone())),
            Some(Some(name)) if *name == self.current => {}
            Some(several) => *several = None,
        }
    }

    fn of_all(&self) -> Label {
        let name = self.shared.as_ref().and_then(Option::as_deref);
        Label::name(&String::from_utf8_lossy(name.unwrap_or_default()))
    }
}

impl Shape {
    fn read_line(&mut self, line: usize, bytes: &[u8]) -> Result<(), ObjError> {
        let mut words = bytes
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        match words.next() {
            Some(b"v") => {
                let at = numbers(line, words)?;
                self.positions.push(relative(at, &self.offset));
            }
            // Nobody reads them, so nothing is wrong with them.
            Some(b"vt") if !self.want_uvs => {}
            Some(b"vt") => {
                let [u]: [f32; 1] = numbers(line, words.clone())?;
                // A single number addresses a texture of one row.
                let v = if words.clone().nth(1).is_some() {
                    numbers::<f32, 2>(line, words)?[1]
                } else {
                    0.0
                };
                self.uvs.push([u, 1.0 - v]);
            }
            Some(b"o") => self.object.begin(bytes, b"o"),
            Some(b"usemtl") => self.material.begin(bytes, b"usemtl"),
            Some(b"f") => {
                self.object.face();
                self.material.face();
                self.polygon.clear();
                for word in words.take_while(|word| !word.starts_with(b"#")) {
                    let corner = self.corner(line, word)?;
                    self.polygon.push(corner);
                }
                if self.polygon.len().saturating_sub(2) > MAX_TRIANGLES - self.triangles.len() {
                    return Err(ObjError::TooManyTriangles);
                }
                if let [first, rest @ ..] = &self.polygon[..] {
                    self.triangles
                        .extend(rest.windows(2).map(|pair| [*first, pair[0], pair[1]]));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Parses `7`, `7/3`, `7//2` or `7/3/2`; indices count from 1, or back from -1.
    fn corner(&self, line: usize, word: &[u8]) -> Result<Corner, ObjError> {
        let no_corner = || ObjError::Corner {
            line,
            word: String::from_utf8_lossy(word).into_owned(),
        };
        let mut parts = word.split(|&byte| byte == b'/');
        let mut part = |what, count: usize| match parts.next() {
            None | Some(b"") => Ok(None),
            Some(digits) => {
                let index: i64 = parse(digits).ok_or_else(no_corner)?;
                let place = if index < 0 {
                    i64::try_from(count).unwrap_or(0) + index
                } else {
                    index - 1
                };
                match u32::try_from(place) {
                    Ok(place) if (place as usize) < count => Ok(Some(place)),
                    _ => Err(ObjError::Index {
                        line,
                        what,
                        index,
                        count,
                    }),
                }
            }
        };
        let vertex = part("vertex", self.positions.len())?.ok_or_else(no_corner)?;
        let uv = match self.want_uvs {
            true => part("texture coordinate", self.uvs.len())?,
            false => None,
        };
        Ok((vertex, uv))
    }

    fn finish(self) -> RawMesh {
        let want_uvs = self.want_uvs;
        let triangles: Vec<[u32; 3]> = self
            .triangles
            .iter()
            .map(|corners| corners.map(|(vertex, _)| vertex))
            .collect();
        let with_uvs: Vec<[[f32; 2]; 3]> = if want_uvs {
            let uv = |corner: &Corner| corner.1.map(|uv| self.uvs[uv as usize]);
            let all = |[a, b, c]: &[Corner; 3]| Some([uv(a)?, uv(b)?, uv(c)?]);
            self.triangles.iter().filter_map(all).collect()
        } else {
            Vec::new()
        };
        let uvs = match (want_uvs, with_uvs.len()) {
            (false, _) => NoUvs::NotAsked,
            (true, 0) => NoUvs::Absent,
            (true, count) if count == triangles.len() => {
                return unify(&self.positions, &triangles, &with_uvs);
            }
            (true, _) => NoUvs::PartlyAbsent,
        };
        RawMesh {
            positions: self.positions,
            uvs: Err(uvs),
            triangles,
        }
    }
}

fn parse<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn numbers<'a, T: Copy + Default + From<f32> + std::str::FromStr, const N: usize>(
    line: usize,
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<[T; N], ObjError> {
    let mut numbers = [T::default(); N];
    for number in &mut numbers {
        let word = words.next().ok_or(ObjError::Number(line))?;
        *number = match parse(word) {
            Some(number) => number,
            None if is_nan(word) => f32::NAN.into(),
            None if word.contains(&b',') => return Err(ObjError::Comma(line)),
            None => return Err(ObjError::Number(line)),
        };
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], want_uvs: bool, offset: &Offset) -> Result<RawMesh, ObjError> {
        super::read(bytes, want_uvs, offset).map(|(mesh, _)| mesh)
    }

    #[test]
    fn names_stay_where_all_faces_share_them() {
        let points = "v 0 0 0\nv 1 0 0\nv 1 1 0\n";
        for (text, node, material) in [
            ("f 1 2 3\n", "", ""),
            (
                "o Big Chair\nusemtl Oak\nf 1 2 3\nf 3 2 1\n",
                "Big Chair",
                "Oak",
            ),
            // Only names with faces count.
            ("o A\no B\nusemtl \u{7}Oak \nf 1 2 3\no C\n", "B", "Oak"),
            (
                "o A\nusemtl Oak\nf 1 2 3\no B\nusemtl Ash\nf 1 2 3\nusemtl Oak\nf 1 2 3\n",
                "",
                "",
            ),
            ("usemtl Oak\nf 1 2 3\no B\nf 1 2 3\n", "", "Oak"),
        ] {
            let (_, labels) =
                super::read(format!("{points}{text}").as_bytes(), false, &[0.0; 3]).unwrap();
            let found = (labels.node.text(), labels.material.text());
            assert_eq!(found, (node, material), "{text}");
        }
    }

    #[test]
    fn polygons_negative_indices_and_seams_are_read() {
        let file = b"mtllib \xFF.mtl\nv 0 0 0\nv 1 0 0 0.5 0.5 0.5\nv 1 1 0\n v 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1 0\nvt 0.25\n\
            vn 0 0 1\nusemtl a\nf 1/1/1 2/2/1 \\\n 3/3/1 -1/-1/-1 # four\nf -4/2 -3/2 -2/2\n";
        let mesh = read(file, true, &[0.0; 3]).unwrap();
        assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3], [4, 1, 5]]);
        assert_eq!(mesh.positions[4], [0.0; 3]);
        let uvs = mesh.uvs.unwrap();
        assert_eq!(
            (uvs[0], uvs[3], uvs[4]),
            ([0.0, 1.0], [0.25, 1.0], [1.0, 1.0])
        );
        let mesh = read(file, false, &[0.0; 3]).unwrap();
        assert_eq!((mesh.positions.len(), mesh.uvs), (4, Err(NoUvs::NotAsked)));
        // Some editors write a byte order mark.
        let marked = read(
            b"\xEF\xBB\xBFv 7 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3\n",
            false,
            &[0.0; 3],
        )
        .unwrap();
        assert_eq!(marked.positions[0], [7.0, 0.0, 0.0]);
    }

    #[test]
    fn line_ends_of_an_old_mac_and_an_unended_line_are_read() {
        let mesh = read(
            b"v 0 0 0\rv 1 0 0\rv 0 1 -nan(ind)\rf 1 2 \\\r3 \\",
            false,
            &[0.0; 3],
        )
        .unwrap();
        assert_eq!(mesh.triangles, [[0, 1, 2]]);
        assert!(mesh.positions[2][2].is_nan());
    }

    #[test]
    fn missing_texture_coordinates_are_told() {
        let uvs = |faces: &str| {
            read(
                format!("v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\n{faces}").as_bytes(),
                true,
                &[0.0; 3],
            )
            .unwrap()
            .uvs
        };
        assert_eq!(uvs("f 1//1 2//1 3//1"), Err(NoUvs::Absent));
        assert_eq!(uvs("f 1 2 3\nf 1/1 2/1 3/1"), Err(NoUvs::PartlyAbsent));
        assert!(uvs("f 1/1 2/1 3/1").is_ok());
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| {
            read(text.as_bytes(), true, &[0.0; 3])
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("v 0 0\n"),
            "line 1: has too few numbers, or words that are none"
        );
        assert_eq!(
            error("v 0 0 0\n\nf 1 1 2"),
            "line 3: names vertex 2, 1 were read"
        );
        assert_eq!(
            error("v 0 0 0\nf 1 1 0"),
            "line 2: names vertex 0, 1 were read"
        );
        assert_eq!(
            error("v 0 0 0\nf 1 1 -2"),
            "line 2: names vertex -2, 1 were read"
        );
        assert_eq!(
            error("v 0 0 0\nf 1/1"),
            "line 2: names texture coordinate 1, 0 were read"
        );
        assert_eq!(
            error("v 0 0 0\nf 1 x 1"),
            "line 2: x is no corner of a face"
        );
        assert_eq!(
            error("v 0 0 0\nf 1 9223372036854775808 1"),
            "line 2: 9223372036854775808 is no corner of a face"
        );
        assert_eq!(
            error("v 0 0 0\nf 1 -9223372036854775808 1"),
            "line 2: names vertex -9223372036854775808, 1 were read"
        );
    }
}
