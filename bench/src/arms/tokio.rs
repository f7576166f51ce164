//! Tokio's multi-threaded runtime, one future per task.
use super::Arm;

pub(crate) struct Tokio(tokio::runtime::Runtime);

impl Tokio {
    pub(crate) fn new(workers: usize) -> Result<Tokio, String> {
        let built = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build();
        built.map(Tokio).map_err(|e| e.to_string())
    }
}

impl Arm for Tokio {
    #[inline(always)]
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        drop(self.0.spawn(async move { task() }));
    }

    #[inline(always)]
    fn submit_inside<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        drop(tokio::spawn(async move { task() }));
    }
}
