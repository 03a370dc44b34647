//! A worker in every role that obeys the protocol until the planned step and then commits the planned fault.
//!
//! It is started through a link named `kiln-baker`; its plan is `kiln-baker.json` beside the link (the environment is
//! cleared, so nothing else can tell it). It holds the pipe `alive` open for as long as it lives, and counts its starts
//! in files named `prepare-1`, `prepare-2`, ….

#![expect(
    clippy::infinite_loop,
    clippy::exit,
    clippy::print_stderr,
    reason = "hanging, dying and talking out of turn is what it is for"
)]

mod healthy;
mod kin;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use proto::message::Role;

use crate::worker::Worker;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let link = PathBuf::from(arguments.next().unwrap_or_default());
    let role = match arguments.next().as_deref() {
        Some("prepare") => Role::Prepare,
        Some("bake") => Role::Bake,
        Some("encode") => Role::Encode,
        _ => return ExitCode::from(64),
    };
    // A mistake of the saboteur's own must not look like a planned fault: it panics, and says so on standard error.
    let worker = Worker::connect(&link, role);
    match role {
        Role::Prepare => healthy::prepare(&worker),
        Role::Bake => healthy::bake(&worker),
        Role::Encode => healthy::encode(&worker),
    }
    ExitCode::SUCCESS
}
