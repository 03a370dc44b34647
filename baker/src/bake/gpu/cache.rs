//! Pipelines of an earlier process → a cache that the driver looks into before it compiles, and what is worth keeping of it.
//!
//! The supervisor keeps the bytes and has checked them; wgpu checks adapter and driver once more. Whatever is wrong with them,
//! the stages are compiled as if there were none.

use std::mem::ManuallyDrop;

use proto::limits::MAX_PIPELINES_BYTES;
use proto::message::PipelineCache as Origin;

use super::device::Device;

/// Feature that keeping pipelines needs.
pub(super) const FEATURE: wgpu::Features = wgpu::Features::PIPELINE_CACHE;

/// See the head of this file. Never dropped, as the device that it belongs to.
#[derive(Debug)]
pub(super) struct Cache {
    cache: ManuallyDrop<wgpu::PipelineCache>,
    /// Size of what it began with.
    given: Option<usize>,
}

/// For which adapter, driver and build pipelines are the same; none where they cannot be kept.
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
    /// A cache with what an earlier process left, if there is any; none where the driver makes none.
    pub(super) fn new(device: &Device, kept: Option<&[u8]>) -> Option<Self> {
        let descriptor = wgpu::PipelineCacheDescriptor {
            label: Some("kept"),
            data: kept,
            fallback: true,
        };
        #[expect(unsafe_code, reason = "a driver believes what it is given")]
        let make = || {
            // SAFETY: `kept` is what `Self::data` gave to the supervisor in an earlier process of this build, on an adapter and
            // a driver of the same key, before that process had seen any data; the supervisor holds its checksum against it.
            unsafe { device.device.create_pipeline_cache(&descriptor) }
        };
        match device.scoped(make) {
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

    /// To be named where a pipeline is made.
    pub(super) fn of(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    /// Where the pipelines made so far came from, and what is to be kept if that is not what was given: a driver adds what it
    /// compiles, and leaves all else as it is.
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
