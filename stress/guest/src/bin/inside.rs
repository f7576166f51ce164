//! What the first process of a guest starts.

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    guest::inside::main(std::env::args().skip(1).collect())
}
