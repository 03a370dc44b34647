//! A report → a page that any browser shows without a network.
//!
//! ```text
//!   head   policy, style, script │ figures and warnings      written here, every text escaped
//!   rows of views, texture       │ encode's own HTML, of which nothing is read here
//!   tail   times, and the report as JSON
//! ```
//!
//! The policy stands before all that a worker wrote, and admits one style and one script by their hashes, pictures that
//! are data, and nothing else: neither what encode wrote nor a name in the input can run, load or send anything.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proto::html::Text;
use sha2::{Digest as _, Sha256};

use super::Report;
use crate::words::{doing, sentence, span};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

impl Report {
    /// The page before and after the rows of views.
    pub fn page(&self) -> [String; 2] {
        let output = self.options.output.display().to_string();
        let mut head = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"dark light\">\n<title>{}</title>\n\
             <style>{STYLE}</style>\n<script>{SCRIPT}</script>\n</head>\n<body>\n<h1>{}</h1>\n",
            policy(),
            Text(&output),
            Text(&output),
        );
        for line in self.summary() {
            head.push_str(&format!("<p>{}</p>\n", Text(&line)));
        }
        self.push_warnings(&mut head);
        self.push_figures(&mut head);
        let json = String::from_utf8_lossy(&self.to_json()).into_owned();
        let mut tail = String::new();
        self.push_times(&mut tail);
        tail.push_str(&format!(
            "<details>\n<summary>The whole report</summary>\n<pre>{}</pre>\n</details>\n</body>\n</html>\n",
            Text(&json)
        ));
        [head, tail]
    }

    fn push_warnings(&self, page: &mut String) {
        if self.warnings.is_empty() {
            return;
        }
        page.push_str("<section>\n<h2>Warnings</h2>\n<ul class=\"warnings\">\n");
        for warning in &self.warnings {
            let text = sentence(&warning.text);
            page.push_str(&format!("<li>{}</li>\n", Text(&text)));
        }
        page.push_str("</ul>\n</section>\n");
    }

    fn push_figures(&self, page: &mut String) {
        let path = |path: &Path| path.display().to_string();
        let mut figures = vec![
            ("Mesh", path(&self.options.mesh)),
            ("Views", path(&self.options.views)),
        ];
        if let Some(device) = &self.device {
            figures.push(("Baked on", device.name.clone()));
        }
        let psnr = |db: Option<f32>| db.map(|db| format!("{db:.2} dB"));
        let train = psnr(self.psnr.train_db).map(|psnr| ("PSNR, views of the fit", psnr));
        let held = psnr(self.psnr.holdout_db).map(|psnr| ("PSNR, held-out views", psnr));
        figures.extend(train.into_iter().chain(held));
        if let Some(prepare) = &self.prepare {
            let views = format!("{} and {} held out", prepare.views, prepare.holdout_views);
            figures.push(("Views of the fit", views));
            figures.push(("Triangles", prepare.triangles.to_string()));
            let copyright = prepare.labels.copyright.given().map(|of| ("copyright", of));
            for (key, value) in copyright.into_iter().chain(prepare.labels.credits()) {
                figures.push((key, value.to_owned()));
            }
        }
        page.push_str("<section>\n<h2>Figures</h2>\n<dl>\n");
        for (name, value) in figures {
            let name = sentence(name);
            page.push_str(&format!(
                "<dt>{}</dt><dd>{}</dd>\n",
                Text(&name),
                Text(&value)
            ));
        }
        page.push_str("</dl>\n</section>\n");
    }

    fn push_times(&self, page: &mut String) {
        let most = self
            .stages
            .iter()
            .map(|stage| stage.time.ms)
            .fold(1.0, f64::max);
        page.push_str("<section>\n<h2>Times</h2>\n<table>\n");
        for stage in &self.stages {
            let time = span(Duration::from_secs_f64(stage.time.ms.max(0.0) / 1e3));
            let row = format!(
                "<tr><td>{}</td><td>{}</td><td><progress max=\"{most:.1}\" value=\"{:.1}\"></progress></td><td>{time}</td></tr>\n",
                stage.role.name(),
                doing(stage.time.phase),
                stage.time.ms,
            );
            page.push_str(&row);
        }
        page.push_str("</table>\n<p>Roles overlap, and so do stages.</p>\n</section>\n");
    }
}

fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

#[cfg(test)]
mod tests {
    use proto::message::Role;

    use super::super::{Options, Warning};
    use super::*;
    use crate::options::JobOptions;

    #[test]
    fn what_the_input_says_is_text_and_the_policy_comes_first() {
        let mut report = Report::of(Options::of(&JobOptions::default()));
        let hostile = "</pre></title><script>alert('x')</script><img src=x onerror=alert(1)>";
        report.options.mesh = hostile.into();
        report.options.output = hostile.into();
        report.warnings = vec![Warning {
            role: Role::Prepare,
            text: hostile.to_owned(),
        }];
        let [head, tail] = report.page();
        assert_eq!(head.matches("<script").count(), 1);
        assert_eq!(
            (
                tail.matches("<script").count(),
                tail.matches("</pre>").count()
            ),
            (0, 1)
        );
        assert!(!head.contains("<img") && !tail.contains("<img"));
        let [policy, title, script] = ["Content-Security-Policy", "<title>", "<script>"]
            .map(|tag| head.find(tag).expect("there"));
        assert!(policy < title && title < script);
        assert!(head.contains("default-src 'none'; img-src data:; style-src 'sha256-"));
        assert!(head.contains("&lt;script&gt;alert(&#39;x&#39;)"));
        // Nothing is fetched, and no style or handler stands where the policy would refuse it.
        for page in [head, tail] {
            assert!(
                !page.contains("http://")
                    && !page.contains("https://")
                    && !page.contains(" style=")
            );
        }
    }

    #[test]
    fn style_and_script_end_where_they_should() {
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</"));
        assert!(SCRIPT.lines().count() <= 40);
    }
}
