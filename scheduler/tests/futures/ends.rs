use crate::support::{Drops, Gate, Token, eventually, scheduler};
use scheduler::{JoinError, Scheduler, ShutdownMode, SubmitError, yield_now};
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(15);

fn cancelled<T>(result: Result<T, JoinError>) -> bool {
    matches!(result, Err(JoinError::Cancelled))
}

#[test]
fn outputs_are_dropped_once() {
    let scheduler = scheduler(2);
    let drops = Drops::default();
    let make = || {
        let token = drops.token();
        scheduler.spawn_future(async move { token }).unwrap()
    };
    drop(make());
    let (joined, late) = (make(), make());
    drop(joined.join().unwrap());
    eventually("finished", || late.is_finished());
    drop(late);
    assert!(scheduler.wait_idle(LONG));
    eventually("three drops", || drops.count() == 3);
}

#[test]
fn aborted_while_pending() {
    let scheduler = scheduler(2);
    let (gate, drops) = (Gate::default(), Drops::default());
    let (at, token) = (gate.wait(), drops.token());
    let handle = scheduler
        .spawn_future(async move {
            at.await;
            drop(token);
        })
        .unwrap();
    eventually("a poll", || gate.polls() == 1);
    assert!(handle.abort());
    assert!(cancelled(handle.join()));
    assert_eq!((gate.polls(), drops.count()), (1, 1), "dropped before the join returns, not polled again");
    gate.open();
}

#[test]
fn aborted_late_or_twice() {
    let scheduler = scheduler(1);
    let handle = scheduler.spawn_future(async { 1 }).unwrap();
    eventually("finished", || handle.is_finished());
    assert!(!handle.abort());
    assert_eq!(handle.join().unwrap(), 1);
    let handle = scheduler.spawn_future(pending::<()>()).unwrap();
    assert!(handle.abort() && (handle.abort() || handle.is_finished()));
    assert!(cancelled(handle.join()));
    // While it is polled: it ends at its next await.
    let handle = scheduler.spawn_future(async {
        loop {
            yield_now().await;
        }
    });
    let handle = handle.unwrap();
    assert!(handle.abort());
    assert!(cancelled::<()>(handle.join()));
}

/// Nobody can wake it, nobody asks for it: it is dropped, and not at the end of the scheduler only.
#[test]
fn forgotten_futures_are_dropped() {
    let scheduler = scheduler(2);
    let drops = Drops::default();
    let holding = |drops: &Drops| {
        let token = drops.token();
        async move {
            let _token = token;
            pending::<()>().await;
        }
    };
    drop(scheduler.spawn_future(holding(&drops)).unwrap());
    eventually("the handle went", || drops.count() == 1);
    let handle = scheduler.spawn_future(holding(&drops)).unwrap();
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(drops.count(), 1, "somebody holds the handle");
    drop(handle);
    eventually("the handle went later", || drops.count() == 2);
    let gate = Gate::default();
    let (at, token) = (gate.wait(), drops.token());
    let future = async move {
        let _token = token;
        at.await;
    };
    drop(scheduler.spawn_future(future).unwrap());
    eventually("a poll", || gate.polls() == 1);
    assert_eq!(drops.count(), 2, "somebody holds a waker");
    gate.forget();
    eventually("the waker went", || drops.count() == 3);
}

/// Pending futures end with the scheduler, whoever holds their wakers, and whoever waits is told.
#[test]
fn the_end_cancels_what_is_pending() {
    for mode in [ShutdownMode::Drain, ShutdownMode::Abort] {
        let scheduler = scheduler(3);
        let (gates, drops): (Vec<Gate>, _) = ((0..100).map(|_| Gate::default()).collect(), Drops::default());
        let start = |gate: &Gate| {
            let (at, token) = (gate.wait(), drops.token());
            scheduler.spawn_future(async move { (at.await, token).0 }).unwrap()
        };
        let handles: Vec<_> = gates.iter().map(start).collect();
        eventually("polled", || gates.iter().all(|gate| gate.polls() == 1));
        let joiner = std::thread::spawn(move || handles.into_iter().all(|handle| cancelled(handle.join())));
        assert!(scheduler.shutdown(mode, LONG).completed);
        assert!(joiner.join().unwrap());
        assert_eq!(drops.count(), 100);
        gates.iter().for_each(Gate::open);
    }
}

/// A future that holds a waker of itself is a cycle until the scheduler ends.
#[test]
fn the_end_breaks_cycles() {
    let scheduler = scheduler(2);
    let drops = Drops::default();
    let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
    let (inside, token, polled) = (slot.clone(), drops.token(), Arc::new(AtomicUsize::new(0)));
    let seen = polled.clone();
    let cycle = poll_fn(move |context: &mut Context<'_>| {
        let _token = &token;
        *inside.lock().unwrap() = Some(context.waker().clone());
        seen.fetch_add(1, SeqCst);
        Poll::<()>::Pending
    });
    drop(slot);
    drop(scheduler.spawn_future(cycle).unwrap());
    eventually("a poll", || polled.load(SeqCst) == 1);
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(drops.count(), 0);
    drop(scheduler);
    assert_eq!(drops.count(), 1);
}

