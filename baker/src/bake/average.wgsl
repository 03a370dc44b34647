// Rows → mean colour of each texel by footprint weight, and that weight: Σ a y / Σ a. A texel without any keeps its colour.
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

// Of the patch's texels: four sums each, and the steps of them.
var<workgroup> sums: array<atomic<u32>, 4 * PATCH_TEXELS>;
var<workgroup> near_steps: array<f32, PATCH_TEXELS>;

@compute @workgroup_size(ROW_LANES)
fn count(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    for (var place = lane; place < texels_here(); place += ROW_LANES) {
        atomicStore(&sums[place], 0u);
    }
    workgroupBarrier();
    for (var k = own_entries.x; k < own_entries.y; k += sharers) {
        atomicAdd(&sums[place_of(entries[k])], 1u);
    }
    workgroupBarrier();
    for (var place = lane; place < texels_here(); place += ROW_LANES) {
        atomicAdd(&counts[touched[own.first_texel + place]], atomicLoad(&sums[place]));
    }
}

@compute @workgroup_size(ROW_LANES)
fn scatter(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    for (var place = lane; place < texels_here(); place += ROW_LANES) {
        near_steps[place] = steps(atomicLoad(&counts[touched[own.first_texel + place]]));
        for (var sum = 0u; sum < 4u; sum++) {
            atomicStore(&sums[sum * PATCH_TEXELS + place], 0u);
        }
    }
    workgroupBarrier();
    if has_row() {
        let y = observed(own_colour);
            for (var k = own_entries.x; k < own_entries.y; k += sharers) {
            let entry = entries[k];
            let place = place_of(entry);
            let share = weight_of(entry) * near_steps[place];
            atomicAdd(&sums[place], u32(share * y.r + 0.5));
            atomicAdd(&sums[PATCH_TEXELS + place], u32(share * y.g + 0.5));
            atomicAdd(&sums[2u * PATCH_TEXELS + place], u32(share * y.b + 0.5));
            atomicAdd(&sums[3u * PATCH_TEXELS + place], u32(share + 0.5));
        }
    }
    workgroupBarrier();
    for (var place = lane; place < texels_here(); place += ROW_LANES) {
        let texel = touched[own.first_texel + place];
        atomicAdd(&sum_r[texel], atomicLoad(&sums[place]));
        atomicAdd(&sum_g[texel], atomicLoad(&sums[PATCH_TEXELS + place]));
        atomicAdd(&sum_b[texel], atomicLoad(&sums[2u * PATCH_TEXELS + place]));
        atomicAdd(&sum_w[texel], atomicLoad(&sums[3u * PATCH_TEXELS + place]));
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
