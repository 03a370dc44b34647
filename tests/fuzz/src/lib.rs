//! Hostile bytes against every reader of Kiln. A [target](targets) takes any bytes, tells whether the reader accepted them,
//! and panics where the reader or one of its promises breaks.
//!
//! ```text
//!  seed::all (from the sample) ───────┐                 ┌─ tests/seeds.rs        every seed, in ./run.sh test
//!  seeds/NAME.pack (reached new code) ├─► targets::NAME ┤
//!  seeds/NAME/* (crashed once)        ┘                 └─ fuzz_targets/NAME.rs  libFuzzer and ASan, in ./run.sh fuzz
//! ```
//!
//! A crash that `./run.sh fuzz` finds lies in `artifacts/`; once mended, its input goes to `seeds/NAME/`.
//! `./run.sh fuzz keep` writes the packs anew from what all runs so far have reached.

pub mod files;
pub mod heap;
pub mod seed;
pub mod targets;
