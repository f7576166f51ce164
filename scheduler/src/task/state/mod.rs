#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "owns a waiter inside an atomic word, and signals through memory that may be gone")]

use crate::park::ADDRESS_SPARE;
use crate::sync::{AcqRel, Acquire, AtomicUsize, Relaxed, Release, ord, planted};
use crate::task::waiting::Waiting;
use std::fmt;

/// Snapshot of the state word: flags below, the address of a registered waiter above.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(usize);

impl Word {
    /// The runner has begun.
    const RUNNING: usize = 1;
    /// Aborted before it began; it never runs.
    const CANCELLED: usize = 1 << 1;
    /// The runner is through with the cell. From here on the waiter bits mean nothing: the runner took them along.
    const DONE: usize = 1 << 2;
    /// The join handle exists.
    const HANDLE: usize = 1 << 3;
    /// The waiter is not a thread's but a future's.
    const WAKER: usize = 1 << 4;
    /// Beside CANCELLED: the handle has taken the closure out, to run it itself.
    const TAKEN: usize = 1 << 5;
    const FLAGS: usize = Self::RUNNING | Self::CANCELLED | Self::DONE | Self::HANDLE | Self::WAKER | Self::TAKEN;

    fn running(self) -> bool {
        self.0 & Self::RUNNING != 0
    }
    fn cancelled(self) -> bool {
        self.0 & Self::CANCELLED != 0
    }
    fn done(self) -> bool {
        self.0 & Self::DONE != 0
    }
    fn taken(self) -> bool {
        self.0 & Self::TAKEN != 0
    }
    fn has_handle(self) -> bool {
        self.0 & Self::HANDLE != 0
    }
    /// The handle need not wait any more.
    fn finished(self) -> bool {
        self.done() || self.cancelled()
    }
    /// Address of the registered waiter, 0 if there is none.
    fn waiter(self) -> usize {
        self.0 & !Self::FLAGS
    }
    /// The registered waiter is a future's.
    fn is_future(self) -> bool {
        self.0 & Self::WAKER != 0
    }
    fn with(self, flags: usize) -> Word {
        Word(self.0 | flags)
    }
    fn without(self, flags: usize) -> Word {
        Word(self.0 & !flags)
    }
    fn with_waiter(self, (address, future): (usize, bool)) -> Word {
        Word(self.0 & Self::FLAGS & !Self::WAKER | address | if future { Self::WAKER } else { 0 })
    }
    fn without_waiter(self) -> Word {
        self.with_waiter((0, false))
    }
}

// A waker stands on a line of 64 bytes, a parker on two.
const _: () = assert!(Word::FLAGS < 64 && Word::FLAGS <= ADDRESS_SPARE);

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match (self.done(), self.cancelled(), self.running()) {
            (true, true, _) => "CANCELLED DONE",
            (true, false, _) => "DONE",
            (false, true, _) => "CANCELLED",
            (false, false, true) => "RUNNING",
            (false, false, false) => "QUEUED",
        };
        f.write_str(phase)?;
        if self.has_handle() {
            f.write_str(" handle")?;
        }
        if !self.done() && self.waiter() != 0 {
            f.write_str(" waiter")?;
        }
        Ok(())
    }
}

/// What the runner does with a task that it took from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Start {
    /// Run it, write the output, then [`TaskState::complete`].
    Run,
    /// Drop the closure without running it, write no output, then [`TaskState::complete`].
    Cancelled,
    /// The handle has the closure: leave it alone, write no output, then [`TaskState::complete`].
    Taken,
}

/// Who cleans up after the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Complete {
    /// The handle takes the output and frees the cell. It may have done so already: do not touch the cell.
    Keep,
    /// Nobody will ask: the runner drops the output (if the task ran) and frees the cell.
    Discard,
}

/// Who cleans up after the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Detach {
    /// The runner drops the output and frees the cell: do not touch it.
    RunnerFrees,
    /// The runner is through: the handle frees the cell, after dropping the output if there is one.
    HandleFrees {
        /// The task ran and its output was not taken by [`Status::Output`].
        output: bool,
    },
}

