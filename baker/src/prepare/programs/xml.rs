//! XML as a tree, and the numbers in it. Entities are refused: a few of them make a file of gigabytes out of one of a page.

use proto::message::Code;
use roxmltree::{Document, Node, ParsingOptions};

use super::wrong::{Read, Wrong};

/// Largest file: thousands of cameras with all that Metashape says of them.
const MOST_BYTES: usize = 32 << 20;
/// Most elements, texts and comments: memory for a hundred megabytes.
const MOST_NODES: u32 = 1 << 20;

pub(super) fn parse(bytes: &[u8]) -> Read<Document<'_>> {
    if bytes.len() > MOST_BYTES {
        let text = format!(
            "has {} bytes, more than the {MOST_BYTES} that are taken of XML",
            bytes.len()
        );
        return Err(Wrong {
            code: Code::LimitExceeded,
            hint: "leave out views; a few hundred are enough for any object",
            ..Wrong::new(text)
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|_other| Wrong::new("is not UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    if text.contains("<!ENTITY") {
        return Err(Wrong::new(
            "declares entities of its own, which are not taken",
        ));
    }
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    let tree = Document::parse_with_options(text, options);
    tree.map_err(|error| Wrong::new(format!("is not readable: {error}")))
}

/// The first child of this name.
pub(super) fn child<'a, 'b>(of: Node<'a, 'b>, name: &str) -> Option<Node<'a, 'b>> {
    of.children().find(|child| child.has_tag_name(name))
}

/// The numbers in a text, apart by spaces; as many as asked for or more.
pub(super) fn numbers<const N: usize>(text: &str, what: &str) -> Read<[f64; N]> {
    let mut found = [0.0; N];
    let mut words = text.split_ascii_whitespace();
    for place in &mut found {
        let word = words.next();
        let word = word.ok_or_else(|| Wrong::new(format!("{what} has fewer than {N} numbers")))?;
        let number: Option<f64> = word.parse().ok().filter(|x: &f64| x.is_finite());
        *place = number.ok_or_else(|| {
            let shown: String = word.chars().take(40).collect();
            Wrong::new(format!("{what} contains {shown:?}, which is no number"))
        })?;
    }
    Ok(found)
}

/// The numbers of an attribute.
pub(super) fn attribute<const N: usize>(of: Node<'_, '_>, name: &str) -> Read<[f64; N]> {
    let text = of.attribute(name);
    numbers(
        text.ok_or_else(|| Wrong::new(format!("{name} is missing")))?,
        name,
    )
}

/// The number in a child of this name; none where there is no such child.
pub(super) fn number(of: Node<'_, '_>, name: &str) -> Read<Option<f64>> {
    let Some(child) = child(of, name) else {
        return Ok(None);
    };
    let [number] = numbers(child.text().unwrap_or_default(), name)?;
    Ok(Some(number))
}
