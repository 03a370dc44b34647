// Triangle of each sample → the texels that make a pixel, merged: native twin footprint.rs.
//
// Rows of the subset (subset.rs) and others make patches of their own, from either end of the room for them.
//
// Patches are appended in whatever order workgroups get there, and their texels are numbered in whatever order invocations do:
// whoever reads them sums integers or keeps to one row, so the order shows in no result. One workgroup is 8×8 pixels, which
// make one patch, or several where they touch too many texels.

@group(1) @binding(0) var<uniform> tile: Tile;
@group(1) @binding(1) var<storage, read> positions: array<f32>;
@group(1) @binding(2) var<storage, read> triangles: array<u32>;
@group(1) @binding(3) var<storage, read> texel_coords: array<vec2<f32>>;
@group(1) @binding(4) var<storage, read> pixels: array<u32>;
// Patches, rows, entries, texels; 1 where something did not fit; and patches of the subset, their rows, and other patches.
@group(1) @binding(6) var<storage, read_write> counters: array<atomic<u32>, 8>;
// How many of each there is room for.
@group(1) @binding(7) var<uniform> room: Pool;
@group(1) @binding(8) var<storage, read_write> new_patches: array<Patch>;
@group(1) @binding(9) var<storage, read_write> new_rows: array<Row>;
@group(1) @binding(10) var<storage, read_write> new_entries: array<u32>;
@group(1) @binding(11) var<storage, read_write> new_touched: array<u32>;

// Places in the table of texels: four times as many as a patch may touch.
const TABLE: u32 = 4u * PATCH_TEXELS;
const NOWHERE: u32 = 0xffffffffu;
// Rows whose texels fit a patch, whatever they are.
const FEW_ROWS: u32 = max(1u, PATCH_TEXELS / (4u * TAPS * TAPS));

// Rows in the upper half, entries in the lower: 64 rows of 4·TAPS² entries fit.
var<workgroup> reserved: atomic<u32>;
var<workgroup> drawn: atomic<u32>;
// Bit 0 if any pixel has a row that is not of the subset, bit 1 if any has one that is.
var<workgroup> wanted: atomic<u32>;
// Texel + 1, or 0; and its number.
var<workgroup> table: array<atomic<u32>, TABLE>;
var<workgroup> numbers: array<u32, TABLE>;
var<workgroup> numbered: atomic<u32>;
var<workgroup> crowded: u32;
var<workgroup> first: Pool;

var<private> merged_texels: array<u32, 4 * TAPS * TAPS>;
var<private> merged_weights: array<f32, 4 * TAPS * TAPS>;
var<private> merged: u32;

@compute @workgroup_size(PIXEL_LANES, PIXEL_LANES)
fn footprint(
    @builtin(global_invocation_id) pixel_at: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    merged = 0u;
    let pixel = pixel_at.xy;
    var colour = 0u;
    var valid = all(pixel < tile.size);
    if valid && was_drawn(pixel * TAPS) {
        atomicAdd(&drawn, 1u);
    }
    if valid {
        colour = pixels[pixel.y * tile.size.x + pixel.x];
        valid = (colour >> 24u) >= MIN_ALPHA;
    }
    for (var tap = 0u; valid && tap < TAPS * TAPS; tap++) {
        let sample = vec2(tap % TAPS, tap / TAPS);
        valid = add_sample(pixel, sample);
    }
    let own_kind = u32(valid && in_subset());
    if valid {
        atomicOr(&wanted, 1u << own_kind);
    }
    workgroupBarrier();
    if lane == 0u {
        atomicAdd(&tally, atomicLoad(&drawn));
        crowded = atomicLoad(&wanted);
    }
    let kinds = workgroupUniformLoad(&crowded);
    for (var kind = 0u; kind < 2u; kind++) {
        if (kinds & (1u << kind)) == 0u {
            continue;
        }
        // All rows at once where their texels fit a patch, else half as many, down to what fits anyway.
        var start = 0u;
        var at_once = PIXEL_LANES * PIXEL_LANES;
        while start < PIXEL_LANES * PIXEL_LANES {
            let mine = valid && own_kind == kind && lane >= start && lane < start + at_once;
            let local = gather(lane, mine);
            if workgroupUniformLoad(&crowded) != 0u {
                at_once = max(at_once / 2u, FEW_ROWS);
                continue;
            }
            reserve(lane, kind == 1u);
            if workgroupUniformLoad(&first).patches != NOWHERE {
                keep(pixel, lane, mine, local, colour);
            }
            // The table is emptied next.
            workgroupBarrier();
            start += at_once;
        }
    }
}

