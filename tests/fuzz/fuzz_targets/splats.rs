//! libFuzzer against [`kiln_fuzz::targets::splats`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _accepted = kiln_fuzz::targets::splats(bytes);
});
