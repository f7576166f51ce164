//! The latches on real threads, with frames that are really gone when the waiter returns.
#![cfg(not(loom))]

mod rounds;

use rounds::rounds;
use scheduler::internals::latch::{ForkLatch, Register, ScopeLatch};
use scheduler::internals::park::{Parker, Waiter};
use scheduler::internals::sync::{Acquire, Arc, AtomicPtr, AtomicU64, Relaxed, Release, pause};
use std::ptr::null_mut;
use std::time::Duration;

#[test]
fn a_scope_counts() {
    let (latch, parker) = (ScopeLatch::new(), Arc::new(Parker::new()));
    assert!(latch.is_set(), "nothing to wait for");
    assert_eq!(latch.register(Waiter::new(&parker)), Register::Set);
    latch.wait(&parker);
    latch.add();
    latch.add();
    for left in [1, 0] {
        assert!(!latch.is_set());
        // SAFETY: two were added.
        unsafe { ScopeLatch::done(&latch) };
        assert_eq!(latch.is_set(), left == 0);
    }
    assert!(!parker.try_consume(), "nobody was registered");
    latch.retire();
    assert_eq!(Arc::strong_count(&parker), 1);
}

#[test]
fn the_last_of_a_scope_unparks_once() {
    let (latch, parker) = (ScopeLatch::new(), Arc::new(Parker::new()));
    latch.add();
    assert_eq!(latch.register(Waiter::new(&parker)), Register::Waiting);
    assert_eq!(latch.register(Waiter::new(&parker)), Register::Waiting);
    assert_eq!(Arc::strong_count(&parker), 2, "registered once");
    latch.add();
    // SAFETY: two were added.
    unsafe { ScopeLatch::done(&latch) };
    assert!(!latch.is_set() && !parker.try_consume());
    // SAFETY: one is left.
    unsafe { ScopeLatch::done(&latch) };
    assert!(latch.is_set() && parker.try_consume() && !parker.try_consume());
    latch.retire();
    assert_eq!(Arc::strong_count(&parker), 1);
}

#[test]
fn a_fork_is_set_once() {
    let (latch, parker) = (ForkLatch::new(), Arc::new(Parker::new()));
    assert!(!latch.is_set());
    assert_eq!(latch.register(Waiter::new(&parker)), Register::Waiting);
    assert_eq!(latch.register(Waiter::new(&parker)), Register::Waiting);
    assert_eq!(Arc::strong_count(&parker), 2, "registered once");
    assert!(!latch.is_set());
    // SAFETY: set once.
    unsafe { ForkLatch::set(&latch) };
    assert!(latch.is_set() && parker.try_consume() && !parker.try_consume());
    assert_eq!(latch.register(Waiter::new(&parker)), Register::Set);
    latch.wait(&parker);
    latch.retire();
    assert_eq!(Arc::strong_count(&parker), 1);
}

/// A frame that one thread waits in and another one signals, handed over by its address. The waiter frees it at once,
/// so that a late touch shows as a broken canary (or at all under AddressSanitizer).
struct Frame<L> {
    latch: L,
    result: AtomicU64,
}

fn frames<L: Default + Sync>(signal: impl Fn(*const L) + Sync, wait: impl Fn(&L, u64), gone: impl Fn(L)) -> u64 {
    let at = AtomicPtr::<Frame<L>>::new(null_mut());
    let left = |n| {
        let mut frame = null_mut::<Frame<L>>();
        while frame.is_null() {
            frame = at.swap(null_mut(), Acquire);
            pause();
        }
        // SAFETY: the waiter keeps the frame until it was signalled.
        unsafe { &(*frame).result }.store(n, Relaxed);
        // SAFETY: as above.
        signal(unsafe { &raw const (*frame).latch });
    };
    rounds(Duration::from_millis(700), left, |n, _| {
        let frame = Box::into_raw(Box::new(Frame { latch: L::default(), result: AtomicU64::new(0) }));
        at.store(frame, Release);
        // SAFETY: ours until it is freed below.
        wait(unsafe { &(*frame).latch }, n);
        // SAFETY: the latch is set, so nobody else uses the frame.
        let frame = unsafe { Box::from_raw(frame) };
        assert_eq!(frame.result.load(Relaxed), n);
        gone(frame.latch);
        true
    })
}

#[test]
fn fork_frames_come_and_go() {
    let parker = Arc::new(Parker::new());
    let wait = |latch: &ForkLatch, n| {
        // Every third one is polled first, so that both ends of the race are common.
        for _ in 0..n % 3 * 30 {
            if latch.is_set() {
                return;
            }
            pause();
        }
        latch.wait(&parker);
    };
    // SAFETY: set once per frame.
    let played = frames(|latch: *const ForkLatch| unsafe { ForkLatch::set(latch) }, wait, ForkLatch::retire);
    assert!(played > 100, "only {played} rounds");
    assert_eq!(Arc::strong_count(&parker), 1);
}

/// A scope whose one task is counted from the start, because the frame is handed over before the owner looks again.
struct One(ScopeLatch);

impl Default for One {
    fn default() -> Self {
        let latch = ScopeLatch::new();
        latch.add();
        One(latch)
    }
}

#[test]
fn scope_frames_come_and_go() {
    let parker = Arc::new(Parker::new());
    let signal = |one: *const One| {
        // SAFETY: valid until it is done.
        let latch = unsafe { &raw const (*one).0 };
        // SAFETY: the one task of the scope.
        unsafe { ScopeLatch::done(latch) };
    };
    let wait = |one: &One, n| {
        for _ in 0..n % 3 * 30 {
            pause();
        }
        one.0.wait(&parker);
    };
    let played = frames(signal, wait, |one: One| one.0.retire());
    assert!(played > 100, "only {played} rounds");
    assert_eq!(Arc::strong_count(&parker), 1);
}

#[test]
fn a_wide_scope_on_four_threads() {
    const TASKS: u64 = 40_000;
    let (latch, parker, done) = (ScopeLatch::new(), Arc::new(Parker::new()), AtomicU64::new(0));
    for _ in 0..TASKS {
        latch.add();
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..TASKS / 4 {
                    done.fetch_add(1, Relaxed);
                    // SAFETY: as many as were added.
                    unsafe { ScopeLatch::done(&latch) };
                }
            });
        }
        latch.wait(&parker);
        assert_eq!(done.load(Relaxed), TASKS);
    });
    latch.retire();
}
