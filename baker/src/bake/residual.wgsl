// Rows and texels → residual of each row in sRGB: its histogram and sum of squares for each view, or its robust weight.
//
// Sums of squares are 64-bit integers in two words: whoever makes the lower wrap adds one to the upper.

@group(0) @binding(0) var<storage, read> x_r: array<f32>;
@group(0) @binding(1) var<storage, read> x_g: array<f32>;
@group(0) @binding(2) var<storage, read> x_b: array<f32>;
// Scale of the robust loss for each view.
@group(0) @binding(3) var<storage, read> scales: array<f32>;
// For each view: histogram, sum of squares (low, high), rows.
@group(0) @binding(4) var<storage, read_write> sums: array<atomic<u32>>;

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

// Geman-McClure: 1 / (1 + (e/c)²)². An infinite scale weighs all rows alike.
@compute @workgroup_size(ROW_LANES)
fn reweigh(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row < chunk.rows {
        // The scale's reciprocal, squared: 0 for an infinite one, where a division on the adapter need not give 0.
        let root = 1.0 / (1.0 + squared_residual(row) * scales[chunk.view]);
        trust[row] = root * root;
    }
}
