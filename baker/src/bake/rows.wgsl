// A chunk of rows as every stage over rows sees it: the pixels of one tile of one view, or some of the seams.
// One invocation is one row; a row's span holds its first entry in the upper 24 bits and its length in the lower 8.

struct Entry {
    texel: u32,
    weight: f32,
}

struct Chunk {
    rows: u32,
    // Position of the view among those added.
    view: u32,
    // 1 for seams: entries are signed, the target is 0, a row has a weight for each channel.
    seam: u32,
    // Of the view, in pixels and in blocks.
    view_width: u32,
    blocks_across: u32,
    blocks_down: u32,
    unused_0: u32,
    unused_1: u32,
}

@group(2) @binding(0) var<uniform> chunk: Chunk;
@group(2) @binding(1) var<storage, read> spans: array<u32>;
@group(2) @binding(2) var<storage, read> entries: array<Entry>;
@group(2) @binding(3) var<storage, read> colours: array<u32>;
// Weight of each pixel's row; three of each seam's.
@group(2) @binding(4) var<storage, read_write> trust: array<f32>;
// For each value of a byte: the value in the space of the fit, and the squared slope of the display encoding there.
@group(2) @binding(5) var<storage, read> tones: array<vec2<f32>>;
// Pixel of each row in its view.
@group(2) @binding(6) var<storage, read> places: array<u32>;
// For each block of pixels of the view: sum of the rows' weights in steps of 2⁻²⁴, and their number.
@group(2) @binding(7) var<storage, read_write> blocks: array<atomic<u32>>;

fn count_visit(row: u32, lane: u32) {
    if lane == 0u && row < chunk.rows {
        atomicAdd(&tally, min(ROW_LANES, chunk.rows - row));
    }
}

// First entry and the one past the last.
fn span_of(row: u32) -> vec2<u32> {
    let span = spans[row];
    return vec2(span >> 8u, (span >> 8u) + (span & 255u));
}

// Observed value of each channel; the fourth byte of a colour is alpha.
fn observed(row: u32) -> vec3<f32> {
    let colour = colours[row];
    return vec3(tones[colour & 255u].x, tones[(colour >> 8u) & 255u].x, tones[(colour >> 16u) & 255u].x);
}

// Squared slope of each channel.
fn slope_squared(row: u32) -> vec3<f32> {
    let colour = colours[row];
    return vec3(tones[colour & 255u].y, tones[(colour >> 8u) & 255u].y, tones[(colour >> 16u) & 255u].y);
}
