//! How often workers have gone idle, and how many of the idle have a task on their stack: one word, so that a look at
//! everything else can be framed by two equal readings of it. See the README, events Q1 to Q6.

use crate::sync::{Acquire, AtomicU64, Line, Release, ord, planted};

/// One more rest in the upper half; the lower half counts the waiting.
const REST: u64 = 1 << 32;

/// The word. It never wraps within the life of a scheduler: at one rest per microsecond the upper half lasts an hour,
/// and a wrap matters only if it comes round between the two readings of one look.
pub struct Rests(Line<AtomicU64>);

/// One reading of [`Rests`] in which nobody waited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Undisturbed(u64);

impl Default for Rests {
    fn default() -> Self {
        Self::new()
    }
}

impl Rests {
    /// Nobody has rested.
    pub fn new() -> Self {
        Rests(Line(AtomicU64::new(0)))
    }

    /// A worker is about to announce itself idle; `waiting`: with a task on its stack.
    pub fn begin(&self, waiting: bool) {
        let waiting = u64::from(waiting && !planted("rests-no-waiting"));
        // W1: who sees that it rests again (W3) sees that it was up in between.
        self.0.0.fetch_add(REST + waiting, ord("W1", Release));
    }

    /// A worker with a task on its stack is not idle any more.
    pub fn end_waiting(&self) {
        // W2: who does not count it (W3) sees that it is up.
        self.0.0.fetch_sub(1, ord("W2", Release));
    }

    /// The word, if nobody waits.
    pub fn undisturbed(&self) -> Option<Undisturbed> {
        // W3: pairs with W1 and W2.
        let seen = self.0.0.load(ord("W3", Acquire));
        (seen & (REST - 1) == 0).then_some(Undisturbed(seen))
    }
}
