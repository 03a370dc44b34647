// Access to the triangle ids that nearest.wgsl found, for footprint.wgsl.

// Lower and upper half of each 64-bit word.
@group(1) @binding(5) var<storage, read> ids: array<vec2<u32>>;

// The triangle of a sample of the `nth` listed block, plus 1; 0 where there is none.
fn triangle_at(nth: u32, sample: vec2<u32>) -> u32 {
    let word = ids[word_of(nth, sample)];
    return select(0u, ~word.x + 1u, word.y != 0u);
}

// Always true: the workgroups of nearest.wgsl are counted themselves.
fn was_drawn(sample: vec2<u32>) -> bool {
    return true;
}
