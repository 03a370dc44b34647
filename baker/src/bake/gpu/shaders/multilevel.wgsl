// Computes coarse corrections from residuals: the multilevel part of the preconditioner. Bindings: planes.wgsl. Native
// twin, with the method and its source: multilevel.rs.

// Same as in multilevel.rs.
const MASS: f32 = 8.0;
const STIFFNESS: f32 = 0.5;

// First of the inverse diagonals, which follow the values of all cells.
fn inverses() -> u32 {
    return level_of(LEVELS + 1u).first;
}

// The second cell that a finer place contributes to along an axis: the nearer neighbour of its own.
fn beside(place: u32, cells: u32) -> u32 {
    return select(max(place / 2u, 1u) - 1u, min(place / 2u + 1u, cells - 1u), place % 2u == 1u);
}

fn share_along(place: u32, cell: u32, cells: u32) -> f32 {
    return select(0.0, 0.75, place / 2u == cell) + select(0.0, 0.25, beside(place, cells) == cell);
}

// Restriction: a cell's weighted sum of the finer level's numbers, which begin at `base`.
fn restricted(cell: u32, level: u32, base: u32) -> vec3<f32> {
    let own = level_of(level);
    let finer = level_of(level - 1u);
    let at = vec2(cell % own.size.x, cell / own.size.x);
    var sum = vec3(0.0);
    for (var dy = 0u; dy < 4u; dy++) {
        let y = 2u * at.y + dy - 1u;
        // Wraps to a very large number before the first.
        if y >= finer.size.y {
            continue;
        }
        let down = share_along(y, at.y, own.size.y);
        for (var dx = 0u; dx < 4u; dx++) {
            let x = 2u * at.x + dx - 1u;
            if x < finer.size.x {
                let along = share_along(x, at.x, own.size.x);
                sum += along * down * coarse_at(base + finer.first + y * finer.size.x + x);
            }
        }
    }
    return sum;
}

// Prolongation: the coarser level's values, interpolated at a cell.
fn prolonged(cell: u32, level: u32) -> vec3<f32> {
    let own = level_of(level);
    let above = level_of(level + 1u);
    let at = vec2(cell % own.size.x, cell / own.size.x);
    let near = at / 2u;
    let far = vec2(beside(at.x, above.size.x), beside(at.y, above.size.y));
    let row_near = above.first + near.y * above.size.x;
    let row_far = above.first + far.y * above.size.x;
    return 0.5625 * coarse_at(row_near + near.x)
        + 0.1875 * (coarse_at(row_near + far.x) + coarse_at(row_far + near.x))
        + 0.0625 * coarse_at(row_far + far.x);
}

// The `nth` of a first-level cell's four texels; `texels.count` beyond an odd edge.
fn texel_of(cell: u32, nth: u32) -> u32 {
    let across = level_of(1u).size.x;
    let at = 2u * vec2(cell % across, cell / across) + vec2(nth % 2u, nth / 2u);
    let texel = at.y * texels.size + at.x;
    return select(texels.count, texel, at.x < texels.size && texel < texels.count);
}

// Diagonal and links → each texel's mass (into p) and stiffness (into q). Both stay empty where no texel takes part.
@compute @workgroup_size(TEXEL_LANES)
fn weigh_texels(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        if !takes_part(texel) {
            continue;
        }
        let bits = linked(texel);
        let own = share_of(texel);
        var held = bitcast<vec3<f32>>(diagonal_at(texel));
        var mass = vec3(0.0);
        var stiffness = vec3(0.0);
        for (var side = 0u; side < 4u; side++) {
            if (bits & (1u << side)) != 0u {
                let other = neighbour(texel, side);
                let strength = link(lambda_at(texel), lambda_at(other));
                let share = share_of(other);
                held -= strength;
                stiffness += strength * own * share;
                mass += 0.5 * strength * (own - share) * (own - share);
            }
        }
        set_p(texel, mass + own * max(held, vec3(0.0)));
        set_q(texel, bitcast<vec3<u32>>(stiffness));
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn weigh_1(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let count = cells_of(1u);
    let base = inverses();
    for (var cell = at.x; cell < count; cell += texels.stride) {
        var mass = vec3(0.0);
        var stiffness = vec3(0.0);
        for (var nth = 0u; nth < 4u; nth++) {
            let texel = texel_of(cell, nth);
            if texel < texels.count {
                mass += p_at(texel);
                stiffness += bitcast<vec3<f32>>(q_at(texel));
            }
        }
        set_coarse(base + cell, mass);
        // Half of the links are within the cell.
        set_coarse(cell, 0.5 * stiffness);
    }
}

fn weigh(level: u32, first: u32) {
    let own = level_of(level);
    let base = inverses();
    for (var cell = first; cell < own.size.x * own.size.y; cell += texels.stride) {
        let mass = restricted(cell, level, base);
        let stiffness = 0.25 * restricted(cell, level, 0u);
        set_coarse(base + own.first + cell, mass);
        set_coarse(own.first + cell, stiffness);
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn weigh_2(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    weigh(2u, at.x);
}

@compute @workgroup_size(TEXEL_LANES)
fn weigh_3(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    weigh(3u, at.x);
}

// Mass and stiffness → inverse diagonal of each cell; 0 where nothing holds it.
@compute @workgroup_size(TEXEL_LANES)
fn invert(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let base = inverses();
    let first = cells_of(1u);
    for (var cell = at.x; cell < base; cell += texels.stride) {
        let stiffness = coarse_at(cell) * select(STIFFNESS, 1.0, cell < first);
        let sum = MASS * coarse_at(base + cell) + stiffness;
        set_coarse(base + cell, select(vec3(0.0), 1.0 / sum, sum > vec3(0.0)));
    }
}

// r → its restriction to the first level.
@compute @workgroup_size(TEXEL_LANES)
fn restrict_1(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let count = cells_of(1u);
    for (var cell = at.x; cell < count; cell += texels.stride) {
        var sum = vec3(0.0);
        for (var nth = 0u; nth < 4u; nth++) {
            let texel = texel_of(cell, nth);
            if texel < texels.count && takes_part(texel) {
                sum += share_of(texel) * bitcast<vec3<f32>>(r_at(texel));
            }
        }
        set_coarse(cell, sum);
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn restrict_2(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let own = level_of(2u);
    for (var cell = at.x; cell < own.size.x * own.size.y; cell += texels.stride) {
        set_coarse(own.first + cell, restricted(cell, 2u, 0u));
    }
}

// On the last level the scaled restriction is the correction.
@compute @workgroup_size(TEXEL_LANES)
fn restrict_3(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let own = level_of(3u);
    let base = inverses() + own.first;
    for (var cell = at.x; cell < own.size.x * own.size.y; cell += texels.stride) {
        set_coarse(own.first + cell, coarse_at(base + cell) * restricted(cell, 3u, 0u));
    }
}

fn prolong(level: u32, first: u32) {
    let own = level_of(level);
    let base = inverses() + own.first;
    for (var cell = first; cell < own.size.x * own.size.y; cell += texels.stride) {
        let inverse = coarse_at(base + cell);
        let value = inverse * coarse_at(own.first + cell) + prolonged(cell, level);
        set_coarse(own.first + cell, select(vec3(0.0), value, inverse > vec3(0.0)));
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn prolong_2(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    prolong(2u, at.x);
}

@compute @workgroup_size(TEXEL_LANES)
fn prolong_1(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    prolong(1u, at.x);
}
