//! Futures: see `scheduler/src/future/README.md`. The models run the real descriptor, with its polls, wakers, handle
//! and ends, in a home whose queue is one slot under a lock and whose memory is counted.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::future::block_on::Sleeper;
use scheduler::internals::future::{Head, Home, Joiner, Right, Way, cancel, retire, task};
use scheduler::internals::park::{Parker, Waiter};
use scheduler::internals::roll::{Place, Roll};
use scheduler::internals::sync::{Acquire, Arc, AtomicU32, AtomicUsize, Mutex, Racy, Relaxed, Release};
use scheduler::internals::task::raw::{Header, Job};
use scheduler::internals::task::waiting::Waiting;
use std::alloc::Layout;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::ptr::{NonNull, null};
use std::task::{Context, Poll, Waker};

/// A scheduler with a queue, and the roll of its first worker.
struct House {
    queue: Mutex<Vec<Queued>>,
    /// Where the first worker sleeps.
    parker: Arc<Parker>,
    /// Nothing is queued any more.
    closed: AtomicU32,
    roll: Roll<Header>,
    /// References that descriptors have left, and descriptors there are.
    kept: AtomicUsize,
    alive: AtomicUsize,
}

/// A right without its type.
struct Queued(NonNull<Head>, unsafe fn(NonNull<Head>));

// SAFETY: a right may be sent.
unsafe impl Send for Queued {}
// SAFETY: the queue is locked; the roll is used by its worker.
unsafe impl Send for House {}
// SAFETY: as above.
unsafe impl Sync for House {}

impl House {
    fn new() -> Arc<House> {
        Arc::new(House {
            queue: Mutex::new(Vec::new()),
            parker: Arc::new(Parker::new()),
            closed: AtomicU32::new(0),
            roll: Roll::new(),
            kept: AtomicUsize::new(0),
            alive: AtomicUsize::new(0),
        })
    }

    fn spawn<F: Future>(house: &Arc<House>, future: F) -> Joiner<F::Output> {
        house.alive.fetch_add(1, Relaxed);
        // SAFETY: the house outlives the future.
        let (right, head) = unsafe { task::<F, Model>(future, Arc::as_ptr(house).cast()) };
        house.push(right);
        // SAFETY: the handle's reference.
        unsafe { Joiner::new(head) }
    }

    fn push<F: Future>(&self, right: Right<F, Model>) {
        /// # Safety
        /// Of `Queued`.
        unsafe fn run<F: Future>(head: NonNull<Head>) {
            // SAFETY: queued with its type, and used once.
            unsafe { Right::<F, Model>::from_head(head) }.run();
        }
        let right = std::mem::ManuallyDrop::new(right);
        self.queue.lock().unwrap().push(Queued(right.head(), run::<F>));
        self.parker.unpark();
    }

    /// Runs what is queued, if there is something.
    fn run_one(&self) -> bool {
        let first = self.queue.lock().unwrap().pop();
        // SAFETY: each right once.
        first.map(|Queued(head, run)| unsafe { run(head) }).is_some()
    }

    /// The first worker, until `done`: who makes it true unparks.
    fn work(&self, done: impl Fn() -> bool) {
        while !done() {
            if !self.run_one() {
                let _ = self.parker.park(None);
            }
        }
    }

    /// The end of the first worker.
    fn end(&self) {
        self.closed.store(1, Release);
        while self.run_one() {}
        // SAFETY: taken out of the roll of this house.
        let end = |entry: NonNull<Header>| unsafe { retire::<Model>(entry.cast()) };
        // SAFETY: the worker, at its end.
        unsafe { self.roll.drain(end) };
    }

    /// Everything is over: nothing may be left.
    fn check(&self) {
        assert!(self.queue.lock().unwrap().is_empty());
        assert_eq!((self.kept.load(Relaxed), self.alive.load(Relaxed)), (0, 0), "kept, alive");
        GRAVES.with_borrow_mut(|graves| {
            for (memory, layout) in graves.drain(..) {
                // SAFETY: allocated with this layout, and all threads of the model are over.
                unsafe { std::alloc::dealloc(memory, layout) };
            }
        });
    }
}

