//! Links between neighbouring texels of one surface: a bit for each texel's right neighbour, one for its lower.

/// Link bit: the texel and its right neighbour are on one surface.
pub const LINK_RIGHT: u8 = 1;
/// Link bit: the texel and its lower neighbour are on one surface.
pub const LINK_DOWN: u8 = 2;

/// Linked neighbours of a texel, in a texture whose rows have `size` texels: right, left, below, above. The last texel of a
/// row has no [`LINK_RIGHT`], so the first of the next has nothing at its left.
pub(crate) fn neighbours(links: &[u8], size: usize, texel: usize) -> impl Iterator<Item = usize> {
    let linked = |at: Option<usize>, link: u8, other: Option<usize>| {
        at.filter(|&at| links.get(at).is_some_and(|bits| bits & link != 0))
            .and(other)
    };
    let left = texel.checked_sub(1);
    let above = texel.checked_sub(size);
    let around = [
        linked(Some(texel), LINK_RIGHT, Some(texel + 1)),
        linked(left, LINK_RIGHT, left),
        linked(Some(texel), LINK_DOWN, Some(texel + size)),
        linked(above, LINK_DOWN, above),
    ];
    around.into_iter().flatten()
}
