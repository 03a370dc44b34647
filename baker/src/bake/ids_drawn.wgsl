// What raster.wgsl has drawn, as footprint.wgsl reads it.

@group(1) @binding(5) var ids: texture_2d<u32>;

// The triangle of a sample of the `nth` block that is listed, 1 more; 0 where there is none.
fn triangle_at(nth: u32, sample: vec2<u32>) -> u32 {
    // The backdrop is triangle 0.
    return max(textureLoad(ids, sample, 0).x, 1u) - 1u;
}

// At least the backdrop is there.
fn was_drawn(sample: vec2<u32>) -> bool {
    return textureLoad(ids, sample, 0).x != 0u;
}
