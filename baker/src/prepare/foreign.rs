//! The bytes of a file that is not what its place asks for → what it is, and what to do about it.
//!
//! Downloads and exports often leave another thing under the right name: a pointer of Git LFS, a web page that asks for a
//! login, an archive. A parser's own error ("expected value at line 1 column 1") then names a fault that the file does not
//! have. Formats are told by their magic bytes; text is told by its first words.

/// A file of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is {what}")]
pub struct Foreign {
    /// What it is, with its article.
    pub what: &'static str,
    /// Whether it is a mesh, a picture, or neither.
    pub class: Class,
    /// How to mend it.
    pub hint: &'static str,
}

/// What a file of another kind could serve as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A mesh.
    Mesh,
    /// Pixels.
    Picture,
    /// Cameras of another program.
    Cameras,
    /// None of these.
    Other,
}

/// An STL file, binary or text; an OFF file.
pub(crate) const STL_MESH: &str = "a mesh (STL)";
pub(crate) const OFF_MESH: &str = "a mesh (OFF)";

/// What [`recognise`] calls Bundler's files.
pub(crate) const BUNDLER: &str = "a Bundler file";

/// Cameras that are read under the names that their programs give them.
pub(crate) const NAMED: &str = "name it as its program does: bundle.out beside list.txt (Bundler), .mlp (MeshLab), .sfm (Meshroom), .xml (Metashape), cameras.json (splats)";
const UNPACK: &str = "unpack it and give the file inside";
const AGAIN: &str = "the download failed or asked for a login: download the file again";
const LINK: &str = "the copy wrote links as text (git without core.symlinks, an unpacker): copy again and follow links";
const EXPORT_MESH: &str = "export it as GLB (Blender, MeshLab, assimp), PLY or OBJ";
const PICTURES: &str = "convert the pictures to PNG, JPEG or WebP";
const CAMERAS: &str = "convert it to transforms.json (ns-process-data) or export a COLMAP model";

/// Magic bytes at an offset.
const MAGIC: [(usize, &[u8], &str, Class, &str); 44] = [
    (0, b"glTF", "a mesh (GLB)", Class::Mesh, ""),
    (0, b"ply\n", "a mesh (PLY)", Class::Mesh, ""),
    (0, b"ply\r", "a mesh (PLY)", Class::Mesh, ""),
    (
        0,
        b"Kaydara FBX Binary",
        "an FBX file",
        Class::Mesh,
        EXPORT_MESH,
    ),
    (0, b"; FBX", "an FBX file", Class::Mesh, EXPORT_MESH),
    (0, b"BLENDER", "a Blender file", Class::Mesh, EXPORT_MESH),
    (0, b"PXR-USDC", "a USD file", Class::Mesh, EXPORT_MESH),
    (0, b"#usda", "a USD file", Class::Mesh, EXPORT_MESH),
    (0, b"DRACO", "a bare Draco stream", Class::Mesh, EXPORT_MESH),
    (
        0,
        b"\x89PNG\r\n\x1A\n",
        "a picture (PNG)",
        Class::Picture,
        "",
    ),
    (0, b"\xFF\xD8\xFF", "a picture (JPEG)", Class::Picture, ""),
    (8, b"WEBP", "a picture (WebP)", Class::Picture, ""),
    (0, b"GIF8", "a GIF", Class::Picture, PICTURES),
    (0, b"BM", "a BMP", Class::Picture, PICTURES),
    (0, b"II*\0", "a TIFF", Class::Picture, PICTURES),
    (0, b"MM\0*", "a TIFF", Class::Picture, PICTURES),
    (0, b"II+\0", "a BigTIFF", Class::Picture, PICTURES),
    (4, b"ftypavi", "an AVIF", Class::Picture, PICTURES),
    (4, b"ftyphei", "a HEIC", Class::Picture, PICTURES),
    (4, b"ftyphev", "a HEIC", Class::Picture, PICTURES),
    (
        4,
        b"ftypmif1",
        "a HEIF or an AVIF",
        Class::Picture,
        PICTURES,
    ),
    (
        4,
        b"ftyp",
        "a video",
        Class::Other,
        "take frames out of it first (ns-process-data video, ffmpeg)",
    ),
    (
        0,
        b"\x76\x2F\x31\x01",
        "an OpenEXR picture",
        Class::Picture,
        PICTURES,
    ),
    (
        0,
        b"#?R",
        "a Radiance HDR picture",
        Class::Picture,
        PICTURES,
    ),
    (0, b"qoif", "a QOI picture", Class::Picture, PICTURES),
    (0, b"P3", "a PNM picture", Class::Picture, PICTURES),
    (0, b"P5", "a PNM picture", Class::Picture, PICTURES),
    (0, b"P6", "a PNM picture", Class::Picture, PICTURES),
    (0, b"8BPS", "a Photoshop file", Class::Picture, PICTURES),
    (0, b"\xFF\x0A", "a JPEG XL", Class::Picture, PICTURES),
    (0, b"\0\0\0\x0CJXL ", "a JPEG XL", Class::Picture, PICTURES),
    (0, b"\0\0\0\x0CjP", "a JPEG 2000", Class::Picture, PICTURES),
    (0, b"\xABKTX", "a KTX texture", Class::Picture, PICTURES),
    (0, b"DDS ", "a DDS texture", Class::Picture, PICTURES),
    (0, b"PK\x03\x04", "a zip archive", Class::Other, UNPACK),
    (0, b"\x1F\x8B", "compressed with gzip", Class::Other, UNPACK),
    (
        0,
        b"\x28\xB5\x2F\xFD",
        "compressed with Zstandard",
        Class::Other,
        UNPACK,
    ),
    (0, b"BZh", "compressed with bzip2", Class::Other, UNPACK),
    (0, b"\xFD7zXZ", "compressed with xz", Class::Other, UNPACK),
    (0, b"7z\xBC\xAF", "a 7z archive", Class::Other, UNPACK),
    (0, b"Rar!", "a RAR archive", Class::Other, UNPACK),
    (257, b"ustar", "a tar archive", Class::Other, UNPACK),
    (
        0,
        b"\x93NUMPY",
        "a NumPy array (npy), as LLFF has it",
        Class::Cameras,
        CAMERAS,
    ),
    (
        0,
        b"%PDF",
        "a PDF",
        Class::Other,
        "give the file that it describes",
    ),
];

