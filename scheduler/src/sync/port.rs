//! The kernel's side of a worker's ring: entries go in, completions come out, a bell rings its owner out of it. Under
//! loom a list of operations that a thread of the model completes, behind a mutex and a condition variable.

#[cfg(loom)]
pub use super::port_model::{Bell, Port};
#[cfg(not(loom))]
pub use crate::sys::uring::{Bell, Port};

pub use crate::sys::uring::{Completion, Features, Refused, Setup, Stay, Woken};
