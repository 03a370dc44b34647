// Triangle of each sample → the texels that make a pixel, merged: native twin footprint.rs.
//
// Rows are appended in whatever order workgroups get there: whoever reads them sums integers or keeps to one row, so the
// order shows in no result. One workgroup is 8×8 pixels and reserves its space with one addition to each global counter.

@group(1) @binding(0) var<uniform> tile: Tile;
@group(1) @binding(1) var<storage, read> positions: array<f32>;
@group(1) @binding(2) var<storage, read> triangles: array<u32>;
@group(1) @binding(3) var<storage, read> texel_coords: array<vec2<f32>>;
@group(1) @binding(4) var<storage, read> pixels: array<u32>;
@group(1) @binding(5) var ids: texture_2d<u32>;
// Rows, entries.
@group(1) @binding(6) var<storage, read_write> counters: array<atomic<u32>>;
@group(1) @binding(7) var<storage, read_write> new_spans: array<u32>;
@group(1) @binding(8) var<storage, read_write> new_entries: array<NewEntry>;
@group(1) @binding(9) var<storage, read_write> new_colours: array<u32>;
// Pixel of each row in its view.
@group(1) @binding(10) var<storage, read_write> places: array<u32>;

struct NewEntry {
    texel: u32,
    weight: f32,
}

// Rows in the upper half, entries in the lower: 64 rows of 4·TAPS² entries fit.
var<workgroup> reserved: atomic<u32>;
var<workgroup> drawn: atomic<u32>;
var<workgroup> first_row: u32;
var<workgroup> first_entry: u32;

var<private> merged_texels: array<u32, 4 * TAPS * TAPS>;
var<private> merged_weights: array<f32, 4 * TAPS * TAPS>;
var<private> merged: u32;

@compute @workgroup_size(PIXEL_LANES, PIXEL_LANES)
fn footprint(
    @builtin(global_invocation_id) pixel_at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    merged = 0u;
    let pixel = pixel_at.xy;
    var colour = 0u;
    var valid = all(pixel < tile.size);
    if valid && was_drawn(pixel) {
        atomicAdd(&drawn, 1u);
    }
    if valid {
        colour = pixels[pixel.y * tile.size.x + pixel.x];
        valid = (colour >> 24u) >= MIN_ALPHA;
    }
    for (var tap = 0u; valid && tap < TAPS * TAPS; tap++) {
        let sample = vec2(tap % TAPS, tap / TAPS);
        valid = add_sample(pixel, sample);
    }
    var local = 0u;
    if valid {
        local = atomicAdd(&reserved, (1u << 16u) | merged);
    }
    workgroupBarrier();
    if lane == 0u {
        let total = atomicLoad(&reserved);
        first_row = atomicAdd(&counters[0], total >> 16u);
        first_entry = atomicAdd(&counters[1], total & 0xffffu);
        atomicAdd(&tally, atomicLoad(&drawn));
    }
    workgroupBarrier();
    if valid {
        let row = first_row + (local >> 16u);
        let start = first_entry + (local & 0xffffu);
        new_spans[row] = (start << 8u) | merged;
        new_colours[row] = colour;
        places[row] = (tile.origin.y + pixel.y) * tile.view_width + tile.origin.x + pixel.x;
        for (var k = 0u; k < merged; k++) {
            new_entries[start + k] = NewEntry(merged_texels[k], merged_weights[k]);
        }
    }
}

// At least the backdrop is there.
fn was_drawn(pixel: vec2<u32>) -> bool {
    return textureLoad(ids, pixel * TAPS, 0).x != 0u;
}

// Adds one tap; false where it hits nothing.
fn add_sample(pixel: vec2<u32>, sample: vec2<u32>) -> bool {
    let at = pixel * TAPS + sample;
    let id = textureLoad(ids, at, 0).x;
    if id <= 1u {
        return false;
    }
    let point = vec2<f32>(pixel) + (vec2<f32>(sample) + 0.5) / f32(TAPS);
    let texel = surface_point(id - 2u, (point - tile.centre) / tile.focal);
    let corner = floor(texel - 0.5);
    let share = texel - 0.5 - corner;
    let scale = 1.0 / f32(TAPS * TAPS);
    add(corner, (1.0 - share.x) * (1.0 - share.y) * scale);
    add(corner + vec2(1.0, 0.0), share.x * (1.0 - share.y) * scale);
    add(corner + vec2(0.0, 1.0), (1.0 - share.x) * share.y * scale);
    add(corner + vec2(1.0, 1.0), share.x * share.y * scale);
    return true;
}

fn camera_point(vertex: u32) -> vec3<f32> {
    let point = vec4(positions[3u * vertex], positions[3u * vertex + 1u], positions[3u * vertex + 2u], 1.0);
    return vec3(dot(tile.row_x, point), dot(tile.row_y, point), dot(tile.row_z, point));
}

// An edge in camera axes, from the difference of its ends and not the difference of two far points.
fn camera_edge(start: u32, end: u32) -> vec3<f32> {
    let edge = vec3(
        positions[3u * end] - positions[3u * start],
        positions[3u * end + 1u] - positions[3u * start + 1u],
        positions[3u * end + 2u] - positions[3u * start + 2u],
    );
    return vec3(dot(tile.row_x.xyz, edge), dot(tile.row_y.xyz, edge), dot(tile.row_z.xyz, edge));
}

// Where the ray through `slope` (x/z, y/z) meets the triangle, in texels. With o_k = (x_k − slope_x z_k, y_k − slope_y z_k),
// the offset of corner k from the ray across it, the barycentric coordinates b solve Σ b_k o_k = 0, Σ b_k = 1: a 2×2 system in
// units of the triangle, exact under perspective. The homogeneous form divides differences of products of whole positions
// and loses the digits that a small triangle needs.
fn surface_point(triangle: u32, slope: vec2<f32>) -> vec2<f32> {
    let a = triangles[3u * triangle];
    let b = triangles[3u * triangle + 1u];
    let c = triangles[3u * triangle + 2u];
    let corner = camera_point(a);
    let to_b = camera_edge(a, b);
    let to_c = camera_edge(a, c);
    let o = corner.xy - slope * corner.z;
    let f = to_b.xy - slope * to_b.z;
    let g = to_c.xy - slope * to_c.z;
    let area = f.x * g.y - f.y * g.x;
    var share = vec2(0.0);
    if abs(area) > 0.0 {
        share = vec2(g.x * o.y - g.y * o.x, f.y * o.x - f.x * o.y) / area;
    }
    // The rasteriser's corners lie on a grid of 1/256 pixel: a sample may fall just outside, and on a sliver that is far.
    share = clamp(share, vec2(0.0), vec2(1.0));
    share /= max(1.0, share.x + share.y);
    let at = texel_coords[a];
    return at + share.x * (texel_coords[b] - at) + share.y * (texel_coords[c] - at);
}

fn add(corner: vec2<f32>, weight: f32) {
    if weight == 0.0 {
        return;
    }
    let place = vec2<u32>(clamp(corner, vec2(0.0), vec2(f32(tile.texture_size - 1u))));
    let texel = place.y * tile.texture_size + place.x;
    // The latest texels first: the next tap most often shares them.
    for (var k = merged; k > 0u; k--) {
        if merged_texels[k - 1u] == texel {
            merged_weights[k - 1u] += weight;
            return;
        }
    }
    merged_texels[merged] = texel;
    merged_weights[merged] = weight;
    merged++;
}
