//! Lock-free task scheduler for NUMA hosts.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod credit;
#[doc(hidden)]
pub mod latch;
#[doc(hidden)]
pub mod park;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod sys;
#[doc(hidden)]
pub mod task;

/// The door for the models, the stress suite and the benchmarks. Not part of the public interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::queue;
    pub use crate::credit;
    pub use crate::latch;
    pub use crate::park;
    pub use crate::sync;
    pub use crate::task;
}
