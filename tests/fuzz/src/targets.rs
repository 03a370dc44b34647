//! The targets. Each takes any bytes and returns whether they were accepted. Guarantees of a reader are assertions
//! here.

mod colmap;
mod jobs;
mod log;
pub(crate) mod mesh;
mod opener;
mod packet;
mod picture;
mod protocol;
mod recorder;
mod soup;
mod splats;
mod table;
mod transforms;
mod views;

pub use colmap::colmap;
pub use jobs::jobs;
pub use log::log;
pub use mesh::{gltf, obj, ply};
pub use opener::opener;
pub use packet::packet;
pub use picture::picture;
pub use protocol::{Op, least, protocol};
pub use recorder::recorder;
pub use soup::soup;
pub use splats::splats;
pub use table::table;
pub use transforms::transforms;
pub use views::{arrays, views};

/// A target's name and function.
pub type Target = (&'static str, fn(&[u8]) -> bool);

/// All targets, by the names of their binaries and of their folders of seeds.
pub const ALL: [Target; 17] = [
    ("packet", packet),
    ("table", table),
    ("gltf", gltf),
    ("ply", ply),
    ("obj", obj),
    ("transforms", transforms),
    ("picture", picture),
    ("log", log),
    ("protocol", protocol),
    ("soup", soup),
    ("opener", opener),
    ("recorder", recorder),
    ("jobs", jobs),
    ("colmap", colmap),
    ("views", views),
    ("arrays", arrays),
    ("splats", splats),
];

/// A line that a terminal shows as it is.
pub(crate) fn harmless(line: &str) {
    assert!(!line.chars().any(char::is_control), "{line:?}");
}
