//! Text of others within HTML.

use std::fmt::{self, Display, Formatter, Write};

/// A text that says itself, whatever it holds, between tags and within quoted attributes.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_a_tag_or_ends_an_attribute() {
        let text = r#"<script>alert("1")</script> & 'é'"#;
        let wanted = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;é&#39;";
        assert_eq!(Text(text).to_string(), wanted);
    }
}
