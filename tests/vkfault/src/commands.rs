//! The commands that the layer intercepts, by name only, with a trampoline for each.
//!
//! A trampoline takes eight machine words and passes them on. All parameters of these commands are integers or
//! pointers, and there are at most eight of them. The calling conventions of `x86-64` and `aarch64` let missing ones be
//! read as garbage, which the driver ignores. So no signature has to be written down here.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::state::{self, Verdict};

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("the trampolines count on the calling conventions of x86-64 and aarch64");

/// The driver's function of a command: as the instance returns it, and as the device does. The device's takes
/// precedence.
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    /// The command returns a `VkResult`.
    pub(crate) fallible: bool,
    pub(crate) of_instance: AtomicPtr<c_void>,
    pub(crate) of_device: AtomicPtr<c_void>,
    pub(crate) trampoline: Trampoline,
}

pub(crate) type Trampoline =
    unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> i32;

/// The slot of a command, if the layer intercepts it.
pub(crate) fn slot(name: &str) -> Option<&'static Slot> {
    SLOTS.iter().find(|slot| slot.name == name)
}

/// Counts the call, then makes it or commits the fault.
///
/// # Safety
/// As for the command itself.
unsafe fn forward(slot: &'static Slot, mut words: [usize; 8]) -> i32 {
    match state::meet(slot.name, slot.fallible) {
        Verdict::Pass => {}
        Verdict::Fail(error) => return error as i32,
        Verdict::Drop if slot.name == "vkQueueSubmit" => {
            // SAFETY: words 1 and 2 are the count and the array of this command's submissions.
            let emptied = unsafe { emptied(words[1], words[2]) };
            words[2] = emptied.as_ptr() as usize;
            // SAFETY: as for the caller; the copy outlives the call.
            return unsafe { call(slot, words) };
        }
        Verdict::Drop => return 0,
    }
    // SAFETY: as for the caller.
    unsafe { call(slot, words) }
}

unsafe fn call(slot: &'static Slot, words: [usize; 8]) -> i32 {
    let mut next = slot.of_device.load(Ordering::Acquire);
    if next.is_null() {
        next = slot.of_instance.load(Ordering::Acquire);
    }
    // SAFETY: the trampoline was given out only after one of the two was set, to the address of the same command.
    let next: Trampoline = unsafe { std::mem::transmute(next) };
    let [a, b, c, d, e, f, g, h] = words;
    // SAFETY: see the head of this file.
    unsafe { next(a, b, c, d, e, f, g, h) }
}

/// `VkSubmitInfo`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Submission {
    kind: u32,
    next: *const c_void,
    waits: u32,
    wait_semaphores: *const c_void,
    wait_stages: *const c_void,
    commands: u32,
    command_buffers: *const c_void,
    signals: u32,
    signal_semaphores: *const c_void,
}

/// Copies of submissions that wait and signal as before, but do nothing.
///
/// # Safety
/// `first` is the address of `count` submissions.
unsafe fn emptied(count: usize, first: usize) -> Vec<Submission> {
    let count = (count & 0xffff_ffff) as u32;
    let first = first as *const Submission;
    (0..count as usize)
        .map(|index| {
            // SAFETY: within the array.
            let place = unsafe { first.add(index) };
            // SAFETY: the caller has initialised it.
            let submission = unsafe { place.read() };
            Submission {
                commands: 0,
                ..submission
            }
        })
        .collect()
}

macro_rules! commands {
    (fallible: $($fallible:ident)*; droppable: $($droppable:ident)*;) => {
        /// Commands that return a `VkResult`: all of the registry except the global ones, as ash 0.38 (Vulkan 1.3.281)
        /// lists them.
        pub const FALLIBLE: &[&str] = &["vkCreateInstance", "vkCreateDevice", $(stringify!($fallible)),*];
        /// Commands that put work on the device. `vkQueueSubmit` is in both lists.
        pub const DROPPABLE: &[&str] = &["vkQueueSubmit", $(stringify!($droppable)),*];

        static SLOTS: [Slot; FALLIBLE.len() - 2 + DROPPABLE.len() - 1] = [
            $(commands!(@slot $fallible true),)*
            $(commands!(@slot $droppable false)),*
        ];

        #[expect(non_camel_case_types, reason = "the names of Vulkan")]
        enum Index { $($fallible,)* $($droppable),* }

        #[expect(non_snake_case, reason = "the names of Vulkan")]
        mod trampolines {
            use super::{Index, SLOTS, forward};
            $(commands!(@trampoline $fallible);)*
            $(commands!(@trampoline $droppable);)*
        }
    };
    (@slot $name:ident $fallible:literal) => {
        Slot {
            name: stringify!($name),
            fallible: $fallible,
            of_instance: AtomicPtr::new(std::ptr::null_mut()),
            of_device: AtomicPtr::new(std::ptr::null_mut()),
            trampoline: trampolines::$name,
        }
    };
    (@trampoline $name:ident) => {
        pub(super) unsafe extern "C" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize,
        ) -> i32 {
            // SAFETY: as for the caller.
            unsafe { forward(&SLOTS[Index::$name as usize], [a, b, c, d, e, f, g, h]) }
        }
    };
}

