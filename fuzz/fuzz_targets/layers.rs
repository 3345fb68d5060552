//! Fuzzes the reading of archives: no bytes make it panic, or take more than there is. What is unpacked has properties of
//! its own in `crates/runtime/src/images/unpack/tests.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = rkube_runtime::images::count_entries(bytes);
});
