//! The subset of rows by which λ is found where there are very many.
//!
//! It is a part of the surface, not of the pictures: the needed smoothness depends on how many rows meet in a texel,
//! and in the subset's texels that number is unchanged. A sample of every view's pixels leaves fewer rows a texel and
//! asks for more smoothness, which costs 0.5 to 3.8 dB where highlights, occluders or blurred views must be told from
//! the rest.

/// Squares of a texture, across and down, whatever its size.
pub const SQUARES: u32 = 32;
/// One square of so many is in the subset.
pub const ONE_IN: u32 = 8;

/// Whether the square of a texel is in the subset, in a texture of `size`² texels: see
/// [`crate::bake::plan::window::Window::in_subset`]. It is every eighth along a row of squares and along a column; the next row's
/// are shifted by three.
pub fn holds(texel: u32, size: u32) -> bool {
    let edge = size.div_ceil(SQUARES);
    let [column, row] = [texel % size, texel / size].map(|at| at / edge);
    (column + 3 * row).is_multiple_of(ONE_IN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_every_texture_is_in_it_and_all_parts_are_alike() {
        for size in [32, 100, 256, 1024] {
            let count = |x: std::ops::Range<u32>, y: std::ops::Range<u32>| {
                let texels = y.flat_map(|row| x.clone().map(move |column| row * size + column));
                texels.filter(|&texel| holds(texel, size)).count() as f64
            };
            let half = size / 2;
            let quarters = [
                count(0..half, 0..half),
                count(half..size, 0..half),
                count(0..half, half..size),
                count(half..size, half..size),
            ];
            let all = f64::from(size * size);
            for quarter in quarters {
                let share = quarter / (0.25 * all);
                assert!(
                    (share - 0.125).abs() < 0.02,
                    "{share} of a quarter of {size}²"
                );
            }
        }
    }
}
