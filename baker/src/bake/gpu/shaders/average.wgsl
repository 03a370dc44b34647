// Computes each texel's mean colour from the rows by footprint weight, Σ a y / Σ a, and the weight Σ a. A texel without
// rows keeps its colour.
//
// Sums are integers, so they do not depend on the order. For a texel that n rows touch they stay below n, in steps of
// n/2³¹: nothing overflows, and rarely seen texels are summed as finely as others.

@group(1) @binding(0) var<uniform> texels: Texels;
// Number of rows that touch a texel.
@group(1) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
@group(1) @binding(2) var<storage, read_write> sum_r: array<atomic<u32>>;
@group(1) @binding(3) var<storage, read_write> sum_g: array<atomic<u32>>;
@group(1) @binding(4) var<storage, read_write> sum_b: array<atomic<u32>>;
@group(1) @binding(5) var<storage, read_write> sum_w: array<atomic<u32>>;
@group(1) @binding(6) var<storage, read_write> x_r: array<f32>;
@group(1) @binding(7) var<storage, read_write> x_g: array<f32>;
@group(1) @binding(8) var<storage, read_write> x_b: array<f32>;
@group(1) @binding(9) var<storage, read_write> weight: array<f32>;

// Four sums and the fixed-point steps of each of the patch's texels.
var<workgroup> sums: array<atomic<u32>, 4 * PLACES>;
var<workgroup> near_steps: array<f32, PLACES>;

@compute @workgroup_size(ROW_LANES)
fn count(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        atomicStore(&sums[place], 0u);
    }
    workgroupBarrier();
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
            let pair = pair_at(at);
            for (var k = 0u; k < 2u; k++) {
                // A box may have corner texels that are not part of the pixel.
                if pair.weights[k] != 0.0 {
                    atomicAdd(&sums[pair.places[k]], 1u);
                }
            }
        }
    }
    workgroupBarrier();
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        let there = atomicLoad(&sums[place]);
        if there != 0u {
            atomicAdd(&counts[texel_of(place)], there);
        }
    }
}

@compute @workgroup_size(ROW_LANES)
fn scatter(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        let texel = texel_of(place);
        var own_steps = 0.0;
        if texel != NOWHERE {
            own_steps = steps(atomicLoad(&counts[texel]));
        }
        near_steps[place] = own_steps;
        for (var sum = 0u; sum < 4u; sum++) {
            atomicStore(&sums[sum * PLACES + place], 0u);
        }
    }
    workgroupBarrier();
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        let y = observed(own_colour);
        for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
            let pair = pair_at(at);
            for (var k = 0u; k < 2u; k++) {
                let place = pair.places[k];
                let share = pair.weights[k] * near_steps[place];
                atomicAdd(&sums[place], u32(share * y.r + 0.5));
                atomicAdd(&sums[PLACES + place], u32(share * y.g + 0.5));
                atomicAdd(&sums[2u * PLACES + place], u32(share * y.b + 0.5));
                atomicAdd(&sums[3u * PLACES + place], u32(share + 0.5));
            }
        }
    }
    workgroupBarrier();
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        let weight = atomicLoad(&sums[3u * PLACES + place]);
        if weight != 0u {
            let texel = texel_of(place);
            atomicAdd(&sum_r[texel], atomicLoad(&sums[place]));
            atomicAdd(&sum_g[texel], atomicLoad(&sums[PLACES + place]));
            atomicAdd(&sum_b[texel], atomicLoad(&sums[2u * PLACES + place]));
            atomicAdd(&sum_w[texel], weight);
        }
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn mean(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        let w = f32(atomicLoad(&sum_w[texel]));
        weight[texel] = 0.0;
        if w > 0.0 {
            x_r[texel] = f32(atomicLoad(&sum_r[texel])) / w;
            x_g[texel] = f32(atomicLoad(&sum_g[texel])) / w;
            x_b[texel] = f32(atomicLoad(&sum_b[texel])) / w;
            weight[texel] = w / steps(atomicLoad(&counts[texel]));
        }
    }
}
