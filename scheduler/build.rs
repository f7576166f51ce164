//! Tells rustdoc about `--cfg loom`.
//!
//! Doctests are compiled by rustdoc, which cargo does not give the flags of RUSTFLAGS, but does give the cfgs that a
//! build script sets. Without this, `RUSTFLAGS="--cfg loom" cargo test` would let rustdoc read the non-loom half of
//! `sync` against the dependencies of the loom half, and fail. The crate is empty under `cfg(all(loom, doctest))`, so
//! that no example runs on loom's atomics outside of a model.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_LOOM").is_some() {
        println!("cargo::rustc-cfg=loom");
    }
}
