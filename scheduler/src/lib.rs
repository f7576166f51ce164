//! Lock-free task scheduler for NUMA hosts.
#![cfg(not(all(loom, doctest)))]
#![deny(unsafe_code)]

mod builder;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod credit;
mod error;
mod fork_join;
#[doc(hidden)]
pub mod future;
mod handle;
#[cfg(all(feature = "hyper", not(loom)))]
pub mod hyper;
#[doc(hidden)]
pub mod idle;
pub mod io;
mod join_handle;
#[doc(hidden)]
pub mod lanes;
#[doc(hidden)]
pub mod latch;
mod metrics;
#[doc(hidden)]
pub mod mode;
#[doc(hidden)]
pub mod park;
#[doc(hidden)]
pub mod phase;
#[doc(hidden)]
pub mod policy;
mod pool;
#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod roll;
mod scheduler;
mod scope;
mod submit;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod sys;
#[doc(hidden)]
pub mod task;
pub mod time;
#[doc(hidden)]
pub mod timer;
#[doc(hidden)]
pub mod worker;

pub use builder::{Barrier, Builder};
pub use error::{BatchError, BuildError, JoinError, SubmitError};
pub use fork_join::join;
pub use future::block_on::block_on;
pub use future::budget::{YieldNow, yield_now};
pub use handle::Handle;
pub use join_handle::{Help, JoinHandle};
pub use metrics::{ByDistance, Homes, Metrics, WorkerMetrics};
pub use mode::BarrierMode;
pub use numa::{Pin, Placement, Topology};
pub use policy::Place;
pub use scheduler::{Scheduler, ShutdownMode, ShutdownReport};
pub use scope::Scope;
pub use submit::Submitter;

/// The door for the models, the stress suite and the benchmarks. Not part of the public interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::config;
    pub use crate::credit;
    pub use crate::future;
    pub use crate::idle;
    pub use crate::io;
    pub use crate::lanes;
    pub use crate::latch;
    pub use crate::mode;
    pub use crate::park;
    pub use crate::phase;
    pub use crate::policy;
    pub use crate::queue;
    pub use crate::roll;
    pub use crate::sync;
    pub use crate::task;
    pub use crate::timer;
    pub use crate::worker;
    pub use numa;

    /// Memory that belongs to one worker, for whoever asks the kernel where it is: name, address, bytes.
    pub fn worker_memory(handle: &crate::Handle, worker: usize) -> Vec<(&'static str, usize, usize)> {
        let worker = &handle.shared.workers[worker];
        let parker = std::ptr::from_ref(&*worker.parker);
        vec![
            ("ring", std::ptr::from_ref(&worker.ring).addr(), size_of_val(&worker.ring)),
            ("forks", std::ptr::from_ref(&worker.forks).addr(), size_of_val(&worker.forks)),
            ("counters", std::ptr::from_ref(&worker.counters).addr(), size_of_val(&worker.counters)),
            ("parker", parker.addr(), size_of_val(&*worker.parker)),
        ]
    }
}
