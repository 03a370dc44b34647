//! A triangle on a grid of cells → every cell that it touches, row by row.
//!
//! Conservative: growing the triangle by `slack` keeps a cell that rounding might miss, so two shapes whose cells are
//! apart are apart.

/// For each row of a grid of `width` × `height` cells, the first and the last cell that the triangle touches once it is
/// grown by `slack` cells. Corners are in cells; those outside the grid count for the nearest cell inside.
///
/// ```
/// let corners = [[0.5, 0.5], [3.5, 0.5], [0.5, 2.5]];
/// let rows: Vec<_> = kiln_raster::touched(corners, [4, 4], 1e-3).collect();
/// assert_eq!(rows, [(0, 0, 3), (1, 0, 2), (2, 0, 1)]);
/// ```
pub fn touched(
    corners: [[f64; 2]; 3],
    [width, height]: [usize; 2],
    slack: f64,
) -> impl Iterator<Item = (usize, usize, usize)> {
    let cell = |x: f64, count: usize| (x.max(0.0) as usize).min(count - 1);
    let rows = corners.map(|corner| corner[1]);
    let low = rows.into_iter().fold(f64::INFINITY, f64::min) - slack;
    let high = rows.into_iter().fold(f64::NEG_INFINITY, f64::max) + slack;
    // Each side upwards, with its slope; 0 for a level one.
    let sides = [0, 1, 2].map(|side| {
        let (mut a, mut b) = (corners[side], corners[(side + 1) % 3]);
        if a[1] > b[1] {
            std::mem::swap(&mut a, &mut b);
        }
        let slope = (b[0] - a[0]) / (b[1] - a[1]);
        (a, b, if slope.is_finite() { slope } else { 0.0 })
    });
    (cell(low, height)..=cell(high, height)).filter_map(move |row| {
        let (bottom, top) = (row as f64 - slack, row as f64 + 1.0 + slack);
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for (a, b, slope) in sides {
            if b[1] < bottom || a[1] > top {
                continue;
            }
            // The part of the side within the row.
            let x0 = if a[1] < bottom {
                a[0] + (bottom - a[1]) * slope
            } else {
                a[0]
            };
            let x1 = if b[1] > top {
                a[0] + (top - a[1]) * slope
            } else {
                b[0]
            };
            from = from.min(x0.min(x1));
            to = to.max(x0.max(x1));
        }
        (from <= to).then(|| (row, cell(from - slack, width), cell(to + slack, width)))
    })
}
