//! What of a spec's JSON Schema the types of its fields do not say: which keys go together, and what a name may be.

use proto::pages::Pages;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::JobOptions;

/// A SHA-256 in hex.
pub const SHA256: &str = "^[0-9a-f]{64}$";
/// What [`crate::words::printable`] leaves as it is.
pub(super) const PRINTABLE: &str =
    r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*$";

/// The words of [`proto::splats::SplatViews`].
pub(super) const SPLAT_VIEWS: &str =
    "^(auto|trellis|[1-9]|[1-9][0-9]|[1-9][0-9]{2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-6])$";
/// The words of [`proto::splats::SplatFilter`].
pub(super) const SPLAT_FILTER: &str = "^(auto|(classic|mip)(:(100|[0-9]{1,2}(\\.[0-9]{1,6})?))?)$";

/// A file name of [`proto::splats::are_in`].
const SPLATS: &str = r"(meta\.json|[^/]*\.([pP][lL][yY]|[sS][pP][zZ]|[sS][pP][lL][aA][tT]|[sS][oO][gG]|[gG][lL][bB]|[gG][lL][tT][fF]))$";

/// A mesh or views, or nothing.
pub(super) fn source_or_null(_generator: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "anyOf": [{ "$ref": "#/components/schemas/Source" }, { "type": "null" }] })
}

