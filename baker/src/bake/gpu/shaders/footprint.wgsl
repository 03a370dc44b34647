// Makes rows from the triangle of each sample: for each pixel the texels that its taps read, with merged weights.
// Native twin: footprint.rs.
//
// A pixel whose texels lie in a small box is stored as that box, for row_bins.wgsl to sort into bins. The other pixels of
// a workgroup's 8×8 block make one patch, or several where they touch too many texels. Rows of the subset (subset.rs)
// make patches of their own, allocated from the other end of the buffer. Boxes take rows and words from the start of
// their buffers, other rows from the end.
//
// Rows, patches and the numbers of texels come in any order. No result depends on it: readers sum integers or stay
// within one row.

@group(1) @binding(0) var<uniform> regions: array<Region, REGIONS>;
@group(1) @binding(1) var<storage, read> positions: array<f32>;
@group(1) @binding(2) var<storage, read> triangles: array<u32>;
@group(1) @binding(3) var<storage, read> texel_coords: array<vec2<f32>>;
@group(1) @binding(4) var<storage, read> pixels: array<u32>;
// 0-2: patches, rows, words. 3: rows with a box. 4: 1 where something did not fit. 5-7: patches of the subset, rows of
// the subset, other patches. 8: words of boxes. 13, 14: rows and words of rows without a box. row_bins.wgsl uses the rest.
@group(1) @binding(6) var<storage, read_write> counters: array<atomic<u32>, 16>;
// Capacity for each of them.
@group(1) @binding(7) var<uniform> room: Pool;
@group(1) @binding(8) var<storage, read_write> new_patches: array<Patch>;
@group(1) @binding(9) var<storage, read_write> new_rows: array<Row>;
@group(1) @binding(10) var<storage, read_write> new_words: array<u32>;
// First texel of each square of the texture in the window (window.rs). Not read where the window is the whole texture.
@group(1) @binding(11) var<storage, read> squares: array<u32>;
// For each block of all views, the bits of the windows that it shows; then, for each square of the texture, the bits of
// the windows that own it or a square beside it (gpu/visible.rs). Unused where `regions[region].squares_at` is 0.
@group(1) @binding(12) var<storage, read_write> visible: array<u32>;
// Column and line of each listed block in its region, twelve bits each, and the region; then the data of nearest.wgsl.
@group(1) @binding(13) var<storage, read> places: array<u32>;

// Slots of the hash table of texels: a power of two, twice the texels of a patch. Eight neighbouring texels of a line
// share eight slots and one memory transaction.
const TABLE: u32 = 512u;
const TOGETHER: u32 = 8u;
const NOWHERE: u32 = 0xffffffffu;
// Rows whose texels always fit a patch.
const FEW_ROWS: u32 = max(1u, PATCH_TEXELS / (4u * TAPS * TAPS));

// Rows in the upper half, entries in the lower: 64 rows of 4·TAPS² entries fit.
var<workgroup> reserved: atomic<u32>;
var<workgroup> drawn: atomic<u32>;
// Bit 0: a pixel has a row outside the subset. Bit 1: a pixel has a row in it.
var<workgroup> wanted: atomic<u32>;
// Bits of the windows that any pixel shows.
var<workgroup> shown: atomic<u32>;
// Texel + 1, or 0; and each texel's number, once all are inserted.
var<workgroup> table: array<atomic<u32>, TABLE>;
var<workgroup> numbers: array<u32, TABLE>;
// Texels in the table, and those that have a number.
var<workgroup> gathered: atomic<u32>;
var<workgroup> numbered: atomic<u32>;
var<workgroup> crowded: u32;
var<workgroup> first: Place;

// Rows with a box in the upper half, their words in the lower; and how many of those rows are in the subset.
var<workgroup> boxes: atomic<u32>;
var<workgroup> boxes_of_subset: atomic<u32>;
var<workgroup> first_box: Place;

// Where a patch, its rows and its words begin; NOWHERE if there is no room.
struct Place {
    patch_at: u32,
    row: u32,
    word: u32,
}

