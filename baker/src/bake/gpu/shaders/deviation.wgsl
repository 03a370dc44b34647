// Computes the mean deviation of the views from each texel, Σ a w e / Σ a w. Here w is the alpha weight and e the
// absolute difference in sRGB, averaged over the channels. The result is −1 where no row counts. Robust weights are
// left out, since the map is to show outliers.
//
// Sums are integers as in average.wgsl: e and w are at most 1.

@group(1) @binding(0) var<uniform> texels: Texels;
@group(1) @binding(1) var<storage, read> x_r: array<f32>;
@group(1) @binding(2) var<storage, read> x_g: array<f32>;
@group(1) @binding(3) var<storage, read> x_b: array<f32>;
// Number of rows that touch a texel.
@group(1) @binding(4) var<storage, read> counts: array<u32>;
@group(1) @binding(5) var<storage, read_write> sum_e: array<atomic<u32>>;
@group(1) @binding(6) var<storage, read_write> sum_w: array<atomic<u32>>;
@group(1) @binding(7) var<storage, read_write> deviation: array<f32>;

@compute @workgroup_size(ROW_LANES)
fn deviate(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    load_near();
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        let sum = predicted();
        if !has_row() {
            continue;
        }
        let e = dot(abs(to_display(sum) - seen(own_colour)), vec3(1.0 / 3.0));
        for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
            let pair = pair_at(at);
            for (var k = 0u; k < 2u; k++) {
                // A box may have corner texels that are not part of the pixel, and these may lie beyond the texture.
                if pair.weights[k] != 0.0 {
                    let texel = texel_of(pair.places[k]);
                    let share = alpha_weight(own_colour) * pair.weights[k] * steps(counts[texel]);
                    atomicAdd(&sum_e[texel], u32(share * min(e, 1.0) + 0.5));
                    atomicAdd(&sum_w[texel], u32(share + 0.5));
                }
            }
        }
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
