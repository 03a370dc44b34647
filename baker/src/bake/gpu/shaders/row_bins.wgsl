// Sorts rows with a box by the bin where their box begins, and makes patches over them. A row bin is a square of
// ROW_BIN² texels. Rows of the subset have bins of their own. Rows and bins come in any order, since passes over them
// sum integers.
//
// Resident rows are moved into that order through a second set of buffers. Redrawn rows are visited through `order`.

@group(1) @binding(0) var<uniform> ordering: Ordering;
@group(1) @binding(1) var<storage, read> rows: array<Row>;
// For each bin (the subset's first) and box size: first its number of rows, then where they begin in the order, then
// where the next one goes.
@group(1) @binding(2) var<storage, read_write> keys: array<atomic<u32>>;
// The pool's counters. Here 9 counts rows in order, 10 and 11 patches of the subset and others, 12 words moved.
@group(1) @binding(3) var<storage, read_write> counters: array<atomic<u32>, 16>;
@group(1) @binding(4) var<storage, read_write> row_bins: array<Patch>;
@group(1) @binding(5) var<storage, read_write> order: array<u32>;
@group(1) @binding(6) var<storage, read> words: array<u32>;
@group(1) @binding(7) var<storage, read_write> new_rows: array<Row>;
@group(1) @binding(8) var<storage, read_write> new_words: array<u32>;

// Ranks rows by box size, so that consecutive rows have similar boxes and the invocations of a wave finish together.
fn key_of(row: u32) -> u32 {
    let shape = rows[row].shape;
    let size = size_of(shape);
    let texels = size.x * size.y;
    let rank = u32(texels > 9u) + u32(texels > 12u) + u32(texels > 16u);
    let row_bin = row_bin_of(shape) + select(ordering.row_bins, 0u, (shape & 1u) != 0u);
    return row_bin * RANKS + rank;
}

@compute @workgroup_size(TEXEL_LANES)
fn count_boxes(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var row = at.x; row < ordering.rows; row += ordering.row_stride) {
        atomicAdd(&keys[key_of(row)], 1u);
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn lay_out(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var key = at.x; key < 2u * ordering.row_bins; key += ordering.row_bin_stride) {
        var there = 0u;
        for (var rank = 0u; rank < RANKS; rank++) {
            there += atomicLoad(&keys[key * RANKS + rank]);
        }
        if there == 0u {
            continue;
        }
        let start = atomicAdd(&counters[9], there);
        var next = start;
        for (var rank = 0u; rank < RANKS; rank++) {
            let own = atomicLoad(&keys[key * RANKS + rank]);
            atomicStore(&keys[key * RANKS + rank], next);
            next += own;
        }
        let count = (there + ROW_BIN_MOST - 1u) / ROW_BIN_MOST;
        let row_bin = key % ordering.row_bins;
        let corner = ROW_BIN * (row_bin / ordering.across * ordering.size + row_bin % ordering.across);
        var first = 0u;
        if key < ordering.row_bins {
            first = atomicAdd(&counters[10], count);
        } else {
            first = ordering.room - count - atomicAdd(&counters[11], count);
        }
        for (var nth = 0u; nth < count; nth++) {
            // If the room does not suffice, the host enlarges it and starts over.
            if first + nth < ordering.room {
                row_bins[first + nth] = Patch(start + nth * ROW_BIN_MOST, corner, min(ROW_BIN_MOST, there - nth * ROW_BIN_MOST), ROW_BIN_ROWS);
            }
        }
    }
}

@compute @workgroup_size(TEXEL_LANES)
fn put_in_order(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var row = at.x; row < ordering.rows; row += ordering.row_stride) {
        let at = atomicAdd(&keys[key_of(row)], 1u);
        order[at] = row;
    }
}

// Words of the workgroup's rows, and where they go.
var<workgroup> moved: atomic<u32>;
var<workgroup> first_word: u32;

@compute @workgroup_size(TEXEL_LANES)
fn move_rows(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let turns = (ordering.rows + ordering.row_stride - 1u) / ordering.row_stride;
    for (var turn = 0u; turn < turns; turn++) {
        if lane == 0u {
            atomicStore(&moved, 0u);
        }
        workgroupBarrier();
        let to = turn * ordering.row_stride + group.x * TEXEL_LANES + lane;
        let there = to < ordering.rows;
        var row = Row(0u, 0u, 0u, 0u);
        var count = 0u;
        var local = 0u;
        if there {
            row = rows[order[to]];
            let size = size_of(row.shape);
            count = (size.x * size.y + 1u) / 2u;
            local = atomicAdd(&moved, count);
        }
        workgroupBarrier();
        if lane == 0u {
            first_word = atomicAdd(&counters[12], atomicLoad(&moved));
        }
        workgroupBarrier();
        if there {
            let start = first_word + local;
            new_rows[to] = Row(start, row.shape, row.colour, row.place);
            for (var k = 0u; k < count; k++) {
                new_words[start + k] = words[row.start + k];
            }
        }
        workgroupBarrier();
    }
}
