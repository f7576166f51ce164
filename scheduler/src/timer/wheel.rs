//! The wheel: eight levels of 64 slots. A timer stands on the level of the first digit (of six bits) in which its tick
//! differs from the present one, in the slot of that digit. So whatever stands on a lower level comes earlier, and
//! within a level the lowest slot comes first.
//!
//! After G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (1987), scheme 7; here time is not counted
//! up tick by tick: a bit per slot says where the next timers are, and time jumps there.
#![expect(unsafe_code, reason = "an intrusive list of nodes that their owners keep in place")]

use super::node::{Inner, Node, Stage};
use std::ptr::null;
use std::task::Waker;

const LEVELS: usize = 8;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// The last tick there is: eight levels of six bits.
pub(super) const LAST: u64 = (1 << (LEVELS as u32 * BITS)) - 1;

#[derive(Clone, Copy)]
struct Slot {
    first: *const Node,
    /// No timer in it comes before.
    earliest: u64,
}

const EMPTY: Slot = Slot { first: null(), earliest: u64::MAX };

/// Everything under the lock.
pub(super) struct Wheel {
    /// Whatever is linked comes later.
    now: u64,
    used: [u64; LEVELS],
    /// Made by the first timer.
    slots: Option<Box<[[Slot; SLOTS]; LEVELS]>>,
}

// SAFETY: nodes are reached under the lock only, and their owners unlink them before they go.
unsafe impl Send for Wheel {}

/// Access to a node's inside.
///
/// # Safety
/// 1. The lock is held and the node linked, or it is about to be.
unsafe fn inner<R>(node: *const Node, f: impl FnOnce(&mut Inner) -> R) -> R {
    // SAFETY: 1: linked nodes are kept in place by their owners.
    let node = unsafe { &*node };
    // SAFETY: 1.
    node.inner.with(|inner| f(unsafe { &mut *inner }))
}

impl Wheel {
    pub(super) fn new_at(now: u64) -> Self {
        Wheel { now, used: [0; LEVELS], slots: None }
    }

    /// The first slot that is used: level and slot.
    fn first(&self) -> Option<(usize, usize)> {
        let level = self.used.iter().position(|&bits| bits != 0)?;
        Some((level, self.used[level].trailing_zeros() as usize))
    }

    /// No timer comes before; `u64::MAX` when there is none.
    pub(super) fn earliest(&self) -> u64 {
        match (self.first(), &self.slots) {
            (Some((level, slot)), Some(slots)) => slots[level][slot].earliest,
            _ => u64::MAX,
        }
    }

    /// # Safety
    /// 1. The node is not linked, and stays in place until it is unlinked.
    pub(super) unsafe fn link(&mut self, node: *const Node, tick: u64) {
        let differs = tick ^ self.now;
        let level = (63 - (differs | 1).leading_zeros()) / BITS;
        let at = (tick >> (level * BITS)) as usize % SLOTS;
        let slots = self.slots.get_or_insert_with(|| Box::new([[EMPTY; SLOTS]; LEVELS]));
        let slot = &mut slots[level as usize][at];
        let next = std::mem::replace(&mut slot.first, node);
        slot.earliest = slot.earliest.min(tick);
        self.used[level as usize] |= 1 << at;
        // SAFETY: 1.
        unsafe {
            inner(node, |own| {
                (own.previous, own.next, own.tick) = (null(), next, tick);
                (own.level, own.slot) = (level as u8, at as u8);
            });
        }
        if !next.is_null() {
            // SAFETY: linked.
            unsafe { inner(next, |next| next.previous = node) };
        }
    }

    /// # Safety
    /// 1. The node is linked here.
    pub(super) unsafe fn unlink(&mut self, node: *const Node) {
        // SAFETY: 1.
        let (previous, next, level, at) =
            unsafe { inner(node, |own| (own.previous, own.next, own.level as usize, own.slot as usize)) };
        if !next.is_null() {
            // SAFETY: linked.
            unsafe { inner(next, |next| next.previous = previous) };
        }
        if !previous.is_null() {
            // SAFETY: linked.
            return unsafe { inner(previous, |previous| previous.next = next) };
        }
        let slot = &mut self.slots.as_mut().expect("something is linked")[level][at];
        slot.first = next;
        if next.is_null() {
            slot.earliest = u64::MAX;
            self.used[level] &= !(1 << at);
        }
    }

    /// Takes the first of a slot out.
    fn pop(&mut self, level: usize, at: usize) -> Option<*const Node> {
        let first = self.slots.as_ref()?[level][at].first;
        if first.is_null() {
            return None;
        }
        // SAFETY: linked there.
        unsafe { self.unlink(first) };
        Some(first)
    }

    /// Goes on to `now`; `fire` gets the wakers of what comes up to then, until it has no more room. True: there is
    /// more.
    pub(super) fn turn(&mut self, now: u64, room: usize, mut fire: impl FnMut(Waker)) -> bool {
        let mut left = room;
        while let Some((level, at)) = self.first() {
            let width = level as u32 * BITS;
            let above = self.now >> width >> BITS << BITS << width;
            let base = above | (at as u64) << width;
            if base > now {
                break;
            }
            self.now = self.now.max(base);
            if level != 0 {
                // They stand on lower levels from here on, and never come back up.
                while let Some(node) = self.pop(level, at) {
                    // SAFETY: just unlinked.
                    let tick = unsafe { inner(node, |own| own.tick) };
                    // SAFETY: as above.
                    unsafe { self.link(node, tick) };
                }
                continue;
            }
            while let Some(node) = self.pop(0, at) {
                Self::fire(node).into_iter().for_each(&mut fire);
                left -= 1;
                if left == 0 {
                    return true;
                }
            }
        }
        self.now = self.now.max(now);
        false
    }

    /// Fires one, whenever it comes.
    pub(super) fn end_one(&mut self) -> Option<Option<Waker>> {
        let (level, at) = self.first()?;
        self.pop(level, at).map(Self::fire)
    }

    /// An unlinked node is fired: its owner may free it as soon as it sees that.
    fn fire(node: *const Node) -> Option<Waker> {
        // SAFETY: unlinked by the caller, who holds the lock; the owner takes the lock unless it sees that it was
        // fired.
        let waker = unsafe { inner(node, |own| own.waker.take()) };
        // SAFETY: as above.
        unsafe { &*node }.set(Stage::Fired);
        waker
    }

    /// The first tick that can still be waited for.
    pub(super) fn soonest(&self) -> u64 {
        self.now + 1
    }
}
