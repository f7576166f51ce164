//! The word of a future's descriptor: who may poll it, who waits for its output, and how many hold the memory.

use crate::sync::{AcqRel, Acquire, AtomicU64, Ordering, Relaxed, Release, ord, planted};
use std::fmt;

/// Snapshot of the word: flags below, a count of references above.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

impl Word {
    /// Alone: the right to poll is in a queue, or on its way. With RUNNING: it was woken during the poll.
    const SCHEDULED: u64 = 1;
    /// Somebody has taken the right out of the queue and is using it.
    const RUNNING: u64 = 1 << 1;
    /// The future is gone, and the output (or that there is none) is final.
    const COMPLETE: u64 = 1 << 2;
    /// Whoever has the right shall drop the future instead of polling it.
    const CANCEL: u64 = 1 << 3;
    /// The join handle exists, and will have the output.
    const HANDLE: u64 = 1 << 4;
    /// A waiter is in its place, for whoever completes.
    const WAITER: u64 = 1 << 5;
    /// The memory keeps a reference to the scheduler, which has ended.
    const KEEPS: u64 = 1 << 6;
    /// The roll of a worker has an entry, and one reference.
    const LISTED: u64 = 1 << 7;
    const REF: u64 = 1 << 8;

    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    fn refs(self) -> u64 {
        self.0 / Self::REF
    }
    /// Nobody has the right to poll.
    fn rests(self) -> bool {
        self.0 & (Self::SCHEDULED | Self::RUNNING | Self::COMPLETE) == 0
    }
    /// Nobody can ever wake it, and nobody asks for its output: the roll alone knows it.
    fn forgotten(self) -> bool {
        self.refs() == 1 && self.has(Self::LISTED) && !self.has(Self::HANDLE)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["scheduled", "running", "complete", "cancel", "handle", "waiter", "keeps", "listed"];
        for (bit, name) in NAMES.iter().enumerate().filter(|(bit, _)| self.has(1 << bit)) {
            write!(f, "{}{name}", if bit == 0 { "" } else { " " })?;
        }
        write!(f, " refs {}", self.refs())
    }
}

/// What the holder of the right does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Start {
    /// Poll.
    Poll,
    /// Drop the future, then [`State::complete`].
    Cancel,
}

/// After a poll that came back pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Rest {
    /// The right is given up, and with it the reference: do not touch the descriptor.
    Resting,
    /// Woken meanwhile: the right goes back into a queue.
    Again,
    /// Still running: enter it into the roll, say so ([`State::listed`]), ask again.
    Unlisted,
    /// Still running: drop the future, then [`State::complete`].
    Cancel,
}

/// What a runner sees of a future that it is about to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// There is an entry in a roll, unless that is being drained.
    pub listed: bool,
    /// There is a handle still.
    pub handle: bool,
    /// There is nobody but the runner: nothing is left to be arbitrated.
    pub alone: bool,
}

/// Who cleans up after the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Complete {
    /// The handle has the output, and the runner's reference is given up: do not touch the descriptor.
    Handle,
    /// The same, but a waiter is to be taken out and told; the reference is still there.
    Waiter,
    /// The handle is gone: drop the output. The reference is still there.
    Discard,
    /// The same, and it was the last reference: free the memory.
    Last,
}

/// What a wake has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wake {
    /// Nothing; a reference that was to be used up is used up.
    Nothing,
    /// The caller has the right now, with a reference: schedule it.
    Schedule,
    /// Complete: a reference that was to be used up is to be dropped.
    Late,
}

/// What dropping a reference has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Dropped {
    /// Others have references.
    Shared,
    /// Free the memory.
    Last,
    /// Nobody can wake it any more: the caller has the right now, with a reference, to have the future dropped.
    Forgotten,
}

/// What the end of a handle has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Detach {
    /// Nothing to do; the reference is given up.
    Gone,
    /// There is an output for the handle, and the reference is still there.
    Output,
    /// As [`Dropped::Forgotten`].
    Forgotten,
    /// Nothing happened: a waiter is registered.
    Waiter,
}

