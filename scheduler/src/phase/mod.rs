#![doc = include_str!("README.md")]

use crate::sync::{Acquire, AtomicBool, ForkWord, Relaxed, Release, ord};

/// What the word says. The order is the order of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The child of a fork: the kernel has wiped the word.
    Forked = 0,
    /// Submissions are accepted.
    Open = 1,
    /// Submissions are refused; some that were published before may still be on their way to the workers' eyes.
    Closing = 2,
    /// Everything accepted is visible to every scan: workers may conclude that nothing is left.
    Sealed = 3,
    /// A worker has concluded it: everybody leaves.
    Finished = 4,
}

/// The word, and whether what is queued is dropped instead of run.
pub struct PhaseWord {
    word: ForkWord,
    abort: AtomicBool,
}

impl PhaseWord {
    /// Open.
    ///
    /// # Errors
    /// When the fork detection page cannot be mapped.
    pub fn new() -> std::io::Result<Self> {
        Ok(PhaseWord { word: ForkWord::new(Phase::Open as u32)?, abort: AtomicBool::new(false) })
    }

    /// The submitter's look. Relaxed: the light side of the barrier before it orders it against the closer (E2).
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.word.load(Relaxed) == Phase::Open as u32
    }

    /// The phase, with what preceded it.
    pub fn get(&self) -> Phase {
        // E3: pairs with E1.
        match self.word.load(ord("E3", Acquire)) {
            0 => Phase::Forked,
            1 => Phase::Open,
            2 => Phase::Closing,
            3 => Phase::Sealed,
            _ => Phase::Finished,
        }
    }

    /// Moves on from `from`; false when somebody else did.
    pub fn advance(&self, from: Phase, to: Phase) -> bool {
        // E1: a worker that reads Sealed sees all that the closer's barrier made visible.
        self.word.advance(from as u32, to as u32, ord("E1", Release))
    }

    /// From now on queued tasks are dropped instead of run.
    pub fn set_abort(&self) {
        // Relaxed: see `aborting`.
        self.abort.store(true, Relaxed);
    }

    /// Queued tasks are dropped instead of run. Relaxed: late by a task or two does no harm.
    #[inline(always)]
    pub fn aborting(&self) -> bool {
        self.abort.load(Relaxed)
    }
}
