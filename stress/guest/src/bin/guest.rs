//! Boots the guests and prints the table of their checks.

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    guest::host::main(std::env::args().skip(1).collect())
}