/// What an abort has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Abort {
    /// It is complete.
    Late,
    /// Whoever has the right will see it.
    Noted,
    /// The caller has the right now, with a reference: schedule it.
    Schedule,
}

/// What the end of a worker does with an entry of its roll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Retire {
    /// Complete: drop the entry's reference.
    Done,
    /// The caller has the right now, and the entry's reference with it: drop the future, then [`State::complete`].
    Cancel,
    /// Somebody else has the right, and will need the scheduler: come again with a reference to it.
    Busy,
    /// Somebody else has the right and will drop the future; the memory has the scheduler's reference, the entry's own
    /// is given up: do not touch it.
    Left,
}

/// The word of one future's descriptor.
///
/// Its *runner* is who has the right to poll: from a wake, through a queue, to the end of the poll. Its *handle* is the
/// one `JoinHandle`, from one thread at a time. Its *wakers* are any number, on any thread.
pub struct State(AtomicU64);

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// On its way into a queue, with a handle: two references.
    pub fn new() -> Self {
        State(AtomicU64::new(Word::SCHEDULED | Word::HANDLE | (2 * Word::REF)))
    }

    /// Applies `step` in one atomic step. Returns the word before, or the one that `step` declined.
    #[inline(always)]
    fn update(&self, order: Ordering, step: impl Fn(Word) -> Option<u64>) -> Result<Word, Word> {
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

    // Runner.

    /// Runner, once per right: SCHEDULED -> RUNNING.
    #[inline]
    pub fn start(&self) -> Start {
        // FU1: the poll sees what every waker did before it woke (FU2), and what the last poll left (FU3). One addition
        // moves the one flag to the other: nobody else changes them now.
        let old = Word(self.0.fetch_add(Word::RUNNING - Word::SCHEDULED, ord("FU1", Acquire)));
        debug_assert!(old.has(Word::SCHEDULED) && !old.has(Word::RUNNING | Word::COMPLETE), "started twice: {old:?}");
        if old.has(Word::CANCEL) && !planted("future-deaf-start") { Start::Cancel } else { Start::Poll }
    }

    /// Runner, after a poll that came back pending.
    #[inline]
    pub fn rest(&self) -> Rest {
        let woken = |old: Word| old.has(Word::SCHEDULED) && !planted("future-deaf-rest");
        // FU3: the next runner (FU1), or whoever takes the right from the roll (FU9), sees what this poll left.
        let went = self.update(ord("FU3", Release), |old| {
            if old.has(Word::CANCEL) {
                return None;
            }
            if woken(old) {
                return Some(old.0 & !Word::RUNNING);
            }
            let new = Word((old.0 & !(Word::RUNNING | Word::SCHEDULED)) - Word::REF);
            (new.has(Word::LISTED) && !new.forgotten()).then_some(new.0)
        });
        match went {
            Ok(old) if woken(old) => Rest::Again,
            Ok(_) => Rest::Resting,
            Err(old) if old.has(Word::CANCEL | Word::LISTED) => Rest::Cancel,
            // Nobody but this runner knows it.
            Err(old) if old.refs() == 1 && !old.has(Word::HANDLE) => Rest::Cancel,
            Err(_) => Rest::Unlisted,
        }
    }

    /// Runner: it has entered the future into a roll, which has a reference now.
    pub fn listed(&self) {
        // Relaxed: the roll is drained by the thread that does this.
        let old = Word(self.0.fetch_add(Word::LISTED + Word::REF, Relaxed));
        debug_assert!(old.has(Word::RUNNING) && !old.has(Word::LISTED), "listed twice: {old:?}");
    }

    /// Runner, before it completes.
    #[inline(always)]
    pub fn look(&self) -> Look {
        // FU10: who is alone sees the end of all others' accesses (FU7, FU8). Nobody else lists the future, and whoever
        // clears that has taken the entry out before; the handle may go at any time, and `complete` sees that.
        let word = Word(self.0.load(ord("FU10", Acquire)));
        let alone = word.refs() == 1 && !word.has(Word::HANDLE);
        Look { listed: word.has(Word::LISTED), handle: word.has(Word::HANDLE), alone }
    }

    /// Runner, once: the future is dropped, and the output, if there is one, written. `struck`: the entry has been
    /// taken out of the roll by the runner, which gives up its reference as well.
    #[inline]
    pub fn complete(&self, struck: bool) -> Complete {
        let less = if struck { Word::LISTED + Word::REF } else { 0 };
        let kept = |old: Word| !old.has(Word::HANDLE) || old.has(Word::WAITER);
        let done = |old: Word| (old.0 & !(Word::RUNNING | Word::SCHEDULED) | Word::COMPLETE) - less;
        // FU4: Release hands the output to the handle (FU5), Acquire takes the waiter (FU6) or the end of the others'
        // accesses (FU7) before the memory is freed.
        let old = self.update(ord("FU4", AcqRel), |old| Some(done(old) - if kept(old) { 0 } else { Word::REF }));
        let old = old.unwrap_or_else(|old| old);
        debug_assert!(old.has(Word::RUNNING) && !old.has(Word::COMPLETE), "completed twice: {old:?}");
        match (old.has(Word::HANDLE), old.has(Word::WAITER)) {
            (true, true) => Complete::Waiter,
            (true, false) => Complete::Handle,
            (false, _) if Word(done(old)).refs() == 1 => Complete::Last,
            (false, _) => Complete::Discard,
        }
    }

    // Wakers, and every holder of a reference.

    /// Any holder of a reference: one more.
    #[inline]
    pub fn clone_ref(&self) {
        // Relaxed: the holder's own keeps the memory, and passing it on is the holder's business.
        self.0.fetch_add(Word::REF, Relaxed);
    }

    /// Any holder of a reference. Wakes the future; with `spend` the reference is used up.
    #[inline]
    pub fn wake(&self, spend: bool) -> Wake {
        let (used, made) = if spend { (Word::REF, 0) } else { (0, Word::REF) };
        // FU2: the next poll sees what was done before, also when others have woken it already: for that the word is
        // exchanged by itself.
        let order = ord("FU2", Release);
        let woken = self.update(order, |old| match old {
            _ if old.has(Word::COMPLETE) => None,
            _ if old.rests() => Some((old.0 | Word::SCHEDULED) + made),
            _ if planted("future-wake-load") && !spend && old.has(Word::SCHEDULED) => None,
            _ => Some((old.0 | Word::SCHEDULED) - used),
        });
        match woken {
            Ok(old) if old.rests() => Wake::Schedule,
            Ok(_) => Wake::Nothing,
            Err(_) => Wake::Late,
        }
    }

    /// Any holder of a reference: one less. Also the handle's, once the future is complete.
    #[inline]
    pub fn drop_ref(&self) -> Dropped {
        let left = |old: Word| Word(old.0 - Word::REF);
        let orphans = |old: Word| old.rests() && left(old).forgotten() && !planted("future-forgotten");
        // FU7: Release ends the holder's accesses, Acquire those of all others before the last one frees.
        let old = self.update(ord("FU7", AcqRel), |old| {
            Some(if orphans(old) { old.0 | Word::SCHEDULED | Word::CANCEL } else { left(old).0 })
        });
        let old = old.unwrap_or_else(|old| old);
        debug_assert!(old.refs() >= 1, "dropped too often: {old:?}");
        match left(old).refs() {
            _ if orphans(old) => Dropped::Forgotten,
            0 => Dropped::Last,
            _ => Dropped::Shared,
        }
    }

    /// Ends the word's life: what who frees the memory does first. True: a reference to the scheduler is to be dropped.
    pub fn retire_word(self) -> bool {
        let word = Word(self.0.into_inner());
        debug_assert!(word.has(Word::COMPLETE) || word.refs() == 1, "freed too early: {word:?}");
        word.has(Word::KEEPS)
    }

    // Handle.

    /// Handle only: the output is there, or it is clear that there will be none.
    #[inline]
    pub fn is_complete(&self) -> bool {
        // FU5: pairs with FU4: the output is visible.
        Word(self.0.load(ord("FU5", Acquire))).has(Word::COMPLETE)
    }

    /// Handle only, after it has put a waiter into its place. False: complete; the place is the handle's.
    pub fn register(&self) -> bool {
        // FU6: whoever completes (FU4) sees a whole waiter. State and waiter are arbitrated by one word, so no fence.
        self.update(ord("FU6", Release), |old| (!old.has(Word::COMPLETE)).then_some(old.0 | Word::WAITER)).is_ok()
    }

    /// Handle only. True: the waiter's place is the handle's again, and holds the waiter. False: there was none, or
    /// whoever completes has it.
    pub fn unregister(&self) -> bool {
        // Relaxed: the handle's own registration comes back to it.
        let waits = |old: Word| old.has(Word::WAITER) && !old.has(Word::COMPLETE);
        self.update(Relaxed, |old| waits(old).then_some(old.0 & !Word::WAITER)).is_ok()
    }

    /// Handle only, once, unless the answer is [`Detach::Waiter`].
    #[inline(always)]
    pub fn detach(&self) -> Detach {
        let left = |old: Word| Word((old.0 & !Word::HANDLE) - Word::REF);
        let orphans = |old: Word| old.rests() && left(old).forgotten() && !planted("future-forgotten");
        // FU8: the handle's accesses end before the memory is freed (FU4, FU7).
        let gone = self.update(ord("FU8", Release), |old| {
            debug_assert!(old.has(Word::HANDLE), "detached twice: {old:?}");
            if old.has(Word::COMPLETE | Word::WAITER) {
                return None;
            }
            let forgotten = (old.0 & !Word::HANDLE) | Word::SCHEDULED | Word::CANCEL;
            Some(if orphans(old) { forgotten } else { left(old).0 })
        });
        match gone {
            Ok(old) if orphans(old) => Detach::Forgotten,
            Ok(_) => Detach::Gone,
            // The handle has looked, or looks next, with FU5.
            Err(old) if old.has(Word::COMPLETE) => Detach::Output,
            Err(_) => Detach::Waiter,
        }
    }

    /// Handle only: the future shall be dropped.
    pub fn abort(&self) -> Abort {
        // Relaxed: it hands nothing over, and whoever starts next sees what the last poll left (FU1, FU3) across this.
        let noted = self.update(Relaxed, |old| match old {
            _ if old.has(Word::COMPLETE) => None,
            _ if old.rests() => Some((old.0 | Word::CANCEL | Word::SCHEDULED) + Word::REF),
            _ => Some(old.0 | Word::CANCEL),
        });
        match noted {
            Ok(old) if old.rests() => Abort::Schedule,
            Ok(_) => Abort::Noted,
            Err(_) => Abort::Late,
        }
    }

    // The end of a worker.

    /// Who has taken the entry out of the roll. `keeping`: the caller has a reference to the scheduler to leave here.
    pub fn retire(&self, keeping: bool) -> Retire {
        let given = Word::LISTED + Word::REF;
        // FU9: whoever drops the future sees what the last poll left (FU3). Release: where the entry's reference is
        // given up here, what this worker did to the descriptor comes before its memory is freed (FU7).
        let went = self.update(ord("FU9", AcqRel), |old| match old {
            _ if old.has(Word::COMPLETE) => None,
            // The entry's reference becomes the runner's.
            _ if old.rests() => Some((old.0 | Word::RUNNING | Word::CANCEL) - Word::LISTED),
            _ if !keeping => None,
            _ => Some((old.0 | Word::CANCEL | Word::KEEPS) - given),
        });
        match went {
            Ok(old) if old.rests() => Retire::Cancel,
            Ok(_) => Retire::Left,
            Err(old) if old.has(Word::COMPLETE) => Retire::Done,
            Err(_) => Retire::Busy,
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a snapshot for people.
        Word(self.0.load(Relaxed)).fmt(f)
    }
}
