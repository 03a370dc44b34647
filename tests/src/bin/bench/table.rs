//! Renders rows as aligned text with one row per set, or as two tables of Markdown.

use crate::row::{COLUMNS, Cell, LEGEND, Part, Row};

/// The whole text, with a legend and the machine of the measurement.
pub(crate) fn render(rows: &[Row], markdown: bool, machine: &str) -> String {
    let shown: Vec<usize> = (0..COLUMNS.len())
        .filter(|&column| rows.iter().any(|row| cell(row, column).is_some()))
        .collect();
    let body = if markdown {
        markdown_tables(rows, &shown)
    } else {
        text_table(rows, &shown)
    };
    format!("{body}\n{LEGEND}\n{}\n", measured_on(rows, machine))
}

/// Usually there is one device for all rows: `--device` applies to all, and `auto` finds the same each time.
fn measured_on(rows: &[Row], machine: &str) -> String {
    let mut devices: Vec<&str> = rows
        .iter()
        .filter_map(|row| row.device.as_deref())
        .collect();
    devices.sort_unstable();
    devices.dedup();
    match devices.len() {
        0 => format!("{machine}."),
        _ => format!("Baked on {}. {machine}.", devices.join(" and ")),
    }
}

fn cell(row: &Row, column: usize) -> &Cell {
    row.cells
        .as_ref()
        .ok()
        .and_then(|cells| cells.get(column))
        .unwrap_or(&None)
}

fn text(row: &Row, column: usize) -> &str {
    cell(row, column).as_deref().unwrap_or("-")
}

/// Whether the column holds words, which are aligned left; numbers are aligned right.
fn is_word(column: usize) -> bool {
    COLUMNS[column].name == "by"
}

fn padded(text: &str, width: usize, left: bool) -> String {
    if left {
        format!("{text:<width$}")
    } else {
        format!("{text:>width$}")
    }
}

fn text_table(rows: &[Row], shown: &[usize]) -> String {
    let widest = |texts: &mut dyn Iterator<Item = &str>| {
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let name_width = widest(&mut rows.iter().map(|row| row.name.as_str()).chain(["set"]));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &column in shown {
        match groups.last_mut() {
            Some(group) if COLUMNS[group[0]].group == COLUMNS[column].group => group.push(column),
            _ => groups.push(vec![column]),
        }
    }
    let mut lines = [" ".repeat(name_width), padded("set", name_width, true)].to_vec();
    lines.extend(rows.iter().map(|row| match &row.cells {
        Ok(_) => padded(&row.name, name_width, true),
        Err(message) => format!(
            "{}   failed: {message}",
            padded(&row.name, name_width, true)
        ),
    }));
    for group in groups {
        let good = || rows.iter().filter(|row| row.succeeded());
        let mut widths: Vec<usize> = group
            .iter()
            .map(|&column| {
                widest(
                    &mut good()
                        .map(|row| text(row, column))
                        .chain([COLUMNS[column].name]),
                )
            })
            .collect();
        let title = COLUMNS[group[0]].group;
        let room = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
        let needed = title.chars().count().saturating_sub(room);
        widths[0] += needed;
        let rule = "─".repeat((room + needed - title.chars().count()).saturating_sub(1));
        let rule = if rule.is_empty() {
            rule
        } else {
            format!(" {rule}")
        };
        lines[0].push_str(&format!(
            "   {}",
            padded(&format!("{title}{rule}"), room + needed, true)
        ));
        let mut append = |line: usize, texts: &[&str]| {
            let cells: Vec<String> = group
                .iter()
                .zip(texts)
                .zip(&widths)
                .map(|((&column, text), &width)| padded(text, width, is_word(column)))
                .collect();
            lines[line].push_str(&format!("   {}", cells.join("  ")));
        };
        let names: Vec<&str> = group.iter().map(|&column| COLUMNS[column].name).collect();
        append(1, &names);
        for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.succeeded()) {
            let texts: Vec<&str> = group.iter().map(|&column| text(row, column)).collect();
            append(number + 2, &texts);
        }
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn markdown_tables(rows: &[Row], shown: &[usize]) -> String {
    let table = |part: Part| {
        let columns: Vec<usize> = shown
            .iter()
            .copied()
            .filter(|&column| COLUMNS[column].part == part)
            .collect();
        let mut out = String::from("| set |");
        for &column in &columns {
            let (group, name) = (COLUMNS[column].group, COLUMNS[column].name);
            out.push_str(&format!(" {} |", format!("{group} {name}").trim_end()));
        }
        out.push_str("\n|---|");
        for &column in &columns {
            out.push_str(if is_word(column) { "---|" } else { "--:|" });
        }
        out.push('\n');
        for row in rows {
            out.push_str(&format!("| {} |", row.name));
            match &row.cells {
                Ok(_) => {
                    for &column in &columns {
                        out.push_str(&format!(" {} |", text(row, column)));
                    }
                }
                // A bar in the message would end the cell.
                Err(message) => {
                    out.push_str(&format!(" failed: {} |", message.replace('|', "\\|")));
                    out.push_str(&" |".repeat(columns.len().saturating_sub(1)));
                }
            }
            out.push('\n');
        }
        out
    };
    format!("{}\n{}", table(Part::Quality), table(Part::Cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |name: &str, scale: usize| {
            let cells = COLUMNS.iter().enumerate().map(|(place, column)| {
                let filled = column.name != "simplify" && column.name != "GPU";
                filled.then(|| (place * scale).to_string())
            });
            Row {
                name: name.to_owned(),
                cells: Ok(cells.collect()),
                device: Some("a card".to_owned()),
            }
        };
        let failed = Row {
            name: "größer".to_owned(),
            cells: Err("no such file | or so".to_owned()),
            device: None,
        };
        vec![row("a", 1), failed, row("b (srgb)", 1_000)]
    }

    #[test]
    fn numbers_end_and_words_begin_beneath_their_heading() {
        let all = render(&rows(), false, "2 cores");
        let lines: Vec<Vec<char>> = all.lines().map(|line| line.chars().collect()).collect();
        let column = |line: usize, text: &str| {
            let line: String = lines[line].iter().collect();
            let byte = line
                .find(text)
                .unwrap_or_else(|| panic!("{text} in {line}"));
            line[..byte].chars().count()
        };
        assert_eq!(
            column(1, "worst") + "worst".len(),
            column(4, " 1000 ") + " 1000".len()
        );
        assert_eq!(
            column(1, "worst") + "worst".len(),
            column(2, " 1 ") + " 1".len()
        );
        assert_eq!(column(1, "by"), column(4, "7000"));
        assert_eq!(column(0, "peak MiB"), column(1, "prepare"));
        assert!(all.contains("größer     failed: no such file"), "{all}");
        assert!(
            !all.contains("simplify") && !all.contains("GPU"),
            "columns without anything are left out: {all}"
        );
        assert!(lines.iter().all(|line| line.last() != Some(&' ')));
    }

    #[test]
    fn markdown_has_as_many_cells_in_every_line_of_a_table() {
        let all = render(&rows(), true, "2 cores");
        let tables: Vec<&str> = all.split("\n\n").take(2).collect();
        for table in tables {
            let bars: Vec<usize> = table
                .lines()
                .map(|line| line.replace("\\|", "").matches('|').count())
                .collect();
            assert_eq!(bars.len(), 5, "{table}");
            assert!(bars.iter().all(|&count| count == bars[0]), "{table}");
        }
        assert!(all.contains("| PSNR dB held-out |") && all.contains("| peak MiB all |"));
        assert!(all.ends_with("Baked on a card. 2 cores.\n"), "{all}");
    }
}
