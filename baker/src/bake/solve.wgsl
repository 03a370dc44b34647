// Preconditioned conjugate gradients (Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1) with the
// diagonal and the coarse levels of multilevel.wgsl as preconditioner, and the ties between linked texels. One dispatch is one
// channel; its coefficients never leave the adapter.
// Native twin: normal.rs.
//
// Buffers r, q and diagonal hold the integer sums of normal.wgsl first and, from the stage named here on, the floats made of
// them in place. Reductions are trees of fixed shape: same bytes every run.

// The ties' part of the product with x, and with p.
fn smooth_x(texel: u32) -> f32 {
    let bits = linked(texel);
    let own = x[texel];
    let strength = lambda[texel];
    var sum = 0.0;
    for (var side = 0u; side < 4u; side++) {
        if (bits & (1u << side)) != 0u {
            let other = neighbour(texel, side);
            sum += link(strength, lambda[other]) * (own - x[other]);
        }
    }
    return sum;
}

fn smooth_p(texel: u32) -> f32 {
    let bits = linked(texel);
    let own = p[texel];
    let strength = lambda[texel];
    var sum = 0.0;
    for (var side = 0u; side < 4u; side++) {
        if (bits & (1u << side)) != 0u {
            let other = neighbour(texel, side);
            sum += link(strength, lambda[other]) * (own - p[other]);
        }
    }
    return sum;
}

// z, once the levels hold what the residuals come to on them.
fn preconditioned(texel: u32) -> f32 {
    let d = bitcast<f32>(diagonal[texel]);
    let z = bitcast<f32>(r[texel]) / d + share_of(texel) * coarse[cell_of(texel)];
    return select(0.0, z, d > 0.0);
}

@compute @workgroup_size(TEXEL_LANES)
fn measure(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    count_group(lane);
    var largest = 0.0;
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        largest = max(largest, abs(x[texel]));
    }
    let total = reduce(lane, vec2(0.0, largest), true);
    if lane == 0u {
        partials[texels.channel * texels.groups + group.x] = total;
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_measure(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = reduce_partials(channel, lane, true);
    if lane == 0u {
        scalars[channel].reach_x = reach_of(1.0 + total.y);
    }
}

// r: defect as integers → residual as floats.
@compute @workgroup_size(TEXEL_LANES)
fn begin(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let reach = scalars[texels.channel].reach_x;
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        r[texel] = bitcast<u32>(-(value_of(r[texel], texel, reach) + smooth_x(texel)));
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
    var sum = vec2(0.0);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        let z = preconditioned(texel);
        p[texel] = z;
        sum = vec2(sum.x + bitcast<f32>(r[texel]) * z, max(sum.y, abs(z)));
    }
    let total = reduce(lane, sum, true);
    if lane == 0u {
        partials[texels.channel * texels.groups + group.x] = total;
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_set_out(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = reduce_partials(channel, lane, true);
    if lane == 0u {
        scalars[channel].rz = total.x;
        scalars[channel].reach_p = reach_of(total.y);
    }
}

// q: product as integers → floats, with the ties' part.
@compute @workgroup_size(TEXEL_LANES)
fn finish_apply(
    @builtin(global_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    count_group(lane);
    var sum = 0.0;
    let reach = scalars[texels.channel].reach_p;
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        let product = value_of(q[texel], texel, reach) + smooth_p(texel);
        q[texel] = bitcast<u32>(product);
        sum += p[texel] * product;
    }
    let total = reduce(lane, vec2(sum, 0.0), false);
    if lane == 0u {
        partials[texels.channel * texels.groups + group.x] = total;
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_apply(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = reduce_partials(channel, lane, false);
    if lane == 0u {
        let rz = scalars[channel].rz;
        scalars[channel].alpha = select(0.0, rz / total.x, total.x > 0.0);
    }
}

// x += α p, r −= α q; q is emptied for the next product.
@compute @workgroup_size(TEXEL_LANES)
fn advance(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let alpha = scalars[texels.channel].alpha;
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        x[texel] += alpha * p[texel];
        r[texel] = bitcast<u32>(bitcast<f32>(r[texel]) - alpha * bitcast<f32>(q[texel]));
        q[texel] = 0u;
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
    var sum = 0.0;
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        sum += bitcast<f32>(r[texel]) * preconditioned(texel);
    }
    let total = reduce(lane, vec2(sum, 0.0), false);
    if lane == 0u {
        partials[texels.channel * texels.groups + group.x] = total;
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_project(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = reduce_partials(channel, lane, false);
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
    var largest = 0.0;
    let beta = scalars[texels.channel].beta;
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        let next = preconditioned(texel) + beta * p[texel];
        p[texel] = next;
        largest = max(largest, abs(next));
    }
    let total = reduce(lane, vec2(0.0, largest), true);
    if lane == 0u {
        partials[texels.channel * texels.groups + group.x] = total;
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn reduce_direct(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let channel = group.x;
    let total = reduce_partials(channel, lane, true);
    if lane == 0u {
        scalars[channel].reach_p = reach_of(total.y);
    }
}
