// Rows → mean colour of each texel by footprint weight, and that weight: Σ a y / Σ a.
//
// Sums are integers, so they do not depend on the order. A texel that n rows touch holds values below n in steps of
// n/2³¹: nothing overflows, and rarely seen texels are as finely summed as often seen ones.

@group(1) @binding(0) var<uniform> texels: Texels;
// Rows that touch a texel.
@group(1) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
@group(1) @binding(2) var<storage, read_write> sum_r: array<atomic<u32>>;
@group(1) @binding(3) var<storage, read_write> sum_g: array<atomic<u32>>;
@group(1) @binding(4) var<storage, read_write> sum_b: array<atomic<u32>>;
@group(1) @binding(5) var<storage, read_write> sum_w: array<atomic<u32>>;
@group(1) @binding(6) var<storage, read_write> x_r: array<f32>;
@group(1) @binding(7) var<storage, read_write> x_g: array<f32>;
@group(1) @binding(8) var<storage, read_write> x_b: array<f32>;
@group(1) @binding(9) var<storage, read_write> weight: array<f32>;

@compute @workgroup_size(ROW_LANES)
fn count(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row >= chunk.rows {
        return;
    }
    let span = span_of(row);
    for (var k = span.x; k < span.y; k++) {
        atomicAdd(&counts[entries[k].texel], 1u);
    }
}

@compute @workgroup_size(ROW_LANES)
fn scatter(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row >= chunk.rows {
        return;
    }
    let y = observed(row);
    let span = span_of(row);
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        let share = entry.weight * steps(atomicLoad(&counts[entry.texel]));
        atomicAdd(&sum_r[entry.texel], u32(share * y.r + 0.5));
        atomicAdd(&sum_g[entry.texel], u32(share * y.g + 0.5));
        atomicAdd(&sum_b[entry.texel], u32(share * y.b + 0.5));
        atomicAdd(&sum_w[entry.texel], u32(share + 0.5));
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn mean(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        let w = f32(atomicLoad(&sum_w[texel]));
        var colour = vec3(0.0);
        var total = 0.0;
        if w > 0.0 {
            colour = vec3(f32(atomicLoad(&sum_r[texel])), f32(atomicLoad(&sum_g[texel])), f32(atomicLoad(&sum_b[texel]))) / w;
            total = w / steps(atomicLoad(&counts[texel]));
        }
        x_r[texel] = colour.r;
        x_g[texel] = colour.g;
        x_b[texel] = colour.b;
        weight[texel] = total;
    }
}
