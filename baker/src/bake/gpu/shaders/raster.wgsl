// Finds the nearest triangle of each sample with the graphics pipeline: watertight by its fill rule, clipped at the
// near plane, nothing culled. Native twin: raster.rs.
//
// Depth is NEAR / z: larger is nearer. Floating point is then precise near the camera, and no far plane is needed.

@group(0) @binding(0) var<uniform> regions: array<Region, REGIONS>;
@group(0) @binding(1) var<storage, read> positions: array<f32>;
@group(0) @binding(2) var<storage, read> triangles: array<u32>;

struct Corner {
    @builtin(position) clip: vec4<f32>,
    @location(0) @interpolate(flat) triangle: u32,
}

// Triangle 0 is a backdrop behind everything. A sample without even its id was not drawn at all.
@vertex
fn project(@builtin(vertex_index) corner: u32) -> Corner {
    if corner < 3u {
        let place = vec2(f32(corner & 1u), f32(corner >> 1u)) * 4.0 - 1.0;
        return Corner(vec4(place, BACKDROP, 1.0), 1u);
    }
    let at = 3u * triangles[corner - 3u];
    let point = vec4(positions[at], positions[at + 1u], positions[at + 2u], 1.0);
    let x = dot(regions[region].row_x, point);
    let y = dot(regions[region].row_y, point);
    let z = dot(regions[region].row_z, point);
    // Pixels of the tile, times z. Row 0 is on top, while clip space has y up.
    let pixel = regions[region].focal * vec2(x, y) + regions[region].centre * z;
    let half = 0.5 * vec2<f32>(regions[region].size);
    let clip = (pixel - half * z) / half;
    return Corner(vec4(clip.x, -clip.y, NEAR, z), corner / 3u + 1u);
}

@fragment
fn nearest(corner: Corner) -> @location(0) u32 {
    return corner.triangle;
}
