//! Puts into the program what it was built from: the hash of the sources that the stress gate covers, and the compiler.
//! Asked when it runs, the folder it was built in may have changed, or be gone.

#[path = "../stress/src/tree.rs"]
#[expect(dead_code, unreachable_pub, reason = "the hash alone is of interest here, and nobody outside")]
mod tree;

use std::process::Command;

/// With this set the hash is left out, so that two trees of which the same program comes make the same file: `ab`
/// refuses to compare a program with itself.
const WITHOUT: &str = "BENCH_WITHOUT_TREE";

fn main() {
    let root = tree::root();
    println!("cargo::rerun-if-changed=build.rs");
    for part in ["Cargo.lock", "Cargo.toml", ".cargo", "numa", "scheduler", "stress"] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    println!("cargo::rerun-if-env-changed={WITHOUT}");
    let hash = if std::env::var_os(WITHOUT).is_some() { None } else { tree::hash(&root).ok() };
    println!("cargo::rustc-env=BENCH_TREE={}", hash.unwrap_or_default());
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("-V").output().ok().filter(|out| out.status.success());
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    println!("cargo::rustc-env=BENCH_RUSTC={}", version.unwrap_or_default());
}
