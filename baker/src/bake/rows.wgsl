// A pool of rows as every stage over rows sees it: patches of rows that touch the same texels. One workgroup is one patch. A stage is
// compiled for either of two kinds:
//
// - Rows of a plot (PLOTTED) are those of all views whose box begins in one square of the texture: a box of texels for each, and its
//   weights. They touch PLOT_REACH² texels that lie together, and have a texel's value read, and its sum written, once for hundreds of
//   them.
// - Rows whose texels lie further apart, as across a seam or far aslant, are in patches of up to LISTED_MOST pixels that lie together
//   in a view, with a list of the texels that these touch.
//
// Invocations take the rows of a patch in turns, each a row; where a patch has few rows two or more invocations share each, and take
// its entries in turn. Entries name texels by their place in the patch, so a workgroup reads and sums its few hundred texels in its
// own memory, and meets the others' only once for each texel.

@group(2) @binding(0) var<uniform> visited: Visited;
@group(2) @binding(1) var<storage, read> patches: array<Patch>;
@group(2) @binding(2) var<storage, read> rows: array<Row>;
// Entries and boxes of rows, and lists of texels, see patch.wgsl.
@group(2) @binding(3) var<storage, read> words: array<u32>;
// Weight of each pixel's row, or its squared residual until it is weighed by that; three weights of each seam's.
@group(2) @binding(4) var<storage, read_write> trust: array<f32>;
// For each value of a byte: the value in the space of the fit, and the squared slope of the display encoding there; two
// values a vector.
@group(2) @binding(5) var<uniform> tones: array<vec4<f32>, 128>;
// For each block of pixels: sum of the rows' weights in steps of 2⁻²⁴, and their number.
@group(2) @binding(6) var<storage, read_write> blocks: array<atomic<u32>>;
// Where `visited.ordered`, rows with a box plot by plot; else they lie so. And the patches that these are.
@group(2) @binding(7) var<storage, read> order: array<u32>;
@group(2) @binding(8) var<storage, read> plots: array<Patch>;

// Which patches are visited. Same as `layout::Visited`.
struct Visited {
    patches: u32,
    // So many at the beginning, the others after a gap.
    first: u32,
    gap: u32,
    // The same of plots.
    plots: u32,
    first_plots: u32,
    plots_gap: u32,
    // Texels in a row of the window, and in all.
    size: u32,
    count: u32,
    ordered: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

const NOWHERE: u32 = 0xffffffffu;

// The workgroup's patch, which of its invocations this is, how many of them share a row, and which of those this is.
var<private> own: Patch;
var<private> own_lane: u32;
var<private> sharers: u32;
var<private> share: u32;
// The invocation's row in this turn, if it has one: its number in the pool, where its words begin and how many entries it has, in pairs
// (none without a row), the width of its box (NOWHERE without one) and where that begins in the patch, its colour, and its block.
var<private> own_has: bool;
var<private> own_row: u32;
var<private> own_start: u32;
var<private> own_entries: u32;
var<private> own_width: u32;
var<private> own_corner: u32;
var<private> own_pairs: u32;
var<private> own_colour: u32;
var<private> own_block: u32;

// The patch of a workgroup, of no rows past the last, and the tally of its rows; returns the turns that they take.
fn open(group: vec3<u32>, lane: u32) -> u32 {
    let index = group.y * GROUPS_ACROSS + group.x;
    own = Patch(0u, 0u, 0u, LISTED);
    own_lane = lane;
    if PLOTTED {
        if index < visited.plots {
            own = plots[index + select(visited.plots_gap, 0u, index < visited.first_plots)];
        }
    } else if index < visited.patches {
        own = patches[index + select(visited.gap, 0u, index < visited.first)];
    }
    if lane == 0u {
        count_units(index, rows_here());
    }
    // A power of two above the rows, but no more invocations for each than are worth the adding up.
    let at_once = 1u << max(32u - countLeadingZeros(max(rows_here(), 1u) - 1u), 3u);
    sharers = max(ROW_LANES / at_once, 1u);
    share = lane % sharers;
    let taken = ROW_LANES / sharers;
    return (rows_here() + taken - 1u) / taken;
}

// The row that the invocation takes in a turn.
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
    if PLOTTED && visited.ordered != 0u {
        own_row = order[own_row];
    }
    let row = rows[own_row];
    own_start = row.start;
    own_colour = row.colour;
    own_block = row.place >> 6u;
    if PLOTTED {
        let size = size_of(row.shape);
        let corner = corner_of(row.shape);
        own_width = size.x;
        own_entries = size.x * size.y;
        own_corner = corner.y * PLOT_REACH + corner.x;
    } else {
        own_entries = row.shape >> 6u;
    }
    own_pairs = (own_entries + 1u) / 2u;
}

// Whether the invocation has a row in this turn.
fn has_row() -> bool {
    return own_has;
}

// Whether it speaks for it.
fn leads_row() -> bool {
    return own_has && share == 0u;
}

fn rows_here() -> u32 {
    return own.counts & 0xffffu;
}

fn is_seam() -> bool {
    return own.kind == SEAM;
}

// Places of the patch.
fn places_here() -> u32 {
    return select(own.counts >> 16u, PLACES, PLOTTED);
}

// The texel of a place of the patch; NOWHERE beyond the texture.
fn texel_of(place: u32) -> u32 {
    if !PLOTTED {
        return words[own.first_texel + place];
    }
    let at = vec2(place % PLOT_REACH, place / PLOT_REACH);
    let texel = own.first_texel + at.y * visited.size + at.x;
    return select(NOWHERE, texel, own.first_texel % visited.size + at.x < visited.size && texel < visited.count);
}

// Two of the row's entries: which, and of the first the column in its box, and the place in the patch.
struct Cursor {
    nth: u32,
    column: u32,
    place: u32,
}

struct Pair {
    places: vec2<u32>,
    weights: vec2<f32>,
}

// The first two entries that the invocation takes; `pair_at` as long as it is before `own_pairs`.
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
        inside.place += PLOT_REACH - own_width;
    }
    return inside;
}

// Where a row has an odd number, the second of its last has no weight.
fn pair_at(at: Cursor) -> Pair {
    if PLOTTED {
        let weights = unpack2x16unorm(words[own_start + at.nth]);
        let wrap = select(0u, PLOT_REACH - own_width, at.column + 1u == own_width);
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
