// Loads the texels of a patch into the workgroup memory of near.wgsl, for stages that bind x_r, x_g and x_b.

fn load_near() {
    for (var place = own_lane; place < places_here(); place += ROW_LANES) {
        let texel = texel_of(place);
        var value = vec3(0.0);
        if texel != NOWHERE {
            value = vec3(x_r[texel], x_g[texel], x_b[texel]);
        }
        set_near(place, value);
    }
    workgroupBarrier();
}
