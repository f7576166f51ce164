//! The ring of one worker: what waits in user space, what the kernel has, what has come back.
#![expect(unsafe_code, reason = "hands over entries with pointers, and drops or leaks the port")]

use super::caps::{Caps, IoDriver};
use super::open::{self, Opened, has};
use super::queue::Queue;
use crate::config::{EASE_MS, EASE_SHARE, LOOK_ROUNDS};
use crate::error::NoRing;
use crate::park::Parker;
use crate::sync::{Arc, Completion, Port, Stay, Woken};
use crate::sys::fork_generation;
use io_uring::squeue::Entry;
use std::collections::{HashSet, VecDeque};
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// Tags that are no operation's: of the poll of the bell, and of cancellations.
const BELL: u64 = u64::MAX;
const CANCELLED: u64 = u64::MAX - 1;

/// How long the kernel may have all that it may have before it is judged by what has completed.
const EASE: Duration = Duration::from_millis(EASE_MS);

/// How often those that are still there are cancelled again at the end.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a ring that is dropped with operations in flight waits for them before it is leaked.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// Something that goes ahead of the operations, and does not count as one.
enum Urgent {
    Cancel(u64),
    CancelAll,
}

/// A ring, used by the thread that opened it.
pub struct Ring {
    port: ManuallyDrop<Port>,
    /// Its bell is the one that the port polls.
    parker: Arc<Parker>,
    /// The poll of the bell is in.
    armed: bool,
    urgent: VecDeque<Urgent>,
    /// Operations that the kernel has not got, because it has enough.
    queue: Queue,
    /// Operations that the kernel has.
    sent: usize,
    /// How many it may have.
    cap: usize,
    /// It has all that it may have, and more wait.
    full: bool,
    /// Since when it was full, or was judged as such, and how many have ended since.
    judged: Option<Instant>,
    ended: usize,
    /// The tags of those that the kernel has, where it cannot be asked to cancel everything.
    tags: Option<HashSet<u64>>,
    /// Completions that nobody has been told of.
    done: VecDeque<Completion>,
    driver: IoDriver,
    operations: [u64; 4],
    generation: u32,
    counts: RingCounts,
}

/// What a ring has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Calls of `io_uring_enter`.
    pub enters: u64,
    /// Operations pushed.
    pub pushed: u64,
    /// Times the bell was heard.
    pub rung: u64,
    /// Times the poll of the bell was armed.
    pub armed: u64,
    /// Times the kernel had no room.
    pub refused: u64,
}

impl Ring {
    /// A ring for the calling thread, the owner of `parker`, with whatever of `caps` the kernel has.
    ///
    /// # Errors
    /// [`NoRing`] says what is missing. The parker keeps its bell.
    pub fn open(caps: &Caps, parker: &Arc<Parker>) -> Result<Ring, NoRing> {
        let bell = parker.hang_bell()?;
        let Opened { port, driver, operations, cancel_all } = open::open(caps, bell)?;
        let cap = port.completions() / 2;
        Ok(Ring {
            port: ManuallyDrop::new(port),
            parker: parker.clone(),
            armed: false,
            urgent: VecDeque::new(),
            queue: Queue::default(),
            sent: 0,
            cap,
            full: false,
            judged: None,
            ended: 0,
            tags: (!cancel_all).then(HashSet::new),
            done: VecDeque::new(),
            driver,
            operations,
            generation: fork_generation(),
            counts: RingCounts::default(),
        })
    }

    /// Whose bell it hears.
    pub fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// What it is.
    pub fn driver(&self) -> IoDriver {
        self.driver
    }

    /// What it has done.
    pub fn counts(&self) -> RingCounts {
        self.counts
    }

    /// The kernel knows the operation, `opcode::X::CODE`.
    pub fn supports(&self, code: u8) -> bool {
        has(&self.operations, code)
    }

    /// This is the child of a fork, which has no ring: its memory is not even mapped.
    pub fn forked(&self) -> bool {
        self.generation != fork_generation()
    }

    /// Queues an operation; it goes out with the next look or sleep. Its completions bring `tag` back, which is none
    /// of the two largest numbers. Never blocks.
    ///
    /// # Safety
    /// 1. What `entry` points at lives until its last completion ([`Completion::more`] is false).
    pub unsafe fn push(&mut self, entry: Entry, tag: u64) {
        debug_assert!(tag < CANCELLED, "a tag of the ring's own");
        self.counts.pushed += 1;
        self.queue.push(entry.user_data(tag));
    }

