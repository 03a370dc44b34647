//! The splats on the device, and the buffers of the view that is drawn.

use std::ops::Range;

use kiln_splat::{Cloud, coefficients};
use rayon::prelude::*;

use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::layout::{DIGIT_BITS, DIGITS, SORTED_EACH, SPLAT_LANES, SplatSorting};
use crate::bake::gpu::memory::{
    Budget, Buffer, Counted, Held, Inbox, Maker, OnDevice, STORAGE, UNIFORM, write,
};
use crate::bake::gpu::stage::{Compiled, bind_buffers};

/// Least, usual and most pairs that there is room for.
const PAIRS: [u64; 3] = [1 << 12, 1 << 23, 1 << 26];
/// Share of the memory beside the splats that is for pairs; pictures get the rest.
const FOR_PAIRS: f64 = 0.75;
/// Workgroups of a dispatch in one line.
const LINE: usize = 65_535;
const _: () = assert!(PAIRS[2] / (SPLAT_LANES * SORTED_EACH) as u64 <= LINE as u64);
/// Entries of a tile that a dispatch blends on software adapters: lavapipe ends all loops of an invocation after 65,535
/// steps, and says nothing.
const SOFTWARE_ENTRIES: u32 = 1 << 15;
/// Splats that are uploaded at a time.
const PIECE: usize = 1 << 18;
/// Largest finite half.
const MOST_HALF: f32 = 65_504.0;

/// What a renderer may use.
#[derive(Clone, Copy, Debug)]
pub(in crate::bake::gpu) struct Room {
    /// Of device memory.
    pub(in crate::bake::gpu) bytes: u64,
    /// Largest binding in bytes.
    pub(in crate::bake::gpu) binding: u64,
    /// Most pairs of a band.
    pub(in crate::bake::gpu) pairs: u64,
    /// Most pairs of a tile that one dispatch blends.
    pub(in crate::bake::gpu) entries: u32,
}

impl Room {
    pub(in crate::bake::gpu) fn of(device: &Device, bytes: u64) -> Self {
        Self {
            bytes,
            binding: device.limits.max_storage_buffer_binding_size,
            pairs: PAIRS[2],
            entries: match device.is_software() {
                true => SOFTWARE_ENTRIES,
                false => u32::MAX,
            },
        }
    }
}

/// What is stored of each splat, and what a view makes of it.
#[derive(Debug)]
pub(super) struct Splats<B = wgpu::Buffer> {
    pub(super) places: Held<B>,
    pub(super) turns: Held<B>,
    pub(super) scales: Held<B>,
    pub(super) constants: Held<B>,
    pub(super) harmonics: Held<B>,
    pub(super) ellipses: Held<B>,
    pub(super) reaches: Held<B>,
    /// Before a pass of the sort, and after it.
    pub(super) keys: [Held<B>; 2],
    /// The number of splats.
    pub(super) total: Held<B>,
}

impl<B> Splats<B> {
    fn made<M: Maker<Buffer = B>>(make: &M, count: usize, words: u32) -> Result<Self, GpuError> {
        let of = |label: &str, bytes: u64| make.buffer(label, count as u64 * bytes, STORAGE);
        Ok(Self {
            places: of("splats' places", 16)?,
            turns: of("splats' turns", 16)?,
            scales: of("splats' scales", 12)?,
            constants: of("splats' constants", 12)?,
            harmonics: of("splats' harmonics", u64::from(words) * 4)?,
            ellipses: of("ellipses", 48)?,
            reaches: of("reaches", 8)?,
            keys: [of("keys", 8)?, of("sorted keys", 8)?],
            total: make.buffer("number of splats", 4, STORAGE)?,
        })
    }
}

/// Pairs of a tile and a splat.
#[derive(Debug)]
pub(super) struct Pairs<B = wgpu::Buffer> {
    /// How many there is room for.
    pub(super) room: u64,
    pub(super) lists: [Held<B>; 2],
    /// How many there are.
    pub(super) total: Held<B>,
    /// Of any sort or sum.
    pub(super) sums: Held<B>,
}

