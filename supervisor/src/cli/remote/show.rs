//! A sidecar's jobs → lines and tables for people, or one JSON object per line; files under way → a bar on a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;

use crate::remote::jobs::Job;
use crate::remote::upload::Sent;
use crate::screen::{Voice, result, say};
use crate::words::{printable, size, word};

/// The name of a job, and other text of the sidecar's.
const TEXT: usize = 80;

fn text(text: Option<&str>) -> String {
    printable(text.unwrap_or_default(), TEXT)
}

/// `2027-01-31 12:34:56` of `2027-01-31T12:34:56.789Z`.
fn time(rfc3339: Option<&str>) -> String {
    let time = text(rfc3339);
    time.chars().take(19).collect::<String>().replace('T', " ")
}

fn percent(job: &Job) -> String {
    format!("{:.0} %", (job.known.progress * 100.0).clamp(0.0, 100.0))
}

/// `kiln status`.
pub(super) fn one(job: &Job, json: bool) {
    if json {
        result(&job.raw.to_string());
        return;
    }
    let known = &job.known;
    let line = |name: &str, value: &str| {
        if !value.is_empty() {
            result(&format!("{name:<9} {value}"));
        }
    };
    line("id", &known.id.to_string());
    line("name", &text(known.name.as_deref()));
    line("state", &word(&known.state));
    if !known.state.is_over() {
        line("progress", &percent(job));
        line("phase", &text(known.phase.as_deref()));
    }
    if let Some(before) = known.position {
        line("before it", &format!("{before} jobs"));
    }
    line("created", &time(known.created_at.as_deref()));
    for made in &known.artifacts {
        line("file", &format!("{} ({})", made.name, size(made.bytes)));
    }
    if let Some(error) = job.failure() {
        line("error", &error.message);
        line("hint", &error.hint);
        line("exit code", &error.exit_code.to_string());
    }
}

/// `kiln cancel`.
pub(super) fn cancelled(job: &Job, json: bool, voice: Voice) {
    if json {
        result(&job.raw.to_string());
        return;
    }
    let id = job.known.id;
    result(&id.to_string());
    if voice != Voice::Quiet {
        match job.known.state {
            over if over.is_over() => say(&format!("job {id} was over: {}", word(&over))),
            _ => say(&format!("job {id} is being ended")),
        }
    }
}

/// `kiln list`, row by row.
pub(super) struct Table {
    json: bool,
    headed: bool,
}

impl Table {
    pub(super) fn new(json: bool, voice: Voice) -> Self {
        Self {
            json,
            headed: voice == Voice::Quiet,
        }
    }

    pub(super) fn row(&mut self, job: &Job) {
        if self.json {
            result(&job.raw.to_string());
            return;
        }
        let row = |id: &str, state: &str, done: &str, created: &str, name: &str| {
            let row = format!("{id:<32}  {state:<10}  {done:>5}  {created:<19}  {name}");
            result(row.trim_end());
        };
        if !std::mem::replace(&mut self.headed, true) {
            row("ID", "STATE", "DONE", "CREATED (UTC)", "NAME");
        }
        let known = &job.known;
        row(
            &known.id.to_string(),
            &word(&known.state),
            &percent(job),
            &time(known.created_at.as_deref()),
            &text(known.name.as_deref()),
        );
    }
}

/// Files on their way to the sidecar.
pub(super) struct Sending {
    bar: Option<ProgressBar>,
    json: bool,
    voice: Voice,
}

impl Sending {
    pub(super) fn new(bars: &MultiProgress, json: bool, voice: Voice) -> Self {
        let drawn = !json && voice != Voice::Quiet && stderr().is_terminal();
        let bar = drawn.then(|| {
            let template = "{spinner} Sending {bar:24} {bytes} of {total_bytes}  {eta} left";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_wrong| ProgressStyle::default_bar());
            bars.add(ProgressBar::hidden().with_style(style.progress_chars("━╸─")))
        });
        Self { bar, json, voice }
    }

    pub(super) fn tell(&mut self, sent: Sent) {
        if let Some(bar) = &self.bar {
            bar.set_length(sent.total);
            bar.set_position(sent.bytes);
        }
    }

    pub(super) fn end(self, sent: Sent, more_follows: bool, depot: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let Sent {
            files,
            known,
            total,
            ..
        } = sent;
        if self.json {
            if !more_follows {
                return;
            }
            let line = json!({ "event": "sent", "files": files, "known": known, "bytes": total });
            result(&line.to_string());
        } else if self.voice != Voice::Quiet {
            let bytes = size(total);
            say(&format!(
                "{files} files ({bytes}), of which {depot} had {known}"
            ));
        }
    }
}
