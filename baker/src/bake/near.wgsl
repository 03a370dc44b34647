// The texels that a patch touches, in the workgroup's memory: read once, summed into, and added to the planes once.

// A channel after the other: values of the texels as bits, then, since the less of this memory a workgroup has the more of them
// are at work, the sums in their place.
var<workgroup> near: array<atomic<u32>, 3 * PATCH_TEXELS>;

fn near_value(place: u32) -> vec3<f32> {
    return bitcast<vec3<f32>>(vec3(
        atomicLoad(&near[place]),
        atomicLoad(&near[PATCH_TEXELS + place]),
        atomicLoad(&near[2u * PATCH_TEXELS + place]),
    ));
}

fn set_near(place: u32, value: vec3<f32>) {
    let bits = bitcast<vec3<u32>>(value);
    atomicStore(&near[place], bits.r);
    atomicStore(&near[PATCH_TEXELS + place], bits.g);
    atomicStore(&near[2u * PATCH_TEXELS + place], bits.b);
}

fn predicted(span: vec2<u32>) -> vec3<f32> {
    var sum = vec3(0.0);
    for (var k = span.x; k < span.y; k++) {
        let entry = entries[k];
        sum += weight_of(entry) * near_value(place_of(entry));
    }
    return sum;
}
