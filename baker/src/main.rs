//! `kiln-baker prepare|bake|encode`: one role, one job, then exit. Started by `kiln` with the socket as its standard input.

use std::process::ExitCode;

/// Set here and not in the library: other programs that link it have their own.
#[global_allocator]
static ALLOCATOR: baker::Noted = baker::Noted;

fn main() -> ExitCode {
    baker::run()
}
