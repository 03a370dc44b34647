//! The layer's interface to the Vulkan loader: the layer is found, gets the functions of the next layer, and puts its
//! own before them (`vk_layer.h`, loader-layer interface version 2).

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::commands::{Trampoline, slot};
use crate::state::{self, Verdict};

/// `PFN_vkGetInstanceProcAddr` and `PFN_vkGetDeviceProcAddr`.
type GetProcAddr = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
/// `PFN_vkCreateInstance` uses the first three words, `PFN_vkCreateDevice` all four.
type Create = unsafe extern "C" fn(usize, usize, usize, usize) -> i32;

const LOADER_INSTANCE_CREATE_INFO: u32 = 47;
const LOADER_DEVICE_CREATE_INFO: u32 = 48;
const LAYER_LINK_INFO: u32 = 0;
const INITIALIZATION_FAILED: i32 = -3;

static NEXT_INSTANCE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static NEXT_DEVICE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// `VkNegotiateLayerInterface`.
#[repr(C)]
pub(crate) struct Negotiate {
    kind: u32,
    next: *mut c_void,
    version: u32,
    get_instance_proc_addr: Option<GetProcAddr>,
    get_device_proc_addr: Option<GetProcAddr>,
    get_physical_device_proc_addr: Option<GetProcAddr>,
}

impl std::fmt::Debug for Negotiate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Negotiate")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`: a link in the `pNext` chain of a create-info.
#[repr(C)]
struct CreateLink {
    kind: u32,
    next: *mut Self,
    function: u32,
    layer: *mut LayerLink,
}

/// `VkLayerInstanceLink` and `VkLayerDeviceLink`, whose first fields are equal.
#[repr(C)]
struct LayerLink {
    next: *mut Self,
    get_instance_proc_addr: *mut c_void,
    /// Exists only in a device's link.
    get_device_proc_addr: *mut c_void,
}

/// The loader's first call of the layer.
///
/// # Safety
/// `negotiate` comes from the loader.
#[unsafe(no_mangle)]
unsafe extern "C" fn vkNegotiateLoaderLayerInterfaceVersion(negotiate: *mut Negotiate) -> i32 {
    // SAFETY: the loader owns it, and nobody else uses it during this call.
    let Some(negotiate) = (unsafe { negotiate.as_mut() }) else {
        return INITIALIZATION_FAILED;
    };
    negotiate.version = negotiate.version.min(2);
    negotiate.get_instance_proc_addr = Some(get_instance_proc_addr);
    negotiate.get_device_proc_addr = Some(get_device_proc_addr);
    negotiate.get_physical_device_proc_addr = None;
    0
}

/// Takes the loader's link out of a create-info's chain, so that the next layer finds its own.
///
/// # Safety
/// `info` is a create-info as the loader passes it to a layer.
unsafe fn link(info: usize, kind: u32) -> Option<*mut LayerLink> {
    // SAFETY: every structure of the chain begins with its kind and the next one's address.
    let mut at = unsafe { (*(info as *const CreateLink)).next };
    while !at.is_null() {
        // SAFETY: as above.
        let found = unsafe { (*at).kind } == kind;
        // SAFETY: in structures of these two kinds the function follows.
        if found && unsafe { (*at).function } == LAYER_LINK_INFO {
            // SAFETY: a link's last field.
            let layer = unsafe { (*at).layer };
            // SAFETY: the loader made it for this layer.
            let beneath = unsafe { (*layer).next };
            // SAFETY: layers have to write this field.
            unsafe { (*at).layer = beneath };
            return Some(layer);
        }
        // SAFETY: as above.
        at = unsafe { (*at).next };
    }
    None
}

/// Counts a creation; returns the error with which it must fail, if it must.
fn struck(name: &'static str) -> Option<i32> {
    match state::meet(name, true) {
        Verdict::Fail(error) => Some(error as i32),
        Verdict::Pass | Verdict::Drop => None,
    }
}

