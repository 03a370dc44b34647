//! `kiln`: command line → exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    supervisor::run()
}
