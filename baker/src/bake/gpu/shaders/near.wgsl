// The values of the texels that a patch touches, read once into workgroup memory.

// Values of the texels as bits, channel by channel; later, partial sums of shared rows. The sums of normal.wgsl follow.
// In a listed patch, whose rows take one turn, they replace the values: the less workgroup memory, the more workgroups
// run at once.
var<workgroup> near: array<atomic<u32>, SUMS_AT + 3u * PLACES>;

const SUMS_AT: u32 = select(0u, 3u * PLACES, BINNED);

// The sum of `part` over the invocations that share a row, which then have one turn only. All of a workgroup must call
// it.
fn add_up(part: vec3<f32>) -> vec3<f32> {
    if sharers == 1u {
        return part;
    }
    workgroupBarrier();
    set_near(own_lane, part);
    workgroupBarrier();
    var sum = vec3(0.0);
    for (var nth = 0u; nth < sharers; nth++) {
        sum += near_value(own_lane - share + nth);
    }
    return sum;
}

fn near_value(place: u32) -> vec3<f32> {
    return bitcast<vec3<f32>>(vec3(
        atomicLoad(&near[place]),
        atomicLoad(&near[PLACES + place]),
        atomicLoad(&near[2u * PLACES + place]),
    ));
}

fn set_near(place: u32, value: vec3<f32>) {
    let bits = bitcast<vec3<u32>>(value);
    atomicStore(&near[place], bits.r);
    atomicStore(&near[PLACES + place], bits.g);
    atomicStore(&near[2u * PLACES + place], bits.b);
}

// The prediction A x of the invocation's row. All of a workgroup must call it.
fn predicted() -> vec3<f32> {
    var sum = vec3(0.0);
    for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
        let pair = pair_at(at);
        sum += pair.weights.x * near_value(pair.places.x) + pair.weights.y * near_value(pair.places.y);
    }
    return add_up(sum);
}
