//! Fuzzes `spdy`: the body is in the library, so that tests run it, too.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rkube_fuzz::streams::spdy(bytes));
