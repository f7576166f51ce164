//! The control arms: one queue behind a mutex and a condition variable, waking all or one.
use super::Arm;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

type Boxed = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
    queue: Mutex<VecDeque<Boxed>>,
    more: Condvar,
}

impl Shared {
    fn start(workers: usize, name: &str) -> Result<Arc<Shared>, String> {
        let shared = Arc::new(Shared::default());
        for n in 0..workers {
            let mine = shared.clone();
            let thread = std::thread::Builder::new().name(format!("{name}-{n}"));
            thread.spawn(move || mine.work()).map_err(|e| e.to_string())?;
        }
        Ok(shared)
    }

    fn push(&self, task: Boxed) {
        self.queue.lock().expect("no task runs under the lock").push_back(task);
    }

    fn work(&self) {
        loop {
            let queue = self.queue.lock().expect("no task runs under the lock");
            let mut queue = self.more.wait_while(queue, |q| q.is_empty()).expect("as above");
            let task = queue.pop_front().expect("the wait ended because there is one");
            drop(queue);
            task();
        }
    }
}

pub(crate) struct Broadcast(Arc<Shared>);

impl Broadcast {
    pub(crate) fn new(workers: usize) -> Result<Broadcast, String> {
        Shared::start(workers, "broadcast").map(Broadcast)
    }
}

impl Arm for Broadcast {
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        self.0.push(Box::new(task));
        self.0.more.notify_all();
    }
}

pub(crate) struct Signal(Arc<Shared>);

impl Signal {
    pub(crate) fn new(workers: usize) -> Result<Signal, String> {
        Shared::start(workers, "signal").map(Signal)
    }
}

impl Arm for Signal {
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        self.0.push(Box::new(task));
        self.0.more.notify_one();
    }
}
