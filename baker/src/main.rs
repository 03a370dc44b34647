//! `kiln-baker prepare|bake|encode` runs one role for one job and exits. `kiln` starts it with the socket as standard
//! input.

use std::process::ExitCode;

/// Set in the binary, not in the library: other programs that link the library have their own allocator.
#[global_allocator]
static ALLOCATOR: baker::Noted = baker::Noted;

fn main() -> ExitCode {
    baker::run()
}
