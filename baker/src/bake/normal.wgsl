// Rows → their part of the normal equations, matrix-free: diagonal Σ a² W, defect Σ a W (A x − y) and product Σ a W (A p).
// Native twin: normal.rs. W = trust · slope² for pixels, the ties' strength for seams.
//
// Sums are integers, so they do not depend on the order. Weights of texels differ by many orders of magnitude (a dark texel's
// slope² is 900 times a bright one's, coverage as much again), so each texel and channel has a scale of its own, a power of
// two, from the largest contribution that it can get: `bound` finds that, solve.wgsl makes the exponents. What is summed is
// bounded by 2³⁰, in steps that are to the texel's values what single precision is.

@group(1) @binding(0) var<uniform> texels: Texels;
@group(1) @binding(1) var<storage, read> v_r: array<f32>;
@group(1) @binding(2) var<storage, read> v_g: array<f32>;
@group(1) @binding(3) var<storage, read> v_b: array<f32>;
@group(1) @binding(4) var<storage, read_write> out_r: array<atomic<u32>>;
@group(1) @binding(5) var<storage, read_write> out_g: array<atomic<u32>>;
@group(1) @binding(6) var<storage, read_write> out_b: array<atomic<u32>>;
@group(1) @binding(7) var<storage, read> exponents: array<u32>;
@group(1) @binding(8) var<storage, read> scalars: array<Scalars, 3>;
// Σ over pixels of trust · Σ a², in steps of 2⁻³⁰: low and high word.
@group(1) @binding(9) var<storage, read_write> trusted: array<atomic<u32>, 2>;

var<workgroup> trusted_low: atomic<u32>;
var<workgroup> trusted_high: atomic<u32>;

fn row_weight(row: u32) -> vec3<f32> {
    if chunk.seam != 0u {
        return vec3(trust[3u * row], trust[3u * row + 1u], trust[3u * row + 2u]);
    }
    return trust[row] * slope_squared(row);
}

fn predicted(span: vec2<u32>) -> vec3<f32> {
    var sum = vec3(0.0);
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        sum += entry.weight * vec3(v_r[entry.texel], v_g[entry.texel], v_b[entry.texel]);
    }
    return sum;
}

fn scales_of(texel: u32) -> vec3<f32> {
    let packed = exponents[texel];
    return vec3(exp2i(exponent_of(packed, 0u)), exp2i(exponent_of(packed, 1u)), exp2i(exponent_of(packed, 2u)));
}

fn add(texel: u32, value: vec3<f32>) {
    // Two's complement: unsigned addition of negative numbers wraps to the right sum.
    let whole = bitcast<vec3<u32>>(vec3<i32>(round(value)));
    atomicAdd(&out_r[texel], whole.r);
    atomicAdd(&out_g[texel], whole.g);
    atomicAdd(&out_b[texel], whole.b);
}

fn scatter(span: vec2<u32>, weight: vec3<f32>, value: vec3<f32>) {
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        add(entry.texel, entry.weight * weight * scales_of(entry.texel) * value);
    }
}

// The weight of a seam's row for each channel: its ratio times the mean λ over its texels, whose weights sum to 1 on either
// side. v is λ.
@compute @workgroup_size(ROW_LANES)
fn tie(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row >= chunk.rows {
        return;
    }
    let span = span_of(row);
    var sum = vec3(0.0);
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        sum += 0.5 * abs(entry.weight) * vec3(v_r[entry.texel], v_g[entry.texel], v_b[entry.texel]);
    }
    trust[3u * row] = texels.seam_ratio * sum.r;
    trust[3u * row + 1u] = texels.seam_ratio * sum.g;
    trust[3u * row + 2u] = texels.seam_ratio * sum.b;
}

// Largest |a| W Σ|a| that a row brings to a texel: its product with a vector of largest element 1 is no larger. Positive floats
// order as their bits do.
@compute @workgroup_size(ROW_LANES)
fn bound(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row < chunk.rows {
        let span = span_of(row);
        var whole = 0.0;
        var squares = 0.0;
        for (var k = span.x; k < span.y; k++) {
            let a = entries[k].weight;
            whole += abs(a);
            squares += a * a;
        }
        let weight = row_weight(row) * whole;
        for (var k = span.x; k < span.y; k++) {
            let entry = entries[k];
            let bits = bitcast<vec3<u32>>(abs(entry.weight) * weight);
            atomicMax(&out_r[entry.texel], bits.r);
            atomicMax(&out_g[entry.texel], bits.g);
            atomicMax(&out_b[entry.texel], bits.b);
        }
        if chunk.seam == 0u {
            let added = u32(min(trust[row] * squares, 1.0) * 1073741824.0 + 0.5);
            atomicAdd(&trusted_low, added & 0xffffu);
            atomicAdd(&trusted_high, added >> 16u);
        }
    }
    workgroupBarrier();
    if lane == 0u {
        let low = atomicLoad(&trusted_low);
        let high = atomicLoad(&trusted_high);
        let added = low + (high << 16u);
        let carry = select(0u, 1u, added < low) + (high >> 16u);
        let before = atomicAdd(&trusted[0], added);
        atomicAdd(&trusted[1], carry + select(0u, 1u, before + added < before));
    }
}

@compute @workgroup_size(ROW_LANES)
fn diagonal(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row >= chunk.rows {
        return;
    }
    let span = span_of(row);
    let weight = row_weight(row);
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        add(entry.texel, entry.weight * entry.weight * weight * scales_of(entry.texel));
    }
}

// Σ a W (A x − y), in units of 2^reach_x.
@compute @workgroup_size(ROW_LANES)
fn defect(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row >= chunk.rows {
        return;
    }
    let span = span_of(row);
    // Seams carry black, which is 0 in either space.
    let off = predicted(span) - observed(row);
    let units = vec3(exp2i(-scalars[0].reach_x), exp2i(-scalars[1].reach_x), exp2i(-scalars[2].reach_x));
    scatter(span, row_weight(row), off * units);
}

// Σ a W (A p), in units of 2^reach_p.
@compute @workgroup_size(ROW_LANES)
fn apply(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row >= chunk.rows {
        return;
    }
    let span = span_of(row);
    let units = vec3(exp2i(-scalars[0].reach_p), exp2i(-scalars[1].reach_p), exp2i(-scalars[2].reach_p));
    scatter(span, row_weight(row), predicted(span) * units);
}
