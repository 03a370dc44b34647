// Splats and a view → ellipses on the picture, their colours, and keys that sort them by depth. The twin is
// `kiln_splat`'s shape.rs and colour.rs; lengths are in pixels, x goes right and y down.
//
// One invocation takes every n-th splat. The same entry point counts: what a view shows and how many tiles that touches
// is known before anything of it is stored. Both runs are one pipeline, so they compute the same bits.

@group(1) @binding(0) var<uniform> turn: SplatTurn;
@group(1) @binding(1) var<storage, read> shots: array<SplatShot>;
// Centre (x, y, z) and opacity of each splat.
@group(1) @binding(2) var<storage, read> places: array<vec4<f32>>;
// Unit quaternions (w, x, y, z).
@group(1) @binding(3) var<storage, read> turns: array<vec4<f32>>;
// Three standard deviations of each splat, one along each of its axes.
@group(1) @binding(4) var<storage, read> scales: array<f32>;
// Constant coefficients of red, green and blue of each splat.
@group(1) @binding(5) var<storage, read> constants: array<f32>;
// The other coefficients, two halves a word; a splat begins with a word of its own.
@group(1) @binding(6) var<storage, read> harmonics: array<u32>;
// Of each shot: COUNTED words, then by how many pairs each row of tiles has more than the one before.
@group(1) @binding(7) var<storage, read_write> counters: array<atomic<u32>>;
// Three of each splat (splat_ellipse.wgsl).
@group(1) @binding(8) var<storage, read_write> ellipses: array<vec4<f32>>;
@group(1) @binding(9) var<storage, read_write> reaches: array<vec2<f32>>;
// Key and number of each splat.
@group(1) @binding(10) var<storage, read_write> keys: array<vec2<u32>>;

struct Shape {
    shows: bool,
    ellipse: Ellipse,
    reach: vec2<f32>,
    depth: f32,
}

// The covariance on the picture, from the projected axes: p has their x and q their y.
struct Spread {
    xx: f32,
    xy: f32,
    yy: f32,
    det: f32,
    // The determinant without the filter.
    bare: f32,
}

fn spread_of(p: vec3<f32>, q: vec3<f32>, blur: f32) -> Spread {
    let xx = dot(p, p);
    let yy = dot(q, q);
    // Of the axes, not of the products: that would cancel for flat splats.
    let across = vec3(p.y * q.z - p.z * q.y, p.z * q.x - p.x * q.z, p.x * q.y - p.y * q.x);
    let bare = dot(across, across);
    return Spread(xx + blur, dot(p, q), yy + blur, bare + blur * (xx + yy + blur), bare);
}

// Half the edge of the square of three standard deviations that the sources cut at.
fn square_of(spread: Spread) -> f32 {
    let middle = 0.5 * (spread.xx + spread.yy);
    let root = sqrt(clamp(middle * middle - spread.det, 0.1, HUGE));
    return ceil(3.0 * sqrt(middle + root));
}

// The axes of a splat in the world, each as long as its standard deviation.
fn axes(splat: u32) -> mat3x3<f32> {
    let turn = turns[splat];
    let w = turn.x;
    let x = turn.y;
    let y = turn.z;
    let z = turn.w;
    let at = 3u * splat;
    return mat3x3(
        vec3(1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)) * scales[at],
        vec3(2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)) * scales[at + 1u],
        vec3(2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)) * scales[at + 2u],
    );
}

fn shape_of(splat: u32, shot: u32) -> Shape {
    var shape = Shape();
    let place = places[splat];
    let ahead = shots[shot].row_z.xyz;
    let z = dot(ahead, place.xyz) + shots[shot].row_z.w;
    shape.depth = z;
    if !(z > SPLAT_NEAR && z < HUGE && place.w >= LEAST_ALPHA) {
        return shape;
    }
    let right = shots[shot].row_x;
    let down = shots[shot].row_y;
    let at = vec2(dot(right.xyz, place.xyz) + right.w, dot(down.xyz, place.xyz) + down.w) / z;
    let most = shots[shot].most;
    let steep = clamp(at, -most, most);
    // Rows of the Jacobian times the rotation of the view, times the axes of the splat: the projected axes.
    let focal = shots[shot].focal;
    let own = axes(splat);
    let p = (focal.x / z * (right.xyz - steep.x * ahead)) * own;
    let q = (focal.y / z * (down.xyz - steep.y * ahead)) * own;
    let spread = spread_of(p, q, shots[shot].eye.w);
    var opacity = place.w;
    if turn.mip != 0u {
        opacity *= sqrt(min(max(spread.bare, 1e-6) / max(spread.det, 1e-6), 1.0));
    }
    if !(spread.det > 0.0 && spread.det < HUGE && opacity >= LEAST_ALPHA) {
        return shape;
    }
    let level = log2(opacity);
    let radius = max(level + SPLAT_LEVELS, 0.0) / HALF;
    let square = square_of(spread);
    let whole = sqrt(radius * vec2(spread.xx, spread.yy));
    shape.reach = min(whole, vec2(square));
    let centre = focal * at + shots[shot].centre;
    shape.shows = all(centre + shape.reach > vec2(0.0)) && all(centre - shape.reach < shots[shot].size);
    let along = sqrt(HALF * spread.yy / spread.det);
    let slope = spread.xy / spread.yy;
    shape.ellipse = Ellipse(
        centre,
        along,
        -along * slope,
        sqrt(HALF / spread.yy),
        level,
        select(square, HUGE, all(whole <= vec2(square))),
        spread.xy / spread.xx * whole.x,
        vec3(0.0),
        slope,
    );
    return shape;
}

