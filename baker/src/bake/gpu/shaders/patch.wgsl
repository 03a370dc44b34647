// The words of a pool, the unit of the row store. footprint.wgsl writes them, row_bins.wgsl sorts them into bins,
// rows.wgsl reads them. A row bin is a square of ROW_BIN² texels and the rows whose box begins there.

// An entry: a weight in single precision whose lowest eight bits are a place in the patch's list of texels. Same as
// `layout::entry`.
fn entry_of(weight: f32, place: u32) -> u32 {
    return ((bitcast<u32>(weight) + 128u) & ~255u) | place;
}

fn box_of(size: vec2<u32>) -> u32 {
    return size.x - 1u + BOX * (size.y - 1u);
}

fn size_of(shape: u32) -> vec2<u32> {
    let box = (shape >> 1u) & NO_BOX;
    return vec2(box % BOX, box / BOX) + 1u;
}

fn corner_of(shape: u32) -> vec2<u32> {
    let corner = (shape >> 6u) & 255u;
    return vec2(corner % ROW_BIN, corner / ROW_BIN);
}

fn row_bin_of(shape: u32) -> u32 {
    return shape >> 14u;
}
