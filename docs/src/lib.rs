//! The book of the scheduler. Each chapter is a Markdown file of this directory, included here so that its code blocks
//! are doctests; `tests/tidy.rs` guards the form of the whole tree.
//!
//! Under `--cfg loom` there is nothing here: doctests run on real threads.
#![cfg(not(loom))]

#[doc = include_str!("../../README.md")]
pub mod readme {}

#[doc = include_str!("../architecture.md")]
pub mod architecture {}

#[doc = include_str!("../life-of-a-task.md")]
pub mod life_of_a_task {}

#[doc = include_str!("../life-of-a-future.md")]
pub mod life_of_a_future {}

#[doc = include_str!("../io.md")]
pub mod io {}

#[doc = include_str!("../memory-ordering.md")]
pub mod memory_ordering {}

#[doc = include_str!("../failure-modes.md")]
pub mod failure_modes {}

#[doc = include_str!("../numa.md")]
pub mod numa {}

#[doc = include_str!("../TESTING.md")]
pub mod testing {}

#[doc = include_str!("../guest.md")]
pub mod guest {}

#[doc = include_str!("../BENCHMARKS.md")]
pub mod benchmarks {}

#[doc = include_str!("../RUNTIME_COMPARISON.md")]
pub mod runtime_comparison {}

#[doc = include_str!("../PERFORMANCE_TRACKING.md")]
pub mod performance_tracking {}
