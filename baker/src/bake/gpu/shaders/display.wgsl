// Conversion between the space of the fit and sRGB. Native twin: colour.rs.

// From the space of the fit to sRGB, 0-1.
fn to_display(value: vec3<f32>) -> vec3<f32> {
    let inside = clamp(value, vec3(0.0), vec3(1.0));
    if !LINEAR {
        return inside;
    }
    let curve = 1.055 * pow(inside, vec3(1.0 / 2.4)) - 0.055;
    return select(curve, inside * 12.92, inside <= vec3(0.0031308));
}

// Square of d(sRGB)/d(value).
fn slope_squared_at(value: f32) -> f32 {
    if !LINEAR {
        return 1.0;
    }
    let inside = clamp(value, SLOPE_FLOOR, 1.0);
    let slope = select(1.055 / 2.4 * pow(inside, 1.0 / 2.4 - 1.0), 12.92, inside <= 0.0031308);
    return slope * slope;
}
