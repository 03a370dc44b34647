// Triangle of each sample → the texels that make a pixel, merged: native twin footprint.rs.
//
// A pixel whose texels lie in a small box is written as that box, for plots.wgsl to order by where it lies. The others of a
// workgroup's 8×8 pixels make one patch, or several where they touch too many texels; those of the subset (subset.rs) and others
// make patches of their own, from either end of the room for them. Boxes have the beginning of the room for rows and words, the others
// its end.
//
// Rows and patches are appended in whatever order workgroups get there, and their texels are numbered in whatever order invocations
// do: whoever reads them sums integers or keeps to one row, so the order shows in no result.

@group(1) @binding(0) var<uniform> regions: array<Region, REGIONS>;
@group(1) @binding(1) var<storage, read> positions: array<f32>;
@group(1) @binding(2) var<storage, read> triangles: array<u32>;
@group(1) @binding(3) var<storage, read> texel_coords: array<vec2<f32>>;
@group(1) @binding(4) var<storage, read> pixels: array<u32>;
// Patches, rows, words; rows with a box; 1 where something did not fit; patches of the subset, rows of it, and other patches; words of
// boxes; 13 and 14, rows and words of the others. The rest is of plots.wgsl.
@group(1) @binding(6) var<storage, read_write> counters: array<atomic<u32>, 16>;
// How many of each there is room for.
@group(1) @binding(7) var<uniform> room: Pool;
@group(1) @binding(8) var<storage, read_write> new_patches: array<Patch>;
@group(1) @binding(9) var<storage, read_write> new_rows: array<Row>;
@group(1) @binding(10) var<storage, read_write> new_words: array<u32>;
// Where the squares of the texture are in the window, see window.rs; not read where it is all of the texture.
@group(1) @binding(11) var<storage, read> squares: array<u32>;
// Of each block of all views, which windows it shows anything of; then, of each square of the texture, which windows have it:
// see gpu/marks.rs. Neither read nor written where `regions[region].squares_at` is 0.
@group(1) @binding(12) var<storage, read_write> marks: array<u32>;
// Of each block that is listed its column and line in its region, twelve bits each, and that region; then what nearest.wgsl reads.
@group(1) @binding(13) var<storage, read> places: array<u32>;

// Places in the table of texels, a power of two: twice as many as a patch may touch. Eight texels that lie together across share eight
// places, as they share what a device reads at once.
const TABLE: u32 = 512u;
const TOGETHER: u32 = 8u;
const NOWHERE: u32 = 0xffffffffu;
// Rows whose texels fit a patch, whatever they are.
const FEW_ROWS: u32 = max(1u, PATCH_TEXELS / (4u * TAPS * TAPS));

// Rows in the upper half, entries in the lower: 64 rows of 4·TAPS² entries fit.
var<workgroup> reserved: atomic<u32>;
var<workgroup> drawn: atomic<u32>;
// Bit 0 if any pixel has a row that is not of the subset, bit 1 if any has one that is.
var<workgroup> wanted: atomic<u32>;
// Windows that any pixel shows something of.
var<workgroup> shown: atomic<u32>;
// Texel + 1, or 0; and its number, once all are there.
var<workgroup> table: array<atomic<u32>, TABLE>;
var<workgroup> numbers: array<u32, TABLE>;
// Texels in the table, and those that have a number.
var<workgroup> gathered: atomic<u32>;
var<workgroup> numbered: atomic<u32>;
var<workgroup> crowded: u32;
var<workgroup> first: Place;

// Rows with a box in the upper half, words of those in the lower; and rows of the subset among them.
var<workgroup> boxes: atomic<u32>;
var<workgroup> boxes_of_subset: atomic<u32>;
var<workgroup> first_box: Place;

// Where a patch, its rows and its words begin; NOWHERE if there is no room for them.
struct Place {
    patch_at: u32,
    row: u32,
    word: u32,
}

