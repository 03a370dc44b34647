//! A Vulkan layer that counts the calls of a process and makes one of them fail, hang, or do nothing: the faults of a GPU,
//! without a GPU.
//!
//! ```text
//!   program ─▶ loader ─▶ trampoline of each listed command (commands.rs) ─▶ driver
//!                              │ count, write to the log (state.rs), then forward, or commit the fault (fault.rs)
//! ```
//!
//! The method of `SQLite`: one run without a fault counts the calls, then every one of them is made to fail, so new code adds its own
//! faults. A failed call is not made at all and its out-parameters stay untouched: the layer never denies work that was done.
//! Set up by [`ENABLE`] and the variables [`FAULT`], [`LOG`] and [`PROCESSES`], which begin with `VK_` because those reach a
//! bake child. The three global commands that a program calls before it has an instance cannot be met by an explicit layer.

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
/// Variable with the folder of the logs: `1` for the first process that loads the layer, `2` for the second, and so on. One line
/// a call, written before it is made: the command's name, with `!` in front where it is the fault, with `-` where the command
/// returns nothing and could be dropped.
pub const LOG: &str = "VK_KILN_FAULT_LOG";
/// What comes before the name of a command that the fault befalls, on standard error, where there is no [`LOG`]: a sandbox lets no
/// file be written.
pub const STRUCK: &str = "vkfault strikes ";
/// Variable with the number of processes that the fault befalls; all of them without it.
pub const PROCESSES: &str = "VK_KILN_FAULT_PROCESSES";
/// What makes the loader load the layer: the folder of the manifest, and the layer's name.
pub const ENABLE: [&str; 2] = ["VK_LAYER_PATH", "VK_INSTANCE_LAYERS"];

/// Contents of the layer's manifest, a file of any name that ends in `.json`. A sandbox lets the library be read that it
/// names.
#[must_use]
pub fn manifest(library: &str) -> String {
    // Every character that JSON escapes is one that no build folder has; a path with one is refused by the loader.
    format!(
        "{{\"file_format_version\": \"1.2.0\", \"layer\": {{\"name\": \"{LAYER}\", \"type\": \"GLOBAL\", \
         \"library_path\": \"{library}\", \"api_version\": \"1.3.0\", \"implementation_version\": \"1\", \
         \"description\": \"makes calls fail\"}}}}"
    )
}
