//! The part of the benchmarks that others may want to call: how two legs of an A/B run are judged. The program itself
//! is in `main.rs`; `README.md` says how every number is taken.
#![cfg(not(loom))]

pub mod aggregate;
