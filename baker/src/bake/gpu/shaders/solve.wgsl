// Preconditioned conjugate gradients (Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1) with
// the smoothness links between texels. The preconditioner is the diagonal plus the coarse levels of multilevel.wgsl.
// Each channel is a system of its own, and its coefficients stay on the device. Native twin: normal.rs.
//
// Buffers r, q and diagonal first hold the integer sums of normal.wgsl. The stages noted below convert them to floats
// in place. Reductions are trees of fixed shape: same bytes every run.

// The links' part of the product with x, and with p.
fn smooth_x(texel: u32) -> vec3<f32> {
    let bits = linked(texel);
    let own = x_at(texel);
    let strength = lambda_at(texel);
    var sum = vec3(0.0);
    for (var side = 0u; side < 4u; side++) {
        if (bits & (1u << side)) != 0u {
            let other = neighbour(texel, side);
            sum += link(strength, lambda_at(other)) * (own - x_at(other));
        }
    }
    return sum;
}

fn smooth_p(texel: u32) -> vec3<f32> {
    let bits = linked(texel);
    let own = p_at(texel);
    let strength = lambda_at(texel);
    var sum = vec3(0.0);
    for (var side = 0u; side < 4u; side++) {
        if (bits & (1u << side)) != 0u {
            let other = neighbour(texel, side);
            sum += link(strength, lambda_at(other)) * (own - p_at(other));
        }
    }
    return sum;
}

// z = M⁻¹ r. The levels must hold their corrections.
fn preconditioned(texel: u32) -> vec3<f32> {
    let d = bitcast<vec3<f32>>(diagonal_at(texel));
    let z = bitcast<vec3<f32>>(r_at(texel)) / d + share_of(texel) * coarse_at(cell_of(texel));
    return select(vec3(0.0), z, d > vec3(0.0));
}

@compute @workgroup_size(TEXEL_LANES)
fn measure(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    count_group(lane);
    var largest = vec3(0.0);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        largest = max(largest, abs(x_at(texel)));
    }
    part(group.x, lane, vec3(0.0), largest);
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_measure(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = whole(channel, lane);
    if lane == 0u {
        scalars[channel].reach_x = reach_of(1.0 + total.y);
    }
}

// r: integer defect → float residual.
@compute @workgroup_size(TEXEL_LANES)
fn begin(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let reach = reach_of_x();
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        set_r(texel, bitcast<vec3<u32>>(-(value_of(r_at(texel), texel, reach) + smooth_x(texel))));
    }
}

// p = z.
@compute @workgroup_size(TEXEL_LANES)
fn set_out(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    count_group(lane);
    var sum = vec3(0.0);
    var largest = vec3(0.0);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        let z = preconditioned(texel);
        set_p(texel, z);
        sum += bitcast<vec3<f32>>(r_at(texel)) * z;
        largest = max(largest, abs(z));
    }
    part(group.x, lane, sum, largest);
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_set_out(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = whole(channel, lane);
    if lane == 0u {
        scalars[channel].rz = total.x;
        scalars[channel].reach_p = reach_of(total.y);
    }
}

// q: integer product → floats, with the links' part.
@compute @workgroup_size(TEXEL_LANES)
fn finish_apply(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    count_group(lane);
    var sum = vec3(0.0);
    let reach = reach_of_p();
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        let product = value_of(q_at(texel), texel, reach) + smooth_p(texel);
        set_q(texel, bitcast<vec3<u32>>(product));
        sum += p_at(texel) * product;
    }
    part(group.x, lane, sum, vec3(0.0));
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_apply(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = whole(channel, lane);
    if lane == 0u {
        let rz = scalars[channel].rz;
        scalars[channel].alpha = select(0.0, rz / total.x, total.x > 0.0);
    }
}

// x += α p, r −= α q; empties q for the next product.
@compute @workgroup_size(TEXEL_LANES)
fn advance(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let alpha = vec3(scalars[0].alpha, scalars[1].alpha, scalars[2].alpha);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        set_x(texel, x_at(texel) + alpha * p_at(texel));
        let left = bitcast<vec3<f32>>(r_at(texel)) - alpha * bitcast<vec3<f32>>(q_at(texel));
        set_r(texel, bitcast<vec3<u32>>(left));
        set_q(texel, vec3(0u));
    }
}

// r · z.
@compute @workgroup_size(TEXEL_LANES)
fn project(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    count_group(lane);
    var sum = vec3(0.0);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        sum += bitcast<vec3<f32>>(r_at(texel)) * preconditioned(texel);
    }
    part(group.x, lane, sum, vec3(0.0));
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_project(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = whole(channel, lane);
    if lane == 0u {
        let rz = scalars[channel].rz;
        scalars[channel].beta = select(0.0, total.x / rz, rz > 0.0);
        scalars[channel].rz = total.x;
    }
}

// p = z + β p.
@compute @workgroup_size(TEXEL_LANES)
fn direct(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    count_group(lane);
    var largest = vec3(0.0);
    let beta = vec3(scalars[0].beta, scalars[1].beta, scalars[2].beta);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        let next = preconditioned(texel) + beta * p_at(texel);
        set_p(texel, next);
        largest = max(largest, abs(next));
    }
    part(group.x, lane, vec3(0.0), largest);
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_direct(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = whole(channel, lane);
    if lane == 0u {
        scalars[channel].reach_p = reach_of(total.y);
    }
}
