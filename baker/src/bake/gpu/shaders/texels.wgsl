// Numbers of the stages over texels.

// 2^k, exact for k within ±126.
fn exp2i(k: i32) -> f32 {
    return bitcast<f32>(u32(clamp(k, -126, 127) + 127) << 23u);
}

// Fixed-point steps per unit of a sum to which n rows add at most 1 each: n < 2^bits ⇒ n · 2^(31 − bits) < 2³¹.
fn steps(n: u32) -> f32 {
    return exp2i(i32(countLeadingZeros(n)) - 1);
}

// The smallest exponent with |v| < 2^result; −127 for zero.
fn reach_of(v: f32) -> i32 {
    return i32((bitcast<u32>(v) >> 23u) & 255u) - 126;
}

// A texel's exponents, unpacked. Each channel has a byte, biased as in single precision.
fn exponents_of(packed: u32) -> vec3<i32> {
    return vec3<i32>(vec3(packed, packed >> 8u, packed >> 16u) & vec3(255u)) - 127;
}

// Two to the power of the three exponents.
fn scales_of_exponents(packed: u32) -> vec3<f32> {
    return bitcast<vec3<f32>>(vec3(packed << 23u, packed << 15u, packed << 7u) & vec3(0x7f800000u));
}
