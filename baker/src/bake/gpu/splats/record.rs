//! Records the stages of a view.

use super::bands::{Band, cut};
use super::store::enlarge;
use super::survey::{Seen, tiles};
use super::{Renderer, Shot};
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::{
    DIGIT_BITS, DIGITS, SORTED_EACH, SPLAT_LANES, SPLAT_TILE, SplatBand,
};
use crate::bake::gpu::memory::{Buffer, OnDevice, STORAGE, UNIFORM};
use crate::bake::gpu::stage::bind;

/// Distance of parameters in their buffer: no adapter asks for more.
const SLOT: usize = 256;

/// Parameters of dispatches, one behind the other.
#[derive(Debug, Default)]
struct Slots(Vec<u8>);

impl Slots {
    /// Adds parameters; returns their number.
    fn put<T: bytemuck::Pod>(&mut self, parameters: T) -> usize {
        let number = self.0.len() / SLOT;
        self.0.extend_from_slice(bytemuck::bytes_of(&parameters));
        self.0.resize((number + 1) * SLOT, 0);
        number
    }
}

/// The parameters number `number` of a buffer.
fn slot(of: &Buffer, number: usize) -> wgpu::BindingResource<'_> {
    wgpu::BindingResource::Buffer(wgpu::BufferBinding {
        buffer: &of.item,
        offset: (number * SLOT) as u64,
        size: wgpu::BufferSize::new(SLOT as u64),
    })
}

/// A band, and the numbers of its parameters: of the dispatches that count, store and blend pairs.
#[derive(Debug)]
struct Planned {
    band: Band,
    lists: [usize; 2],
    blends: Vec<usize>,
}

impl Renderer {
    /// The bind group of the projection; `counted` and `parameters` are those of the views.
    pub(super) fn project_group(
        &self,
        turn: wgpu::BindingResource<'_>,
        [counted, parameters]: [&Buffer; 2],
    ) -> wgpu::BindGroup {
        let splats = &self.store.splats;
        let mut resources = vec![turn];
        let buffers = [
            parameters,
            &splats.places,
            &splats.turns,
            &splats.scales,
            &splats.constants,
            &splats.harmonics,
            counted,
            &splats.ellipses,
            &splats.reaches,
            &splats.keys[0],
        ];
        resources.extend(buffers.map(|buffer| buffer.item.as_entire_binding()));
        let layout = &self.stages.project.layout;
        bind(&self.device, "project", layout, &resources)
    }

    /// Draws a view into the pixels: the `nth` of those that were surveyed last.
    pub(super) fn record(&mut self, nth: usize, shot: &Shot, seen: &Seen) -> Result<(), GpuError> {
        let on = OnDevice::new(&self.device, &self.budget);
        let most = seen.rows.iter().copied().max().unwrap_or(0);
        self.store.provide_pairs(on, &self.stages.sort, most)?;
        let mut slots = Slots::default();
        let turn = self.turn(nth as u32);
        let turn_slot = slots.put(turn);
        let planned = self.plan(shot, seen, &mut slots)?;
        self.provide(&planned, shot, &slots)?;
        let Some([counted, parameters]) = &self.views else {
            return Err(GpuError::refused("splats", "no view was surveyed"));
        };
        let mut batch = Batch::new(&self.device, "splats");
        let resource = slot(&self.store.slots, turn_slot);
        let group = self.project_group(resource, [counted, parameters]);
        let groups = turn.stride / SPLAT_LANES;
        (self.stages.project).dispatch_line(&mut batch, "project", &group, groups)?;
        // The key of splats that do not show is the greatest.
        let passes = digits(seen.range + 1);
        self.sort(
            &mut batch,
            &self.store.sorts.by_depth,
            passes,
            self.store.count as u64,
        )?;
        let order = &self.store.splats.keys[passes % 2];
        for planned in &planned {
            self.record_band(&mut batch, planned, order, (shot, seen))?;
        }
        batch.send()
    }

    fn plan(&self, shot: &Shot, seen: &Seen, slots: &mut Slots) -> Result<Vec<Planned>, GpuError> {
        let [across, down] = tiles(shot.size());
        let room = self.store.pairs.room;
        let bands = cut(&seen.rows, across, room).map_err(|pairs| {
            let why = format!("there is room for {room} pairs of a tile and a splat, and a row of tiles has {pairs}");
            GpuError::out_of_memory("pairs", pairs * 16, why)
        })?;
        let most = self.room.entries.min(seen.visible);
        let planned = bands.into_iter().map(|band| {
            let all = SplatBand {
                across,
                down,
                first_row: band.rows.start,
                rows: band.rows.len() as u32,
                width: shot.window[2],
                height: shot.window[3],
                visible: seen.visible,
                ..SplatBand::default()
            };
            let lists = [0, 1].map(|storing| slots.put(SplatBand { storing, ..all }));
            let firsts = (0..seen.visible).step_by(most as usize);
            let blends = firsts.map(|first| {
                let last = u32::from(seen.visible - first <= most);
                slots.put(SplatBand {
                    first,
                    most,
                    last,
                    ..all
                })
            });
            let blends = blends.collect();
            Planned {
                band,
                lists,
                blends,
            }
        });
        Ok(planned.collect())
    }

