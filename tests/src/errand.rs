//! Runs `kiln` against the bench's sidecar: `submit`, `wait`, `fetch`, …

use std::path::Path;

use crate::{Bench, Outcome, Run};

/// `kiln` with these arguments and the bench's sidecar.
pub fn start(bench: &Bench, arguments: &[&str]) -> Run {
    start_at(bench, &bench.path("run/kiln.sock"), arguments)
}

/// The same, with the sidecar at this socket.
pub fn start_at(bench: &Bench, socket: &Path, arguments: &[&str]) -> Run {
    let mut command = bench.kiln();
    command.args(arguments).env("KILN_SOCKET", socket);
    Run::start(command)
}

/// Runs it to its end.
pub fn kiln(bench: &Bench, arguments: &[&str]) -> Outcome {
    start(bench, arguments).finish()
}

/// `kiln submit` of the bench's own inputs.
pub fn submit<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let own = [
        "submit",
        "mesh.glb",
        "--views",
        "transforms.json",
        "--texture-size",
        "256",
    ];
    [&own, more].concat()
}

/// The id that `kiln submit` prints.
pub fn submitted(bench: &Bench, more: &[&str]) -> String {
    let outcome = kiln(bench, &submit(more));
    outcome.assert_code(0);
    assert_eq!(outcome.stdout.len(), 1, "{:?}", outcome.stdout);
    outcome.stdout[0].clone()
}

/// Asserts that it failed with one line that says what is wrong, and a hint.
pub fn assert_refused(outcome: &Outcome, code: i32, words: &str) {
    outcome.assert_code(code);
    assert!(outcome.stdout.is_empty(), "{:?}", outcome.stdout);
    let errors = &outcome.stderr;
    assert!(
        errors.contains(words)
            && errors.starts_with("kiln: error: ")
            && errors.lines().count() <= 2,
        "{words:?} in one line and a hint: {errors}"
    );
}
