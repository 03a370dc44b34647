//! A Vulkan layer that counts the calls of a process and makes one of them fail, hang, or do nothing: a GPU's faults
//! without a GPU.
//!
//! ```text
//!   program ─▶ loader ─▶ trampoline of each listed command (commands.rs) ─▶ driver
//!                              │ count, write to the log (state.rs), then forward, or commit the fault (fault.rs)
//! ```
//!
//! The method is that of `SQLite`'s tests: one run without a fault counts the calls, then each of them is made to fail,
//! so new code brings its own faults. A failed call is not made at all, and its out-parameters stay untouched: the
//! layer never denies work that was done.
//!
//! [`ENABLE`] and the variables [`FAULT`], [`LOG`] and [`PROCESSES`] set it up. Their names begin with `VK_` because
//! such variables reach a bake process. An explicit layer cannot intercept the three global commands that a program
//! calls before it has an instance.

#![expect(
    unsafe_code,
    reason = "a layer is called by C and calls C through untyped pointers"
)]

mod chain;
mod commands;
mod fault;
mod state;

pub use commands::{DROPPABLE, FALLIBLE};
pub use fault::{Action, BadFault, Error, Fault};

/// Name of the layer, in its manifest and in `VK_INSTANCE_LAYERS`.
pub const LAYER: &str = "VK_LAYER_KILN_fault";
/// File name of the layer's library.
pub const LIBRARY: &str = "libvkfault.so";
/// Variable with the [`Fault`], as its `Display` writes it. Without it calls are only counted.
pub const FAULT: &str = "VK_KILN_FAULT";
/// Variable with the folder of the logs. The first process that loads the layer writes the file `1`, the second `2`,
/// and so on. Each call has one line, written before it is made: the command's name, with `!` before it if it is the
/// fault. A `-` precedes commands that return nothing and could be dropped.
pub const LOG: &str = "VK_KILN_FAULT_LOG";
/// Precedes the name of a command that the fault hits, on standard error. Used without [`LOG`]: a sandbox forbids
/// writing files.
pub const STRUCK: &str = "vkfault strikes ";
/// Variable with the number of processes that have the fault; all without it.
pub const PROCESSES: &str = "VK_KILN_FAULT_PROCESSES";
/// Variables that make the loader load the layer: the folder of the manifest, and the layer's name.
pub const ENABLE: [&str; 2] = ["VK_LAYER_PATH", "VK_INSTANCE_LAYERS"];

/// Contents of the layer's manifest, a file with any name that ends in `.json`. A sandbox allows reading a library in
/// the manifest's own folder.
pub fn manifest(library: &str) -> String {
    // No build folder has a character that JSON escapes; the loader refuses a path with one.
    format!(
        "{{\"file_format_version\": \"1.2.0\", \"layer\": {{\"name\": \"{LAYER}\", \"type\": \"GLOBAL\", \
         \"library_path\": \"{library}\", \"api_version\": \"1.3.0\", \"implementation_version\": \"1\", \
         \"description\": \"makes calls fail\"}}}}"
    )
}
