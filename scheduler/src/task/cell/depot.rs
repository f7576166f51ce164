//! The depot: homes whose owners are gone while cells are out. Threads start and end here, and nothing else does: a
//! lock is good enough.

use super::Cache;
use super::estate::Estate;
use super::memory::Source;
use crate::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// How many abandoned homes a thread looks at when it leaves one itself: two, so that their number shrinks while the
/// cells come home, and an exit stays short.
const LOOK_AT_EXIT: usize = 2;

/// Where the caches of one class of cells (one size, one slab geometry) get homes from and leave them. One per
/// process and class, for as long as there are cells: what a dropped depot still misses is not freed.
pub struct Depot<const SIZE: usize, const PER_SLAB: usize> {
    source: Source,
    state: Mutex<State<SIZE, PER_SLAB>>,
}

/// While it lives nobody else gets or leaves a home.
pub type Lock<'a, const SIZE: usize, const PER_SLAB: usize> = MutexGuard<'a, State<SIZE, PER_SLAB>>;

/// What the lock of a depot guards.
pub struct State<const SIZE: usize, const PER_SLAB: usize> {
    /// Oldest first: the longer a home is here, the likelier its cells are back.
    abandoned: VecDeque<Estate<SIZE, PER_SLAB>>,
    /// Numbers of homes that were freed.
    vacant: Vec<u32>,
    /// The first number never used.
    next: u32,
}

impl<const SIZE: usize, const PER_SLAB: usize> Depot<SIZE, PER_SLAB> {
    /// A depot whose memory comes from the system.
    pub fn new() -> Self {
        Self::with_source(Source::SYSTEM)
    }

    /// A depot with a source of memory of its own.
    pub fn with_source(source: Source) -> Self {
        let state = State { abandoned: VecDeque::new(), vacant: Vec::new(), next: 0 };
        Depot { source, state: Mutex::new(state) }
    }

    /// Runs `f` with a cache that lives for this call, for threads whose own is gone (thread-local destructors).
    /// Whatever it holds at the end goes home. Costs a thread start and exit.
    pub fn with_temporary<R>(&self, f: impl FnOnce(&Cache<'_, SIZE, PER_SLAB>) -> R) -> R {
        f(&Cache::new(self))
    }

    /// Looks at every abandoned home and frees those whose cells are all back. For moments when much has ended, such
    /// as the end of a scheduler; thread starts and exits do the same piece by piece.
    pub fn sweep(&self) {
        let len = self.lock().abandoned.len();
        self.look(len);
    }

    /// How many homes have no owner.
    pub fn abandoned(&self) -> usize {
        self.lock().abandoned.len()
    }

    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// A home for a thread: an abandoned one of its node if there is one, with all that came back to it. Others wait
    /// for somebody of their node: whoever adopted them would work on far memory for good.
    pub(super) fn adopt(&self) -> Estate<SIZE, PER_SLAB> {
        let node = self.source.node();
        let mut state = self.lock();
        let near = state.abandoned.iter().position(|estate| estate.node() == node);
        if let Some(estate) = near.and_then(|at| state.abandoned.remove(at)) {
            return estate;
        }
        let id = state.vacant.pop().unwrap_or(state.next);
        state.next = state.next.max(id + 1);
        drop(state);
        Estate::new(self.source, id)
    }

    /// Takes the home of a thread that ends.
    pub(super) fn part(&self, estate: Estate<SIZE, PER_SLAB>) {
        self.close(estate);
        self.look(LOOK_AT_EXIT);
    }

    fn look(&self, homes: usize) {
        for _ in 0..homes {
            let Some(estate) = self.lock().abandoned.pop_front() else {
                return;
            };
            self.close(estate);
        }
    }

    /// Not under the lock: sorting what came back may take a while.
    fn close(&self, estate: Estate<SIZE, PER_SLAB>) {
        let closed = estate.close(self.source);
        let mut state = self.lock();
        match closed {
            Ok(id) => state.vacant.push(id),
            Err(estate) => state.abandoned.push_back(estate),
        }
    }

    /// No code of a user runs under the lock, and a panic of ours leaves the lists as they were.
    pub fn lock(&self) -> Lock<'_, SIZE, PER_SLAB> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<const SIZE: usize, const PER_SLAB: usize> Default for Depot<SIZE, PER_SLAB> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SIZE: usize, const PER_SLAB: usize> Drop for Depot<SIZE, PER_SLAB> {
    /// No cache is left. Homes with cells out stay: their cells may still be used.
    fn drop(&mut self) {
        self.sweep();
    }
}
