//! Estimates from some of the views what a pixel comes to: rows, entries, patches, bytes, and the time for them on this
//! processor.
//!
//! The masks of all views are stored, and decimated as in the bake. Rows are then built for views of the first half
//! million pixels, and for every later view whose number is a power of two, up to four million pixels in all.

use std::time::{Duration, Instant};

use proto::table::View;

use crate::bake::gpu::dry_run::{Rates, in_pools};
use crate::bake::intake::decimate::{Decimation, Decimator, Decision, Head, Mask, Survey};
use crate::bake::intake::surface::Original;
use crate::bake::model::footprint::{MIN_ALPHA, footprints};
use crate::bake::model::plots::{Plots, ViewRows};
use crate::bake::model::rows::Rows;
use crate::bake::model::scene::Scene;
use crate::bake::plan::dry_run::seconds::slower;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::RowMemory;
use crate::bake::solve::subdomains::Subdomains;
use crate::worker::progress::unit;

/// Pixels of the first views, whose rows are always built.
const FIRST: u64 = 1 << 19;
/// Most pixels of which rows are built.
const MOST: u64 = 1 << 22;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Views that came, and those whose rows were built.
    pub(super) views: u32,
    pub(super) drawn: u32,
    /// Of all views: pixels, and opaque pixels that are not decimated.
    pub(super) pixels: u64,
    pub(super) counting: u64,
    /// Opaque pixels of each view, and its rows and their bytes where they were built.
    by_view: Vec<(u64, Option<(u64, usize)>)>,
    /// Of the views whose rows were built.
    drawn_pixels: u64,
    drawn_counting: u64,
    rows: u64,
    entries: u64,
    patches: u64,
    words: u64,
    boxes: [u64; 2],
    bytes: u64,
    time: Duration,
    /// Of all views.
    masks: Vec<Bits>,
}

/// The mask of a view that is not stored.
#[derive(Debug)]
struct Bits {
    head: Head,
    bits: Vec<u64>,
}

impl Bits {
    fn of(view: &View) -> Self {
        let word = |pixels: &[[u8; 4]]| {
            let bits = pixels.iter().enumerate();
            bits.fold(0, |word, (at, pixel)| {
                word | u64::from(pixel[3] >= MIN_ALPHA) << at
            })
        };
        Self {
            head: view.head(),
            bits: view.pixels.chunks(64).map(word).collect(),
        }
    }

    /// A black view with this mask.
    fn view(&self) -> View {
        let Head {
            index,
            size: [width, height],
            camera,
        } = self.head;
        let pixel = |at| [0, 0, 0, if self.counts(at) { u8::MAX } else { 0 }];
        View {
            index,
            width,
            height,
            crop: [0; 2],
            has_alpha: true,
            holdout: false,
            camera,
            pixels: (0..width as usize * height as usize).map(pixel).collect(),
        }
    }
}

impl Mask for Bits {
    fn head(&self) -> Head {
        self.head
    }

    fn counts(&self, pixel: usize) -> bool {
        self.bits[pixel / 64] >> (pixel % 64) & 1 == 1
    }
}

impl Sample {
    pub(super) fn add(&mut self, view: &View) {
        self.views += 1;
        self.pixels += view.pixels.len() as u64;
        self.masks.push(Bits::of(view));
    }

    /// Decimates all views as the bake would.
    pub(super) fn decimate(&mut self, decimation: &Decimation) {
        for mask in &mut self.masks {
            let mut view = mask.view();
            decimation.kept().decimate(&mut view);
            *mask = Bits::of(&view);
        }
    }

