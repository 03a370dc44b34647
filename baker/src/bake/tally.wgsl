// The completion sentinel: work that was really done. The host counts what it asks for and believes nothing that it reads back
// unless both agree; a driver that drops a dispatch, a draw or a submission, or ends one early, is found out so.

@group(0) @binding(0) var<storage, read_write> tally: atomic<u32>;

// Once for each workgroup over texels.
fn count_group(lane: u32) {
    if lane == 0u {
        atomicAdd(&tally, 1u);
    }
}
