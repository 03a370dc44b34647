// The texels that a patch touches, in the workgroup's memory: read once, summed into, and added to the planes once.

// A channel after the other: values of the texels as bits, then, since the less of this memory a workgroup has the more of them
// are at work, the sums in their place.
var<workgroup> near: array<atomic<u32>, 3 * PATCH_TEXELS>;

// What is needed of each texel beside them; before that, what the sharers of rows add up.
var<workgroup> spare: array<u32, PATCH_TEXELS>;

// The sum of `part` over the sharers of the row, for each of them. All of a workgroup call it; `spare` is free again after
// the next barrier.
fn add_up(lane: u32, part: vec3<f32>) -> vec3<f32> {
    let bits = bitcast<vec3<u32>>(part);
    spare[lane] = bits.r;
    spare[ROW_LANES + lane] = bits.g;
    spare[2u * ROW_LANES + lane] = bits.b;
    workgroupBarrier();
    var sum = vec3(0.0);
    for (var at = lane - share; at < lane - share + sharers; at++) {
        sum += bitcast<vec3<f32>>(vec3(spare[at], spare[ROW_LANES + at], spare[2u * ROW_LANES + at]));
    }
    return sum;
}

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

// What the texels make of the invocation's row; all of a workgroup call it.
fn predicted(lane: u32) -> vec3<f32> {
    var sum = vec3(0.0);
    for (var k = own_entries.x; k < own_entries.y; k += sharers) {
        let entry = entries[k];
        sum += weight_of(entry) * near_value(place_of(entry));
    }
    return add_up(lane, sum);
}
