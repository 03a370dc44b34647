// A pool of rows as every stage over rows sees it: patches of up to ROW_LANES rows, which are pixels that lie together, each
// with the list of texels that it touches. One workgroup is one patch. An invocation is a row, or where a patch has few rows,
// since they touch many texels, two or more invocations share each and take its entries in turn.
//
// Entries name texels by their place in that list, so a workgroup reads and sums its few hundred texels in its own memory and
// meets the others' only once for each texel: pixels that lie together share most of what they touch.

@group(2) @binding(0) var<uniform> visited: Visited;
@group(2) @binding(1) var<storage, read> patches: array<Patch>;
@group(2) @binding(2) var<storage, read> rows: array<Row>;
// Weights and places, see patch.wgsl.
@group(2) @binding(3) var<storage, read> entries: array<u32>;
// The patches' lists.
@group(2) @binding(4) var<storage, read> touched: array<u32>;
// Weight of each pixel's row, or its squared residual until it is weighed by that; three weights of each seam's.
@group(2) @binding(5) var<storage, read_write> trust: array<f32>;
// For each value of a byte: the value in the space of the fit, and the squared slope of the display encoding there; two
// values a vector.
@group(2) @binding(6) var<uniform> tones: array<vec4<f32>, 128>;
// For each block of pixels: sum of the rows' weights in steps of 2⁻²⁴, and their number.
@group(2) @binding(7) var<storage, read_write> blocks: array<atomic<u32>>;

// Which patches are visited. Same as `layout::Visited`.
struct Visited {
    patches: u32,
    // So many at the beginning, the others after a gap.
    first: u32,
    gap: u32,
    unused: u32,
}

// The workgroup's patch.
var<private> own: Patch;
// The invocation's row in it, how many share that, and which of them it is.
var<private> own_row: u32;
var<private> sharers: u32;
var<private> share: u32;
// The first entry that it takes, every `sharers`-th, and the one past the row's last: none without a row. The row's colour.
var<private> own_entries: vec2<u32>;
var<private> own_colour: u32;

// The patch of a workgroup, of no rows past the last, and the tally of its rows.
fn open(group: vec3<u32>, lane: u32) {
    let index = group.y * GROUPS_ACROSS + group.x;
    own = Patch(0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u);
    if index < visited.patches {
        own = patches[index + select(visited.gap, 0u, index < visited.first)];
        if lane == 0u {
            count_units(index, rows_here());
        }
    }
    // A power of two above the rows, but no more invocations for each than are worth the adding up.
    let bits = max(32u - countLeadingZeros(max(rows_here(), 1u) - 1u), 3u);
    sharers = ROW_LANES >> bits;
    own_row = lane / sharers;
    share = lane % sharers;
    own_entries = vec2(0u);
    if has_row() {
        let row = rows[own.first_row + own_row];
        let start = own.first_entry + (row.span >> 14u);
        own_entries = vec2(start + share, start + (row.span & 255u));
        own_colour = row.colour;
    }
}

// Whether the invocation has a row.
fn has_row() -> bool {
    return own_row < rows_here();
}

// Whether it speaks for it.
fn leads_row() -> bool {
    return has_row() && share == 0u;
}

fn rows_here() -> u32 {
    return own.counts & 0xffffu;
}

fn texels_here() -> u32 {
    return own.counts >> 16u;
}

fn is_seam() -> bool {
    return own.view == SEAM;
}

fn tone(byte: u32) -> vec2<f32> {
    let pair = tones[byte >> 1u];
    return select(pair.xy, pair.zw, (byte & 1u) != 0u);
}

// Observed value of each channel; the fourth byte of a colour is alpha.
fn observed(colour: u32) -> vec3<f32> {
    return vec3(tone(colour & 255u).x, tone((colour >> 8u) & 255u).x, tone((colour >> 16u) & 255u).x);
}

// Squared slope of each channel.
fn slope_squared(colour: u32) -> vec3<f32> {
    return vec3(tone(colour & 255u).y, tone((colour >> 8u) & 255u).y, tone((colour >> 16u) & 255u).y);
}

// Observed sRGB, 0-1.
fn seen(colour: u32) -> vec3<f32> {
    return vec3<f32>(vec3(colour, colour >> 8u, colour >> 16u) & vec3(255u)) / 255.0;
}

fn alpha_weight(colour: u32) -> f32 {
    let above = f32((colour >> 24u) - MIN_ALPHA + 1u) / f32(256u - MIN_ALPHA);
    return above * sqrt(above);
}
