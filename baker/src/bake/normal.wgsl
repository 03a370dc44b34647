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
// Σ over pixels of trust · Σ a², in steps of 2⁻³⁰: low and high words of many sums, as many as the tally has. (With one for all
// workgroups the stage took 8 ms in place of 4.)
@group(1) @binding(9) var<storage, read_write> trusted: array<atomic<u32>, TALLY_WORDS>;

var<workgroup> trusted_low: atomic<u32>;
var<workgroup> trusted_high: atomic<u32>;

// Texels of the patch for each invocation.
const TEXELS_EACH: u32 = PATCH_TEXELS / ROW_LANES;
// Those of this one, and their exponents: fetched once and together, as each of them is a long way from here.
var<private> own_texels: array<u32, TEXELS_EACH>;
var<private> own_exponents: array<u32, TEXELS_EACH>;
// Weight of the row.
var<private> own_weight: vec3<f32>;

// Fetches what a stage reads of the patch's texels, with values of theirs or without.
fn fetch(lane: u32, values: bool) {
    own_weight = row_weight();
    for (var nth = 0u; nth < TEXELS_EACH; nth++) {
        let place = nth * ROW_LANES + lane;
        if place < texels_here() {
            let texel = touched[own.first_texel + place];
            own_texels[nth] = texel;
            own_exponents[nth] = exponents[texel];
            if values {
                set_near(place, vec3(v_r[texel], v_g[texel], v_b[texel]));
            }
        }
    }
    workgroupBarrier();
}

// Makes the patch's sums empty, once nobody reads what is in their place.
fn begin_sums(lane: u32) {
    workgroupBarrier();
    for (var nth = 0u; nth < TEXELS_EACH; nth++) {
        let place = nth * ROW_LANES + lane;
        if place < texels_here() {
            spare[place] = own_exponents[nth];
            set_near(place, vec3(0.0));
        }
    }
    workgroupBarrier();
}

// Adds the patch's sums to the planes.
fn end_sums(lane: u32) {
    workgroupBarrier();
    for (var nth = 0u; nth < TEXELS_EACH; nth++) {
        let place = nth * ROW_LANES + lane;
        if place < texels_here() {
            let texel = own_texels[nth];
            atomicAdd(&out_r[texel], atomicLoad(&near[place]));
            atomicAdd(&out_g[texel], atomicLoad(&near[PATCH_TEXELS + place]));
            atomicAdd(&out_b[texel], atomicLoad(&near[2u * PATCH_TEXELS + place]));
        }
    }
}

fn row_weight() -> vec3<f32> {
    if !has_row() {
        return vec3(0.0);
    }
    let at = own.first_row + own_row;
    if is_seam() {
        return vec3(trust[3u * at], trust[3u * at + 1u], trust[3u * at + 2u]);
    }
    return trust[at] * slope_squared(own_colour);
}

fn scales_of(place: u32) -> vec3<f32> {
    return scales_of_exponents(spare[place]);
}

fn add(place: u32, value: vec3<f32>) {
    // Two's complement: unsigned addition of negative numbers wraps to the right sum.
    let whole = bitcast<vec3<u32>>(vec3<i32>(round(value)));
    atomicAdd(&near[place], whole.r);
    atomicAdd(&near[PATCH_TEXELS + place], whole.g);
    atomicAdd(&near[2u * PATCH_TEXELS + place], whole.b);
}

fn scatter(value: vec3<f32>) {
    for (var k = own_entries.x; k < own_entries.y; k += sharers) {
        let entry = entries[k];
        let place = place_of(entry);
        add(place, weight_of(entry) * scales_of(place) * value);
    }
}

// The weight of a seam's row for each channel: its ratio times the mean λ over its texels, whose weights sum to 1 on either
// side; 0 where one of them has no λ. v is λ.
@compute @workgroup_size(ROW_LANES)
fn tie(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    fetch(lane, true);
    var sum = vec3(0.0);
    for (var k = own_entries.x; k < own_entries.y; k += sharers) {
        let entry = entries[k];
        let lambda = near_value(place_of(entry));
        // Infinitely little: no sum with it is above 0.
        sum += select(0.5 * abs(weight_of(entry)) * lambda, vec3(-1e30), lambda.r == 0.0);
    }
    sum = max(add_up(lane, sum), vec3(0.0));
    if leads_row() {
        let at = 3u * (own.first_row + own_row);
        trust[at] = texels.seam_ratio * sum.r;
        trust[at + 1u] = texels.seam_ratio * sum.g;
        trust[at + 2u] = texels.seam_ratio * sum.b;
    }
}