/// First words of a text, in lower case.
const WORDS: [(&str, &str, Class, &str); 10] = [
    (
        "version https://git-lfs",
        "a pointer of Git LFS, not the file that it stands for",
        Class::Other,
        "fetch the file: git lfs pull",
    ),
    ("<!doctype html", "a web page (HTML)", Class::Other, AGAIN),
    ("<html", "a web page (HTML)", Class::Other, AGAIN),
    ("# bundle file", BUNDLER, Class::Cameras, NAMED),
    (
        "nvm_v3",
        "a scene of VisualSFM (NVM)",
        Class::Cameras,
        CAMERAS,
    ),
    (
        "#name,x,y",
        "cameras of RealityCapture (CSV)",
        Class::Cameras,
        CAMERAS,
    ),
    ("mvefile", "a file of MVE", Class::Cameras, CAMERAS),
    ("solid ", STL_MESH, Class::Mesh, ""),
    ("off\n", OFF_MESH, Class::Mesh, ""),
    ("off\r", OFF_MESH, Class::Mesh, ""),
];

/// Programs whose XML begins so after its declaration, by a word near its start.
const XML: [(&str, &str, Class, &str); 6] = [
    ("<html", "a web page (HTML)", Class::Other, AGAIN),
    ("<collada", "a COLLADA file (XML)", Class::Mesh, EXPORT_MESH),
    ("<x3d", "an X3D file (XML)", Class::Mesh, EXPORT_MESH),
    (
        "<chunk",
        "XML, as Agisoft Metashape exports cameras",
        Class::Cameras,
        NAMED,
    ),
    (
        "<blocksexchange",
        "XML, as ContextCapture and Metashape export blocks of cameras",
        Class::Cameras,
        CAMERAS,
    ),
    (
        "<meshlab",
        "a project of MeshLab (XML)",
        Class::Cameras,
        NAMED,
    ),
];

/// Bytes at the start of a text that are looked at.
const HEAD: usize = 4096;
/// Bytes of a binary STL before its triangles, and of a triangle.
pub(crate) const STL: (usize, usize) = (84, 50);

