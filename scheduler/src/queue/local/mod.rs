#![doc = include_str!("README.md")]
//!
//! # Who may touch what
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `head` | anyone, by compare-exchange in [`Ring::claim`] | anyone |
//! | `control` | compare-exchange only: owner publishes, withdraws; thieves announce, commit, withdraw | anyone |
//! | `tail` | owner, plain stores | anyone |
//! | `full_at` | owner | owner |
//! | `slots` | owner, positions `[tail, head + CAP)` only | anyone |

#![expect(unsafe_code, reason = "one thread owns a ring: a promise the compiler cannot check")]

use crate::sync::{Acquire, AtomicPtr, AtomicU32, AtomicU64, Line, Ordering, Relaxed, Release, ord, planted};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Longest intent: what eight bits hold. A thief that finds more publishes it in several steps of one heavy barrier
/// each; one step feeds four full claims of 64.
const LONGEST_INTENT: u32 = u8::MAX as u32;

/// Is position `a` at or behind `b`? Positions wrap.
const fn reaches(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

/// How many positions from `from` up to `to`; 0 when `to` lies before `from`.
const fn span(from: u32, to: u32) -> u32 {
    if reaches(to, from) { to.wrapping_sub(from) } else { 0 }
}

/// `limit:32 | pending:8 | version:24`, from the low end, so that the owner's pop compares one half of the word.
/// `split = limit - pending`; the word is *calm* when `pending` is 0, else it carries an intent to publish up to
/// `limit`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Control(u64);

impl Control {
    const PENDING_BITS: u32 = 8;
    const VERSION_SHIFT: u32 = 32 + Self::PENDING_BITS;

    const fn new(split: u32, version: u64) -> Control {
        Control(split as u64 | version << Self::VERSION_SHIFT)
    }
    /// First position that no intent covers: everything from here on is the owner's alone.
    const fn limit(self) -> u32 {
        self.0 as u32
    }
    const fn pending(self) -> u32 {
        (self.0 >> 32) as u32 & LONGEST_INTENT
    }
    /// End of the public part.
    const fn split(self) -> u32 {
        self.limit().wrapping_sub(self.pending())
    }
    /// The version of every successor of this word. It lies at the top, so that it wraps without a borrow.
    fn next_version(self) -> u64 {
        let step = !planted("wq_version") as u64;
        (self.0 >> Self::VERSION_SHIFT).wrapping_add(step)
    }
    /// Public up to `split`, no intent.
    fn calm(self, split: u32) -> Control {
        Control::new(split, self.next_version())
    }
    /// The same public part, and an intent to publish `pending` more.
    fn intent(self, pending: u32) -> Control {
        let word = Control::new(self.split().wrapping_add(pending), self.next_version());
        Control(word.0 | (pending as u64) << 32)
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.0 >> Self::VERSION_SHIFT;
        write!(f, "split {} limit {} version {version}", self.split(), self.limit())
    }
}

/// What the owner writes at every push and pop, on a line of its own.
struct OwnerLine {
    tail: AtomicU32,
    /// A head seen earlier, plus `CAP`: below it there is room without looking.
    full_at: Cell<u32>,
}

/// The queue of one worker: `CAP` pointers, newest first for the owner, oldest first for everyone else.
///
/// It never dereferences a pointer: what a pointer that comes out means is between the caller and whoever put it in.
/// A pointer that went in comes out exactly once.
pub struct Ring<T, const CAP: usize> {
    /// Position of the oldest public task. 64 bits, so that a claimer may sleep for as long as it likes between its
    /// read and its compare-exchange; only the low half is a position.
    head: Line<AtomicU64>,
    control: Line<AtomicU64>,
    owner: Line<OwnerLine>,
    slots: [AtomicPtr<T>; CAP],
}

/// A snapshot of the positions, each read by itself.
impl<T, const CAP: usize> fmt::Debug for Ring<T, CAP> {
    // Relaxed: for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.head.0.load(Relaxed) as u32;
        let control = Control(self.control.0.load(Relaxed));
        let tail = self.owner.0.tail.load(Relaxed);
        write!(f, "head {head} {control:?} tail {tail} of {CAP}")
    }
}

