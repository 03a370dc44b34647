//! Several textures instead of one: their number, and the place of each in the square atlas that is baked.
//!
//! The atlas is cut into a grid of equal squares, its pages. No chart crosses their borders, so each page is a texture
//! of its own, while the bake still makes one square. Pages are numbered row by row from the atlas' top left. As UDIM
//! tiles, whose v points up, that is row by row from the bottom.

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_TEXTURE_SIZE, MIN_TEXTURE_SIZE};

/// Most pages along an edge.
const MAX_SIDE: u32 = 4;

/// A number of pages: 1, 4, 9 or 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Pages {
    side: u32,
}

/// Not 1, 4, 9 or 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1, 4, 9 or 16: pages are a square of squares")]
pub struct PagesError;

impl Default for Pages {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u32> for Pages {
    type Error = PagesError;

    fn try_from(count: u32) -> Result<Self, PagesError> {
        let side = count.isqrt();
        let square = side.checked_mul(side) == Some(count);
        match square && (1..=MAX_SIDE).contains(&side) {
            true => Ok(Self { side }),
            false => Err(PagesError),
        }
    }
}

impl From<Pages> for u32 {
    fn from(pages: Pages) -> Self {
        pages.count()
    }
}

impl Pages {
    /// One page: the atlas is the texture.
    pub const ONE: Self = Self { side: 1 };
    /// The largest number of pages.
    pub const MOST: u32 = MAX_SIDE.pow(2);

    /// Pages along an edge of the atlas.
    pub const fn side(self) -> u32 {
        self.side
    }

    /// Pages in all.
    pub const fn count(self) -> u32 {
        self.side.saturating_mul(self.side)
    }

    /// Edge of the atlas whose pages have `page` texels along an edge.
    pub const fn atlas(self, page: u32) -> u32 {
        page.saturating_mul(self.side)
    }

    /// Edge of a page of an atlas with `atlas` texels along an edge.
    pub fn page(self, atlas: u32) -> u32 {
        atlas.checked_div(self.side).unwrap_or(atlas)
    }

    /// Edge of the largest page whose atlas is within bounds; a multiple of four, like every edge.
    pub fn largest(self) -> u32 {
        self.page(MAX_TEXTURE_SIZE) & !3
    }

    /// Whether an atlas may have this edge: its pages must be within bounds and multiples of four.
    pub fn fit(self, atlas: u32) -> bool {
        let page = self.page(atlas);
        self.atlas(page) == atlas
            && page.is_multiple_of(4)
            && (MIN_TEXTURE_SIZE..=self.largest()).contains(&page)
    }

    /// Column and row of a page.
    pub fn place(self, number: u32) -> [u32; 2] {
        let row = number.checked_div(self.side).unwrap_or_default();
        [number.checked_rem(self.side).unwrap_or_default(), row]
    }

    /// The page at texture coordinates `uv` of the atlas, in 0-1.
    pub fn at(self, uv: [f32; 2]) -> u32 {
        let last = self.side.saturating_sub(1);
        // Outside the atlas, or at NaN, it is the nearest page: the cast saturates.
        let [column, row] = uv.map(|x| ((x * self.side as f32) as u32).min(last));
        row.saturating_mul(self.side).saturating_add(column)
    }

    /// The number of a page as a UDIM tile: 1001 + column + 10 · row.
    pub fn udim(self, number: u32) -> u32 {
        let [column, row] = self.place(number);
        row.saturating_mul(10)
            .saturating_add(column)
            .saturating_add(1001)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_alone_are_numbers_of_pages() {
        let known: Vec<u32> = (0..200).filter(|&n| Pages::try_from(n).is_ok()).collect();
        assert_eq!(known, [1, 4, 9, 16]);
        assert!(Pages::try_from(u32::MAX).is_err());
    }

    #[test]
    fn pages_are_udim_tiles_row_by_row() {
        let pages = Pages::try_from(9).expect("a square");
        let tiles: Vec<u32> = (0..9).map(|number| pages.udim(number)).collect();
        assert_eq!(
            tiles,
            [1001, 1002, 1003, 1011, 1012, 1013, 1021, 1022, 1023]
        );
        assert_eq!([pages.at([0.0, 0.0]), pages.at([1.0, 1.0])], [0, 8]);
        assert_eq!(pages.at([0.34, 0.7]), 7);
        assert_eq!(pages.at([f32::NAN, -1.0]), 0);
    }

    #[test]
    fn the_atlas_is_bounded_and_not_the_page() {
        let [one, four, nine] = [1, 4, 9].map(|n| Pages::try_from(n).expect("a square"));
        assert_eq!(
            [one.largest(), four.largest(), nine.largest()],
            [8192, 4096, 2728]
        );
        assert!(one.fit(8192) && four.fit(8192) && nine.fit(3 * 2728));
        assert!(!one.fit(8196) && !four.fit(8200) && !four.fit(1028) && !nine.fit(1024));
        // Pages below the smallest edge.
        assert!(!four.fit(504) && four.fit(512));
    }
}
