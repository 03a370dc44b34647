// Rows and texels → residual of each row in sRGB: its histogram and sum of squares for each view, or its weight.
//
// Sums of squares are 64-bit integers in two words: whoever makes the lower wrap adds one to the upper.

@group(1) @binding(0) var<storage, read> x_r: array<f32>;
@group(1) @binding(1) var<storage, read> x_g: array<f32>;
@group(1) @binding(2) var<storage, read> x_b: array<f32>;
// For each view 1/c² of the robust loss.
@group(1) @binding(3) var<storage, read> scales: array<f32>;
// For each view: histogram, sum of squares (low, high), rows.
@group(1) @binding(4) var<storage, read_write> sums: array<atomic<u32>>;

var<workgroup> bins: array<atomic<u32>, BINS>;
var<workgroup> squares_low: atomic<u32>;
var<workgroup> squares_high: atomic<u32>;

// Mean over the channels of the squared residual.
fn squared_residual(row: u32) -> f32 {
    let span = span_of(row);
    var predicted = vec3(0.0);
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        predicted += entry.weight * vec3(x_r[entry.texel], x_g[entry.texel], x_b[entry.texel]);
    }
    let colour = colours[row];
    let seen = vec3<f32>(vec3(colour, colour >> 8u, colour >> 16u) & vec3(255u)) / 255.0;
    let e = to_display(predicted) - seen;
    return dot(e, e) / 3.0;
}

@compute @workgroup_size(ROW_LANES)
fn residual(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row < chunk.rows {
        let square = squared_residual(row);
        let below = max(-0.5 * BINS_PER_OCTAVE * log2(max(square, 1e-18)), 0.0);
        atomicAdd(&bins[BINS - 1u - min(u32(below), BINS - 1u)], 1u);
        // Residuals are at most 1: in steps of 2⁻³⁰ one fits a word, and the halves of 64 of them do too.
        let whole = u32(min(square, 1.0) * 1073741824.0 + 0.5);
        atomicAdd(&squares_low, whole & 0xffffu);
        atomicAdd(&squares_high, whole >> 16u);
    }
    workgroupBarrier();
    let view = chunk.view * (BINS + 4u);
    for (var bin = lane; bin < BINS; bin += ROW_LANES) {
        let n = atomicLoad(&bins[bin]);
        if n != 0u {
            atomicAdd(&sums[view + bin], n);
        }
    }
    if lane == 0u && row < chunk.rows {
        let low = atomicLoad(&squares_low);
        let high = atomicLoad(&squares_high);
        let added = low + (high << 16u);
        let carry = select(0u, 1u, added < low) + (high >> 16u);
        let before = atomicAdd(&sums[view + BINS], added);
        atomicAdd(&sums[view + BINS + 1u], carry + select(0u, 1u, before + added < before));
        atomicAdd(&sums[view + BINS + 2u], min(ROW_LANES, chunk.rows - row));
    }
}

// Geman-McClure, 1 / (1 + (e/c)²)², times alpha⁴.
fn own_weight(row: u32) -> f32 {
    // The scale's reciprocal, squared: 0 for an infinite scale, negative for a view that is out.
    let scale = scales[chunk.view];
    if scale < 0.0 {
        return 0.0;
    }
    let root = 1.0 / (1.0 + squared_residual(row) * scale);
    let alpha = f32(colours[row] >> 24u) / 255.0;
    return root * root * (alpha * alpha) * (alpha * alpha);
}

fn block_of(row: u32) -> vec2<u32> {
    let place = places[row];
    return vec2(place % chunk.view_width, place / chunk.view_width) / BLOCK;
}

// Mean weight of the rows in the 3×3 blocks around a row, to the fourth.
fn company(row: u32) -> f32 {
    let at = block_of(row);
    let first = at - min(at, vec2(1u));
    let last = min(at + 1u, vec2(chunk.blocks_across, chunk.blocks_down) - 1u);
    var sum = 0.0;
    var count = 0.0;
    for (var y = first.y; y <= last.y; y++) {
        for (var x = first.x; x <= last.x; x++) {
            let block = 2u * (y * chunk.blocks_across + x);
            sum += f32(atomicLoad(&blocks[block]));
            count += f32(atomicLoad(&blocks[block + 1u]));
        }
    }
    let mean = sum / (16777216.0 * max(count, 1.0));
    return (mean * mean) * (mean * mean);
}

// Before `reweigh`: each block's sum, at most 64 rows of weight 1.
@compute @workgroup_size(ROW_LANES)
fn survey(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row < chunk.rows {
        let place = block_of(row);
        let block = 2u * (place.y * chunk.blocks_across + place.x);
        atomicAdd(&blocks[block], u32(own_weight(row) * 16777216.0 + 0.5));
        atomicAdd(&blocks[block + 1u], 1u);
    }
}

@compute @workgroup_size(ROW_LANES)
fn reweigh(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row < chunk.rows {
        trust[row] = own_weight(row) * company(row);
    }
}
