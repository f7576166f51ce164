//! Deferred reclamation: memory that readers may still be scanning is freed when no reader that could have found it is
//! pinned any more.
//!
//! Rules: unlink first, then [`Pin::retire`]; a pointer found under a pin is not used after it. The real build is
//! `crossbeam-epoch` with a collector of its own; crossbeam does not react to `--cfg loom`, so the loom build is a
//! stand-in that frees as early as the rules allow, and so turns a broken rule into a use after free that loom reports.

#![expect(unsafe_code, reason = "frees memory by raw pointer")]

#[cfg(not(loom))]
mod real {
    use crossbeam_epoch as epoch;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// What is retired and not freed, in all domains. Relaxed: a reason to flush, nothing rests on it.
    static PENDING: AtomicUsize = AtomicUsize::new(0);

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
        ///
        /// Nothing to free, nothing done: a flush makes garbage of its own, the nodes of the domain's queue, so that
        /// one after the other they would never end.
        pub fn flush(&self) {
            if PENDING.load(Relaxed) != 0 {
                self.0.pin().flush();
            }
        }
    }

    impl Pin {
        /// Frees `ptr` (a `Box<T>`) once nobody can be reading it.
        ///
        /// # Safety
        /// `ptr` came from `Box::into_raw`, is unlinked, and is retired once.
        pub unsafe fn retire<T: Send + 'static>(&self, ptr: *mut T) {
            let address = ptr as usize;
            let free = move || {
                PENDING.fetch_sub(1, Relaxed);
                // SAFETY: a box by the caller's promise, freed once.
                drop(unsafe { Box::from_raw(address as *mut T) });
            };
            PENDING.fetch_add(1, Relaxed);
            // SAFETY: unlinked by the caller's promise, so only pinned readers can still see it, and they delay this.
            unsafe { self.0.defer_unchecked(free) }
        }
    }
}

/// The stand-in. It frees as soon as nobody is pinned. What is freed is poisoned and kept until the domain goes, so
/// that a later use ends the model instead of passing by luck. It orders what an epoch orders and no more: what is
/// freed was unpinned before, and who pins after a retirement sees the unlinking. Between scanners it orders nothing.
#[cfg(loom)]
mod real {
    use super::super::{AcqRel, AtomicUsize};
    use std::alloc::{Layout, dealloc};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    struct Grave {
        at: *mut u8,
        layout: Layout,
        bury: unsafe fn(*mut u8),
    }
    // SAFETY: loom threads are coroutines of one OS thread.
    unsafe impl Send for Grave {}

    struct Domain {
        /// Retirements.
        epoch: AtomicUsize,
        /// Unpins, dealt out to the registrations in turn.
        unpins: [AtomicUsize; 4],
        state: Mutex<State>,
    }

    #[derive(Default)]
    struct State {
        pinned: usize,
        /// Something was retired.
        begun: bool,
        registered: usize,
        garbage: Vec<Grave>,
        buried: Vec<Grave>,
    }

    impl Drop for State {
        fn drop(&mut self) {
            for grave in self.buried.drain(..) {
                // SAFETY: from a `Box` of this layout, whose value is gone.
                unsafe { dealloc(grave.at, grave.layout) };
            }
        }
    }

    impl Domain {
        fn lock(&self) -> MutexGuard<'_, State> {
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// See the real twin.
    pub struct Reclaimer(Arc<Domain>);
    /// See the real twin.
    pub struct Registration(Arc<Domain>, usize);
    /// See the real twin.
    pub struct Pin(Arc<Domain>, usize);

    impl Reclaimer {
        /// See the real twin.
        pub fn new() -> Self {
            Reclaimer(Arc::new(Domain {
                epoch: AtomicUsize::new(0),
                unpins: Default::default(),
                state: Mutex::default(),
            }))
        }
        /// See the real twin.
        pub fn register(&self) -> Registration {
            let mut state = self.0.lock();
            state.registered += 1;
            Registration(self.0.clone(), state.registered % self.0.unpins.len())
        }
    }

    impl Registration {
        /// See the real twin.
        pub fn pin(&self) -> Pin {
            let mut state = self.0.lock();
            state.pinned += 1;
            let begun = state.begun;
            drop(state);
            if begun {
                self.0.epoch.fetch_add(1, AcqRel);
            }
            Pin(self.0.clone(), self.1)
        }
        /// See the real twin.
        pub fn flush(&self) {}
    }

    /// # Safety
    /// `at` holds a `T` that nobody uses any more.
    unsafe fn bury<T>(at: *mut u8) {
        let at = at.cast::<T>();
        // SAFETY: the caller's promise.
        unsafe { at.drop_in_place() };
        // SAFETY: memory of a `T` that is gone.
        unsafe { at.cast::<u8>().write_bytes(0xee, size_of::<T>()) };
    }

    impl Pin {
        /// See the real twin.
        ///
        /// # Safety
        /// See the real twin.
        pub unsafe fn retire<T: Send + 'static>(&self, ptr: *mut T) {
            self.0.lock().begun = true;
            self.0.epoch.fetch_add(1, AcqRel);
            self.0.lock().garbage.push(Grave { at: ptr.cast(), layout: Layout::new::<T>(), bury: bury::<T> });
        }
    }

    impl Drop for Pin {
        fn drop(&mut self) {
            self.0.unpins[self.1].fetch_add(1, AcqRel);
            let mut state = self.0.lock();
            state.pinned -= 1;
            let due = if state.pinned == 0 { std::mem::take(&mut state.garbage) } else { Vec::new() };
            drop(state);
            if !due.is_empty() {
                self.0.unpins.iter().for_each(|word| _ = word.fetch_add(1, AcqRel));
            }
            for grave in due {
                // SAFETY: from `Box::into_raw` and retired once, by the promise of `retire`.
                unsafe { (grave.bury)(grave.at) };
                self.0.lock().buried.push(grave);
            }
        }
    }
}

pub use real::{Pin, Reclaimer, Registration};

impl Default for Reclaimer {
    fn default() -> Self {
        Self::new()
    }
}
