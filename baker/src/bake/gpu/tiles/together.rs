//! Parts of views → tiles: consecutive parts, as many together as a tile has room for.
//!
//! For one window a view often has only a few hundred scattered blocks. A tile of those takes a device nearly as long
//! as one of thousands.

use super::super::layout::PIXELS;
use super::super::raster::{Shape, Way};
use crate::bake::solve::backend::BLOCK;

/// Room of a tile for maps, in maps of full-size regions. Most regions are smaller, so more of them fit.
const MAPS: u32 = 4;
/// Assumed share of a view's blocks that count.
const COUNTING: f64 = 1.0 / 3.0;
/// Parts of a tile that views are cut into, where a tile may hold many: small parts fill it whatever remains of each
/// view.
const PIECES: u32 = 4;
/// Least number of steps in which views are cut: threads cut the next step while one is drawn.
const STEPS: usize = 12;

/// What a tile has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Blocks of all views together.
    blocks: u32,
    /// Regions, each of one view.
    regions: u32,
    /// Words of the regions' maps.
    pub(super) map: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) blocks: u32,
    pub(crate) map: u32,
}

/// Words of the map of a region of `size` pixels.
pub(crate) fn map_words(size: [u32; 2]) -> u32 {
    size.map(|edge| edge.div_ceil(BLOCK)).iter().product()
}

impl Room {
    /// Room of tiles of this shape, for a mesh of `triangles` triangles.
    pub(crate) fn of(way: Way, shape: Shape, triangles: u32) -> Self {
        let regions = way.regions(triangles);
        let one = map_words([shape.region; 2]);
        // Keeps the list of blocks and the maps no longer than the pixels, so that a binding holds them.
        let most = shape.blocks * (PIXELS as u32 - 1);
        Self {
            blocks: shape.blocks,
            regions,
            map: one.max(most.min(one * regions.min(MAPS))),
        }
    }

    /// Shape of the parts that a view is cut into, for tiles of this shape.
    pub(crate) fn piece(self, shape: Shape) -> Shape {
        match self.regions >= 2 * PIECES {
            true => Shape {
                blocks: shape.blocks.div_ceil(PIECES),
                ..shape
            },
            false => shape,
        }
    }

    /// Number of views to cut at once: enough to fill two tiles. Views have `blocks` blocks on average, of which this
    /// `share` is drawn; there are `count` views.
    pub(crate) fn views(self, blocks: f64, share: f64, count: usize) -> usize {
        let fit = 2.0 * f64::from(self.blocks) / (blocks * share * COUNTING).max(1.0);
        let most = if self.regions > 1 {
            count.div_ceil(STEPS)
        } else {
            1
        };
        (fit as usize).clamp(1, most.max(1))
    }

    /// Joins consecutive parts while they fit a tile.
    pub(crate) fn together<T>(
        self,
        parts: impl IntoIterator<Item = T>,
        takes: impl Fn(&T) -> Taken,
    ) -> Vec<Vec<T>> {
        let mut tiles: Vec<Vec<T>> = Vec::new();
        let mut all = Taken::default();
        for part in parts {
            let own = takes(&part);
            let with = Taken {
                blocks: all.blocks + own.blocks,
                map: all.map + own.map,
            };
            match tiles.last_mut() {
                Some(tile)
                    if with.blocks <= self.blocks
                        && with.map <= self.map
                        && tile.len() < self.regions as usize =>
                {
                    tile.push(part);
                    all = with;
                }
                _ => {
                    tiles.push(vec![part]);
                    all = own;
                }
            }
        }
        tiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        blocks: 100,
        regions: 3,
        map: 400,
    };

    fn sizes(parts: &[(u32, u32)]) -> Vec<usize> {
        let takes = |&(blocks, map): &(u32, u32)| Taken { blocks, map };
        let tiles = ROOM.together(parts.iter().copied(), takes);
        let all: Vec<(u32, u32)> = tiles.iter().flatten().copied().collect();
        assert_eq!(all, parts, "each once, and in order");
        tiles.iter().map(Vec::len).collect()
    }

    #[test]
    fn a_tile_holds_no_more_blocks_regions_and_words_than_it_has_room_for() {
        assert_eq!(sizes(&[(50, 1), (50, 1), (1, 1)]), [2, 1]);
        assert_eq!(sizes(&[(1, 1); 7]), [3, 3, 1]);
        assert_eq!(sizes(&[(1, 200), (1, 200), (1, 1)]), [2, 1]);
        assert_eq!(sizes(&[(1, 399), (100, 400), (1, 1)]), [1, 1, 1]);
        assert!(sizes(&[]).is_empty());
    }

    #[test]
    fn meshes_of_many_triangles_are_drawn_view_by_view_and_by_the_graphics_pipeline_all_are() {
        let shape = Shape {
            blocks: 8192,
            region: 1024,
        };
        let of = |way, triangles| Room::of(way, shape, triangles);
        let few = of(Way::Compute, 5856);
        assert_eq!((few.regions, few.map), (16, 4 * 128 * 128));
        let small = Shape { blocks: 2, ..shape };
        assert_eq!(Room::of(Way::Compute, small, 5856).map, 128 * 128);
        for alone in [of(Way::Compute, 300_000), of(Way::Graphics, 5856)] {
            assert_eq!((alone.regions, alone.map), (1, 128 * 128));
            assert_eq!(alone.views(64.0, 1.0, 100), 1);
            assert_eq!(alone.piece(shape), shape);
        }
    }

    #[test]
    fn so_many_views_are_cut_at_once_as_fill_a_tile() {
        let shape = Shape {
            blocks: 8192,
            region: 1024,
        };
        let room = Room::of(Way::Compute, shape, 5856);
        assert_eq!(room.views(128.0 * 128.0, 1.0, 100), 3);
        assert_eq!(room.views(64.0 * 64.0, 1.0, 200), 12);
        assert_eq!(room.views(128.0 * 128.0, 1.0 / 9.0, 100), 9, "12 steps");
        assert_eq!(room.views(64.0 * 64.0, 1.0, 5), 1);
        assert_eq!(room.views(64.0 * 64.0, 1.0, 0), 1);
        assert_eq!(room.piece(shape).blocks, 2048);
    }
}
