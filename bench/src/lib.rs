//! The parts of the benchmarks that others may want to call: how two legs of an A/B run are judged, and the model
//! executor. The program itself is in `main.rs`; `README.md` says how every number is taken.
#![cfg(not(loom))]

pub mod aggregate;
pub mod model;
