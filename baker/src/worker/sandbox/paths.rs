//! Files that a Vulkan loader and its drivers open, as data with reasons. A missing path costs nothing.
//!
//! Sources: traces of Mesa 22.3 (lavapipe, and radv and anv without a card). NVIDIA was not traced: its entries come
//! from Chromium's list for its GPU process and from firejail's reports. Rights extend to everything beneath a path.
//! Nothing of a user's own is listed: a shader cache would carry state from job to job, so drivers are told to keep
//! none.

use std::path::PathBuf;

/// Read-only: code, manifests and settings.
pub(super) const READ: [&str; 47] = [
    // Shared libraries, where distributions, NVIDIA's installer and container toolkits put them.
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/nvidia",
    "/run/opengl-driver",
    "/nix/store",
    "/etc/ld.so.cache",
    // NVIDIA's installer resolves libraries through it when the cache lacks them.
    "/etc/alternatives",
    // Manifests of drivers and layers.
    "/usr/share/vulkan",
    "/usr/local/share/vulkan",
    "/etc/vulkan",
    "/usr/share/glvnd",
    "/etc/glvnd",
    // Settings of Mesa and libdrm; device names of amdgpu.
    "/usr/share/drirc.d",
    "/etc/drirc",
    "/usr/share/libdrm",
    // Application profiles and GPU firmware names of NVIDIA.
    "/usr/share/nvidia",
    "/etc/nvidia",
    // Number and topology of processors: thread pools of llvmpipe and NVIDIA.
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    // Identity of cards: libdrm and both NVIDIA's loader and its driver walk the PCI tree.
    "/sys/bus/pci",
    "/sys/class/drm",
    "/sys/dev/char",
    "/sys/devices/platform",
    // Whether NVIDIA's kernel modules are loaded: from 550 on the driver looks at initstate (firejail #6372, #6566).
    "/sys/module/nvidia",
    "/sys/module/nvidia_modeset",
    "/sys/module/nvidia_drm",
    "/sys/module/nvidia_uvm",
    "/proc/driver/nvidia",
    // The process's own memory map, names and limits, file by file: the folder also shows the machine's mounts and
    // sockets.
    "/proc/self/maps",
    "/proc/self/status",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/auxv",
    "/proc/self/cmdline",
    "/proc/self/comm",
    "/proc/self/limits",
    // The machine's memory, processors and device numbers.
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/modules",
    "/proc/sys/vm",
    "/proc/sys/kernel/numa_balancing",
    "/dev/urandom",
    "/dev/dri",
];

/// Read-write, with device-specific calls: the adapters' nodes and the null device. Prefixes of names in `/dev`.
pub(super) const DEVICES: [&str; 8] = [
    // nvidiactl, nvidia0…, nvidia-modeset, nvidia-uvm. The nodes must exist: with no_new_privs the setuid helper
    // nvidia-modprobe, which would create them, does not run.
    "nvidia", // Render and card nodes of AMD, Intel and all who speak DRM.
    "dri",
    // Memory shared between drivers; newer lavapipe exports through the second.
    "dma_heap", "udmabuf", // GPUs of a Windows host.
    "dxg",     // GPUs of ARM boards with vendor drivers.
    "mali", "pvr", "null",
];

/// Paths that may be read on every machine.
pub(super) fn readable() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = READ.iter().map(PathBuf::from).collect();
    // The PCI trees: pci0000:00, pci0001:00, …
    paths.extend(entries("/sys/devices", &["pci"]));
    paths
}

/// Paths that may be read and written here.
pub(super) fn devices() -> Vec<PathBuf> {
    entries("/dev", &DEVICES)
}

fn entries(folder: &str, beginnings: &[&str]) -> Vec<PathBuf> {
    let begins = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| beginnings.iter().any(|start| name.starts_with(start)))
    };
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(begins)
        .collect()
}
