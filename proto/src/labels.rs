//! Names and credits of an input that its output repeats, each one printable line.

use serde::{Deserialize, Serialize};

use crate::limits::MAX_PACKET_BYTES;

/// Bytes of a name.
const NAME_BYTES: usize = 128;
/// Bytes of a credit, and of any label.
const CREDIT_BYTES: usize = 1024;
/// Bytes of a list of names, half a packet.
const LIST_BYTES: usize = MAX_PACKET_BYTES / 2;
/// Where the input has no name, or several.
const UNNAMED: &str = "baked";

/// A printable line of 1,024 bytes at most; empty where the input has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

/// Too long, or not printable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no printable line of {CREDIT_BYTES} bytes at most")]
pub struct LabelError;

impl TryFrom<String> for Label {
    type Error = LabelError;

    fn try_from(text: String) -> Result<Self, LabelError> {
        match text.len() <= CREDIT_BYTES && text.chars().all(is_plain) {
            true => Ok(Self(text)),
            false => Err(LabelError),
        }
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

impl Label {
    /// A name of 128 bytes at most.
    pub fn name(text: &str) -> Self {
        Self::within(text, NAME_BYTES)
    }

    /// A copyright, a licence or the like.
    pub fn credit(text: &str) -> Self {
        Self::within(text, CREDIT_BYTES)
    }

    /// The text without what is not printable, white space as single spaces, cut at `limit` bytes.
    fn within(text: &str, limit: usize) -> Self {
        let plain = |c: &char| is_plain(*c) || c.is_whitespace();
        let text: String = text.chars().filter(plain).collect();
        let words: Vec<&str> = text.split_whitespace().collect();
        let line = words.join(" ");
        let cut = &line[..line.floor_char_boundary(limit)];
        Self(cut.trim_end().to_owned())
    }

    /// The line.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The line, if there is one.
    pub fn given(&self) -> Option<&str> {
        Some(self.text()).filter(|text| !text.is_empty())
    }
}

/// Labels whose packets stay small: names of 128 bytes at most, else the file names in them alone, else none.
pub fn short_list(names: &[String]) -> Vec<Label> {
    let within = |of: fn(&str) -> &str| {
        let labels: Vec<Label> = names.iter().map(|name| Label::name(of(name))).collect();
        let bytes: usize = labels.iter().map(|label| label.0.len() + 3).sum();
        (bytes <= LIST_BYTES).then_some(labels)
    };
    within(|name| name)
        .or_else(|| within(|name| name.rsplit('/').next().unwrap_or_default()))
        .unwrap_or_default()
}

/// Control characters end lines, and direction overrides and zero-width characters make a line read as something else.
fn is_plain(c: char) -> bool {
    let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !hidden
}

/// What the mesh's file calls itself. A name is there where all that is baked shares it: the result is one object with one
/// material.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// The glTF's node with the mesh, or the only root above several; the OBJ's `o`.
    pub node: Label,
    /// The glTF's mesh.
    pub mesh: Label,
    /// The glTF's material, or the OBJ's `usemtl`.
    pub material: Label,
    /// The glTF's `asset.copyright`.
    pub copyright: Label,
    /// `author` of the glTF's `asset.extras`, where model libraries put it.
    pub author: Label,
    /// `license` of the same.
    pub license: Label,
    /// `source` of the same.
    pub source: Label,
    /// `title` of the same.
    pub title: Label,
}

impl Labels {
    /// Name of the result's node.
    pub fn node_name(&self) -> &str {
        self.node.given().unwrap_or(UNNAMED)
    }

    /// Name of the result's mesh: that of the node where it has none.
    pub fn mesh_name(&self) -> &str {
        self.mesh.given().unwrap_or_else(|| self.node_name())
    }

    /// Name of the result's material: that of the node where it has none. Pictures are named by it.
    pub fn material_name(&self) -> &str {
        self.material.given().unwrap_or_else(|| self.node_name())
    }

    /// Who made the input and on what terms, beside `copyright`: key and value.
    pub fn credits(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("author", &self.author),
            ("license", &self.license),
            ("source", &self.source),
            ("title", &self.title),
        ];
        (all.into_iter()).filter_map(|(key, label)| Some((key, label.given()?)))
    }

    /// Lines for the head of a text format.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let copyright = self.copyright.given().map(|value| ("copyright", value));
        (copyright.into_iter().chain(self.credits())).map(|(key, value)| format!("{key}: {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_bounded_printable_line() {
        for (text, wanted) in [
            ("Leather Chair", "Leather Chair"),
            ("  a\n\tb\r\nc\0\u{7f} ", "a b c"),
            ("evil\u{202e}txt.exe", "eviltxt.exe"),
            ("Stühle 椅子", "Stühle 椅子"),
            ("\u{feff}", ""),
        ] {
            assert_eq!(Label::name(text).text(), wanted);
        }
        // Cut between characters.
        let long = "é".repeat(2000);
        assert_eq!(Label::name(&long).text().len(), NAME_BYTES);
        assert_eq!(Label::credit(&long).text().len(), CREDIT_BYTES);
        for text in [&long, "a\nb", "\u{200b}"] {
            assert_eq!(Label::try_from(text.to_owned()), Err(LabelError), "{text}");
        }
    }

    #[test]
    fn a_list_is_shortened_until_it_fits_a_packet() {
        let names = |count: usize, folder: &str| -> Vec<String> {
            (0..count)
                .map(|number| format!("{folder}{number}.png"))
                .collect()
        };
        let first = |names: &[String]| {
            short_list(names)
                .first()
                .map(|label| label.text().to_owned())
        };
        assert_eq!(first(&names(9, "images/")).as_deref(), Some("images/0.png"));
        assert_eq!(
            first(&names(2000, &"long/".repeat(20))).as_deref(),
            Some("0.png")
        );
        assert_eq!(first(&names(2000, &"l".repeat(100))), None);
    }

    #[test]
    fn names_that_are_missing_are_those_of_the_next_larger_thing() {
        let names = |labels: &Labels| {
            let all = [
                labels.node_name(),
                labels.mesh_name(),
                labels.material_name(),
            ];
            all.map(str::to_owned)
        };
        let mut labels = Labels::default();
        assert_eq!(names(&labels), ["baked"; 3]);
        labels.node = Label::name("Chair");
        assert_eq!(names(&labels), ["Chair"; 3]);
        labels.material = Label::name("Oak");
        assert_eq!(names(&labels), ["Chair", "Chair", "Oak"]);
    }
}
