//! The place of a worker's ring: when it is opened, looked at, slept in and closed. Events R1 to R6 of the README.
#![expect(unsafe_code, reason = "items of its inbox")]

use super::context::{Context, current};
use super::shared::Shared;
use crate::config::{IO_END_MS, IO_RETRY_MS, LOOK_US, STREAK};
use crate::driver::{Completion, IoDriver, Item, Left, Ring};
use crate::error::NoRing;
use crate::park::{Parked, Parker};
use crate::phase::Phase;
use crate::sync::{Arc, MutexGuard, Relaxed, planted};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::time::Duration;

/// What the thread that serves a worker's ring has for whoever is the worker meanwhile.
#[derive(Default)]
pub struct Mail {
    done: VecDeque<Completion>,
    left: VecDeque<Left>,
}

impl Mail {
    fn is_empty(&self) -> bool {
        self.done.is_empty() && self.left.is_empty()
    }
}

/// The owner's half of a worker's I/O.
pub(super) struct Wires {
    ring: RefCell<Slot>,
    /// Somebody else is this worker meanwhile: the thread that opened the ring serves it, for as long as that lasts.
    pub(super) servant: RefCell<Option<Arc<Parker>>>,
}

enum Slot {
    Untried,
    Open(Box<Ring>),
    /// There is none, or there is none any more.
    None,
}

impl Slot {
    fn ring(&mut self) -> Option<&mut Ring> {
        match self {
            Slot::Open(ring) if !ring.forked() => Some(ring),
            _ => None,
        }
    }
}

impl Wires {
    /// With the ring that was opened already, or none yet.
    pub(super) fn new(ring: Option<Ring>) -> Self {
        let slot = ring.map_or(Slot::Untried, |ring| Slot::Open(Box::new(ring)));
        Wires { ring: RefCell::new(slot), servant: RefCell::new(None) }
    }

    /// The calling thread is not the one that opened the ring.
    fn lent(&self) -> bool {
        self.servant.borrow().is_some()
    }
}

/// See [`Context::with_ring`], for the calling thread.
pub fn with_ring<R>(f: impl FnOnce(&mut Ring) -> R) -> Option<R> {
    current().and_then(|context| context.with_ring(f))
}

impl Context {
    /// Runs `f` with the ring of this worker, opened now if it was not. `None`: it has none, or is running on a thread
    /// that stands in for its own; others have rings, see [`Shared::post`]. Inside of `f` there is no other ring to be
    /// had: it pushes, cancels and asks, and wakes nobody.
    pub fn with_ring<R>(&self, f: impl FnOnce(&mut Ring) -> R) -> Option<R> {
        if self.wires.lent() {
            return None;
        }
        let mut slot = self.wires.ring.borrow_mut();
        self.opened(&mut slot).map(f)
    }