/// The schemas of a spec and its parts, by their names in the document.
pub fn schemas() -> [(&'static str, Value); 2] {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let spec = JobOptions::json_schema(&mut settings.into_generator());
    [("Spec", spec.to_value()), ("Source", source())]
}

/// Of [`super::Source`].
fn source() -> Value {
    let absolute = |why: &str| json!({ "type": "string", "pattern": "^/", "description": why });
    json!({ "oneOf": [
        object(&["path"], json!({
            "path": absolute("Beneath a folder that --root allows; a model of COLMAP by its images.bin or images.txt"),
        })),
        object(&["path", "images"], json!({
            "path": { "type": "string", "pattern": r"^/(.*/)?(images\.(bin|txt)|cameras\.json|[^/]+\.(sfm|mlp|out|xml))$", "description": "A model of COLMAP, or another program's cameras, beneath a folder that --root allows" },
            "images": absolute("Of views that are such files: the folder of their pictures beneath a folder that --root allows, if not images beside a model or up to three folders above it, or the folder of another program's file"),
        })),
        uploaded(json!({ "type": "string", "description": "One of files, which names the others" })),
    ] })
}

/// Of a [`super::Source`] of Gaussian splats, by the names of [`proto::splats::are_in`].
fn splats() -> Value {
    let named = |start: &str, why: &str| {
        let pattern = format!("{start}{SPLATS}");
        json!({ "type": "string", "pattern": pattern, "description": why })
    };
    json!({ "oneOf": [
        object(&["path"], json!({ "path": named("^/(.*/)?", "Splats beneath a folder that --root allows") })),
        uploaded(named("^(.*/)?", "One of files: the splats, which may name the others")),
    ] })
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

fn uploaded(main: Value) -> Value {
    // A part of a name: it begins with no dot, and has neither slash, backslash nor control characters.
    let ascii = r##"[ !"#$%&\x27()*+,\-0-9:;<=>?@A-Z\[\]^_`a-z{|}~][ !"#$%&\x27()*+,\-.0-9:;<=>?@A-Z\[\]^_`a-z{|}~]*"##;
    let any = r"[^./\\\x00-\x1f\x7f-\x9f][^/\\\x00-\x1f\x7f-\x9f]*";
    let path = |part: &str| format!(r"^(\./)*{part}(/(\./)*{part})*$");
    let files = json!({
        "type": "object", "minProperties": 1,
        "additionalProperties": { "type": "string", "pattern": SHA256, "description": "SHA-256" },
        "propertyNames": { "anyOf": [
            { "pattern": path(ascii), "maxLength": 250 },
            { "pattern": path(any), "maxLength": 62 },
        ] },
        "description": "SHA-256 by name beneath one folder; names have 250 bytes at most, which 62 characters of any kind fit; ./train/r_0.png is train/r_0.png, and no name comes twice",
    });
    object(&["files", "main"], json!({ "files": files, "main": main }))
}

/// Which keys go together, as [`JobOptions::check`] has it; descriptions in the words of JSON.
pub(super) fn finish(schema: &mut Schema) {
    let not = |required: &[&str], properties: Value| json!({ "required": required, "properties": properties });
    let bare = |key: &str, value: Value| json!({ "vertex_colours": { "const": true }, key: value });
    let mut refused = vec![
        not(
            &["target_faces", "simplify"],
            json!({ "target_faces": { "type": "integer" }, "simplify": { "type": "number" } }),
        ),
        not(
            &["fill_holes", "keep_uvs"],
            json!({ "fill_holes": { "type": "number" }, "keep_uvs": { "const": true } }),
        ),
        not(
            &["uv_set"],
            json!({ "uv_set": { "type": "integer" }, "keep_uvs": { "const": false } }),
        ),
        not(
            &["texture_quality"],
            json!({ "texture_quality": { "type": "integer" }, "texture_format": { "enum": ["png", "webp", "ktx2-uastc"] } }),
        ),
        not(
            &["vertex_colours", "pages"],
            bare("pages", json!({ "enum": [4, 9, 16] })),
        ),
        not(
            &["vertex_colours", "maps"],
            bare("maps", json!({ "const": true })),
        ),
        not(
            &["vertex_colours", "provenance_attribute"],
            bare("provenance_attribute", json!({ "const": true })),
        ),
        not(
            &["vertex_colours", "detail"],
            bare(
                "detail",
                json!({ "enum": ["normal", "occlusion", "normal,occlusion"] }),
            ),
        ),
        not(
            &["original"],
            json!({ "original": { "type": "object" }, "detail": { "const": "off" } }),
        ),
        not(
            &["original"],
            json!({ "original": { "type": "object", "required": ["images"], "properties": { "images": {} } } }),
        ),
        not(
            &["mesh"],
            json!({ "mesh": { "type": "object", "required": ["images"], "properties": { "images": {} } } }),
        ),
    ];
    for pages in [4, 9, 16].map(Pages::try_from).into_iter().flatten() {
        let (count, most) = (pages.count(), pages.largest());
        let large =
            json!({ "pages": { "const": count }, "texture_size": { "exclusiveMinimum": most } });
        refused.push(not(&["pages", "texture_size"], large));
    }
    let source = json!({ "$ref": "#/components/schemas/Source" });
    // No two hold at once; linters do not see that a null and a string exclude each other, so this is no `oneOf`.
    schema.insert("anyOf".to_owned(), json!([
        { "title": "Mesh and views", "required": ["mesh", "views"], "properties": { "mesh": source, "views": source, "arrays": { "type": "null" } } },
        { "title": "Gaussian splats alone", "required": ["mesh"], "properties": { "mesh": splats(), "views": { "type": "null" }, "arrays": { "type": "null" } } },
        { "title": "Arrays in place of both", "required": ["arrays"], "properties": { "arrays": { "type": "string" }, "mesh": { "type": "null" }, "views": { "type": "null" } } },
    ]));
    schema.insert("not".to_owned(), json!({ "anyOf": refused }));
    schema.insert(
        "description".to_owned(),
        json!("The options of a job, and where its inputs are"),
    );
    words(schema.as_object_mut());
}

/// `--keep-uvs` → `keep_uvs`, on one line.
fn words(properties: Option<&mut Map<String, Value>>) {
    let Some(Value::Object(properties)) = properties.and_then(|all| all.get_mut("properties"))
    else {
        return;
    };
    for property in properties.values_mut() {
        if let Some(Value::String(text)) = property.get_mut("description") {
            let word = |word: &str| match word.split_once("--") {
                Some((quote, flag)) => format!("{quote}{}", flag.replace('-', "_")),
                None => word.to_owned(),
            };
            let all: Vec<String> = text.split_whitespace().map(word).collect();
            *text = all.join(" ");
        }
    }
}
