//! The nodes of operations: see `scheduler/src/io/README.md`. The real futures, and a driver of the model's own.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::future::budget;
use scheduler::internals::io::edge::Edge;
use scheduler::internals::io::node::{Operation, Request, Right};
use scheduler::internals::io::op::Op;
use scheduler::internals::sync::{Arc, AtomicU32, Mutex, Racy, Relaxed};
use std::alloc::{Layout, alloc, dealloc};
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

/// What happens in one interleaving.
struct World {
    /// What waits to be begun, and requests to cancel.
    inbox: Mutex<(Option<Right>, Option<Request>)>,
    /// Memory that the kernel writes, and how often it was begun, given up, and taken.
    memory: Racy<u32>,
    begun: AtomicU32,
    ignored: AtomicU32,
    wakes: AtomicU32,
}

// SAFETY: loom checks `memory`.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.wakes.fetch_add(1, Relaxed);
    }
}

struct Woken(Arc<World>);

loom::lazy_static! {
    static ref WORLD: Mutex<Option<Arc<World>>> = Mutex::new(None);
}

fn world() -> Arc<World> {
    // What another interleaving has left of it is no matter of this one.
    budget::begin();
    let world = Arc::new(World {
        inbox: Mutex::new((None, None)),
        memory: Racy::new(0),
        begun: AtomicU32::new(0),
        ignored: AtomicU32::new(0),
        wakes: AtomicU32::new(0),
    });
    *WORLD.lock().unwrap() = Some(world.clone());
    world
}

fn here() -> Arc<World> {
    WORLD.lock().unwrap().as_ref().expect("a world").clone()
}

/// Writes to its memory, and returns what is there.
struct Write(Arc<World>);

impl Operation for Write {
    type Output = i32;
    fn run(&mut self) -> i32 {
        self.0.begun.fetch_add(1, Relaxed);
        // SAFETY: the operation's; loom knows better.
        self.0.memory.with(|memory| unsafe { *memory += 1 });
        7
    }
    fn output(self, result: i32) -> i32 {
        // SAFETY: as above.
        self.0.memory.with(|memory| unsafe { *memory += 1 });
        result
    }
    fn ignored(self, _: i32) {
        // SAFETY: as above.
        self.0.memory.with(|memory| unsafe { *memory += 1 });
        self.0.ignored.fetch_add(1, Relaxed);
    }
    fn send(right: Right) {
        here().inbox.lock().unwrap().0 = Some(right);
    }
    fn cancel(request: Request) {
        // Whom to ask is known.
        assert!(request.seat().is_none());
        here().inbox.lock().unwrap().1 = Some(request);
    }
    fn allocate(layout: Layout) -> NonNull<u8> {
        // SAFETY: a node is not empty.
        NonNull::new(unsafe { alloc(layout) }).expect("memory")
    }
    unsafe fn release(memory: NonNull<u8>, layout: Layout) {
        // Whoever looks at it again sees that.
        // SAFETY: the caller's promise.
        unsafe { memory.write_bytes(0x5a, layout.size()) };
        // SAFETY: as above.
        unsafe { dealloc(memory.as_ptr(), layout) };
    }
}

fn poll(op: &mut Op<Write>, world: &Arc<World>) -> Poll<i32> {
    let waker = Waker::from(std::sync::Arc::new(Woken(world.clone())));
    Pin::new(op).poll(&mut Context::from_waker(&waker))
}

/// A future that was polled once, and the right to do its operation.
fn begun(world: &Arc<World>) -> (Op<Write>, Right) {
    let mut op = Op::new(Write(world.clone()));
    assert!(poll(&mut op, world).is_pending());
    let right = world.inbox.lock().unwrap().0.take().expect("sent");
    (op, right)
}

fn end(world: &Arc<World>) {
    *WORLD.lock().unwrap() = None;
    // SAFETY: as above; everybody else is through.
    let _end = world.memory.with(|memory| unsafe { *memory });
}

/// The future is polled again, with another waker each time, while the driver completes.
#[test]
fn done_while_it_is_awaited() {
    model("io::done_while_it_is_awaited", Some(3), 10, || {
        let world = world();
        let (mut op, right) = begun(&world);
        let driver = thread::spawn(move || right.run());
        let mut result = poll(&mut op, &world);
        if result.is_pending() {
            result = poll(&mut op, &world);
        }
        if result.is_ready() {
            // Frees the node, or leaves that to the driver.
            drop(op);
            driver.join().unwrap();
        } else {
            driver.join().unwrap();
            assert!(world.wakes.load(Relaxed) >= 1, "nobody was woken");
            result = poll(&mut op, &world);
        }
        assert_eq!((result, world.ignored.load(Relaxed)), (Poll::Ready(7), 0));
        end(&world);
    });
}

