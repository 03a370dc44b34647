// The texels that a patch touches, in the workgroup's memory: read once.

// Values of the texels as bits, a channel after the other; then, where rows are shared and nobody needs these any more, what their
// sharers add up. Sums (normal.wgsl) follow in it; those of a patch with a list, whose rows take one turn, take the place of the values:
// the less of this memory a workgroup has, the more of them are at work.
var<workgroup> near: array<atomic<u32>, SUMS_AT + 3u * PLACES>;

const SUMS_AT: u32 = select(0u, 3u * PLACES, PLOTTED);

// The sum of `part` over the sharers of the row, for each of them. All of a workgroup call it. Where rows are shared there is but
// one turn.
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

// What the texels make of the invocation's row; all of a workgroup call it.
fn predicted() -> vec3<f32> {
    var sum = vec3(0.0);
    for (var at = first_pair(); at.nth < own_pairs; at = next_pair(at)) {
        let pair = pair_at(at);
        sum += pair.weights.x * near_value(pair.places.x) + pair.weights.y * near_value(pair.places.y);
    }
    return add_up(sum);
}
