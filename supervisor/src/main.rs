//! kiln.
fn main(){}