unsafe extern "C" fn create_instance(
    info: usize,
    allocator: usize,
    out: usize,
    unused: usize,
) -> i32 {
    if let Some(result) = struck("vkCreateInstance") {
        return result;
    }
    // SAFETY: the loader calls this function.
    let Some(layer) = (unsafe { link(info, LOADER_INSTANCE_CREATE_INFO) }) else {
        return INITIALIZATION_FAILED;
    };
    // SAFETY: the loader filled it.
    let next = unsafe { (*layer).get_instance_proc_addr };
    NEXT_INSTANCE.store(next, Ordering::Release);
    // SAFETY: global commands are queried without an instance.
    unsafe { create(next, 0, c"vkCreateInstance", [info, allocator, out, unused]) }
}

unsafe extern "C" fn create_device(
    physical: usize,
    info: usize,
    allocator: usize,
    out: usize,
) -> i32 {
    if let Some(result) = struck("vkCreateDevice") {
        return result;
    }
    // SAFETY: the loader calls this function.
    let Some(layer) = (unsafe { link(info, LOADER_DEVICE_CREATE_INFO) }) else {
        return INITIALIZATION_FAILED;
    };
    // SAFETY: the loader filled it.
    let next = unsafe { (*layer).get_instance_proc_addr };
    // SAFETY: a device's link has this field.
    NEXT_DEVICE.store(unsafe { (*layer).get_device_proc_addr }, Ordering::Release);
    // SAFETY: the next layers answer this without an instance, as in the example of vk_layer.h.
    unsafe { create(next, 0, c"vkCreateDevice", [physical, info, allocator, out]) }
}

unsafe fn create(get: *mut c_void, instance: usize, name: &CStr, words: [usize; 4]) -> i32 {
    // SAFETY: the pointer comes from the link and has this type.
    let Some(get) = (unsafe { std::mem::transmute::<*mut c_void, Option<GetProcAddr>>(get) })
    else {
        return INITIALIZATION_FAILED;
    };
    // SAFETY: this is the loader's function.
    let create = unsafe { get(instance as *mut c_void, name.as_ptr()) };
    // SAFETY: the function of this name has this type.
    let Some(create) = (unsafe { std::mem::transmute::<*mut c_void, Option<Create>>(create) })
    else {
        return INITIALIZATION_FAILED;
    };
    let [a, b, c, d] = words;
    // SAFETY: these are the caller's own parameters.
    unsafe { create(a, b, c, d) }
}

unsafe extern "C" fn get_instance_proc_addr(
    instance: *mut c_void,
    name: *const c_char,
) -> *mut c_void {
    // SAFETY: the name of a command, ending with a zero.
    let text = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
    match text {
        "vkGetInstanceProcAddr" => return get_instance_proc_addr as GetProcAddr as *mut c_void,
        "vkGetDeviceProcAddr" => return get_device_proc_addr as GetProcAddr as *mut c_void,
        "vkCreateInstance" => return create_instance as Create as *mut c_void,
        "vkCreateDevice" => return create_device as Create as *mut c_void,
        _ => {}
    }
    // SAFETY: the caller's query is passed on.
    let next = unsafe { ask(&NEXT_INSTANCE, instance, name) };
    match slot(text) {
        Some(slot) if !next.is_null() => {
            slot.of_instance.store(next, Ordering::Release);
            slot.trampoline as Trampoline as *mut c_void
        }
        _ => next,
    }
}

unsafe extern "C" fn get_device_proc_addr(device: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the name of a command, ending with a zero.
    let text = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
    if text == "vkGetDeviceProcAddr" {
        return get_device_proc_addr as GetProcAddr as *mut c_void;
    }
    // SAFETY: the caller's query is passed on.
    let next = unsafe { ask(&NEXT_DEVICE, device, name) };
    match slot(text) {
        Some(slot) if !next.is_null() => {
            slot.of_device.store(next, Ordering::Release);
            slot.trampoline as Trampoline as *mut c_void
        }
        _ => next,
    }
}

unsafe fn ask(next: &AtomicPtr<c_void>, of: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: null, or the link's function of this type.
    match unsafe {
        std::mem::transmute::<*mut c_void, Option<GetProcAddr>>(next.load(Ordering::Acquire))
    } {
        // SAFETY: the caller's own query.
        Some(get) => unsafe { get(of, name) },
        None => std::ptr::null_mut(),
    }
}
