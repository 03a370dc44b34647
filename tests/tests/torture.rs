//! Injects two thousand faults into the real programs; no guarantee may break. `./run.sh torture` injects any number.

#![expect(
    clippy::print_stdout,
    reason = "what was injected is told with the failure"
)]

use std::process::Command;

#[test]
fn two_thousand_faults_break_no_promise() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = folder.path().join("history.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_torture"))
        .args(["--faults", "2000", "--history"])
        .arg(&history)
        .output()
        .expect("torture starts");
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{told}");
    assert!(
        output.status.success(),
        "{told}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(told.contains("0 promises broken"));
}
