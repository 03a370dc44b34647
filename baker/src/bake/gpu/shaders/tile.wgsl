// A tile is what one draw covers: blocks of one view or of several. A region is a tile's part of one view, with the
// view's camera in scene units. Same as `layout::Region`. `size`, `origin` and `centre` are those of the region.
struct Region {
    row_x: vec4<f32>,
    row_y: vec4<f32>,
    row_z: vec4<f32>,
    focal: vec2<f32>,
    centre: vec2<f32>,
    size: vec2<u32>,
    origin: vec2<u32>,
    texture_size: u32,
    // Position of the view among those added, its first block among the blocks of all views, and its blocks across
    // (lower half) and down (upper half).
    view: u32,
    first_block: u32,
    blocks: u32,
    // The rows of the window that the window solves for: first, and past the last. 0 where the window is the whole
    // texture.
    core: vec2<u32>,
    // Where `visible` of footprint.wgsl has the bits of the texture's squares; 0 where no visible blocks are recorded.
    squares_at: u32,
    // Listed blocks of all regions.
    listed: u32,
    // Where `places` has the region's map.
    map_at: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

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