    /// The ring, opened if nobody has tried.
    fn opened<'a>(&self, slot: &'a mut Slot) -> Option<&'a mut Ring> {
        if let Slot::Untried = slot
            && !self.shared.forked()
        {
            *slot = self.open();
        }
        slot.ring()
    }

    #[cold]
    fn open(&self) -> Slot {
        let shared = &self.shared;
        let opened =
            if shared.rings { Ring::open(&shared.tuning.io, &self.me().parker) } else { Err(NoRing::Unwanted) };
        let (slot, driver) = match opened {
            Ok(ring) => {
                let driver = ring.driver();
                (Slot::Open(Box::new(ring)), driver)
            }
            Err(why) => (Slot::None, IoDriver::Epoll(why)),
        };
        let _ = self.me().io.set(driver);
        // Relaxed: read by this worker; others go by their inboxes.
        shared.wired.store(true, Relaxed);
        slot
    }

    /// R1: looks at inbox and ring, hands over what there is, and tells whoever waited for what has completed. True:
    /// somebody was told, so there may be tasks in the own queue.
    #[cold]
    pub(super) fn keep_io(&self) -> bool {
        self.serve_inbox();
        if self.wires.lent() {
            self.serve_left();
            return self.tell(|| self.mail().done.pop_front());
        }
        if let Slot::Open(ring) = &mut *self.wires.ring.borrow_mut()
            && ring.wants_look()
        {
            ring.look();
            self.count(ring);
        }
        self.tell(|| match &mut *self.wires.ring.borrow_mut() {
            Slot::Open(ring) => ring.pop(),
            _ => None,
        })
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.me().mail.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What the servant of the ring has left to do. Foreign code: the mail is not locked.
    pub(super) fn serve_left(&self) {
        while let Some(Left(item)) = { self.mail().left.pop_front() } {
            // SAFETY: left by a call with the ring.
            unsafe { Item::end(item) };
        }
    }

    /// Foreign code: the ring is not borrowed.
    fn tell(&self, mut next: impl FnMut() -> Option<Completion>) -> bool {
        let mut told = 0;
        while let Some(completion) = next() {
            (self.shared.complete)(completion);
            told += 1;
        }
        self.me().counters.0.completions.add(told);
        told != 0
    }

    fn count(&self, ring: &Ring) {
        let counts = ring.counts();
        self.me().counters.0.enters.set(counts.enters);
        self.me().counters.0.operations.set(counts.pushed);
    }

    /// What others want of the ring.
    fn serve_inbox(&self) {
        if self.me().inbox.is_empty() {
            return;
        }
        if let Some(servant) = &*self.wires.servant.borrow()
            && !matches!(self.me().io.get(), Some(IoDriver::Epoll(_)))
        {
            servant.unpark();
            return;
        }
        for item in self.me().inbox.take() {
            // SAFETY: taken out.
            let left = self.with_ring(|ring| unsafe { Item::serve(item, Some(ring)) }).unwrap_or(Some(item));
            // Foreign code: the ring is not borrowed.
            // SAFETY: taken out and not served, or left.
            left.into_iter().for_each(|item| unsafe { Item::end(item) });
        }
    }

    /// R2: a sleep would hide something, so it must not begin: it is looked at first.
    pub(super) fn io_waits(&self) -> bool {
        if self.wires.lent() {
            // The servant looks at the inbox, and unparks this worker.
            self.serve_inbox();
            return !self.mail().is_empty();
        }
        let inbox = !self.me().inbox.is_empty() && !planted("park-no-inbox");
        inbox || matches!(&*self.wires.ring.borrow(), Slot::Open(ring) if ring.has_done())
    }

    /// R3: sleeps where it hears of everything that it waits for: on the futex, or, with operations in flight, in the
    /// ring.
    pub(super) fn sleep(&self, limit: Option<Duration>) -> Parked {
        let parker = &self.me().parker;
        if !self.shared.wired.load(Relaxed) || self.wires.lent() || planted("io-futex-only") {
            return parker.park(limit);
        }
        match &mut *self.wires.ring.borrow_mut() {
            Slot::Open(ring) if ring.in_flight() != 0 && !ring.forked() => self.sleep_in(ring, parker, limit),
            _ => parker.park(limit),
        }
    }

    fn sleep_in(&self, ring: &mut Ring, parker: &Parker, limit: Option<Duration>) -> Parked {
        if !parker.enter_ring() {
            return Parked::Notified;
        }
        self.me().counters.0.ring_parks.add(1);
        let rung = ring.counts().rung;
        let slept = ring.wait(limit);
        self.count(ring);
        let parked = parker.leave_ring();
        if parked == Parked::TimedOut && !slept && !ring.has_done() {
            // The kernel has no room: it would not sleep the next time either.
            let retry = Duration::from_millis(IO_RETRY_MS);
            return parker.park(Some(limit.map_or(retry, |limit| limit.min(retry))));
        }
        // The bell may be late for a token that was used up already; then, and after a completion, time is not over.
        if ring.has_done() || ring.counts().rung != rung { Parked::Notified } else { parked }
    }

    /// R4: how many tasks may run before the next look: as many as last for [`LOOK_US`], by what they have taken
    /// lately, and at least one.
    #[cold]
    pub(super) fn streak_between_looks(&self) -> u32 {
        let tasks = LOOK_US * 1000 / self.mean_ns.get().max(1);
        tasks.clamp(1, u64::from(STREAK)) as u32
    }

    /// R5, on the thread that opened the ring, while another one is this worker: serves the ring until `over`, on
    /// whose parker it sleeps; what completes, or is left of items, goes to the worker's mail.
    pub(super) fn serve_ring(&self, parker: &Arc<Parker>, over: &dyn Fn() -> bool) {
        let mut slot = self.wires.ring.borrow_mut();
        while !over() {
            let wanted = !self.me().inbox.is_empty() && self.me().io.get().is_none();
            let ring = if wanted { self.opened(&mut slot) } else { slot.ring() };
            let Some(ring) = ring else {
                if wanted {
                    // It has none, and serves its inbox itself.
                    self.me().parker.unpark();
                }
                let _ = parker.park(None);
                continue;
            };
            if parker.bell().is_none() {
                parker.share_bell(&self.me().parker);
            }
            // SAFETY: taken out.
            let serve = |item| unsafe { Item::serve(item, Some(&mut *ring)) };
            let left: VecDeque<_> = self.me().inbox.take().filter_map(serve).map(Left).collect();
            ring.look();
            let mut mail = self.mail();
            let before = (mail.done.len(), mail.left.len());
            mail.left.extend(left);
            mail.done.extend(std::iter::from_fn(|| ring.pop()));
            let new = (mail.done.len(), mail.left.len()) != before;
            drop(mail);
            if new {
                self.me().parker.unpark();
            }
            if ring.in_flight() == 0 {
                let _ = parker.park(None);
            } else if parker.enter_ring() {
                let slept = ring.wait(None);
                if parker.leave_ring() == Parked::TimedOut && !slept {
                    let _ = parker.park(Some(Duration::from_millis(IO_RETRY_MS)));
                }
            }
        }
        // What the other thread has not read any more is told by this one.
        if let Slot::Open(ring) = &mut *slot {
            ring.put_back(self.mail().done.drain(..));
        }
    }

    /// R6: the worker ends. Nothing comes in any more; everything is cancelled, and told; what does not end in time is
    /// leaked with its ring.
    pub fn end_io(&self) {
        let slot = self.wires.ring.replace(Slot::None);
        for item in self.me().inbox.close() {
            // SAFETY: taken out. Without the ring: nothing begins any more, and what is in it is cancelled anyway.
            unsafe { Item::end(item) };
        }
        if let Slot::Open(mut ring) = slot {
            let limit = Duration::from_millis(IO_END_MS);
            let ended = ring.drain(limit, &mut |completion| (self.shared.complete)(completion));
            self.count(&ring);
            if !ended {
                self.me().counters.0.leaked.add(ring.in_flight() as u64);
                ring.leak();
            }
        }
    }
}