// SAFETY: all fields but `full_at` are atomics; `full_at` is reached through `Owner` only, which one thread has.
unsafe impl<T, const CAP: usize> Sync for Ring<T, CAP> {}

/// The owner's side of a [`Ring`]. Costs nothing; stays on its thread.
pub struct Owner<'a, T, const CAP: usize> {
    ring: &'a Ring<T, CAP>,
    _not_send: PhantomData<*const ()>,
}

/// Writes into the free part of a [`Ring`]; see [`Owner::pen`].
pub struct Pen<'a, T, const CAP: usize> {
    ring: &'a Ring<T, CAP>,
    tail: u32,
}

impl<T, const CAP: usize> Pen<'_, T, CAP> {
    /// Writes a task `offset` places above the newest one.
    ///
    /// # Safety
    /// 1. There is [`room`](Owner::room) for `offset + 1` tasks, and nothing was pushed or popped since the pen was
    ///    made.
    #[inline(always)]
    pub unsafe fn write(&self, offset: u32, task: *mut T) {
        self.ring.slot(self.tail.wrapping_add(offset)).store(task, Relaxed);
    }
}

impl<T, const CAP: usize> Clone for Owner<'_, T, CAP> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const CAP: usize> Copy for Owner<'_, T, CAP> {}

impl<T, const CAP: usize> Default for Ring<T, CAP> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const CAP: usize> Ring<T, CAP> {
    /// An empty ring.
    pub fn new() -> Self {
        Self::new_at(0)
    }

    /// An empty ring whose positions and version begin at `at`, so that tests can start them near their wrap.
    pub fn new_at(at: u32) -> Self {
        const { assert!(CAP.is_power_of_two() && CAP <= 1 << 30) };
        Ring {
            head: Line(AtomicU64::new(at as u64)),
            control: Line(AtomicU64::new(Control::new(at, at as u64).0)),
            owner: Line(OwnerLine { tail: AtomicU32::new(at), full_at: Cell::new(at.wrapping_add(CAP as u32)) }),
            slots: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
        }
    }

