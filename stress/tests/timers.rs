//! Timers: fired once, not early, by somebody, or taken out in time; and for nothing while they wait.
#![cfg(not(loom))]

use scheduler::time::{interval, sleep, timeout};
use scheduler::{Handle, block_on, yield_now};
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::Poll;
use std::time::{Duration, Instant};
use stress::report::say;
use stress::round::submitter;
use stress::watchdog::violation;
use stress::{Random, os, run};

/// Far beyond what a busy machine can explain.
const HOPELESS: Duration = Duration::from_secs(30);

/// Sleeps of every length at once; none is short.
#[test]
fn sleeps_of_all_lengths() {
    run("timers::sleeps_of_all_lengths", |round| {
        let scheduler = round.scheduler();
        let mut random = round.random();
        let spawn = |micros| {
            let future = async move {
                let began = Instant::now();
                sleep(Duration::from_micros(micros)).await;
                assert!(began.elapsed() >= Duration::from_micros(micros), "woken early");
            };
            scheduler.spawn_future(future).unwrap()
        };
        for _ in 0..round.times(2) {
            let mut length = || {
                let bits = random.below(18);
                random.below(1 << bits)
            };
            let handles: Vec<_> = (0..2_000).map(|_| spawn(length())).collect();
            handles.into_iter().for_each(|handle| handle.join().unwrap());
        }
    });
}

/// Sleeps that are about to fire are polled by one thread, dropped by another, and given new wakers by a third.
#[test]
fn cancelled_as_they_fire() {
    run("timers::cancelled_as_they_fire", |round| {
        async fn some(mut random: Random) -> u64 {
            let mut fired = 0;
            for _ in 0..50 {
                let time = Duration::from_micros(random.below(400));
                let limit = Duration::from_micros(random.below(400));
                match random.below(3) {
                    0 => fired += u64::from(timeout(limit, sleep(time)).await.is_ok()),
                    1 => {
                        let mut both = (Box::pin(sleep(time)), Box::pin(sleep(limit)));
                        poll_fn(|context| match both.0.as_mut().poll(context) {
                            Poll::Ready(()) => Poll::Ready(()),
                            Poll::Pending => both.1.as_mut().poll(context),
                        })
                        .await;
                    }
                    _ => {
                        // Begun here, dropped elsewhere.
                        let mut begun = Box::pin(sleep(time));
                        let first = poll_fn(|context| Poll::Ready(begun.as_mut().poll(context).is_pending())).await;
                        let there = Handle::current().spawn(move || drop(begun)).unwrap();
                        fired += u64::from(!first);
                        if random.one_in(2) {
                            there.await.unwrap();
                        }
                    }
                }
                if random.one_in(4) {
                    yield_now().await;
                }
            }
            fired
        }
        let scheduler = round.scheduler();
        let mut random = round.random();
        let end = Instant::now() + round.time(300);
        while Instant::now() < end {
            let handles: Vec<_> = (0..40).map(|_| scheduler.spawn_future(some(random.fork())).unwrap()).collect();
            for (n, handle) in handles.into_iter().enumerate() {
                if n % 8 == 0 {
                    // Dropped with whatever it waits for.
                    handle.abort();
                }
                let _ = handle.join();
            }
        }
    });
}

/// A worker that is stuck does not keep its timers, whichever it is and however many others there are.
#[test]
fn stuck_workers() {
    run("timers::stuck_workers", |round| {
        let scheduler = round.build(round.builder_of(round.profile.workers.max(2)));
        let mut random = round.random();
        let mut longest = Duration::ZERO;
        let end = Instant::now() + round.time(400);
        while Instant::now() < end {
            let fired = Arc::new(AtomicUsize::new(0));
            let (seen, handle, count) = (fired.clone(), scheduler.handle(), 1 + random.below(20) as usize);
            let micros = 1 + random.below(2_000);
            let stuck = scheduler.spawn(move || {
                for _ in 0..count {
                    let fired = seen.clone();
                    let future = async move {
                        sleep(Duration::from_micros(micros)).await;
                        fired.fetch_add(1, Relaxed);
                    };
                    drop(handle.spawn_future(future).unwrap());
                }
                // Some of them are polled here.
                block_on(async {
                    for _ in 0..count {
                        let _ = timeout(Duration::from_micros(1), pending::<()>()).await;
                    }
                });
                let began = Instant::now();
                while seen.load(Relaxed) < count {
                    (0..100).for_each(|_| std::hint::spin_loop());
                    if began.elapsed() > HOPELESS {
                        violation("timers wait behind a stuck worker");
                    }
                }
                began.elapsed()
            });
            longest = longest.max(stuck.unwrap().join().unwrap());
        }
        say(&format!("timers of stuck workers: at most {longest:?} for sleeps of at most 2 ms"));
    });
}

/// A million timers are pending, and nothing happens: no processor time but that of waking up for those that are due.
#[test]
fn a_million_cost_nothing() {
    run("timers::a_million_cost_nothing", |round| {
        let scheduler = round.scheduler();
        let (million, mut random) = (1_000_000, round.random());
        let hour = 3_600_000;
        let mut sleeps: Vec<Pin<Box<_>>> =
            (0..million).map(|_| Box::pin(sleep(Duration::from_millis(hour + random.below(hour))))).collect();
        let all = scheduler.spawn_future(async move {
            // Each of them once; then this future waits for the whole lot.
            poll_fn(|context| Poll::Ready(sleeps.iter_mut().all(|sleep| sleep.as_mut().poll(context).is_pending())))
                .await;
            sleeps
        });
        let sleeps = all.unwrap().join().unwrap();
        assert!(scheduler.wait_idle(Duration::from_secs(100)));
        std::thread::sleep(Duration::from_millis(20));
        // What the storm of a round costs is not the timers': this is about the workers alone.
        let parks = |scheduler: &Handle| scheduler.metrics().workers.iter().map(|worker| worker.parks).sum::<u64>();
        let (cpu, before) = (os::cpu_time(), parks(&scheduler));
        std::thread::sleep(Duration::from_millis(300));
        let (cpu, woken) = (os::cpu_time() - cpu, parks(&scheduler) - before);
        say(&format!("a million timers: {cpu:?} and {woken} sleeps in 300 ms"));
        assert!(woken <= 2 * round.profile.workers as u64, "woken {woken} times for nothing");
        // One that is due is fired among the million, and those that go are taken out.
        scheduler.spawn_future(sleep(Duration::from_millis(1))).unwrap().join().unwrap();
        drop(sleeps);
        scheduler.spawn_future(sleep(Duration::from_millis(1))).unwrap().join().unwrap();
    });
}

/// Threads that are no workers keep their own time.
#[test]
fn elsewhere() {
    run("timers::elsewhere", |round| {
        let scheduler = round.scheduler();
        let threads = (0..round.profile.submitters.min(8)).map(|n| {
            let handle = scheduler.handle();
            submitter(move || {
                block_on(async {
                    let mut ticks = interval(Duration::from_micros(200 + n as u64));
                    for _ in 0..50 {
                        ticks.tick().await;
                        let there = handle.spawn_future(sleep(Duration::from_micros(100))).unwrap();
                        timeout(Duration::from_secs(100), there).await.expect("in time").unwrap();
                    }
                });
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    });
}
