//! The pipeline cache: an earlier process's pipelines go in; the driver looks there before it compiles; what is worth
//! keeping comes out.
//!
//! The supervisor stores the bytes and has checked them; wgpu checks adapter and driver again. If anything is wrong
//! with them, the stages are compiled as if there were none.

use std::mem::ManuallyDrop;

use proto::limits::MAX_PIPELINES_BYTES;
use proto::message::PipelineCache as Origin;

use super::error::scoped;

pub(super) const FEATURE: wgpu::Features = wgpu::Features::PIPELINE_CACHE;

/// A pipeline cache. It is never dropped, like the device that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    cache: ManuallyDrop<wgpu::PipelineCache>,
    given: Option<usize>,
}

/// Key of adapter, driver and build under which pipelines are reusable; none where they cannot be kept.
pub(super) fn key(adapter: &wgpu::Adapter) -> Option<String> {
    let info = adapter.get_info();
    let known =
        wgpu::util::pipeline_cache_key(&info).filter(|_| adapter.features().contains(FEATURE))?;
    let wgpu::AdapterInfo {
        name,
        driver,
        driver_info,
        ..
    } = info;
    let build = env!("KILN_BAKER_FINGERPRINT");
    Some(format!("{known}|{name}|{driver}|{driver_info}|{build}"))
}

impl Cache {
    /// A cache that begins with an earlier process's data, if any; none where the driver makes none.
    pub(super) fn new(device: &wgpu::Device, kept: Option<&[u8]>) -> Option<Self> {
        let descriptor = wgpu::PipelineCacheDescriptor {
            label: Some("kept"),
            data: kept,
            fallback: true,
        };
        #[expect(unsafe_code, reason = "a driver believes what it is given")]
        let make = || {
            // SAFETY: `kept` is what [`Self::gained`] gave to the supervisor in an earlier process of this build, on an
            // adapter and a driver of the same key, before that process had seen any data. The supervisor verifies its
            // checksum.
            unsafe { device.create_pipeline_cache(&descriptor) }
        };
        match scoped(device, make) {
            Ok(cache) => Some(Self {
                cache: ManuallyDrop::new(cache),
                given: kept.map(<[u8]>::len),
            }),
            Err(error) => {
                tracing::debug!(%error, "no cache of pipelines");
                None
            }
        }
    }

    pub(super) fn of(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    /// Origin of the pipelines made so far, and the data to keep if it differs from what was given. The comparison is
    /// by size: a driver adds what it compiles and changes nothing else.
    pub(super) fn gained(&self) -> (Origin, Option<Vec<u8>>) {
        match self.cache.get_data() {
            Some(data) if self.given == Some(data.len()) => (Origin::Hit, None),
            Some(data) if data.len() as u64 <= MAX_PIPELINES_BYTES => (Origin::Miss, Some(data)),
            other => {
                let bytes = other.map_or(0, |data| data.len());
                tracing::debug!(bytes, "the pipelines cannot be kept");
                (Origin::Off, None)
            }
        }
    }
}