    /// Builds rows of some of the views in their present state; `seen` gets every view, in black.
    pub(super) fn draw(
        &mut self,
        scene: &Scene,
        original: Option<&Original>,
        taps: u32,
        mut seen: impl FnMut(&View),
    ) {
        for number in 0..self.masks.len() {
            let mut view = self.masks[number].view();
            seen(&view);
            let pixels = view.pixels.len() as u64;
            let counting = view.counting() as u64;
            let mut own = None;
            let early = self.drawn_pixels < FIRST || number.is_power_of_two();
            if self.drawn == 0 || (early && self.drawn_pixels < MOST) {
                if let Some(original) = original {
                    original.mask(&mut view);
                }
                let begun = Instant::now();
                let chunks = footprints(scene, &view, taps);
                let plots = Plots::new(scene.size as usize);
                let bytes = ViewRows::new(&chunks, plots, &scene.window).bytes();
                self.time += begun.elapsed();
                self.drawn += 1;
                self.drawn_pixels += pixels;
                self.drawn_counting += counting;
                for rows in &chunks {
                    self.enter(rows, view.width, &scene.window, taps);
                }
                self.bytes += bytes as u64;
                let rows = chunks.iter().map(|rows| rows.len() as u64).sum();
                own = Some((rows, bytes));
            }
            self.counting += counting;
            self.by_view.push((counting, own));
            unit();
        }
    }

    /// The subdomains in which the bake would fit the texture; `memory` says what a window of so many texels leaves for
    /// rows.
    pub(super) fn parts(
        &self,
        decimator: Decimator<'_>,
        memory: impl Fn(usize) -> RowMemory,
        least: u32,
    ) -> Subdomains {
        let Decimator {
            scene, atlas, taps, ..
        } = decimator;
        Subdomains::of(scene, atlas, taps, memory, least, &self.masks)
    }

    /// The decision on the rows of all views.
    pub(super) fn decide(&self, decimator: Decimator<'_>) -> Decision {
        Survey::of(decimator, &self.masks)
    }

    fn enter(&mut self, rows: &Rows, width: u32, window: &Window, taps: u32) {
        let pools = in_pools(rows, width, window, taps);
        self.rows += rows.len() as u64;
        self.entries += rows.entries.len() as u64;
        self.patches += pools.patches;
        self.words += pools.words;
        for (sum, more) in self.boxes.iter_mut().zip(pools.boxes) {
            *sum += more;
        }
    }

    /// What an opaque pixel comes to.
    pub(super) fn rates(&self) -> Rates {
        let of = |count: u64| count as f64 / self.drawn_counting.max(1) as f64;
        Rates {
            rows: of(self.rows),
            entries: of(self.entries),
            patches: of(self.patches),
            words: of(self.words),
            boxes: self.boxes.map(of),
        }
    }

    /// Memory that the processor needs for the rows of all views, in bytes.
    pub(super) fn bytes(&self) -> f64 {
        self.kept().map(|(_, bytes)| bytes as f64).sum()
    }

    pub(super) fn all_entries(&self) -> f64 {
        self.rates().entries * self.counting as f64
    }

    /// Rows of each view, and the bytes in which the processor stores them.
    pub(super) fn kept(&self) -> impl Iterator<Item = (u64, usize)> {
        let counting = self.drawn_counting.max(1) as f64;
        let [rows, bytes] = [self.rows, self.bytes].map(|sum| sum as f64 / counting);
        self.by_view.iter().map(move |&(pixels, own)| {
            let of = |rate: f64| (pixels as f64 * rate).round();
            own.unwrap_or((of(rows) as u64, of(bytes) as usize))
        })
    }

    /// Seconds for the rows of all views on this processor.
    pub(super) fn seconds(&self) -> f64 {
        let share = self.pixels as f64 / self.drawn_pixels.max(1) as f64;
        self.time.as_secs_f64() * share
    }

    /// How much slower this machine is than the reference.
    pub(super) fn slower(&self, triangles: usize, taps: u32) -> f64 {
        let samples = self.rows * u64::from(taps * taps);
        let triangles = triangles as u64 * u64::from(self.drawn);
        slower(self.time.as_secs_f64(), [samples, self.entries, triangles])
    }
}
