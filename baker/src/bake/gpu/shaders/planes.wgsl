// The planes of the three channels, reductions and links, shared by regularise.wgsl, multilevel.wgsl and solve.wgsl. An
// invocation handles all channels of a texel: they share its position and links.

@group(1) @binding(0) var<uniform> texels: Texels;
@group(1) @binding(1) var<storage, read_write> x_r: array<f32>;
@group(1) @binding(2) var<storage, read_write> x_g: array<f32>;
@group(1) @binding(3) var<storage, read_write> x_b: array<f32>;
@group(1) @binding(4) var<storage, read_write> r_r: array<u32>;
@group(1) @binding(5) var<storage, read_write> r_g: array<u32>;
@group(1) @binding(6) var<storage, read_write> r_b: array<u32>;
@group(1) @binding(7) var<storage, read_write> p_r: array<f32>;
@group(1) @binding(8) var<storage, read_write> p_g: array<f32>;
@group(1) @binding(9) var<storage, read_write> p_b: array<f32>;
@group(1) @binding(10) var<storage, read_write> q_r: array<u32>;
@group(1) @binding(11) var<storage, read_write> q_g: array<u32>;
@group(1) @binding(12) var<storage, read_write> q_b: array<u32>;
@group(1) @binding(13) var<storage, read_write> diagonal_r: array<u32>;
@group(1) @binding(14) var<storage, read_write> diagonal_g: array<u32>;
@group(1) @binding(15) var<storage, read_write> diagonal_b: array<u32>;
// One byte for each channel.
@group(1) @binding(16) var<storage, read_write> exponents: array<u32>;
@group(1) @binding(17) var<storage, read> counts: array<u32>;
@group(1) @binding(18) var<storage, read_write> lambda_r: array<f32>;
@group(1) @binding(19) var<storage, read_write> lambda_g: array<f32>;
@group(1) @binding(20) var<storage, read_write> lambda_b: array<f32>;
// Σ over pixels of row weight · Σ a², in steps of 2⁻³⁰: low and high words of many partial sums.
@group(1) @binding(21) var<storage, read> trusted: array<u32, TALLY_WORDS>;
// Four texels a word. Bit 0: linked to the right neighbour; bit 1: to the lower; bit 2: takes part in the solution.
@group(1) @binding(22) var<storage, read_write> links: array<u32>;
// A sum and a maximum of each workgroup, one channel after the other.
@group(1) @binding(23) var<storage, read_write> partials: array<vec2<f32>>;
@group(1) @binding(24) var<storage, read_write> scalars: array<Scalars, 3>;
// Cells of all coarse levels, level by level: first their values, then their inverse diagonals.
@group(1) @binding(25) var<storage, read_write> coarse_r: array<f32>;
@group(1) @binding(26) var<storage, read_write> coarse_g: array<f32>;
@group(1) @binding(27) var<storage, read_write> coarse_b: array<f32>;

// A getter and a setter for each plane: WGSL cannot pass a buffer to a function.

fn x_at(texel: u32) -> vec3<f32> {
    return vec3(x_r[texel], x_g[texel], x_b[texel]);
}

fn set_x(texel: u32, value: vec3<f32>) {
    x_r[texel] = value.r;
    x_g[texel] = value.g;
    x_b[texel] = value.b;
}

fn r_at(texel: u32) -> vec3<u32> {
    return vec3(r_r[texel], r_g[texel], r_b[texel]);
}

fn set_r(texel: u32, value: vec3<u32>) {
    r_r[texel] = value.r;
    r_g[texel] = value.g;
    r_b[texel] = value.b;
}

fn p_at(texel: u32) -> vec3<f32> {
    return vec3(p_r[texel], p_g[texel], p_b[texel]);
}

fn set_p(texel: u32, value: vec3<f32>) {
    p_r[texel] = value.r;
    p_g[texel] = value.g;
    p_b[texel] = value.b;
}

fn q_at(texel: u32) -> vec3<u32> {
    return vec3(q_r[texel], q_g[texel], q_b[texel]);
}

fn set_q(texel: u32, value: vec3<u32>) {
    q_r[texel] = value.r;
    q_g[texel] = value.g;
    q_b[texel] = value.b;
}

fn diagonal_at(texel: u32) -> vec3<u32> {
    return vec3(diagonal_r[texel], diagonal_g[texel], diagonal_b[texel]);
}

fn set_diagonal(texel: u32, value: vec3<u32>) {
    diagonal_r[texel] = value.r;
    diagonal_g[texel] = value.g;
    diagonal_b[texel] = value.b;
}

fn lambda_at(texel: u32) -> vec3<f32> {
    return vec3(lambda_r[texel], lambda_g[texel], lambda_b[texel]);
}

fn set_lambda(texel: u32, value: vec3<f32>) {
    lambda_r[texel] = value.r;
    lambda_g[texel] = value.g;
    lambda_b[texel] = value.b;
}

