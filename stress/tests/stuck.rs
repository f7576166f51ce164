//! Nothing waits behind a stuck owner. The stuck task ends only when all that its worker holds has been run by
//! others: a task that waits for it hangs the test. How long they wait is printed.
#![cfg(not(loom))]

use scheduler::{Handle, Scheduler};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stress::report::{Quantiles, say};
use stress::watchdog::violation;
use stress::{Round, run};

/// Far beyond what a busy machine can explain.
const HOPELESS: Duration = Duration::from_secs(30);
/// How long a worker is stuck at least, so that latecomers meet it, too.
const STUCK: Duration = Duration::from_millis(10);

/// Waiting times of the tasks behind a stuck one.
#[derive(Clone, Default)]
struct Waits(Arc<(Mutex<Vec<Duration>>, AtomicUsize)>);

impl Waits {
    /// A task that notes how long it has waited.
    fn task(&self) -> impl FnOnce() + Send + 'static {
        let (waits, queued) = (self.clone(), Instant::now());
        move || waits.note(queued)
    }

    fn note(&self, queued: Instant) {
        let waited = queued.elapsed();
        self.0.0.lock().unwrap().push(waited);
        self.0.1.fetch_add(1, Relaxed);
    }

    /// What the stuck task does: computes until `count` tasks have run elsewhere.
    fn be_stuck(&self, count: usize) {
        let began = Instant::now();
        while began.elapsed() < STUCK || self.0.1.load(Relaxed) < count {
            (0..100).for_each(|_| std::hint::spin_loop());
            if began.elapsed() > HOPELESS {
                violation(&format!("{} of {count} tasks wait behind a stuck owner", count - self.0.1.load(Relaxed)));
            }
        }
        self.0.1.store(0, Relaxed);
    }

    fn report(&self, name: &str) {
        let times = Quantiles::of(std::mem::take(&mut self.0.0.lock().unwrap()));
        say(&format!("{name}: {times}"));
    }
}

fn play(name: &'static str, scene: impl Fn(&Round, &Scheduler, &Waits)) {
    run(name, |round| {
        let scheduler = round.build(round.builder_of(round.profile.workers.max(2)));
        let waits = Waits::default();
        let end = Instant::now() + round.time(300);
        while Instant::now() < end {
            scene(round, &scheduler, &waits);
            assert!(scheduler.wait_idle(Duration::from_secs(100)));
        }
        waits.report(name);
    });
}

#[test]
fn its_ring() {
    play("stuck::its_ring", |_, scheduler, waits| {
        let waits = waits.clone();
        let stuck = move || {
            (0..100).for_each(|_| Handle::current().submit(waits.task()).unwrap());
            waits.be_stuck(100);
        };
        scheduler.submit(stuck).unwrap();
    });
}

/// One task alone is the case where nobody is woken for it.
#[test]
fn its_only_task() {
    play("stuck::its_only_task", |_, scheduler, waits| {
        let waits = waits.clone();
        let stuck = move || {
            Handle::current().submit(waits.task()).unwrap();
            waits.be_stuck(1);
        };
        scheduler.submit(stuck).unwrap();
    });
}

/// Short tasks make a worker fast, so that it claims whole batches; then one of a batch is slow.
#[test]
fn its_claimed_batch() {
    play("stuck::its_claimed_batch", |_, scheduler, waits| {
        let mut own = scheduler.register_submitter().unwrap();
        own.submit_batch((0..2_000).map(|_| || ())).unwrap();
        let stuck = waits.clone();
        own.submit(move || stuck.be_stuck(500)).unwrap();
        (0..500).for_each(|_| own.submit(waits.task()).unwrap());
    });
}

/// What outsiders submit while all but one worker are stuck.
#[test]
fn the_lanes() {
    play("stuck::the_lanes", |round, scheduler, waits| {
        for _ in 1..round.profile.workers.clamp(2, 4) {
            let stuck = waits.clone();
            scheduler.submit(move || stuck.be_stuck(0)).unwrap();
        }
        for _ in 0..50 {
            scheduler.submit(waits.task()).unwrap();
            std::thread::sleep(Duration::from_micros(50));
        }
    });
}

#[test]
fn its_latent_forks() {
    play("stuck::its_latent_forks", |_, scheduler, waits| {
        let waits = waits.clone();
        let forks = move || {
            let queued = Instant::now();
            let forked = || waits.note(queued);
            // Three levels: the outer forks are hidden behind the inner ones.
            let inner = || scheduler::join(|| waits.be_stuck(3), forked);
            scheduler::join(|| scheduler::join(inner, forked), forked);
        };
        scheduler.submit(forks).unwrap();
    });
}

#[test]
fn its_scope() {
    play("stuck::its_scope", |_, scheduler, waits| {
        let waits = waits.clone();
        let scope = move || {
            Handle::current().scope(|scope| {
                for _ in 0..20 {
                    let task = waits.task();
                    scope.spawn(move |_| task());
                }
                waits.be_stuck(20);
            });
        };
        scheduler.submit(scope).unwrap();
    });
}

/// A rogue on each worker but one, and a stream of spawns that are waited for.
#[test]
fn joins_beside_rogues() {
    play("stuck::joins_beside_rogues", |_, scheduler, waits| {
        let rogue = waits.clone();
        scheduler.submit(move || rogue.be_stuck(0)).unwrap();
        for i in 0..20 {
            let task = waits.task();
            let spawned = move || {
                task();
                i
            };
            assert_eq!(scheduler.spawn(spawned).unwrap().join().unwrap(), i);
        }
    });
}
