// The part of a view that is drawn at once, and its camera in scene units. Same as `layout::Tile`. What is drawn are blocks that
// are listed, within a region. `size`, `origin` and `centre` are the region's.
struct Tile {
    row_x: vec4<f32>,
    row_y: vec4<f32>,
    row_z: vec4<f32>,
    focal: vec2<f32>,
    centre: vec2<f32>,
    size: vec2<u32>,
    origin: vec2<u32>,
    texture_size: u32,
    // Position of the view among those added; its blocks as in `Patch`.
    view: u32,
    first_block: u32,
    blocks: u32,
    // The first row of the window that it is there for, and the first after them; 0 of all of a texture.
    core: vec2<u32>,
    // Where `marks` of footprint.wgsl has the bits of the texture's squares; 0 where none are to be made.
    squares_at: u32,
    // Its blocks.
    listed: u32,
}

// Blocks of the region across, and down.
fn region_blocks() -> vec2<u32> {
    return (tile.size + BLOCK - 1u) / BLOCK;
}

// Where a sample's word is, of those of the `nth` block that is listed.
fn word_of(nth: u32, sample: vec2<u32>) -> u32 {
    let edge = BLOCK * TAPS;
    let within = sample % edge;
    return (nth * edge + within.y) * edge + within.x;
}
