//! The unwrapped mesh, and the surface before simplification.

use std::io::{Read, Write};

use super::{
    HEADER_BYTES, TableError, bound, check_numbers, check_triangles, header, read_array,
    read_header,
};
use crate::limits::{MAX_COORDINATE, MAX_TRIANGLES, MAX_VERTICES};

/// The mesh as bake sees it: one vertex per chart corner, shared within the chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    /// World positions.
    pub positions: Vec<[f32; 3]>,
    /// Unit normals, used only for the output.
    pub normals: Vec<[f32; 3]>,
    /// Texture coordinates, glTF convention (v down), within [0, 1].
    pub uvs: Vec<[f32; 2]>,
    /// The surface point that each vertex stands for, below the number of vertices. Vertices that a chart border splits
    /// share the number.
    pub surface_vertices: Vec<u32>,
    /// Corners, as vertex indices; winding as in the file.
    pub triangles: Vec<[u32; 3]>,
    /// Number of charts, for the report.
    pub charts: u32,
}

/// The surface that the views show, without texture coordinates. It is the mesh before its unwrap. If the mesh was
/// simplified, it is the mesh before that, and the simplified mesh comes with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surface {
    /// World positions.
    pub positions: Vec<[f32; 3]>,
    /// Corners, as vertex indices.
    pub triangles: Vec<[u32; 3]>,
    /// The mesh before its unwrap, if it differs: it has fewer triangles.
    pub simplified: Option<Simplified>,
}

/// The simplified mesh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simplified {
    /// World positions.
    pub positions: Vec<[f32; 3]>,
    /// Corners, as vertex indices.
    pub triangles: Vec<[u32; 3]>,
}

impl Mesh {
    const MAGIC: &'static [u8; 8] = b"KILNMSH1";

    /// Size of the table in bytes.
    pub fn byte_len(&self) -> u64 {
        HEADER_BYTES as u64
            + self.positions.len() as u64 * (12 + 12 + 8 + 4)
            + self.triangles.len() as u64 * 12
    }

    /// Writes the table.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        out.write_all(&header(
            Self::MAGIC,
            &[
                self.positions.len() as u32,
                self.triangles.len() as u32,
                self.charts,
            ],
        ))?;
        out.write_all(bytemuck::cast_slice(&self.positions))?;
        out.write_all(bytemuck::cast_slice(&self.normals))?;
        out.write_all(bytemuck::cast_slice(&self.uvs))?;
        out.write_all(bytemuck::cast_slice(&self.surface_vertices))?;
        out.write_all(bytemuck::cast_slice(&self.triangles))?;
        Ok(())
    }

    /// Reads and checks a table.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        let [vertices, triangles, charts] = read_header(input, Self::MAGIC, "mesh")?;
        let vertices = bound("number of vertices", vertices, 3, MAX_VERTICES)?;
        let triangle_count = bound("number of triangles", triangles, 1, MAX_TRIANGLES)?;
        let positions = read_array(input, vertices)?;
        check_numbers("position", &positions, MAX_COORDINATE)?;
        let normals = read_array(input, vertices)?;
        check_numbers("normal", &normals, 1.01)?;
        let uvs = read_array::<[f32; 2]>(input, vertices)?;
        check_numbers("texture coordinate", &uvs, 1.0)?;
        if let Some(index) = uvs.iter().position(|uv| uv[0] < 0.0 || uv[1] < 0.0) {
            return Err(TableError::Number {
                what: "texture coordinate",
                index,
            });
        }
        let surface_vertices = read_array::<u32>(input, vertices)?;
        if let Some(&value) = surface_vertices
            .iter()
            .find(|&&point| point as usize >= vertices)
        {
            return Err(TableError::Bound {
                what: "surface vertex",
                value: u64::from(value),
            });
        }
        let triangles = read_array(input, triangle_count)?;
        check_triangles(&triangles, vertices)?;
        Ok(Self {
            positions,
            normals,
            uvs,
            surface_vertices,
            triangles,
            charts,
        })
    }
}

impl Surface {
    const MAGIC: &'static [u8; 8] = b"KILNSRF3";

    /// Size of the table in bytes.
    pub fn byte_len(&self) -> u64 {
        let [vertices, triangles] = self.simplified_counts();
        let all = self.positions.len() + self.triangles.len() + vertices + triangles;
        HEADER_BYTES as u64 + all as u64 * 12
    }

    /// Vertices and triangles of the simplified mesh; 0 without one.
    fn simplified_counts(&self) -> [usize; 2] {
        let of = |simplified: &Simplified| [simplified.positions.len(), simplified.triangles.len()];
        self.simplified.as_ref().map_or([0; 2], of)
    }

    /// Writes the table.
    ///
    /// # Errors
    /// [`TableError::Io`].
    pub fn write(&self, out: &mut impl Write) -> Result<(), TableError> {
        let [vertices, triangles] = self.simplified_counts();
        let counts = [
            self.positions.len(),
            self.triangles.len(),
            vertices,
            triangles,
        ];
        out.write_all(&header(Self::MAGIC, &counts.map(|count| count as u32)))?;
        out.write_all(bytemuck::cast_slice(&self.positions))?;
        out.write_all(bytemuck::cast_slice(&self.triangles))?;
        if let Some(simplified) = &self.simplified {
            out.write_all(bytemuck::cast_slice(&simplified.positions))?;
            out.write_all(bytemuck::cast_slice(&simplified.triangles))?;
        }
        Ok(())
    }

    /// Reads and checks a table.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(input: &mut impl Read) -> Result<Self, TableError> {
        let [vertices, triangles, fewer_vertices, fewer] =
            read_header(input, Self::MAGIC, "surface")?;
        let mut shape = |vertices, triangles| {
            let vertices = bound("number of vertices", vertices, 3, MAX_VERTICES)?;
            let triangles = bound("number of triangles", triangles, 1, MAX_TRIANGLES)?;
            let positions = read_array(input, vertices)?;
            check_numbers("position", &positions, MAX_COORDINATE)?;
            let triangles = read_array(input, triangles)?;
            check_triangles(&triangles, vertices)?;
            Ok::<_, TableError>((positions, triangles))
        };
        let (positions, triangles) = shape(vertices, triangles)?;
        let simplified = (fewer_vertices, fewer) != (0, 0);
        let simplified = simplified
            .then(|| shape(fewer_vertices, fewer))
            .transpose()?;
        Ok(Self {
            positions,
            triangles,
            simplified: simplified.map(|(positions, triangles)| Simplified {
                positions,
                triangles,
            }),
        })
    }
}
