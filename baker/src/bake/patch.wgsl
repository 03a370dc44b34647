// What a pool of rows is made of: footprint.wgsl writes it, rows.wgsl reads it.

// Same as `layout::Pool`.
struct Pool {
    patches: u32,
    rows: u32,
    entries: u32,
    texels: u32,
}

// Same as `layout::Patch`.
struct Patch {
    // Where its own begin in `rows`, `entries` and `touched`.
    first_row: u32,
    first_entry: u32,
    first_texel: u32,
    // Rows in the lower half, texels in the upper.
    counts: u32,
    // Position of the view among those added; SEAM: entries are signed, the target is 0, a row has a weight for each channel.
    view: u32,
    // In `blocks`: the first of the view, and how many it has across (lower half) and down.
    first_block: u32,
    blocks: u32,
    // The block that holds the rows: column in the lower half, line in the upper.
    block: u32,
}

struct Row {
    // First entry, from the patch's first, above 14 bits; the pixel within its block in 6 bits; number of entries in 8 bits.
    span: u32,
    // Observed sRGB, and alpha.
    colour: u32,
}

// A weight in single precision but for its last eight bits, which are a place in the patch's list of texels. Same as
// `layout::entry`.
fn entry_of(weight: f32, place: u32) -> u32 {
    return ((bitcast<u32>(weight) + 128u) & ~255u) | place;
}

fn place_of(entry: u32) -> u32 {
    return entry & 255u;
}

fn weight_of(entry: u32) -> f32 {
    return bitcast<f32>(entry & ~255u);
}