// The block's index among the listed blocks.
var<private> nth: u32;
var<private> merged_texels: array<u32, 4 * TAPS * TAPS>;
var<private> merged_weights: array<f32, 4 * TAPS * TAPS>;
var<private> merged: u32;
// The bounding box of the merged texels: its corner, its size, and its weights line by line.
var<private> box_corner: vec2<u32>;
var<private> box_size: vec2<u32>;
var<private> box_weights: array<f32, BOX * BOX>;
// Whether any tap hits a square that the window owns.
var<private> belongs: bool;
// Bits of the windows that own a square which a tap hits.
var<private> shows: u32;

// Texture position of each tap, in texels from the centre of the first, clamped to the edge.
var<private> met: array<vec2<f32>, TAPS * TAPS>;

// The triangle of the last tap, plus 1. Below: one corner and the edges from it, in camera axes and in texels.
var<private> stood_on: u32;
var<private> corner_there: vec3<f32>;
var<private> edges_there: array<vec3<f32>, 2>;
var<private> coords_there: vec2<f32>;
var<private> coord_edges_there: array<vec2<f32>, 2>;

@compute @workgroup_size(PIXEL_LANES, PIXEL_LANES)
fn footprint(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) within: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    nth = group.y * GROUPS_ACROSS + group.x;
    if nth >= regions[0].listed {
        return;
    }
    merged = 0u;
    let listed = places[nth];
    region = listed >> 24u;
    let pixel = vec2(listed & 0xfffu, (listed >> 12u) & 0xfffu) * BLOCK + within.xy;
    var colour = 0u;
    var valid = all(pixel < regions[region].size);
    if valid && was_drawn(pixel * TAPS) {
        atomicAdd(&drawn, 1u);
    }
    if valid {
        colour = pixels[nth * BLOCK * BLOCK + lane];
        valid = (colour >> 24u) >= MIN_ALPHA;
    }
    stood_on = 0u;
    belongs = false;
    shows = 0u;
    for (var tap = 0u; valid && tap < TAPS * TAPS; tap++) {
        valid = meets(pixel, tap);
    }
    if valid && shows != 0u {
        atomicOr(&shown, shows);
    }
    valid = valid && belongs;
    if valid {
        merge();
        if regions[region].core.y != 0u {
            renumber();
        }
    }
    let own_kind = u32(valid && in_subset());
    let boxed = valid && find_box();
    var box_at = 0u;
    if boxed {
        box_at = atomicAdd(&boxes, (1u << 16u) | ((box_size.x * box_size.y + 1u) / 2u));
        atomicAdd(&boxes_of_subset, own_kind);
    } else if valid {
        atomicOr(&wanted, 1u << own_kind);
    }
    workgroupBarrier();
    if lane == 0u {
        count_units(nth, atomicLoad(&drawn));
        crowded = atomicLoad(&wanted);
        if regions[region].squares_at != 0u {
            let block = (regions[region].origin + pixel) / BLOCK;
            visible[regions[region].first_block + block.y * (regions[region].blocks & 0xffffu) + block.x] = atomicLoad(&shown);
        }
        reserve_boxes();
    }
    let kinds = workgroupUniformLoad(&crowded);
    if boxed && first_box.row != NOWHERE {
        keep_box(pixel, box_at, own_kind, colour);
    }
    for (var kind = 0u; kind < 2u; kind++) {
        if (kinds & (1u << kind)) == 0u {
            continue;
        }
        // Takes all rows at once if their texels fit a patch, else halves the number, down to FEW_ROWS.
        var start = 0u;
        var at_once = PIXEL_LANES * PIXEL_LANES;
        while start < PIXEL_LANES * PIXEL_LANES {
            let mine = valid && !boxed && own_kind == kind && lane >= start && lane < start + at_once;
            let local = gather(lane, mine);
            if workgroupUniformLoad(&crowded) != 0u {
                at_once = max(at_once / 2u, FEW_ROWS);
                continue;
            }
            reserve(lane, kind);
            if workgroupUniformLoad(&first).row != NOWHERE {
                keep(pixel, lane, mine, local, kind, colour);
            }
            // The next turn clears the table.
            workgroupBarrier();
            start += at_once;
        }
    }
}

