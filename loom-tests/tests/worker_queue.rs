//! Models of the worker queue (`scheduler/src/queue/local/README.md`): nothing lost, nothing run twice, payloads
//! ordered, and nothing hidden for ever behind an owner or a thief that stands still.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use loom_tests::model;
use scheduler::internals::queue::local::{Owner, Ring};
use scheduler::internals::sync::{Racy, full_fence, heavy, light};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A payload in plain memory, so that loom reports an access that no publication orders, and how often it ran.
struct Task {
    payload: Racy<usize>,
    runs: AtomicU32,
}

/// One ring and everything that ever goes through it.
struct World<const CAP: usize> {
    ring: Ring<Task, CAP>,
    tasks: Vec<Task>,
}

// SAFETY: payloads are handed over through the ring; loom checks that claim.
unsafe impl<const CAP: usize> Send for World<CAP> {}
// SAFETY: as above.
unsafe impl<const CAP: usize> Sync for World<CAP> {}

impl<const CAP: usize> World<CAP> {
    fn new(start: u32, tasks: usize) -> Arc<Self> {
        let task = |_| Task { payload: Racy::new(0), runs: AtomicU32::new(0) };
        Arc::new(World { ring: Ring::new_at(start), tasks: (0..tasks).map(task).collect() })
    }

    fn owner(&self) -> Owner<'_, Task, CAP> {
        // SAFETY: each model calls the owner's side from its owning thread only, and hands the role over by spawn and
        // join.
        unsafe { self.ring.owner() }
    }

    /// Writes the payload as a submitter does.
    fn make(&self, task: usize) -> *mut Task {
        let task = &self.tasks[task];
        // SAFETY: the task is not in the ring yet.
        task.payload.with(|p| unsafe { *p = 7 });
        std::ptr::from_ref(task).cast_mut()
    }

    fn push(&self, tasks: std::ops::Range<usize>) {
        for task in tasks {
            self.owner().push(self.make(task)).unwrap();
        }
    }

    fn run(&self, task: *mut Task) {
        // SAFETY: all tasks live as long as the world.
        let task = unsafe { &*task };
        // SAFETY: whoever gets a task has it alone; loom checks it.
        task.payload.with(|p| assert_eq!(unsafe { *p }, 7));
        assert_eq!(task.runs.fetch_add(1, Relaxed), 0, "run twice");
    }

    fn pop(&self, between: impl FnOnce()) -> bool {
        let task = self.owner().pop(between);
        task.inspect(|&task| self.run(task)).is_some()
    }

    fn claim(&self, most: u32) -> usize {
        let mut batch = [const { MaybeUninit::uninit() }; 4];
        let claimed = self.ring.claim(&mut batch, |_| most);
        claimed.iter().for_each(|&task| self.run(task));
        claimed.len()
    }

    /// The owner takes what is left, as it does before it parks.
    fn drain(&self) {
        while self.pop(light) {}
        while self.claim(4) != 0 {}
    }

    /// What must hold when all threads are gone.
    fn finish(&self) {
        self.drain();
        let lost = self.tasks.iter().any(|t| t.runs.load(Relaxed) != 1);
        assert!(!lost, "lost");
    }
}

fn spawn<const CAP: usize>(world: &Arc<World<CAP>>, body: fn(&World<CAP>)) -> JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || body(&world))
}

/// The owner publishes, pops and pushes across the wrap of its positions while a thief claims batches.
#[test]
fn owner_against_batch_thief() {
    model("owner_against_batch_thief", Some(5), 50, || {
        let world = World::<4>::new(u32::MAX - 1, 4);
        let thief = spawn(&world, |w| {
            w.claim(2);
            w.claim(2);
        });
        world.push(0..3);
        world.owner().publish(2);
        world.pop(light);
        world.push(3..4);
        world.drain();
        thief.join().unwrap();
        world.finish();
    });
}

/// The ring is full, slots are reused while a thief reads them, and a failed push gives its task back.
#[test]
fn slot_reuse() {
    model("slot_reuse", Some(5), 1000, || {
        let world = World::<2>::new(u32::MAX, 4);
        let thief = spawn(&world, |w| {
            w.claim(2);
        });
        for task in 0..4 {
            if let Err(task) = world.owner().push(world.make(task)) {
                world.claim(1);
                world.owner().push(task).expect("room after a claim");
            }
            world.owner().publish(1);
        }
        thief.join().unwrap();
        world.finish();
    });
}

