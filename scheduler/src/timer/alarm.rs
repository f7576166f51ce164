//! The alarm: until when a thread sleeps that guards another one's timers.

use super::{NEVER, Timers};
use crate::sync::{AtomicU64, Line, Relaxed, full_fence, planted};

/// Awake, or about to look at everything soon in any case.
const AWAKE: u64 = 0;
/// How late, in ticks of 65.5 us, others let a timer be before they fire it: a millisecond, several times what a worker
/// needs to wake up for it.
pub const GRACE: u64 = 16;

/// The tick until which its owner, the *guard*, sleeps.
pub struct Alarm(Line<AtomicU64>);

impl Default for Alarm {
    fn default() -> Self {
        Self::new()
    }
}

impl Alarm {
    /// Asleep for ever, as far as anybody knows: a guard that has never heard of timers sets no alarm.
    pub fn new() -> Self {
        Alarm(Line(AtomicU64::new(NEVER)))
    }

    /// The guard, about to sleep: for ever, but for `own` timers and for those of its ward, should they be late.
    /// Returns the tick at which it must be up.
    pub fn set(&self, own: &Timers, ward: &Timers) -> u64 {
        // Relaxed, all: the fence orders the one against the other.
        self.0.0.store(NEVER, Relaxed);
        // TW4: whoever inserts into the ward's wheel sees this alarm, or this sees the timer.
        full_fence("TW4");
        let first = own.next().min(ward.next().saturating_add(GRACE));
        if first != NEVER {
            self.0.0.store(first, Relaxed);
        }
        first
    }

    /// The guard: awake, or napping.
    pub fn clear(&self) {
        // Relaxed: too late a reader unparks a guard that is awake.
        self.0.0.store(AWAKE, Relaxed);
    }

    /// The ward, after its first timer has become an earlier one: the guard sleeps too long and must be unparked.
    pub fn misses(&self, ward: &Timers) -> bool {
        // TW3: pairs with TW4.
        full_fence("TW3");
        // Relaxed: the fence.
        self.0.0.load(Relaxed) > ward.next().saturating_add(GRACE) && !planted("timer-no-alarm")
    }
}
