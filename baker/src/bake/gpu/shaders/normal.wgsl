// Sums the rows' part of the normal equations, matrix-free: diagonal Σ a² W, defect Σ a W (A x − y), product Σ a W (A
// p). Native twin: normal.rs. W is row weight (`trust`) · slope² for pixels, and the weight of the constraint for
// seams.
//
// Sums are integers, so they do not depend on the order of the rows. Weights of texels differ by orders of magnitude: a
// dark texel's slope² is 900 times a bright one's, and coverage varies as much. So each texel and channel has a
// power-of-two scale from the largest contribution that it can get. `bound` finds that contribution, regularise.wgsl
// makes the exponents. Sums are bounded by 2³⁰; relative to the texel's values, their steps are those of single
// precision.

@group(1) @binding(0) var<uniform> texels: Texels;
@group(1) @binding(1) var<storage, read> v_r: array<f32>;
@group(1) @binding(2) var<storage, read> v_g: array<f32>;
@group(1) @binding(3) var<storage, read> v_b: array<f32>;
@group(1) @binding(4) var<storage, read_write> out_r: array<atomic<u32>>;
@group(1) @binding(5) var<storage, read_write> out_g: array<atomic<u32>>;
@group(1) @binding(6) var<storage, read_write> out_b: array<atomic<u32>>;
@group(1) @binding(7) var<storage, read> exponents: array<u32>;
@group(1) @binding(8) var<storage, read> scalars: array<Scalars, 3>;
// Σ over pixels of row weight · Σ a², in steps of 2⁻³⁰: low and high words of many partial sums, spread like the tally.
// With one sum the stage takes 8 ms in place of 4.
@group(1) @binding(9) var<storage, read_write> trusted: array<atomic<u32>, TALLY_WORDS>;

var<workgroup> trusted_low: atomic<u32>;
var<workgroup> trusted_high: atomic<u32>;

// Exponents of the patch's texels. Their sums are in `near`, one channel after the other.
var<workgroup> near_exponents: array<u32, PLACES>;

// Loads the exponents of the patch's texels, and their values if `values`. Empties sums with memory of their own.
fn fetch(values: bool) {
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        let texel = texel_of(place);
        var exponent = 0u;
        var value = vec3(0.0);
        if texel != NOWHERE {
            exponent = exponents[texel];
            if values {
                value = vec3(v_r[texel], v_g[texel], v_b[texel]);
            }
        }
        near_exponents[place] = exponent;
        if values {
            set_near(place, value);
        }
        if BINNED || !values {
            set_sums(place, vec3(0u));
        }
    }
    workgroupBarrier();
}

// Empties the sums that replace the values, once these have been read. All invocations of a workgroup must call it.
fn begin_sums() {
    if BINNED {
        return;
    }
    workgroupBarrier();
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        set_sums(place, vec3(0u));
    }
    workgroupBarrier();
}

fn sums_at(place: u32) -> vec3<u32> {
    let at = SUMS_AT + place;
    return vec3(atomicLoad(&near[at]), atomicLoad(&near[PLACES + at]), atomicLoad(&near[2u * PLACES + at]));
}

fn set_sums(place: u32, value: vec3<u32>) {
    let at = SUMS_AT + place;
    atomicStore(&near[at], value.r);
    atomicStore(&near[PLACES + at], value.g);
    atomicStore(&near[2u * PLACES + at], value.b);
}

fn end_sums() {
    workgroupBarrier();
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        let sum = sums_at(place);
        if any(sum != vec3(0u)) {
            let texel = texel_of(place);
            atomicAdd(&out_r[texel], sum.r);
            atomicAdd(&out_g[texel], sum.g);
            atomicAdd(&out_b[texel], sum.b);
        }
    }
}

fn row_weight() -> vec3<f32> {
    if !has_row() {
        return vec3(0.0);
    }
    if is_seam() {
        return vec3(trust[3u * own_row], trust[3u * own_row + 1u], trust[3u * own_row + 2u]);
    }
    return trust[own_row] * slope_squared(own_colour);
}

fn add(place: u32, value: vec3<f32>) {
    // Two's complement: unsigned addition of negative numbers wraps to the right sum.
    let whole = bitcast<vec3<u32>>(vec3<i32>(round(value * scales_of_exponents(near_exponents[place]))));
    let at = SUMS_AT + place;
    atomicAdd(&near[at], whole.r);
    atomicAdd(&near[PLACES + at], whole.g);
    atomicAdd(&near[2u * PLACES + at], whole.b);
}

