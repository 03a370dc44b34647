//! Places many charts in rows (shelves) of a square atlas or its pages, in the time of a sort.
//!
//! Every chart lies in its smallest bounding rectangle, along the row. Rows are filled from the highest chart down, so
//! a row wastes little. Single triangles alternate in direction and are pushed against each other along their slopes;
//! otherwise they would waste half of the atlas. If there is less than a texel per chart, gaps shrink with the charts,
//! so there is always an atlas.

use crate::input::Pages;

use crate::pack::Placed;
use crate::piece::{Chart, turned};
use crate::work::{ticked, unit};

/// Texels between charts, and between charts and the border. They shrink where texels run out.
const GAP: f64 = 2.0;
const MARGIN: f64 = 1.0;
/// Least share of the atlas for charts before gaps shrink.
const MIN_SHARE: f64 = 0.15;
/// Bisections of the scale.
const SCALE_TRIALS: usize = 14;

/// A chart as laid in its row: rotation, lowest corner and size.
struct Shape {
    turn: [f64; 2],
    low: [f64; 2],
    size: [f64; 2],
    /// For a triangle with its longest side at the bottom: the position of its tip along that side.
    tip: Option<f64>,
}

/// Packs charts for an atlas of `texture_size` texels.
pub(super) fn pack(charts: &[Chart], texture_size: u32, pages: Pages) -> Placed {
    let (edge, side) = (f64::from(pages.page(texture_size)), f64::from(pages.side()));
    let shapes: Vec<Shape> = ticked(charts.iter()).map(shape).collect();
    let mut order: Vec<u32> = (0..charts.len() as u32).collect();
    order.sort_by(|&a, &b| shapes[b as usize].size[1].total_cmp(&shapes[a as usize].size[1]));
    let area: f64 = charts.iter().map(Chart::area).sum();
    // A chart larger than a page limits the scale, whatever the gaps.
    let longest = shapes
        .iter()
        .map(|shape| shape.size[0].max(shape.size[1]))
        .fold(0.0, f64::max);
    let full = (edge * side / area.sqrt()).min(edge / longest);

    let mut gap = GAP;
    loop {
        let (mut low, mut high) = (0.0, full);
        let mut best = None;
        for _ in 0..SCALE_TRIALS {
            unit();
            let scale = f64::midpoint(low, high);
            match rows(&shapes, &order, scale, gap, (edge, pages)) {
                Some(places) => {
                    best = Some((scale, places));
                    low = scale;
                }
                None => high = scale,
            }
        }
        let dense_enough = |scale: f64| (scale / full).powi(2) >= MIN_SHARE;
        if let Some((scale, places)) = best.filter(|(scale, _)| dense_enough(*scale) || gap < 1e-3)
        {
            let uvs = ticked(charts.iter()).zip(&shapes).zip(&places);
            let uvs = uvs
                .map(|((chart, shape), place)| {
                    place_chart(chart, shape, *place, scale, (edge, pages))
                })
                .collect();
            return Placed {
                uvs,
                utilisation: area * (scale / (edge * side)).powi(2),
            };
        }
        gap /= 2.0;
        if gap < 1e-6 {
            // Not reached: without gaps, rows of rectangles cover more than the least share.
            return Placed {
                uvs: charts
                    .iter()
                    .map(|chart| vec![[0.5; 2]; chart.uvs.len()])
                    .collect(),
                utilisation: 0.0,
            };
        }
    }
}

/// Page, lower left corner there in texels, and whether the chart is rotated by 180°.
type Place = (u32, [f64; 2], bool);

fn place_chart(
    chart: &Chart,
    shape: &Shape,
    (page, at, upside_down): Place,
    scale: f64,
    (edge, pages): (f64, Pages),
) -> Vec<[f64; 2]> {
    let (corner, side) = (pages.place(page).map(f64::from), f64::from(pages.side()));
    let to_uv = |&uv: &[f64; 2]| {
        let point = turned(uv, shape.turn, 1.0);
        std::array::from_fn(|axis| {
            let inside = point[axis] - shape.low[axis];
            let inside = if upside_down {
                shape.size[axis] - inside
            } else {
                inside
            };
            (corner[axis] + ((at[axis] + inside * scale) / edge).clamp(0.0, 1.0)) / side
        })
    };
    chart.uvs.iter().map(to_uv).collect()
}

/// Lays a chart flat: on the longest side of a single triangle, otherwise by the smallest of 16 bounding rectangles,
/// each in two orientations.
fn shape(chart: &Chart) -> Shape {
    if let ([a, b, c], [_]) = (&chart.uvs[..], &chart.triangles[..]) {
        let sides = [(a, b, c), (b, c, a), (c, a, b)];
        let length =
            |(p, q, _): &(&[f64; 2], &[f64; 2], &[f64; 2])| (q[0] - p[0]).hypot(q[1] - p[1]);
        let longest = sides
            .into_iter()
            .max_by(|x, y| length(x).total_cmp(&length(y)));
        if let Some((p, q, tip)) = longest.filter(|side| length(side) > 0.0) {
            let length = length(&(p, q, tip));
            let turn = [(q[0] - p[0]) / length, -(q[1] - p[1]) / length];
            let [p, q, tip] = [p, q, tip].map(|&uv| turned(uv, turn, 1.0));
            // Below its side, the tip points down: half a turn puts it up.
            let (turn, left, height, tip) = if tip[1] >= p[1] {
                (turn, p, tip[1] - p[1], tip[0] - p[0])
            } else {
                (
                    [-turn[0], -turn[1]],
                    [-q[0], -q[1]],
                    p[1] - tip[1],
                    q[0] - tip[0],
                )
            };
            return Shape {
                turn,
                low: left,
                size: [length, height],
                tip: Some(tip.clamp(0.0, length)),
            };
        }
    }
    let laid = |turn: [f64; 2]| {
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for &uv in &chart.uvs {
            let point = turned(uv, turn, 1.0);
            for axis in 0..2 {
                low[axis] = low[axis].min(point[axis]);
                high[axis] = high[axis].max(point[axis]);
            }
        }
        Shape {
            turn,
            low,
            size: [high[0] - low[0], high[1] - low[1]],
            tip: None,
        }
    };
    let turns = (0..32).map(|step| {
        let (sin, cos) = (std::f64::consts::PI * f64::from(step) / 32.0).sin_cos();
        laid([cos, sin])
    });
    // Of the two ways to lay the smallest rectangle the flat one.
    let better = |a: &Shape, b: &Shape| {
        let key = |shape: &Shape| {
            shape.size[0]
                * shape.size[1]
                * if shape.size[1] > shape.size[0] {
                    1.0 + 1e-9
                } else {
                    1.0
                }
        };
        key(a).total_cmp(&key(b))
    };
    turns.min_by(better).unwrap_or_else(|| laid([1.0, 0.0]))
}