// Finds the bounding box of the row's texels; returns whether a bin takes it.
fn find_box() -> bool {
    let pitch = regions[region].texture_size;
    var low = vec2(NOWHERE);
    var high = vec2(0u);
    for (var k = 0u; k < merged; k++) {
        let at = vec2(merged_texels[k] % pitch, merged_texels[k] / pitch);
        low = min(low, at);
        high = max(high, at);
    }
    box_corner = low;
    box_size = high - low + 1u;
    return all(box_size <= vec2(BOX)) && row_bin() < ROW_BINS;
}

fn row_bin() -> u32 {
    let across = (regions[region].texture_size + ROW_BIN - 1u) / ROW_BIN;
    return box_corner.y / ROW_BIN * across + box_corner.x / ROW_BIN;
}

// Reserves room for the rows with a box, or sets NOWHERE: then the host discards the whole tile.
fn reserve_boxes() {
    let counted = atomicLoad(&boxes);
    first_box = Place(0u, NOWHERE, 0u);
    if counted == 0u {
        return;
    }
    let rows = counted >> 16u;
    let words = counted & 0xffffu;
    let rows_before = atomicAdd(&counters[1], rows);
    let words_before = atomicAdd(&counters[2], words);
    if rows_before + rows <= room.rows && words_before + words <= room.words {
        first_box = Place(0u, atomicAdd(&counters[3], rows), atomicAdd(&counters[8], words));
        atomicAdd(&counters[6], atomicLoad(&boxes_of_subset));
    } else {
        atomicStore(&counters[4], 1u);
    }
}

// Writes this invocation's row with a box. Weights are 16-bit integers that sum to exactly WEIGHT_STEPS.
fn keep_box(pixel: vec2<u32>, at: u32, subset: u32, colour: u32) {
    let pitch = regions[region].texture_size;
    let texels = box_size.x * box_size.y;
    for (var k = 0u; k < texels; k++) {
        box_weights[k] = 0.0;
    }
    for (var k = 0u; k < merged; k++) {
        let texel = vec2(merged_texels[k] % pitch, merged_texels[k] / pitch) - box_corner;
        box_weights[texel.y * box_size.x + texel.x] = merged_weights[k];
    }
    let start = first_box.word + (at & 0xffffu);
    let corner = box_corner % ROW_BIN;
    let shape = (row_bin() << 14u) | ((corner.y * ROW_BIN + corner.x) << 6u) | (box_of(box_size) << 1u) | subset;
    new_rows[first_box.row + (at >> 16u)] = Row(start, shape, colour, place_of_row(pixel));
    var sum = 0.0;
    var before = 0u;
    var pair = 0u;
    for (var k = 0u; k < texels; k++) {
        sum += box_weights[k];
        let now = u32(min(sum, 1.0) * WEIGHT_STEPS + 0.5);
        pair |= (now - before) << (16u * (k & 1u));
        before = now;
        if (k & 1u) != 0u || k + 1u == texels {
            new_words[start + k / 2u] = pair;
            pair = 0u;
        }
    }
}

// Its block among those of all views, and its pixel within the block.
fn place_of_row(pixel: vec2<u32>) -> u32 {
    let block = (regions[region].origin + pixel) / BLOCK;
    let nth = regions[region].first_block + block.y * (regions[region].blocks & 0xffffu) + block.x;
    return (nth << 6u) | ((pixel.y % BLOCK) * BLOCK + pixel.x % BLOCK);
}

// As in window.rs: by the row's first texel.
fn in_subset() -> bool {
    var texel = merged_texels[0];
    for (var k = 1u; k < merged; k++) {
        texel = min(texel, merged_texels[k]);
    }
    if regions[region].core.y != 0u {
        let row = texel / regions[region].texture_size;
        return row >= regions[region].core.x && row < regions[region].core.y;
    }
    let edge = (regions[region].texture_size + SQUARES - 1u) / SQUARES;
    let column = texel % regions[region].texture_size / edge;
    let row = texel / regions[region].texture_size / edge;
    return (column + 3u * row) % ONE_IN == 0u;
}

