//! Work on threads that may block.

use crate::support::{both, in_time, scheduler};
use scheduler::io::{self, blocking};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

#[test]
fn values_and_panics() {
    both(|| async {
        assert_eq!(blocking(|| 6 * 7).await.expect("a thread"), 42);
        let panicking = std::pin::pin!(blocking(|| -> () { panic!("as planned") }));
        let caught = futures_lite::future::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(panicking)).await;
        assert_eq!(caught.expect_err("a panic").downcast_ref::<&str>(), Some(&"as planned"));
        Ok(())
    });
}

/// Workers go on while others block, and everything gets its turn although there are more than threads.
#[test]
fn nobody_is_held_up() {
    let scheduler = scheduler();
    let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Four threads there are at least: all of these can wait for each other.
    let barrier = Arc::new(Barrier::new(4));
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let barrier = barrier.clone();
            scheduler.spawn_future(in_time(blocking(move || barrier.wait().is_leader()))).unwrap()
        })
        .collect();
    let leaders = waiting.into_iter().filter(|_| true).map(|w| w.join().unwrap().unwrap()).filter(|l| *l).count();
    assert_eq!(leaders, 1);
    let work: Vec<_> = (0..500)
        .map(|n| {
            let (at_once, most) = (at_once.clone(), most.clone());
            let work = blocking(move || {
                most.fetch_max(at_once.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::sleep(std::time::Duration::from_micros(50));
                at_once.fetch_sub(1, SeqCst);
                n
            });
            scheduler.spawn_future(in_time(work)).unwrap()
        })
        .collect();
    let sum: usize = work.into_iter().map(|work| work.join().unwrap().unwrap()).sum();
    assert_eq!(sum, 500 * 499 / 2);
    assert!(most.load(SeqCst) <= 64, "more threads than stated: {most:?}");
}

#[test]
fn names() {
    both(|| async {
        let addresses = io::resolve(("localhost", 80)).await?;
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
        assert!(!addresses.is_empty());
        assert!(io::resolve("no port").await.is_err());
        Ok(())
    });
}
