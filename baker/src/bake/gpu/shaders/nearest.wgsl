// Finds the nearest triangle of each sample in compute. Native twin: raster.rs. raster.wgsl does the same with the
// graphics pipeline.
//
// Relative to the ray of a sample, corner k has the offset o_k = (x_k − slope_x z_k, y_k − slope_y z_k). The ray hits
// the triangle where the three products o_i × o_j have one sign. Up to a factor they are the barycentric coordinates
// (Olano and Greer, "Triangle scan conversion using 2D homogeneous coordinates", 1997). Nothing needs clipping: points
// behind the camera have a negative depth.
//
// An edge is always evaluated from its lesser end, whichever triangle asks. Two triangles that share an edge get
// exactly opposite numbers, so no sample falls between them.
//
// `small` draws small triangles with one invocation each and lists the others. `arrange` makes a dispatch of that list,
// and `large` draws each listed triangle with several workgroups. The nearest triangle wins, and among equals the
// lowest index: the maximum of depth and inverted index in one word.

@group(1) @binding(0) var<uniform> regions: array<Region, REGIONS>;
@group(1) @binding(1) var<storage, read> positions: array<f32>;
@group(1) @binding(2) var<storage, read> triangles: array<u32>;
// For each sample: bits of NEAR / z in the upper half, all ones minus the triangle in the lower; 0 where there is none.
@group(1) @binding(3) var<storage, read_write> nearest: array<atomic<u64>>;
// Number of large triangles, workgroups that the largest of them needs, then the large triangles. Their upper bits name
// the region.
@group(1) @binding(4) var<storage, read_write> listed: array<atomic<u32>>;
@group(1) @binding(5) var<storage, read_write> groups: array<u32, 3>;
// After the part that footprint.wgsl reads, the map of each region: for each block its place among the listed blocks,
// plus 1; 0 where it is not listed.
@group(1) @binding(6) var<storage, read> places: array<u32>;

// Largest bounding rectangle in samples that one invocation draws.
const SMALL: u32 = 128u;
// Samples of a rectangle for each workgroup of `large`, while PARTS workgroups a triangle suffice.
const PART: u32 = 1024u;
// Largest number of blocks under a rectangle that `may_show` checks.
const LOOKS: u32 = 64u;

// From the lesser end to the other in camera axes, and the sign that makes it the triangle's own edge.
struct Edge {
    origin: vec3<f32>,
    by: vec3<f32>,
    sign: f32,
}

struct Footing {
    // Opposite each corner.
    edges: array<Edge, 3>,
    depths: vec3<f32>,
    // Samples that it may touch: first, and past the last.
    low: vec2<u32>,
    high: vec2<u32>,
}

// Explicit fma: a compiler that fuses only one of two like products would open gaps along edges.
fn turned(row: vec4<f32>, by: vec3<f32>) -> f32 {
    return fma(row.x, by.x, fma(row.y, by.y, row.z * by.z));
}

fn position(vertex: u32) -> vec3<f32> {
    return vec3(positions[3u * vertex], positions[3u * vertex + 1u], positions[3u * vertex + 2u]);
}

fn in_camera(by: vec3<f32>) -> vec3<f32> {
    return vec3(turned(regions[region].row_x, by), turned(regions[region].row_y, by), turned(regions[region].row_z, by));
}

fn place(point: vec3<f32>) -> vec3<f32> {
    return in_camera(point) + vec3(regions[region].row_x.w, regions[region].row_y.w, regions[region].row_z.w);
}

// Compares positions, not indices: a texture seam has two vertices at one position.
fn before(a: vec3<f32>, b: vec3<f32>) -> bool {
    if a.x != b.x {
        return a.x < b.x;
    }
    if a.y != b.y {
        return a.y < b.y;
    }
    return a.z < b.z;
}

fn edge(a: vec3<f32>, b: vec3<f32>) -> Edge {
    if before(a, b) {
        return Edge(place(a), in_camera(b - a), 1.0);
    }
    return Edge(place(b), in_camera(a - b), -1.0);
}

fn footing(triangle: u32) -> Footing {
    let a = position(triangles[3u * triangle]);
    let b = position(triangles[3u * triangle + 1u]);
    let c = position(triangles[3u * triangle + 2u]);
    var corners = array(place(a), place(b), place(c));
    let depths = vec3(corners[0].z, corners[1].z, corners[2].z);
    let end = vec2<f32>(regions[region].size * TAPS);
    var low = vec2(0.0);
    var high = end;
    if all(depths < vec3(NEAR)) {
        high = vec2(0.0);
    } else if all(depths >= vec3(NEAR)) {
        low = end;
        high = vec2(0.0);
        for (var k = 0u; k < 3u; k++) {
            let at = (regions[region].focal * corners[k].xy / corners[k].z + regions[region].centre) * f32(TAPS);
            low = min(low, at);
            high = max(high, at);
        }
        low = clamp(floor(low - 1.0), vec2(0.0), end);
        high = clamp(ceil(high + 1.0), vec2(0.0), end);
    }
    return Footing(array(edge(b, c), edge(c, a), edge(a, b)), depths, vec2<u32>(low), vec2<u32>(max(low, high)));
}