// As subset.rs has it, by the first of the row's texels.
fn in_subset() -> bool {
    var texel = merged_texels[0];
    for (var k = 1u; k < merged; k++) {
        texel = min(texel, merged_texels[k]);
    }
    let edge = (tile.texture_size + SQUARES - 1u) / SQUARES;
    let column = texel % tile.texture_size / edge;
    let row = texel / tile.texture_size / edge;
    return (column + 3u * row) % ONE_IN == 0u;
}

// Numbers the texels of some rows, each once, and counts rows and entries. Returns what came before in both counts.
fn gather(lane: u32, mine: bool) -> u32 {
    for (var at = lane; at < TABLE; at += PIXEL_LANES * PIXEL_LANES) {
        atomicStore(&table[at], 0u);
    }
    if lane == 0u {
        atomicStore(&numbered, 0u);
        atomicStore(&reserved, 0u);
    }
    workgroupBarrier();
    var local = 0u;
    if mine {
        local = atomicAdd(&reserved, (1u << 16u) | merged);
        for (var k = 0u; k < merged; k++) {
            number(merged_texels[k]);
        }
    }
    workgroupBarrier();
    if lane == 0u {
        crowded = select(0u, 1u, atomicLoad(&numbered) > PATCH_TEXELS);
    }
    return local;
}

fn hash(texel: u32) -> u32 {
    return ((texel * 2654435769u) >> 16u) % TABLE;
}

fn number(texel: u32) {
    var at = hash(texel);
    // Far fewer texels than places, or the rows are too many and the table is of no use.
    while atomicLoad(&numbered) <= PATCH_TEXELS {
        let found = atomicLoad(&table[at]);
        if found == texel + 1u {
            return;
        }
        if found == 0u {
            let claimed = atomicCompareExchangeWeak(&table[at], 0u, texel + 1u);
            if claimed.exchanged {
                numbers[at] = atomicAdd(&numbered, 1u);
                return;
            }
            // Another's texel, the same one, or nothing after all: look again.
            continue;
        }
        at = (at + 1u) % TABLE;
    }
}

fn number_of(texel: u32) -> u32 {
    var at = hash(texel);
    while atomicLoad(&table[at]) != texel + 1u {
        at = (at + 1u) % TABLE;
    }
    return numbers[at];
}

// Room for what was counted, or NOWHERE: then the host takes back the whole tile.
fn reserve(lane: u32, subset: bool) {
    if lane == 0u {
        let counted = atomicLoad(&reserved);
        first = Pool(NOWHERE, 0u, 0u, 0u);
        let texels = atomicLoad(&numbered);
        if counted != 0u {
            let at = Pool(
                atomicAdd(&counters[0], 1u),
                atomicAdd(&counters[1], counted >> 16u),
                atomicAdd(&counters[2], counted & 0xffffu),
                atomicAdd(&counters[3], texels),
            );
            if at.patches < room.patches && at.rows + (counted >> 16u) <= room.rows
                && at.entries + (counted & 0xffffu) <= room.entries && at.texels + texels <= room.texels {
                first = at;
                if subset {
                    first.patches = atomicAdd(&counters[5], 1u);
                    atomicAdd(&counters[6], counted >> 16u);
                } else {
                    first.patches = room.patches - 1u - atomicAdd(&counters[7], 1u);
                }
            } else {
                atomicStore(&counters[4], 1u);
            }
        }
    }
}

// Writes the patch, and the row of this invocation if it has one.
fn keep(pixel: vec2<u32>, lane: u32, mine: bool, local: u32, colour: u32) {
    if lane == 0u {
        let block = (tile.origin + pixel) / BLOCK;
        new_patches[first.patches] = Patch(
            first.rows,
            first.entries,
            first.texels,
            (atomicLoad(&reserved) >> 16u) | (atomicLoad(&numbered) << 16u),
            tile.view,
            tile.first_block,
            tile.blocks,
            block.x | (block.y << 16u),
        );
    }
    for (var at = lane; at < TABLE; at += PIXEL_LANES * PIXEL_LANES) {
        let texel = atomicLoad(&table[at]);
        if texel != 0u {
            new_touched[first.texels + numbers[at]] = texel - 1u;
        }
    }
    if mine {
        let start = local & 0xffffu;
        let within = (pixel.y % BLOCK) * BLOCK + pixel.x % BLOCK;
        new_rows[first.rows + (local >> 16u)] = Row((start << 14u) | (within << 8u) | merged, colour);
        for (var k = 0u; k < merged; k++) {
            let weight = i32(round(merged_weights[k] / WEIGHT_STEP));
            new_entries[first.entries + start + k] = (bitcast<u32>(weight) << 10u) | number_of(merged_texels[k]);
        }
    }
}