    /// Makes room for the bands and writes the parameters.
    fn provide(&mut self, planned: &[Planned], shot: &Shot, slots: &Slots) -> Result<(), GpuError> {
        let on = OnDevice::new(&self.device, &self.budget);
        let [across, _] = tiles(shot.size()).map(u64::from);
        let rows = planned.iter().map(|planned| planned.band.rows.len());
        let most = across * rows.max().unwrap_or(0) as u64;
        let store = &mut self.store;
        enlarge(on, &mut store.ranges, "ranges", most * 8, STORAGE)?;
        if planned.iter().any(|planned| planned.blends.len() > 1) {
            let pixels = most * u64::from(SPLAT_TILE * SPLAT_TILE);
            enlarge(on, &mut store.carried, "carried", pixels * 16, STORAGE)?;
        }
        let bytes = slots.0.len() as u64;
        enlarge(on, &mut store.slots, "parameters", bytes, UNIFORM)?;
        self.device
            .queue
            .write_buffer(&store.slots.item, 0, &slots.0);
        self.device.uploaded(slots.0.len());
        Ok(())
    }

    fn record_band(
        &self,
        batch: &mut Batch<'_>,
        planned: &Planned,
        order: &Buffer,
        (shot, seen): (&Shot, &Seen),
    ) -> Result<(), GpuError> {
        let store = &self.store;
        let Planned {
            band,
            lists,
            blends,
        } = planned;
        let [across, _] = tiles(shot.size());
        let in_band = across * band.rows.len() as u32;
        let groups = seen.visible.div_ceil(SPLAT_LANES);
        let stage = &self.stages.tiles;
        let [count, list] = lists.map(|number| self.tiles_group(number, order));
        stage.dispatch_line(batch, "list", &count, groups)?;
        stage.dispatch_line(batch, "sum_pairs", &count, 1)?;
        stage.dispatch_line(batch, "list", &list, groups)?;
        let passes = digits(in_band - 1);
        self.sort(batch, &store.sorts.by_tile, passes, band.pairs)?;
        let sorted = &store.pairs.lists[passes % 2];
        for (nth, &number) in blends.iter().enumerate() {
            let resources = [
                slot(&store.slots, number),
                store.splats.ellipses.item.as_entire_binding(),
                sorted.item.as_entire_binding(),
                store.pairs.total.item.as_entire_binding(),
                store.ranges.item.as_entire_binding(),
                store.carried.item.as_entire_binding(),
                store.pixels.item.as_entire_binding(),
            ];
            let stage = &self.stages.blend;
            let group = bind(&self.device, "blend", &stage.layout, &resources);
            if nth == 0 {
                let groups = in_band.div_ceil(SPLAT_LANES);
                stage.dispatch_line(batch, "find_ranges", &group, groups)?;
            }
            let down = band.rows.len() as u32;
            stage.dispatch(batch, "blend", &group, [across, down], in_band)?;
        }
        Ok(())
    }

    fn tiles_group(&self, number: usize, order: &Buffer) -> wgpu::BindGroup {
        let store = &self.store;
        let resources = [
            slot(&store.slots, number),
            store.splats.ellipses.item.as_entire_binding(),
            store.splats.reaches.item.as_entire_binding(),
            order.item.as_entire_binding(),
            store.pairs.sums.item.as_entire_binding(),
            store.pairs.total.item.as_entire_binding(),
            store.pairs.lists[0].item.as_entire_binding(),
        ];
        bind(&self.device, "tiles", &self.stages.tiles.layout, &resources)
    }

    /// Sorts up to `count` pairs by so many digits.
    fn sort(
        &self,
        batch: &mut Batch<'_>,
        groups: &[wgpu::BindGroup],
        passes: usize,
        count: u64,
    ) -> Result<(), GpuError> {
        let stage = &self.stages.sort;
        let blocks = count.div_ceil(u64::from(SPLAT_LANES * SORTED_EACH)).max(1) as u32;
        for group in &groups[..passes] {
            stage.dispatch_line(batch, "count_digits", group, blocks)?;
            stage.dispatch_line(batch, "sum_digits", group, DIGITS)?;
            stage.dispatch_line(batch, "scatter", group, blocks)?;
        }
        Ok(())
    }
}

/// Digits of numbers up to this one.
fn digits(most: u32) -> usize {
    (u32::BITS - most.leading_zeros()).div_ceil(DIGIT_BITS) as usize
}