/// A batch goes in by one store of `tail`; a thief publishes and claims it. No barrier: the owner does not pop.
#[test]
fn batch_is_published_whole() {
    model("batch_is_published_whole", Some(5), 5, || {
        let world = World::<4>::new(u32::MAX, 3);
        let thief = spawn(&world, |w| {
            w.ring.rescue(|| true);
            w.claim(4);
        });
        let mut batch = [0, 1, 2].map(|task| world.make(task)).into_iter();
        assert_eq!(world.owner().push_many(&mut batch), 3);
        thief.join().unwrap();
        world.finish();
    });
}

/// Payload order without any barrier: an owner that only pushes needs none. One thief publishes, another claims.
#[test]
fn third_party_claims_what_was_rescued() {
    model("third_party_claims_what_was_rescued", Some(5), 100, || {
        let world = World::<4>::new(u32::MAX, 2);
        let rescuer = spawn(&world, |w| {
            w.ring.rescue(|| true);
        });
        let thief = spawn(&world, |w| {
            w.claim(2);
        });
        world.push(0..2);
        rescuer.join().unwrap();
        thief.join().unwrap();
        world.finish();
    });
}

/// Payload order without any barrier when the owner publishes by itself.
#[test]
fn third_party_claims_what_was_published() {
    model("third_party_claims_what_was_published", Some(5), 20, || {
        let world = World::<4>::new(u32::MAX, 2);
        let thief = spawn(&world, |w| {
            w.claim(1);
            w.claim(1);
        });
        world.push(0..1);
        world.owner().publish(1);
        world.push(1..2);
        world.owner().publish(1);
        thief.join().unwrap();
        world.finish();
    });
}

/// What a thief reads of `tail` may have been stored by a pop: payloads are ordered behind that store as well. The
/// barrier is here for exclusion only, and where it comes before the owner's light side it orders nothing else.
#[test]
fn rescuer_reads_a_lowered_tail() {
    model("rescuer_reads_a_lowered_tail", Some(5), 50, || {
        let world = World::<2>::new(u32::MAX, 2);
        let thief = spawn(&world, |w| {
            w.ring.rescue(heavy);
            w.claim(1);
        });
        world.push(0..2);
        world.pop(light);
        thief.join().unwrap();
        world.finish();
    });
}

fn owner_against_rescuer_with(between: fn(), barrier: fn() -> bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let world = World::<4>::new(u32::MAX, 3);
        world.push(0..1);
        let thief = {
            let world = world.clone();
            thread::spawn(move || {
                world.ring.rescue(barrier);
                world.claim(2);
            })
        };
        world.push(1..2);
        world.pop(between);
        world.push(2..3);
        world.pop(between);
        world.pop(between);
        thief.join().unwrap();
        world.finish();
    }
}

/// A thief publishes for an owner that pops and pushes all the time. Membarrier mode.
#[test]
fn owner_against_rescuer() {
    let body = owner_against_rescuer_with(light, heavy);
    model("owner_against_rescuer", Some(4), 1000, body);
}

fn owner_fence() {
    full_fence("owner_fence");
}
fn thief_fence() -> bool {
    full_fence("thief_fence");
    true
}

/// The same where membarrier is refused: both sides are full fences.
#[test]
fn owner_against_rescuer_fenced() {
    let body = owner_against_rescuer_with(owner_fence, thief_fence);
    model("owner_against_rescuer_fenced", Some(4), 1000, body);
}

/// The barrier is refused in mid-life: the intent is withdrawn, nothing is published on the strength of it, no barrier
/// is needed for that.
#[test]
fn refused_barrier() {
    model("refused_barrier", Some(5), 100, || {
        let world = World::<4>::new(u32::MAX, 2);
        world.push(0..2);
        let thief = spawn(&world, |w| {
            w.ring.rescue(|| false);
            w.claim(2);
        });
        world.pop(|| ());
        world.pop(|| ());
        thief.join().unwrap();
        world.finish();
    });
}

