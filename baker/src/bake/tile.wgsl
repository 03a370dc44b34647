// What is drawn at once: blocks of one view or of several. Of each view, those within a region, and its camera in scene units.
// Same as `layout::Region`; `size`, `origin` and `centre` are the region's.
struct Region {
    row_x: vec4<f32>,
    row_y: vec4<f32>,
    row_z: vec4<f32>,
    focal: vec2<f32>,
    centre: vec2<f32>,
    size: vec2<u32>,
    origin: vec2<u32>,
    texture_size: u32,
    // Position of the view among those added; the first of its blocks among all, and how many it has across (lower half) and down.
    view: u32,
    first_block: u32,
    blocks: u32,
    // The first row of the window that it is there for, and the first after them; 0 of all of a texture.
    core: vec2<u32>,
    // Where `marks` of footprint.wgsl has the bits of the texture's squares; 0 where none are to be made.
    squares_at: u32,
    // Blocks of all regions.
    listed: u32,
    // Where `places` has its map.
    map_at: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

// Which of them the invocation works in.
var<private> region: u32;

// Its blocks across, and down.
fn region_blocks() -> vec2<u32> {
    return (regions[region].size + BLOCK - 1u) / BLOCK;
}

// Where a sample's word is, of those of the `nth` block that is listed.
fn word_of(nth: u32, sample: vec2<u32>) -> u32 {
    let edge = BLOCK * TAPS;
    let within = sample % edge;
    return (nth * edge + within.y) * edge + within.x;
}
