use crate::support::{Drops, Gate, eventually, scheduler};
use scheduler::{Handle, JoinError, Scheduler, yield_now};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::task::{Poll, Waker};

#[test]
fn ready_at_once() {
    let scheduler = scheduler(2);
    assert_eq!(scheduler.spawn_future(async { 7 }).unwrap().join().unwrap(), 7);
}

/// Whoever keeps a waker must see that it is the one it has: some wake the old one when another takes its place, and
/// then a future would wake itself by registering.
#[test]
fn a_waker_knows_its_clones() {
    let scheduler = scheduler(2);
    let mut kept: Option<Waker> = None;
    let future = std::future::poll_fn(move |context| {
        let clone = context.waker().clone();
        assert!(clone.will_wake(context.waker()) && clone.clone().will_wake(&clone));
        if let Some(first) = kept.take() {
            return Poll::Ready(first.will_wake(&clone));
        }
        clone.wake_by_ref();
        kept = Some(clone);
        Poll::Pending
    });
    assert!(scheduler.spawn_future(future).unwrap().join().unwrap());
}

#[test]
fn woken_from_outside() {
    let scheduler = scheduler(2);
    let (gate, drops) = (Gate::default(), Drops::default());
    let (token, at) = (drops.token(), gate.wait());
    let handle = scheduler
        .spawn_future(async move {
            at.await;
            drop(token);
            Handle::worker_index()
        })
        .unwrap();
    eventually("a poll", || gate.polls() == 1);
    assert!(!handle.is_finished());
    gate.open();
    assert!(handle.join().unwrap().is_some(), "polled by a worker");
    assert_eq!((gate.polls(), drops.count()), (2, 1));
}

/// Woken while it is polled, it is polled again, however often it was woken.
#[test]
fn woken_while_polled() {
    let scheduler = scheduler(1);
    let polls = Arc::new(AtomicUsize::new(0));
    let seen = polls.clone();
    let future = std::future::poll_fn(move |context| {
        context.waker().wake_by_ref();
        let by_value = context.waker().clone();
        by_value.wake();
        if seen.fetch_add(1, SeqCst) == 4 { Poll::Ready(()) } else { Poll::Pending }
    });
    scheduler.spawn_future(future).unwrap().join().unwrap();
    assert_eq!(polls.load(SeqCst), 5);
}

#[test]
fn woken_after_the_end() {
    let scheduler = scheduler(2);
    let gate = Gate::default();
    let handle = scheduler.spawn_future(gate.wait()).unwrap();
    eventually("a poll", || gate.polls() == 1);
    let waker = gate.waker().unwrap();
    gate.open();
    handle.join().unwrap();
    waker.wake_by_ref();
    drop(scheduler);
    let second = waker.clone();
    second.wake();
    waker.wake();
    assert_eq!(gate.polls(), 2);
}

/// A waker that is used when the thread's locals are being destroyed, of a scheduler that lives or has ended.
#[test]
fn woken_from_a_destructor_of_a_thread_local() {
    struct AtExit(RefCell<Option<Waker>>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            if let Some(waker) = self.0.take() {
                waker.wake();
            }
        }
    }
    thread_local! {
        static EXIT: AtExit = const { AtExit(RefCell::new(None)) };
    }
    for ended in [false, true] {
        let scheduler = scheduler(2);
        let gate = Gate::default();
        let handle = scheduler.spawn_future(gate.wait()).unwrap();
        eventually("a poll", || gate.polls() == 1);
        let waker = gate.waker().unwrap();
        if ended {
            drop(scheduler);
            std::thread::spawn(|| EXIT.with(|exit| exit.0.replace(Some(waker)))).join().unwrap();
            assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
        } else {
            let open = gate.clone();
            std::thread::spawn(move || {
                // The lane of this thread is made before the local, so that it is gone first.
                waker.wake_by_ref();
                EXIT.with(|exit| exit.0.replace(Some(waker)));
                open.open();
            })
            .join()
            .unwrap();
            handle.join().unwrap();
        }
    }
}

/// One that wakes itself all the time lets others run on its worker.
#[test]
fn self_waking_does_not_starve() {
    let scheduler = scheduler(1);
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let busy = scheduler.spawn_future(async move {
        while !seen.load(SeqCst) {
            yield_now().await;
        }
    });
    let others: Vec<_> = (0..100).map(|n| scheduler.spawn_future(async move { n }).unwrap()).collect();
    for (n, other) in others.into_iter().enumerate() {
        assert_eq!(other.join().unwrap(), n);
    }
    scheduler.spawn(move || stop.store(true, SeqCst)).unwrap().join().unwrap();
    busy.unwrap().join().unwrap();
}

/// One that always finds something ready is sent to the end of the queue now and then.
#[test]
fn always_ready_does_not_starve() {
    let scheduler = scheduler(1);
    let handle = scheduler.handle();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let busy = scheduler.spawn_future(async move {
        let mut rounds = 0u64;
        while !seen.load(SeqCst) {
            let ready = handle.spawn(|| ()).unwrap();
            while !ready.is_finished() {
                yield_now().await;
            }
            // Finished, so this await never waits for the task.
            ready.await.unwrap();
            rounds += 1;
        }
        rounds
    });
    scheduler.spawn(move || stop.store(true, SeqCst)).unwrap().join().unwrap();
    assert!(busy.unwrap().join().is_ok());
}

/// A bounded scheduler refuses new tasks, and wakes what it has accepted.
#[test]
fn wakes_are_not_refused_for_capacity() {
    let scheduler = Scheduler::builder().workers(1).capacity(4).build().unwrap();
    let gates: Vec<Gate> = (0..64).map(|_| Gate::default()).collect();
    let handles: Vec<_> = gates.iter().map(|gate| scheduler.spawn_future(gate.wait()).unwrap()).collect();
    eventually("all polled", || gates.iter().all(|gate| gate.polls() == 1));
    let (hold, held) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (seen, inside) = (hold.clone(), held.clone());
    scheduler
        .submit(move || {
            inside.store(true, SeqCst);
            while seen.load(SeqCst) {
                std::thread::yield_now();
            }
        })
        .unwrap();
    eventually("the worker is held", || held.load(SeqCst));
    while scheduler.try_submit(|| ()).is_ok() {}
    gates.iter().for_each(Gate::open);
    assert!(scheduler.try_submit(|| ()).is_err(), "full, and more than that");
    hold.store(false, SeqCst);
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert!(scheduler.wait_idle(std::time::Duration::from_secs(15)));
    let room = (0..10).filter(|_| scheduler.try_submit(std::thread::yield_now).is_ok()).count();
    assert!(room >= 3, "what was borrowed is paid back, and what was free is free: {room}");
}

/// Many threads wake many futures that wait for several rounds each.
#[test]
fn a_storm_of_wakes() {
    let scheduler = scheduler(3);
    let gates: Vec<Gate> = (0..50).map(|_| Gate::default()).collect();
    let handles: Vec<_> = gates.iter().map(|gate| scheduler.spawn_future(gate.wait()).unwrap()).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    gates.iter().for_each(Gate::wake);
                }
            });
        }
    });
    gates.iter().for_each(Gate::open);
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}
