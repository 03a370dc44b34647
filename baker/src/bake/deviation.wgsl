// Rows and texels → how far the pixels that see a texel are from the result there: Σ a α⁴ e / Σ a α⁴, e the mean over the
// channels of the absolute difference in sRGB. −1 where nothing counts. Without the robust weights: what they put aside is
// to show.
//
// Sums are integers as in average.wgsl: e and α⁴ are at most 1.

@group(1) @binding(0) var<uniform> texels: Texels;
@group(1) @binding(1) var<storage, read> x_r: array<f32>;
@group(1) @binding(2) var<storage, read> x_g: array<f32>;
@group(1) @binding(3) var<storage, read> x_b: array<f32>;
// Rows that touch a texel.
@group(1) @binding(4) var<storage, read> counts: array<u32>;
@group(1) @binding(5) var<storage, read_write> sum_e: array<atomic<u32>>;
@group(1) @binding(6) var<storage, read_write> sum_w: array<atomic<u32>>;
@group(1) @binding(7) var<storage, read_write> deviation: array<f32>;

@compute @workgroup_size(ROW_LANES)
fn deviate(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = at.x;
    count_visit(row, lane);
    if row >= chunk.rows {
        return;
    }
    let span = span_of(row);
    var predicted = vec3(0.0);
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        predicted += entry.weight * vec3(x_r[entry.texel], x_g[entry.texel], x_b[entry.texel]);
    }
    let colour = colours[row];
    let seen = vec3<f32>(vec3(colour, colour >> 8u, colour >> 16u) & vec3(255u)) / 255.0;
    let e = dot(abs(to_display(predicted) - seen), vec3(1.0 / 3.0));
    let alpha = f32(colour >> 24u) / 255.0;
    let trusted = (alpha * alpha) * (alpha * alpha);
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        let share = trusted * entry.weight * steps(counts[entry.texel]);
        atomicAdd(&sum_e[entry.texel], u32(share * min(e, 1.0) + 0.5));
        atomicAdd(&sum_w[entry.texel], u32(share + 0.5));
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn mean_deviation(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        let w = f32(atomicLoad(&sum_w[texel]));
        var mean = -1.0;
        if w > 0.0 {
            mean = f32(atomicLoad(&sum_e[texel])) / w;
        }
        deviation[texel] = mean;
    }
}
