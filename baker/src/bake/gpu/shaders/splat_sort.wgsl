// Sorts pairs of a key and a number by one digit of the key; pairs of one digit keep their order. One digit after the
// other, from the lowest, sorts by the whole key.
//
// A workgroup takes a block of consecutive pairs, and an invocation some consecutive ones of these. Every pair's new
// place is known from the sums of the digits in all blocks before, in the lanes before, and before it in its own lane.

@group(1) @binding(0) var<uniform> sorting: SplatSorting;
// The number of pairs.
@group(1) @binding(1) var<storage, read> total: array<u32>;
@group(1) @binding(2) var<storage, read> pairs: array<vec2<u32>>;
@group(1) @binding(3) var<storage, read_write> sorted: array<vec2<u32>>;
// Of each digit (DIGITS), of each block: pairs; later, pairs in the blocks before. Then all pairs of each digit.
@group(1) @binding(4) var<storage, read_write> sums: array<u32>;

const BLOCK_PAIRS: u32 = SPLAT_LANES * SORTED_EACH;

fn digit_of(key: u32) -> u32 {
    return (key >> sorting.shift) & (DIGITS - 1u);
}

fn blocks() -> u32 {
    return (total[0] + BLOCK_PAIRS - 1u) / BLOCK_PAIRS;
}

// The workgroup's counters; of each digit there are several, so that few lanes wait for one.
const COPIES: u32 = 16u;
var<workgroup> counted: array<atomic<u32>, DIGITS * COPIES>;

@compute @workgroup_size(SPLAT_LANES)
fn count_digits(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var k = lane; k < DIGITS * COPIES; k += SPLAT_LANES) {
        atomicStore(&counted[k], 0u);
    }
    workgroupBarrier();
    let count = total[0];
    for (var k = 0u; k < SORTED_EACH; k++) {
        let at = group.x * BLOCK_PAIRS + k * SPLAT_LANES + lane;
        if at < count {
            atomicAdd(&counted[digit_of(pairs[at].x) * COPIES + lane % COPIES], 1u);
        }
    }
    workgroupBarrier();
    if lane < DIGITS && group.x < blocks() {
        var sum = 0u;
        for (var k = 0u; k < COPIES; k++) {
            sum += atomicLoad(&counted[lane * COPIES + k]);
        }
        sums[lane * blocks() + group.x] = sum;
    }
}

// A workgroup for each digit.
@compute @workgroup_size(SPLAT_LANES)
fn sum_digits(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let all = sum_up(group.x * blocks(), blocks(), lane);
    if lane == 0u {
        sums[DIGITS * blocks() + group.x] = all;
    }
}

// Pairs of each digit in each lane, then those in the lanes before: digit d in the lower half of word d, digit d + 8 in
// the upper. A block has fewer than 2¹⁶.
const HALF_DIGITS: u32 = DIGITS / 2u;
var<workgroup> in_lane: array<u32, HALF_DIGITS * SPLAT_LANES>;
// Where the block's pairs of each digit go.
var<workgroup> starts: array<u32, DIGITS>;

// Lanes that one lane sums, and lanes that sum one word.
const RUN: u32 = HALF_DIGITS;
const RUNS: u32 = SPLAT_LANES / HALF_DIGITS;

fn sum_lanes(lane: u32) {
    let first = lane / RUNS * SPLAT_LANES + lane % RUNS * RUN;
    var own = 0u;
    for (var k = 0u; k < RUN; k++) {
        own += in_lane[first + k];
    }
    var sum = own;
    lane_sums[lane] = sum;
    workgroupBarrier();
    for (var step = 1u; step < RUNS; step *= 2u) {
        if lane % RUNS >= step {
            sum += lane_sums[lane - step];
        }
        workgroupBarrier();
        lane_sums[lane] = sum;
        workgroupBarrier();
    }
    var before = sum - own;
    for (var k = 0u; k < RUN; k++) {
        let there = in_lane[first + k];
        in_lane[first + k] = before;
        before += there;
    }
}

@compute @workgroup_size(SPLAT_LANES)
fn scatter(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let count = total[0];
    for (var word = 0u; word < HALF_DIGITS; word++) {
        in_lane[word * SPLAT_LANES + lane] = 0u;
    }
    if lane < DIGITS && group.x < blocks() {
        var start = sums[lane * blocks() + group.x];
        for (var digit = 0u; digit < lane; digit++) {
            start += sums[DIGITS * blocks() + digit];
        }
        starts[lane] = start;
    }
    let first = group.x * BLOCK_PAIRS + lane * SORTED_EACH;
    var own = array<vec2<u32>, SORTED_EACH>();
    // A lane has its own words, so none waits for another.
    for (var k = 0u; k < SORTED_EACH; k++) {
        if first + k < count {
            own[k] = pairs[first + k];
            let digit = digit_of(own[k].x);
            in_lane[digit % HALF_DIGITS * SPLAT_LANES + lane] += 1u << (digit / HALF_DIGITS * 16u);
        }
    }
    workgroupBarrier();
    sum_lanes(lane);
    workgroupBarrier();
    for (var k = 0u; k < SORTED_EACH; k++) {
        if first + k < count {
            let digit = digit_of(own[k].x);
            let half = digit / HALF_DIGITS * 16u;
            let word = digit % HALF_DIGITS * SPLAT_LANES + lane;
            let before = (in_lane[word] >> half) & 0xffffu;
            in_lane[word] += 1u << half;
            sorted[starts[digit] + before] = own[k];
        }
    }
}
