//! STL, binary or text → triangles, three vertices each: the cleaning welds them. Normals and colours are not read.
//!
//! A binary file may begin with `solid`, too. So its length decides, as it follows from its count of triangles, or a
//! zero among its first bytes.

use proto::limits::MAX_TRIANGLES;

use super::lines::lines;
use super::raw::{NoUvs, Offset, RawMesh, relative};
use crate::prepare::foreign::{STL, is_binary_stl};

/// Bytes in which a binary file has a zero, be it in its count or in its first triangles.
const HEAD: usize = 512;

/// Why an STL file is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum StlError {
    /// A `vertex` lacks numbers.
    #[error("line {0}: a vertex has too few numbers, or words that are none")]
    Vertex(usize),
    /// Vertices that are no whole triangle.
    #[error("ends within a triangle: it has {0} vertices")]
    End(usize),
    /// A binary file that is cut off.
    #[error("ends after {present} of its {promised} triangles")]
    Cut {
        /// What its count promises.
        promised: usize,
        /// How many there are.
        present: usize,
    },
    /// Beyond the bound.
    #[error("has more than the {MAX_TRIANGLES} triangles that are taken")]
    TooManyTriangles,
}

pub(super) fn read(bytes: &[u8], offset: &Offset) -> Result<RawMesh, StlError> {
    // A text has no zeros. Programs append their own bytes to binary files.
    let zeros = bytes.iter().take(HEAD).any(|&byte| byte == 0);
    let positions = match is_binary_stl(bytes) || zeros {
        true => binary(bytes, offset)?,
        false => text(bytes, offset)?,
    };
    let corners = (0..positions.len() as u32).collect::<Vec<_>>();
    Ok(RawMesh {
        positions,
        uvs: Err(NoUvs::Absent),
        triangles: corners.as_chunks().0.to_vec(),
    })
}

fn binary(bytes: &[u8], offset: &Offset) -> Result<Vec<[f32; 3]>, StlError> {
    let (head, triangle) = STL;
    let count = bytes.get(head - 4..).and_then(|rest| rest.first_chunk());
    let promised = count.map_or(0, |count| u32::from_le_bytes(*count) as usize);
    let triangles = bytes.get(head..).unwrap_or(&[]).chunks_exact(triangle);
    let present = triangles.len();
    if present < promised {
        return Err(StlError::Cut { promised, present });
    }
    if promised > MAX_TRIANGLES {
        return Err(StlError::TooManyTriangles);
    }
    let triangles = triangles.take(promised);
    // A normal, three vertices, and two bytes for whatever a program puts there.
    let vertices = triangles.flat_map(|triangle| triangle[12..48].as_chunks::<12>().0);
    let number = |bytes: &[u8; 4]| f64::from(f32::from_le_bytes(*bytes));
    let position = |vertex: &[u8; 12]| {
        let numbers = vertex.as_chunks().0;
        let at = [
            number(&numbers[0]),
            number(&numbers[1]),
            number(&numbers[2]),
        ];
        relative(at, offset)
    };
    Ok(vertices.map(position).collect())
}

fn text(bytes: &[u8], offset: &Offset) -> Result<Vec<[f32; 3]>, StlError> {
    let mut positions = Vec::new();
    for (line, text) in lines(bytes) {
        let mut words = text
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        // Words of a name count for nothing, and a facet may stand in one line.
        let mut in_name = false;
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            in_name = is("solid") || is("endsolid") || in_name && !is("facet");
            if in_name || !is("vertex") {
                continue;
            }
            let mut position = [0.0; 3];
            for number in &mut position {
                let word = words.next().and_then(|word| str::from_utf8(word).ok());
                let read = word.and_then(|word| word.parse().ok());
                *number = read.ok_or(StlError::Vertex(line))?;
            }
            if positions.len() >= 3 * MAX_TRIANGLES {
                return Err(StlError::TooManyTriangles);
            }
            positions.push(relative(position, offset));
        }
    }
    match positions.len() % 3 {
        0 => Ok(positions),
        _ => Err(StlError::End(positions.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "solid a\n facet normal 0 0 1\n outer loop\n vertex 0 0 0\n vertex 1 0 0\n\tvertex 0 1e0 0\r\n\
        endloop\nendfacet\nendsolid a\n";

    #[test]
    fn both_forms_give_the_same_triangles() {
        let read_text = read(TEXT.as_bytes(), &[0.0; 3]).unwrap();
        assert_eq!(read_text.triangles, [[0, 1, 2]]);
        assert_eq!(
            read_text.positions,
            [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
        );
        // Exporters do begin binary files like text.
        let mut bytes = b"solid from a program".to_vec();
        bytes.resize(80, b' ');
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0.0_f32, 0.0, 1.0].map(f32::to_le_bytes).concat());
        let numbers = read_text.positions.as_flattened();
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend([0, 0]);
        assert_eq!(read(&bytes, &[0.0; 3]).unwrap(), read_text);
        let cut = StlError::Cut {
            promised: 1,
            present: 0,
        };
        assert_eq!(read(&bytes[..133], &[0.0; 3]), Err(cut));
        bytes.extend(b"made by a program");
        assert_eq!(read(&bytes, &[0.0; 3]).unwrap(), read_text);
    }

    #[test]
    fn capitals_old_line_ends_and_facets_in_one_line_are_read() {
        let wanted = read(TEXT.as_bytes(), &[0.0; 3]).unwrap().positions;
        let upper = TEXT.to_ascii_uppercase();
        let mac = TEXT.replace('\r', "").replace('\n', "\r");
        let (head, facet) = TEXT.split_once('\n').unwrap();
        let line = format!("{head} vertex x {}", facet.replace(['\r', '\n'], " "));
        for text in [upper, mac, line] {
            assert_eq!(
                read(text.as_bytes(), &[0.0; 3]).unwrap().positions,
                wanted,
                "{text}"
            );
        }
        let two = format!("{TEXT}{TEXT}");
        assert_eq!(read(two.as_bytes(), &[0.0; 3]).unwrap().triangles.len(), 2);
    }

    #[test]
    fn a_text_that_ends_early_is_refused() {
        let cut = TEXT.split_once("\tvertex").unwrap().0;
        assert_eq!(read(cut.as_bytes(), &[0.0; 3]), Err(StlError::End(2)));
        let wrong = TEXT.replace("1 0 0", "1 x 0");
        assert_eq!(read(wrong.as_bytes(), &[0.0; 3]), Err(StlError::Vertex(5)));
    }
}