/// What `bytes` are, where their first bytes tell.
pub fn recognise(bytes: &[u8]) -> Option<Foreign> {
    let magic = MAGIC
        .iter()
        .find(|(at, magic, ..)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    if let Some(&(_, _, what, class, hint)) = magic {
        return Some(Foreign { what, class, hint });
    }
    if is_binary_stl(bytes) {
        let (what, class, hint) = (STL_MESH, Class::Mesh, "");
        return Some(Foreign { what, class, hint });
    }
    text(bytes)
}

/// Whether the bytes are a binary STL: their number is what the count at byte 80 promises.
pub(crate) fn is_binary_stl(bytes: &[u8]) -> bool {
    let (head, triangle) = STL;
    let count = bytes.get(head - 4..).and_then(|rest| rest.first_chunk());
    let promised = count.map(|count| u32::from_le_bytes(*count) as usize * triangle + head);
    promised == Some(bytes.len()) && bytes.len() > head
}

fn text(bytes: &[u8]) -> Option<Foreign> {
    let head = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let head = String::from_utf8_lossy(&head[..head.len().min(HEAD)]).to_ascii_lowercase();
    let head = head.trim_start();
    let found = |(_, what, class, hint): &(&str, &'static str, Class, &'static str)| Foreign {
        what,
        class: *class,
        hint,
    };
    if let Some(entry) = WORDS.iter().find(|(words, ..)| head.starts_with(words)) {
        return Some(found(entry));
    }
    if head.starts_with("<?xml") || head.starts_with("<document") || head.starts_with("<!--") {
        let entry = XML.iter().find(|(word, ..)| head.contains(word));
        return Some(entry.map_or(
            Foreign {
                what: "XML of another program",
                class: Class::Other,
                hint: CAMERAS,
            },
            found,
        ));
    }
    let line = head.trim_end();
    let is_path = bytes.len() < 512 && line.starts_with("../") && !line.contains(['\n', '{']);
    is_path.then_some(Foreign {
        what: "the text of a symbolic link, not the file that it leads to",
        class: Class::Other,
        hint: LINK,
    })
}

/// JSON of other programs, by keys that they all have.
const JSON: [(&[&str], &str); 5] = [
    (&["\"sfm_data_version\""], "a scene of OpenMVG (sfm_data)"),
    (
        &["\"intrinsics\"", "\"views\"", "\"poses\""],
        "a scene of Meshroom (AliceVision's .sfm)",
    ),
    (
        &["\"PinholeCameraTrajectory\""],
        "a camera trajectory of Open3D",
    ),
    (&["\"PinholeCameraParameters\""], "a camera of Open3D"),
    (
        &["\"img_name\"", "\"rotation\"", "\"position\""],
        "the cameras.json of a Gaussian splatting",
    ),
];

/// The program whose cameras a JSON file without frames holds, where its keys tell.
pub(crate) fn program(text: &[u8]) -> Option<&'static str> {
    let has = |key: &&str| text.windows(key.len()).any(|part| part == key.as_bytes());
    let found = JSON.iter().find(|(keys, _)| keys.iter().all(has));
    found.map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cameras_of_other_programs_are_told() {
        for (text, what) in [
            ("{\"sfm_data_version\": \"0.3\"}", Some("OpenMVG")),
            (
                "{\"version\": [1], \"views\": [], \"intrinsics\": [], \"poses\": []}",
                Some("Meshroom"),
            ),
            (
                "{\"class_name\": \"PinholeCameraTrajectory\"}",
                Some("Open3D"),
            ),
            (
                "[{\"id\": 0, \"img_name\": \"a\", \"position\": [], \"rotation\": []}]",
                Some("splatting"),
            ),
            ("{\"views\": []}", None),
        ] {
            let found = program(text.as_bytes());
            assert_eq!(found.is_some(), what.is_some(), "{text}");
            assert!(
                found.unwrap_or_default().contains(what.unwrap_or_default()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_lies_under_a_wrong_name_is_told() {
        let mut stl = vec![0; 84 + 2 * 50];
        stl[80] = 2;
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let cases: [(&[u8], &str); 16] = [
            (
                b"version https://git-lfs.github.com/spec/v1\noid",
                "Git LFS",
            ),
            (b"\n<!DOCTYPE HTML><title>Sign in", "web page (HTML)"),
            (b"<?xml version=\"1.0\"?>\n<html xmlns=", "web page (HTML)"),
            (
                b"<?xml version=\"1.0\"?>\n<document version=\"1.5\"><chunk>",
                "Metashape",
            ),
            (b"<?xml version=\"1.0\"?><a/>", "XML"),
            (b"PK\x03\x04\x14\0", "zip"),
            (b"\x1F\x8B\x08\0", "gzip"),
            (b"\x93NUMPY\x01\0", "NumPy"),
            (b"../../blobs/566ad864480a", "symbolic link"),
            (b"# Bundle file v0.3\n6 0\n", "Bundler"),
            (b"solid cube\nfacet normal 0 0 1", "STL"),
            (&stl, "STL"),
            (&tar, "tar"),
            (b"\0\0\0\x1Cftypavif", "AVIF"),
            (b"\0\0\0\x18ftypheic", "HEIC"),
            (b"\xEF\xBB\xBF<html>", "web page (HTML)"),
        ];
        for (bytes, what) in cases {
            let found = recognise(bytes).expect(what);
            assert!(found.what.contains(what), "{} is {}", what, found.what);
        }
        let own: [&[u8]; 6] = [
            b"",
            b"{\"frames\": []}",
            b"# x\nv 0 0 0\n",
            b"v 0 0 0",
            b"BB",
            b"mtllib a",
        ];
        for bytes in own {
            assert_eq!(recognise(bytes), None);
        }
    }
}
