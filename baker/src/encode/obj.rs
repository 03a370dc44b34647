//! Mesh with texture coordinates or colours → an OBJ, and the material file that names its texture.
//!
//! v points up. Numbers have the fewest digits that read back as the same float, and as the same double where an offset
//! is added. Colours follow the position, in sRGB,
//! as most viewers expect. Each of several pages has its own material, and coordinates in its UDIM tile. A reader
//! without UDIM repeats textures, OBJ's default, and shows the same.

use std::fmt::{self, Display, Formatter};

use proto::job::Form;
use proto::table::Mesh;

use super::glb::{Dress, display};
use super::pages::{Leaf, Sheets};

/// Writes the mesh, which has page coordinates.
pub(super) fn write(mesh: &Mesh, sheets: &Sheets, dress: Dress<'_>, form: &Form) -> Vec<u8> {
    let mut text = format!("# kiln {}\n", env!("CARGO_PKG_VERSION"));
    let textured = matches!(dress, Dress::Texture(..));
    for credit in form.labels.lines() {
        text.push_str(&format!("# {credit}\n"));
    }
    let mut line = |line: fmt::Arguments<'_>| {
        text.push_str(&line.to_string());
        text.push('\n');
    };
    if textured {
        line(format_args!("mtllib {}", form.material()));
    }
    if let Some(name) = form.labels.node.given() {
        line(format_args!("o {}", word(name)));
    }
    for (vertex, at) in mesh.positions.iter().enumerate() {
        let at = Place(at, &form.offset);
        match dress {
            Dress::Texture(..) => line(format_args!("v {at}")),
            Dress::Vertices(colours) => {
                let [r, g, b, _] = display(colours[vertex]).map(|byte| f32::from(byte) / 255.0);
                line(format_args!("v {at} {r} {g} {b}"));
            }
        }
    }
    if textured {
        for [u, v] in &sheets.on_tiles(mesh).uvs {
            line(format_args!("vt {u} {v}"));
        }
    }
    for [x, y, z] in &mesh.normals {
        line(format_args!("vn {x} {y} {z}"));
    }
    for leaf in sheets.leaves() {
        if textured {
            line(format_args!("usemtl {}", name(sheets, leaf, form)));
        }
        for triangle in sheets.triangles(mesh, leaf) {
            let [a, b, c] = triangle.map(|corner| corner + 1);
            if textured {
                line(format_args!("f {a}/{a}/{a} {b}/{b}/{b} {c}/{c}/{c}"));
            } else {
                line(format_args!("f {a}//{a} {b}//{b} {c}//{c}"));
            }
        }
    }
    text.into_bytes()
}

/// A position, and the offset that is added to it.
struct Place<'a>(&'a [f32; 3], &'a [f64; 3]);

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (at, offset) = (self.0, self.1);
        if *offset == [0.0; 3] {
            let [x, y, z] = at;
            return write!(f, "{x} {y} {z}");
        }
        let [x, y, z]: [f64; 3] = std::array::from_fn(|k| f64::from(at[k]) + offset[k]);
        write!(f, "{x} {y} {z}")
    }
}

/// The name of a page's material.
fn name(sheets: &Sheets, leaf: &Leaf, form: &Form) -> String {
    let name = word(form.labels.material_name());
    match sheets.tile(leaf) {
        None => name,
        Some(tile) => format!("{name}.{tile}"),
    }
}

/// A name without what ends it for some readers: spaces, and a backslash that would join lines.
fn word(name: &str) -> String {
    name.replace([' ', '\\'], "_")
}

