//! Every bound of the protocol and of the input, each with its reason. A job beyond a bound is refused with
//! `limit_exceeded`. A child that breaks a bound of packets is killed for `protocol_violation`.

/// Size of a SEQPACKET packet. The default socket buffer holds about 212,000 bytes, so this always fits.
pub const MAX_PACKET_BYTES: usize = 128 * 1024;
/// File descriptors in one packet. Encode's `Start` has the most: mesh, texture, refined cameras and five layers.
pub const MAX_PACKET_FDS: usize = 8;
/// Length of a file name that prepare asks for: the kernel's own bound of a path (`PATH_MAX`).
pub const MAX_NAME_BYTES: usize = 4096;
/// Files that one prepare may ask for: picture, mask and five channels of each view with five endings each, and the
/// buffers of a mesh.
pub const MAX_OPENS: u32 = 160 * 1024;
/// A file that is not open within this time counts as unreachable: a network file system that is gone never answers.
pub const OPEN_DEADLINE_S: u32 = 10;
/// Text in one message (warning, failure, hint), in bytes.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Warnings that are kept per child; further ones are only counted.
pub const MAX_WARNINGS: usize = 64;

/// A mesh file, and each of its external buffers. Larger than any scan within the triangle bound.
pub const MAX_MESH_FILE_BYTES: u64 = 2 << 30;
/// `transforms.json`: 4096 frames of nerfstudio's longest form need about 8 MiB.
pub const MAX_TRANSFORMS_BYTES: u64 = 64 << 20;
/// `cameras` or `images` of COLMAP: 4096 images of 16,000 points each. The points are skipped, not read.
pub const MAX_COLMAP_FILE_BYTES: u64 = 2 << 30;
/// A safetensors file with mesh and views: as many pixels as all views of a job may have, as 32-bit floats with masks.
/// Only the mesh and the views that are being decoded are ever in memory.
pub const MAX_ARRAYS_FILE_BYTES: u64 = 4 * MAX_TOTAL_VIEW_BYTES;
/// Header of that file: it describes eight tensors in about 600 bytes, and may carry notes of the program that wrote
/// it.
pub const MAX_ARRAYS_HEADER_BYTES: u64 = 1 << 20;
/// An encoded picture.
pub const MAX_IMAGE_FILE_BYTES: u64 = 512 << 20;

/// Triangles of the input mesh. Raw marching-cubes meshes of image-to-3D models have 0.2-2 million.
pub const MAX_TRIANGLES: usize = 8_000_000;
/// Vertices after unwrapping: at worst three corners per triangle.
pub const MAX_VERTICES: usize = 3 * MAX_TRIANGLES;
/// Edges of a hole that is filled: the time to find its flattest patch grows with their third power.
pub const MAX_HOLE_EDGES: u32 = 512;
/// Area of a hole that is filled, as a share of the square of the mesh's longest side. No border of a mesh spans more.
pub const MAX_HOLE_SIZE: f32 = 100.0;
/// Welding distance as a share of the diagonal: a larger one destroys shape.
pub const MAX_WELD: f32 = 0.01;
/// Views of one job. Each costs the supervisor one fd, and another if its rejected pixels are drawn.
pub const MAX_VIEWS: usize = 4096;
/// Most Gaussian splats of a file.
pub const MAX_SPLATS: u64 = 1 << 23;
/// Edge of a view in pixels: the texture bound of every desktop adapter.
pub const MAX_VIEW_EDGE: u32 = 16_384;
/// Pixels of one view: 256 MiB once decoded.
pub const MAX_VIEW_PIXELS: u64 = 64 << 20;
/// Decoded pixels of all views of a job, in bytes.
pub const MAX_TOTAL_VIEW_BYTES: u64 = 16 << 30;
/// Smallest edge of the texture in texels. An edge is a multiple of four, so that block formats and mips divide it.
pub const MIN_TEXTURE_SIZE: u32 = 256;
/// Largest edge; see [`MIN_TEXTURE_SIZE`].
pub const MAX_TEXTURE_SIZE: u32 = 8192;

/// Coordinates beyond this, or a mesh smaller than its inverse, are meaningless in 32-bit arithmetic.
pub const MAX_COORDINATE: f32 = 1e12;

/// One blob: the largest is an 8192² texture in bytes with its provenance, or the mesh table.
pub const MAX_BLOB_BYTES: u64 = 2 << 30;

/// Compiled pipelines that a driver may save: those of all qualities together are a few MiB.
pub const MAX_PIPELINES_BYTES: u64 = 32 << 20;

/// The part of a report's page that encode writes, with its pictures: an e-mail takes it.
pub const MAX_GALLERY_BYTES: u64 = 7 << 20;

/// A child that sends no `Hello` within this time counts as dead.
pub const HELLO_DEADLINE_MS: u64 = 5_000;
/// Starts of one role's process per job, for whatever reasons.
pub const MAX_STARTS: u32 = 4;
