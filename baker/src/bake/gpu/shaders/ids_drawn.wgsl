// Access to the triangle ids that raster.wgsl drew, for footprint.wgsl.

@group(1) @binding(5) var ids: texture_2d<u32>;

// The triangle of a sample of the `nth` listed block, plus 1; 0 where there is none.
fn triangle_at(nth: u32, sample: vec2<u32>) -> u32 {
    // Triangle 0 is the backdrop.
    return max(textureLoad(ids, sample, 0).x, 1u) - 1u;
}

// True if at least the backdrop was drawn.
fn was_drawn(sample: vec2<u32>) -> bool {
    return textureLoad(ids, sample, 0).x != 0u;
}