/// The owner publishes by itself while a thief publishes for it and another claims.
#[test]
fn owner_publishes_against_rescuer() {
    model("owner_publishes_against_rescuer", Some(3), 1000, || {
        let world = World::<4>::new(u32::MAX, 3);
        world.push(0..3);
        let rescuer = spawn(&world, |w| {
            w.ring.rescue(heavy);
        });
        let thief = spawn(&world, |w| {
            w.claim(2);
        });
        world.owner().publish(1);
        world.pop(light);
        rescuer.join().unwrap();
        thief.join().unwrap();
        world.finish();
    });
}

/// Two thieves rescue and claim while the owner empties the ring: they may finish each other's intents.
#[test]
fn two_rescuers() {
    model("two_rescuers", Some(2), 500, || {
        let world = World::<2>::new(u32::MAX, 2);
        world.push(0..2);
        let rescue = |w: &World<2>| {
            w.ring.rescue(heavy);
            w.claim(1);
        };
        let (a, b) = (spawn(&world, rescue), spawn(&world, rescue));
        world.drain();
        a.join().unwrap();
        b.join().unwrap();
        world.finish();
    });
}

/// Announces and stands still for ever. `resume_unwind`, because it prints nothing.
fn abandon<const CAP: usize>(world: &World<CAP>) {
    let stop = || std::panic::resume_unwind(Box::new(()));
    let rescue = std::panic::AssertUnwindSafe(|| world.ring.rescue(stop));
    let _ = std::panic::catch_unwind(rescue);
}

/// A thief is preempted before its commit, the owner withdraws its intent, and another thief announces the same
/// positions again: the first must not commit the second one's intent. Both thieves are played by one thread: what it
/// read of `tail` may be as old as the barrier it has passed allows, and that stands for the preemption.
#[test]
fn stale_rescuer() {
    model("stale_rescuer", Some(4), 1000, || {
        let world = World::<2>::new(u32::MAX, 2);
        world.push(0..1);
        let thieves = spawn(&world, |w| {
            w.ring.rescue(|| {
                heavy();
                abandon(w);
                true
            });
            w.claim(1);
        });
        world.pop(light);
        world.push(1..2);
        world.pop(light);
        thieves.join().unwrap();
        world.finish();
    });
}

/// The owner never runs again and one thief may stand still anywhere: the other drains the ring in a bounded number of
/// steps, whatever the first has left behind.
#[test]
fn nothing_hides_behind_a_stuck_thief() {
    model("nothing_hides_behind_a_stuck_thief", Some(5), 100, || {
        let world = World::<4>::new(u32::MAX, 3);
        world.push(0..3);
        let stuck = spawn(&world, |w| {
            w.ring.rescue(heavy);
            w.claim(1);
        });
        // The first can spoil two of our compare-exchanges: with its intent and with its commit.
        for _ in 0..3 {
            world.ring.rescue(heavy);
            world.claim(4);
        }
        assert_eq!(world.ring.private_hint() + world.ring.public_len(), 0, "hidden");
        stuck.join().unwrap();
        world.finish();
    });
}

/// Every ordering, barrier side and planted bug is noticed by at least one model.
#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("batch_is_published_whole", "WQ1b"),
        ("third_party_claims_what_was_rescued", "WQ1"),
        ("rescuer_reads_a_lowered_tail", "WQ2"),
        ("third_party_claims_what_was_rescued", "WQ3"),
        ("third_party_claims_what_was_published", "WQ5"),
        ("third_party_claims_what_was_rescued", "WQ7"),
        ("third_party_claims_what_was_published", "WQ8"),
        ("owner_against_rescuer", "light"),
        ("owner_against_rescuer", "heavy"),
        ("owner_against_rescuer_fenced", "owner_fence"),
        ("owner_against_rescuer_fenced", "thief_fence"),
        ("owner_against_rescuer", "wq_no_recheck"),
        ("owner_against_rescuer", "wq_no_cancel"),
        ("owner_publishes_against_rescuer", "wq_publish_store"),
        ("stale_rescuer", "wq_version"),
        ("nothing_hides_behind_a_stuck_thief", "wq_own_intent_only"),
        ("refused_barrier", "wq_refused"),
    ]);
}
