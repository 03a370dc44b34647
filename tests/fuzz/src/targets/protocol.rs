//! The supervisor's half of the protocol against three children that send anything in any order. No table may be
//! granted, frozen or handed on wrongly, no role may count as done without its tables, and what children report must
//! stay harmless lines.
//!
//! Follows `job/hear.rs` packet by packet, with [`supervisor::process::table_store`], [`supervisor::process::dispatcher`], [`supervisor::process::watch`] and
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

/// Input: whether a preview is wanted, then one [`Op`] after the other.
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
