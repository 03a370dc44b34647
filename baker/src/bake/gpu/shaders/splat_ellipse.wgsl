// Ellipses, and the tiles that they touch: the twin of `kiln_splat`'s ellipse.rs and tiles.rs.

// A Gaussian on the picture. At (dx, dy) from its centre, log₂ of alpha is level - s² - t² with s = along · dx + skew · dy
// and t = across · dy.
struct Ellipse {
    // From the window's top left corner; the centre of its first pixel is (0.5, 0.5).
    centre: vec2<f32>,
    along: f32,
    skew: f32,
    across: f32,
    // log₂ of alpha at the centre.
    level: f32,
    // Largest |dx| and |dy| that are drawn; HUGE where alpha is below LEAST_ALPHA before.
    square: f32,
    // dy of the pixel with the greatest dx that still counts, the square aside.
    lean: f32,
    colour: vec3<f32>,
    // dx of a row's greatest alpha, for each pixel of dy.
    slope: f32,
}

fn packed(e: Ellipse) -> array<vec4<f32>, 3> {
    return array(vec4(e.centre, e.along, e.skew), vec4(e.across, e.level, e.square, e.lean), vec4(e.colour, e.slope));
}

fn unpacked(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>) -> Ellipse {
    return Ellipse(a.xy, a.z, a.w, b.x, b.y, b.z, b.w, c.xyz, c.w);
}

// First tile with a pixel's centre from `low` to `high`, and the end of those tiles, of `count`.
fn tiles_from(low: f32, high: f32, count: u32) -> vec2<u32> {
    // A pixel's centre is half a pixel behind its place: the first one inside is less than half a pixel behind `low`.
    let first = (low + (0.5 - SPLAT_SLACK)) / f32(SPLAT_TILE);
    let last = (high - (0.5 - SPLAT_SLACK)) / f32(SPLAT_TILE);
    let most = f32(count);
    let end = select(min(u32(clamp(last, 0.0, most)) + 1u, count), 0u, last < 0.0);
    return vec2(u32(clamp(first, 0.0, most)), end);
}
