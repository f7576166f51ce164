//! Tokio's multi-threaded runtime, with its timers and its epoll driver.
use super::Runtime;
use std::future::Future;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy)]
pub(super) struct Tokio(&'static tokio::runtime::Runtime);

impl Tokio {
    pub(super) fn new(workers: usize) -> std::result::Result<Tokio, String> {
        let built = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
        built.map(|runtime| Tokio(Box::leak(Box::new(runtime)))).map_err(|e| e.to_string())
    }
}

impl Runtime for Tokio {
    #[inline(always)]
    fn spawn<F: Future<Output = ()> + Send + 'static>(self, future: F) {
        drop(self.0.spawn(future));
    }

    #[inline(always)]
    fn spawn_inside<F: Future<Output = ()> + Send + 'static>(self, future: F) {
        drop(tokio::spawn(future));
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep(time)
    }

    fn yield_now() -> impl Future<Output = ()> + Send + 'static {
        tokio::task::yield_now()
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
        tokio::task::spawn_blocking(read).await.expect("a read does not panic")
    }
}
