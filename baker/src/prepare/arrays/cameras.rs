//! Reads `extrinsics` and `intrinsics` as one [`Camera`] per view, for its whole picture.
//!
//! The axes and pixels are those of the tables (`OpenCV`), so matrices are checked and taken as they are. Rounding of
//! the rotation is removed as in other files. Normalised intrinsics (`TRELLIS`, utils3d) count the picture's width and
//! height as 1, with the same borders, so plain factors scale them. The metadata alone says which kind a file has. A
//! file whose cameras make sense only as the other kind is refused: taken as written, they would see nothing.

use proto::limits::MAX_COORDINATE;
use proto::table::Camera;
use safetensors::Dtype;

use super::header::{Arrays, Axis, Tensor};
use super::{ArraysError, FLOATS, Problem};
use crate::prepare::transforms::{MAX_PIXELS, Pose};

/// Largest error of an entry that is 0 or 1 in every such matrix. F32 inverses leave a little.
const ROUNDING: f64 = 1e-5;

/// The cameras of a file.
pub(super) struct Cameras {
    pub(super) cameras: Vec<Camera>,
    /// Number of matrices that contained a scale.
    pub(super) scaled: usize,
}

/// Reads the cameras of `views` pictures of `size` (width, height).
pub(super) fn read(
    arrays: &Arrays,
    views: usize,
    size: [usize; 2],
) -> Result<Cameras, ArraysError> {
    let [extrinsics, intrinsics] = [("extrinsics", 4), ("intrinsics", 3)].map(|(name, edge)| {
        arrays.tensor(
            name,
            &FLOATS,
            [Axis::Is(views), Axis::Is(edge), Axis::Is(edge)],
        )
    });
    let (extrinsics, intrinsics) = (extrinsics?, intrinsics?);
    let unit = Unit::of(arrays)?;
    let mut scaled = 0;
    let poses = numbers::<16>(arrays, &extrinsics)?;
    let lenses = numbers::<9>(arrays, &intrinsics)?;
    let mut cameras = Vec::with_capacity(views);
    for (view, (pose, lens)) in poses.iter().zip(&lenses).enumerate() {
        let (pose, has_scale) =
            read_pose(view, pose).map_err(|problem| extrinsics.wrong(problem))?;
        scaled += usize::from(has_scale);
        let (focal, centre) =
            read_lens(view, lens, unit, size).map_err(|problem| intrinsics.wrong(problem))?;
        cameras.push(Camera {
            rotation: pose.rotation,
            translation: pose.translation,
            focal,
            centre,
        });
    }
    Ok(Cameras { cameras, scaled })
}

/// Unit of intrinsics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Pixels,
    Picture,
}

impl Unit {
    fn of(arrays: &Arrays) -> Result<Self, ArraysError> {
        match arrays.note("intrinsics") {
            None | Some("pixels") => Ok(Self::Pixels),
            Some("normalized") => Ok(Self::Picture),
            Some(other) => Err(ArraysError::Metadata {
                key: "intrinsics",
                value: super::header::shown(other),
                wanted: "\"normalized\" or \"pixels\"",
            }),
        }
    }
}

/// The matrices of all views, row-major.
fn numbers<const C: usize>(
    arrays: &Arrays,
    tensor: &Tensor<3>,
) -> Result<Vec<[f64; C]>, ArraysError> {
    let mut numbers: Vec<f64> = Vec::new();
    arrays.pieces(tensor, 0, C * tensor.shape[0], C, |bytes| {
        if tensor.dtype == Dtype::F64 {
            numbers.extend(bytes.as_chunks().0.iter().map(|&x| f64::from_le_bytes(x)));
        } else {
            let single = |&bytes: &[u8; 4]| f64::from(f32::from_le_bytes(bytes));
            numbers.extend(bytes.as_chunks().0.iter().map(single));
        }
        Ok(())
    })?;
    // Half the limit, since rotating a position may lengthen its components.
    let limit = f64::from(MAX_COORDINATE) / 2.0;
    if let Some(at) = numbers.iter().position(|x| !(-limit..=limit).contains(x)) {
        let edge = tensor.shape[2];
        return Err(tensor.wrong(Problem::Number {
            place: vec![at / C, at % C / edge, at % edge],
            value: numbers[at],
            wanted: "a number that can be computed with",
        }));
    }
    Ok(numbers.as_chunks().0.to_vec())
}

