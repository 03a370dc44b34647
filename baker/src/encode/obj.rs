//! Mesh, with texture coordinates or colours, into an OBJ, and the material that names its texture.
//!
//! v counts upwards. Numbers are as short as brings the same float back. Colours follow the position, in sRGB, as most
//! viewers read them.

use proto::job::Form;
use proto::table::Mesh;

use super::glb::{Dress, display};

/// Writes the mesh.
pub(super) fn write(mesh: &Mesh, dress: Dress<'_>, form: &Form) -> Vec<u8> {
    let mut text = format!("# kiln {}\n", env!("CARGO_PKG_VERSION"));
    let textured = matches!(dress, Dress::Texture(..));
    let mut line = |line: std::fmt::Arguments<'_>| {
        text.push_str(&line.to_string());
        text.push('\n');
    };
    if textured {
        line(format_args!("mtllib {}", form.material()));
    }
    for (vertex, [x, y, z]) in mesh.positions.iter().enumerate() {
        match dress {
            Dress::Texture(..) => line(format_args!("v {x} {y} {z}")),
            Dress::Vertices(colours) => {
                let [r, g, b, _] = display(colours[vertex]).map(|byte| f32::from(byte) / 255.0);
                line(format_args!("v {x} {y} {z} {r} {g} {b}"));
            }
        }
    }
    if textured {
        for [u, v] in &mesh.uvs {
            line(format_args!("vt {u} {}", 1.0 - v));
        }
    }
    for [x, y, z] in &mesh.normals {
        line(format_args!("vn {x} {y} {z}"));
    }
    if textured {
        line(format_args!("usemtl baked"));
    }
    for triangle in &mesh.triangles {
        let [a, b, c] = triangle.map(|corner| corner + 1);
        if textured {
            line(format_args!("f {a}/{a}/{a} {b}/{b}/{b} {c}/{c}/{c}"));
        } else {
            line(format_args!("f {a}//{a} {b}//{b} {c}//{c}"));
        }
    }
    text.into_bytes()
}

/// The file that the mesh names: the texture alone, unlit but for what a viewer adds.
pub(super) fn material(form: &Form) -> Vec<u8> {
    let picture = form.picture();
    format!("newmtl baked\nKa 0 0 0\nKd 1 1 1\nKs 0 0 0\nillum 1\nmap_Kd {picture}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use proto::job::{Container, TextureFormat};

    use super::*;

    #[test]
    fn files_name_each_other_and_coordinates_count_upwards() {
        let mesh = Mesh {
            positions: vec![[0.1, 0.0, 0.0], [1.0, 1e-20, 0.0], [0.0, 1.0, -3.5]],
            normals: vec![[0.0, 0.0, 1.0]; 3],
            uvs: vec![[0.0, 0.25], [1.0, 0.0], [0.5, 1.0]],
            surface_vertices: vec![0, 1, 2],
            triangles: vec![[0, 1, 2]],
            charts: 1,
        };
        let form = Form {
            container: Container::Obj,
            texture: TextureFormat::Jpeg,
            stem: "two words".to_owned(),
            ..Form::default()
        };
        let text = String::from_utf8(write(&mesh, Dress::Texture(b"", form.texture), &form));
        let text = text.expect("text");
        for line in [
            "mtllib two words.mtl",
            "v 0.1 0 0",
            "vt 0 0.75",
            "usemtl baked",
            "f 1/1/1 2/2/2 3/3/3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let material = String::from_utf8(material(&form)).expect("text");
        assert!(
            material.ends_with("map_Kd two words_texture.jpg\n"),
            "{material}"
        );

        let colours = [[255, 55, 0, 255]; 3];
        let text = String::from_utf8(write(&mesh, Dress::Vertices(&colours), &form)).expect("text");
        // 55 of linear light is 128 of sRGB.
        let wanted = format!("v 0.1 0 0 1 {} 0", 128.0_f32 / 255.0);
        assert!(text.contains(&wanted) && !text.contains("vt "), "{text}");
    }
}
