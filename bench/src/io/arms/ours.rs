//! The scheduler of this workspace.
use super::Runtime;
use crate::arms::{Arm, Ours as Pool, Syscalls};
use std::future::Future;
use std::io::Result;
use std::time::Duration;

#[derive(Clone, Copy)]
pub(super) struct Ours(&'static Pool);

impl Ours {
    pub(super) fn new(workers: usize) -> std::result::Result<Ours, String> {
        Pool::new(workers).map(|pool| Ours(Box::leak(Box::new(pool))))
    }
}

impl Runtime for Ours {
    #[inline(always)]
    fn spawn<F: Future<Output = ()> + Send + 'static>(self, future: F) {
        match self.0.scheduler().spawn_future(future) {
            Ok(handle) => drop(handle),
            Err(_) => unreachable!("nobody shuts the scheduler down, and it has no capacity"),
        }
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
        scheduler::time::sleep(time)
    }

    fn yield_now() -> impl Future<Output = ()> + Send + 'static {
        scheduler::yield_now()
    }

    type File = scheduler::io::File;

    fn file(file: std::fs::File) -> Self::File {
        file.into()
    }

    fn read(file: &Self::File, buf: Vec<u8>, at: u64) -> impl Future<Output = (Result<usize>, Vec<u8>)> + Send {
        file.read_at(buf, at)
    }

    fn syscalls(self) -> Option<Syscalls> {
        self.0.syscalls()
    }
}
