//! The runtimes that are compared, as the scenarios see them.
use super::scenario::{Scenario, Taken};
use super::tasks;
use crate::arms::Syscalls;
use std::future::Future;

mod async_executor;
mod ours;
mod tokio;

/// What a sample came to, or why there is none.
pub(crate) use crate::arms::Trouble;

/// A runtime in this process. All of them are built before the first sample and live until the program ends.
pub(super) trait Runtime: Copy + Send + Sync + 'static {
    /// Spawns a task that nobody joins; called by threads that are no workers.
    fn spawn<F: Future<Output = ()> + Send + 'static>(self, future: F);

    /// The same, called inside a task of the runtime.
    #[inline(always)]
    fn spawn_inside<F: Future<Output = ()> + Send + 'static>(self, future: F) {
        self.spawn(future);
    }

    /// The runtime's own timer.
    fn sleep(time: std::time::Duration) -> impl Future<Output = ()> + Send + 'static;

    /// The runtime's own way to the end of the queue.
    fn yield_now() -> impl Future<Output = ()> + Send + 'static;

    /// System calls so far, if it counts them.
    fn syscalls(self) -> Option<Syscalls> {
        None
    }
}

/// An arm as the comparison sees it.
pub(super) trait Player {
    fn take(&self, scenario: &Scenario, size: u64, count_allocations: bool) -> Result<Taken, Trouble>;
}

impl<R: Runtime> Player for R {
    fn take(&self, scenario: &Scenario, size: u64, count_allocations: bool) -> Result<Taken, Trouble> {
        tasks::take(*self, scenario, size, count_allocations).map_err(Trouble::Failed)
    }
}

/// An arm by name.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The package in Cargo.lock that it stands for.
    pub(super) package: &'static str,
    pub(super) build: fn(usize) -> Result<Box<dyn Player>, String>,
}

/// All arms, ours first.
pub(super) static ALL: [Kind; 3] = [
    Kind { name: "scheduler", package: "scheduler", build: |w| boxed(ours::Ours::new(w)) },
    Kind { name: "tokio", package: "tokio", build: |w| boxed(tokio::Tokio::new(w)) },
    Kind { name: "async-executor", package: "async-executor", build: |w| boxed(async_executor::Smol::new(w)) },
];

fn boxed<R: Runtime>(built: Result<R, String>) -> Result<Box<dyn Player>, String> {
    built.map(|runtime| Box::new(runtime) as Box<dyn Player>)
}
