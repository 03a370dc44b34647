//! What the saboteur makes: the least that passes for a GLB and for a PNG, and says what a test wants to know.

use serde_json::{Value, json};

/// The model of a job with these views held out, and these on the contact sheet.
pub fn model(held: &[u32], shown: &[u32]) -> Vec<u8> {
    let told = format!("of the saboteur, held {held:?}, shown {shown:?}");
    let mut json = json!({ "asset": { "version": "2.0" }, "extras": told }).to_string();
    while !json.len().is_multiple_of(4) {
        json.push(' ');
    }
    let word = |number: usize| u32::try_from(number).expect("small").to_le_bytes();
    let head = [&b"glTF\x02\0\0\0"[..], &word(20 + json.len())].concat();
    [&head, &word(json.len())[..], b"JSON", json.as_bytes()].concat()
}

/// What a model says, if it is one of the saboteur's.
pub fn told(model: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(model.get(20..)?).ok()?;
    Some(json["extras"].as_str()?.to_owned())
}

/// A picture that says so.
pub fn picture(told: &str) -> Vec<u8> {
    let head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";
    let tail = b"\0\0\0\0IEND\xae\x42\x60\x82";
    [&head[..], b"of the saboteur, ", told.as_bytes(), tail].concat()
}
