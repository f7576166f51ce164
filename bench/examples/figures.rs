//! Figures of the scheduler beside rates and counts: a wake-up against a raw one, what idling costs, how long a stuck
//! worker makes others wait, what a queued task weighs. `bench/README.md` says how each is taken.
//!
//! Under `--cfg loom` there is nothing here.
#[cfg(not(loom))]
#[path = "figures/all.rs"]
mod all;

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    all::main()
}