// Largest |a| W Σ|a| that a row brings to a texel: its product with a vector of largest element 1 is no larger. Positive floats
// order as their bits do. Weights of a pixel sum to 1, those of a seam to 1 on either side.
@compute @workgroup_size(ROW_LANES)
fn bound(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    if lane == 0u {
        atomicStore(&trusted_low, 0u);
        atomicStore(&trusted_high, 0u);
    }
    for (var place = lane; place < texels_here(); place += ROW_LANES) {
        set_near(place, vec3(0.0));
    }
    workgroupBarrier();
    if has_row() {
        let weight = row_weight() * select(1.0, 2.0, is_seam());
        var square = 0.0;
        for (var k = own_entries.x; k < own_entries.y; k += sharers) {
            let entry = entries[k];
            let place = place_of(entry);
            let a = abs(weight_of(entry));
            let bits = bitcast<vec3<u32>>(a * weight);
            atomicMax(&near[place], bits.r);
            atomicMax(&near[PATCH_TEXELS + place], bits.g);
            atomicMax(&near[2u * PATCH_TEXELS + place], bits.b);
            square += a * a;
        }
        if !is_seam() {
            let added = u32(min(trust[own.first_row + own_row] * square, 1.0) * 1073741824.0 + 0.5);
            atomicAdd(&trusted_low, added & 0xffffu);
            atomicAdd(&trusted_high, added >> 16u);
        }
    }
    workgroupBarrier();
    for (var place = lane; place < texels_here(); place += ROW_LANES) {
        let texel = touched[own.first_texel + place];
        atomicMax(&out_r[texel], atomicLoad(&near[place]));
        atomicMax(&out_g[texel], atomicLoad(&near[PATCH_TEXELS + place]));
        atomicMax(&out_b[texel], atomicLoad(&near[2u * PATCH_TEXELS + place]));
    }
    if lane == 0u && rows_here() > 0u && !is_seam() {
        let low = atomicLoad(&trusted_low);
        let high = atomicLoad(&trusted_high);
        let added = low + (high << 16u);
        let carry = select(0u, 1u, added < low) + (high >> 16u);
        let slot = (group.y * GROUPS_ACROSS + group.x) * TALLY_STRIDE % TALLY_WORDS;
        let before = atomicAdd(&trusted[slot], added);
        atomicAdd(&trusted[slot + 1u], carry + select(0u, 1u, before + added < before));
    }
}

@compute @workgroup_size(ROW_LANES)
fn diagonal(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    fetch(lane, false);
    begin_sums(lane);
    if has_row() {
        let weight = own_weight;
        for (var k = own_entries.x; k < own_entries.y; k += sharers) {
            let entry = entries[k];
            let a = weight_of(entry);
            add(place_of(entry), a * a * weight * scales_of(place_of(entry)));
        }
    }
    end_sums(lane);
}

// Σ a W (A x − y), in units of 2^reach_x.
@compute @workgroup_size(ROW_LANES)
fn defect(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    fetch(lane, true);
    let sum = predicted(lane);
    var value = vec3(0.0);
    if has_row() {
        // Seams carry black, which is 0 in either space.
        let off = sum - observed(own_colour);
        let units = vec3(exp2i(-scalars[0].reach_x), exp2i(-scalars[1].reach_x), exp2i(-scalars[2].reach_x));
        value = own_weight * off * units;
    }
    begin_sums(lane);
    scatter(value);
    end_sums(lane);
}

// Σ a W (A p), in units of 2^reach_p.
@compute @workgroup_size(ROW_LANES)
fn apply(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    open(group, lane);
    fetch(lane, true);
    let sum = predicted(lane);
    var value = vec3(0.0);
    if has_row() {
        let units = vec3(exp2i(-scalars[0].reach_p), exp2i(-scalars[1].reach_p), exp2i(-scalars[2].reach_p));
        value = own_weight * sum * units;
    }
    begin_sums(lane);
    scatter(value);
    end_sums(lane);
}