// Collects the distinct texels of some rows and counts rows and entries. Returns the counts before this invocation's
// part.
fn gather(lane: u32, mine: bool) -> u32 {
    for (var at = lane; at < TABLE; at += PIXEL_LANES * PIXEL_LANES) {
        atomicStore(&table[at], 0u);
    }
    if lane == 0u {
        atomicStore(&gathered, 0u);
        atomicStore(&numbered, 0u);
        atomicStore(&reserved, 0u);
    }
    workgroupBarrier();
    var local = 0u;
    if mine {
        local = atomicAdd(&reserved, (1u << 16u) | merged);
        for (var k = 0u; k < merged; k++) {
            put(merged_texels[k]);
        }
    }
    workgroupBarrier();
    if lane == 0u {
        crowded = select(0u, 1u, atomicLoad(&gathered) > PATCH_TEXELS);
    }
    return local;
}

// First slot probed. Probing then steps through all slots, since the texels of one column all start alike.
fn hash(texel: u32) -> u32 {
    let run = ((texel / TOGETHER) * 2654435769u) >> 16u;
    return (run * TOGETHER + texel % TOGETHER) % TABLE;
}

fn put(texel: u32) {
    var at = hash(texel);
    // The table has far more slots than texels, or there are too many rows and the table is discarded.
    while atomicLoad(&gathered) <= PATCH_TEXELS {
        let found = atomicLoad(&table[at]);
        if found == texel + 1u {
            return;
        }
        if found == 0u {
            let claimed = atomicCompareExchangeWeak(&table[at], 0u, texel + 1u);
            if claimed.exchanged {
                atomicAdd(&gathered, 1u);
                return;
            }
            // Another invocation took the slot, or the weak exchange failed: look again.
            continue;
        }
        at = (at + TOGETHER + 1u) % TABLE;
    }
}

// Numbers and lists the texels of the table. Texels in one run of slots get consecutive numbers.
fn number(lane: u32) {
    for (var run = lane; run < TABLE / TOGETHER; run += PIXEL_LANES * PIXEL_LANES) {
        var there = 0u;
        for (var step = 0u; step < TOGETHER; step++) {
            // Invocations start at different slots, in different banks of workgroup memory.
            let nth = (step + run / 4u) % TOGETHER;
            there |= select(0u, 1u << nth, atomicLoad(&table[run * TOGETHER + nth]) != 0u);
        }
        if there == 0u {
            continue;
        }
        let before = atomicAdd(&numbered, countOneBits(there));
        for (var step = 0u; step < TOGETHER; step++) {
            let nth = (step + run / 4u) % TOGETHER;
            if (there & (1u << nth)) != 0u {
                let own = before + countOneBits(there & ((1u << nth) - 1u));
                numbers[run * TOGETHER + nth] = own;
                new_words[first.word + own] = atomicLoad(&table[run * TOGETHER + nth]) - 1u;
            }
        }
    }
}

fn number_of(texel: u32) -> u32 {
    var at = hash(texel);
    while atomicLoad(&table[at]) != texel + 1u {
        at = (at + TOGETHER + 1u) % TABLE;
    }
    return numbers[at];
}

// Reserves room for what was counted, or sets NOWHERE: then the host discards the whole tile. The list of texels
// precedes the entries.
fn reserve(lane: u32, subset: u32) {
    if lane == 0u {
        let counted = atomicLoad(&reserved);
        first = Place(NOWHERE, NOWHERE, NOWHERE);
        let rows = counted >> 16u;
        let words = (counted & 0xffffu) + atomicLoad(&gathered);
        if counted != 0u {
            let patches = atomicAdd(&counters[0], 1u);
            let rows_before = atomicAdd(&counters[1], rows);
            let words_before = atomicAdd(&counters[2], words);
            if patches < room.patches && rows_before + rows <= room.rows && words_before + words <= room.words {
                first = Place(0u, room.rows - rows - atomicAdd(&counters[13], rows), room.words - words - atomicAdd(&counters[14], words));
                if subset != 0u {
                    first.patch_at = atomicAdd(&counters[5], 1u);
                    atomicAdd(&counters[6], rows);
                } else {
                    first.patch_at = room.patches - 1u - atomicAdd(&counters[7], 1u);
                }
            } else {
                atomicStore(&counters[4], 1u);
            }
        }
    }
}

