//! A rasteriser for visibility: the nearest and the farthest triangle at each pixel of a camera.
//!
//! Corners lie on a grid of 1/256 pixel and edge functions are integers. A pixel between two triangles belongs to both,
//! so no surface leaks. In an orthographic view the farthest surface is what the opposite camera sees, so one drawing
//! serves two views. At equal depths the smaller label wins, so the result does not depend on the order of drawing.

/// Grid steps per pixel.
const GRID: f64 = 256.0;
/// Corners farther out than this many pixels are not drawn, since edge functions would exceed 64 bits.
const FAR_OUT: f64 = 1e6;
const NOTHING: u64 = u64::MAX;

/// A projected corner. Compact, since a mesh has many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Corner {
    x: i32,
    y: i32,
    /// 0 is near, 1 far; linear in the image plane.
    depth: f32,
}

impl Corner {
    /// Not drawable: behind the camera or too far out.
    pub(super) const NOWHERE: Self = Self {
        x: i32::MIN,
        y: i32::MIN,
        depth: 0.0,
    };

    /// `depth` is between 0 and 1.
    pub(super) fn new(x: f64, y: f64, depth: f64) -> Self {
        if x.abs() < FAR_OUT && y.abs() < FAR_OUT {
            // Rounds to the nearest. `f64::round` is a function call on the baseline target.
            const BIAS: i64 = 1 << 30;
            let grid = |x: f64| ((x * GRID + BIAS as f64 + 0.5) as i64 - BIAS) as i32;
            Self {
                x: grid(x),
                y: grid(y),
                depth: depth as f32,
            }
        } else {
            Self::NOWHERE
        }
    }

    fn is_nowhere(&self) -> bool {
        self.x == i32::MIN
    }
}

/// Depth in the upper half, label in the lower: the minimum is what is seen.
#[derive(Debug)]
pub(super) struct Canvas {
    size: [usize; 2],
    near: Vec<u64>,
    far: Vec<u64>,
}

/// What is seen at a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) label: u32,
    /// Whether its corners run counter-clockwise as seen.
    pub(super) front: bool,
}

/// The pixels whose centres lie in a triangle's bounding box: columns and rows, first and past the last. Empty where it
/// cannot be drawn.
fn bounds(corners: &[Corner; 3], size: [usize; 2]) -> [[usize; 2]; 2] {
    if corners.iter().any(Corner::is_nowhere) {
        return [[0; 2]; 2];
    }
    let span = |of: [i32; 3], end: usize| {
        let (low, high) = (of[0].min(of[1]).min(of[2]), of[0].max(of[1]).max(of[2]));
        // Centres lie at ½: the first not below, the last not above.
        let (grid, half) = (GRID as i32, GRID as i32 / 2);
        let first = (low - half + grid - 1).div_euclid(grid);
        let last = (high - half).div_euclid(grid);
        [
            first.clamp(0, end as i32) as usize,
            (last + 1).clamp(0, end as i32) as usize,
        ]
    };
    [
        span(corners.map(|corner| corner.x), size[0]),
        span(corners.map(|corner| corner.y), size[1]),
    ]
}

impl Canvas {
    pub(super) fn new(size: [usize; 2]) -> Self {
        let pixels = vec![NOTHING; size[0] * size[1]];
        Self {
            size,
            near: pixels.clone(),
            far: pixels,
        }
    }

    /// Number of pixels that drawing a triangle tests.
    pub(super) fn cost(size: [usize; 2], corners: &[Corner; 3]) -> u64 {
        let [[left, right], [top, bottom]] = bounds(corners, size);
        (right.saturating_sub(left) * bottom.saturating_sub(top)) as u64
    }

    /// Draws a triangle; `label` is below 2³¹.
    pub(super) fn draw(&mut self, corners: &[Corner; 3], label: u32) {
        let [[left, right], [top, bottom]] = bounds(corners, self.size);
        if left >= right || top >= bottom {
            return;
        }
        let [a, b, c] = corners.map(|corner| [corner.x, corner.y].map(i64::from));
        let area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
        if area == 0 {
            return;
        }
        // With y downwards, corners that run counter-clockwise as seen have a negative area.
        let front = area < 0;
        let sign = area.signum();
        let [depth, mut to_b, mut to_c] = corners.map(|corner| f64::from(corner.depth));
        let area = (area * sign) as f64;
        (to_b, to_c) = ((to_b - depth) / area, (to_c - depth) / area);
        let (mut b, mut c) = (b, c);
        if front {
            (b, c, to_b, to_c) = (c, b, to_c, to_b);
        }
        let edges = [(b, c), (c, a), (a, b)].map(|(from, to)| [from[1] - to[1], to[0] - from[0]]);
        let step = GRID as i64;
        let (x, y) = (left as i64 * step + step / 2, top as i64 * step + step / 2);
        let mut row: [i64; 3] = std::array::from_fn(|k| {
            let from = [b, c, a][k];
            edges[k][0] * (x - from[0]) + edges[k][1] * (y - from[1])
        });
        let (near, far) = (u64::from(label) << 1, u64::from(label) << 1);
        let (near, far) = (near | u64::from(front), far | u64::from(!front));
        for line in top..bottom {
            let [first, end] = within(row, edges, right - left);
            let mut at: [i64; 3] =
                std::array::from_fn(|k| row[k] + edges[k][0] * step * first as i64);
            let start = line * self.size[0] + left;
            for place in start + first..start + end {
                // The OR is non-negative if and only if all three are.
                if at[0] | at[1] | at[2] >= 0 {
                    let depth = depth + at[1] as f64 * to_b + at[2] as f64 * to_c;
                    let depth = (depth * f64::from(u32::MAX >> 1)) as u32 & (u32::MAX >> 1);
                    let seen = u64::from(depth) << 32 | near;
                    let behind = u64::from((u32::MAX >> 1) - depth) << 32 | far;
                    self.near[place] = self.near[place].min(seen);
                    self.far[place] = self.far[place].min(behind);
                }
                for k in 0..3 {
                    at[k] += edges[k][0] * step;
                }
            }
            for k in 0..3 {
                row[k] += edges[k][1] * step;
            }
        }
    }

