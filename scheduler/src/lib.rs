//! A lock-free task scheduler for Linux on x86_64 NUMA hosts: closures, fork-join and futures, submitted from any
//! thread, run on workers that are pinned across the nodes of the host and sleep on futexes, or in their `io_uring`
//! while files and sockets have something under way.
//!
#![cfg_attr(loom, doc = "```ignore")]
#![cfg_attr(not(loom), doc = "```")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use scheduler::{Scheduler, ShutdownMode};
//!
//! let scheduler = Scheduler::new()?; // as many workers as the host allows
//! scheduler.submit(|| println!("fire and forget"))?;
//! let answer = scheduler.spawn(|| 6 * 7)?; // with a result: joined, or awaited
//! assert_eq!(answer.join()?, 42);
//!
//! // Borrowed data: all tasks of the scope have ended when it returns.
//! let mut words = vec![String::from("a"), String::from("b")];
//! scheduler.scope(|s| {
//!     for word in &mut words {
//!         s.spawn(move |_| word.push('!'));
//!     }
//! });
//! assert_eq!(words, ["a!", "b!"]);
//!
//! let report = scheduler.shutdown(ShutdownMode::Drain, std::time::Duration::from_secs(10));
//! assert!(report.completed); // dropping it drains and joins as well
//! # Ok(())
//! # }
//! ```
//!
//! # What to use
//!
//! | for | use |
//! |---|---|
//! | work that nobody waits for | [`Handle::submit`], many at once: [`Handle::submit_batch`] |
//! | a result | [`Handle::spawn`], [`JoinHandle`] |
//! | tasks that borrow | [`Handle::scope`] |
//! | divide and conquer | [`join`], on a worker two stores when nobody steals |
//! | futures, and waiting for a time | [`Handle::spawn_future`], [`block_on`], [`time`] |
//! | files and sockets | [`io`]; who does it: [`Builder::io`] |
//! | servers and clients on hyper 1 | the module `hyper`, with the feature of that name |
//! | a thread that submits much | [`Handle::register_submitter`] |
//! | a node or a worker of one's choice | [`Handle::submit_on`], [`Place`] |
//! | workers, placement, capacity, hooks | [`Scheduler::builder`], [`Builder`], also by environment variables |
//! | what it has done | [`Handle::metrics`] |
//!
//! Everything a [`Handle`] can do a [`Scheduler`] can; handles are cheap to clone, and [`Handle::current`] gives a
//! task that of its own scheduler.
//!
//! # What to rely on
//!
//! * **Order**: unspecified. Workers take what a thread submits oldest first, and what they submit themselves newest
//!   first.
//! * **Blocking**: what waits by name ([`JoinHandle::join`], `scope`, `join`, [`block_on`], `shutdown`, the drop of a
//!   scheduler), and a submission to a scheduler with a [capacity](Builder::capacity) that is full
//!   ([`Handle::try_submit`], [`Handle::try_spawn`] and [`Handle::try_spawn_future`] refuse instead). A worker that
//!   waits runs other tasks meanwhile. A task that blocks in any other way keeps its worker; what is queued behind it
//!   is taken over by another one that is free.
//! * **Panics**: a task that panics ends alone. Whoever joins it gets the payload; else it is counted and given to
//!   [`Builder::panic_handler`].
//! * **Refusal**: errors give the closure back ([`SubmitError`], [`BatchError`]). An accepted task is run, or dropped
//!   by a [`ShutdownMode::Abort`]; never lost, never run twice, also when its submission races with the shutdown.
//! * **Forks**: the child of a fork has no workers; its submissions are refused as [`SubmitError::Forked`].
#![cfg(not(all(loom, doctest)))]
#![deny(unsafe_code)]

mod builder;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod credit;
#[doc(hidden)]
pub mod driver;
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

pub use builder::{Barrier, Builder, Io};
pub use driver::IoDriver;
pub use error::{BatchError, BuildError, JoinError, NoRing, SubmitError};
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
    pub use crate::driver;
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

    /// What the workers of a scheduler share.
    pub fn shared(handle: &crate::Handle) -> &worker::Shared {
        &handle.shared
    }

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
