// What a pool of rows is made of: footprint.wgsl writes it, plots.wgsl orders it, rows.wgsl reads it.

// Same as `layout::Pool`.
struct Pool {
    patches: u32,
    rows: u32,
    // Words of entries, of boxes, and of lists of texels.
    words: u32,
}

// Same as `layout::Patch`.
struct Patch {
    // Where its rows begin in `rows`; those of a plot, in `order`.
    first_row: u32,
    // Where its list of texels begins in `words`; of a plot, the texel in its corner.
    first_texel: u32,
    // Rows in the lower half, texels of the list in the upper.
    counts: u32,
    // LISTED; PLOT_ROWS; or SEAM: entries are signed, the target is 0, a row has a weight for each channel.
    kind: u32,
}

// Same as `layout::Row`.
struct Row {
    // Where its entries or its box begin in `words`.
    start: u32,
    // Bit 0: it is of the subset. Five bits: its box, or NO_BOX and above them the number of its entries. Of a row with a box, eight
    // bits for the place of that in its plot, and the plot.
    shape: u32,
    // Observed sRGB, and alpha.
    colour: u32,
    // Its block among those of all views, and in the lower six bits its pixel within that.
    place: u32,
}

// An entry: a weight in single precision but for its last eight bits, which are a place in the patch's list of texels. Same as
// `layout::entry`.
fn entry_of(weight: f32, place: u32) -> u32 {
    return ((bitcast<u32>(weight) + 128u) & ~255u) | place;
}

// A box of `size` texels.
fn box_of(size: vec2<u32>) -> u32 {
    return size.x - 1u + BOX * (size.y - 1u);
}

// Its size, of a row that has one.
fn size_of(shape: u32) -> vec2<u32> {
    let box = (shape >> 1u) & NO_BOX;
    return vec2(box % BOX, box / BOX) + 1u;
}

fn has_box(shape: u32) -> bool {
    return ((shape >> 1u) & NO_BOX) != NO_BOX;
}

// Where the box begins in its plot.
fn corner_of(shape: u32) -> vec2<u32> {
    let corner = (shape >> 6u) & 255u;
    return vec2(corner % PLOT, corner / PLOT);
}

fn plot_of(shape: u32) -> u32 {
    return shape >> 14u;
}
