//! The rows of a view as the device made them, for tests.

use proto::table::View;

use super::Fit;
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::{
    PATCH_TEXELS, Patch, ROW_BIN, Row, box_of, box_weights, entry_parts, row_bin_of,
};
use crate::bake::gpu::memory::{Buffer, Maker, STORAGE, read_as, write};
use crate::bake::gpu::row_store::COUNTERS;
use crate::bake::gpu::tiles::{Drawn, Shape};
use crate::bake::model::rows::{Entry, Rows};
use crate::bake::solve::backend::BLOCK;

/// What a tile became in a pool. Boxes are at the beginning of the buffers, other rows at the end.
struct DrawnRows {
    boxed: Vec<Row>,
    box_words: Vec<u32>,
    listed: Vec<Row>,
    words: Vec<u32>,
    /// Where those rows and words begin.
    ends: [usize; 2],
    /// Of the subset, and others.
    patches: [Vec<Patch>; 2],
}

impl DrawnRows {
    /// Each row without a box, whether its patch is of the subset, and its entries.
    fn listed(&self) -> impl Iterator<Item = (Row, bool, Vec<Entry>)> {
        let [subset, others] = &self.patches;
        let patches = (subset.iter().map(|patch| (patch, true)))
            .chain(others.iter().map(|patch| (patch, false)));
        patches.flat_map(move |(patch, in_subset)| {
            let [first_row, first_word] = self.ends;
            let texels = patch.counts >> 16;
            assert!(texels <= PATCH_TEXELS);
            let first = patch.first_row as usize - first_row;
            let rows = &self.listed[first..first + (patch.counts & 0xffff) as usize];
            rows.iter().map(move |row| {
                assert!(box_of(row.shape).is_none());
                let words = &self.words[row.start as usize - first_word..];
                let entry = |&word: &u32| {
                    let (weight, place) = entry_parts(word);
                    assert!(place < texels, "a place within the list");
                    let at = (patch.first_texel + place) as usize - first_word;
                    Entry {
                        texel: self.words[at],
                        weight,
                    }
                };
                let entries = words[..(row.shape >> 6) as usize].iter().map(entry);
                (*row, in_subset, entries.collect())
            })
        })
    }

    /// Each row with a box, whether it is in the subset, and its entries in a window with rows of `pitch` texels.
    fn boxed(&self, pitch: u32) -> impl Iterator<Item = (Row, bool, Vec<Entry>)> {
        self.boxed.iter().map(move |row| {
            let (size, corner) = box_of(row.shape).expect("a box");
            let (row_bin, across) = (row_bin_of(row.shape), pitch.div_ceil(ROW_BIN));
            let first = [row_bin % across, row_bin / across];
            let [x, y] = [0, 1].map(|axis| first[axis] * ROW_BIN + corner[axis]);
            let weights = box_weights(&self.box_words[row.start as usize..], size[0] * size[1]);
            let entries = (0..).zip(weights).filter(|(_, weight)| *weight > 0.0);
            let entries = entries.map(|(nth, weight)| Entry {
                texel: (y + nth / size[0]) * pitch + x + nth % size[0],
                weight,
            });
            (*row, row.shape & 1 == 1, entries.collect())
        })
    }
}

impl Fit {
    pub(crate) fn tile_shape(&self) -> (Shape, u32) {
        self.tiles.shape()
    }

    /// `count` values of a buffer that has room for `room` of them: the last ones.
    fn read_end<T: bytemuck::Pod>(
        &self,
        from: &Buffer,
        room: u32,
        count: usize,
    ) -> Result<Vec<T>, GpuError> {
        let first = room as usize - count;
        let [first, bytes] = [first, count].map(|count| (count * size_of::<T>()) as u64);
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let end = self.on().buffer("end", bytes, STORAGE)?;
        let mut batch = Batch::new(&self.device, "end");
        (batch.encoder()).copy_buffer_to_buffer(&from.item, first, &end.item, 0, Some(bytes));
        batch.send()?;
        read_as(self.on(), &end, count)
    }

    /// The rows of a view, with their pixels, drawn into a pool of their own.
    pub(crate) fn rows_of(&self, view: &View) -> Result<Rows, GpuError> {
        let (on, room, window) = (self.on(), self.store.room(), &self.scene.window);
        let [across, down] = [view.width, view.height].map(|edge| edge.div_ceil(BLOCK));
        let mut rows = Rows {
            view: view.index,
            starts: vec![0],
            ..Rows::default()
        };
        let pool = self.store.mould().buffers(on, &self.tiles)?;
        let (camera, place) = (self.scene.camera(&view.camera), (0, 0, [across, down]));
        let parts = self.tiles.cut(view, &camera, place, Drawn::default());
        let mut works = self.tiles.together(parts);
        while let Some(work) = works.pop() {
            write(&self.device, &pool.counters, &[0u32; COUNTERS]);
            self.tiles.build(&self.device, &work, None, &pool.drawn)?;
            let counts: Vec<u32> = read_as(on, &pool.counters, COUNTERS)?;
            if counts[4] != 0 {
                works.extend(self.tiles.split(&work));
                continue;
            }
            let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
            assert_eq!(counts[5] + counts[7], counts[0], "patches");
            assert_eq!(counts[3] + counts[13], counts[1], "rows");
            assert_eq!(counts[8] + counts[14], counts[2], "words");
            let patches: Vec<Patch> = read_as(on, &pool.patches, room.patches as usize)?;
            let drawn = DrawnRows {
                boxed: read_as(on, &pool.rows, counts[3])?,
                box_words: read_as(on, &pool.words, counts[8])?,
                listed: self.read_end(&pool.rows, room.rows, counts[13])?,
                words: self.read_end(&pool.words, room.words, counts[14])?,
                ends: [
                    room.rows as usize - counts[13],
                    room.words as usize - counts[14],
                ],
                patches: [
                    patches[..counts[5]].to_vec(),
                    patches[patches.len() - counts[7]..].to_vec(),
                ],
            };
            let before = rows.len();
            let mut of_subset = 0;
            for (row, in_subset, entries) in drawn.listed().chain(drawn.boxed(self.planes.size)) {
                rows.entries.extend(entries);
                rows.starts.push(rows.entries.len() as u32);
                assert_eq!(
                    window.row_in_subset(rows.row(rows.starts.len() - 2)),
                    in_subset
                );
                assert_eq!(row.shape & 1 == 1, in_subset);
                of_subset += usize::from(in_subset);
                rows.colours.push(row.colour.to_le_bytes());
                let (block, within) = (row.place >> 6, row.place & 63);
                let x = block % across * BLOCK + within % BLOCK;
                let y = block / across * BLOCK + within / BLOCK;
                rows.pixels.push(y * view.width + x);
            }
            assert_eq!(of_subset, counts[6]);
            assert_eq!(rows.len() - before, counts[1], "every row once");
        }
        Ok(rows)
    }
}
