//! Lock-free task scheduler for NUMA hosts.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod sys;

/// The door for the models, the stress suite and the benchmarks. Not part of the public interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::queue;
    pub use crate::sync;
}
