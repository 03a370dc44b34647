//! Views → what each of them shows: how many splats, their depths, and upper bounds of the pairs of each row of tiles.

use kiln_splat::Filter;
use kiln_splat::numbers::BOUND;

use super::{Renderer, Shot};
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::{
    COUNTED, SPLAT_LANES, SPLAT_ROWS, SPLAT_TILE, SplatShot, SplatTurn,
};
use crate::bake::gpu::memory::{Buffer, Maker, OnDevice, STORAGE, UNIFORM, read_as, write};

/// Most workgroups of a view's projection.
const GROUPS: u32 = 1024;

/// What a view shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Splats.
    pub(super) visible: u32,
    /// Bits of the least depth, and of how far from it the greatest is.
    pub(super) least: u32,
    pub(super) range: u32,
    /// Upper bound of the pairs of each row of tiles.
    pub(super) rows: Vec<u64>,
}

/// Tiles of a window, across and down.
pub(super) fn tiles([width, height]: [u32; 2]) -> [u32; 2] {
    [width, height].map(|edge| edge.div_ceil(SPLAT_TILE))
}

impl Renderer {
    /// Counts what the views show. Their parameters are then on the device.
    pub(super) fn survey(&mut self, shots: &[Shot]) -> Result<Vec<Seen>, GpuError> {
        self.refuse_huge(shots)?;
        let rows = shots.iter().map(|shot| tiles(shot.size())[1]).max();
        let counters = COUNTED + rows.unwrap_or(0) + 1;
        let device = &self.device;
        let on = OnDevice::new(device, &self.budget);
        let words = shots.len() * counters as usize;
        let counted = on.buffer("counters", words as u64 * 4, STORAGE)?;
        write(device, &counted, &vec![0_u32; words]);
        let room = (shots.len() * size_of::<SplatShot>()) as u64;
        let parameters = on.buffer("views", room, STORAGE)?;
        let mut all: Vec<SplatShot> = shots.iter().map(|shot| self.parameters(shot)).collect();
        write(device, &parameters, &all);
        let words = match self.store.count {
            // Nothing to dispatch.
            0 => vec![0; words],
            _ => self.count(shots.len() as u32, counters, [&counted, &parameters])?,
        };
        let seen: Vec<Seen> = (words.chunks_exact(counters as usize))
            .zip(shots)
            .map(|(words, shot)| Seen::of(words, shot))
            .collect();
        for (parameters, seen) in all.iter_mut().zip(&seen) {
            parameters.least = seen.least;
            parameters.hidden = seen.range + 1;
        }
        write(device, &parameters, &all);
        self.views = Some([counted, parameters]);
        Ok(seen)
    }

    /// Runs the projection of all views, counting only, and reads the counters.
    fn count(
        &self,
        shots: u32,
        counters: u32,
        [counted, parameters]: [&Buffer; 2],
    ) -> Result<Vec<u32>, GpuError> {
        let on = OnDevice::new(&self.device, &self.budget);
        let turn = SplatTurn {
            counting: 1,
            counters,
            ..self.turn(0)
        };
        let buffer = on.buffer("turn", size_of::<SplatTurn>() as u64, UNIFORM)?;
        write(&self.device, &buffer, &[turn]);
        let group = self.project_group(buffer.item.as_entire_binding(), [counted, parameters]);
        let mut batch = Batch::new(&self.device, "count splats");
        let across = turn.stride / SPLAT_LANES;
        let stage = &self.stages.project;
        stage.dispatch(
            &mut batch,
            "project",
            &group,
            [across, shots],
            across * shots,
        )?;
        batch.send()?;
        read_as(on, counted, (shots * counters) as usize)
    }

    /// The parameters of a projection that stores.
    pub(super) fn turn(&self, shot: u32) -> SplatTurn {
        let needed = (self.store.count as u32).div_ceil(SPLAT_LANES).max(1);
        // Each invocation takes as many as the others, or one fewer.
        let groups = needed.div_ceil(needed.div_ceil(GROUPS));
        SplatTurn {
            first_shot: shot,
            counting: 0,
            splats: self.store.count as u32,
            stride: groups * SPLAT_LANES,
            counters: 0,
            words: self.store.words,
            degree: self.store.degree as u32,
            mip: u32::from(matches!(self.style.filter, Filter::Mip(_))),
        }
    }

    fn parameters(&self, shot: &Shot) -> SplatShot {
        let (r, t) = (shot.view.rotation, shot.view.translation);
        let row = |k: usize| [r[k][0], r[k][1], r[k][2], t[k]];
        // -Rᵀ t.
        let eye = |k: usize| -(r[0][k] * t[0] + r[1][k] * t[1] + r[2][k] * t[2]);
        let (Filter::Classic(blur) | Filter::Mip(blur)) = self.style.filter;
        let view = &shot.view;
        let bound = |k: usize| BOUND * view.size[k] as f32 / (2.0 * view.focal[k]);
        SplatShot {
            row_x: row(0),
            row_y: row(1),
            row_z: row(2),
            eye: [eye(0), eye(1), eye(2), blur],
            focal: view.focal,
            centre: [0, 1].map(|k| view.centre[k] - shot.window[k] as f32),
            most: [bound(0), bound(1)],
            size: shot.size().map(|edge| edge as f32),
            tiles: tiles(shot.size()),
            least: 0,
            hidden: 0,
        }
    }

    /// Counters of rows are in the memory of a workgroup, and pairs are counted by 32 bits.
    fn refuse_huge(&self, shots: &[Shot]) -> Result<(), GpuError> {
        for shot in shots {
            let [across, down] = tiles(shot.size());
            let most = self.store.count as u64 * u64::from(across);
            if down >= SPLAT_ROWS || most > u64::from(u32::MAX) {
                let why = format!(
                    "{} splats in a window of {:?} pixels are too many",
                    self.store.count,
                    shot.size()
                );
                return Err(GpuError::out_of_memory("a row of tiles", most * 16, why));
            }
        }
        Ok(())
    }
}

impl Seen {
    /// From the counters of a view.
    fn of(words: &[u32], shot: &Shot) -> Self {
        let (head, rows) = words.split_at(COUNTED as usize);
        let [_, down] = tiles(shot.size());
        if head[0] == 0 || shot.pixels() == 0 {
            return Self::default();
        }
        let more = rows[..down as usize].iter().scan(0_u32, |sum, more| {
            *sum = sum.wrapping_add(*more);
            Some(u64::from(*sum))
        });
        let least = !head[1];
        Self {
            visible: head[0],
            least,
            range: head[2].saturating_sub(least),
            rows: more.collect(),
        }
    }
}