thread_local! {
    /// Memory that was given back: poisoned, and kept until the model is over. Threads of a model are coroutines of one
    /// thread.
    static GRAVES: RefCell<Vec<(*mut u8, Layout)>> = const { RefCell::new(Vec::new()) };
    static HOUSE: Cell<*const House> = const { Cell::new(null()) };
}

struct Model;

fn house<'a>(home: *const ()) -> &'a House {
    // SAFETY: the house outlives what lives in it.
    unsafe { &*home.cast::<House>() }
}

impl Home for Model {
    unsafe fn schedule<F: Future>(home: *const (), right: Right<F, Self>, _: Way) {
        let house = house(home);
        if house.closed.load(Acquire) != 0 { drop(right) } else { house.push(right) }
    }
    unsafe fn list(home: *const (), entry: NonNull<Header>) -> *const Place<Header> {
        // SAFETY: the first worker's.
        unsafe { house(home).roll.enter(entry) }
    }
    fn cancel(head: NonNull<Head>) -> Option<Box<dyn Any + Send>> {
        // SAFETY: the right that is dropped.
        unsafe { cancel(head) }
    }
    unsafe fn keep(home: *const ()) {
        house(home).kept.fetch_add(1, Relaxed);
    }
    unsafe fn let_go(home: *const ()) {
        house(home).kept.fetch_sub(1, Relaxed);
    }
    fn allocate(layout: Layout) -> NonNull<u8> {
        // SAFETY: not empty.
        NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap()
    }
    unsafe fn release(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: what lives there, the house, is told.
        let home = unsafe { &*HOUSE.get() };
        home.alive.fetch_sub(1, Relaxed);
        // SAFETY: nobody uses it any more: whoever does, stumbles.
        unsafe { memory.as_ptr().write_bytes(0xee, layout.size()) };
        GRAVES.with_borrow_mut(|graves| graves.push((memory.as_ptr(), layout)));
    }
}

/// What the futures of a model wait for.
#[derive(Default)]
struct Gate {
    /// Set, one bit each, by whoever wakes, before it does.
    bits: AtomicU32,
    wakers: Mutex<Vec<Waker>>,
}

/// Ready when all bits of `wanted` are set. Checks that it is polled by one at a time, and dropped after that.
struct Waits {
    gate: Arc<Gate>,
    wanted: u32,
    /// Wakers to hand out at the first poll.
    wakers: usize,
    body: Racy<u32>,
    dropped: Arc<AtomicU32>,
}

impl Waits {
    fn new(gate: &Arc<Gate>, wanted: u32, wakers: usize) -> (Waits, Arc<AtomicU32>) {
        let dropped = Arc::new(AtomicU32::new(0));
        let waits = Waits { gate: gate.clone(), wanted, wakers, body: Racy::new(0), dropped: dropped.clone() };
        (waits, dropped)
    }

    fn touch(&self) -> u32 {
        // SAFETY: the poller's, or who drops it; loom checks it.
        let body = |body: *mut u32| unsafe { &mut *body };
        self.body.with(|at| {
            let body = body(at);
            *body += 1;
            *body
        })
    }
}

impl Future for Waits {
    /// Leak-checked, and its content ordered by the task.
    type Output = Arc<Racy<u32>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.touch() == 1 {
            let more = (0..self.wakers).map(|_| context.waker().clone());
            self.gate.wakers.lock().unwrap().extend(more);
        }
        // What the poll leaves behind comes after the wakers are out.
        self.touch();
        if self.gate.bits.load(Relaxed) != self.wanted {
            return Poll::Pending;
        }
        let output = Arc::new(Racy::new(0));
        // SAFETY: not shared yet.
        output.with(|value| unsafe { *value = 7 });
        Poll::Ready(output)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.touch();
        assert_eq!(self.dropped.fetch_add(1, Relaxed), 0, "dropped twice");
    }
}

impl Gate {
    /// A thread that takes a waker out, opens, and wakes: by value, or by reference.
    fn opener(gate: &Arc<Gate>, bit: u32, by_ref: bool) -> thread::JoinHandle<()> {
        let gate = gate.clone();
        thread::spawn(move || {
            let waker = gate.take();
            gate.bits.fetch_or(bit, Relaxed);
            if by_ref {
                waker.wake_by_ref();
                drop(waker);
            } else {
                waker.wake();
            }
        })
    }

