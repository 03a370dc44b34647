//! Mesh with texture coordinates or colours → a binary PLY. A comment names the texture beside it (`TextureFile`, as
//! most viewers expect).
//!
//! Coordinates are floats, and doubles where an offset is added. v points up, as in OBJ. Colours are sRGB, as readers of PLY assume.

use proto::job::Form;
use proto::table::Mesh;

use super::glb::{Dress, display};

pub(super) fn write(mesh: &Mesh, dress: Dress<'_>, form: &Form) -> Vec<u8> {
    let mut header = String::from("ply\nformat binary_little_endian 1.0\n");
    let version = env!("CARGO_PKG_VERSION");
    let textured = matches!(dress, Dress::Texture(..));
    let mut line = |line: std::fmt::Arguments<'_>| {
        header.push_str(&line.to_string());
        header.push('\n');
    };
    line(format_args!("comment kiln {version}"));
    for credit in form.labels.lines() {
        line(format_args!("comment {credit}"));
    }
    if textured {
        line(format_args!("comment TextureFile {}", form.picture(0)));
    }
    line(format_args!("element vertex {}", mesh.positions.len()));
    let far = form.offset != [0.0; 3];
    let coordinate = if far { "double" } else { "float" };
    for name in ["x", "y", "z"] {
        line(format_args!("property {coordinate} {name}"));
    }
    for name in ["nx", "ny", "nz"] {
        line(format_args!("property float {name}"));
    }
    let (kind, names): (_, &[&str]) = if textured {
        ("float", &["s", "t"])
    } else {
        ("uchar", &["red", "green", "blue", "alpha"])
    };
    for name in names {
        line(format_args!("property {kind} {name}"));
    }
    line(format_args!("element face {}", mesh.triangles.len()));
    line(format_args!("property list uchar int vertex_indices"));
    line(format_args!("end_header"));
    let mut file = header.into_bytes();
    for vertex in 0..mesh.positions.len() {
        let at = mesh.positions[vertex];
        if far {
            let world = (0..3).map(|k| f64::from(at[k]) + form.offset[k]);
            file.extend(world.flat_map(f64::to_le_bytes));
        } else {
            file.extend(at.into_iter().flat_map(f32::to_le_bytes));
        }
        file.extend(mesh.normals[vertex].into_iter().flat_map(f32::to_le_bytes));
        match dress {
            Dress::Texture(..) => {
                let [u, v] = mesh.uvs[vertex];
                file.extend([u, 1.0 - v].into_iter().flat_map(f32::to_le_bytes));
            }
            Dress::Vertices(colours) => file.extend(display(colours[vertex])),
        }
    }
    for triangle in &mesh.triangles {
        file.push(3);
        file.extend(triangle.iter().flat_map(|corner| corner.to_le_bytes()));
    }
    file
}
