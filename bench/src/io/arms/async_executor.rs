//! smol's executor on as many threads as there are workers, with async-io's reactor for time and descriptors.
use super::Runtime;
use async_executor::Executor;
use std::future::Future;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy)]
pub(super) struct Smol(&'static Executor<'static>);

impl Smol {
    pub(super) fn new(workers: usize) -> std::result::Result<Smol, String> {
        let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
        for n in 0..workers {
            let thread = std::thread::Builder::new().name(format!("smol-{n}"));
            // As in smol itself: each of its threads turns the reactor when it has nothing else to do.
            let run = || async_io::block_on(executor.run(futures_lite::future::pending::<()>()));
            thread.spawn(run).map_err(|e| e.to_string())?;
        }
        Ok(Smol(executor))
    }
}

impl Runtime for Smol {
    #[inline(always)]
    fn spawn<F: Future<Output = ()> + Send + 'static>(self, future: F) {
        self.0.spawn(future).detach();
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
        let timer = async_io::Timer::after(time);
        async move {
            timer.await;
        }
    }

    fn yield_now() -> impl Future<Output = ()> + Send + 'static {
        futures_lite::future::yield_now()
    }
    /// Shared with the threads that block for it.
    type File = Arc<std::fs::File>;

    fn file(file: std::fs::File) -> Self::File {
        Arc::new(file)
    }

    async fn read(file: &Self::File, mut buf: Vec<u8>, at: u64) -> (Result<usize>, Vec<u8>) {
        let file = file.clone();
        let read = move || {
            let count = file.read_at(&mut buf, at);
            (count, buf)
        };
        blocking::unblock(read).await
    }
}
