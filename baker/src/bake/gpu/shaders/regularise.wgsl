// Computes from largest contributions and row weights the exponents that scale the sums, λ of each texel, and the whole
// diagonal. Native twin: normal.rs. Bindings: planes.wgsl.

// q (largest contribution of a pixel) → number of observed texels.
@compute @workgroup_size(TEXEL_LANES)
fn observe(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    count_group(lane);
    var count = vec3(0.0);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        count += select(vec3(0.0), vec3(1.0), q_at(texel) != vec3(0u));
    }
    part(group.x, lane, count, vec3(0.0));
}

// Sums of the lower and upper halves of low words, and of high words.
var<workgroup> trusted_words: array<atomic<u32>, 3>;

// λ is relative to the mean of Σ weight · a² over observed texels.
@compute @workgroup_size(TEXEL_LANES)
fn reduce_observe(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    // Which partial sum a row is in depends on the order; the total of integers does not.
    for (var slot = lane * TALLY_STRIDE; slot < TALLY_WORDS; slot += TEXEL_LANES * TALLY_STRIDE) {
        atomicAdd(&trusted_words[0], trusted[slot] & 0xffffu);
        atomicAdd(&trusted_words[1], trusted[slot] >> 16u);
        atomicAdd(&trusted_words[2], trusted[slot + 1u]);
    }
    let observed = whole(channel, lane).x;
    if lane == 0u {
        // Resolves all carries before the conversion: the rounded number must not depend on how the sum was spread.
        let least = atomicLoad(&trusted_words[0]);
        let middle = atomicLoad(&trusted_words[1]) + (least >> 16u);
        let low = (least & 0xffffu) | (middle << 16u);
        let high = atomicLoad(&trusted_words[2]) + (middle >> 16u);
        let sum = f32(high) * 4.0 + f32(low) / 1073741824.0;
        let mean = select(1.0, sum / max(observed, 1.0), observed > 0.0);
        scalars[channel].smoothness = texels.smoothness * mean;
    }
}

fn smoothness() -> vec3<f32> {
    return vec3(scalars[0].smoothness, scalars[1].smoothness, scalars[2].smoothness);
}

fn slopes_squared_at(texel: u32) -> vec3<f32> {
    let value = x_at(texel);
    return vec3(slope_squared_at(value.r), slope_squared_at(value.g), slope_squared_at(value.b));
}

// λ in sRGB terms at the texel's colour. With only the subset's rows, 0 for a texel that none of them sees.
@compute @workgroup_size(TEXEL_LANES)
fn soften(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let strength = smoothness();
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        let tied = vec3(texels.narrowed == 0u) | (q_at(texel) != vec3(0u));
        set_lambda(texel, select(vec3(0.0), strength * slopes_squared_at(texel), tied));
    }
}

// q (largest contribution of any row) → exponents; empties q for the first product.
@compute @workgroup_size(TEXEL_LANES)
fn scale(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        // bound < 2^reach ⇒ bound · 2^(30 − reach) < 2³⁰. Where there is nothing to sum, any exponent will do.
        let bound = f32(counts[texel]) * bitcast<vec3<f32>>(q_at(texel));
        let reach = vec3(reach_of(bound.r), reach_of(bound.g), reach_of(bound.b));
        let exponent = vec3<u32>(clamp(30 - reach, vec3(-100), vec3(100)) + 127);
        exponents[texel] = exponent.r | (exponent.g << 8u) | (exponent.b << 16u);
        set_q(texel, vec3(0u));
    }
}

// A diagonal below this share of the mean counts as 0. A texel that makes a hundred-thousandth of the pixels that show
// it, and that nothing else holds, could take any value, and the steps of all sums follow the largest value of any
// texel. (The native twin sums in floats and has no such rule.)
const LEAST_SHARE: f32 = 1e-9;

// diagonal: integer sums → floats, with the links' part.
@compute @workgroup_size(TEXEL_LANES)
fn settle(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    // λ is a share of that mean, and both are in sRGB terms.
    let least = LEAST_SHARE * smoothness() / texels.smoothness;
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        var sum = value_of(diagonal_at(texel), texel, vec3(0));
        sum = select(sum, vec3(0.0), sum < least * slopes_squared_at(texel));
        let bits = linked(texel);
        for (var side = 0u; side < 4u; side++) {
            if (bits & (1u << side)) != 0u {
                sum += link(lambda_at(texel), lambda_at(neighbour(texel, side)));
            }
        }
        set_diagonal(texel, bitcast<vec3<u32>>(sum));
    }
}

// diagonal → which texels take part in the solution: those above 0 in some channel. An invocation handles four, a word.
@compute @workgroup_size(TEXEL_LANES)
fn enlist(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let four = PARTAKER * 0x01010101u;
    for (var word = at.x; 4u * word < texels.count; word += texels.stride) {
        var bits = links[word] & ~four;
        for (var nth = 0u; nth < min(4u, texels.count - 4u * word); nth++) {
            let held = any(bitcast<vec3<f32>>(diagonal_at(4u * word + nth)) > vec3(0.0));
            bits |= select(0u, PARTAKER << (8u * nth), held);
        }
        links[word] = bits;
    }
}