// Writes the patch, and this invocation's row if it has one.
fn keep(pixel: vec2<u32>, lane: u32, mine: bool, local: u32, subset: u32, colour: u32) {
    let listed = atomicLoad(&gathered);
    if lane == 0u {
        new_patches[first.patch_at] = Patch(first.row, first.word, (atomicLoad(&reserved) >> 16u) | (listed << 16u), LISTED);
    }
    number(lane);
    workgroupBarrier();
    if mine {
        let start = first.word + listed + (local & 0xffffu);
        let shape = (merged << 6u) | (NO_BOX << 1u) | subset;
        new_rows[first.row + (local >> 16u)] = Row(start, shape, colour, place_of_row(pixel));
        for (var k = 0u; k < merged; k++) {
            new_words[start + k] = entry_of(merged_weights[k], number_of(merged_texels[k]));
        }
    }
}

// Finds where a tap hits the texture; false where it hits no triangle.
fn meets(pixel: vec2<u32>, tap: u32) -> bool {
    let sample = vec2(tap % TAPS, tap / TAPS);
    let triangle = triangle_at(nth, pixel * TAPS + sample);
    if triangle == 0u {
        return false;
    }
    if triangle != stood_on {
        stood_on = triangle;
        stand(triangle - 1u);
    }
    let point = vec2<f32>(pixel) + (vec2<f32>(sample) + 0.5) / f32(TAPS);
    let texel = surface_point((point - regions[region].centre) / regions[region].focal);
    met[tap] = clamp(texel - 0.5, vec2(0.0), vec2(f32(regions[region].texture_size - 1u)));
    let first = vec2<u32>(met[tap]);
    belongs |= regions[region].core.y == 0u || (square(first) & COARSE) == 0u;
    if regions[region].squares_at != 0u {
        shows |= visible[regions[region].squares_at + nth_square(first)];
    }
    return true;
}

fn edge_of_square() -> u32 {
    return select(SQUARE_OF_LARGE, SQUARE_OF_SMALL, regions[region].texture_size <= SMALL_TEXTURE);
}

// The entry of `squares` for a texel (window.rs).
fn square(texel: vec2<u32>) -> u32 {
    return squares[nth_square(texel)];
}

fn nth_square(texel: vec2<u32>) -> u32 {
    let edge = edge_of_square();
    let across = (regions[region].texture_size + edge - 1u) / edge;
    return (texel.y / edge) * across + texel.x / edge;
}

// Renumbers the merged texels as the window does. Texels of a coarse square become one.
fn renumber() {
    let edge = edge_of_square();
    let all = merged;
    merged = 0u;
    for (var k = 0u; k < all; k++) {
        let texel = vec2(merged_texels[k] % regions[region].texture_size, merged_texels[k] / regions[region].texture_size);
        let weight = merged_weights[k];
        let first = square(texel);
        var at = merged;
        var own = first + (texel.y % edge) * regions[region].texture_size + texel.x % edge;
        if (first & COARSE) != 0u {
            own = first & ~COARSE;
            at = 0u;
            while at < merged && merged_texels[at] != own {
                at++;
            }
        }
        if at == merged {
            merged_weights[at] = 0.0;
            merged++;
        }
        merged_texels[at] = own;
        merged_weights[at] += weight;
    }
}

// Merges the bilinear lookups of all taps into texels and weights that sum to 1.
fn merge() {
    merged = 0u;
    var low = met[0];
    var high = low;
    for (var tap = 1u; tap < TAPS * TAPS; tap++) {
        low = min(low, met[tap]);
        high = max(high, met[tap]);
    }
    let corner = floor(low);
    let span = floor(high) - corner + 2.0;
    if span.x * span.y > f32(TOGETHER_TEXELS) {
        merge_apart();
    } else {
        merge_together(corner, span);
    }
    var sum = 0.0;
    for (var k = 0u; k < merged; k++) {
        sum += merged_weights[k];
    }
    for (var k = 0u; k < merged; k++) {
        merged_weights[k] /= sum;
    }
}