    /// The number of the next push, by which [`Ring::cancel`] finds it.
    pub fn turn(&self) -> u64 {
        self.queue.turn()
    }

    /// Asks for the end of an operation that was pushed at `turn`: it completes in any case, with ECANCELED or with
    /// what it was about to. It is asked for before anything that is pushed later goes out, so the tag may be used
    /// again once it has completed.
    pub fn cancel(&mut self, tag: u64, turn: u64) {
        if self.queue.take_out(turn, tag) {
            self.done.push_back(Completion { tag, result: -libc::ECANCELED, flags: 0 });
        } else {
            self.urgent.push_back(Urgent::Cancel(tag));
        }
    }

    /// Operations that have not completed, and completions that nobody has been told of.
    pub fn in_flight(&self) -> usize {
        self.queue.len() + self.sent + self.done.len()
    }

    /// The oldest completion that nobody has been told of.
    pub fn pop(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// Completions that nobody has been told of after all: they come before the others.
    pub fn put_back(&mut self, older: impl Iterator<Item = Completion>) {
        let newer = std::mem::take(&mut self.done);
        self.done.extend(older.chain(newer));
    }

    /// There are completions for [`Ring::pop`].
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// A look would find something, or hand something over. Costs no call.
    pub fn wants_look(&mut self) -> bool {
        if self.forked() {
            return false;
        }
        // With some that wait: or nobody would see that none of the others completes.
        !self.queue.is_empty()
            || !self.urgent.is_empty()
            || !self.done.is_empty()
            || self.port.unsent() != 0
            || self.port.has_news()
    }

    /// Operations that have not been handed over.
    pub fn unsent(&self) -> usize {
        self.queue.len()
    }

    /// Hands over what there is, and takes in what has completed, without waiting.
    pub fn look(&mut self) {
        if self.forked() {
            return;
        }
        self.ease();
        for _ in 0..LOOK_ROUNDS {
            self.take_in();
            self.fill();
            if self.port.unsent() == 0 && !self.port.withholds() || self.enter(Stay::No).is_none() {
                break;
            }
        }
        self.take_in();
    }

    /// Hands over what there is and sleeps until something has completed, somebody rings, or the time is over. False:
    /// the kernel has no room or the ring is broken, so that it did not sleep.
    #[must_use]
    pub fn wait(&mut self, limit: Option<Duration>) -> bool {
        if self.forked() {
            return false;
        }
        // A limit beyond what the clock can say is no limit.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        // Whoever rings from here on has found the owner in its ring: what is heard before the sleep is instead of it.
        let rung = self.counts.rung;
        loop {
            self.ease();
            self.fill();
            while self.has_more() {
                // More than the queue has room for.
                if self.enter(Stay::No).is_none() {
                    return false;
                }
                self.take_in();
                self.fill();
            }
            let heard = self.has_done() || self.counts.rung != rung;
            let slept = if heard { Some(Woken::Early) } else { self.enter(self.stay(deadline)) };
            self.take_in();
            for _ in 0..LOOK_ROUNDS {
                if !self.port.withholds() || self.enter(Stay::No).is_none() {
                    break;
                }
                self.take_in();
            }
            let Some(woken) = slept else { return false };
            // A signal and the end of a cancellation are nothing that anybody sleeps for.
            let news = self.has_done() || self.counts.rung != rung;
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if news || over || woken == Woken::Over && !self.full {
                return true;
            }
        }
    }

    /// Until the deadline; not so long that those who wait are forgotten.
    fn stay(&self, deadline: Option<Instant>) -> Stay {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match left {
            _ if self.full => Stay::AtMost(left.map_or(EASE, |left| left.min(EASE))),
            Some(left) => Stay::AtMost(left),
            None => Stay::Until,
        }
    }

    /// Something has to go out, the poll of the bell included, that the submission queue has no room for.
    fn has_more(&mut self) -> bool {
        let unarmed = !self.armed && self.port.unsent() != 0;
        unarmed || (!self.queue.is_empty() && self.sent < self.cap) || !self.urgent.is_empty()
    }

    /// Hardly any of what is in flight has completed for a while, and there are more that wait for room: what is in
    /// flight may wait for ever, so the kernel gets more. Should the completion queue be too small for all of them,
    /// the kernel keeps the rest.
    fn ease(&mut self) {
        if !self.full {
            self.judged = None;
            return;
        }
        let now = Instant::now();
        if let Some(judged) = self.judged {
            if now.duration_since(judged) < EASE {
                return;
            }
            if self.ended * EASE_SHARE < self.cap {
                self.cap *= 2;
            }
        }
        self.judged = Some(now);
        self.ended = 0;
    }

    /// Moves into the submission queue what it has room for.
    fn fill(&mut self) {
        let Ring { port, parker, armed, urgent, queue, sent, cap, counts, full, tags, .. } = self;
        let mut room = port.room();
        if !*armed && room != 0 {
            let Some(bell) = parker.bell() else { return };
            if counts.armed != 0 {
                // The poll ended because completions had no room. Whoever rang meanwhile is heard here.
                counts.rung += u64::from(bell.hush());
            }
            *armed = port.push_poll(bell, BELL);
            counts.armed += 1;
            room -= 1;
        }
        while room != 0
            && let Some(next) = urgent.pop_front()
        {
            match next {
                Urgent::Cancel(tag) => port.push_cancel(tag, CANCELLED),
                Urgent::CancelAll => port.push_cancel_all(CANCELLED),
            };
            room -= 1;
        }
        while room != 0
            && *sent < *cap
            && let Some(entry) = queue.pop()
        {
            push(port, &entry);
            if let Some(tags) = tags {
                tags.insert(entry.get_user_data());
            }
            *sent += 1;
            room -= 1;
        }
        *full = *sent >= *cap && !queue.is_empty();
    }

    /// One call. `None`: the kernel has no room now, or the ring is of no use.
    fn enter(&mut self, stay: Stay) -> Option<Woken> {
        self.counts.enters += 1;
        let entered = self.port.enter(stay);
        self.counts.refused += u64::from(entered.is_err());
        entered.ok()
    }

    /// Takes in what is in the completion queue.
    fn take_in(&mut self) {
        while let Some(completion) = self.port.pop() {
            match completion.tag {
                CANCELLED => {}
                BELL => {
                    self.counts.rung += 1;
                    self.armed &= completion.more();
                }
                _ => {
                    if !completion.more() {
                        self.sent -= 1;
                        self.ended += 1;
                        if let Some(tags) = &mut self.tags {
                            tags.remove(&completion.tag);
                        }
                    }
                    self.done.push_back(completion);
                }
            }
        }
    }

    /// The kernel has not come to an end with it: ring and memory stay for ever.
    pub fn leak(self) {
        let _leaked = ManuallyDrop::new(self);
    }

    /// Cancels everything and waits until nothing is in flight, at most for `limit`; `tell` gets every completion.
    /// False: the time is over. Then the kernel may still write to what it was given.
    pub fn drain(&mut self, limit: Duration, tell: &mut dyn FnMut(Completion)) -> bool {
        if self.forked() {
            return self.in_flight() == 0;
        }
        let deadline = Instant::now().checked_add(limit);
        loop {
            while let Some(entry) = self.queue.pop() {
                self.done.push_back(Completion { tag: entry.get_user_data(), result: -libc::ECANCELED, flags: 0 });
            }
            while let Some(completion) = self.pop() {
                tell(completion);
            }
            if self.in_flight() == 0 {
                return true;
            }
            let left = deadline.map_or(AGAIN, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            match &self.tags {
                _ if self.sent == 0 => {}
                Some(tags) => self.urgent.extend(tags.iter().copied().map(Urgent::Cancel)),
                None => self.urgent.push_back(Urgent::CancelAll),
            }
            if !self.wait(Some(left.min(AGAIN))) {
                std::thread::sleep(left.min(AGAIN));
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A child of a fork leaves the parent's ring alone. What is in flight may be written until it has completed:
        // closing the ring does not stop the kernel.
        if !self.forked() && self.drain(DROP_LIMIT, &mut |_| ()) {
            drop_port(&mut self.port);
        }
    }
}

fn push(port: &mut Port, entry: &Entry) {
    // SAFETY: 1 of `Ring::push`.
    let pushed = unsafe { port.push(entry) };
    debug_assert!(pushed, "there was room");
}

fn drop_port(port: &mut ManuallyDrop<Port>) {
    // SAFETY: called once, at the end of the destructor.
    unsafe { ManuallyDrop::drop(port) };
}
