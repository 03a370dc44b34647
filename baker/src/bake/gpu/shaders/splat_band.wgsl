// Same as `layout::SplatBand`.
struct SplatBand {
    // Tiles of the window, across and down.
    across: u32,
    down: u32,
    // Rows of tiles of the band.
    first_row: u32,
    rows: u32,
    // Width and height of the window in pixels.
    width: u32,
    height: u32,
    // Splats that show.
    visible: u32,
    // Pairs of each tile that are blended: the first one's number, and how many at most.
    first: u32,
    most: u32,
    // 1 where no more pairs follow.
    last: u32,
    // 1 where pairs are stored, 0 where they are counted.
    storing: u32,
    unused: u32,
}