    fn take(&self) -> Waker {
        loop {
            let waker = self.wakers.lock().unwrap().pop();
            match waker {
                Some(waker) => return waker,
                None => thread::yield_now(),
            }
        }
    }
}

/// A house and a gate. `wakers` are handed out at the first poll; the main thread is the first worker.
fn in_a_house(name: &str, bound: usize, floor: u64, body: impl Fn(&Arc<House>, &Arc<Gate>) + Send + Sync + 'static) {
    model(name, Some(bound), floor, move || {
        let house = House::new();
        HOUSE.set(Arc::as_ptr(&house));
        let gate = Arc::new(Gate::default());
        body(&house, &gate);
        gate.wakers.lock().unwrap().clear();
        house.check();
    });
}

/// The first worker polls; its future is ready when the bits are set; the output is taken by the main thread.
fn joined(house: &Arc<House>, joiner: Joiner<Arc<Racy<u32>>>) {
    house.work(|| joiner.is_complete());
    let output = joiner.take().expect("ready");
    // SAFETY: the handle's; loom checks it.
    output.with(|value| unsafe { assert_eq!(*value, 7) });
}

/// Two wakers: the poll that sees the second wake sees what came before it, although nothing was queued for it.
#[test]
fn two_wakers() {
    in_a_house("futures::two_wakers", 2, 100, |house, gate| {
        let (waits, _) = Waits::new(gate, 3, 2);
        let joiner = House::spawn(house, waits);
        assert!(house.run_one());
        let openers = [Gate::opener(gate, 1, true), Gate::opener(gate, 2, false)];
        joined(house, joiner);
        openers.into_iter().for_each(|opener| opener.join().unwrap());
    });
}

/// A second worker polls what the first has left.
#[test]
fn two_runners() {
    in_a_house("futures::two_runners", 3, 50, |house, gate| {
        let (waits, _) = Waits::new(gate, 1, 1);
        let joiner = House::spawn(house, waits);
        let opener = Gate::opener(gate, 1, false);
        let second = {
            let house = house.clone();
            thread::spawn(move || _ = house.run_one() || house.run_one())
        };
        house.run_one();
        opener.join().unwrap();
        second.join().unwrap();
        joined(house, joiner);
    });
}

/// The handle waits on a thread of its own.
#[test]
fn join_waits() {
    in_a_house("futures::join_waits", 3, 50, |house, gate| {
        let (waits, _) = Waits::new(gate, 0, 0);
        let joiner = House::spawn(house, waits);
        let handle = thread::spawn(move || {
            let parker = Arc::new(Parker::new());
            if joiner.register(Waiting::Thread(Waiter::new(&parker))) {
                while !joiner.is_complete() {
                    let _ = parker.park(None);
                }
            }
            let output = joiner.take().expect("ready");
            // SAFETY: the handle's; loom checks it.
            output.with(|value| unsafe { assert_eq!(*value, 7) });
        });
        assert!(house.run_one());
        handle.join().unwrap();
    });
}

