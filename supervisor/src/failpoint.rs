//! Places of the supervisor where `KILN_FAILPOINTS` lets it go wrong; without the feature `failpoints`, nothing.

use std::io;

use proto::message::FromChild;

/// A passage of `site`. An error is the system's answer there.
#[cfg(feature = "failpoints")]
pub(crate) fn at(site: &str) -> io::Result<()> {
    use proto::failpoint::{Action, act, hit};
    match hit("supervisor", site).and_then(act) {
        None => Ok(()),
        Some(Action::Error(errno)) => Err(errno.into()),
        Some(other) => Err(io::Error::other(format!(
            "the supervisor has no failpoint {other:?}"
        ))),
    }
}

/// A passage of `site`.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn at(_site: &str) -> io::Result<()> {
    Ok(())
}

/// A packet was taken.
#[cfg_attr(not(feature = "failpoints"), inline)]
pub(crate) fn packet(packet: &FromChild) {
    let passed = at(match packet {
        FromChild::Hello { .. } => "packet.hello",
        FromChild::Ready { .. } => "packet.ready",
        FromChild::Progress { .. } => "packet.progress",
        FromChild::Open { .. } => "packet.open",
        FromChild::Chosen { .. } => "packet.chosen",
        FromChild::Delivered { .. } => "packet.delivered",
        FromChild::Warning { .. } => "packet.warning",
        FromChild::Allocate { .. } => "packet.allocate",
        FromChild::Filled { .. } => "packet.filled",
        FromChild::Verified { .. } => "packet.verified",
        FromChild::Again => "packet.again",
        FromChild::Compiled => "packet.compiled",
        FromChild::Done(_) => "packet.done",
        FromChild::Failed(_) => "packet.failed",
    });
    if let Err(error) = passed {
        tracing::error!(%error, "a failpoint that has no meaning here");
    }
}
