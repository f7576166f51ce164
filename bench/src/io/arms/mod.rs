//! The runtimes that are compared, as the scenarios see them.
use super::scenario::{Scenario, Taken};
use super::tasks;
use crate::arms::Syscalls;
use std::future::Future;
use std::io::Result;

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

    /// A file as the runtime reads it.
    type File: Send + Sync + 'static;

    /// Takes a file over.
    fn file(file: std::fs::File) -> Self::File;

    /// One read, the way its users do it. The buffer comes back with the result.
    fn read(file: &Self::File, buf: Vec<u8>, at: u64) -> impl Future<Output = (Result<usize>, Vec<u8>)> + Send;

    /// System calls so far, if it counts them.
    fn syscalls(self) -> Option<Syscalls> {
        None
    }
}

/// An arm as the comparison sees it.
pub(super) trait Player {
    fn take(&self, scenario: &Scenario, size: u64, count_allocations: bool) -> std::result::Result<Taken, Trouble>;
}

impl<R: Runtime> Player for R {
    fn take(&self, scenario: &Scenario, size: u64, count_allocations: bool) -> std::result::Result<Taken, Trouble> {
        tasks::take(*self, scenario, size, count_allocations).map_err(Trouble::Failed)
    }
}

type Build = fn(usize) -> std::result::Result<Box<dyn Player>, String>;

/// An arm by name.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The package in Cargo.lock that it stands for.
    pub(super) package: &'static str,
    pub(super) build: Build,
    /// Whether `io` runs it unless told otherwise.
    pub(super) default: bool,
}

const fn arm(name: &'static str, package: &'static str, build: Build) -> Kind {
    Kind { name, package, build, default: true }
}

/// All arms, ours first.
pub(super) static ALL: [Kind; 5] = [
    arm("scheduler", "scheduler", |w| boxed(ours::Ours::new(w))),
    arm("scheduler-epoll", "scheduler", |_| Err("without connections it is the same as `scheduler`".into())),
    arm("tokio", "tokio", |w| boxed(tokio::Tokio::new(w))),
    arm("async-executor", "async-executor", |w| boxed(async_executor::Smol::new(w))),
    Kind {
        default: cfg!(feature = "monoio"),
        ..arm("monoio", "monoio", |_| Err("has a thread of its own for every task: only `echo` here".into()))
    },
];

fn boxed<R: Runtime>(built: std::result::Result<R, String>) -> std::result::Result<Box<dyn Player>, String> {
    built.map(|runtime| Box::new(runtime) as Box<dyn Player>)
}
