//! Feeds hostile bytes to every reader of Kiln. A [target](targets) takes any bytes, returns whether the reader
//! accepted them, and panics if the reader or one of its guarantees fails.
//!
//! ```text
//!  seed::all (from the sample) ───────┐                 ┌─ tests/seeds.rs        every seed, in ./run.sh test
//!  seeds/NAME.pack (reached new code) ├─► targets::NAME ┤
//!  seeds/NAME/* (crashed once)        ┘                 └─ fuzz_targets/NAME.rs  libFuzzer and ASan, in ./run.sh fuzz
//! ```
//!
//! A crash that `./run.sh fuzz` finds is in `artifacts/`; once fixed, its input goes to `seeds/NAME/`.
//! `./run.sh fuzz keep` rewrites the packs from everything that runs so far have reached.

pub mod files;
pub mod heap;
pub mod seed;
pub mod targets;
