#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "nodes that their owners keep in place")]

mod alarm;
mod node;
mod wheel;

pub use alarm::{Alarm, GRACE};
pub use node::{Node, Stage};

use crate::sync::{AtomicU64, Line, Mutex, MutexGuard, Relaxed, planted};
use crate::task::waiting::Waiting;
use std::array::from_fn;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::Waker;
use wheel::{LAST, Wheel};

/// Nanoseconds of a tick, as a shift: 65.5 us, about the slack that the kernel adds to a sleep anyway (50 us).
const TICK: u32 = 16;
/// No timer.
pub const NEVER: u64 = u64::MAX;
/// Wakers that are taken out under the lock at once: they are woken outside of it.
const HANDFUL: usize = 32;

/// The first tick at which `nanos` have passed.
pub fn tick_after(nanos: u64) -> u64 {
    ((nanos >> TICK) + u64::from(nanos & ((1 << TICK) - 1) != 0)).min(LAST)
}

/// The tick that is going on at `nanos`.
pub fn tick_at(nanos: u64) -> u64 {
    nanos >> TICK
}

/// Nanoseconds from `nanos` until `tick` begins; 0 when it has begun.
pub fn until(tick: u64, nanos: u64) -> u64 {
    (tick << TICK).saturating_sub(nanos)
}

/// The timers of one thread that sleeps until the first of them.
pub struct Timers {
    /// No timer comes before this tick. Written under the lock.
    next: Line<AtomicU64>,
    wheel: Mutex<Wheel>,
}

impl Default for Timers {
    fn default() -> Self {
        Self::new()
    }
}

impl Timers {
    /// None.
    pub fn new() -> Self {
        Self::new_at(0)
    }

    /// None, and `tick` is going on; for tests.
    pub fn new_at(tick: u64) -> Self {
        Timers { next: Line(AtomicU64::new(NEVER)), wheel: Mutex::new(Wheel::new_at(tick)) }
    }

    /// No timer comes before this tick; [`NEVER`] when there is none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        // Relaxed: the owner, who sleeps by it, has inserted the timers itself. For everybody else it is a hint.
        self.next.0.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Wheel> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, wheel: &Wheel) {
        let next = wheel.earliest();
        if next != self.next() {
            // Relaxed: under the lock, and see `next`.
            self.next.0.store(next, Relaxed);
        }
    }

    /// Owner of the timers only. `waker` will be woken when `tick` has begun, and the node is fired then. True: no
    /// other timer comes before.
    ///
    /// # Safety
    /// 1. The node is the caller's and not linked, and stays in place until it is fired or cancelled.
    pub unsafe fn insert(&self, node: Pin<&Node>, tick: u64, waker: Waker) -> bool {
        let node = node.get_ref();
        // SAFETY: 1: nobody else has it.
        let before = node.inner.with(|inner| unsafe { &mut *inner }.waker.replace(waker));
        node.set(Stage::Linked);
        let mut wheel = self.lock();
        let tick = tick.max(wheel.soonest());
        // SAFETY: 1.
        unsafe { wheel.link(node, tick) };
        let first = tick < self.next();
        self.publish(&wheel);
        drop(wheel);
        drop(before);
        first
    }

    /// Owner of the node, on any thread. From now on `waker` is woken instead. False: it has been fired.
    ///
    /// # Safety
    /// 1. The node was inserted here.
    pub unsafe fn rewake(&self, node: Pin<&Node>, waker: &Waker) -> bool {
        let wheel = self.lock();
        if node.stage() != Stage::Linked {
            return false;
        }
        // SAFETY: linked, and the lock is held.
        let known =
            node.inner.with(|inner| unsafe { &*inner }.waker.as_ref().is_some_and(|known| known.will_wake(waker)));
        if known {
            return true;
        }
        // A clone is foreign code: not under the lock.
        drop(wheel);
        let waker = waker.clone();
        let wheel = self.lock();
        if node.stage() != Stage::Linked {
            return false;
        }
        // SAFETY: as above.
        let before = node.inner.with(|inner| unsafe { &mut *inner }.waker.replace(waker));
        drop(wheel);
        drop(before);
        true
    }

    /// Owner of the node, on any thread. Afterwards it is in no wheel, and may be freed.
    ///
    /// # Safety
    /// 1. The node was inserted here, if it is linked.
    pub unsafe fn cancel(&self, node: Pin<&Node>) {
        let node = node.get_ref();
        if node.stage() == Stage::Linked {
            let mut wheel = self.lock();
            if node.stage() == Stage::Linked || planted("timer-cancel-blind") {
                // SAFETY: 1: linked here, and the lock is held.
                unsafe { wheel.unlink(node) };
                node.set(Stage::Idle);
                self.publish(&wheel);
            }
        }
        // SAFETY: not linked, so it is the caller's.
        drop(node.inner.with(|inner| unsafe { &mut *inner }.waker.take()));
    }

    /// Any thread. Fires what has come by `tick`. Returns how many.
    pub fn turn(&self, tick: u64) -> usize {
        self.turn_with(tick, || Some(self.lock()))
    }

    /// [`Timers::turn`] by somebody who does not own them: not while the owner is at it.
    pub fn turn_for_owner(&self, tick: u64) -> usize {
        self.turn_with(tick, || self.wheel.try_lock().ok())
    }

    fn turn_with<'a>(&self, tick: u64, lock: impl Fn() -> Option<MutexGuard<'a, Wheel>>) -> usize {
        let mut fired = 0;
        loop {
            let mut wakers: [Option<Waker>; HANDFUL] = from_fn(|_| None);
            let mut count = 0;
            let Some(mut wheel) = lock() else { return fired };
            let more = wheel.turn(tick, HANDFUL, |waker| {
                wakers[count] = Some(waker);
                count += 1;
            });
            self.publish(&wheel);
            drop(wheel);
            // Foreign code, and perhaps the end of the nodes' owners: not under the lock.
            wakers.into_iter().flatten().for_each(|waker| Waiting::Task(waker).tell());
            fired += count;
            if !more {
                return fired;
            }
        }
    }

    /// Owner of the timers, at its end: fires everything, so that nobody waits for it, and no node points here.
    pub fn end(&self) {
        loop {
            let mut wheel = self.lock();
            let Some(waker) = wheel.end_one() else { return self.publish(&wheel) };
            drop(wheel);
            waker.into_iter().for_each(|waker| Waiting::Task(waker).tell());
        }
    }
}