// Adds one tap; false where it hits nothing.
fn add_sample(pixel: vec2<u32>, sample: vec2<u32>) -> bool {
    let triangle = triangle_at(pixel * TAPS + sample);
    if triangle == 0u {
        return false;
    }
    let point = vec2<f32>(pixel) + (vec2<f32>(sample) + 0.5) / f32(TAPS);
    let texel = surface_point(triangle - 1u, (point - tile.centre) / tile.focal);
    let corner = floor(texel - 0.5);
    let share = texel - 0.5 - corner;
    let scale = 1.0 / f32(TAPS * TAPS);
    add(corner, (1.0 - share.x) * (1.0 - share.y) * scale);
    add(corner + vec2(1.0, 0.0), share.x * (1.0 - share.y) * scale);
    add(corner + vec2(0.0, 1.0), (1.0 - share.x) * share.y * scale);
    add(corner + vec2(1.0, 1.0), share.x * share.y * scale);
    return true;
}

fn camera_point(vertex: u32) -> vec3<f32> {
    let point = vec4(positions[3u * vertex], positions[3u * vertex + 1u], positions[3u * vertex + 2u], 1.0);
    return vec3(dot(tile.row_x, point), dot(tile.row_y, point), dot(tile.row_z, point));
}

// An edge in camera axes, from the difference of its ends and not the difference of two far points.
fn camera_edge(start: u32, end: u32) -> vec3<f32> {
    let edge = vec3(
        positions[3u * end] - positions[3u * start],
        positions[3u * end + 1u] - positions[3u * start + 1u],
        positions[3u * end + 2u] - positions[3u * start + 2u],
    );
    return vec3(dot(tile.row_x.xyz, edge), dot(tile.row_y.xyz, edge), dot(tile.row_z.xyz, edge));
}

// Where the ray through `slope` (x/z, y/z) meets the triangle, in texels. With o_k = (x_k − slope_x z_k, y_k − slope_y z_k),
// the offset of corner k from the ray across it, the barycentric coordinates b solve Σ b_k o_k = 0, Σ b_k = 1: a 2×2 system in
// units of the triangle, exact under perspective. The homogeneous form divides differences of products of whole positions
// and loses the digits that a small triangle needs.
fn surface_point(triangle: u32, slope: vec2<f32>) -> vec2<f32> {
    let a = triangles[3u * triangle];
    let b = triangles[3u * triangle + 1u];
    let c = triangles[3u * triangle + 2u];
    let corner = camera_point(a);
    let to_b = camera_edge(a, b);
    let to_c = camera_edge(a, c);
    let o = corner.xy - slope * corner.z;
    let f = to_b.xy - slope * to_b.z;
    let g = to_c.xy - slope * to_c.z;
    let area = f.x * g.y - f.y * g.x;
    var share = vec2(0.0);
    if abs(area) > 0.0 {
        share = vec2(g.x * o.y - g.y * o.x, f.y * o.x - f.x * o.y) / area;
    }
    // The rasteriser's corners lie on a grid of 1/256 pixel: a sample may fall just outside, and on a sliver that is far.
    share = clamp(share, vec2(0.0), vec2(1.0));
    share /= max(1.0, share.x + share.y);
    let at = texel_coords[a];
    return at + share.x * (texel_coords[b] - at) + share.y * (texel_coords[c] - at);
}

fn add(corner: vec2<f32>, weight: f32) {
    if weight == 0.0 {
        return;
    }
    let place = vec2<u32>(clamp(corner, vec2(0.0), vec2(f32(tile.texture_size - 1u))));
    let texel = place.y * tile.texture_size + place.x;
    // The latest texels first: the next tap most often shares them.
    for (var k = merged; k > 0u; k--) {
        if merged_texels[k - 1u] == texel {
            merged_weights[k - 1u] += weight;
            return;
        }
    }
    merged_texels[merged] = texel;
    merged_weights[merged] = weight;
    merged++;
}
