// Rows and texels → residual of each row in sRGB: its histogram and sum of squares for each view, or its weight. Rows that stay
// keep their squared residual in place of their weight, until they are weighed by it.
//
// Sums of squares are 64-bit integers in two words: whoever makes the lower wrap adds one to the upper.

@group(1) @binding(0) var<storage, read> x_r: array<f32>;
@group(1) @binding(1) var<storage, read> x_g: array<f32>;
@group(1) @binding(2) var<storage, read> x_b: array<f32>;
// For each view 1/c² of the robust loss, and its share.
@group(1) @binding(3) var<storage, read> scales: array<vec2<f32>>;
// For each view: histogram, sum of squares (low, high), rows.
@group(1) @binding(4) var<storage, read_write> sums: array<atomic<u32>>;

var<workgroup> bins: array<atomic<u32>, BINS>;
var<workgroup> squares_low: atomic<u32>;
var<workgroup> squares_high: atomic<u32>;
var<workgroup> weights: atomic<u32>;

fn load_near(lane: u32) {
    for (var place = lane; place < texels_here(); place += ROW_LANES) {
        let texel = touched[own.first_texel + place];
        set_near(place, vec3(x_r[texel], x_g[texel], x_b[texel]));
    }
    workgroupBarrier();
}

// Mean over the channels of the squared residual of the invocation's row, 0 without one; all of a workgroup call it.
fn squared_residual(lane: u32) -> f32 {
    let sum = predicted(lane);
    if !has_row() {
        return 0.0;
    }
    let e = to_display(sum) - seen(own_colour);
    return dot(e, e) / 3.0;
}

@compute @workgroup_size(ROW_LANES)
fn residual(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    for (var bin = lane; bin < BINS; bin += ROW_LANES) {
        atomicStore(&bins[bin], 0u);
    }
    if lane == 0u {
        atomicStore(&squares_low, 0u);
        atomicStore(&squares_high, 0u);
    }
    load_near(lane);
    let square = squared_residual(lane);
    if leads_row() {
        trust[own.first_row + own_row] = square;
        let below = max(-0.5 * BINS_PER_OCTAVE * log2(max(square, 1e-18)), 0.0);
        atomicAdd(&bins[BINS - 1u - min(u32(below), BINS - 1u)], 1u);
        // Residuals are at most 1: in steps of 2⁻³⁰ one fits a word, and the halves of 64 of them do too.
        let whole = u32(min(square, 1.0) * 1073741824.0 + 0.5);
        atomicAdd(&squares_low, whole & 0xffffu);
        atomicAdd(&squares_high, whole >> 16u);
    }
    workgroupBarrier();
    let view = own.view * (BINS + 4u);
    for (var bin = lane; bin < BINS; bin += ROW_LANES) {
        let n = atomicLoad(&bins[bin]);
        if n != 0u {
            atomicAdd(&sums[view + bin], n);
        }
    }
    if lane == 0u && rows_here() > 0u {
        let low = atomicLoad(&squares_low);
        let high = atomicLoad(&squares_high);
        let added = low + (high << 16u);
        let carry = select(0u, 1u, added < low) + (high >> 16u);
        let before = atomicAdd(&sums[view + BINS], added);
        atomicAdd(&sums[view + BINS + 1u], carry + select(0u, 1u, before + added < before));
        atomicAdd(&sums[view + BINS + 2u], rows_here());
    }
}

// Geman-McClure, 1 / (1 + (e/c)²)².
fn robust_weight(square: f32) -> f32 {
    // The scale's reciprocal, squared: 0 for an infinite scale, negative for a view that is out.
    let scale = scales[own.view].x;
    if scale < 0.0 {
        return 0.0;
    }
    let root = 1.0 / (1.0 + square * scale);
    return root * root;
}

// Mean weight of the rows in the 3×3 blocks around the patch's, to the fourth, and the share of the view.
fn company() -> f32 {
    let at = vec2(own.block & 0xffffu, own.block >> 16u);
    let size = vec2(own.blocks & 0xffffu, own.blocks >> 16u);
    let first = at - min(at, vec2(1u));
    let last = min(at + 1u, size - 1u);
    var sum = 0.0;
    var count = 0.0;
    for (var y = first.y; y <= last.y; y++) {
        for (var x = first.x; x <= last.x; x++) {
            let block = 2u * (own.first_block + y * size.x + x);
            sum += f32(atomicLoad(&blocks[block]));
            count += f32(atomicLoad(&blocks[block + 1u]));
        }
    }
    let mean = sum / (16777216.0 * max(count, 1.0));
    return (mean * mean) * (mean * mean) * scales[own.view].y;
}

// The weight of the invocation's row, by its squared residual, goes to the block's sum: at most 64 rows of weight 1. All of a
// workgroup call it.
fn note(lane: u32, square: f32) -> f32 {
    if lane == 0u {
        atomicStore(&weights, 0u);
    }
    workgroupBarrier();
    var weight = 0.0;
    if leads_row() {
        weight = robust_weight(square);
        atomicAdd(&weights, u32(weight * 16777216.0 + 0.5));
    }
    workgroupBarrier();
    if lane == 0u && rows_here() > 0u {
        let across = own.blocks & 0xffffu;
        let block = 2u * (own.first_block + (own.block >> 16u) * across + (own.block & 0xffffu));
        atomicAdd(&blocks[block], atomicLoad(&weights));
        atomicAdd(&blocks[block + 1u], rows_here());
    }
    return weight;
}

// Before `reweigh`: each row's own weight, and each block's sum of them.
@compute @workgroup_size(ROW_LANES)
fn survey(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    load_near(lane);
    let weight = note(lane, squared_residual(lane));
    if leads_row() {
        trust[own.first_row + own_row] = weight * alpha_weight(own_colour);
    }
}

// The same by the residuals that rows have kept, of the same texels.
@compute @workgroup_size(ROW_LANES)
fn survey_kept(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    var square = 0.0;
    if leads_row() {
        square = trust[own.first_row + own_row];
    }
    let weight = note(lane, square);
    if leads_row() {
        trust[own.first_row + own_row] = weight * alpha_weight(own_colour);
    }
}

// After `survey`, which has left each row's own weight.
@compute @workgroup_size(ROW_LANES)
fn reweigh(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    if leads_row() {
        trust[own.first_row + own_row] *= company();
    }
}

// The same for rows that have lost it since, because they were drawn again.
@compute @workgroup_size(ROW_LANES)
fn reweigh_again(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    load_near(lane);
    let square = squared_residual(lane);
    if leads_row() {
        trust[own.first_row + own_row] = robust_weight(square) * alpha_weight(own_colour) * company();
    }
}
