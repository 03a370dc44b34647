//! Phases and figures in the words that people read.

use std::time::Duration;

use proto::message::{AdapterInfo, Phase, Role};
use serde::Serialize;

/// "… died while *this*".
pub fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Start => "starting",
        Phase::LoadMesh => "reading the mesh",
        Phase::Surface => "finding the surface of the splats",
        Phase::Clean => "cleaning the mesh",
        Phase::Repair => "repairing the mesh",
        Phase::Simplify => "simplifying the mesh",
        Phase::Unwrap => "unwrapping the mesh",
        Phase::DecodeViews => "decoding views",
        Phase::OpenDevice => "opening the device",
        Phase::Refine => "refining cameras",
        Phase::Raster => "rasterising views",
        Phase::Init => "averaging views",
        Phase::Fit => "fitting the texture",
        Phase::Gutter => "filling gutters",
        Phase::Detail => "finding the original surface",
        Phase::Png => "compressing the texture",
        Phase::Glb => "writing the GLB",
        Phase::Measure => "measuring the result",
        Phase::Preview => "drawing the preview",
        Phase::Commit => "putting the result in place",
    }
}

/// `unit` of a phase's counts, for "12 of 40 *views*"; empty where the counts mean nothing to people.
pub fn unit(phase: Phase) -> &'static str {
    match phase {
        Phase::Surface | Phase::DecodeViews | Phase::Refine | Phase::Raster => " views",
        Phase::Start
        | Phase::LoadMesh
        | Phase::Clean
        | Phase::Repair
        | Phase::Simplify
        | Phase::Unwrap
        | Phase::OpenDevice
        | Phase::Init
        | Phase::Fit
        | Phase::Gutter
        | Phase::Detail
        | Phase::Png
        | Phase::Glb
        | Phase::Measure
        | Phase::Preview
        | Phase::Commit => "",
    }
}

/// An adapter as a worker describes it, made printable.
pub fn adapter(adapter: AdapterInfo) -> AdapterInfo {
    AdapterInfo {
        name: printable(&adapter.name, 200),
        backend: printable(&adapter.backend, 40),
        kind: printable(&adapter.kind, 40),
        driver: printable(&adapter.driver, 200),
    }
}

/// First letter large.
pub fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    rest.next()
        .map(|first| first.to_uppercase().chain(rest).collect())
        .unwrap_or_default()
}

/// `0.4 s`, `38 s`, `2 min 05 s`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

/// `812 B`, `4.1 KiB`, `3.2 MiB`.
pub fn size(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", value / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{:.2} GiB", value / 1_073_741_824.0),
    }
}

/// "bake: fitting the texture".
pub fn stage(role: Role, phase: Phase) -> String {
    format!("{}: {}", role.name(), doing(phase))
}

/// Text from another process as one printable line of at most `limit` bytes.
pub fn printable(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        // Direction overrides and zero-width characters can make a line read as something else.
        let c = match c {
            '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => '\u{fffd}',
            c => c,
        };
        if line.len() + c.len_utf8() > limit {
            break;
        }
        line.push(c);
    }
    line
}

/// Text from another process with its lines, each as [`printable`] makes it, of at most `limit` bytes.
pub fn printable_lines(text: &str, limit: usize) -> String {
    let lines: Vec<String> = text.lines().map(|line| printable(line, limit)).collect();
    let mut text = lines.join("\n");
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// An error with its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The word by which JSON and the flags name a choice.
pub fn word(choice: &impl Serialize) -> String {
    serde_json::to_value(choice)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_child_stays_one_harmless_line() {
        assert_eq!(printable("a\x1b[31m\nb\tc", 99), "a\u{fffd}[31m\u{fffd}b c");
        assert_eq!(printable("żółw", 3), "ż", "cut at a character");
        assert_eq!(printable("a\u{202e}b", 99), "a\u{fffd}b");
    }

    #[test]
    fn times_and_sizes_read_well() {
        assert_eq!(span(Duration::from_millis(412)), "0.4 s");
        assert_eq!(span(Duration::from_secs(125)), "2 min 05 s");
        assert_eq!(size(3_355_443), "3.2 MiB");
    }
}