fn side(line: Edge, slope: vec2<f32>) -> f32 {
    let o = fma(-slope, vec2(line.origin.z), line.origin.xy);
    let along = fma(-slope, vec2(line.by.z), line.by.xy);
    return line.sign * fma(o.x, along.y, -(o.y * along.x));
}

fn draw(triangle: u32, shape: Footing, sample: vec2<u32>) {
    let block = sample / (BLOCK * TAPS);
    let place = places[regions[region].map_at + block.y * region_blocks().x + block.x];
    if place == 0u {
        return;
    }
    let at = (vec2<f32>(sample) + 0.5) / f32(TAPS);
    let slope = (at - regions[region].centre) / regions[region].focal;
    let sides = vec3(side(shape.edges[0], slope), side(shape.edges[1], slope), side(shape.edges[2], slope));
    if !(all(sides >= vec3(0.0)) || all(sides <= vec3(0.0))) {
        return;
    }
    let sum = sides.x + sides.y + sides.z;
    if sum == 0.0 {
        return;
    }
    let z = dot(sides / sum, shape.depths);
    if z >= NEAR {
        let word = (u64(bitcast<u32>(NEAR / z)) << 32u) | u64(~triangle);
        atomicMax(&nearest[word_of(place - 1u, sample)], word);
    }
}

// True if any block under the rectangle is listed, or there are too many to check.
fn may_show(shape: Footing) -> bool {
    let edge = BLOCK * TAPS;
    let first = shape.low / edge;
    let end = (shape.high + edge - 1u) / edge;
    let size = end - first;
    if size.x * size.y > LOOKS {
        return true;
    }
    let across = region_blocks().x;
    for (var y = first.y; y < end.y; y++) {
        for (var x = first.x; x < end.x; x++) {
            if places[regions[region].map_at + y * across + x] != 0u {
                return true;
            }
        }
    }
    return false;
}

@compute @workgroup_size(TRIANGLE_LANES)
fn small(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    count_group(lane);
    region = group.z;
    let triangle = (group.y * GROUPS_ACROSS + group.x) * TRIANGLE_LANES + lane;
    if triangle >= arrayLength(&triangles) / 3u {
        return;
    }
    let shape = footing(triangle);
    let size = shape.high - shape.low;
    if size.x == 0u || size.y == 0u {
        return;
    }
    if size.x > SMALL || size.y > SMALL || size.x * size.y > SMALL {
        if !may_show(shape) {
            return;
        }
        atomicMax(&listed[1], min(PARTS, (size.x * size.y + PART - 1u) / PART));
        atomicStore(&listed[2u + atomicAdd(&listed[0], 1u)], (region << TRIANGLE_BITS) | triangle);
        // The tally stays wrong until `large` has drawn it.
        count_units(triangle, ~0u);
        return;
    }
    for (var y = shape.low.y; y < shape.high.y; y++) {
        for (var x = shape.low.x; x < shape.high.x; x++) {
            draw(triangle, shape, vec2(x, y));
        }
    }
}

@compute @workgroup_size(1)
fn arrange() {
    count_units(0u, 1u);
    let count = atomicLoad(&listed[0]);
    groups[0] = max(1u, atomicLoad(&listed[1]));
    groups[1] = min(count, GROUPS_ACROSS);
    groups[2] = (count + GROUPS_ACROSS - 1u) / GROUPS_ACROSS;
}

@compute @workgroup_size(TRIANGLE_LANES)
fn large(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.z * GROUPS_ACROSS + group.y;
    if index >= atomicLoad(&listed[0]) {
        return;
    }
    if group.x == 0u {
        count_group(lane);
    }
    let entry = atomicLoad(&listed[2u + index]);
    region = entry >> TRIANGLE_BITS;
    let triangle = entry & ((1u << TRIANGLE_BITS) - 1u);
    let shape = footing(triangle);
    let size = shape.high - shape.low;
    let all = size.x * size.y;
    // For smaller triangles the remaining workgroups have nothing to do.
    let part = max(PART, (all + PARTS - 1u) / PARTS);
    let end = min(all, (group.x + 1u) * part);
    for (var at = group.x * part + lane; at < end; at += TRIANGLE_LANES) {
        draw(triangle, shape, shape.low + vec2(at % size.x, at / size.x));
    }
}
