use crate::support::{Gate, eventually, scheduler};
use scheduler::{Help, JoinError, JoinHandle};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

#[test]
fn closures_are_awaited() {
    let scheduler = scheduler(2);
    let (go, gone) = mpsc::channel::<()>();
    let closure = scheduler.spawn(move || gone.recv().map(|()| 5)).unwrap();
    let future = scheduler.spawn_future(closure).unwrap();
    assert!(!future.is_finished());
    go.send(()).unwrap();
    assert_eq!(future.join().unwrap().unwrap(), Ok(5));
}

#[test]
fn futures_await_each_other() {
    let scheduler = scheduler(2);
    let gate = Gate::default();
    let first = scheduler.spawn_future(gate.wait()).unwrap();
    let mut last: JoinHandle<usize> = scheduler.spawn_future(async { first.await.map(|()| 0).unwrap() }).unwrap();
    for _ in 0..100 {
        last = scheduler.spawn_future(async move { last.await.unwrap() + 1 }).unwrap();
    }
    gate.open();
    assert_eq!(last.join().unwrap(), 100);
}

struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// The last waker is told, and only that one; also of a handle that is then joined.
#[test]
fn the_last_waker_counts() {
    let scheduler = scheduler(2);
    for closure in [false, true] {
        let gate = Gate::default();
        let (go, gone) = mpsc::channel::<()>();
        let at = gate.wait();
        let mut handle = if closure {
            scheduler.spawn(move || gone.recv().unwrap()).unwrap()
        } else {
            scheduler.spawn_future(at).unwrap()
        };
        let wakers = [0; 3].map(|_| Arc::new(Counts(AtomicUsize::new(0))));
        for waker in &wakers {
            let waker = Waker::from(waker.clone());
            assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let _ = go.send(());
        gate.open();
        eventually("woken", || wakers[2].0.load(SeqCst) == 1);
        assert_eq!(wakers.each_ref().map(|waker| waker.0.load(SeqCst)), [0, 0, 1]);
        assert!(wakers.iter().all(|waker| Arc::strong_count(waker) == 1), "no waker is kept");
        handle.join().unwrap();
    }
}

/// A handle that is dropped while a waker is registered gives it up.
#[test]
fn dropped_while_awaited() {
    let scheduler = scheduler(2);
    for closure in [false, true] {
        let gate = Gate::default();
        let (go, gone) = mpsc::channel::<()>();
        let at = gate.wait();
        let mut handle = if closure {
            scheduler.spawn(move || gone.recv().unwrap()).unwrap()
        } else {
            scheduler.spawn_future(at).unwrap()
        };
        let waker = Arc::new(Counts(AtomicUsize::new(0)));
        let same = Waker::from(waker.clone());
        assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&same)).is_pending());
        drop((handle, same));
        assert_eq!(Arc::strong_count(&waker), 1);
        let _ = go.send(());
        gate.open();
        assert!(scheduler.wait_idle(Duration::from_secs(15)));
        assert_eq!(waker.0.load(SeqCst), 0);
    }
}

#[test]
fn joined_with_a_limit_and_from_workers() {
    let scheduler = scheduler(2);
    let gate = Gate::default();
    let handle = scheduler.spawn_future(gate.wait()).unwrap();
    let handle = handle.join_timeout(Duration::from_millis(5)).expect_err("pending");
    let on_worker = scheduler.spawn(move || handle.join_with(Help::Own)).unwrap();
    gate.open();
    on_worker.join().unwrap().unwrap();
    let inner = scheduler.handle();
    let nested = scheduler.spawn(move || inner.spawn_future(async { 3 }).unwrap().join().unwrap()).unwrap();
    assert_eq!(nested.join().unwrap(), 3);
}

#[test]
fn panics_arrive() {
    let scheduler = scheduler(2);
    let handle = scheduler.spawn_future(async { panic!("in a poll") }).unwrap();
    let outer = scheduler.spawn_future(handle).unwrap();
    let inner: Result<(), JoinError> = outer.join().unwrap();
    assert_eq!(inner.unwrap_err().message(), Some("in a poll"));
    assert_eq!(scheduler.metrics().panics, 0, "the handle was told");
}