impl Shared {
    /// This is the child of a fork, where nobody is a worker.
    pub fn forked(&self) -> bool {
        self.phase.get() == Phase::Forked
    }

    /// Hands `item` to a worker that has a ring, or has not tried yet, each in turn. Any thread.
    ///
    /// # Errors
    /// There is none, or this is the child of a fork: the item is the caller's again.
    ///
    /// # Safety
    /// 1. As for [`Inbox::push`](crate::driver::Inbox::push).
    pub unsafe fn post(&self, mut item: NonNull<Item>) -> Result<(), NonNull<Item>> {
        let count = self.workers.len();
        // Relaxed: any order is as good.
        let first = self.next_ring.fetch_add(1, Relaxed);
        for index in (0..count).map(|step| first.wrapping_add(step) % count) {
            if matches!(self.workers[index].io.get(), Some(IoDriver::Epoll(_))) {
                continue;
            }
            // SAFETY: 1.
            match unsafe { self.post_to(index, item) } {
                Ok(()) => return Ok(()),
                Err(back) => item = back,
            }
        }
        Err(item)
    }

    /// Hands `item` to worker `index`. Any thread.
    ///
    /// # Errors
    /// The worker has ended, or is not in this process: the item is the caller's again.
    ///
    /// # Safety
    /// 1. As for [`Inbox::push`](crate::driver::Inbox::push).
    pub unsafe fn post_to(&self, index: usize, item: NonNull<Item>) -> Result<(), NonNull<Item>> {
        if self.forked() {
            return Err(item);
        }
        if !self.wired.load(Relaxed) {
            // Relaxed: before the token, behind which its owner reads it; whoever is up reads it a little later.
            self.wired.store(true, Relaxed);
        }
        // SAFETY: 1.
        unsafe { self.workers[index].inbox.push(item) }?;
        self.unpark(index);
        Ok(())
    }
}