    /// The owner's side.
    ///
    /// # Safety
    /// 1. Owners of one ring are used on one thread at a time; handing the role over orders everything done before it
    ///    before everything done after it.
    #[inline(always)]
    pub unsafe fn owner(&self) -> Owner<'_, T, CAP> {
        Owner { ring: self, _not_send: PhantomData }
    }

    #[inline(always)]
    fn slot(&self, at: u32) -> &AtomicPtr<T> {
        &self.slots[at as usize & (CAP - 1)]
    }

    /// Tasks that [`claim`](Ring::claim) can have. Anyone; a hint.
    // Relaxed: a hint, nothing is read on the strength of it.
    pub fn public_len(&self) -> u32 {
        let split = Control(self.control.0.load(Relaxed)).split();
        span(self.head.0.load(Relaxed) as u32, split)
    }

    /// Tasks that only the owner, or a [`rescue`](Ring::rescue), can reach. Anyone; a hint.
    // Relaxed: a hint.
    pub fn private_hint(&self) -> u32 {
        let split = Control(self.control.0.load(Relaxed)).split();
        span(split, self.owner.0.tail.load(Relaxed))
    }

    /// Claims up to `out.len()` of the oldest public tasks and returns them, oldest first; empty when there are none.
    /// `share(available)` says how many it wants; at least one is taken. Anyone, the owner too.
    pub fn claim<'b>(&self, out: &'b mut [MaybeUninit<*mut T>], share: impl Fn(u32) -> u32) -> &'b mut [*mut T] {
        let taken = if out.is_empty() { 0 } else { self.claim_into(out, share) };
        // SAFETY: `claim_into` has written the first `taken` entries.
        unsafe { out[..taken].assume_init_mut() }
    }

    fn claim_into(&self, out: &mut [MaybeUninit<*mut T>], share: impl Fn(u32) -> u32) -> usize {
        loop {
            // Relaxed: the compare-exchange below finds out whether it still holds, and that is all that is needed of
            // it.
            let head = self.head.0.load(Relaxed);
            let split = Control(self.control.0.load(ord("WQ5", Acquire))).split();
            let available = span(head as u32, split);
            if available == 0 {
                return 0;
            }
            let k = share(available).clamp(1, available).min(out.len() as u32);
            for (i, out) in (0..k).zip(&mut *out) {
                out.write(self.slot((head as u32).wrapping_add(i)).load(Relaxed));
            }
            // Read first, claim after: once `head` has moved the owner may reuse the slots, and what a failed claim has
            // read is thrown away.
            if self.head.0.compare_exchange(head, head + k as u64, ord("WQ6", Release), Relaxed).is_ok() {
                return k as usize;
            }
        }
    }

    /// Publishes for an owner that does not answer: its oldest private tasks, at most 255. Anyone but the owner.
    ///
    /// `heavy` is the heavy side of the barrier whose light side the owner passes in [`Owner::pop`]; it says whether
    /// the barrier took place. Another thief's unfinished intent is finished (or withdrawn) like an own one. True:
    /// this call has published something. False: nothing there, the owner or another thief was faster, or `heavy` was
    /// refused.
    #[cold]
    pub fn rescue(&self, heavy: impl FnOnce() -> bool) -> bool {
        let Some(intent) = self.announce() else {
            return false;
        };
        let refused = !heavy() && !planted("wq_refused");
        let split = intent.split();
        let tail = self.owner.0.tail.load(ord("WQ3", Acquire));
        // Behind `tail` the owner has taken tasks without seeing the intent; the rest of the intent still holds.
        let covered = span(split, tail).min(intent.pending());
        let covered = if planted("wq_no_recheck") { intent.pending() } else { covered };
        let publish = if refused { 0 } else { covered };
        let after = intent.calm(split.wrapping_add(publish));
        self.swing(intent, after, ord("WQ7", Release)) && publish != 0
    }

    /// The intent to work on: the one that is there, or a new one. `None`: nothing to publish, or the word moved.
    fn announce(&self) -> Option<Control> {
        // Relaxed, both: the barrier orders the second look at `tail` behind them, and that is the one that counts.
        let seen = Control(self.control.0.load(Relaxed));
        if seen.pending() != 0 {
            return (!planted("wq_own_intent_only")).then_some(seen);
        }
        let pending = span(seen.split(), self.owner.0.tail.load(Relaxed)).min(LONGEST_INTENT);
        let intent = seen.intent(pending);
        (pending != 0 && self.swing(seen, intent, Relaxed)).then_some(intent)
    }

    /// The only way `control` changes.
    fn swing(&self, from: Control, to: Control, order: Ordering) -> bool {
        self.control.0.compare_exchange(from.0, to.0, order, Relaxed).is_ok()
    }
}

impl<'a, T, const CAP: usize> Owner<'a, T, CAP> {
    /// Adds the newest task. `Err`: the ring is full.
    #[inline(always)]
    pub fn push(self, task: *mut T) -> Result<(), *mut T> {
        let own = &self.ring.owner.0;
        let tail = own.tail.load(Relaxed);
        if tail == own.full_at.get() {
            return self.push_if_room(tail, task);
        }
        self.store(tail, task);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn push_if_room(self, tail: u32, task: *mut T) -> Result<(), *mut T> {
        if self.look_for_room(tail) == 0 {
            return Err(task);
        }
        self.store(tail, task);
        Ok(())
    }

    #[inline(always)]
    fn store(self, tail: u32, task: *mut T) {
        self.ring.slot(tail).store(task, Relaxed);
        let tail_after = tail.wrapping_add(1);
        self.ring.owner.0.tail.store(tail_after, ord("WQ1", Release));
    }

    /// Adds tasks until `tasks` ends or the ring is full, with one store of `tail`; says how many. What does not fit
    /// stays in `tasks`, whose `next` must not touch the ring.
    pub fn push_many(self, tasks: &mut impl ExactSizeIterator<Item = *mut T>) -> u32 {
        let tail = self.ring.owner.0.tail.load(Relaxed);
        let want = tasks.len().min(CAP) as u32;
        let mut end = tail;
        for task in tasks.take(want.min(self.room(want)) as usize) {
            self.ring.slot(end).store(task, Relaxed);
            end = end.wrapping_add(1);
        }
        self.ring.owner.0.tail.store(end, ord("WQ1b", Release));
        end.wrapping_sub(tail)
    }

    /// A pen that writes tasks above the newest one, for a later [`Owner::advance`]. Nobody sees them before.
    #[inline(always)]
    pub fn pen(self) -> Pen<'a, T, CAP> {
        Pen { ring: self.ring, tail: self.ring.owner.0.tail.load(Relaxed) }
    }

