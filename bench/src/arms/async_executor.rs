//! smol's executor, driven by as many threads as there are workers.
use super::Arm;
use async_executor::Executor;

pub(crate) struct AsyncExecutor(&'static Executor<'static>);

impl AsyncExecutor {
    pub(crate) fn new(workers: usize) -> Result<AsyncExecutor, String> {
        let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
        for n in 0..workers {
            let thread = std::thread::Builder::new().name(format!("executor-{n}"));
            let run = || futures_lite::future::block_on(executor.run(futures_lite::future::pending::<()>()));
            thread.spawn(run).map_err(|e| e.to_string())?;
        }
        Ok(AsyncExecutor(executor))
    }
}

impl Arm for AsyncExecutor {
    #[inline(always)]
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        self.0.spawn(async move { task() }).detach();
    }
}
