// Sums of all numbers before each, over the lanes of a workgroup.

var<workgroup> lane_sums: array<u32, SPLAT_LANES>;

// The sum of the numbers of the lanes before this one, and that of all lanes.
fn before_lane(lane: u32, own: u32) -> vec2<u32> {
    var sum = own;
    lane_sums[lane] = sum;
    workgroupBarrier();
    for (var step = 1u; step < SPLAT_LANES; step *= 2u) {
        if lane >= step {
            sum += lane_sums[lane - step];
        }
        workgroupBarrier();
        lane_sums[lane] = sum;
        workgroupBarrier();
    }
    let all = lane_sums[SPLAT_LANES - 1u];
    // Before the next call overwrites them.
    workgroupBarrier();
    return vec2(sum - own, all);
}

// Replaces `count` numbers of `sums` from `first` by the sums of those before each; returns the sum of all.
fn sum_up(first: u32, count: u32, lane: u32) -> u32 {
    var all = 0u;
    for (var start = 0u; start < count; start += SPLAT_LANES * SUMMED_EACH) {
        let place = start + lane * SUMMED_EACH;
        var own = array<u32, SUMMED_EACH>();
        var sum = 0u;
        for (var k = 0u; k < SUMMED_EACH; k++) {
            if place + k < count {
                own[k] = sums[first + place + k];
                sum += own[k];
            }
        }
        let there = before_lane(lane, sum);
        var next = all + there.x;
        for (var k = 0u; k < SUMMED_EACH; k++) {
            if place + k < count {
                sums[first + place + k] = next;
                next += own[k];
            }
        }
        all += there.y;
    }
    return all;
}
