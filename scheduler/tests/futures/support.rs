//! What the tests share.

use scheduler::Scheduler;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What is not there after this time will never be.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) fn scheduler(workers: usize) -> Scheduler {
    Scheduler::builder().workers(workers).build().unwrap()
}

pub(crate) fn eventually(what: &str, reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Counts how often its clones have been dropped.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }

    pub(crate) fn token(&self) -> Token {
        Token(self.0.clone())
    }
}

pub(crate) struct Token(Arc<AtomicUsize>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A gate that futures wait at, with one place.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Default)]
struct Inner {
    open: AtomicBool,
    polls: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Gate {
    pub(crate) fn open(&self) {
        self.0.open.store(true, SeqCst);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        let waker = self.0.waker.lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn waker(&self) -> Option<Waker> {
        self.0.waker.lock().unwrap().clone()
    }

    pub(crate) fn forget(&self) {
        let waker = self.0.waker.lock().unwrap().take();
        drop(waker);
    }

    pub(crate) fn polls(&self) -> usize {
        self.0.polls.load(SeqCst)
    }

    pub(crate) fn wait(&self) -> AtGate {
        AtGate(self.clone())
    }
}

pub(crate) struct AtGate(Gate);

impl Future for AtGate {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let inner = &self.0.0;
        inner.polls.fetch_add(1, SeqCst);
        *inner.waker.lock().unwrap() = Some(context.waker().clone());
        if inner.open.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}