// The block, by its place among those that are listed.
var<private> nth: u32;
var<private> merged_texels: array<u32, 4 * TAPS * TAPS>;
var<private> merged_weights: array<f32, 4 * TAPS * TAPS>;
var<private> merged: u32;
// The box around the merged texels: where it begins, its size, and its weights line by line.
var<private> box_corner: vec2<u32>;
var<private> box_size: vec2<u32>;
var<private> box_weights: array<f32, BOX * BOX>;
// Whether any tap meets a square of the window's own.
var<private> belongs: bool;
// Windows of whose squares any tap meets one.
var<private> shows: u32;

// Of each tap, where it meets the texture: in texels from the middle of the first, clamped to the edge.
var<private> met: array<vec2<f32>, TAPS * TAPS>;

// The triangle of the last tap, 1 more: a corner and the edges from it, in camera axes and in texels.
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
    // A workgroup is a block.
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
            marks[regions[region].first_block + block.y * (regions[region].blocks & 0xffffu) + block.x] = atomicLoad(&shown);
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
        // All rows at once where their texels fit a patch, else half as many, down to what fits anyway.
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
            // The table is emptied next.
            workgroupBarrier();
            start += at_once;
        }
    }
}

// The least box around the row's texels, and whether a plot takes it.
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
    return all(box_size <= vec2(BOX)) && plot() < PLOTS;
}

// The plot that the box begins in.
fn plot() -> u32 {
    let across = (regions[region].texture_size + PLOT - 1u) / PLOT;
    return box_corner.y / PLOT * across + box_corner.x / PLOT;
}

// Room for the rows with a box, or NOWHERE: then the host takes back the whole tile.
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

// Writes the row of this invocation, which has a box: weights in whole steps that sum to as many as 1 has.
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
    let corner = box_corner % PLOT;
    let shape = (plot() << 14u) | ((corner.y * PLOT + corner.x) << 6u) | (box_of(box_size) << 1u) | subset;
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

// Its block among those of all views, and its pixel within that.
fn place_of_row(pixel: vec2<u32>) -> u32 {
    let block = (regions[region].origin + pixel) / BLOCK;
    let nth = regions[region].first_block + block.y * (regions[region].blocks & 0xffffu) + block.x;
    return (nth << 6u) | ((pixel.y % BLOCK) * BLOCK + pixel.x % BLOCK);
}

// As window.rs has it, by the first of the row's texels.
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

// Numbers the texels of some rows, each once, and counts rows and entries. Returns what came before in both counts.
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

// Where a texel is looked for first; after that, step by step, everywhere: texels of one column all begin alike.
fn hash(texel: u32) -> u32 {
    let run = ((texel / TOGETHER) * 2654435769u) >> 16u;
    return (run * TOGETHER + texel % TOGETHER) % TABLE;
}

fn put(texel: u32) {
    var at = hash(texel);
    // Far fewer texels than places, or the rows are too many and the table is of no use.
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
            // Another's texel, the same one, or nothing after all: look again.
            continue;
        }
        at = (at + TOGETHER + 1u) % TABLE;
    }
}

