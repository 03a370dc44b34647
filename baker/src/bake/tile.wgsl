// The part of a view that is drawn at once, and its camera in scene units. Same as `layout::Tile`.
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
    unused: u32,
}
