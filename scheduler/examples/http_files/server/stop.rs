//! The wish to stop, and how many connections are left.
use event_listener::{Event, listener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

#[derive(Default)]
struct Shared {
    wished: AtomicBool,
    open: AtomicUsize,
    /// Told when either changes.
    changed: Event,
}

/// Clones share one wish.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<Shared>);

impl Stop {
    /// From any thread; more than once is fine.
    pub(crate) fn stop(&self) {
        self.0.wished.store(true, Release);
        self.0.changed.notify(usize::MAX);
    }

    pub(crate) fn is_wished(&self) -> bool {
        self.0.wished.load(Acquire)
    }

    /// Ready once somebody wants to stop.
    pub(crate) async fn wished(&self) {
        self.until(Stop::is_wished).await;
    }

    /// Ready when no connection is open.
    pub(crate) async fn all_closed(&self) {
        self.until(|stop| stop.open() == 0).await;
    }

    async fn until(&self, done: impl Fn(&Stop) -> bool) {
        while !done(self) {
            listener!(self.0.changed => changed);
            // Between the first look and the registration it may have come true.
            if done(self) {
                return;
            }
            changed.await;
        }
    }

    /// Counts a connection until the guard is dropped.
    pub(crate) fn enter(&self) -> Open {
        self.0.open.fetch_add(1, AcqRel);
        Open(self.clone())
    }

    pub(crate) fn open(&self) -> usize {
        self.0.open.load(Acquire)
    }
}

/// A connection that is open.
pub(crate) struct Open(Stop);

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.0.open.fetch_sub(1, AcqRel) == 1 {
            self.0.0.changed.notify(usize::MAX);
        }
    }
}
