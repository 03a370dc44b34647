// From the space of the fit to sRGB, 0-1; native twin colour.rs.
fn to_display(value: vec3<f32>) -> vec3<f32> {
    let inside = clamp(value, vec3(0.0), vec3(1.0));
    if !LINEAR {
        return inside;
    }
    let curve = 1.055 * pow(inside, vec3(1.0 / 2.4)) - 0.055;
    return select(curve, inside * 12.92, inside <= vec3(0.0031308));
}