commands! {
    fallible:
    vkAcquireDrmDisplayEXT vkAcquireFullScreenExclusiveModeEXT vkAcquireImageANDROID vkAcquireNextImage2KHR
    vkAcquireNextImageKHR vkAcquirePerformanceConfigurationINTEL vkAcquireProfilingLockKHR vkAcquireWinrtDisplayNV
    vkAcquireXlibDisplayEXT vkAllocateCommandBuffers vkAllocateDescriptorSets vkAllocateMemory vkBeginCommandBuffer
    vkBindAccelerationStructureMemoryNV vkBindBufferMemory vkBindBufferMemory2 vkBindImageMemory vkBindImageMemory2
    vkBindOpticalFlowSessionImageNV vkBindVideoSessionMemoryKHR vkBuildAccelerationStructuresKHR vkBuildMicromapsEXT
    vkCmdSetPerformanceMarkerINTEL vkCmdSetPerformanceOverrideINTEL vkCmdSetPerformanceStreamMarkerINTEL
    vkCompileDeferredNV vkCopyAccelerationStructureKHR vkCopyAccelerationStructureToMemoryKHR vkCopyImageToImageEXT
    vkCopyImageToMemoryEXT vkCopyMemoryToAccelerationStructureKHR vkCopyMemoryToImageEXT vkCopyMemoryToMicromapEXT
    vkCopyMicromapEXT vkCopyMicromapToMemoryEXT vkCreateAccelerationStructureKHR vkCreateAccelerationStructureNV
    vkCreateAndroidSurfaceKHR vkCreateBuffer vkCreateBufferCollectionFUCHSIA vkCreateBufferView vkCreateCommandPool
    vkCreateComputePipelines vkCreateCuFunctionNVX vkCreateCuModuleNVX vkCreateCudaFunctionNV vkCreateCudaModuleNV
    vkCreateDebugReportCallbackEXT vkCreateDebugUtilsMessengerEXT vkCreateDeferredOperationKHR vkCreateDescriptorPool
    vkCreateDescriptorSetLayout vkCreateDescriptorUpdateTemplate vkCreateDirectFBSurfaceEXT vkCreateDisplayModeKHR
    vkCreateDisplayPlaneSurfaceKHR vkCreateEvent vkCreateExecutionGraphPipelinesAMDX vkCreateFence vkCreateFramebuffer
    vkCreateGraphicsPipelines vkCreateHeadlessSurfaceEXT vkCreateIOSSurfaceMVK vkCreateImage
    vkCreateImagePipeSurfaceFUCHSIA vkCreateImageView vkCreateIndirectCommandsLayoutNV vkCreateMacOSSurfaceMVK
    vkCreateMetalSurfaceEXT vkCreateMicromapEXT vkCreateOpticalFlowSessionNV vkCreatePipelineCache
    vkCreatePipelineLayout vkCreatePrivateDataSlot vkCreateQueryPool vkCreateRayTracingPipelinesKHR
    vkCreateRayTracingPipelinesNV vkCreateRenderPass vkCreateRenderPass2 vkCreateSampler vkCreateSamplerYcbcrConversion
    vkCreateScreenSurfaceQNX vkCreateSemaphore vkCreateShaderModule vkCreateShadersEXT vkCreateSharedSwapchainsKHR
    vkCreateStreamDescriptorSurfaceGGP vkCreateSwapchainKHR vkCreateValidationCacheEXT vkCreateViSurfaceNN
    vkCreateVideoSessionKHR vkCreateVideoSessionParametersKHR vkCreateWaylandSurfaceKHR vkCreateWin32SurfaceKHR
    vkCreateXcbSurfaceKHR vkCreateXlibSurfaceKHR vkDebugMarkerSetObjectNameEXT vkDebugMarkerSetObjectTagEXT
    vkDeferredOperationJoinKHR vkDeviceWaitIdle vkDisplayPowerControlEXT vkEndCommandBuffer
    vkEnumerateDeviceExtensionProperties vkEnumerateDeviceLayerProperties vkEnumeratePhysicalDeviceGroups
    vkEnumeratePhysicalDeviceQueueFamilyPerformanceQueryCountersKHR vkEnumeratePhysicalDevices vkFlushMappedMemoryRanges
    vkFreeDescriptorSets vkGetAccelerationStructureHandleNV vkGetAccelerationStructureOpaqueCaptureDescriptorDataEXT
    vkGetAndroidHardwareBufferPropertiesANDROID vkGetBufferCollectionPropertiesFUCHSIA
    vkGetBufferOpaqueCaptureDescriptorDataEXT vkGetCalibratedTimestampsKHR vkGetCudaModuleCacheNV
    vkGetDeferredOperationResultKHR vkGetDeviceFaultInfoEXT vkGetDeviceGroupPresentCapabilitiesKHR
    vkGetDeviceGroupSurfacePresentModes2EXT vkGetDeviceGroupSurfacePresentModesKHR
    vkGetDeviceSubpassShadingMaxWorkgroupSizeHUAWEI vkGetDisplayModeProperties2KHR vkGetDisplayModePropertiesKHR
    vkGetDisplayPlaneCapabilities2KHR vkGetDisplayPlaneCapabilitiesKHR vkGetDisplayPlaneSupportedDisplaysKHR
    vkGetDrmDisplayEXT vkGetDynamicRenderingTilePropertiesQCOM vkGetEncodedVideoSessionParametersKHR vkGetEventStatus
    vkGetExecutionGraphPipelineNodeIndexAMDX vkGetExecutionGraphPipelineScratchSizeAMDX vkGetFenceFdKHR vkGetFenceStatus
    vkGetFenceWin32HandleKHR vkGetFramebufferTilePropertiesQCOM vkGetImageDrmFormatModifierPropertiesEXT
    vkGetImageOpaqueCaptureDescriptorDataEXT vkGetImageViewAddressNVX vkGetImageViewOpaqueCaptureDescriptorDataEXT
    vkGetMemoryAndroidHardwareBufferANDROID vkGetMemoryFdKHR vkGetMemoryFdPropertiesKHR
    vkGetMemoryHostPointerPropertiesEXT vkGetMemoryRemoteAddressNV vkGetMemoryWin32HandleKHR vkGetMemoryWin32HandleNV
    vkGetMemoryWin32HandlePropertiesKHR vkGetMemoryZirconHandleFUCHSIA vkGetMemoryZirconHandlePropertiesFUCHSIA
    vkGetPastPresentationTimingGOOGLE vkGetPerformanceParameterINTEL vkGetPhysicalDeviceCalibrateableTimeDomainsKHR
    vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR vkGetPhysicalDeviceCooperativeMatrixPropertiesNV
    vkGetPhysicalDeviceDisplayPlaneProperties2KHR vkGetPhysicalDeviceDisplayPlanePropertiesKHR
    vkGetPhysicalDeviceDisplayProperties2KHR vkGetPhysicalDeviceDisplayPropertiesKHR
    vkGetPhysicalDeviceExternalImageFormatPropertiesNV vkGetPhysicalDeviceFragmentShadingRatesKHR
    vkGetPhysicalDeviceImageFormatProperties vkGetPhysicalDeviceImageFormatProperties2
    vkGetPhysicalDeviceOpticalFlowImageFormatsNV vkGetPhysicalDevicePresentRectanglesKHR
    vkGetPhysicalDeviceSupportedFramebufferMixedSamplesCombinationsNV vkGetPhysicalDeviceSurfaceCapabilities2EXT
    vkGetPhysicalDeviceSurfaceCapabilities2KHR vkGetPhysicalDeviceSurfaceCapabilitiesKHR
    vkGetPhysicalDeviceSurfaceFormats2KHR vkGetPhysicalDeviceSurfaceFormatsKHR
    vkGetPhysicalDeviceSurfacePresentModes2EXT vkGetPhysicalDeviceSurfacePresentModesKHR
    vkGetPhysicalDeviceSurfaceSupportKHR vkGetPhysicalDeviceToolProperties vkGetPhysicalDeviceVideoCapabilitiesKHR
    vkGetPhysicalDeviceVideoEncodeQualityLevelPropertiesKHR vkGetPhysicalDeviceVideoFormatPropertiesKHR
    vkGetPipelineCacheData vkGetPipelineExecutableInternalRepresentationsKHR vkGetPipelineExecutablePropertiesKHR
    vkGetPipelineExecutableStatisticsKHR vkGetPipelinePropertiesEXT vkGetQueryPoolResults vkGetRandROutputDisplayEXT
    vkGetRayTracingCaptureReplayShaderGroupHandlesKHR vkGetRayTracingShaderGroupHandlesKHR
    vkGetRefreshCycleDurationGOOGLE vkGetSamplerOpaqueCaptureDescriptorDataEXT vkGetScreenBufferPropertiesQNX
    vkGetSemaphoreCounterValue vkGetSemaphoreFdKHR vkGetSemaphoreWin32HandleKHR vkGetSemaphoreZirconHandleFUCHSIA
    vkGetShaderBinaryDataEXT vkGetShaderInfoAMD vkGetSwapchainCounterEXT vkGetSwapchainGrallocUsage2ANDROID
    vkGetSwapchainGrallocUsageANDROID vkGetSwapchainImagesKHR vkGetSwapchainStatusKHR vkGetValidationCacheDataEXT
    vkGetVideoSessionMemoryRequirementsKHR vkGetWinrtDisplayNV vkImportFenceFdKHR vkImportFenceWin32HandleKHR
    vkImportSemaphoreFdKHR vkImportSemaphoreWin32HandleKHR vkImportSemaphoreZirconHandleFUCHSIA
    vkInitializePerformanceApiINTEL vkInvalidateMappedMemoryRanges vkLatencySleepNV vkMapMemory vkMapMemory2KHR
    vkMergePipelineCaches vkMergeValidationCachesEXT vkQueueBindSparse vkQueuePresentKHR
    vkQueueSetPerformanceConfigurationINTEL vkQueueSignalReleaseImageANDROID vkQueueSubmit vkQueueSubmit2
    vkQueueWaitIdle vkRegisterDeviceEventEXT vkRegisterDisplayEventEXT vkReleaseDisplayEXT
    vkReleaseFullScreenExclusiveModeEXT vkReleasePerformanceConfigurationINTEL vkReleaseSwapchainImagesEXT
    vkResetCommandBuffer vkResetCommandPool vkResetDescriptorPool vkResetEvent vkResetFences
    vkSetBufferCollectionBufferConstraintsFUCHSIA vkSetBufferCollectionImageConstraintsFUCHSIA
    vkSetDebugUtilsObjectNameEXT vkSetDebugUtilsObjectTagEXT vkSetEvent vkSetLatencySleepModeNV vkSetPrivateData
    vkSignalSemaphore vkTransitionImageLayoutEXT vkUnmapMemory2KHR vkUpdateVideoSessionParametersKHR vkWaitForFences
    vkWaitForPresentKHR vkWaitSemaphores vkWriteAccelerationStructuresPropertiesKHR vkWriteMicromapsPropertiesEXT;
    droppable:
    vkCmdBlitImage vkCmdClearAttachments vkCmdClearColorImage vkCmdClearDepthStencilImage vkCmdCopyBuffer
    vkCmdCopyBuffer2 vkCmdCopyBufferToImage vkCmdCopyImage vkCmdCopyImageToBuffer vkCmdDispatch vkCmdDispatchIndirect
    vkCmdDraw vkCmdDrawIndexed vkCmdDrawIndexedIndirect vkCmdDrawIndirect vkCmdFillBuffer vkCmdUpdateBuffer;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_where_its_trampoline_looks() {
        for slot in &SLOTS {
            assert!(
                std::ptr::eq(super::slot(slot.name).expect("listed"), slot),
                "{} is listed twice",
                slot.name
            );
        }
        assert_eq!(SLOTS[Index::vkQueueSubmit as usize].name, "vkQueueSubmit");
        assert_eq!(SLOTS[Index::vkCmdDispatch as usize].name, "vkCmdDispatch");
    }

    #[test]
    fn a_dropped_submission_keeps_all_but_its_commands() {
        assert_eq!(size_of::<Submission>(), 72, "as vulkan_core.h has it");
        let null = std::ptr::null();
        let given = [Submission {
            kind: 4,
            next: null,
            waits: 1,
            wait_semaphores: null,
            wait_stages: null,
            commands: 3,
            command_buffers: null,
            signals: 2,
            signal_semaphores: null,
        }];
        // SAFETY: there is one submission.
        let made = unsafe { emptied(1 | 0xdead_0000_0000, given.as_ptr() as usize) };
        assert_eq!(made.len(), 1, "the upper half of a count's word is garbage");
        assert_eq!(
            (
                made[0].kind,
                made[0].waits,
                made[0].commands,
                made[0].signals
            ),
            (4, 1, 0, 2)
        );
    }
}
