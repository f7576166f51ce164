//! Programs for the guest, linked statically: there is no C library inside.

use super::{Trouble, broken};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What every Rust toolchain for this host has.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const STATIC: &str = "-C target-feature=+crt-static";

/// The binaries, as `cargo build` is told.
const BINARIES: [&str; 6] = ["-p", "guest", "-p", "numa", "--bin=inside", "--bin=numa"];
/// The test programs, as `cargo test` is told.
const TESTS: &[&str] =
    &["-p", "numa", "-p", "stress", "--test=live", "--test=pingpong", "--test=limits", "--test=shutdown"];

pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Path in the guest.
    pub(crate) place: String,
}

pub(crate) fn programs() -> Result<Vec<Program>, Trouble> {
    let mut found = Vec::new();
    for path in cargo("build", &BINARIES)? {
        let place = format!("bin/{}", name(&path));
        found.push(Program { path, place });
    }
    for path in cargo("test", &[&["--no-run"], TESTS].concat())? {
        // Cargo adds a hash: `live-0123456789abcdef`.
        let name = name(&path);
        let place = format!("tests/{}", name.rsplit_once('-').map_or(name.as_str(), |(name, _)| name));
        found.push(Program { path, place });
    }
    Ok(found)
}

fn name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Builds and returns the executables.
fn cargo(verb: &str, what: &[&str]) -> Result<Vec<PathBuf>, Trouble> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.current_dir(stress::tree::root()).env("RUSTFLAGS", format!("{flags} {STATIC}"));
    // The image goes into the memory of one node.
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    command.args([verb, "--quiet", "--release", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    let output = command.args(what).stderr(Stdio::inherit()).output().map_err(broken("cargo"))?;
    if !output.status.success() {
        return Err(Trouble::Broken(format!("cargo {verb} {}: {}", what.join(" "), output.status)));
    }
    let found: Vec<PathBuf> = String::from_utf8_lossy(&output.stdout).lines().filter_map(executable).collect();
    if found.is_empty() { Err(Trouble::Broken(format!("cargo {verb} names no executable"))) } else { Ok(found) }
}

/// The executable that one of cargo's messages names.
fn executable(message: &str) -> Option<PathBuf> {
    let rest = message.split_once("\"executable\":\"")?.1;
    Some(PathBuf::from(rest.split_once('"')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cargo() {
        let message = r#"{"reason":"compiler-artifact","executable":"/t/release/deps/live-0f","fresh":true}"#;
        assert_eq!(executable(message), Some(PathBuf::from("/t/release/deps/live-0f")));
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null,"fresh":true}"#), None);
    }
}
