//! Nested waits use up the stack, and another thread is the worker meanwhile: its ring is served by its own.

use crate::support::{LONG, Op, Pipe, eventually, has_rings, pipe, post, tuning};
use scheduler::internals::worker::with_ring;
use scheduler::{Handle, Io, Scheduler};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// On a worker's own thread, not on one that stands in for it.
fn on_own_thread() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("scheduler-"))
}

/// Waits for a task that waits for a task, until a stand-in runs `bottom`.
pub(crate) fn dive(handle: &Handle, bottom: Arc<dyn Fn() + Send + Sync>) {
    if !on_own_thread() {
        return bottom();
    }
    let next = handle.clone();
    handle.spawn(move || dive(&next, bottom)).unwrap().join().unwrap();
}

fn small(workers: usize) -> Scheduler {
    Scheduler::builder().workers(workers).io(Io::Auto).stack_size(128 * 1024).tuning(tuning()).build().unwrap()
}

/// The operation was pushed before, and the stand-in waits for it: nobody else can take it in.
#[test]
fn what_was_in_flight_completes() {
    if !has_rings() {
        return;
    }
    let scheduler = small(1);
    let (handle, pipe) = (scheduler.handle(), Arc::new(pipe()));
    let there = Arc::new(AtomicBool::new(false));
    let (poll, mark) = (pipe.poll(), there.clone());
    let outer = scheduler.spawn(move || {
        let op = Op::push(poll);
        let awaited = op.clone();
        dive(
            &handle,
            Arc::new(move || {
                assert!(with_ring(|_| ()).is_none(), "a ring lets one thread in");
                mark.store(true, SeqCst);
                assert_eq!(scheduler::block_on(awaited.clone()), i32::from(libc::POLLIN));
            }),
        );
        assert!(with_ring(|_| ()).is_some(), "back on its own thread");
        op.result()
    });
    eventually("at the bottom", || there.load(SeqCst));
    pipe.fill();
    assert_eq!(outer.unwrap().join().unwrap(), Some(i32::from(libc::POLLIN)));
}

/// The stand-in posts to the only worker, which it is itself; with and without a ring that is open already.
#[test]
fn what_is_posted_is_served() {
    if !has_rings() {
        return;
    }
    for opened in [true, false] {
        let scheduler = Arc::new(small(1));
        let (handle, there) = (scheduler.handle(), scheduler.clone());
        let outer = scheduler.spawn(move || {
            if opened {
                with_ring(|_| ()).expect("a ring");
            }
            dive(&handle, Arc::new(move || assert_eq!(scheduler::block_on(post(&there)), 0)));
        });
        outer.unwrap().join().unwrap();
        assert!(scheduler.wait_idle(LONG));
    }
}

/// Many at once, from both threads and from outside.
#[test]
fn all_of_them() {
    if !has_rings() {
        return;
    }
    let scheduler = Arc::new(small(2));
    for _ in 0..5 {
        let (handle, there) = (scheduler.handle(), scheduler.clone());
        let pipe: Arc<Pipe> = Arc::new(pipe());
        let inner = pipe.clone();
        let outer = scheduler.spawn(move || {
            let ops: Vec<_> = (0..50).map(|_| Op::push(inner.poll())).collect();
            let awaited = ops.clone();
            dive(
                &handle,
                Arc::new(move || {
                    let posted: Vec<_> = (0..50).map(|_| post(&there)).collect();
                    posted.into_iter().for_each(|op| assert_eq!(scheduler::block_on(op), 0));
                    inner.fill();
                    awaited.iter().cloned().for_each(|op| assert_eq!(scheduler::block_on(op), i32::from(libc::POLLIN)));
                }),
            );
        });
        (0..50).for_each(|_| assert_eq!(post(&scheduler).join(), 0));
        outer.unwrap().join().unwrap();
    }
}

/// It completes while the stand-in does something else until its end.
#[test]
fn what_the_stand_in_was_not_told_of_is_told() {
    if !has_rings() {
        return;
    }
    let scheduler = small(1);
    let (handle, pipe) = (scheduler.handle(), Arc::new(pipe()));
    let poll = pipe.poll();
    let outer = scheduler.spawn(move || {
        let op = Op::push(poll);
        let bottom = move || {
            pipe.fill();
            // The thread that serves the ring takes it in meanwhile.
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        dive(&handle, Arc::new(bottom));
        op
    });
    assert_eq!(outer.unwrap().join().unwrap().join(), i32::from(libc::POLLIN));
}
