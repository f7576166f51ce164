//! One task at a time, each submitted when the one before has ended: the workers are about to sleep at every
//! submission, which is where lost wake-ups show.
#![cfg(not(loom))]

use scheduler::{Barrier, Scheduler};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::time::{Duration, Instant};
use stress::report::{Quantiles, say};
use stress::round::submitter;
use stress::{Round, run};

/// Rounds that are enough for anybody.
const ENOUGH: u64 = 100_000;

/// How the submitter learns that the task has run.
#[derive(Clone, Copy)]
enum Notice {
    /// It watches a word.
    Watch,
    /// It sleeps in `join`.
    Join,
}

/// Plays until the time or the rounds are over; `offset` is the longest pause before a submission, in spins.
fn play(round: &Round, scheduler: &Scheduler, time: Duration, notice: Notice, offset: u64) -> Quantiles {
    let mut random = round.random();
    let (handle, done) = (scheduler.handle(), Arc::new(AtomicU64::new(0)));
    let play = move || {
        let end = Instant::now() + time;
        let mut times = Vec::new();
        for n in 1..=ENOUGH {
            let begun = Instant::now();
            if begun > end {
                break;
            }
            if offset != 0 {
                (0..random.below(offset)).for_each(|_| std::hint::spin_loop());
            }
            match notice {
                Notice::Watch => {
                    let word = done.clone();
                    handle.submit(move || word.store(n, Release)).unwrap();
                    let mut spins = 0;
                    while done.load(Acquire) != n {
                        spins += 1;
                        if spins < 2_000 { std::hint::spin_loop() } else { std::thread::yield_now() }
                    }
                }
                Notice::Join => assert_eq!(handle.spawn(move || n).unwrap().join().unwrap(), n),
            }
            times.push(begun.elapsed());
        }
        times
    };
    Quantiles::of(submitter(play).join().unwrap())
}

fn both_notices(name: &'static str, barrier: Barrier, spin: Option<Duration>) {
    run(name, |round| {
        let mut builder = round.builder().barrier(barrier);
        if let Some(spin) = spin {
            builder = builder.spin(spin);
        }
        let scheduler = round.build(builder);
        for (notice, word) in [(Notice::Watch, "watch"), (Notice::Join, "join")] {
            let times = play(round, &scheduler, round.time(250), notice, 0);
            say(&format!("{name} {word}: {times}"));
        }
        let times = play(round, &scheduler, round.time(200), Notice::Watch, 2_000);
        say(&format!("{name} offsets: {times}"));
        let metrics = scheduler.metrics();
        assert!(metrics.queued == 0, "{metrics:?}");
    });
}

#[test]
fn membarrier_without_spin() {
    both_notices("pingpong::membarrier_without_spin", Barrier::Auto, Some(Duration::ZERO));
}

#[test]
fn membarrier_with_spin() {
    both_notices("pingpong::membarrier_with_spin", Barrier::Auto, None);
}

#[test]
fn fence_without_spin() {
    both_notices("pingpong::fence_without_spin", Barrier::Fence, Some(Duration::ZERO));
}

#[test]
fn fence_with_spin() {
    both_notices("pingpong::fence_with_spin", Barrier::Fence, None);
}

/// Several players on one scheduler: wake-ups cross each other.
#[test]
fn several_at_once() {
    run("pingpong::several_at_once", |round| {
        let scheduler = round.build(round.builder().spin(Duration::ZERO));
        std::thread::scope(|scope| {
            for player in 0..3 {
                let scheduler = &scheduler;
                scope.spawn(move || play(round, scheduler, round.time(300), Notice::Watch, 100 * player));
            }
        });
    });
}

/// Bursts with silence in between: the last task of a burst has nobody to wake its worker again.
#[test]
fn bursts() {
    run("pingpong::bursts", |round| {
        let scheduler = round.build(round.builder().spin(Duration::ZERO));
        let mut random = round.random();
        let end = Instant::now() + round.time(400);
        while Instant::now() < end {
            let done = Arc::new(AtomicU64::new(0));
            let count = 1 + random.below(200);
            for _ in 0..count {
                let done = done.clone();
                scheduler.submit(move || _ = done.fetch_add(1, Release)).unwrap();
                (0..random.below(60)).for_each(|_| std::hint::spin_loop());
            }
            while done.load(Acquire) != count {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_micros(random.below(200)));
        }
    });
}
