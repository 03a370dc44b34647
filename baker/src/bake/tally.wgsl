// The completion sentinel: work that was really done. The host counts what it asks for and believes nothing that it reads back
// unless both agree; a driver that drops a dispatch, a draw or a submission, or ends one early, is found out so.

// Their sum is what counts. Each lies apart from the others: workgroups that all add to one word wait for each other.
@group(0) @binding(0) var<storage, read_write> tally: array<atomic<u32>, TALLY_WORDS>;

// A workgroup's work, the `index`-th of many.
fn count_units(index: u32, units: u32) {
    atomicAdd(&tally[index * TALLY_STRIDE % TALLY_WORDS], units);
}

// Once for each workgroup over texels.
fn count_group(lane: u32) {
    if lane == 0u {
        count_units(0u, 1u);
    }
}
