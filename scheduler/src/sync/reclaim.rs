//! Deferred reclamation: memory that readers may still be scanning is freed when no reader that could have found it is
//! pinned any more.
//!
//! Rules: unlink first, then [`Pin::retire`]; a pointer found under a pin is not used after it. The real build is
//! `crossbeam-epoch` with a collector of its own; crossbeam does not react to `--cfg loom`, so the loom build is a stand-in
//! that frees as early as the rules allow, and so turns a broken rule into a use after free that loom reports.

#![expect(unsafe_code, reason = "frees memory by raw pointer")]

#[cfg(not(loom))]
mod real {
    use crossbeam_epoch as epoch;

    /// A domain of readers and retired memory; one per scheduler.
    pub struct Reclaimer(epoch::Collector);
    /// One thread's membership. Not `Send`.
    pub struct Registration(epoch::LocalHandle);
    /// While it lives nothing that was reachable is freed.
    pub struct Pin(epoch::Guard);

    impl Reclaimer {
        /// A new domain.
        pub fn new() -> Self {
            Reclaimer(epoch::Collector::new())
        }
        /// Registers the calling thread.
        pub fn register(&self) -> Registration {
            Registration(self.0.register())
        }
    }

    impl Registration {
        /// Begins a read.
        #[inline]
        pub fn pin(&self) -> Pin {
            Pin(self.0.pin())
        }
        /// Pushes this thread's garbage to the domain and collects some; called before a thread sleeps.
        pub fn flush(&self) {
            self.0.pin().flush();
        }
    }

    impl Pin {
        /// Frees `ptr` (a `Box<T>`) once nobody can be reading it.
        ///
        /// # Safety
        /// `ptr` came from `Box::into_raw`, is unlinked, and is retired once.
        pub unsafe fn retire<T: Send + 'static>(&self, ptr: *mut T) {
            let address = ptr as usize;
            // SAFETY: a box by the caller's promise, freed once.
            let free = move || drop(unsafe { Box::from_raw(address as *mut T) });
            // SAFETY: unlinked by the caller's promise, so only pinned readers can still see it, and they delay this.
            unsafe { self.0.defer_unchecked(free) }
        }
    }
}

#[cfg(loom)]
mod real {
    use super::super::{Arc, Mutex};

    /// What is due later. loom threads are coroutines of one OS thread.
    struct Due(Box<dyn FnOnce()>);
    // SAFETY: never leaves the one OS thread of a model.
    unsafe impl Send for Due {}
    type Garbage = Vec<Due>;
    struct State {
        pinned: usize,
        garbage: Garbage,
    }
    /// See the real twin.
    pub struct Reclaimer(Arc<Mutex<State>>);
    /// See the real twin.
    pub struct Registration(Arc<Mutex<State>>);
    /// See the real twin.
    pub struct Pin(Arc<Mutex<State>>);

    impl Reclaimer {
        /// See the real twin.
        pub fn new() -> Self {
            Reclaimer(Arc::new(Mutex::new(State { pinned: 0, garbage: Vec::new() })))
        }
        /// See the real twin.
        pub fn register(&self) -> Registration {
            Registration(self.0.clone())
        }
    }

    impl Registration {
        /// See the real twin.
        pub fn pin(&self) -> Pin {
            self.0.lock().unwrap().pinned += 1;
            Pin(self.0.clone())
        }
        /// See the real twin.
        pub fn flush(&self) {}
    }

    impl Pin {
        /// See the real twin.
        ///
        /// # Safety
        /// See the real twin.
        pub unsafe fn retire<T: 'static>(&self, ptr: *mut T) {
            // SAFETY: from `Box::into_raw` and retired once, by the caller's promise.
            let free = move || drop(unsafe { Box::from_raw(ptr) });
            self.0.lock().unwrap().garbage.push(Due(Box::new(free)));
        }
    }

    impl Drop for Pin {
        fn drop(&mut self) {
            let mut state = self.0.lock().unwrap();
            state.pinned -= 1;
            let due = if state.pinned == 0 { std::mem::take(&mut state.garbage) } else { Garbage::new() };
            drop(state);
            due.into_iter().for_each(|due| (due.0)());
        }
    }
}

pub use real::{Pin, Reclaimer, Registration};

impl Default for Reclaimer {
    fn default() -> Self {
        Self::new()
    }
}
