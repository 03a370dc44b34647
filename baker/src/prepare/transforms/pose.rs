//! Converts `transform_matrix`, camera to world with OpenGL axes, to world to camera with `OpenCV` axes.
//!
//! The axes differ by the sign of y and z: for camera to world `(C, c)`, `R = diag(1, -1, -1) · Cᵀ` and `t = -R c`. A
//! uniform scale in C (instant-ngp) moves no pixel of a pinhole camera and is removed. The rest must be a rotation up
//! to rounding by the program that wrote it. The polar decomposition removes that rounding too.

use proto::limits::MAX_COORDINATE;

use super::error::{NoRotation, Problem};
use super::keys::{Matrix, Row};

/// World to camera, with the conventions of [`proto::table::Camera`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pose {
    /// Row-major.
    pub(crate) rotation: [[f64; 3]; 3],
    pub(crate) translation: [f64; 3],
}

/// What a matrix was beside a pose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// It contained a scale.
    pub(super) scaled: bool,
    /// It was written column by column.
    pub(super) transposed: bool,
}

/// Largest accepted error of a rotation's entry. Files with three decimals are off by 0.001.
const ROUNDING: f64 = 5e-3;

type Matrix3 = [[f64; 3]; 3];

impl Pose {
    /// Reads a matrix.
    pub(super) fn from_matrix(matrix: &Matrix) -> Result<(Self, Written), Problem> {
        let (rows, transposed) = rows(matrix)?;
        let numbers = || rows.iter().flatten().copied();
        // JSON has no NaN, but absurd numbers. Half the limit, since rotating a position may lengthen its components.
        if let Some(number) =
            numbers().find(|x| x.is_nan() || x.abs() > f64::from(MAX_COORDINATE) / 2.0)
        {
            return Err(Problem::Number(number));
        }
        let linear: Matrix3 = std::array::from_fn(|r| [rows[r][0], rows[r][1], rows[r][2]]);
        let position: [f64; 3] = std::array::from_fn(|r| rows[r][3]);
        let (scale, rotation) = split_scale(&linear)?;
        const SIGN: [f64; 3] = [1.0, -1.0, -1.0];
        let rotation: Matrix3 =
            std::array::from_fn(|r| std::array::from_fn(|c| SIGN[r] * rotation[c][r]));
        let translation = seen_from(&rotation, position);
        Ok((
            Self {
                rotation,
                translation,
            },
            Written {
                scaled: is_scaled(scale),
                transposed,
            },
        ))
    }

    /// Takes three rows of a world-to-camera matrix with `OpenCV` axes, all finite. The flag says that it contained a
    /// scale, which is removed: it would move every point along its ray.
    pub(crate) fn from_world_to_camera(rows: &[[f64; 4]; 3]) -> Result<(Self, bool), NoRotation> {
        let linear: Matrix3 = std::array::from_fn(|r| [rows[r][0], rows[r][1], rows[r][2]]);
        let (scale, rotation) = split_scale(&linear)?;
        // The camera stays where the matrix as written has it: far from the origin, the digits that its rotation lacks move
        // it by more than a pixel.
        let moved: [f64; 3] = std::array::from_fn(|r| rows[r][3]);
        let centre = solved(&linear, moved).map(|x| -x);
        let pose = Self {
            rotation,
            translation: seen_from(&rotation, centre),
        };
        Ok((pose, is_scaled(scale)))
    }

    /// Takes a world-to-camera rotation with `OpenCV` axes and the camera's place, all finite. A scale is removed.
    pub(crate) fn at(linear: &Matrix3, centre: [f64; 3]) -> Result<Self, NoRotation> {
        let (_, rotation) = split_scale(linear)?;
        Ok(Self {
            rotation,
            translation: seen_from(&rotation, centre),
        })
    }
}

/// The translation of a camera that turns the world so and stands there.
fn seen_from(rotation: &Matrix3, centre: [f64; 3]) -> [f64; 3] {
    rotation.map(|row| -(0..3).map(|c| row[c] * centre[c]).sum::<f64>())
}

/// The solution of `m · x = to`, by cofactors; `m` is near a rotation, up to a scale.
fn solved(m: &Matrix3, to: [f64; 3]) -> [f64; 3] {
    let determinant = determinant(m);
    std::array::from_fn(|c| (0..3).map(|r| cofactor(m, r, c) * to[r]).sum::<f64>() / determinant)
}

