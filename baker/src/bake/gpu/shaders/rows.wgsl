// Gives every stage over rows its view of a pool of the row store: patches of rows that touch the same texels, one
// workgroup each. Stages are compiled for two kinds of patch:
//
// - Bins (BINNED) hold the rows of all views whose box begins in one square of the texture. A row is a box of texels
//   with weights. Together they touch ROW_BIN_REACH² adjacent texels, each read and written once for hundreds of rows.
// - Listed patches hold rows whose texels lie further apart, as across a seam or at a grazing angle: up to LISTED_MOST
//   neighbouring pixels of a view, with a list of the texels they touch.
//
// Invocations take the rows of a patch in turns; where rows are few, several invocations share each and alternate over
// its entries. Entries name texels by their place in the patch. So a workgroup sums its few hundred texels in its own
// memory and accesses global memory once for each.

@group(2) @binding(0) var<uniform> visited: Visited;
@group(2) @binding(1) var<storage, read> patches: array<Patch>;
@group(2) @binding(2) var<storage, read> rows: array<Row>;
// Entries and boxes of rows, and lists of texels (patch.wgsl).
@group(2) @binding(3) var<storage, read> words: array<u32>;
// Weight of each pixel's row, or its squared residual until it is weighed; three weights of each seam's row.
@group(2) @binding(4) var<storage, read_write> trust: array<f32>;
// For each value of a byte: the value in the space of the fit, and the squared slope of the display encoding there. Two
// values a vector.
@group(2) @binding(5) var<uniform> tones: array<vec4<f32>, 128>;
// For each block of pixels: the sum of its rows' weights in steps of 2⁻²⁴, and their number.
@group(2) @binding(6) var<storage, read_write> blocks: array<atomic<u32>>;
// Where `visited.ordered`, the indices of rows with a box, bin by bin; else the rows themselves lie in that order. Then
// the patches over them.
@group(2) @binding(7) var<storage, read> order: array<u32>;
@group(2) @binding(8) var<storage, read> row_bins: array<Patch>;

const NOWHERE: u32 = 0xffffffffu;

// The workgroup's patch, the invocation's index, the invocations that share a row, and this one's index among them.
var<private> own: Patch;
var<private> own_lane: u32;
var<private> sharers: u32;
var<private> share: u32;
// The invocation's row in this turn, if any: its index in the pool, the start of its words, its entries, its box's
// width (NOWHERE without one) and corner in the patch, its pairs of entries (0 without a row), colour, and block.
var<private> own_has: bool;
var<private> own_row: u32;
var<private> own_start: u32;
var<private> own_entries: u32;
var<private> own_width: u32;
var<private> own_corner: u32;
var<private> own_pairs: u32;
var<private> own_colour: u32;
var<private> own_block: u32;

// Loads the workgroup's patch, an empty one past the last, and counts its rows in the tally. Returns the number of
// turns.
fn open(group: vec3<u32>, lane: u32) -> u32 {
    let index = group.y * GROUPS_ACROSS + group.x;
    own = Patch(0u, 0u, 0u, LISTED);
    own_lane = lane;
    if BINNED {
        if index < visited.row_bins {
            own = row_bins[index + select(visited.row_bins_gap, 0u, index < visited.first_row_bins)];
        }
    } else if index < visited.patches {
        own = patches[index + select(visited.gap, 0u, index < visited.first)];
    }
    if lane == 0u {
        count_units(index, rows_here());
    }
    // The least power of two that holds the rows, at least eight: more invocations a row are not worth the reduction.
    let at_once = 1u << max(32u - countLeadingZeros(max(rows_here(), 1u) - 1u), 3u);
    sharers = max(ROW_LANES / at_once, 1u);
    share = lane % sharers;
    let taken = ROW_LANES / sharers;
    return (rows_here() + taken - 1u) / taken;
}

fn take(turn: u32) {
    let nth = turn * (ROW_LANES / sharers) + own_lane / sharers;
    own_has = nth < rows_here();
    own_pairs = 0u;
    own_width = NOWHERE;
    own_corner = 0u;
    if !own_has {
        return;
    }
    own_row = own.first_row + nth;
    if BINNED && visited.ordered != 0u {
        own_row = order[own_row];
    }
    let row = rows[own_row];
    own_start = row.start;
    own_colour = row.colour;
    own_block = row.place >> 6u;
    if BINNED {
        let size = size_of(row.shape);
        let corner = corner_of(row.shape);
        own_width = size.x;
        own_entries = size.x * size.y;
        own_corner = corner.y * ROW_BIN_REACH + corner.x;
    } else {
        own_entries = row.shape >> 6u;
    }
    own_pairs = (own_entries + 1u) / 2u;
}

fn has_row() -> bool {
    return own_has;
}

// Whether the invocation is the first of those that share its row.
fn leads_row() -> bool {
    return own_has && share == 0u;
}

fn rows_here() -> u32 {
    return own.counts & 0xffffu;
}

fn is_seam() -> bool {
    return own.kind == SEAM;
}

// Number of texels of the patch.
fn places_here() -> u32 {
    return select(own.counts >> 16u, PLACES, BINNED);
}

fn texel_of(place: u32) -> u32 {
    if !BINNED {
        return words[own.first_texel + place];
    }
    let at = vec2(place % ROW_BIN_REACH, place / ROW_BIN_REACH);
    let texel = own.first_texel + at.y * visited.size + at.x;
    return select(NOWHERE, texel, own.first_texel % visited.size + at.x < visited.size && texel < visited.count);
}

// Position of a pair of entries: its index, and the first entry's column in its box and place in the patch.
struct Cursor {
    nth: u32,
    column: u32,
    place: u32,
}

struct Pair {
    places: vec2<u32>,
    weights: vec2<f32>,
}

// The invocation's first pair of entries. `pair_at` may be called while `nth` is below `own_pairs`.
fn first_pair() -> Cursor {
    return in_box(Cursor(share, 2u * share, own_corner + 2u * share));
}

fn next_pair(at: Cursor) -> Cursor {
    return in_box(Cursor(at.nth + sharers, at.column + 2u * sharers, at.place + 2u * sharers));
}

fn in_box(at: Cursor) -> Cursor {
    var inside = at;
    while inside.column >= own_width {
        inside.column -= own_width;
        inside.place += ROW_BIN_REACH - own_width;
    }
    return inside;
}

// The second entry of an odd row's last pair has weight 0.
fn pair_at(at: Cursor) -> Pair {
    if BINNED {
        let weights = unpack2x16unorm(words[own_start + at.nth]);
        let wrap = select(0u, ROW_BIN_REACH - own_width, at.column + 1u == own_width);
        return Pair(vec2(at.place, min(at.place + 1u + wrap, PLACES - 1u)), weights);
    }
    let first = words[own_start + 2u * at.nth];
    var second = first & 255u;
    if 2u * at.nth + 1u < own_entries {
        second = words[own_start + 2u * at.nth + 1u];
    }
    return Pair(vec2(first, second) & vec2(255u), bitcast<vec2<f32>>(vec2(first, second) & vec2(~255u)));
}

fn tone(byte: u32) -> vec2<f32> {
    let pair = tones[byte >> 1u];
    return select(pair.xy, pair.zw, (byte & 1u) != 0u);
}

// Observed value of each channel, in the space of the fit; the fourth byte of a colour is alpha.
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