fn read_pose(view: usize, matrix: &[f64; 16]) -> Result<(Pose, bool), Problem> {
    let row = |r: usize| -> [f64; 4] { std::array::from_fn(|c| matrix[4 * r + c]) };
    ends_in(view, &row(3), "0, 0, 0, 1")?;
    let (pose, scaled) = Pose::from_world_to_camera(&[row(0), row(1), row(2)])
        .map_err(|problem| Problem::rotation(view, problem))?;
    // Dividing by a tiny scale may have made it large.
    let far = |x: &f64| x.abs() > f64::from(MAX_COORDINATE);
    if let Some(axis) = pose.translation.iter().position(far) {
        return Err(Problem::Number {
            place: vec![view, axis, 3],
            value: pose.translation[axis],
            wanted: "a place near the mesh",
        });
    }
    Ok((pose, scaled))
}

/// Checks that a row is zeros, then a one.
fn ends_in(view: usize, row: &[f64], wanted: &'static str) -> Result<(), Problem> {
    let off = |(k, x): (usize, &f64)| (x - f64::from(k + 1 == row.len())).abs() > ROUNDING;
    if row.iter().enumerate().any(off) {
        return Err(Problem::LastRow {
            view,
            row: row.to_vec(),
            wanted,
        });
    }
    Ok(())
}

/// Focal lengths and principal point in pixels.
fn read_lens(
    view: usize,
    matrix: &[f64; 9],
    unit: Unit,
    size: [usize; 2],
) -> Result<([f64; 2], [f64; 2]), Problem> {
    ends_in(view, &matrix[6..], "0, 0, 1")?;
    let [fx, skew, cx, below, fy, cy] = std::array::from_fn(|k| matrix[k]);
    let number = |row, column, wanted| Problem::Number {
        place: vec![view, row, column],
        value: matrix[3 * row + column],
        wanted,
    };
    // Less moves no pixel of any picture by a fifth of a pixel.
    if skew.abs() > ROUNDING * fx.abs() {
        return Err(number(0, 1, "0: pixels with a skew are not supported"));
    }
    if below.abs() > ROUNDING * fy.abs() {
        return Err(number(1, 0, "0: row 1 is 0, fy, cy"));
    }
    // No camera has its centre in the first pixel and a focal length of a few pixels, or its centre ten pictures away.
    let stated = match unit {
        Unit::Pixels
            if size.iter().all(|&edge| edge >= 16)
                && fx.max(fy) < 8.0
                && cx.abs().max(cy.abs()) <= 1.0 =>
        {
            Some("in pixels")
        }
        Unit::Picture if cx.abs().min(cy.abs()) > 10.0 => Some("normalized"),
        _ => None,
    };
    if let Some(stated) = stated {
        return Err(Problem::Unit {
            view,
            focal: fx,
            centre: cx,
            stated,
        });
    }
    let scale = match unit {
        Unit::Pixels => [1.0; 2],
        Unit::Picture => size.map(|edge| edge as f64),
    };
    for (axis, focal) in [fx, fy].into_iter().enumerate() {
        if !(1e-3..=MAX_PIXELS).contains(&(focal * scale[axis])) {
            return Err(number(axis, axis, "a focal length"));
        }
    }
    for (axis, centre) in [cx, cy].into_iter().enumerate() {
        if (centre * scale[axis]).abs() > MAX_PIXELS {
            return Err(number(axis, 2, "a place near the picture"));
        }
    }
    Ok((
        [fx * scale[0], fy * scale[1]],
        [cx * scale[0], cy * scale[1]],
    ))
}
