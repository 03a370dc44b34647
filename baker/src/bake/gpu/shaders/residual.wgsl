// Computes each row's residual in sRGB, as a histogram and a sum of squares for each view, or as the row's robust
// weight. Resident rows keep their squared residual in place of their weight until the reweighting pass.
//
// Sums of squares are 64-bit integers in two words: the invocation that wraps the lower one adds one to the upper.

@group(1) @binding(0) var<storage, read> x_r: array<f32>;
@group(1) @binding(1) var<storage, read> x_g: array<f32>;
@group(1) @binding(2) var<storage, read> x_b: array<f32>;
@group(1) @binding(3) var<storage, read> judged: array<Judged>;
// For each view: histogram, sum of squares (low, high), rows.
@group(1) @binding(4) var<storage, read_write> sums: array<atomic<u32>>;

// A patch has few, consecutive views. Each sums in the slot of its index modulo GATHERED; a view whose slot is taken
// adds to global memory.
const GATHERED: u32 = 16u;

var<workgroup> gathered: array<atomic<u32>, GATHERED>;
var<workgroup> squares_low: array<atomic<u32>, GATHERED>;
var<workgroup> squares_high: array<atomic<u32>, GATHERED>;
var<workgroup> seen_rows: array<atomic<u32>, GATHERED>;

// The view of the invocation's row: the last whose first block is not after the row's. Call it with a row only.
fn own_view() -> u32 {
    var low = 0u;
    var high = arrayLength(&judged);
    while high - low > 1u {
        let middle = (low + high) / 2u;
        if judged[middle].first_block <= own_block {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// Mean over the channels of the row's squared residual, 0 without a row. All invocations of a workgroup must call it.
fn squared_residual() -> f32 {
    let sum = predicted();
    if !has_row() {
        return 0.0;
    }
    let e = to_display(sum) - seen(own_colour);
    return dot(e, e) / 3.0;
}

// Squared residuals are at most 1, so one in steps of 2⁻³⁰ fits a word.
fn steps_of(square: f32) -> u32 {
    return u32(min(square, 1.0) * 1073741824.0 + 0.5);
}

fn add_squares(view: u32, low: u32, high: u32, count: u32) {
    let at = view * (BINS + 4u) + BINS;
    let before = atomicAdd(&sums[at], low);
    let carry = high + select(0u, 1u, before + low < before);
    if carry != 0u {
        atomicAdd(&sums[at + 1u], carry);
    }
    atomicAdd(&sums[at + 2u], count);
}

@compute @workgroup_size(ROW_LANES)
fn residual(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    if lane < GATHERED {
        atomicStore(&gathered[lane], NOWHERE);
        atomicStore(&squares_low[lane], 0u);
        atomicStore(&squares_high[lane], 0u);
        atomicStore(&seen_rows[lane], 0u);
    }
    load_near();
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        let square = squared_residual();
        if !leads_row() {
            continue;
        }
        trust[own_row] = square;
        let view = own_view();
        let below = max(-0.5 * BINS_PER_OCTAVE * log2(max(square, 1e-18)), 0.0);
        atomicAdd(&sums[view * (BINS + 4u) + BINS - 1u - min(u32(below), BINS - 1u)], 1u);
        let slot = view % GATHERED;
        var owner = atomicLoad(&gathered[slot]);
        if owner == NOWHERE {
            let claimed = atomicCompareExchangeWeak(&gathered[slot], NOWHERE, view);
            owner = select(claimed.old_value, view, claimed.exchanged);
        }
        let whole = steps_of(square);
        if owner == view {
            // The sums of ROW_BIN_MOST halves fit a word.
            atomicAdd(&squares_low[slot], whole & 0xffffu);
            atomicAdd(&squares_high[slot], whole >> 16u);
            atomicAdd(&seen_rows[slot], 1u);
        } else {
            add_squares(view, whole, 0u, 1u);
        }
    }
    workgroupBarrier();
    if lane < GATHERED && atomicLoad(&seen_rows[lane]) != 0u {
        let low = atomicLoad(&squares_low[lane]);
        let high = atomicLoad(&squares_high[lane]);
        let added = low + (high << 16u);
        let carry = select(0u, 1u, added < low) + (high >> 16u);
        add_squares(atomicLoad(&gathered[lane]), added, carry, atomicLoad(&seen_rows[lane]));
    }
}

// Geman-McClure: 1 / (1 + (e/c)²)².
fn robust_weight(square: f32) -> f32 {
    let scale = judged[own_view()].scale;
    if scale < 0.0 {
        return 0.0;
    }
    let root = 1.0 / (1.0 + square * scale);
    return root * root;
}

// Neighbourhood weight: the mean weight of the rows in the 3×3 blocks around the row's, to the fourth
// power, times the share of the view.
fn neighbourhood_weight() -> f32 {
    let view = judged[own_view()];
    let size = vec2(view.blocks & 0xffffu, view.blocks >> 16u);
    let nth = own_block - view.first_block;
    let at = vec2(nth % size.x, nth / size.x);
    let first = at - min(at, vec2(1u));
    let last = min(at + 1u, size - 1u);
    var sum = 0.0;
    var count = 0.0;
    for (var y = first.y; y <= last.y; y++) {
        for (var x = first.x; x <= last.x; x++) {
            let block = 2u * (view.first_block + y * size.x + x);
            sum += f32(atomicLoad(&blocks[block]));
            count += f32(atomicLoad(&blocks[block + 1u]));
        }
    }
    let mean = sum / (16777216.0 * max(count, 1.0));
    return (mean * mean) * (mean * mean) * view.share;
}

// Sets the row's weight from its squared residual and adds it to the block's sum: at most 64 rows of weight 1. The
// caller must lead its row.
fn weigh(square: f32) {
    let weight = robust_weight(square);
    atomicAdd(&blocks[2u * own_block], u32(weight * 16777216.0 + 0.5));
    atomicAdd(&blocks[2u * own_block + 1u], 1u);
    trust[own_row] = weight * alpha_weight(own_colour);
}

// First pass of reweighting: each row's own weight, and each block's sum.
@compute @workgroup_size(ROW_LANES)
fn survey(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    load_near();
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        let square = squared_residual();
        if leads_row() {
            weigh(square);
        }
    }
}

// The same from squared residuals that the rows kept, for unchanged texels.
@compute @workgroup_size(ROW_LANES)
fn survey_kept(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        if leads_row() {
            weigh(trust[own_row]);
        }
    }
}

// Second pass: multiplies the weights that `survey` stored by the neighbourhood weight.
@compute @workgroup_size(ROW_LANES)
fn reweigh(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        if leads_row() {
            trust[own_row] *= neighbourhood_weight();
        }
    }
}

// The second pass for rows that were redrawn since and so lost their weight.
@compute @workgroup_size(ROW_LANES)
fn reweigh_redrawn(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    load_near();
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        let square = squared_residual();
        if leads_row() {
            trust[own_row] = robust_weight(square) * alpha_weight(own_colour) * neighbourhood_weight();
        }
    }
}