/// What the handle sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Status {
    /// Neither finished nor cancelled.
    Pending,
    /// The output is there, and the cell is the handle's alone: take the one, free the other, no [`TaskState::detach`].
    Output,
    /// It never ran and never will. The cell may still be in a queue: [`TaskState::detach`] tells who frees it.
    Cancelled,
}

/// Whether a waiter will hear from the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Register {
    /// It will be unparked once; until then park and ask [`TaskState::status`] in a loop.
    Waiting,
    /// It is too late to wait: ask [`TaskState::status`]. The waiter was dropped.
    Finished,
}

/// The state of one spawned task, shared by its *runner* (whoever holds the one pointer that travels through the
/// queues) and its *handle* (one `JoinHandle`, from one thread at a time). Lives in the task's cell.
pub struct TaskState {
    word: AtomicUsize,
}

impl Default for TaskState {
    fn default() -> Self {
        Self::new()
    }
}

impl TaskState {
    /// QUEUED, with a handle.
    pub fn new() -> Self {
        TaskState { word: AtomicUsize::new(Word::HANDLE) }
    }

    // Runner.

    /// Runner only, once: QUEUED -> RUNNING, unless aborted before.
    #[inline]
    pub fn start(&self) -> Start {
        // Relaxed: the closure came with the pointer through the queue, and an abort hands nothing over.
        let old = Word(self.word.fetch_or(Word::RUNNING, Relaxed));
        debug_assert!(!old.running() && !old.done(), "started twice: {old:?}");
        match (old.taken(), old.cancelled() && !planted("state_deaf_start")) {
            (true, _) => Start::Taken,
            (false, true) => Start::Cancelled,
            (false, false) => Start::Run,
        }
    }

    /// Runner only, once, its last access to the cell unless the answer is [`Complete::Discard`]: RUNNING -> DONE, or
    /// CANCELLED -> CANCELLED DONE. Unparks a registered waiter.
    ///
    /// # Safety
    /// 1. `this` is valid when called, and is not borrowed by the caller: it may be freed before this returns.
    /// 2. The caller is the runner, [`TaskState::start`] came before (or [`TaskState::abort`] returned true), and the
    ///    output is written if the task ran.
    #[inline]
    pub unsafe fn complete(this: *const Self) -> Complete {
        // SAFETY: 1.
        let state = unsafe { &*this };
        // TS2: Release hands the output over, Acquire takes the waiter or the right to free.
        let old = Word(state.word.fetch_or(Word::DONE, ord("TS2", AcqRel)));
        debug_assert!(!old.done() && (old.running() || old.cancelled()), "completed twice or too early: {old:?}");
        if planted("state_touch") {
            state.word.fetch_or(0, Relaxed);
        }
        if !old.has_handle() {
            return Complete::Discard;
        }
        // `state` may dangle from here on. A waiter is owned, and outlives it.
        if old.waiter() != 0 {
            Self::wake(old);
        }
        Complete::Keep
    }

    #[cold]
    fn wake(old: Word) {
        // SAFETY: `register` put the address there (TS3 pairs with the caller's Acquire), and the read-modify-write
        // that returned `old` made it ours: all others leave the waiter alone once it is gone or DONE is set.
        let waiting = unsafe { Waiting::from_address(old.waiter(), old.is_future()) };
        if planted("state_wake_leak")
            && let Waiting::Thread(waiter) = &waiting
        {
            let _ = waiter.clone().into_address();
        }
        if !planted("state_no_wake") {
            waiting.tell();
        }
    }

    // Handle.

    /// Runner or handle: QUEUED -> CANCELLED. True if the task never ran and never will; false if it began before.
    ///
    /// The closure is dropped by the runner when it meets the task, which may be later. A waiter is unparked.
    pub fn abort(&self) -> bool {
        loop {
            let old = Word(self.word.load(Relaxed));
            if old.cancelled() {
                return true;
            }
            if old.running() || old.done() {
                return false;
            }
            let new = old.without_waiter().with(Word::CANCELLED);
            // TS5: takes the waiter.
            if self.word.compare_exchange(old.0, new.0, ord("TS5", Acquire), Relaxed).is_ok() {
                if old.waiter() != 0 {
                    Self::wake(old);
                }
                return true;
            }
        }
    }

    /// Runner only, after an [`abort`](TaskState::abort) that returned true: the handle has the closure.
    pub fn is_taken(&self) -> bool {
        // Relaxed: the flag came with CANCELLED, which this thread has read.
        Word(self.word.load(Relaxed)).taken()
    }

