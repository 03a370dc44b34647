// The completion sentinel: counts the work that was really done. The host counts what it asks for and discards a result
// unless both counts agree. This detects a driver that drops a dispatch, a draw or a submission, or ends one early.

// Their sum is the count. Counters lie a stride apart, because workgroups that add to one word wait for each other.
@group(0) @binding(0) var<storage, read_write> tally: array<atomic<u32>, TALLY_WORDS>;

// Counts the work of the `index`-th workgroup.
fn count_units(index: u32, units: u32) {
    atomicAdd(&tally[index * TALLY_STRIDE % TALLY_WORDS], units);
}

// Counts one unit for each workgroup over texels.
fn count_group(lane: u32) {
    if lane == 0u {
        count_units(0u, 1u);
    }
}
