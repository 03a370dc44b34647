//! The supervisor's half of the protocol against three children that say anything in any order: no table is granted,
//! frozen or handed on that should not be, no role counts as done without its tables, and what they say about themselves
//! stays harmless lines in the report.
//!
//! Follows `job/hear.rs` packet by packet, with [`supervisor::table_store`], [`supervisor::dispatcher`], [`supervisor::watch`] and
//! [`supervisor::report`] as they are, and without processes. [`Op`] lists what a child can do.

mod children;
mod fixture;
mod op;

use arbitrary::Unstructured;

use self::children::Children;
pub use self::fixture::least;
pub use self::op::Op;

/// Enough for a whole job with several deaths.
const MOST_OPS: usize = 80;

/// First whether a preview is wanted, then one [`Op`] after the other.
#[must_use]
pub fn protocol(bytes: &[u8]) -> bool {
    let mut bytes = Unstructured::new(bytes);
    let Ok(preview) = bytes.arbitrary::<u8>() else {
        return false;
    };
    let mut children = Children::new(preview % 2 == 1);
    for _ in 0..MOST_OPS {
        let Ok(op) = Op::take(&mut bytes) else {
            break;
        };
        children.step(op);
    }
    children.report();
    children.finished()
}
