// Sorted splats → pairs of a tile and a splat in that order, for the tiles of a band of rows. The twin is `touched` in
// `kiln_splat`'s tiles.rs. One invocation takes one splat.

@group(1) @binding(0) var<uniform> band: SplatBand;
@group(1) @binding(1) var<storage, read> ellipses: array<vec4<f32>>;
@group(1) @binding(2) var<storage, read> reaches: array<vec2<f32>>;
// Splats, nearest first; each with its number of the workgroup's pairs before it.
@group(1) @binding(3) var<storage, read_write> order: array<vec2<u32>>;
// Pairs of each workgroup; later, those of the workgroups before.
@group(1) @binding(4) var<storage, read_write> sums: array<u32>;
// All pairs.
@group(1) @binding(5) var<storage, read_write> total: array<u32>;
@group(1) @binding(6) var<storage, read_write> pairs: array<vec2<u32>>;

// Tiles of the band that a splat touches in one row of them, first and end.
fn columns_of(e: Ellipse, reach: vec2<f32>, row: u32, whole: bool) -> vec2<u32> {
    var low = -reach.x;
    var high = reach.x;
    if !whole {
        let top = f32(row * SPLAT_TILE) + 0.5 - e.centre.y;
        let upper = max(top, -reach.y);
        let lower = min(top + f32(SPLAT_TILE - 1u), reach.y);
        // dy of the leftmost and of the rightmost pixel.
        let left = max(min(-e.lean, lower), upper);
        let right = max(min(e.lean, lower), upper);
        low = max(low, e.slope * left - half_width(e, left) - SPLAT_SLACK);
        high = min(high, e.slope * right + half_width(e, right) + SPLAT_SLACK);
    }
    return tiles_from(e.centre.x + low, e.centre.x + high, band.across);
}

fn half_width(e: Ellipse, dy: f32) -> f32 {
    let t = e.across * dy;
    return sqrt(max(e.level + SPLAT_LEVELS - t * t, 0.0)) / e.along;
}

// Counts the pairs of a splat; stores them from `first` on where that is asked for.
fn visit(splat: u32, first: u32) -> u32 {
    let e = unpacked(ellipses[3u * splat], ellipses[3u * splat + 1u], ellipses[3u * splat + 2u]);
    let reach = reaches[splat];
    let down = tiles_from(e.centre.y - reach.y, e.centre.y + reach.y, band.down);
    let across = tiles_from(e.centre.x - reach.x, e.centre.x + reach.x, band.across);
    let whole = across.y <= across.x + 1u || down.y <= down.x + 1u;
    let end = min(down.y, band.first_row + band.rows);
    var next = first;
    for (var row = max(down.x, band.first_row); row < end; row++) {
        let columns = columns_of(e, reach, row, whole);
        if band.storing != 0u {
            let tile = (row - band.first_row) * band.across;
            for (var column = columns.x; column < columns.y; column++) {
                pairs[next] = vec2(tile + column, splat);
                next++;
            }
        } else if columns.x < columns.y {
            next += columns.y - columns.x;
        }
    }
    return next - first;
}

@compute @workgroup_size(SPLAT_LANES)
fn list(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let rank = group.x * SPLAT_LANES + lane;
    let shows = rank < band.visible;
    var first = 0u;
    if shows && band.storing != 0u {
        first = sums[group.x] + order[rank].x;
    }
    var own = 0u;
    if shows {
        own = visit(order[rank].y, first);
    }
    if band.storing == 0u {
        let there = before_lane(lane, own);
        if shows {
            order[rank].x = there.x;
        }
        if lane == 0u {
            sums[group.x] = there.y;
        }
    }
}

// One workgroup.
@compute @workgroup_size(SPLAT_LANES)
fn sum_pairs(@builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let all = sum_up(0u, (band.visible + SPLAT_LANES - 1u) / SPLAT_LANES, lane);
    if lane == 0u {
        total[0] = all;
    }
}