/// The handle registers, thinks better of it, and goes.
#[test]
fn detached_while_it_completes() {
    in_a_house("futures::detached_while_it_completes", 3, 20, |house, gate| {
        let (waits, dropped) = Waits::new(gate, 0, 0);
        let joiner = House::spawn(house, waits);
        let handle = thread::spawn(move || {
            let _ = joiner.register(Waiting::Thread(Waiter::new(&Arc::new(Parker::new()))));
            drop(joiner);
        });
        assert!(house.run_one());
        handle.join().unwrap();
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

/// Aborted while it is queued, polled or pending: it ends once, and the join says how.
#[test]
fn aborted() {
    in_a_house("futures::aborted", 3, 50, |house, gate| {
        let (waits, dropped) = Waits::new(gate, 1, 1);
        let joiner = House::spawn(house, waits);
        let over = Arc::new(AtomicU32::new(0));
        let handle = {
            let (house, over, dropped) = (house.clone(), over.clone(), dropped.clone());
            thread::spawn(move || {
                joiner.abort();
                let parker = Arc::new(Parker::new());
                if joiner.register(Waiting::Thread(Waiter::new(&parker))) {
                    while !joiner.is_complete() {
                        let _ = parker.park(None);
                    }
                }
                assert!(joiner.take().is_err());
                assert_eq!(dropped.load(Relaxed), 1, "dropped before the join returns");
                over.store(1, Release);
                house.parker.unpark();
            })
        };
        house.work(|| over.load(Acquire) == 1);
        handle.join().unwrap();
    });
}

/// Aborted before anybody polled it, it never is.
#[test]
fn aborted_before_it_began() {
    in_a_house("futures::aborted_before_it_began", 3, 1, |house, gate| {
        let (waits, dropped) = Waits::new(gate, 0, 0);
        let joiner = House::spawn(house, waits);
        assert!(joiner.abort());
        assert!(house.run_one() && joiner.take().is_err());
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

/// Nobody asks for it, and its last waker goes: it is dropped, wherever it was when that happened.
#[test]
fn forgotten() {
    in_a_house("futures::forgotten", 3, 50, |house, gate| {
        let (waits, dropped) = Waits::new(gate, 1, 1);
        let joiner = House::spawn(house, waits);
        let forgetter = {
            let (gate, house) = (gate.clone(), house.clone());
            thread::spawn(move || {
                drop(gate.take());
                house.parker.unpark();
            })
        };
        drop(joiner);
        house.work(|| dropped.load(Relaxed) == 1);
        forgetter.join().unwrap();
    });
}

/// The worker ends while somebody wakes: the future ends once, on either thread, and whoever needs the scheduler has
/// it.
#[test]
fn retired_while_woken() {
    in_a_house("futures::retired_while_woken", 3, 50, |house, gate| {
        let (waits, dropped) = Waits::new(gate, 1, 2);
        let joiner = House::spawn(house, waits);
        let opener = Gate::opener(gate, 1, true);
        assert!(house.run_one());
        house.end();
        opener.join().unwrap();
        while house.run_one() {}
        assert!(joiner.is_complete());
        drop(joiner);
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

/// Another worker polls it last, and rests; the first one ends.
#[test]
fn retired_after_another_poll() {
    in_a_house("futures::retired_after_another_poll", 3, 20, |house, gate| {
        let (waits, dropped) = Waits::new(gate, 3, 2);
        let joiner = House::spawn(house, waits);
        assert!(house.run_one());
        gate.take().wake();
        let second = {
            let house = house.clone();
            thread::spawn(move || house.run_one())
        };
        house.end();
        second.join().unwrap();
        while house.run_one() {}
        drop(joiner);
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

/// A thread that polls by itself: two wakers, and no wake is lost, nor what it tells.
#[test]
fn block_on_is_woken() {
    model("futures::block_on_is_woken", Some(3), 100, || {
        let parker = Arc::new(Parker::new());
        let sleeper = Sleeper::new(parker.clone());
        let bits = Arc::new(AtomicU32::new(0));
        let wakers = [1, 2].map(|bit| {
            let (waker, bits) = (Waker::from(sleeper.clone()), bits.clone());
            thread::spawn(move || {
                bits.fetch_or(bit, Relaxed);
                waker.wake();
            })
        });
        loop {
            sleeper.take();
            if bits.load(Relaxed) == 3 {
                break;
            }
            while !sleeper.is_woken() {
                let _ = parker.park(None);
            }
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("two_wakers", "FU1"),
        ("two_wakers", "FU2"),
        ("two_runners", "FU3"),
        ("join_waits", "FU4:rel"),
        ("join_waits", "FU4:acq"),
        ("join_waits", "FU5"),
        ("join_waits", "FU6"),
        ("two_wakers", "FU7:acq"),
        ("two_wakers", "FU7:rel"),
        ("detached_while_it_completes", "FU8"),
        ("detached_while_it_completes", "FU10"),
        ("retired_after_another_poll", "FU9:acq"),
        ("block_on_is_woken", "FU11"),
        ("block_on_is_woken", "FU12"),
        ("block_on_is_woken", "sleeper-store"),
        ("two_wakers", "future-wake-load"),
        ("two_wakers", "future-deaf-rest"),
        ("aborted_before_it_began", "future-deaf-start"),
        ("forgotten", "future-forgotten"),
        ("retired_while_woken", "roll-strike-by-store"),
    ]);
}
