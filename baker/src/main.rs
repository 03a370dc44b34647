//! `kiln-baker prepare|bake|encode`: one role, one job, then exit. Started by `kiln` with the socket as its standard input.

use std::process::ExitCode;

fn main() -> ExitCode {
    baker::run()
}
