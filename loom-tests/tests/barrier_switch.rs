//! From membarrier to fences while a submit and a park race: see `scheduler/src/mode/README.md`. The real idle word
//! and mode; the queue is one word. The sleep is an observation: the parker says whether it would sleep, the
//! submitter whether it has seen somebody to wake.
#![cfg(loom)]

use loom::thread;
use loom_tests::model;
use scheduler::internals::idle::{Fences, IdleWord, Role};
use scheduler::internals::mode::{BarrierMode, Mode};
use scheduler::internals::sync::{Acquire, Arc, AtomicU32, Relaxed, Release, light};

struct World {
    words: [IdleWord; 1],
    mode: Mode,
    queue: AtomicU32,
}

impl World {
    fn new(fences: Fences) -> Arc<World> {
        let words = [IdleWord::new(false, fences)];
        Arc::new(World { words, mode: Mode::new(fences), queue: AtomicU32::new(0) })
    }

    fn spawn<R: 'static>(this: &Arc<World>, body: fn(&World) -> R) -> thread::JoinHandle<R> {
        let world = this.clone();
        thread::spawn(move || body(&world))
    }

    /// As a submit does it. True: somebody is woken.
    fn submits(&self) -> bool {
        self.queue.store(1, Release);
        light();
        let word = &self.words[0];
        word.load().attention() && word.settle().look() && word.choose(false, &[]).is_some()
    }

    /// As a worker does it. True: it sleeps.
    fn parks(&self) -> bool {
        self.words[0].announce(0, Role::default(), false);
        let sure = self.mode.heavy_side(&self.words);
        sure && self.queue.load(Acquire) == 0
    }

    fn switches(&self) {
        assert!(self.mode.give_up_membarrier(&self.words));
        assert_eq!(self.mode.get(), BarrierMode::Fence);
    }
}

fn race(fences: Fences, switchers: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::new(fences);
        let switchers: Vec<_> = (0..switchers).map(|_| World::spawn(&world, World::switches)).collect();
        let parker = World::spawn(&world, World::parks);
        let woken = world.submits();
        let sleeps = parker.join().unwrap();
        switchers.into_iter().for_each(|switcher| switcher.join().unwrap());
        assert!(woken || !sleeps, "a task is queued, its submitter saw nobody, and the worker sleeps");
    }
}

#[test]
fn membarrier() {
    model("barrier_switch::membarrier", Some(5), 10, race(Fences::None, 0));
}

#[test]
fn fence() {
    model("barrier_switch::fence", Some(5), 10, race(Fences::Submits, 0));
}

#[test]
fn one_switcher() {
    model("barrier_switch::one_switcher", Some(3), 1000, race(Fences::None, 1));
}

#[test]
fn two_switchers() {
    model("barrier_switch::two_switchers", Some(2), 1000, race(Fences::None, 2));
}

/// The switch is complete for one parker and news to the next: the mode itself carries what the switcher's barrier
/// has made visible.
#[test]
fn switched_before_the_park() {
    model("barrier_switch::switched_before_the_park", Some(3), 100, || {
        let world = World::new(Fences::None);
        let switcher = World::spawn(&world, World::switches);
        let parker = World::spawn(&world, |world| (world.mode.get() == BarrierMode::Fence).then(|| world.parks()));
        let woken = world.submits();
        let sleeps = parker.join().unwrap();
        switcher.join().unwrap();
        assert!(woken || sleeps != Some(true), "lost behind a finished switch");
    });
}

/// Many parkers count one barrier each.
#[test]
fn barriers_are_counted() {
    model("barrier_switch::barriers_are_counted", Some(3), 3, || {
        let world = World::new(Fences::None);
        let parkers = [World::spawn(&world, World::parks), World::spawn(&world, World::parks)];
        parkers.into_iter().for_each(|parker| _ = parker.join().unwrap());
        assert_eq!(world.mode.heavies(), 2);
        assert_eq!(world.queue.load(Relaxed), 0);
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("membarrier", "light"),
        ("membarrier", "heavy"),
        ("fence", "B2"),
        ("fence", "B5"),
        ("one_switcher", "B2"),
        ("one_switcher", "B5"),
        ("switched_before_the_park", "B3"),
        ("one_switcher", "switch-early"),
        ("one_switcher", "switch-no-barrier"),
    ]);
}