impl<B> Pairs<B> {
    fn made<M: Maker<Buffer = B>>(make: &M, splats: usize, room: u64) -> Result<Self, GpuError> {
        let of = |label: &str| make.buffer(label, room * 8, STORAGE);
        let sorted = room
            .max(splats as u64)
            .div_ceil(u64::from(SPLAT_LANES * SORTED_EACH));
        let digits = u64::from(DIGITS) * (sorted + 1);
        let groups = splats.div_ceil(SPLAT_LANES as usize) as u64;
        Ok(Self {
            room,
            lists: [of("pairs")?, of("sorted pairs")?],
            total: make.buffer("number of pairs", 4, STORAGE)?,
            sums: make.buffer("sums", digits.max(groups) * 4, STORAGE)?,
        })
    }
}

/// Bind groups of both sorts, one for each digit from the lowest.
#[derive(Debug)]
pub(super) struct Sorts {
    pub(super) by_depth: Vec<wgpu::BindGroup>,
    pub(super) by_tile: Vec<wgpu::BindGroup>,
}

impl Sorts {
    fn new(
        device: &Device,
        stage: &Compiled,
        digits: &[Buffer],
        (splats, pairs): (&Splats, &Pairs),
    ) -> Self {
        let groups = |lists: &[Buffer; 2], total: &Buffer| {
            let of = |(k, digit)| {
                let [from, to] = [k, k + 1].map(|k| &lists[k % 2]);
                let buffers = [digit, total, from, to, &pairs.sums];
                bind_buffers(device, "sort", &stage.layout, &buffers)
            };
            digits.iter().enumerate().map(of).collect()
        };
        Self {
            by_depth: groups(&splats.keys, &splats.total),
            by_tile: groups(&pairs.lists, &pairs.total),
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Store {
    /// How many there are, and the degree and the words of each one's harmonics.
    pub(super) count: usize,
    pub(super) degree: usize,
    pub(super) words: u32,
    pub(super) splats: Splats,
    pub(super) pairs: Pairs,
    /// Most pairs that there may be room for.
    most_pairs: u64,
    pub(super) sorts: Sorts,
    /// First and last pair of each tile, what is carried from one dispatch to the next, and the picture.
    pub(super) ranges: Buffer,
    pub(super) carried: Buffer,
    pub(super) pixels: Buffer,
    pub(super) inboxes: Vec<Inbox>,
    /// Parameters of a view's dispatches.
    pub(super) slots: Buffer,
    digits: Vec<Buffer>,
}

/// Words of a splat's harmonics, two halves each.
fn words(degree: usize) -> u32 {
    (3 * coefficients(degree)).div_ceil(2) as u32
}

impl Store {
    /// Most pairs that there is room for beside so many splats; none where there is too little.
    pub(super) fn most_pairs(count: usize, degree: usize, room: &Room) -> Option<u64> {
        if count.div_ceil(SPLAT_LANES as usize) > LINE {
            return None;
        }
        let budget = Budget::new(room.bytes, room.binding);
        let make = Counted(&budget);
        // Held while what is left is counted.
        let _splats = Splats::made(&make, count, words(degree)).ok()?;
        let _least = Pairs::made(&make, count, 0).ok()?;
        // A pair is in both lists, and has its share of the sums.
        let block = u64::from(SPLAT_LANES * SORTED_EACH);
        let each = 16.0 + (DIGITS * 4) as f64 / block as f64;
        let pairs = (budget.left() as f64 * FOR_PAIRS / each) as u64;
        let pairs = pairs.min(room.binding / 8).min(room.pairs);
        (pairs >= PAIRS[0].min(room.pairs)).then_some(pairs)
    }

    pub(super) fn new(
        on: OnDevice<'_>,
        sort: &Compiled,
        cloud: &Cloud,
        degree: usize,
        most_pairs: u64,
    ) -> Result<Self, GpuError> {
        let (device, count, words) = (on.device, cloud.len(), words(degree));
        let splats = Splats::made(&on, count, words)?;
        let pairs = Pairs::made(&on, count, most_pairs.min(PAIRS[1]))?;
        upload(device, &splats, cloud, degree)?;
        let digits = (0..u32::BITS / DIGIT_BITS).map(|digit| {
            let buffer = on.buffer("digit", size_of::<SplatSorting>() as u64, UNIFORM)?;
            let sorting = SplatSorting {
                shift: digit * DIGIT_BITS,
                ..SplatSorting::default()
            };
            write(device, &buffer, &[sorting]);
            Ok(buffer)
        });
        let digits: Vec<Buffer> = digits.collect::<Result<_, GpuError>>()?;
        Ok(Self {
            count,
            degree,
            words,
            sorts: Sorts::new(device, sort, &digits, (&splats, &pairs)),
            most_pairs,
            splats,
            pairs,
            ranges: on.buffer("ranges", 0, STORAGE)?,
            carried: on.buffer("carried", 0, STORAGE)?,
            pixels: on.buffer("pixels", 0, STORAGE)?,
            inboxes: Vec::new(),
            slots: on.buffer("parameters", 0, UNIFORM)?,
            digits,
        })
    }

    /// Makes room for so many pairs if that is possible; a view may have more of them in a row of tiles than is usual.
    pub(super) fn provide_pairs(
        &mut self,
        on: OnDevice<'_>,
        sort: &Compiled,
        pairs: u64,
    ) -> Result<(), GpuError> {
        if pairs <= self.pairs.room || self.pairs.room == self.most_pairs {
            return Ok(());
        }
        // What is too small goes before more is asked for.
        self.pairs = Pairs::made(&on, self.count, 0)?;
        let room = pairs.next_power_of_two().min(self.most_pairs);
        self.pairs = Pairs::made(&on, self.count, room)?;
        self.sorts = Sorts::new(on.device, sort, &self.digits, (&self.splats, &self.pairs));
        Ok(())
    }

    /// Makes room for pictures of so many pixels.
    pub(super) fn provide_pixels(
        &mut self,
        on: OnDevice<'_>,
        pixels: usize,
    ) -> Result<(), GpuError> {
        let bytes = pixels as u64 * 4;
        if self.inboxes.is_empty() || self.pixels.bytes() < bytes {
            // What is too small goes before more is asked for.
            self.inboxes.clear();
            enlarge(on, &mut self.pixels, "pixels", bytes, STORAGE)?;
            self.inboxes = vec![Inbox::made(on, bytes)?, Inbox::made(on, bytes)?];
        }
        Ok(())
    }

    /// Asks for the picture through one of the inboxes.
    pub(super) fn send(
        &mut self,
        device: &Device,
        half: usize,
        pixels: usize,
    ) -> Result<(), GpuError> {
        self.inboxes[half].send(device, &self.pixels, pixels as u64 * 4)
    }
}

/// Makes a buffer anew where it has fewer bytes.
pub(super) fn enlarge(
    on: OnDevice<'_>,
    buffer: &mut Buffer,
    label: &str,
    bytes: u64,
    usage: wgpu::BufferUsages,
) -> Result<(), GpuError> {
    if buffer.bytes() < bytes {
        *buffer = on.buffer(label, 0, usage)?;
        *buffer = on.buffer(label, bytes, usage)?;
    }
    Ok(())
}

/// Uploads the splats, piece by piece.
fn upload(device: &Device, to: &Splats, cloud: &Cloud, degree: usize) -> Result<(), GpuError> {
    let count = cloud.len();
    write(device, &to.total, &[count as u32]);
    for first in (0..count).step_by(PIECE) {
        let range = first..count.min(first + PIECE);
        let at = cloud.positions[range.clone()].iter();
        let places = at.zip(&cloud.opacities[range.clone()]);
        let places: Vec<[f32; 4]> = places
            .map(|(&[x, y, z], &opacity)| [x, y, z, opacity])
            .collect();
        write_at(device, &to.places, first, &places);
        write_at(device, &to.turns, first, &cloud.rotations[range.clone()]);
        write_at(device, &to.scales, first, &cloud.scales[range.clone()]);
        write_at(
            device,
            &to.constants,
            first,
            &cloud.constants[range.clone()],
        );
        if degree > 0 {
            let packed = packed(cloud, range, degree);
            write_at(
                device,
                &to.harmonics,
                first * words(degree) as usize,
                &packed,
            );
        }
        // Submits the queue's copies before the next piece's are made.
        let mut batch = Batch::new(device, "splats");
        batch.encoder();
        batch.send()?;
    }
    Ok(())
}

/// Harmonics of some splats as halves, two a word; each splat begins with a word of its own.
fn packed(cloud: &Cloud, range: Range<usize>, degree: usize) -> Vec<u32> {
    let (all, kept) = (coefficients(cloud.degree), coefficients(degree));
    let words = words(degree) as usize;
    let mut packed = vec![0; range.len() * words];
    let harmonics = &cloud.harmonics[range.start * all..range.end * all];
    let each = packed.par_chunks_mut(words).zip(harmonics.par_chunks(all));
    each.for_each(|(words, harmonics)| {
        let halves = harmonics[..kept].iter().flatten().map(|x| half_of(*x));
        for (k, half) in halves.enumerate() {
            words[k / 2] |= u32::from(half) << (16 * (k % 2));
        }
    });
    packed
}

/// Writes items behind the first `first` ones of a buffer.
fn write_at<T: bytemuck::Pod>(device: &Device, to: &Buffer, first: usize, items: &[T]) {
    let bytes: &[u8] = bytemuck::cast_slice(items);
    device.uploaded(bytes.len());
    let offset = (first * size_of::<T>()) as u64;
    device.queue.write_buffer(&to.item, offset, bytes);
}

/// The nearest half of a finite number, to even where two are as near; none is infinite.
fn half_of(x: f32) -> u16 {
    const LEAST_NORMAL: f32 = 1.0 / 16_384.0;
    let sign = (x.to_bits() >> 16 & 0x8000) as u16;
    let size = x.abs().min(MOST_HALF);
    let bits = if size < LEAST_NORMAL {
        // Steps of 2⁻²⁴; one more than the last of them is the least normal one.
        (size * 16_777_216.0).round_ties_even() as u16
    } else {
        let bits = size.to_bits();
        let rounded = bits + 0xfff + (bits >> 13 & 1);
        ((rounded >> 13) - (112 << 10)) as u16
    };
    sign | bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_nearest_ones() {
        let known = [
            (0.0, 0),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65_504.0, 0x7bff),
            (1e9, 0x7bff),
            (-1e9, 0xfbff),
            (0.1, 0x2e66),
            (1.0 / 16_384.0, 0x0400),
            (6.0e-8, 0x0001),
            (1e-12, 0),
            // Ties go to even.
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
        ];
        for (x, half) in known {
            assert_eq!(half_of(x), half, "{x}");
        }
    }

    #[test]
    fn what_does_not_fit_is_known_before_anything_is_made() {
        let room = Room {
            bytes: 64 << 20,
            binding: 16 << 20,
            pairs: PAIRS[2],
            entries: u32::MAX,
        };
        let pairs = |count, degree, room: Room| Store::most_pairs(count, degree, &room);
        assert_eq!(pairs(100_000, 0, room), Some(room.binding / 8));
        let tight = Room {
            bytes: 14 << 20,
            ..room
        };
        let some = pairs(100_000, 0, tight).expect("room for some");
        assert!((10_000..300_000).contains(&some), "{some}");
        assert_eq!(pairs(100_000, 3, tight), None);
        // An ellipse has 48 bytes.
        assert_eq!(pairs(400_000, 0, room), None);
        assert!(pairs(0, 0, room).is_some());
    }
}
