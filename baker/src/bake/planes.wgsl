// What regularise.wgsl, multilevel.wgsl and solve.wgsl share: the planes of one channel, reductions, links.

@group(1) @binding(0) var<uniform> texels: Texels;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> r: array<u32>;
@group(1) @binding(3) var<storage, read_write> p: array<f32>;
@group(1) @binding(4) var<storage, read_write> q: array<u32>;
@group(1) @binding(5) var<storage, read_write> diagonal: array<u32>;
@group(1) @binding(6) var<storage, read_write> exponents: array<u32>;
@group(1) @binding(7) var<storage, read> counts: array<u32>;
// λ of each texel.
@group(1) @binding(8) var<storage, read_write> lambda: array<f32>;
// Σ over pixels of trust · Σ a², in steps of 2⁻³⁰: low and high words of many sums.
@group(1) @binding(9) var<storage, read> trusted: array<u32, TALLY_WORDS>;
// Four texels a word: bit 0 linked to the right neighbour, bit 1 to the lower; bit 2 of those that take part.
@group(1) @binding(10) var<storage, read_write> links: array<u32>;
@group(1) @binding(11) var<storage, read_write> partials: array<vec2<f32>>;
@group(1) @binding(12) var<storage, read_write> scalars: array<Scalars, 3>;
// The cells of all coarse levels, one level after the other: their values, and then what each is multiplied with.
@group(1) @binding(13) var<storage, read_write> coarse: array<f32>;

const PARTAKER: u32 = 4u;

var<workgroup> lanes: array<vec2<f32>, TEXEL_LANES>;

// Sum of the first and sum or maximum of the second components over the workgroup, in lane 0.
fn reduce(lane: u32, value: vec2<f32>, maximum: bool) -> vec2<f32> {
    lanes[lane] = value;
    workgroupBarrier();
    for (var half = TEXEL_LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            lanes[lane] = join(lanes[lane], lanes[lane + half], maximum);
        }
        workgroupBarrier();
    }
    return lanes[0];
}

fn join(a: vec2<f32>, b: vec2<f32>, maximum: bool) -> vec2<f32> {
    return vec2(a.x + b.x, select(a.y + b.y, max(a.y, b.y), maximum));
}

// The partial results of all workgroups of a channel, by one. A stage that ends so is dispatched once for the three channels.
fn reduce_partials(channel: u32, lane: u32, maximum: bool) -> vec2<f32> {
    var value = vec2(0.0);
    for (var group = lane; group < texels.groups; group += TEXEL_LANES) {
        value = join(value, partials[channel * texels.groups + group], maximum);
    }
    return reduce(lane, value, maximum);
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

// Whether anything holds a texel, see regularise.wgsl: what is left of a texture between its charts, and where there are no rows
// but those of the subset, is most of it, and wherever a wave finds none it reads nothing else.
fn takes_part(texel: u32) -> bool {
    return (links[texel / 4u] & (PARTAKER << (8u * (texel % 4u)))) != 0u;
}

// λ of a link between texels of these: their mean, and none where one has none.
fn link(one: f32, other: f32) -> f32 {
    return select(0.5 * (one + other), 0.0, min(one, other) == 0.0);
}

// The neighbour that bit `side` of `linked` stands for.
fn neighbour(texel: u32, side: u32) -> u32 {
    let offset = select(texels.size, 1u, side % 2u == 0u);
    return select(texel - offset, texel + offset, side < 2u);
}

fn value_of(sum: u32, texel: u32, reach: i32) -> f32 {
    let exponent = exponent_of(exponents[texel], texels.channel);
    return f32(bitcast<i32>(sum)) * exp2i(reach - exponent);
}

// A level of cells of 2^level texels squared: how many across and down, and the first of them among all.
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

// The cell of the first level that a texel lies in.
fn cell_of(texel: u32) -> u32 {
    return texel / texels.size / 2u * ((texels.size + 1u) / 2u) + texel % texels.size / 2u;
}

// How much the coarse levels take part in a texel: what is held by links more than by rows.
fn share_of(texel: u32) -> f32 {
    let d = bitcast<f32>(diagonal[texel]);
    return select(0.0, min(4.0 * lambda[texel] / d, 1.0), d > 0.0);
}
