// What nearest.wgsl has found, as footprint.wgsl reads it.

// Lower and upper half of each word.
@group(1) @binding(5) var<storage, read> ids: array<vec2<u32>>;

// The triangle of a sample of the `nth` block that is listed, 1 more; 0 where there is none.
fn triangle_at(nth: u32, sample: vec2<u32>) -> u32 {
    let word = ids[word_of(nth, sample)];
    return select(0u, ~word.x + 1u, word.y != 0u);
}

// Its workgroups have been counted themselves.
fn was_drawn(sample: vec2<u32>) -> bool {
    return true;
}