/// The future is dropped while the operation waits for its turn, or is being done by somebody who cannot be
/// interrupted.
#[test]
fn dropped_in_the_queue() {
    model("io::dropped_in_the_queue", Some(3), 5, || {
        let world = world();
        let (op, right) = begun(&world);
        let driver = thread::spawn(move || right.run());
        drop(op);
        driver.join().unwrap();
        drop(world.inbox.lock().unwrap().1.take());
        assert_eq!(world.ignored.load(Relaxed), 1);
        end(&world);
    });
}

/// Not begun when the future went: it is never done.
#[test]
fn dropped_before_its_turn() {
    model("io::dropped_before_its_turn", Some(3), 1, || {
        let world = world();
        let (op, right) = begun(&world);
        drop(op);
        let driver = thread::spawn(move || right.run());
        driver.join().unwrap();
        assert_eq!((world.begun.load(Relaxed), world.ignored.load(Relaxed)), (0, 1));
        end(&world);
    });
}

/// The future is dropped on one thread; the owner of the ring completes the operation, and meets the request to cancel
/// before or after that, or sees it not at all.
#[test]
fn dropped_remotely() {
    model("io::dropped_remotely", Some(3), 10, || {
        let world = world();
        let (op, right) = begun(&world);
        let owner = {
            let world = world.clone();
            thread::spawn(move || {
                let wanted = right.start(None);
                let look = |request: Option<Request>, done: bool| {
                    if let Some(request) = request {
                        // What the kernel is asked about is there, and is what it was.
                        assert_eq!((request.is_wanted(), request.seat().is_none()), (!done, true));
                    }
                };
                let request = world.inbox.lock().unwrap().1.take();
                look(request, false);
                right.complete(if wanted { 7 } else { -libc_ecanceled() });
                let request = world.inbox.lock().unwrap().1.take();
                look(request, true);
            })
        };
        drop(op);
        owner.join().unwrap();
        drop(world.inbox.lock().unwrap().1.take());
        assert_eq!(world.ignored.load(Relaxed), 1);
        end(&world);
    });
}

/// An edge comes at any moment of a wait: before the look, between look and wait, after it, by the reactor or by the
/// end of a receive. Whoever waits is told, or sees it.
fn edge(by_wake: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = world();
        let edge = std::sync::Arc::<Edge>::default();
        let raiser = {
            let (edge, world) = (edge.clone(), world.clone());
            thread::spawn(move || {
                world.begun.store(1, Relaxed);
                if by_wake {
                    Waker::from(edge).wake();
                } else {
                    edge.raise(&mut Vec::new());
                }
            })
        };
        let waker = Waker::from(std::sync::Arc::new(Woken(world.clone())));
        let (mut place, mut raiser) = (None, Some(raiser));
        loop {
            let ticks = edge.ticks();
            if world.begun.load(Relaxed) == 1 {
                break;
            }
            if edge.wait(ticks, &mut place, &waker) {
                raiser.take().expect("one wait is enough").join().unwrap();
                assert_eq!(world.wakes.load(Relaxed), 1, "nobody was woken");
            }
        }
        place.into_iter().for_each(|place| edge.forget(place));
        raiser.into_iter().for_each(|raiser| raiser.join().unwrap());
        drop(waker);
        end(&world);
    }
}

#[test]
fn edge_of_the_reactor() {
    model("io::edge_of_the_reactor", Some(3), 5, edge(false));
}

#[test]
fn edge_of_a_receive() {
    model("io::edge_of_a_receive", Some(3), 5, edge(true));
}

fn libc_ecanceled() -> i32 {
    125
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("dropped_remotely", "IO1"),
        ("dropped_remotely", "IO2:acq"),
        ("dropped_in_the_queue", "IO2:rel"),
        ("done_while_it_is_awaited", "IO3:rel"),
        ("done_while_it_is_awaited", "IO3:acq"),
        ("done_while_it_is_awaited", "IO4"),
        ("done_while_it_is_awaited", "IO5"),
        ("done_while_it_is_awaited", "IO6:acq"),
        ("dropped_remotely", "IO6:rel"),
        ("edge_of_the_reactor", "edge-no-tick"),
        ("edge_of_a_receive", "edge-no-tick"),
        ("dropped_before_its_turn", "io-deaf-start"),
        ("dropped_remotely", "io-free-at-completion"),
    ]);
}
