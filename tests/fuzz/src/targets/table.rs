//! A flat table of any kind: typed errors, memory bounded by the bytes present, and the same bytes when written back.

use std::io::Read;

use proto::limits::MAX_COORDINATE;
use proto::table::{
    Camera, Colours, Mesh, Refined, SplatScene, Surface, TableError, Texture, View, ViewHeader,
};

use crate::heap;

/// Memory of reading besides twice the table.
const READING_BYTES: usize = 512 << 10;

/// Input: one table.
pub fn table(bytes: &[u8]) -> bool {
    let header = ViewHeader::read(&mut &*bytes);
    let view = read(bytes, View::read, View::write, View::byte_len);
    if let Some(view) = &view {
        let header = header.expect("a view has a good header");
        if header.layers.is_empty() {
            assert_eq!(header.table_bytes(), view.byte_len(), "its header tells");
        }
        let count = match header.undrawn {
            true => 0,
            false => view.width as usize * view.height as usize,
        };
        assert_eq!(view.pixels.len(), count, "all of its pixels");
        camera(&view.camera);
    }
    let mesh = read(bytes, Mesh::read, Mesh::write, Mesh::byte_len);
    if let Some(mesh) = &mesh {
        let points = mesh.positions.len();
        indexes(&mesh.triangles, points);
        assert!(mesh.surface_vertices.iter().all(|v| (*v as usize) < points));
        numbers(&mesh.positions, -MAX_COORDINATE, MAX_COORDINATE);
        numbers(&mesh.normals, -2.0, 2.0);
        numbers(&mesh.uvs, 0.0, 1.0);
    }
    let surface = read(bytes, Surface::read, Surface::write, Surface::byte_len);
    if let Some(surface) = &surface {
        indexes(&surface.triangles, surface.positions.len());
        numbers(&surface.positions, -MAX_COORDINATE, MAX_COORDINATE);
    }
    let texture = read(bytes, Texture::read, Texture::write, Texture::byte_len);
    if let Some(texture) = &texture {
        let count = (texture.size as usize).pow(2);
        assert_eq!(texture.texels.len(), count);
        assert_eq!(texture.provenance.len(), count);
        let known = texture.provenance.iter().all(|value| *value <= 3);
        assert!(known, "no other provenance is known");
    }
    let colours = read(bytes, Colours::read, Colours::write, Colours::byte_len);
    let refined = read(bytes, Refined::read, Refined::write, Refined::byte_len);
    if let Some(refined) = &refined {
        for of_view in &refined.views {
            camera(&of_view.camera);
            assert!(
                of_view
                    .gain
                    .iter()
                    .all(|gain| gain.is_finite() && *gain > 0.0)
            );
            let found = refined.view(of_view.index);
            assert_eq!(found, Some(of_view), "each is found by its index");
        }
    }
    let splats = read(
        bytes,
        SplatScene::read,
        SplatScene::write,
        SplatScene::byte_len,
    );
    if let Some(splats) = &splats {
        assert_eq!(splats.opacities.len(), splats.positions.len());
        numbers(&splats.positions, f32::MIN, f32::MAX);
        numbers(&splats.scales, 0.0, f32::MAX);
        splats.cameras.iter().for_each(camera);
    }
    let all_but_views = [
        mesh.is_some(),
        surface.is_some(),
        texture.is_some(),
        colours.is_some(),
        refined.is_some(),
        splats.is_some(),
    ];
    view.is_some() || all_but_views.contains(&true)
}

/// Asserts that the camera can project.
fn camera(camera: &Camera) {
    let Camera {
        rotation,
        translation,
        focal,
        centre,
    } = camera;
    let numbers = rotation.as_flattened().iter().chain(translation);
    let numbers = numbers.chain(focal).chain(centre);
    assert!(numbers.copied().all(f64::is_finite), "{camera:?}");
    assert!(focal.iter().all(|f| *f > 0.0), "{focal:?}");
}

/// Asserts that all indices are valid.
fn indexes(triangles: &[[u32; 3]], points: usize) {
    let mut corners = triangles.iter().flatten();
    let beyond = corners.find(|corner| **corner as usize >= points);
    assert_eq!(beyond, None, "of {points} points");
}

fn numbers<const N: usize>(rows: &[[f32; N]], least: f32, most: f32) {
    let mut all = rows.iter().flatten();
    let odd = all.find(|x| !(least..=most).contains(*x));
    assert_eq!(odd, None, "beyond {least} to {most}");
}

/// Reads a table, if there is one, and writes it back.
fn read<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Limited<'a>) -> Result<T, TableError>,
    write: impl FnOnce(&T, &mut Vec<u8>) -> Result<(), TableError>,
    size: impl Fn(&T) -> u64,
) -> Option<T> {
    let limit = READING_BYTES + 2 * bytes.len();
    let table = heap::within(limit, "reading a table", || read(&mut Limited(bytes))).ok()?;
    let mut written = Vec::new();
    write(&table, &mut written).expect("memory takes all");
    assert_eq!(
        written.len() as u64,
        size(&table),
        "the size that is asked for is the size that is written"
    );
    assert!(
        bytes.starts_with(&written),
        "what was read is written as the same bytes"
    );
    Some(table)
}

/// Returns at most a few thousand bytes per read, as a pipe would.
struct Limited<'a>(&'a [u8]);

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(4093);
        self.0.read(&mut buffer[..most])
    }
}
