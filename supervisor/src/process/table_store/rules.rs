//! Table → who writes it, and within which bounds of size.

use proto::limits::{
    MAX_BLOB_BYTES, MAX_GALLERY_BYTES, MAX_TRIANGLES, MAX_VERTICES, MAX_VIEW_PIXELS, MAX_VIEWS,
};
use proto::message::{Role, Table};
use proto::table::{Layer, LayerTexture, Refined, SplatScene};

/// Header of every table.
const HEADER: u64 = 64;
/// Camera of a view: 16 doubles, of which the table writes all.
const CAMERA: u64 = size_of::<proto::table::Camera>() as u64;

/// Who writes a table, and its least and largest size. Exact arithmetic: the bounds of `limits` keep it far from overflow.
pub(super) fn rules(table: Table, size: u32, texture_bytes: u64) -> (Role, u64, u64) {
    let layer_bytes = LayerTexture::bytes_for(size);
    let (vertices, triangles) = (MAX_VERTICES as u64, MAX_TRIANGLES as u64);
    match table {
        Table::Mesh => (
            Role::Prepare,
            HEADER + 3 * 36 + 12,
            HEADER + vertices * 36 + triangles * 12,
        ),
        Table::Surface => (
            Role::Prepare,
            HEADER + 3 * 12 + 12,
            HEADER + 2 * (vertices + triangles) * 12,
        ),
        Table::View(_) => (
            Role::Prepare,
            HEADER + CAMERA,
            HEADER + CAMERA + MAX_VIEW_PIXELS * 4 * (1 + Layer::ALL.len() as u64),
        ),
        Table::Splats => {
            let [least, most] = SplatScene::BYTES;
            (Role::Prepare, least, most)
        }
        Table::Layer(_) => (Role::Bake, layer_bytes, layer_bytes),
        Table::Texture => (Role::Bake, texture_bytes, texture_bytes),
        Table::Colours => (Role::Bake, HEADER + 3 * 4, HEADER + vertices * 4),
        Table::Refined => (
            Role::Bake,
            Refined::byte_len_of(1),
            Refined::byte_len_of(MAX_VIEWS),
        ),
        // A line of text; the header of a JPEG.
        Table::Material | Table::Picture(_) => (Role::Encode, 12, MAX_BLOB_BYTES),
        // The header of a GLB; a PNG signature with an IHDR chunk.
        Table::Glb => (Role::Encode, 12, MAX_BLOB_BYTES),
        Table::Preview | Table::Coverage | Table::Residual | Table::Provenance => {
            (Role::Encode, 33, MAX_BLOB_BYTES)
        }
        Table::Gallery => (Role::Encode, 1, MAX_GALLERY_BYTES),
        // No table of a job: see `job::lend`.
        Table::Pipelines => (Role::Bake, 1, 0),
        // A byte for each pixel, and what PNG adds where nothing compresses.
        Table::Rejected(_) => (Role::Bake, 33, 2 * MAX_VIEW_PIXELS),
    }
}
