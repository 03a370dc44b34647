//! Reads `vertices`, `faces` and `uvs` as a [`RawMesh`], as mesh files are read.

use proto::limits::{MAX_TRIANGLES, MAX_VERTICES};
use proto::message::Phase;
use safetensors::Dtype;

use super::header::{Arrays, Axis, Tensor};
use super::{ArraysError, FLOATS, Problem};
use crate::prepare::load::{NoUvs, Offset, RawMesh, relative};
use crate::worker::folder::{FolderError, Opened};
use crate::worker::pace;
use crate::worker::progress::{Progress, each};

/// Reads the mesh less an offset, with texture coordinates where wanted.
pub(in crate::prepare) fn read(
    file: Opened,
    (want_uvs, offset): (bool, &Offset),
    progress: &dyn Progress,
) -> Result<RawMesh, ArraysError> {
    let arrays = Arrays::read(file)?;
    let vertices = arrays.tensor("vertices", &FLOATS, [Axis::Any('N'), Axis::Is(3)])?;
    vertices.at_most(MAX_VERTICES, 0, "vertices")?;
    let faces = arrays.tensor(
        "faces",
        &[Dtype::I32, Dtype::I64, Dtype::U32],
        [Axis::Any('M'), Axis::Is(3)],
    )?;
    faces.at_most(MAX_TRIANGLES, 0, "triangles")?;
    let numbers = 3 * (vertices.shape[0] + faces.shape[0]);
    progress.progress(Phase::LoadMesh, 0, 0);
    progress.expect(
        "vertices and faces",
        each(vertices.element() * numbers, pace::PARSE_BYTE),
    );
    let positions = floats(&arrays, &vertices, offset)?;
    let triangles = triangles(&arrays, &faces, positions.len())?;
    for (vertex, axis) in triangles
        .iter()
        .flatten()
        .flat_map(|&vertex| (0..3).map(move |axis| (vertex as usize, axis)))
    {
        finite(&vertices, [vertex, axis], positions[vertex][axis])?;
    }
    let uvs = match want_uvs {
        false => Err(NoUvs::NotAsked),
        true => read_uvs(&arrays, positions.len())?,
    };
    Ok(RawMesh {
        positions,
        uvs,
        triangles,
    })
}

type Uvs = Result<Vec<[f32; 2]>, NoUvs>;

fn read_uvs(arrays: &Arrays, vertices: usize) -> Result<Uvs, ArraysError> {
    let shape = [Axis::Is(vertices), Axis::Is(2)];
    let Some(tensor) = arrays.tensor_if_there("uvs", &[Dtype::F32], shape)? else {
        return Ok(Err(NoUvs::Absent));
    };
    let mut uvs = floats(arrays, &tensor, &[0.0; 2])?;
    for (vertex, uv) in uvs.iter_mut().enumerate() {
        for axis in 0..2 {
            finite(&tensor, [vertex, axis], uv[axis])?;
        }
        uv[1] = 1.0 - uv[1];
    }
    Ok(Ok(uvs))
}

fn finite(tensor: &Tensor<2>, place: [usize; 2], value: f32) -> Result<(), ArraysError> {
    if value.is_finite() {
        return Ok(());
    }
    Err(tensor.wrong(Problem::Number {
        place: place.to_vec(),
        value: f64::from(value),
        wanted: "a finite number",
    }))
}

/// The rows of a matrix of F32 or F64, less an offset.
fn floats<const C: usize>(
    arrays: &Arrays,
    tensor: &Tensor<2>,
    offset: &[f64; C],
) -> Result<Vec<[f32; C]>, ArraysError> {
    let mut rows = with_capacity(tensor.shape[0])?;
    arrays.pieces(tensor, 0, C * tensor.shape[0], C, |bytes| {
        if tensor.dtype == Dtype::F64 {
            let numbers = bytes.as_chunks::<8>().0.as_chunks::<C>().0.iter();
            rows.extend(numbers.map(|row| relative(row.map(f64::from_le_bytes), offset)));
        } else {
            let single = |bytes| f64::from(f32::from_le_bytes(bytes));
            let numbers = bytes.as_chunks::<4>().0.as_chunks::<C>().0.iter();
            rows.extend(numbers.map(|row| relative(row.map(single), offset)));
        }
        Ok(())
    })?;
    Ok(rows)
}

fn triangles(
    arrays: &Arrays,
    faces: &Tensor<2>,
    vertices: usize,
) -> Result<Vec<[u32; 3]>, ArraysError> {
    let mut triangles: Vec<[u32; 3]> = with_capacity(faces.shape[0])?;
    let mut push = |corners: [i64; 3]| {
        let outside = |vertex: &i64| usize::try_from(*vertex).map_or(true, |v| v >= vertices);
        if let Some(&vertex) = corners.iter().find(|vertex| outside(vertex)) {
            return Err(faces.wrong(Problem::Index {
                triangle: triangles.len(),
                vertex,
                vertices,
            }));
        }
        // The number of vertices is bounded, so it fits u32.
        triangles.push(corners.map(|vertex| vertex as u32));
        Ok(())
    };
    arrays.pieces(faces, 0, 3 * faces.shape[0], 3, |bytes| match faces.dtype {
        Dtype::I64 => {
            let numbers = bytes.as_chunks::<8>().0.as_chunks::<3>().0;
            let mut rows = numbers.iter().map(|row| row.map(i64::from_le_bytes));
            rows.try_for_each(&mut push)
        }
        dtype => {
            let widen = |bytes: [u8; 4]| match dtype {
                Dtype::U32 => i64::from(u32::from_le_bytes(bytes)),
                _ => i64::from(i32::from_le_bytes(bytes)),
            };
            let numbers = bytes.as_chunks::<4>().0.as_chunks::<3>().0;
            let mut rows = numbers.iter().map(|row| row.map(widen));
            rows.try_for_each(&mut push)
        }
    })?;
    Ok(triangles)
}

/// Returns an error where memory is short, instead of aborting.
fn with_capacity<T>(count: usize) -> Result<Vec<T>, ArraysError> {
    let mut list = Vec::new();
    list.try_reserve_exact(count)
        .map_err(|_refused| FolderError::Memory((count * size_of::<T>()) as u64))?;
    Ok(list)
}
