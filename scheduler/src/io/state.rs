//! The word of an operation's node: is its result there, does anybody want it, and how many hold the memory.

use crate::sync::{AcqRel, Acquire, AtomicU32, Ordering, Relaxed, Release, ord, planted};
use std::fmt;

/// Snapshot of the word: flags below, a count of references above.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u32);

impl Word {
    /// The driver has begun: the kernel may be at it, and a cancellation has somebody to go to.
    const STARTED: u32 = 1;
    /// The result is final, and nobody but who takes it touches the operation any more.
    const DONE: u32 = 1 << 1;
    /// The future is gone.
    const IGNORED: u32 = 1 << 2;
    /// A waker is in its place; with DONE it is the driver's to take.
    const WAKER: u32 = 1 << 3;
    const REF: u32 = 1 << 4;

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
    fn refs(self) -> u32 {
        self.0 / Self::REF
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, name) in ["started", "done", "ignored", "waker"].iter().enumerate() {
            if self.has(1 << bit) {
                write!(f, "{name} ")?;
            }
        }
        write!(f, "refs {}", self.refs())
    }
}

/// What is left to do for whoever has completed an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Complete {
    /// Nothing, and the reference is given up: do not touch the node.
    Kept,
    /// The waker is to be taken out; then the reference is to be dropped, then the waker told.
    Waker,
    /// Nobody else has the node: free it.
    Last,
}

/// What is left to do for a future that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ignore {
    /// The result was there: it and the reference are still the future's.
    Done,
    /// The driver has not begun and will see that nobody wants it; the reference is given up.
    Queued,
    /// The driver is at it. The reference is that of a request to cancel now.
    Flight,
}

/// The word. Its references: the future's (or, after it, that of the request to cancel), and the driver's.
pub struct State(AtomicU32);

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Two references, and a waker in its place.
    pub fn new() -> Self {
        State(AtomicU32::new(Word::WAKER + 2 * Word::REF))
    }

    fn update(&self, order: Ordering, step: impl Fn(Word) -> Option<u32>) -> Result<Word, Word> {
        let mut old = self.0.load(Relaxed);
        loop {
            let Some(new) = step(Word(old)) else { return Err(Word(old)) };
            // Relaxed failure and first load: the exchange decides.
            match self.0.compare_exchange_weak(old, new, order, Relaxed) {
                Ok(_) => return Ok(Word(old)),
                Err(now) => old = now,
            }
        }
    }

    // Driver.

    /// Driver, once. False: nobody wants it any more, and nothing has been begun: complete it at once.
    pub fn start(&self) -> bool {
        let wanted = |old: Word| !old.has(Word::IGNORED) || planted("io-deaf-start");
        // IO1: whoever asks for a cancellation knows whom to ask (IO2).
        self.update(ord("IO1", Release), |old| wanted(old).then_some(old.0 | Word::STARTED)).is_ok()
    }

    /// Driver, or who has a request: it has begun.
    pub fn is_started(&self) -> bool {
        // Relaxed: the asking thread has begun it itself, or has got it from whoever saw that.
        Word(self.0.load(Relaxed)).has(Word::STARTED)
    }

    /// Driver: nobody has given it up yet.
    pub fn is_wanted(&self) -> bool {
        // Relaxed: whoever gives it up a moment later asks for a cancellation.
        !Word(self.0.load(Relaxed)).has(Word::IGNORED)
    }

    /// Driver, once: the result is written, and neither the kernel nor the driver touches the operation any more.
    pub fn complete(&self) -> Complete {
        let waits = |old: Word| old.has(Word::WAKER);
        // IO3: Release hands result and operation to the future (IO4), Acquire takes the waker (IO5), or the end of the
        // others' accesses before the memory is freed (IO6).
        let old =
            self.update(ord("IO3", AcqRel), |old| Some((old.0 | Word::DONE) - if waits(old) { 0 } else { Word::REF }));
        let old = old.unwrap_or_else(|old| old);
        debug_assert!(!old.has(Word::DONE) && old.refs() >= 1, "completed twice: {old:?}");
        match old.refs() {
            _ if waits(old) => Complete::Waker,
            1 => Complete::Last,
            _ if planted("io-free-at-completion") && old.has(Word::IGNORED) => Complete::Last,
            _ => Complete::Kept,
        }
    }

    // Future.

    /// Future only: the result is there.
    pub fn is_done(&self) -> bool {
        // IO4: pairs with IO3.
        Word(self.0.load(ord("IO4", Acquire))).has(Word::DONE)
    }

    /// Future only, after it has put a waker into its place. False: done; the place is the future's.
    pub fn register(&self) -> bool {
        // IO5: whoever completes (IO3) sees a whole waker.
        self.update(ord("IO5", Release), |old| (!old.has(Word::DONE)).then_some(old.0 | Word::WAKER)).is_ok()
    }

    /// Future only. True: the waker's place is the future's again, and holds the waker. False: whoever completes has
    /// it.
    pub fn unregister(&self) -> bool {
        // Relaxed: the future's own registration comes back to it.
        let waits = |old: Word| old.has(Word::WAKER) && !old.has(Word::DONE);
        self.update(Relaxed, |old| waits(old).then_some(old.0 & !Word::WAKER)).is_ok()
    }

    /// Future only, at its end and without a waker in its place.
    pub fn ignore(&self) -> Ignore {
        // IO2: Release ends the future's accesses before the memory is freed (IO3, IO6); Acquire: who is to be asked
        // for a cancellation (IO1).
        let went = self.update(ord("IO2", AcqRel), |old| match old {
            _ if old.has(Word::DONE) => None,
            _ if old.has(Word::STARTED) => Some(old.0 | Word::IGNORED),
            _ => Some((old.0 | Word::IGNORED) - Word::REF),
        });
        match went {
            // The future looks with IO4 before it takes the result.
            Err(_) => Ignore::Done,
            Ok(old) if old.has(Word::STARTED) => Ignore::Flight,
            Ok(_) => Ignore::Queued,
        }
    }

    // Every holder of a reference.

    /// True: it was the last one.
    pub fn drop_ref(&self) -> bool {
        // IO6: Release ends the holder's accesses, Acquire those of all others before the last one frees.
        let old = Word(self.0.fetch_sub(Word::REF, ord("IO6", AcqRel)));
        debug_assert!(old.refs() >= 1, "dropped too often: {old:?}");
        old.refs() == 1
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a snapshot for people.
        Word(self.0.load(Relaxed)).fmt(f)
    }
}
