//! The ending of `-o` → the form of the result, and the files beside it.

use std::path::{Path, PathBuf};

use proto::job::{Compress, Container, Detail, Form};
use proto::message::{Code, Table};
use proto::pages::Pages;

use crate::error::JobError;
use crate::options::JobOptions;

/// A form, and the files beside the result.
pub(super) type Chosen = (Form, Vec<(Table, PathBuf)>);

/// The form of a result by the ending of its name, and the files beside it.
pub(super) fn place(options: &JobOptions, output: &Path) -> Result<Chosen, Box<JobError>> {
    let mut form = options.form();
    let bad = |message: &str, hint: &str| Err(JobError::own(Code::InvalidSpec, message, hint));
    let (texture, compress, pages) = (form.texture, form.compress, form.pages);
    let ending = output.extension().unwrap_or_default();
    let container = match ending.to_string_lossy().to_ascii_lowercase().as_str() {
        "ply" => Container::Ply,
        "obj" => Container::Obj,
        _ => Container::Glb,
    };
    if container != Container::Glb && compress != Compress::None {
        return bad(
            "--compress is for a GLB: PLY and OBJ have nothing like it",
            "give -o a name that ends in .glb",
        );
    }
    if container != Container::Glb && texture.needs_gltf() {
        return bad(
            "--texture-format ktx2-etc1s and ktx2-uastc are for a GLB: nothing reads KTX2 beside a PLY or OBJ",
            "give -o a name that ends in .glb, or choose png, jpeg, webp or webp-lossy",
        );
    }
    if container == Container::Ply && pages != Pages::ONE {
        return bad(
            "--pages is for a GLB or OBJ: a PLY has one texture",
            "give -o a name that ends in .glb or .obj",
        );
    }
    if container != Container::Glb && form.provenance {
        return bad(
            "--provenance-attribute is for a GLB: PLY and OBJ have no such attribute here",
            "give -o a name that ends in .glb",
        );
    }
    if container != Container::Glb && options.detail != Detail::Off {
        return bad(
            "--detail is for a GLB: PLY and OBJ carry base colour alone",
            "give -o a name that ends in .glb",
        );
    }
    form.container = container;
    if container == Container::Glb {
        return Ok((form, Vec::new()));
    }
    // The mesh names its files as text, one to a line.
    let stem = output.file_stem().and_then(|stem| stem.to_str());
    let plain = |stem: &&str| !stem.chars().any(char::is_control);
    let Some(stem) = stem.filter(plain) else {
        return bad(
            "the name of a PLY or OBJ must be printable UTF-8, since it names the files beside it",
            "choose another name for -o",
        );
    };
    stem.clone_into(&mut form.stem);
    let picture = |page| {
        (
            Table::Picture(page),
            output.with_file_name(form.picture(page)),
        )
    };
    let mut beside: Vec<_> = (0..pages.count()).map(picture).collect();
    if container == Container::Obj {
        beside.push((Table::Material, output.with_file_name(form.material())));
    }
    Ok((form, beside))
}

#[cfg(test)]
mod tests {
    use super::super::{Command, parse};

    fn bake(output: &str, more: &[&str]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["mesh.glb", "transforms.json"] {
            std::fs::write(path(name), "{}").expect("a file");
        }
        let words = ["kiln", "bake"].map(str::to_owned);
        let named = [
            path("mesh.glb"),
            format!("--views={}", path("transforms.json")),
        ];
        let output = ["-o".to_owned(), path(output)];
        let more = more.iter().map(|&word| word.to_owned());
        let words = words.into_iter().chain(named).chain(output).chain(more);
        match parse(words.map(Into::into)) {
            Ok(Command::Bake { spec, .. }) => {
                let name = |target: &crate::output::Target| {
                    let name = target.path().file_name().expect("a name");
                    name.to_string_lossy().into_owned()
                };
                Ok(spec.outputs().map(name).collect())
            }
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.error.message),
        }
    }

    #[test]
    fn the_ending_says_what_is_made_and_what_lies_beside_it() {
        let made = |output, more: &[&str]| bake(output, more).expect("a job");
        assert_eq!(made("a.glb", &[]), ["a.glb"]);
        assert_eq!(made("a.GLB", &["--compress", "meshopt"]), ["a.GLB"]);
        let etc1s = ["--texture-format", "ktx2-etc1s", "--texture-quality", "1"];
        assert_eq!(made("a.glb", &etc1s), ["a.glb"]);
        assert_eq!(made("a.PLY", &[]), ["a.PLY", "a_texture.png"]);
        let lossy = ["--texture-format", "webp-lossy", "--texture-quality", "75"];
        assert_eq!(made("a.ply", &lossy), ["a.ply", "a_texture.webp"]);
        let jpeg = ["--texture-format", "jpeg", "--texture-quality", "80"];
        assert_eq!(
            made("a b.obj", &jpeg),
            ["a b.obj", "a b_texture.jpg", "a b.mtl"]
        );
        let tiles = ["--pages", "4", "--texture-size", "4096"];
        let named = [1001, 1002, 1011, 1012].map(|tile| format!("a_texture.{tile}.png"));
        let made = made("a.obj", &tiles);
        assert_eq!(
            (&made[0][..], &made[1..5], &made[5][..]),
            ("a.obj", &named[..], "a.mtl")
        );
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let refused = |output, more: &[&str]| bake(output, more).expect_err("refused");
        assert!(refused("a.glb", &["--texture-quality", "80"]).contains("JPEG"));
        for format in ["png", "webp", "ktx2-uastc"] {
            let more = ["--texture-format", format, "--texture-quality", "80"];
            assert!(refused("a.glb", &more).contains("ETC1S"), "{format}");
        }
        for format in ["ktx2-etc1s", "ktx2-uastc"] {
            let more = ["--texture-format", format];
            assert!(refused("a.obj", &more).contains("KTX2"), "{format}");
        }
        assert!(refused("a.obj", &["--compress", "meshopt"]).contains("GLB"));
        assert!(refused("a.ply", &["--provenance-attribute"]).contains("GLB"));
        assert!(refused("a.obj", &["--detail", "normal"]).contains("GLB"));
        assert!(refused("a.glb", &["--detail", "normal", "--vertex-colours"]).contains("--detail"));
        assert!(refused("a.glb", &["--detail", "normals"]).contains("normal,occlusion"));
        assert!(refused("a\n.obj", &[]).contains("printable"));
        assert!(refused("a.ply", &["--pages", "4"]).contains("PLY"));
        assert!(refused("a.glb", &["--pages", "4", "--vertex-colours"]).contains("--pages"));
        let large = ["--pages", "9", "--texture-size", "2732"];
        assert!(refused("a.glb", &large).contains("9 pages of 2732"));
        let chosen = ["--pages", "16", "--texture-size", "auto"];
        bake("a.glb", &chosen).expect("2048 each at most");
        let large = [&chosen[..], &["--max-texture-size", "4096"]].concat();
        assert!(refused("a.glb", &large).contains("16 pages of 4096"));
        assert!(
            refused(
                "a.glb",
                &["--texture-format", "jpeg", "--texture-quality", "0"]
            )
            .contains('0')
        );
    }
}