    /// What the camera sees, pixel by pixel.
    pub(super) fn seen(&self) -> impl Iterator<Item = Seen> {
        self.near.iter().copied().filter_map(read)
    }

    /// What a camera opposite sees.
    pub(super) fn seen_from_behind(&self) -> impl Iterator<Item = Seen> {
        self.far.iter().copied().filter_map(read)
    }
}

/// The columns of a row, among `width`, in which all edge functions are non-negative. Returns all of a short row, since
/// divisions cost more than tests.
fn within(row: [i64; 3], edges: [[i64; 2]; 3], width: usize) -> [usize; 2] {
    const SHORT: usize = 12;
    if width <= SHORT {
        return [0, width];
    }
    let (mut first, mut end) = (0, width as i64);
    for (value, edge) in row.into_iter().zip(edges) {
        let slope = edge[0] * GRID as i64;
        if slope > 0 {
            first = first.max((-value + slope - 1).div_euclid(slope));
        } else if slope < 0 {
            end = end.min(value.div_euclid(-slope) + 1);
        } else if value < 0 {
            return [0, 0];
        }
    }
    let first = first.min(width as i64);
    [first, end.max(first)].map(|column| column as usize)
}

fn read(pixel: u64) -> Option<Seen> {
    (pixel != NOTHING).then_some(Seen {
        label: (pixel as u32) >> 1,
        front: pixel & 1 == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corners(of: [[f64; 3]; 3]) -> [Corner; 3] {
        of.map(|[x, y, depth]| Corner::new(x, y, depth))
    }

    #[test]
    fn the_nearest_is_seen_and_the_farthest_from_behind() {
        let mut canvas = Canvas::new([4, 4]);
        // Counter-clockwise as seen, with y downwards.
        let square = |depth| [[0.0, 0.0, depth], [0.0, 9.0, depth], [9.0, 0.0, depth]];
        canvas.draw(&corners(square(0.5)), 7);
        canvas.draw(&corners(square(0.25)), 5);
        let [near, far]: [Vec<Seen>; 2] =
            [canvas.seen().collect(), canvas.seen_from_behind().collect()];
        assert_eq!((near.len(), far.len()), (16, 16));
        let is = |seen: &Seen, label, front| *seen == Seen { label, front };
        assert!(near.iter().all(|seen| is(seen, 5, true)), "{near:?}");
        assert!(far.iter().all(|seen| is(seen, 7, false)), "{far:?}");
        assert_eq!(Canvas::new([4, 4]).seen().count(), 0);
    }

    #[test]
    fn no_pixel_falls_between_triangles() {
        // A fan of 97 triangles with arbitrary corners covers its circle.
        let mut canvas = Canvas::new([64, 64]);
        let centre = [31.7, 32.3, 0.5];
        let rim = |k: usize| {
            let angle = std::f64::consts::TAU * (k % 97) as f64 / 97.0;
            [32.0 + 29.0 * angle.cos(), 32.0 + 29.0 * angle.sin(), 0.5]
        };
        for k in 0..97 {
            canvas.draw(&corners([centre, rim(k), rim(k + 1)]), k as u32);
        }
        for (place, pixel) in canvas.near.iter().enumerate() {
            let [x, y] = [place % 64, place / 64].map(|at| at as f64 + 0.5 - 32.0);
            if x.hypot(y) < 28.5 {
                assert_ne!(*pixel, NOTHING, "{x} {y}");
            }
        }
    }

    #[test]
    fn depth_is_that_of_the_plane_and_far_corners_are_left_out() {
        let mut canvas = Canvas::new([8, 1]);
        canvas.draw(
            &corners([[0.0, -4.0, 0.0], [0.0, 4.0, 0.0], [8.0, 0.0, 1.0]]),
            1,
        );
        canvas.draw(
            &corners([[0.0, -90.0, 0.5], [0.0, 90.0, 0.5], [90.0, 0.0, 0.5]]),
            2,
        );
        let labels: Vec<u32> = canvas.seen().map(|seen| seen.label).collect();
        assert_eq!(labels, [1, 1, 1, 1, 2, 2, 2, 2]);
        for [x, y] in [[2e6, 0.0], [f64::NAN, 0.0], [0.0, f64::INFINITY]] {
            assert_eq!(Corner::new(x, y, 0.0), Corner::NOWHERE);
            let mut lost = corners([[0.0, 0.0, 0.5], [0.0, 8.0, 0.5], [8.0, 0.0, 0.5]]);
            lost[1] = Corner::new(x, y, 0.0);
            let mut canvas = Canvas::new([8, 8]);
            canvas.draw(&lost, 1);
            assert_eq!(canvas.seen().count(), 0);
        }
    }
}
