//! Predicted durations of the longest units of work, in nanoseconds per byte, triangle, pixel or texel. A worker
//! announces the duration before such a unit begins ([`crate::worker::progress::Progress::expect`]), and the supervisor's stall
//! clock waits four times as long.
//!
//! The figures are at least twice what was measured on two cores kept busy by other work: a sphere of 1.3 million
//! triangles, 200 views of 512² and a texture of 8192², on the processor and on a software adapter. A build with
//! failpoints logs each silence and what was announced before it. Units not listed here stay well below half a second.

use std::time::Duration;

/// Reading a mesh file, per byte. Text is the slowest.
pub(crate) const PARSE_BYTE: u64 = 40;
/// Welding and checking, per triangle.
pub(crate) const CLEAN_TRIANGLE: u64 = 5_000;
/// Repair between two progress counts (connectivity, patches, components), per triangle.
pub(crate) const REPAIR_TRIANGLE: u64 = 6_000;
/// Rasterising the mesh into one view for repair, per triangle.
pub(crate) const VIEW_TRIANGLE: u64 = 500;
/// Closing one large hole, or visiting all pixels of such a view.
pub(crate) const REPAIR: Duration = Duration::from_secs(2);
/// meshoptimizer, per triangle: up to three passes, each of them one call.
pub(crate) const SIMPLIFY_TRIANGLE: u64 = 12_000;
/// Decoding a picture and cropping it, per byte of memory that this needs.
pub(crate) const DECODE_BYTE: u64 = 40;
/// Copying a table into or out of shared memory, checks included, per byte.
pub(crate) const TABLE_BYTE: u64 = 15;
/// Projecting, sorting and blending a splat.
pub(crate) const SPLAT: u64 = 5_000;
/// One step over all texels on the processor: coverage, links, a vector of the solver, a level of the pull-push.
pub(crate) const TEXEL: u64 = 100;
/// One step over all triangles on the processor: projection, merging of charts, seams.
pub(crate) const TRIANGLE: u64 = 1_000;
/// Rasterising one sample of a view on the processor and finding its texels.
pub(crate) const SAMPLE: u64 = 500;
/// Rasterising and blurring the silhouette of a mesh, per pixel of the view.
pub(crate) const OUTLINE_PIXEL: u64 = 1_000;
/// Finding what a texel of a simplified mesh stands for: its lines through the original surface.
pub(crate) const DETAIL_TEXEL: u64 = 40_000;
/// Vertex colours: collecting the observations of a view, per pixel.
pub(crate) const LOOK_PIXEL: u64 = 300;
/// Vertex colours: the robust mean of the observations, per point of the surface.
pub(crate) const AGREE_POINT: u64 = 10_000;
/// PNG: encoding, or decoding again to compare.
pub(crate) const PNG_TEXEL: u64 = 100;
/// ETC1S of a texture and its mips: one call of the encoder.
pub(crate) const ETC1S_TEXEL: u64 = 12_000;
/// UASTC of a band: one call of the encoder.
pub(crate) const UASTC_TEXEL: u64 = 8_000;
/// Zstandard over the UASTC data of a texture.
pub(crate) const ZSTD_TEXEL: u64 = 200;
/// Rendering a band of a view.
pub(crate) const BAND_TRIANGLE: u64 = 200;
/// Loading a driver and opening its device for the first time on a machine.
pub(crate) const ADAPTER: Duration = Duration::from_secs(5);
/// Compiling one pipeline.
pub(crate) const PIPELINE: Duration = Duration::from_secs(4);
/// One pass on a GPU.
pub(crate) const PASS: Duration = Duration::from_secs(1);
/// One pass on a software adapter.
pub(crate) const SOFTWARE_PASS: Duration = Duration::from_secs(10);