    /// Handle only, without a registered waiter. QUEUED -> CANCELLED TAKEN: true gives the closure to the handle, which
    /// takes it out before it detaches. What travels through the queues is a husk then.
    pub fn take_over(&self) -> bool {
        let old = Word(self.word.load(Relaxed));
        debug_assert!(old.finished() || old.waiter() == 0, "took over while waiting: {old:?}");
        let queued = !old.running() && !old.finished();
        let new = old.with(Word::CANCELLED | Word::TAKEN);
        // Relaxed: the closure was written before the handle existed, and the runner reads nothing on the strength of
        // it.
        queued && self.word.compare_exchange(old.0, new.0, Relaxed, Relaxed).is_ok()
    }

    /// Handle only. What there is to join.
    #[inline]
    pub fn status(&self) -> Status {
        // TS4: the output is visible, and the runner's accesses to the cell are over.
        let word = Word(self.word.load(ord("TS4", Acquire)));
        match (word.cancelled(), word.done()) {
            (true, _) => Status::Cancelled,
            (false, true) => Status::Output,
            (false, false) => Status::Pending,
        }
    }

    /// Handle only. True once a join would not wait.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.status() != Status::Pending
    }

    /// Handle only. RUNNING or QUEUED: stores `waiter`, replacing an earlier one.
    pub fn register(&self, waiter: impl Into<Waiting>) -> Register {
        let waiter = waiter.into().into_address();
        loop {
            let old = Word(self.word.load(Relaxed));
            if old.finished() {
                Self::forget(waiter);
                return Register::Finished;
            }
            let new = old.with_waiter(waiter);
            // TS3: whoever takes the waiter sees a complete parker. No fence: the state and the waiter are one word,
            // so either this comes first and the runner finds the waiter, or DONE does and this fails.
            if self.word.compare_exchange(old.0, new.0, ord("TS3", Release), Relaxed).is_ok() {
                Self::forget((old.waiter(), old.is_future()));
                return Register::Waiting;
            }
        }
    }

    /// Handle only. Takes the waiter back, for a wait that ends without the task: true. False if there is none, because
    /// somebody is using it or has: the token may come at any time, also later.
    pub fn unregister(&self) -> bool {
        loop {
            let old = Word(self.word.load(Relaxed));
            if old.finished() || old.waiter() == 0 {
                return false;
            }
            // Relaxed: the handle's own registration comes back to it.
            if self.word.compare_exchange(old.0, old.without_waiter().0, Relaxed, Relaxed).is_ok() {
                Self::forget((old.waiter(), old.is_future()));
                return true;
            }
        }
    }

    /// Handle only, once, its last access to the cell unless the answer is [`Detach::HandleFrees`].
    pub fn detach(&self) -> Detach {
        loop {
            let old = Word(self.word.load(Relaxed));
            debug_assert!(old.has_handle(), "detached twice: {old:?}");
            let new = if old.done() { old } else { old.without_waiter() };
            let new = new.without(Word::HANDLE);
            // TS1: Release ends the handle's accesses, Acquire the runner's, before the other side frees.
            if self.word.compare_exchange(old.0, new.0, ord("TS1", AcqRel), Relaxed).is_ok() {
                if old.done() {
                    return Detach::HandleFrees { output: !old.cancelled() };
                }
                Self::forget((old.waiter(), old.is_future()));
                return Detach::RunnerFrees;
            }
        }
    }

    /// Drops a waiter that was registered by the calling side and will not be used.
    fn forget((address, future): (usize, bool)) {
        if address != 0 {
            // SAFETY: the caller's own registration, which its read-modify-write took out of the word (or never put
            // in).
            drop(unsafe { Waiting::from_address(address, future) });
        }
    }

    /// Ends the word's life: what the side that frees the cell does first.
    ///
    /// # Panics
    /// In debug builds, when the runner is not through.
    pub fn retire(self) {
        let word = Word(self.word.into_inner());
        debug_assert!(word.done(), "freed too early: {word:?}");
    }
}

impl fmt::Debug for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a snapshot for people.
        Word(self.word.load(Relaxed)).fmt(f)
    }
}
