//! The driver's account of device memory (`VK_EXT_memory_budget`), where it gives one. It bounds a job's plan, and the
//! report compares it with the job's own sum.

use ash::vk;

/// Memory of the largest device-local heap, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DriverMemory {
    /// Used by this process: buffers, textures, and everything that belongs to pipelines and queues.
    pub(super) used: u64,
    /// Available to this process in all, while other processes use what they use now.
    pub(super) budget: u64,
}

/// Asks the driver; none where the backend is not Vulkan or the driver gives no account.
#[expect(
    unsafe_code,
    reason = "wgpu has no call for this, and Vulkan's are unsafe"
)]
pub(super) fn memory(device: &wgpu::Device) -> Option<DriverMemory> {
    // SAFETY: nothing that wgpu hands out is destroyed here, or kept.
    let hal = unsafe { device.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let budget_known = hal
        .enabled_device_extensions()
        .contains(&ash::ext::memory_budget::NAME);
    if !budget_known {
        return None;
    }
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    let instance = hal.shared_instance().raw_instance();
    // SAFETY: the physical device belongs to this instance, and lives as long as the device that `hal` keeps.
    unsafe {
        instance.get_physical_device_memory_properties2(hal.raw_physical_device(), &mut properties);
    }
    let heaps = properties.memory_properties;
    let local = (0..heaps.memory_heap_count as usize).filter(|&heap| {
        let flags = heaps.memory_heaps[heap].flags;
        flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL)
    });
    // The largest: other heaps are windows onto it, or small ones for the driver.
    let heap = local.max_by_key(|&heap| heaps.memory_heaps[heap].size)?;
    sound(budget.heap_usage[heap], budget.heap_budget[heap])
}

/// None for a budget of zero: a driver that does not know says zero.
fn sound(used: u64, budget: u64) -> Option<DriverMemory> {
    (budget > 0).then_some(DriverMemory { used, budget })
}

impl DriverMemory {
    pub(super) fn left(self) -> u64 {
        self.budget.saturating_sub(self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_negative_and_nothing_known_is_not_nothing_left() {
        assert_eq!(sound(5, 0), None);
        assert_eq!(sound(3, 10).map(DriverMemory::left), Some(7));
        assert_eq!(sound(11, 10).map(DriverMemory::left), Some(0));
    }
}
