//! OFF (Geomview's Object File Format) as text → triangles. Polygons become fans. Colours, normals and texture
//! coordinates of vertices (`COFF`, `NOFF`, `STOFF`) are skipped.

use proto::limits::MAX_TRIANGLES;

use super::raw::{NoUvs, Offset, RawMesh, relative};

/// Why an OFF file is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum OffError {
    /// The counts are missing or no numbers.
    #[error("line {0}: the counts of vertices, faces and edges are missing")]
    Counts(usize),
    /// A vertex or a face lacks numbers.
    #[error("line {0}: has too few numbers, or words that are none")]
    Number(usize),
    /// A corner out of range.
    #[error("line {line}: names vertex {vertex} of {vertices}")]
    Corner {
        /// Number of the line, from 1.
        line: usize,
        /// The vertex that it names.
        vertex: usize,
        /// How many there are.
        vertices: usize,
    },
    /// Fewer lines than were promised.
    #[error("ends after {0} of its vertices and faces")]
    End(usize),
    /// Beyond the bound.
    #[error("has more than the {MAX_TRIANGLES} triangles that are taken")]
    TooManyTriangles,
}

pub(super) fn read(bytes: &[u8], offset: &Offset) -> Result<RawMesh, OffError> {
    let lines = bytes.split(|&byte| byte == b'\n').enumerate();
    let mut lines = lines.filter_map(|(line, bytes)| {
        let text = str::from_utf8(bytes).unwrap_or("");
        let text = text.split('#').next().unwrap_or("").trim();
        (!text.is_empty()).then_some((line + 1, text))
    });
    // The word may be missing, and the counts may follow it in its line.
    let mut first = lines.next().ok_or(OffError::Counts(1))?;
    if let Some((_, rest)) = first.1.split_once("OFF") {
        first = match rest.trim() {
            "" => lines.next().ok_or(OffError::Counts(first.0))?,
            rest => (first.0, rest),
        };
    }
    let wrong = || OffError::Counts(first.0);
    let mut counts = first.1.split_ascii_whitespace().map(str::parse::<usize>);
    let mut count = || counts.next().and_then(Result::ok).ok_or_else(wrong);
    let (vertices, faces) = (count()?, count()?);
    let (mut positions, mut triangles) = (Vec::new(), Vec::new());
    for done in 0..vertices.saturating_add(faces) {
        let (line, text) = lines.next().ok_or(OffError::End(done))?;
        let mut words = text.split_ascii_whitespace();
        if done < vertices {
            let mut number = || {
                let word = words.next().and_then(|word| word.parse().ok());
                word.ok_or(OffError::Number(line))
            };
            positions.push(relative([number()?, number()?, number()?], offset));
            continue;
        }
        let mut number = || {
            let word = words.next().and_then(|word| word.parse::<usize>().ok());
            word.ok_or(OffError::Number(line))
        };
        let corners = number()?;
        let mut corner = || match number()? {
            vertex if vertex < vertices => Ok(vertex as u32),
            vertex => Err(OffError::Corner {
                line,
                vertex,
                vertices,
            }),
        };
        let polygon = (0..corners)
            .map(|_| corner())
            .collect::<Result<Vec<_>, _>>()?;
        if polygon.len() > MAX_TRIANGLES - triangles.len() {
            return Err(OffError::TooManyTriangles);
        }
        if let [first, rest @ ..] = &polygon[..] {
            triangles.extend(rest.windows(2).map(|pair| [*first, pair[0], pair[1]]));
        }
    }
    Ok(RawMesh {
        positions,
        uvs: Err(NoUvs::Absent),
        triangles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polygons_are_fans_and_everything_else_is_skipped() {
        for head in [
            "OFF\n# made by hand\n4 2 0",
            "OFF 4 2 0",
            "COFF\n4 2 5",
            "4 2 0",
        ] {
            let text = format!(
                "{head}\n0 0 0 255 0 0\n1 0 0\n\n1 1 0 # corner\n0 1 0\n4 0 1 2 3 0.5 0.5 0.5\n3 0 1 2\n"
            );
            let mesh = read(text.as_bytes(), &[0.0; 3]).unwrap();
            assert_eq!(mesh.positions.len(), 4);
            assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3], [0, 1, 2]], "{head}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let cases = [
            ("OFF\n", OffError::Counts(1)),
            ("OFF\nx 1 0", OffError::Counts(2)),
            ("OFF\n1 0 0\n0 0", OffError::Number(3)),
            (
                "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3",
                OffError::Corner {
                    line: 6,
                    vertex: 3,
                    vertices: 3,
                },
            ),
            ("OFF\n3 1 0\n0 0 0\n1 0 0\n", OffError::End(2)),
            ("OFF\n18446744073709551615 9 0\n", OffError::End(0)),
        ];
        for (text, error) in cases {
            assert_eq!(read(text.as_bytes(), &[0.0; 3]), Err(error), "{text}");
        }
    }
}