/// Places all shapes in rows, if they fit.
fn rows(
    shapes: &[Shape],
    order: &[u32],
    scale: f64,
    gap: f64,
    (edge, pages): (f64, Pages),
) -> Option<Vec<Place>> {
    let margin = MARGIN.min(gap);
    let mut places = vec![(0, [0.0; 2], false); shapes.len()];
    let (mut page, mut y, mut row_height) = (0, margin, 0.0);
    // The end of the row, and the last triangle for the next to lean on: index, left edge, upside down or not.
    let mut end = margin;
    let mut lean: Option<(usize, f64, bool)> = None;
    // Where the last upright triangle and the last inverted one end: the one before the last may reach beyond the last.
    let mut ends = [margin; 2];
    for &index in order {
        let shape = &shapes[index as usize];
        let [width, height] = shape.size.map(|x| x * scale);
        let leaning = lean.filter(|_| shape.tip.is_some());
        let upside_down = leaning.is_some_and(|(_, _, upside_down)| !upside_down);
        let mut x = match leaning {
            Some((last, left, _)) => push_against(
                (&shapes[last], left),
                (shape, upside_down),
                scale,
                gap,
                row_height,
            )
            .max(ends[usize::from(upside_down)]),
            None => end,
        };
        if x + width > edge - margin && x > margin {
            y += row_height + gap;
            (row_height, x) = (0.0, margin);
            (end, ends) = (margin, [margin; 2]);
            lean = None;
        }
        let upside_down = upside_down && lean.is_some();
        // The first of a row is the highest, so only it may find no room above.
        if row_height == 0.0 && y + height > edge - margin && page + 1 < pages.count() {
            (page, y) = (page + 1, margin);
        }
        if row_height == 0.0 {
            row_height = height;
        }
        if x + width > edge - margin || y + height > edge - margin {
            return None;
        }
        // Upside down, the long side is on top of the row.
        let bottom = if upside_down {
            y + row_height - height
        } else {
            y
        };
        places[index as usize] = (page, [x, bottom], upside_down);
        end = (x + width + gap).max(end);
        ends[usize::from(upside_down)] = x + width + gap;
        lean = shape.tip.map(|_| (index as usize, x, upside_down));
    }
    Some(places)
}

/// The left edge at which a triangle of the opposite direction may begin beside the last one, `gap` apart.
fn push_against(
    (last, left): (&Shape, f64),
    (next, upside_down): (&Shape, bool),
    scale: f64,
    gap: f64,
    row: f64,
) -> f64 {
    // Horizontal position of a triangle's left or right side at a height in the row; `None` beside it.
    let side = |shape: &Shape, flipped: bool, right: bool, y: f64| {
        let [width, height] = shape.size.map(|x| x * scale);
        let tip = shape.tip.unwrap_or(0.0) * scale;
        let tip = if flipped { width - tip } else { tip };
        let up = if flipped { row - y } else { y };
        // Within a gap of the tip it still counts: distance is measured horizontally but must hold in all directions.
        let share = if height > 0.0 { up / height } else { 0.0 };
        if share > 1.0 + gap / height.max(1e-9) {
            return None;
        }
        let share = share.clamp(0.0, 1.0);
        Some(if right {
            width + (tip - width) * share
        } else {
            tip * share
        })
    };
    let heights = [last.size[1], next.size[1]].map(|height| height * scale);
    let tops = [
        0.0,
        row,
        heights[0],
        heights[1],
        row - heights[0],
        row - heights[1],
    ];
    let around = tops
        .iter()
        .flat_map(|&y| [y - gap, y, y + gap])
        .filter(|y| (0.0..=row).contains(y));
    // Horizontal distance that keeps slopes a gap apart, by the flatter of the two slopes.
    let slope = |shape: &Shape| {
        let [width, height] = shape.size;
        (width / height.max(1e-9 * width)).hypot(1.0)
    };
    let level = gap * slope(last).max(slope(next));
    let mut begin = left
        + if last.size[1] == next.size[1] {
            0.0
        } else {
            gap.min(1.0)
        };
    for y in around {
        if let (Some(right), Some(start)) = (
            side(last, !upside_down, true, y),
            side(next, upside_down, false, y),
        ) {
            begin = f64::max(begin, left + right - start + level);
        }
    }
    // At most behind all of the last one, however flat the slopes.
    begin.min(left + last.size[0] * scale + gap)
}