// Positive floats order as their bits do.
fn raise(place: u32, value: vec3<f32>) {
    let bits = bitcast<vec3<u32>>(value);
    let at = SUMS_AT + place;
    atomicMax(&near[at], bits.r);
    atomicMax(&near[PLACES + at], bits.g);
    atomicMax(&near[2u * PLACES + at], bits.b);
}

fn scatter(value: vec3<f32>) {
    for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
        let pair = pair_at(at);
        add(pair.places.x, pair.weights.x * value);
        add(pair.places.y, pair.weights.y * value);
    }
}

// Weight of a seam constraint for each channel: the seam ratio times the mean λ (v) of its texels, whose weights sum to
// 1 on either side; 0 where one of them has no λ.
@compute @workgroup_size(ROW_LANES)
fn weigh_seams(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    fetch(true);
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        var sum = vec3(0.0);
        for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
            let pair = pair_at(at);
            for (var k = 0u; k < 2u; k++) {
                let lambda = near_value(pair.places[k]);
                // Makes any sum negative, hence 0.
                let part = select(0.5 * abs(pair.weights[k]) * lambda, vec3(-1e30), lambda.r == 0.0);
                sum += select(vec3(0.0), part, pair.weights[k] != 0.0);
            }
        }
        sum = max(add_up(sum), vec3(0.0));
        if leads_row() {
            trust[3u * own_row] = texels.seam_ratio * sum.r;
            trust[3u * own_row + 1u] = texels.seam_ratio * sum.g;
            trust[3u * own_row + 2u] = texels.seam_ratio * sum.b;
        }
    }
}

// Largest |a| W Σ|a| of the rows that touch a texel: a row's product with a vector of largest element 1 is no larger.
// Σ|a| is 1 for a pixel and 2 for a seam (1 on either side).
@compute @workgroup_size(ROW_LANES)
fn bound(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    if lane == 0u {
        atomicStore(&trusted_low, 0u);
        atomicStore(&trusted_high, 0u);
    }
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        set_sums(place, vec3(0u));
    }
    workgroupBarrier();
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        if !has_row() {
            continue;
        }
        let weight = row_weight() * select(1.0, 2.0, is_seam());
        var square = 0.0;
        for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
            let pair = pair_at(at);
            raise(pair.places.x, abs(pair.weights.x) * weight);
            raise(pair.places.y, abs(pair.weights.y) * weight);
            square += dot(pair.weights, pair.weights);
        }
        if !is_seam() {
            let added = u32(min(trust[own_row] * square, 1.0) * 1073741824.0 + 0.5);
            atomicAdd(&trusted_low, added & 0xffffu);
            atomicAdd(&trusted_high, added >> 16u);
        }
    }
    workgroupBarrier();
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        let most = sums_at(place);
        if any(most != vec3(0u)) {
            let texel = texel_of(place);
            atomicMax(&out_r[texel], most.r);
            atomicMax(&out_g[texel], most.g);
            atomicMax(&out_b[texel], most.b);
        }
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
    let turns = open(group, lane);
    fetch(false);
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        let weight = row_weight();
        for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
            let pair = pair_at(at);
            add(pair.places.x, pair.weights.x * pair.weights.x * weight);
            add(pair.places.y, pair.weights.y * pair.weights.y * weight);
        }
    }
    end_sums();
}

// Σ a W (A x − y), in units of 2^reach_x.
@compute @workgroup_size(ROW_LANES)
fn defect(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    fetch(true);
    let units = vec3(exp2i(-scalars[0].reach_x), exp2i(-scalars[1].reach_x), exp2i(-scalars[2].reach_x));
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        let sum = predicted();
        begin_sums();
        if has_row() {
            // The target of a seam is 0, coded as black, which is 0 in either space.
            scatter(row_weight() * (sum - observed(own_colour)) * units);
        }
    }
    end_sums();
}

// Σ a W (A p), in units of 2^reach_p.
@compute @workgroup_size(ROW_LANES)
fn apply(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let turns = open(group, lane);
    fetch(true);
    let units = vec3(exp2i(-scalars[0].reach_p), exp2i(-scalars[1].reach_p), exp2i(-scalars[2].reach_p));
    for (var turn = 0u; turn < turns; turn++) {
        take(turn);
        let sum = predicted();
        begin_sums();
        if has_row() {
            scatter(row_weight() * sum * units);
        }
    }
    end_sums();
}