fn cofactor(m: &Matrix3, r: usize, c: usize) -> f64 {
    let (r1, r2, c1, c2) = ((r + 1) % 3, (r + 2) % 3, (c + 1) % 3, (c + 2) % 3);
    m[r1][c1] * m[r2][c2] - m[r1][c2] * m[r2][c1]
}

fn is_scaled(scale: f64) -> bool {
    (scale - 1.0).abs() > ROUNDING
}

/// Splits a matrix into a uniform scale and a rotation.
fn split_scale(linear: &Matrix3) -> Result<(f64, Matrix3), NoRotation> {
    let size = linear
        .iter()
        .flatten()
        .fold(0.0, |size: f64, x| size.max(x.abs()));
    let determinant = determinant(linear);
    if determinant.abs() <= 1e-9 * size.powi(3) {
        return Err(NoRotation::Singular(determinant));
    }
    if determinant < 0.0 {
        return Err(NoRotation::Mirrored(determinant));
    }
    let scale = determinant.cbrt();
    let unit = linear.map(|row| row.map(|x| x / scale));
    let rotation = nearest_rotation(unit);
    let off = (0..9)
        .map(|k| (unit[k / 3][k % 3] - rotation[k / 3][k % 3]).abs())
        .fold(0.0, f64::max);
    // `fold` with `max` skips NaN, so NaN is checked separately.
    if off > ROUNDING || rotation.iter().flatten().any(|x| x.is_nan()) {
        return Err(NoRotation::Sheared(off));
    }
    Ok((scale, rotation))
}

/// Three rows of four numbers, from any of the accepted shapes. The flag says that they were columns: where 0, 0, 0, 1 is
/// the last column and not the last row.
fn rows(Matrix(matrix): &Matrix) -> Result<([[f64; 4]; 3], bool), Problem> {
    let shape = || Problem::Shape(describe(matrix));
    let numbers: Vec<f64> = match matrix.first() {
        Some(Row::Number(_)) => {
            let flat = matrix.iter().map(|row| match row {
                Row::Number(number) => Ok(*number),
                Row::Numbers(_) => Err(shape()),
            });
            flat.collect::<Result<_, _>>()?
        }
        _ => {
            let mut numbers = Vec::with_capacity(16);
            for row in matrix {
                match row {
                    Row::Numbers(row) if row.len() == 4 && numbers.len() < 16 => {
                        numbers.extend(row);
                    }
                    _ => return Err(shape()),
                }
            }
            numbers
        }
    };
    if numbers.len() != 16 && numbers.len() != 12 {
        return Err(shape());
    }
    let row = |r: usize| {
        [
            numbers[4 * r],
            numbers[4 * r + 1],
            numbers[4 * r + 2],
            numbers[4 * r + 3],
        ]
    };
    if numbers.len() == 16 {
        let last = row(3);
        let is_last = |entries: [f64; 4]| {
            let off = entries.iter().zip([0.0, 0.0, 0.0, 1.0]);
            off.map(|(x, wanted)| (x - wanted).abs())
                .fold(0.0, f64::max)
                <= 1e-6
        };
        let column = |c: usize| [0, 1, 2, 3].map(|r| numbers[4 * r + c]);
        if !is_last(last) {
            return match is_last(column(3)) {
                true => Ok(([0, 1, 2].map(column), true)),
                false => Err(Problem::LastRow(last)),
            };
        }
    }
    Ok(([row(0), row(1), row(2)], false))
}

fn describe(matrix: &[Row]) -> String {
    match matrix.first() {
        None => "of an empty list".to_owned(),
        Some(Row::Number(_)) => format!("of {} numbers", matrix.len()),
        Some(Row::Numbers(row)) => format!("{}x{}", matrix.len(), row.len()),
    }
}

fn determinant(m: &Matrix3) -> f64 {
    let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
    m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1)
}

/// The rotation factor of the polar decomposition, by Newton's iteration `M ← (M + M⁻ᵀ)/2` (Higham, 1986). It converges
/// quadratically; sixteen steps are plenty for any matrix that passes.
fn nearest_rotation(mut m: Matrix3) -> Matrix3 {
    for _ in 0..16 {
        let determinant = determinant(&m);
        // The inverse's transpose is the cofactor matrix divided by the determinant.
        m = std::array::from_fn(|r| {
            std::array::from_fn(|c| (m[r][c] + cofactor(&m, r, c) / determinant) / 2.0)
        });
    }
    m
}