/// The material file: textures alone, unlit.
pub(super) fn material(sheets: &Sheets, form: &Form) -> Vec<u8> {
    let each = sheets.leaves().iter().map(|leaf| {
        let (name, picture) = (name(sheets, leaf, form), form.picture(leaf.number));
        format!("newmtl {name}\nKa 0 0 0\nKd 1 1 1\nKs 0 0 0\nillum 1\nmap_Kd {picture}\n")
    });
    each.collect::<Vec<_>>().join("\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use proto::job::{Compress, Container, TextureFormat};
    use proto::labels::{Label, Labels};
    use proto::pages::Pages;

    use super::*;
    use crate::encode::pages::arrange;

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
        let one = Sheets::one(&mesh);
        let dress = Dress::Texture(b"", form.texture);
        let text = String::from_utf8(write(&mesh, &one, dress, &form)).expect("text");
        for line in [
            "mtllib two words.mtl",
            "v 0.1 0 0",
            "vt 0 0.75",
            "usemtl baked",
            "f 1/1/1 2/2/2 3/3/3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let material = String::from_utf8(material(&one, &form)).expect("text");
        assert!(
            material.ends_with("map_Kd two words_texture.jpg\n"),
            "{material}"
        );

        let named = Form {
            labels: Labels {
                node: Label::name("Big Chair"),
                material: Label::name("Oak\\"),
                copyright: Label::credit("© somebody"),
                ..Labels::default()
            },
            ..form.clone()
        };
        let text = String::from_utf8(write(&mesh, &one, dress, &named)).expect("text");
        let credit = Some("# copyright: © somebody");
        assert_eq!(text.lines().nth(1), credit, "{text}");
        assert!(
            text.contains("\no Big_Chair\n") && text.contains("\nusemtl Oak_\n"),
            "{text}"
        );
        let material = self::material(&one, &named);
        assert!(material.starts_with(b"newmtl Oak_\n"));

        let colours = [[u16::MAX, 14_146, 0, u16::MAX]; 3];
        let text =
            String::from_utf8(write(&mesh, &one, Dress::Vertices(&colours), &form)).expect("text");
        // 0.2159 in linear light is 128 in sRGB.
        let wanted = format!("v 0.1 0 0 1 {} 0", 128.0_f32 / 255.0);
        assert!(text.contains(&wanted) && !text.contains("vt "), "{text}");
    }
    #[test]
    fn pages_are_udim_tiles_that_name_their_files() {
        let mesh = Mesh {
            positions: vec![[0.0; 3]; 6],
            normals: vec![[0.0, 0.0, 1.0]; 6],
            // In the lower right of the atlas, and in its upper left.
            uvs: vec![
                [0.75, 0.75],
                [1.0, 0.75],
                [0.75, 1.0],
                [0.0, 0.0],
                [0.25, 0.0],
                [0.0, 0.5],
            ],
            surface_vertices: vec![0; 6],
            triangles: vec![[0, 1, 2], [3, 4, 5]],
            charts: 2,
        };
        let form = Form {
            container: Container::Obj,
            pages: Pages::try_from(4).expect("a square"),
            stem: "a".to_owned(),
            ..Form::default()
        };
        let (mesh, _, sheets) = arrange(mesh, form.pages, Compress::None);
        let dress = Dress::Texture(b"", form.texture);
        let text = String::from_utf8(write(&sheets.on_pages(&mesh), &sheets, dress, &form));
        let text = text.expect("text");
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("vn ") && !line.starts_with("v "))
            .collect();
        assert_eq!(
            lines[1..],
            [
                "mtllib a.mtl",
                "vt 0 1",
                "vt 0.5 1",
                "vt 0 0",
                "vt 1.5 1.5",
                "vt 2 1.5",
                "vt 1.5 1",
                "usemtl baked.1001",
                "f 1/1/1 2/2/2 3/3/3",
                "usemtl baked.1012",
                "f 4/4/4 5/5/5 6/6/6",
            ]
        );
        let material = String::from_utf8(material(&sheets, &form)).expect("text");
        let named: Vec<&str> = material
            .lines()
            .filter(|line| line.starts_with("newmtl") || line.starts_with("map_Kd"))
            .collect();
        let wanted = [
            "newmtl baked.1001",
            "map_Kd a_texture.1001.png",
            "newmtl baked.1012",
            "map_Kd a_texture.1012.png",
        ];
        assert_eq!(named, wanted);
    }
}
