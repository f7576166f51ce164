//! An operation as a future, as small as it can be: what it points at is leaked if it is dropped early.

use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use scheduler::internals::driver::{Caps, Completion, Item, Ring};
use scheduler::internals::shared;
use scheduler::internals::worker::{Shared, Tuning, with_ring};
use scheduler::{Io, IoDriver, Scheduler};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Longer than anything takes that is going to happen.
pub(crate) const LONG: Duration = Duration::from_secs(20);

#[derive(Default)]
struct State {
    result: Option<i32>,
    waker: Option<Waker>,
}

/// What the kernel's reference counts, and the future.
#[derive(Clone, Default)]
pub(crate) struct Op(Arc<Mutex<State>>);

/// Told by the scheduler.
pub(crate) fn complete(completion: Completion) {
    let state = std::ptr::with_exposed_provenance::<Mutex<State>>(completion.tag as usize);
    // SAFETY: the reference that `tag` gave away; the tests push nothing that completes twice.
    let state = unsafe { Arc::from_raw(state) };
    let waker = {
        let mut state = state.lock().unwrap();
        assert_eq!(state.result.replace(completion.result), None, "told twice");
        state.waker.take()
    };
    waker.into_iter().for_each(Waker::wake);
}

impl Op {
    /// A reference for the kernel.
    pub(crate) fn tag(&self) -> u64 {
        Arc::into_raw(self.0.clone()).expose_provenance() as u64
    }

    /// Pushed here; on a worker with a ring.
    pub(crate) fn push(entry: Entry) -> Op {
        let op = Op::default();
        // SAFETY: the tests give it nothing that goes.
        with_ring(|ring| unsafe { ring.push(entry, op.tag()) }).expect("a worker with a ring");
        op
    }

    /// What came of it, if it has ended.
    pub(crate) fn result(&self) -> Option<i32> {
        self.0.lock().unwrap().result
    }

    /// Sleeps until it has ended.
    pub(crate) fn join(&self) -> i32 {
        eventually("the operation ends", || self.result().is_some());
        self.result().unwrap()
    }
}

impl Future for Op {
    type Output = i32;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<i32> {
        let mut state = self.0.lock().unwrap();
        match state.result {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Both ends of a pipe.
pub(crate) struct Pipe {
    read: File,
    write: File,
}

pub(crate) fn pipe() -> Pipe {
    let mut ends = [0; 2];
    // SAFETY: fills two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: fresh.
    let read = unsafe { File::from_raw_fd(ends[0]) };
    // SAFETY: fresh.
    let write = unsafe { File::from_raw_fd(ends[1]) };
    Pipe { read, write }
}

impl Pipe {
    /// Ends when something was written.
    pub(crate) fn poll(&self) -> Entry {
        opcode::PollAdd::new(types::Fd(self.read.as_raw_fd()), libc::POLLIN as u32).build()
    }

    pub(crate) fn fill(&self) {
        (&self.write).write_all(b"x").expect("room in a pipe");
    }
}

pub(crate) fn tuning() -> Tuning {
    Tuning { complete: Some(complete), ..Tuning::NONE }
}

pub(crate) fn wired(workers: usize, tuning: Tuning) -> Scheduler {
    Scheduler::builder().workers(workers).io(Io::Auto).tuning(tuning).build().expect("a scheduler")
}

/// There is a ring to be had here.
pub(crate) fn has_rings() -> bool {
    let scheduler = wired(1, tuning());
    let opened = scheduler.spawn(|| with_ring(|_| ()).is_some()).unwrap().join().unwrap();
    if !opened {
        println!("skipped: {}", driver(&scheduler));
    }
    opened
}

/// What does the I/O of worker 0.
pub(crate) fn driver(scheduler: &Scheduler) -> IoDriver {
    scheduler.metrics().workers[0].io
}

/// A scheduler whose rings are refused.
pub(crate) fn refused(errno: i32) -> Tuning {
    Tuning { io: Caps { refuse: (u32::MAX, errno), ..Caps::ALL }, ..tuning() }
}

/// Waits until it is so.
#[track_caller]
pub(crate) fn eventually(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits until all workers sleep.
pub(crate) fn asleep(scheduler: &Scheduler) {
    assert!(scheduler.wait_idle(LONG), "never idle");
    let shared = scheduler::internals::shared(scheduler);
    let parked = || shared.workers.iter().all(|worker| format!("{:?}", worker.parker).starts_with("PARKED"));
    eventually("asleep", parked);
}

/// Where worker 0 sleeps.
pub(crate) fn place(scheduler: &Scheduler) -> String {
    format!("{:?}", scheduler::internals::shared(scheduler).workers[0].parker)
}

/// An operation for any ring.
#[repr(C)]
struct Parcel {
    item: Item,
    op: Op,
}

/// # Safety
/// `item` is of a boxed parcel.
unsafe fn serve(item: NonNull<Item>, ring: Option<&mut Ring>) -> Option<NonNull<Item>> {
    // SAFETY: the caller's promise.
    let parcel = unsafe { Box::from_raw(item.cast::<Parcel>().as_ptr()) };
    let tag = parcel.op.tag();
    // SAFETY: it points at nothing.
    ring.into_iter().for_each(|ring| unsafe { ring.push(opcode::Nop::new().build(), tag) });
    None
}

/// Posts an operation that ends at once to a certain worker.
pub(crate) fn post_to(shared: &Shared, index: usize) -> Op {
    let op = Op::default();
    let parcel = Box::new(Parcel { item: Item::new(serve), op: op.clone() });
    // SAFETY: boxed until it is served.
    unsafe { shared.post_to(index, NonNull::from(Box::leak(parcel)).cast()) }.expect("open");
    op
}

/// Posts an operation that ends at once.
pub(crate) fn post(scheduler: &Scheduler) -> Op {
    let op = Op::default();
    let parcel = Box::new(Parcel { item: Item::new(serve), op: op.clone() });
    // SAFETY: boxed until it is served.
    let posted = unsafe { shared(scheduler).post(NonNull::from(Box::leak(parcel)).cast()) };
    posted.expect("open");
    op
}