// Numbers the texels of the table, those that lie together one after the other, and lists them.
fn number(lane: u32) {
    for (var run = lane; run < TABLE / TOGETHER; run += PIXEL_LANES * PIXEL_LANES) {
        var there = 0u;
        for (var step = 0u; step < TOGETHER; step++) {
            // Invocations begin at different places, in different banks of this memory.
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

// Room for what was counted, or NOWHERE: then the host takes back the whole tile. The list of texels comes before the entries.
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

// Writes the patch, and the row of this invocation if it has one.
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

// Where a tap meets the texture; false where it hits nothing.
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
        shows |= marks[regions[region].squares_at + nth_square(first)];
    }
    return true;
}

// Edge of a square of the texture in texels.
fn edge_of_square() -> u32 {
    return select(SQUARE_OF_LARGE, SQUARE_OF_SMALL, regions[region].texture_size <= SMALL_TEXTURE);
}

// Of the square that a texel is in, see window.rs.
fn square(texel: vec2<u32>) -> u32 {
    return squares[nth_square(texel)];
}

fn nth_square(texel: vec2<u32>) -> u32 {
    let edge = edge_of_square();
    let across = (regions[region].texture_size + edge - 1u) / edge;
    return (texel.y / edge) * across + texel.x / edge;
}

// Numbers the merged texels as the window does; those of one square may be one.
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

// Taps → texels and their weights: the bilinear lookups of all, merged, and their sum 1.
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

// For taps that lie together: each texel of the window sums what they give it.
fn merge_together(corner: vec2<f32>, span: vec2<f32>) {
    for (var y = 0.0; y < span.y; y += 1.0) {
        for (var x = 0.0; x < span.x; x += 1.0) {
            let at = corner + vec2(x, y);
            var weight = 0.0;
            for (var tap = 0u; tap < TAPS * TAPS; tap++) {
                let share = max(vec2(0.0), 1.0 - abs(met[tap] - at));
                weight += share.x * share.y;
            }
            // None of less than counts, see footprint.rs.
            if weight >= LEAST_ENTRY * f32(TAPS * TAPS) {
                append(at, weight);
            }
        }
    }
}

// A texel and its weight, in taps.
fn append(at: vec2<f32>, weight: f32) {
    merged_texels[merged] = u32(at.y) * regions[region].texture_size + u32(at.x);
    merged_weights[merged] = weight;
    merged++;
}

// For taps far apart, as across a seam: each texel of a tap's own is appended with the first tap that meets it, and with what all
// of them give it. Nothing waits for what was appended before, as a search for it would.
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

// An edge in camera axes, from the difference of its ends and not the difference of two far points.
fn camera_edge(start: u32, end: u32) -> vec3<f32> {
    let edge = vec3(
        positions[3u * end] - positions[3u * start],
        positions[3u * end + 1u] - positions[3u * start + 1u],
        positions[3u * end + 2u] - positions[3u * start + 2u],
    );
    return vec3(dot(regions[region].row_x.xyz, edge), dot(regions[region].row_y.xyz, edge), dot(regions[region].row_z.xyz, edge));
}

// The triangle that the next taps meet.
fn stand(triangle: u32) {
    let a = triangles[3u * triangle];
    let b = triangles[3u * triangle + 1u];
    let c = triangles[3u * triangle + 2u];
    corner_there = camera_point(a);
    edges_there = array(camera_edge(a, b), camera_edge(a, c));
    coords_there = texel_coords[a];
    coord_edges_there = array(texel_coords[b] - coords_there, texel_coords[c] - coords_there);
}

// Where the ray through `slope` (x/z, y/z) meets that triangle, in texels. With o_k = (x_k − slope_x z_k, y_k − slope_y z_k),
// the offset of corner k from the ray across it, the barycentric coordinates b solve Σ b_k o_k = 0, Σ b_k = 1: a 2×2 system in
// units of the triangle, exact under perspective. The homogeneous form divides differences of products of whole positions
// and loses the digits that a small triangle needs.
fn surface_point(slope: vec2<f32>) -> vec2<f32> {
    let o = corner_there.xy - slope * corner_there.z;
    let f = edges_there[0].xy - slope * edges_there[0].z;
    let g = edges_there[1].xy - slope * edges_there[1].z;
    let area = f.x * g.y - f.y * g.x;
    var share = vec2(0.0);
    if abs(area) > 0.0 {
        share = vec2(g.x * o.y - g.y * o.x, f.y * o.x - f.x * o.y) / area;
    }
    // The rasteriser's corners lie on a grid of 1/256 pixel: a sample may fall just outside, and on a sliver that is far.
    share = clamp(share, vec2(0.0), vec2(1.0));
    share /= max(1.0, share.x + share.y);
    return coords_there + share.x * coord_edges_there[0] + share.y * coord_edges_there[1];
}
