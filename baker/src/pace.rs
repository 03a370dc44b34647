//! What the longest units of work take, in nanoseconds for each byte, triangle, pixel or texel: what workers tell their
//! supervisor before such a unit begins ([`crate::progress::Progress::expect`]), which then waits four times as long.
//!
//! Measured with a build that has failpoints (it logs each silence of the account, and what was said before it) on two cores
//! that other work kept busy: a sphere of 1.3 million triangles, 200 views of 512², a texture of 8192², on the processor and
//! on a software adapter; then doubled at least. Whatever is not here stays well below half a second.

use std::time::Duration;

/// Reading a mesh file, for each byte: text is the slowest.
pub(crate) const PARSE_BYTE: u64 = 40;
/// Welding and checking, for each triangle.
pub(crate) const CLEAN_TRIANGLE: u64 = 5_000;
/// Repair between two counts: what hangs together, patches, pieces; for each triangle.
pub(crate) const REPAIR_TRIANGLE: u64 = 6_000;
/// Drawing it from one side, for each triangle.
pub(crate) const VIEW_TRIANGLE: u64 = 500;
/// And spanning one large hole, or all pixels of such a view.
pub(crate) const REPAIR: Duration = Duration::from_secs(2);
/// meshoptimizer, for each triangle: up to three passes, each one call.
pub(crate) const SIMPLIFY_TRIANGLE: u64 = 12_000;
/// What is left of the unwrap once charts are flat, or without them: cutting, packing, splitting vertices.
pub(crate) const ATLAS_TRIANGLE: u64 = 4_000;
/// Decoding a picture and finding what it sees, for each byte of memory that this needs.
pub(crate) const DECODE_BYTE: u64 = 40;
/// Copying a table into or out of shared memory, checks included, for each byte.
pub(crate) const TABLE_BYTE: u64 = 15;
/// One step over all texels on the processor: coverage, links, a vector of the solver, a level of the pull-push.
pub(crate) const TEXEL: u64 = 100;
/// One step over all triangles on the processor: projection, union of charts, seams.
pub(crate) const TRIANGLE: u64 = 1_000;
/// Drawing one sample of a view on the processor and finding its texels.
pub(crate) const SAMPLE: u64 = 500;
/// Drawing the silhouette of a mesh and blurring it, for each pixel of the view.
pub(crate) const OUTLINE_PIXEL: u64 = 1_000;
/// Colours of vertices: what a view says of them, for each of its pixels.
pub(crate) const LOOK_PIXEL: u64 = 300;
/// Colours of vertices: what the views agree on, for each point of the surface.
pub(crate) const AGREE_POINT: u64 = 10_000;
/// PNG: encoding, or decoding again to compare.
pub(crate) const PNG_TEXEL: u64 = 100;
/// ETC1S of a texture and its mips, one call of the encoder.
pub(crate) const ETC1S_TEXEL: u64 = 12_000;
/// UASTC of a band, one call of the encoder.
pub(crate) const UASTC_TEXEL: u64 = 8_000;
/// Zstandard over what UASTC makes of a texture.
pub(crate) const ZSTD_TEXEL: u64 = 200;
/// Rendering a band of a view.
pub(crate) const BAND_TRIANGLE: u64 = 200;
/// Loading a driver and opening its device for the first time on a machine.
pub(crate) const ADAPTER: Duration = Duration::from_secs(5);
/// Compiling one stage.
pub(crate) const PIPELINE: Duration = Duration::from_secs(4);
/// One pass of the adapter; software adapters take their time.
pub(crate) const PASS: Duration = Duration::from_secs(1);
/// See [`PASS`].
pub(crate) const SOFTWARE_PASS: Duration = Duration::from_secs(10);
