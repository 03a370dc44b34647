// Texels → bytes of sRGB, opaque, rounded to nearest.

@group(1) @binding(0) var<uniform> texels: Texels;
@group(1) @binding(1) var<storage, read> x_r: array<f32>;
@group(1) @binding(2) var<storage, read> x_g: array<f32>;
@group(1) @binding(3) var<storage, read> x_b: array<f32>;
@group(1) @binding(4) var<storage, read_write> bytes: array<u32>;

@compute @workgroup_size(TEXEL_LANES)
fn encode(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    count_group(lane);
    for (var texel = at.x; texel < texels.count; texel += texels.stride) {
        let shown = vec3<u32>(to_display(vec3(x_r[texel], x_g[texel], x_b[texel])) * 255.0 + 0.5);
        bytes[texel] = shown.r | (shown.g << 8u) | (shown.b << 16u) | (255u << 24u);
    }
}
