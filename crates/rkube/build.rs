//! How the released binary is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    if !is("PROFILE", "release") || !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    // At a fixed address, as Go's programs are: what points to something in a table is final when it is linked, and need
    // not be written anew, into memory of its own, by every process of a pod.
    println!("cargo::rustc-link-arg-bins=-no-pie");
}