// Both halves of a word. Moved to their place in a single, bits of a half stand for 2⁻¹¹² times its value. The language's
// own function is no part of every adapter.
fn unpacked_halves(word: u32) -> vec2<f32> {
    let bits = vec2(word, word >> 16u);
    let moved = ((bits & vec2(0x8000u)) << vec2(16u)) | ((bits & vec2(0x7fffu)) << vec2(13u));
    return bitcast<vec2<f32>>(moved) * bitcast<f32>(0x77800000u);
}

// The `k`-th coefficients of red, green and blue, those of a splat beginning at the word `first`.
fn harmonic(first: u32, k: u32) -> vec3<f32> {
    let half = 3u * k;
    let word = first + half / 2u;
    let low = unpacked_halves(harmonics[word]);
    let high = unpacked_halves(harmonics[word + 1u]);
    return select(vec3(low.y, high), vec3(low, high.x), half % 2u == 0u);
}

fn colour_of(splat: u32, eye: vec3<f32>) -> vec3<f32> {
    var colour = C0 * vec3(constants[3u * splat], constants[3u * splat + 1u], constants[3u * splat + 2u]);
    if turn.degree > 0u {
        let away = places[splat].xyz - eye;
        let along = away / max(length(away), 1e-30);
        let first = splat * turn.words;
        let x = along.x;
        let y = along.y;
        let z = along.z;
        colour += -C1 * y * harmonic(first, 0u) + C1 * z * harmonic(first, 1u) - C1 * x * harmonic(first, 2u);
        let xx = x * x;
        let yy = y * y;
        let zz = z * z;
        if turn.degree > 1u {
            colour += C2[0] * x * y * harmonic(first, 3u) + C2[1] * y * z * harmonic(first, 4u);
            colour += C2[2] * (2.0 * zz - xx - yy) * harmonic(first, 5u);
            colour += C2[3] * x * z * harmonic(first, 6u) + C2[4] * (xx - yy) * harmonic(first, 7u);
        }
        if turn.degree > 2u {
            colour += C3[0] * y * (3.0 * xx - yy) * harmonic(first, 8u) + C3[1] * x * y * z * harmonic(first, 9u);
            colour += C3[2] * y * (4.0 * zz - xx - yy) * harmonic(first, 10u);
            colour += C3[3] * z * (2.0 * zz - 3.0 * xx - 3.0 * yy) * harmonic(first, 11u);
            colour += C3[4] * x * (4.0 * zz - xx - yy) * harmonic(first, 12u);
            colour += C3[5] * z * (xx - yy) * harmonic(first, 13u) + C3[6] * x * (xx - 3.0 * yy) * harmonic(first, 14u);
        }
    }
    return max(colour + 0.5, vec3(0.0));
}

// What the workgroup has counted of a shot: splats that show, the complement of their least depth's bits, and the
// greatest; then its rows of tiles.
var<workgroup> counted: array<atomic<u32>, COUNTED>;
var<workgroup> rows: array<atomic<u32>, SPLAT_ROWS>;

// Pairs by the box around a splat: no fewer than there will be.
fn count_rows(shape: Shape, tiles: vec2<u32>) {
    atomicAdd(&counted[0], 1u);
    atomicMax(&counted[1], ~bitcast<u32>(shape.depth));
    atomicMax(&counted[2], bitcast<u32>(shape.depth));
    let centre = shape.ellipse.centre;
    let down = tiles_from(centre.y - shape.reach.y, centre.y + shape.reach.y, tiles.y);
    let across = tiles_from(centre.x - shape.reach.x, centre.x + shape.reach.x, tiles.x);
    if down.x < down.y && across.x < across.y {
        atomicAdd(&rows[down.x], across.y - across.x);
        atomicSub(&rows[down.y], across.y - across.x);
    }
}

@compute @workgroup_size(SPLAT_LANES)
fn project(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let shot = turn.first_shot + group.y;
    let tiles = shots[shot].tiles;
    let counting = turn.counting != 0u;
    if lane < COUNTED {
        atomicStore(&counted[lane], 0u);
    }
    for (var row = lane; row < SPLAT_ROWS; row += SPLAT_LANES) {
        atomicStore(&rows[row], 0u);
    }
    workgroupBarrier();
    for (var splat = group.x * SPLAT_LANES + lane; splat < turn.splats; splat += turn.stride) {
        var shape = shape_of(splat, shot);
        if counting {
            if shape.shows {
                count_rows(shape, tiles);
            }
            continue;
        }
        keys[splat] = vec2(select(shots[shot].hidden, bitcast<u32>(shape.depth) - shots[shot].least, shape.shows), splat);
        if shape.shows {
            shape.ellipse.colour = colour_of(splat, shots[shot].eye.xyz);
            let words = packed(shape.ellipse);
            for (var k = 0u; k < 3u; k++) {
                ellipses[3u * splat + k] = words[k];
            }
            reaches[splat] = shape.reach;
        }
    }
    workgroupBarrier();
    if counting {
        let first = shot * turn.counters;
        if lane == 0u {
            atomicAdd(&counters[first], atomicLoad(&counted[0]));
        } else if lane < COUNTED {
            atomicMax(&counters[first + lane], atomicLoad(&counted[lane]));
        }
        for (var row = lane; row <= tiles.y; row += SPLAT_LANES) {
            let more = atomicLoad(&rows[row]);
            if more != 0u {
                atomicAdd(&counters[first + COUNTED + row], more);
            }
        }
    }
}
