// Weighted texels → every texel has a colour (Gortler et al., "The Lumigraph", 1996, section 3.4). Native twin: pull_push.rs.
// A level's edge is half of the finer one's, rounded up. Levels lie in two sets of planes by turns, so that no dispatch reads
// the planes that it writes.

struct Level {
    fine: u32,
    coarse: u32,
    fine_start: u32,
    coarse_start: u32,
    stride: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(1) @binding(0) var<uniform> level: Level;
@group(1) @binding(1) var<storage, read_write> fine_r: array<f32>;
@group(1) @binding(2) var<storage, read_write> fine_g: array<f32>;
@group(1) @binding(3) var<storage, read_write> fine_b: array<f32>;
@group(1) @binding(4) var<storage, read_write> fine_w: array<f32>;
@group(1) @binding(5) var<storage, read_write> coarse_r: array<f32>;
@group(1) @binding(6) var<storage, read_write> coarse_g: array<f32>;
@group(1) @binding(7) var<storage, read_write> coarse_b: array<f32>;
@group(1) @binding(8) var<storage, read_write> coarse_w: array<f32>;

@compute @workgroup_size(TEXEL_LANES)
fn pull(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var index = at.x; index < level.coarse * level.coarse; index += level.stride) {
        let first = 2u * vec2(index % level.coarse, index / level.coarse);
        let end = min(first + 2u, vec2(level.fine));
        var sum = vec4(0.0);
        for (var row = first.y; row < end.y; row++) {
            for (var column = first.x; column < end.x; column++) {
                let from_texel = level.fine_start + row * level.fine + column;
                let w = min(fine_w[from_texel], 1.0);
                sum += vec4(w * vec3(fine_r[from_texel], fine_g[from_texel], fine_b[from_texel]), w);
            }
        }
        let colour = select(vec3(0.0), sum.xyz / sum.w, sum.w > 0.0);
        let to = level.coarse_start + index;
        coarse_r[to] = colour.r;
        coarse_g[to] = colour.g;
        coarse_b[to] = colour.b;
        coarse_w[to] = sum.w;
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn push(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var index = at.x; index < level.fine * level.fine; index += level.stride) {
        let to = level.fine_start + index;
        let own = min(fine_w[to], 1.0);
        if own < 1.0 {
            let place = vec2(index % level.fine, index / level.fine);
            // A fine texel's centre lies a quarter of a coarse texel from the centre of its parent.
            let parent = place / 2u;
            let before = parent - min(parent, vec2(1u));
            let after = min(parent + 1u, vec2(level.coarse - 1u));
            let other = select(after, before, place % 2u == vec2(0u));
            let above = 0.5625 * coarse(parent) + 0.1875 * (coarse(vec2(other.x, parent.y)) + coarse(vec2(parent.x, other.y)))
                + 0.0625 * coarse(other);
            let colour = own * vec3(fine_r[to], fine_g[to], fine_b[to]) + (1.0 - own) * above;
            fine_r[to] = colour.r;
            fine_g[to] = colour.g;
            fine_b[to] = colour.b;
        }
    }
}

fn coarse(place: vec2<u32>) -> vec3<f32> {
    let texel = level.coarse_start + place.y * level.coarse + place.x;
    return vec3(coarse_r[texel], coarse_g[texel], coarse_b[texel]);
}