/// The end of one wakes the next: a long chain is not a deep one.
#[test]
fn the_end_of_a_chain() {
    struct Wakes(Option<Gate>, #[expect(dead_code, reason = "counts")] Token);
    impl Drop for Wakes {
        fn drop(&mut self) {
            if let Some(next) = self.0.take() {
                next.open();
            }
        }
    }
    let scheduler = scheduler(1);
    let drops = Drops::default();
    let gates: Vec<Gate> = (0..20_000).map(|_| Gate::default()).collect();
    for (n, gate) in gates.iter().enumerate() {
        let (at, wakes) = (gate.wait(), Wakes(gates.get(n + 1).cloned(), drops.token()));
        drop(scheduler.spawn_future(async move { (at.await, wakes).0 }).unwrap());
    }
    eventually("polled", || gates.iter().all(|gate| gate.polls() == 1));
    drop(scheduler);
    assert_eq!(drops.count(), 20_000);
}

#[test]
fn refused_after_the_end() {
    let scheduler = scheduler(1);
    let handle = scheduler.handle();
    drop(scheduler);
    let drops = Drops::default();
    let token = drops.token();
    let refused = handle.spawn_future(async move { drop(token) }).map(|_| ()).unwrap_err();
    assert!(matches!(refused, SubmitError::Closed(_)));
    assert_eq!(drops.count(), 0, "the future comes back");
    drop(refused);
    assert_eq!(drops.count(), 1);
}

/// Panics of the poll, of the future's drop, of the output's drop, with and without a handle.
#[test]
fn panics_end_one_task_only() {
    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("{}", self.0);
            }
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let panics = Arc::new(AtomicUsize::new(0));
    let seen = panics.clone();
    let builder = Scheduler::builder().workers(2);
    let scheduler = builder.panic_handler(move |_| _ = seen.fetch_add(1, SeqCst)).build().unwrap();
    let held = |text| {
        let bomb = Bomb(text);
        async move {
            let _bomb = bomb;
            pending::<()>().await;
        }
    };
    // Dropped by an abort: the panic is the output.
    let handle = scheduler.spawn_future(held("drop")).unwrap();
    handle.abort();
    assert_eq!(handle.join().unwrap_err().message(), Some("drop"));
    // A detached one is reported.
    drop(scheduler.spawn_future(held("drop, detached")).unwrap());
    eventually("one report", || panics.load(SeqCst) == 1);
    drop(scheduler.spawn_future(async { panic!("poll, detached") }).unwrap());
    eventually("two reports", || panics.load(SeqCst) == 2);
    let output = scheduler.spawn_future(async { Bomb("output") }).unwrap();
    eventually("finished", || output.is_finished());
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(output)));
    assert!(dropped.is_err(), "the output is dropped by its handle, on the thread of the handle");
    // Ready, and then it panics as it is dropped: the value is lost, the panic is the output.
    struct ReadyBomb(Drops);
    impl Future for ReadyBomb {
        type Output = Token;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Token> {
            Poll::Ready(self.0.token())
        }
    }
    impl Drop for ReadyBomb {
        fn drop(&mut self) {
            panic!("after ready");
        }
    }
    let drops = Drops::default();
    let handle = scheduler.spawn_future(ReadyBomb(drops.clone())).unwrap();
    assert_eq!(handle.join().map(|_| ()).unwrap_err().message(), Some("after ready"));
    assert_eq!(drops.count(), 1);
    assert_eq!(scheduler.spawn_future(async { 1 }).unwrap().join().unwrap(), 1, "the workers live");
    let _ = std::panic::take_hook();
}

/// Futures of all size classes, and over-aligned ones.
#[test]
fn sizes_and_alignments() {
    #[repr(align(256))]
    struct Wide([u8; 256]);
    fn echo<const N: usize>(scheduler: &Scheduler) {
        let data = [7u8; N];
        let handle = scheduler.spawn_future(async move {
            yield_now().await;
            data
        });
        assert_eq!(handle.unwrap().join().unwrap(), [7u8; N]);
    }
    let scheduler = scheduler(2);
    echo::<0>(&scheduler);
    echo::<1>(&scheduler);
    echo::<64>(&scheduler);
    echo::<300>(&scheduler);
    echo::<2_000>(&scheduler);
    echo::<100_000>(&scheduler);
    let wide = Wide([9; 256]);
    let handle = scheduler.spawn_future(async move {
        yield_now().await;
        assert_eq!((&raw const wide).addr() % 256, 0);
        wide
    });
    assert_eq!(handle.unwrap().join().unwrap().0, [9; 256]);
}

/// Foreign wakers that panic: what is waited for ends all the same, and the handler hears of them.
#[test]
fn wakers_that_panic_are_reported() {
    struct Alarm;
    impl std::task::Wake for Alarm {
        fn wake(self: Arc<Self>) {
            panic!("no wake");
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let heard = Arc::new(AtomicUsize::new(0));
    let seen = heard.clone();
    let builder = Scheduler::builder().workers(1);
    let handler = move |payload: &(dyn std::any::Any + Send)| {
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"no wake"));
        seen.fetch_add(1, SeqCst);
    };
    let scheduler = builder.panic_handler(handler).build().unwrap();
    let alarm = std::task::Waker::from(Arc::new(Alarm));
    let mut context = Context::from_waker(&alarm);
    // A closure and a future that somebody waits for.
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let mut closure = scheduler.spawn(move || gate.recv().is_ok()).unwrap();
    let mut future = scheduler.spawn_future(async { 7 }).unwrap();
    assert!(Pin::new(&mut closure).poll(&mut context).is_pending());
    assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    go.send(()).unwrap();
    eventually("two reports", || heard.load(SeqCst) == 2);
    assert_eq!((closure.join().unwrap(), future.join().unwrap()), (true, 7));
    // A timer, which its worker fires.
    let timed = async move {
        let mut sleep = Box::pin(scheduler::time::sleep(std::time::Duration::from_millis(1)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&alarm)).is_pending());
        Some(sleep) // kept until it has fired
    };
    let sleep = scheduler.spawn_future(timed).unwrap().join().unwrap();
    eventually("three reports", || heard.load(SeqCst) == 3);
    drop(sleep);
    assert_eq!(scheduler.metrics().panics, 3);
}
