// Structures of a pool, the unit of the row store. footprint.wgsl writes them, row_bins.wgsl sorts them into bins,
// rows.wgsl reads them. A row bin is a square of ROW_BIN² texels and the rows whose box begins there.

// Same as `layout::Pool`.
struct Pool {
    patches: u32,
    rows: u32,
    // Words of entries, boxes and lists of texels.
    words: u32,
}

// Same as `layout::Patch`.
struct Patch {
    // Where its rows begin in `rows`; for a bin, in `order`.
    first_row: u32,
    // Where its list of texels begins in `words`; for a bin, its corner texel.
    first_texel: u32,
    // Rows in the lower half, texels of the list in the upper.
    counts: u32,
    // LISTED, ROW_BIN_ROWS or SEAM. The entries of a SEAM are signed, its target is 0, and its rows have a weight for each
    // channel.
    kind: u32,
}

// Same as `layout::Row`.
struct Row {
    // Where its entries or its box begin in `words`.
    start: u32,
    // Bit 0: the row is in the subset. Bits 1-5: its box, or NO_BOX. With NO_BOX, the bits above count the entries.
    // With a box, bits 6-13 are the box's corner in its bin, and the bits above are the bin.
    shape: u32,
    // Observed sRGB, and alpha.
    colour: u32,
    // Its block among those of all views; the lower six bits are its pixel within the block.
    place: u32,
}

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

fn has_box(shape: u32) -> bool {
    return ((shape >> 1u) & NO_BOX) != NO_BOX;
}

fn corner_of(shape: u32) -> vec2<u32> {
    let corner = (shape >> 6u) & 255u;
    return vec2(corner % ROW_BIN, corner / ROW_BIN);
}

fn row_bin_of(shape: u32) -> u32 {
    return shape >> 14u;
}
