//! Tells rustdoc about `--cfg loom`, as `scheduler/build.rs` does: the doctests of the book are not for loom.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_LOOM").is_some() {
        println!("cargo::rustc-cfg=loom");
    }
}
