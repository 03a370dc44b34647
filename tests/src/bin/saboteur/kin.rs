//! A process that the saboteur starts, which no worker should do.

use std::io::{PipeWriter, Read, Write, pipe};

use kiln_tests::fault::Kin;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{ForkResult, alarm, fork, pause, setsid};
use proto::channel::Channel;
use proto::message::{FromChild, Phase};

/// It ends by itself after so many seconds.
const LIFE: u32 = 300;

/// Starts it, waits until it runs, and continues.
pub(crate) fn start(kin: Kin, channel: &Channel) {
    let (mut begun, begin) = pipe().expect("a pipe");
    if !forked() {
        drop(begin);
        begun.read_to_end(&mut Vec::new()).expect("a pipe");
        return;
    }
    if kin != Kin::Child {
        // Leaves the group; then the process in between exits, which makes the other an orphan.
        setsid().expect("a session");
        if !forked() {
            proto::exit::now(0);
        }
    }
    alarm::set(LIFE);
    if kin == Kin::Flood {
        flood(channel, begin);
    }
    drop(begin);
    loop {
        pause();
    }
}

/// Writes until nobody holds the other ends.
fn flood(channel: &Channel, begin: PipeWriter) -> ! {
    let handler = SigHandler::SigIgn;
    #[expect(unsafe_code, reason = "nix leaves it to the caller")]
    // SAFETY: no handler of ours runs.
    unsafe { signal(Signal::SIGPIPE, handler) }.expect("a signal");
    let progress = FromChild::Progress {
        phase: Phase::Fit,
        done: 1,
        total: 2,
    };
    // Four write faster than one reads.
    let _more = [forked(), forked()];
    let (mut open, mut begin) = ([true; 2], Some(begin));
    for round in 0_u64.. {
        if !open.contains(&true) {
            break;
        }
        if round == 16 {
            drop(begin.take());
        }
        open[0] = open[0] && channel.send(&progress, &[]).is_ok();
        open[1] = open[1] && writeln!(std::io::stderr(), "flood of an orphan").is_ok();
    }
    proto::exit::now(0)
}

fn forked() -> bool {
    #[expect(unsafe_code, reason = "nix leaves it to the caller")]
    // SAFETY: the saboteur has one thread.
    let forked = unsafe { fork() };
    matches!(forked.expect("a process"), ForkResult::Child)
}
