//! What an atlas is made of and for.

/// A surface: points, and triangles as their indices. Sides that belong together share points.
#[derive(Clone, Copy, Debug)]
pub struct Mesh<'a> {
    /// World positions, all finite.
    pub positions: &'a [[f32; 3]],
    /// Corners as indices of positions, wound alike.
    pub triangles: &'a [[u32; 3]],
}

/// Squares of squares that the atlas is cut into. No chart crosses their borders, so each can be a texture of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    side: u32,
}

impl Pages {
    /// The atlas is one texture.
    pub const ONE: Self = Self { side: 1 };

    /// `side` pages along an edge, at least one.
    pub const fn new(side: u32) -> Self {
        Self {
            side: if side == 0 { 1 } else { side },
        }
    }

    /// Pages along an edge.
    pub const fn side(self) -> u32 {
        self.side
    }

    /// Pages in all.
    pub const fn count(self) -> u32 {
        self.side.saturating_mul(self.side)
    }

    /// Edge of a page of an atlas with `atlas` texels along an edge.
    pub const fn page(self, atlas: u32) -> u32 {
        atlas / self.side
    }

    /// Column and row of a page.
    pub const fn place(self, number: u32) -> [u32; 2] {
        [number % self.side, number / self.side]
    }
}

/// What views show of a surface, by triangle: where nobody looks, charts get fewer texels, and seams go there.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// The most pixels per unit of area in any view that sees the triangle, 0 where none does.
    pub best: Vec<f64>,
    /// Sum of the pixels per unit of area over all views that see any of the triangle, as if each saw all of it.
    pub exposure: Vec<f64>,
    /// Sum of the pixels that show the triangle, over all views.
    pub pixels: Vec<f64>,
}

/// What an atlas is made for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Edge of the atlas in texels, over all pages. Gaps between charts are at least two texels.
    pub texture_size: u32,
    /// Pages that the atlas is cut into.
    pub pages: Pages,
    /// What views show, where known.
    pub views: Option<&'a Views>,
}

impl From<(u32, Pages)> for Wanted<'_> {
    /// Nothing is known of the views.
    fn from((texture_size, pages): (u32, Pages)) -> Self {
        Self {
            texture_size,
            pages,
            views: None,
        }
    }
}