// For close taps: each texel of their rectangle sums its weights over the taps.
fn merge_together(corner: vec2<f32>, span: vec2<f32>) {
    for (var y = 0.0; y < span.y; y += 1.0) {
        for (var x = 0.0; x < span.x; x += 1.0) {
            let at = corner + vec2(x, y);
            var weight = 0.0;
            for (var tap = 0u; tap < TAPS * TAPS; tap++) {
                let share = max(vec2(0.0), 1.0 - abs(met[tap] - at));
                weight += share.x * share.y;
            }
            // Drops smaller entries (footprint.rs).
            if weight >= LEAST_ENTRY * f32(TAPS * TAPS) {
                append(at, weight);
            }
        }
    }
}

fn append(at: vec2<f32>, weight: f32) {
    merged_texels[merged] = u32(at.y) * regions[region].texture_size + u32(at.x);
    merged_weights[merged] = weight;
    merged++;
}

// For distant taps, as across a seam: appends each texel at the first tap that reads it, with its weights over all
// taps. Unlike a search, no step depends on what was appended before.
fn merge_apart() {
    for (var tap = 0u; tap < TAPS * TAPS; tap++) {
        for (var k = 0u; k < 4u; k++) {
            let at = floor(met[tap]) + vec2(f32(k & 1u), f32(k >> 1u));
            var weight = 0.0;
            var before = false;
            for (var other = 0u; other < TAPS * TAPS; other++) {
                let share = max(vec2(0.0), 1.0 - abs(met[other] - at));
                weight += share.x * share.y;
                before |= other < tap && share.x * share.y > 0.0;
            }
            if weight > 0.0 && !before {
                append(at, weight);
            }
        }
    }
}

fn camera_point(vertex: u32) -> vec3<f32> {
    let point = vec4(positions[3u * vertex], positions[3u * vertex + 1u], positions[3u * vertex + 2u], 1.0);
    return vec3(dot(regions[region].row_x, point), dot(regions[region].row_y, point), dot(regions[region].row_z, point));
}

// An edge in camera axes, from the difference of its ends: transforming two far points first would lose digits.
fn camera_edge(start: u32, end: u32) -> vec3<f32> {
    let edge = vec3(
        positions[3u * end] - positions[3u * start],
        positions[3u * end + 1u] - positions[3u * start + 1u],
        positions[3u * end + 2u] - positions[3u * start + 2u],
    );
    return vec3(dot(regions[region].row_x.xyz, edge), dot(regions[region].row_y.xyz, edge), dot(regions[region].row_z.xyz, edge));
}

fn stand(triangle: u32) {
    let a = triangles[3u * triangle];
    let b = triangles[3u * triangle + 1u];
    let c = triangles[3u * triangle + 2u];
    corner_there = camera_point(a);
    edges_there = array(camera_edge(a, b), camera_edge(a, c));
    coords_there = texel_coords[a];
    coord_edges_there = array(texel_coords[b] - coords_there, texel_coords[c] - coords_there);
}

// Where the ray through `slope` (x/z, y/z) hits that triangle, in texels. o_k = (x_k − slope_x z_k, y_k − slope_y z_k)
// is the offset of corner k from the ray. The barycentric coordinates b solve Σ b_k o_k = 0, Σ b_k = 1: a 2×2 system in
// units of the triangle, exact under perspective. The homogeneous form divides differences of products of whole
// positions and loses the digits that a small triangle needs.
fn surface_point(slope: vec2<f32>) -> vec2<f32> {
    let o = corner_there.xy - slope * corner_there.z;
    let f = edges_there[0].xy - slope * edges_there[0].z;
    let g = edges_there[1].xy - slope * edges_there[1].z;
    let area = f.x * g.y - f.y * g.x;
    var share = vec2(0.0);
    if abs(area) > 0.0 {
        share = vec2(g.x * o.y - g.y * o.x, f.y * o.x - f.x * o.y) / area;
    }
    // The rasteriser snaps corners to a grid of 1/256 pixel. A sample may fall just outside, and on a sliver that is
    // far.
    share = clamp(share, vec2(0.0), vec2(1.0));
    share /= max(1.0, share.x + share.y);
    return coords_there + share.x * coord_edges_there[0] + share.y * coord_edges_there[1];
}
