//! Makes the buffers of the next pool on a thread of its own while the device draws: a driver takes as long to allocate
//! a pool as a device to fill it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};

use super::pool::PoolBuffers;
use crate::bake::gpu::device::GpuError;

/// Makes one pool at a time.
#[derive(Debug)]
pub(crate) struct PoolMaker {
    ask: Sender<()>,
    made: Receiver<Result<PoolBuffers, GpuError>>,
    under_way: bool,
}

impl PoolMaker {
    /// Starts the thread, which calls `make`; none where the system gives no thread.
    pub(crate) fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        make: impl Fn() -> Result<PoolBuffers, GpuError> + Send + 'scope,
    ) -> Option<Self> {
        let (ask, asked) = channel();
        let (sender, made) = channel();
        let work = move || {
            while asked.recv().is_ok() {
                if sender.send(make()).is_err() {
                    return;
                }
            }
        };
        let builder = Builder::new().name("pools".to_owned());
        builder.spawn_scoped(scope, work).ok().map(|_| Self {
            ask,
            made,
            under_way: false,
        })
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.under_way
    }

    pub(super) fn begin_one(&mut self) {
        self.under_way = self.ask.send(()).is_ok();
    }

    /// Waits for the pool being made, if any.
    pub(super) fn take(&mut self) -> Result<Option<Arc<PoolBuffers>>, GpuError> {
        if !std::mem::take(&mut self.under_way) {
            return Ok(None);
        }
        // None after a panic, which the scope passes on.
        let made = self.made.recv().ok().transpose()?;
        Ok(made.map(Arc::new))
    }
}
