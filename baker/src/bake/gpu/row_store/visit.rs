//! A pass over the row store: dispatches over the pools and rows that it wants.

use super::bound::Bound;
use super::store::{FilledPool, RowStore};
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::Pool;
use crate::bake::gpu::stage::Compiled;
use crate::bake::gpu::tiles::Tiles;

/// Words after which a batch is submitted: about a tenth of a second on the slowest real GPUs.
const BATCH_WORDS: u64 = 32 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Pixels,
    /// Pixels whose rows are resident, and pixels whose rows are redrawn.
    Held,
    Streamed,
    Seams,
    All,
}

/// One entry point over rows with its own resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit<'a> {
    pub(crate) stage: &'a Compiled,
    pub(crate) entry: &'static str,
    pub(crate) own: &'a wgpu::BindGroup,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(stage: &'a Compiled, entry: &'static str, own: &'a wgpu::BindGroup) -> Self {
        Self { stage, entry, own }
    }
}

impl RowStore {
    /// Runs `visits` over the rows of `which`. On redrawn rows `restore` runs first and restores their weights.
    pub(crate) fn visit(
        &self,
        batch: &mut Batch<'_>,
        tiles: &Tiles,
        visits: &[Visit<'_>],
        which: Which,
        restore: Option<Visit<'_>>,
    ) -> Result<(), GpuError> {
        for pool in &self.pixels {
            let wanted = match which {
                Which::Pixels | Which::All => true,
                Which::Held => !pool.is_streamed(),
                Which::Streamed => pool.is_streamed(),
                Which::Seams => false,
            };
            if wanted {
                self.visit_pool(batch, tiles, pool, visits, restore)?;
            }
        }
        if matches!(which, Which::Seams | Which::All) {
            for seams in &self.seams {
                dispatch(batch, seams.counts, seams.bound.as_ref(), visits)?;
            }
        }
        Ok(())
    }

    pub(super) fn visit_pool(
        &self,
        batch: &mut Batch<'_>,
        tiles: &Tiles,
        pool: &FilledPool,
        visits: &[Visit<'_>],
        restore: Option<Visit<'_>>,
    ) -> Result<(), GpuError> {
        let bound = (pool.bound.as_ref()).map(|[all, few]| if self.narrowed { few } else { all });
        if !pool.is_streamed() {
            return dispatch(batch, pool.counts, bound, visits);
        }
        batch.send()?;
        pool.redraw(batch.device, tiles)?;
        if let Some(binned) = &pool.binned {
            (self.row_bins).put_in_order(batch, &pool.buffers, binned)?;
        }
        if let Some(restore) = restore {
            dispatch(batch, pool.counts, bound, &[restore])?;
        }
        dispatch(batch, pool.counts, bound, visits)?;
        batch.send()?;
        // A pass over hundreds of such pools takes long. Each is reported when it is done, and only one is queued.
        batch.device.wait()
    }
}

/// Records visits of the patches of a pool that `bound` names; `counts` is the whole pool.
pub(super) fn dispatch(
    batch: &mut Batch<'_>,
    counts: Pool,
    bound: Option<&Bound>,
    visits: &[Visit<'_>],
) -> Result<(), GpuError> {
    let Some(bound) = bound else {
        return Ok(());
    };
    let patches = [bound.visited.patches, bound.visited.row_bins];
    if patches == [0; 2] {
        return Ok(());
    }
    let words = u64::from(counts.words) * u64::from(bound.rows) / u64::from(counts.rows.max(1));
    for visit in visits {
        let Visit { stage, entry, own } = visit;
        stage.dispatch_rows(batch, entry, own, &bound.group, patches, bound.rows)?;
        batch.words += words;
        if batch.words >= BATCH_WORDS {
            batch.send()?;
        }
    }
    Ok(())
}