    /// Adds the `count` tasks that were placed, with one store of `tail`.
    ///
    /// # Safety
    /// 1. All offsets below `count` were written by a [`pen`](Owner::pen), and nothing was pushed or popped since.
    #[inline(always)]
    pub unsafe fn advance(self, count: u32) {
        let tail = self.ring.owner.0.tail.load(Relaxed);
        self.ring.owner.0.tail.store(tail.wrapping_add(count), ord("WQ1c", Release));
    }

    /// How many tasks fit. Exact when it is less than `want`.
    pub fn room(self, want: u32) -> u32 {
        let own = &self.ring.owner.0;
        let tail = own.tail.load(Relaxed);
        let room = own.full_at.get().wrapping_sub(tail);
        if room < want { self.look_for_room(tail) } else { room }
    }

    #[cold]
    #[inline(never)]
    fn look_for_room(self, tail: u32) -> u32 {
        let head = self.ring.head.0.load(ord("WQ4", Acquire)) as u32;
        let full_at = head.wrapping_add(CAP as u32);
        self.ring.owner.0.full_at.set(full_at);
        full_at.wrapping_sub(tail)
    }

    /// Takes the newest private task; `None` when the private part is empty (the public part may not be).
    ///
    /// `between` runs after `tail` has been lowered and before the intents are looked at. It must contain the light
    /// side of the barrier, and may publish and claim, but not push or pop.
    #[inline(always)]
    pub fn pop(self, between: impl FnOnce()) -> Option<*mut T> {
        let task = self.pop_or_null(between);
        (!task.is_null()).then_some(task)
    }

    /// [`Owner::pop`] for the innermost loop: null when the private part is empty.
    #[inline(always)]
    pub fn pop_or_null(self, between: impl FnOnce()) -> *mut T {
        let ring = self.ring;
        let at = ring.owner.0.tail.load(Relaxed).wrapping_sub(1);
        ring.owner.0.tail.store(at, ord("WQ2", Release));
        between();
        // Relaxed: the barrier is what orders this load; the slot was written by this thread.
        if reaches(at, Control(ring.control.0.load(Relaxed)).limit()) {
            let task = ring.slot(at).load(Relaxed);
            // SAFETY: tasks are pushed as pointers to something.
            unsafe { std::hint::assert_unchecked(!task.is_null()) };
            return task;
        }
        self.pop_contended(at)
    }

    #[cold]
    #[inline(never)]
    fn pop_contended(self, at: u32) -> *mut T {
        let ring = self.ring;
        loop {
            let seen = Control(ring.control.0.load(Relaxed));
            if reaches(at, seen.limit()) {
                return ring.slot(at).load(Relaxed);
            }
            if !reaches(at, seen.split()) {
                // Public, or there never was one. Relaxed: `tail` is back at `split`, there is nothing to publish
                // behind it.
                ring.owner.0.tail.store(at.wrapping_add(1), Relaxed);
                return null_mut();
            }
            // A thief means to publish this task and has not committed: take the intent away from it.
            let won = planted("wq_no_cancel") || ring.swing(seen, seen.calm(seen.split()), Relaxed);
            if won {
                return ring.slot(at).load(Relaxed);
            }
        }
    }

    /// Makes the oldest `k` private tasks (or all, if there are fewer) public; says how many. Withdraws an intent.
    pub fn publish(self, k: u32) -> u32 {
        loop {
            let seen = Control(self.ring.control.0.load(Relaxed));
            let k = k.min(span(seen.split(), self.ring.owner.0.tail.load(Relaxed)));
            if k == 0 {
                return 0;
            }
            let after = seen.calm(seen.split().wrapping_add(k));
            if planted("wq_publish_store") {
                self.ring.control.0.store(after.0, Release);
                return k;
            }
            if self.ring.swing(seen, after, ord("WQ8", Release)) {
                return k;
            }
        }
    }

    /// Tasks that only this thread, or a rescue, can reach.
    #[inline(always)]
    pub fn private_len(self) -> u32 {
        self.ring.private_hint()
    }
}
