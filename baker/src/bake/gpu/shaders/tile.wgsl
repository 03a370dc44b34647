// A tile is what one draw covers: blocks of one view or of several. A `Region` is its part of one view.

// The region that the invocation works in.
var<private> region: u32;

// Blocks of the region, across and down.
fn region_blocks() -> vec2<u32> {
    return (regions[region].size + BLOCK - 1u) / BLOCK;
}

// Index of a sample's word within the words of the `nth` listed block.
fn word_of(nth: u32, sample: vec2<u32>) -> u32 {
    let edge = BLOCK * TAPS;
    let within = sample % edge;
    return (nth * edge + within.y) * edge + within.x;
}
