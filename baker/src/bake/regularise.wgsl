// Sums of the pixels' part of the normal equations → the regulariser's strength, the whole diagonal, and the exponents that
// the products are summed with. Native twin: normal.rs. Bindings: planes.wgsl.

fn set_exponent(texel: u32, bound: f32) {
    // bound < 2^reach ⇒ bound · 2^(30 − reach) < 2³⁰; nothing at all to sum takes any exponent.
    let exponent = u32(clamp(30 - reach_of(bound), -100, 100) + 128);
    let shift = 8u * texels.channel;
    exponents[texel] = (exponents[texel] & ~(255u << shift)) | (exponent << shift);
}

// q (largest contribution of a pixel) → exponents of the pixels' sums.
@compute @workgroup_size(TEXEL_LANES)
fn scale_pixels(@builtin(global_invocation_id) at: vec3<u32>) {
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        set_exponent(texel, f32(counts[texel]) * bitcast<f32>(q[texel]));
    }
}

// diagonal: integers → floats; its sum and the number of observed texels.
@compute @workgroup_size(TEXEL_LANES)
fn weigh(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    var sum = vec2(0.0);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        let d = value_of(diagonal[texel], texel, 0);
        diagonal[texel] = bitcast<u32>(d);
        sum += vec2(d, select(0.0, 1.0, d > 0.0));
    }
    let total = reduce(lane, sum, false);
    if lane == 0u {
        partials[group.x] = total;
    }
}

// The last channel sets the regulariser's strength from the mean of all three.
@compute @workgroup_size(TEXEL_LANES)
fn reduce_weigh(@builtin(local_invocation_index) lane: u32) {
    let total = reduce_partials(lane, false);
    if lane == 0u {
        scalars[texels.channel].diagonal_sum = total.x;
        scalars[texels.channel].observed = total.y;
        if texels.channel == 2u {
            let sum = (scalars[0].diagonal_sum + scalars[1].diagonal_sum + total.x) / 3.0;
            let observed = max(max(scalars[0].observed, scalars[1].observed), total.y);
            let mean = select(1.0, sum / max(observed, 1.0), observed > 0.0);
            for (var channel = 0u; channel < 3u; channel++) {
                scalars[channel].smoothness = texels.smoothness * mean;
                scalars[channel].seam_weight = texels.seam_weight * mean;
            }
        }
    }
}

// Adds the regulariser to diagonal and exponents; empties q for the first product.
@compute @workgroup_size(TEXEL_LANES)
fn regularise(@builtin(global_invocation_id) at: vec3<u32>) {
    let strength = scalars[texels.channel];
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        let seams = strength.seam_weight * seam_bound[texel];
        set_exponent(texel, f32(counts[texel]) * bitcast<f32>(q[texel]) + seams);
        let added = strength.smoothness * f32(countOneBits(linked(texel))) + strength.seam_weight * seam_diagonal[texel];
        diagonal[texel] = bitcast<u32>(bitcast<f32>(diagonal[texel]) + added);
        q[texel] = 0u;
    }
}
