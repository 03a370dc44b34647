// Pairs sorted by tile, nearest first → where each tile's pairs are, and its pixels: the twin of `kiln_splat`'s blend.rs.
//
// To blend, a workgroup takes a tile, and an invocation one pixel. Front to back; alpha is at most MOST_ALPHA, below LEAST_ALPHA it
// counts as nothing, and a pixel is closed by the first splat that would leave less than CLOSED of its light.

@group(1) @binding(0) var<uniform> band: SplatBand;
@group(1) @binding(1) var<storage, read> ellipses: array<vec4<f32>>;
@group(1) @binding(2) var<storage, read> sorted: array<vec2<u32>>;
// All pairs.
@group(1) @binding(3) var<storage, read> total: array<u32>;
// First pair of each tile of the band, and their end.
@group(1) @binding(4) var<storage, read_write> ranges: array<vec2<u32>>;
// Of each pixel of the band's tiles, tile by tile: red, green and blue so far, and what light is let through, negative
// once it is closed. Only where the pairs of a tile are too many for one dispatch.
@group(1) @binding(5) var<storage, read_write> carried: array<vec4<f32>>;
// The window, row by row: red, green, blue and alpha from the lowest byte.
@group(1) @binding(6) var<storage, read_write> pixels: array<u32>;

// The first pair whose tile is not before `tile`.
fn first_of(tile: u32) -> u32 {
    var low = 0u;
    var high = total[0];
    while low < high {
        let middle = (low + high) / 2u;
        if sorted[middle].x < tile {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

@compute @workgroup_size(SPLAT_LANES)
fn find_ranges(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    if at.x < band.across * band.rows {
        ranges[at.x] = vec2(first_of(at.x), first_of(at.x + 1u));
    }
}

const LANES: u32 = SPLAT_TILE * SPLAT_TILE;

// Of the ellipses at hand: centre, along, skew; across, level, square; colour.
var<workgroup> places: array<vec4<f32>, LANES>;
var<workgroup> forms: array<vec4<f32>, LANES>;
var<workgroup> colours: array<vec4<f32>, LANES>;
var<workgroup> any_open: atomic<u32>;
var<workgroup> go_on: u32;

fn take(lane: u32, pair: u32) {
    let splat = sorted[pair].y;
    places[lane] = ellipses[3u * splat];
    forms[lane] = ellipses[3u * splat + 1u];
    colours[lane] = ellipses[3u * splat + 2u];
}

// Adds the ellipses at hand to a pixel: colour, and what light is let through.
fn add(count: u32, at: vec2<f32>, before: vec4<f32>) -> vec4<f32> {
    var colour = before.rgb;
    var through = before.a;
    for (var k = 0u; k < count; k++) {
        let place = places[k];
        let form = forms[k];
        let away = at - place.xy;
        let s = place.z * away.x + place.w * away.y;
        let t = form.x * away.y;
        let power = form.y - s * s - t * t;
        if power < -SPLAT_LEVELS || max(abs(away.x), abs(away.y)) > form.z {
            continue;
        }
        let alpha = min(exp2(power), MOST_ALPHA);
        let after = through * (1.0 - alpha);
        if after < CLOSED {
            through = -through;
            break;
        }
        colour += alpha * through * colours[k].rgb;
        through = after;
    }
    return vec4(colour, through);
}

fn encoded(x: f32) -> f32 {
    if !LINEAR {
        return x;
    }
    return select(1.055 * pow(max(x, 0.0), 1.0 / 2.4) - 0.055, x * 12.92, x <= 0.0031308);
}

fn byte(share: f32) -> u32 {
    return u32(clamp(floor(share * 255.0 + 0.5), 0.0, 255.0));
}

@compute @workgroup_size(SPLAT_TILE, SPLAT_TILE)
fn blend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    let tile = group.y * band.across + group.x;
    let x = group.x * SPLAT_TILE + lane % SPLAT_TILE;
    let y = (band.first_row + group.y) * SPLAT_TILE + lane / SPLAT_TILE;
    let inside = x < band.width && y < band.height;
    let at = vec2(f32(x), f32(y)) + 0.5;
    var pixel = vec4(0.0, 0.0, 0.0, 1.0);
    if band.first > 0u {
        pixel = carried[tile * LANES + lane];
    }
    let start = ranges[tile].x + band.first;
    let end = min(ranges[tile].y, start + band.most);
    for (var next = start; next < end; next += LANES) {
        if lane == 0u {
            go_on = atomicExchange(&any_open, 0u);
        }
        if next > start && workgroupUniformLoad(&go_on) == 0u {
            break;
        }
        if next + lane < end {
            take(lane, next + lane);
        }
        workgroupBarrier();
        if inside && pixel.a >= 0.0 {
            pixel = add(min(LANES, end - next), at, pixel);
            if pixel.a >= 0.0 {
                atomicStore(&any_open, 1u);
            }
        }
        workgroupBarrier();
    }
    if band.last == 0u {
        carried[tile * LANES + lane] = pixel;
    } else if inside {
        let alpha = 1.0 - abs(pixel.a);
        let colour = pixel.rgb / max(alpha, 1e-6);
        let bytes = vec3(byte(encoded(colour.r)), byte(encoded(colour.g)), byte(encoded(colour.b)));
        pixels[y * band.width + x] = bytes.r | bytes.g << 8u | bytes.b << 16u | byte(alpha) << 24u;
    }
}