fn coarse_at(cell: u32) -> vec3<f32> {
    return vec3(coarse_r[cell], coarse_g[cell], coarse_b[cell]);
}

fn set_coarse(cell: u32, value: vec3<f32>) {
    coarse_r[cell] = value.r;
    coarse_g[cell] = value.g;
    coarse_b[cell] = value.b;
}

const PARTAKER: u32 = 4u;

var<workgroup> lanes: array<vec2<f32>, TEXEL_LANES>;
var<workgroup> sums: array<vec3<f32>, TEXEL_LANES>;
var<workgroup> maxima: array<vec3<f32>, TEXEL_LANES>;

// Reduces a sum and a maximum for each channel over the workgroup, into `partials`.
fn part(group: u32, lane: u32, sum: vec3<f32>, largest: vec3<f32>) {
    sums[lane] = sum;
    maxima[lane] = largest;
    workgroupBarrier();
    for (var half = TEXEL_LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            sums[lane] += sums[lane + half];
            maxima[lane] = max(maxima[lane], maxima[lane + half]);
        }
        workgroupBarrier();
    }
    if lane < 3u {
        partials[lane * texels.groups + group] = vec2(sums[0][lane], maxima[0][lane]);
    }
}

// Sum and maximum of a channel over all workgroups, in lane 0; such a stage has one workgroup a channel.
fn whole(channel: u32, lane: u32) -> vec2<f32> {
    var value = vec2(0.0);
    for (var group = lane; group < texels.groups; group += TEXEL_LANES) {
        value = join(value, partials[channel * texels.groups + group]);
    }
    lanes[lane] = value;
    workgroupBarrier();
    for (var half = TEXEL_LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            lanes[lane] = join(lanes[lane], lanes[lane + half]);
        }
        workgroupBarrier();
    }
    return lanes[0];
}

fn join(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2(a.x + b.x, max(a.y, b.y));
}

// Bits of linked neighbours: 1 right, 2 lower, 4 left, 8 upper.
fn linked(texel: u32) -> u32 {
    let column = texel % texels.size;
    var bits = link_bits(texel);
    if column > 0u {
        bits |= (link_bits(texel - 1u) & 1u) << 2u;
    }
    if texel >= texels.size {
        bits |= (link_bits(texel - texels.size) & 2u) << 2u;
    }
    return bits;
}

fn link_bits(texel: u32) -> u32 {
    return (links[texel / 4u] >> (8u * (texel % 4u))) & 3u;
}

// Whether the texel takes part in the solution (`enlist` of regularise.wgsl). Gaps between charts do not, nor does most
// of a texture while only the subset's rows exist. A wave without such texels reads nothing else.
fn takes_part(texel: u32) -> bool {
    return (links[texel / 4u] & (PARTAKER << (8u * (texel % 4u)))) != 0u;
}

// λ of a link: the mean of its texels' λ, or 0 where either is 0.
fn link(one: vec3<f32>, other: vec3<f32>) -> vec3<f32> {
    return select(0.5 * (one + other), vec3(0.0), min(one, other) == vec3(0.0));
}

fn neighbour(texel: u32, side: u32) -> u32 {
    let offset = select(texels.size, 1u, side % 2u == 0u);
    return select(texel - offset, texel + offset, side < 2u);
}

fn value_of(sum: vec3<u32>, texel: u32, reach: vec3<i32>) -> vec3<f32> {
    let k = reach - exponents_of(exponents[texel]);
    return vec3<f32>(bitcast<vec3<i32>>(sum)) * vec3(exp2i(k.r), exp2i(k.g), exp2i(k.b));
}

fn reach_of_x() -> vec3<i32> {
    return vec3(scalars[0].reach_x, scalars[1].reach_x, scalars[2].reach_x);
}

fn reach_of_p() -> vec3<i32> {
    return vec3(scalars[0].reach_p, scalars[1].reach_p, scalars[2].reach_p);
}

// A level of cells of 2^level texels squared: cells across and down, and the first of them.
struct Level {
    size: vec2<u32>,
    first: u32,
}

fn level_of(level: u32) -> Level {
    var size = vec2(texels.size, texels.count / texels.size);
    var first = 0u;
    for (var k = 1u; k <= level; k++) {
        if k > 1u {
            first += size.x * size.y;
        }
        size = (size + 1u) / 2u;
    }
    return Level(size, first);
}

fn cells_of(level: u32) -> u32 {
    let size = level_of(level).size;
    return size.x * size.y;
}

fn cell_of(texel: u32) -> u32 {
    return texel / texels.size / 2u * ((texels.size + 1u) / 2u) + texel % texels.size / 2u;
}

// Weight of the coarse correction in a texel, 4 λ / D: about the links' share of its diagonal, at most 1.
fn share_of(texel: u32) -> vec3<f32> {
    let d = bitcast<vec3<f32>>(diagonal_at(texel));
    return select(vec3(0.0), min(4.0 * lambda_at(texel) / d, vec3(1.0)), d > vec3(0.0));
}
