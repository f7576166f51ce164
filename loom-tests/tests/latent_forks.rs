//! Models of the latent forks (`scheduler/src/queue/forks/README.md`): each fork is settled once, its payload
//! ordered, and nothing is hidden for ever behind an owner or a thief that stands still.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use loom_tests::model;
use scheduler::internals::queue::forks::{Forks, Owner};
use scheduler::internals::sync::{Racy, full_fence, heavy, light};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The last version but one: models wrap it.
const LATE: u64 = (1 << 39) - 2;

/// A payload in plain memory, so that loom reports an access that no publication orders, and how often it ran.
struct Fork {
    payload: Racy<usize>,
    runs: AtomicU32,
}

struct World {
    stack: Forks<Fork, 2>,
    forks: Vec<Fork>,
}

// SAFETY: payloads are handed over through the stack; loom checks that claim.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new(forks: usize) -> Arc<Self> {
        let fork = |_| Fork { payload: Racy::new(0), runs: AtomicU32::new(0) };
        Arc::new(World { stack: Forks::new_at(LATE), forks: (0..forks).map(fork).collect() })
    }

    fn owner(&self) -> Owner<'_, Fork, 2> {
        // SAFETY: each model calls the owner's side from its main thread only, and pops what it has pushed, newest
        // first.
        unsafe { self.stack.owner() }
    }

    /// The owner begins a join: writes the payload and pushes the fork.
    fn begin(&self, fork: usize) {
        let fork = &self.forks[fork];
        // SAFETY: the fork is not in the stack yet.
        fork.payload.with(|p| unsafe { *p = 7 });
        assert!(self.owner().push(std::ptr::from_ref(fork).cast_mut()));
    }

    /// The owner comes back to its newest fork, and runs it if nobody has taken it.
    fn end(&self, fork: usize, between: impl FnOnce()) {
        if self.owner().pop(between) {
            self.run(&self.forks[fork]);
        }
    }

    fn run(&self, fork: &Fork) {
        // SAFETY: whoever settles a fork has it alone; loom checks it.
        fork.payload.with(|p| assert_eq!(unsafe { *p }, 7));
        assert_eq!(fork.runs.fetch_add(1, Relaxed), 0, "run twice");
    }

    fn steal(&self) -> bool {
        let Some(fork) = self.stack.steal() else {
            return false;
        };
        // SAFETY: all forks live as long as the world.
        self.run(unsafe { &*fork });
        true
    }

    /// What must hold when all threads are gone and all forks are popped.
    fn finish(&self) {
        assert!(!self.steal(), "a popped fork can be stolen");
        let lost = self.forks.iter().any(|f| f.runs.load(Relaxed) != 1);
        assert!(!lost, "lost");
    }
}

fn spawn(world: &Arc<World>, body: fn(&World)) -> JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || body(&world))
}

/// Nested forks: the owner publishes them, takes them back or finds them stolen, and uses their slots again.
#[test]
fn owner_against_thief() {
    model("owner_against_thief", Some(5), 200, || {
        let world = World::new(3);
        let thief = spawn(&world, |w| {
            w.steal();
            w.steal();
        });
        world.begin(0);
        world.owner().publish();
        world.begin(1);
        world.owner().publish();
        world.end(1, light);
        world.begin(2);
        world.end(2, light);
        world.end(0, light);
        thief.join().unwrap();
        world.finish();
    });
}

/// A published fork comes back, and its slot is published again with another fork: a thief that has read the first must
/// not settle the second. No barrier is needed: everything public goes through one word.
#[test]
fn slot_reuse() {
    model("slot_reuse", Some(5), 50, || {
        let world = World::new(2);
        let thief = spawn(&world, |w| {
            w.steal();
        });
        for fork in 0..2 {
            world.begin(fork);
            world.owner().publish();
            world.end(fork, || ());
        }
        thief.join().unwrap();
        world.finish();
    });
}

/// Payload order without any barrier: an owner that is not done with its forks needs none. One thief publishes, another
/// steals.
#[test]
fn third_party_steals_what_was_rescued() {
    model("third_party_steals_what_was_rescued", Some(5), 100, || {
        let world = World::new(1);
        let rescuer = spawn(&world, |w| {
            w.stack.rescue(|| true);
        });
        let thief = spawn(&world, |w| {
            w.steal();
        });
        world.begin(0);
        rescuer.join().unwrap();
        thief.join().unwrap();
        world.end(0, light);
        world.finish();
    });
}

/// What a thief reads of `tail` may have been stored by a pop: payloads are ordered behind that store as well. No
/// barrier: the thief can reach the older fork only.
#[test]
fn rescuer_reads_a_lowered_tail() {
    model("rescuer_reads_a_lowered_tail", Some(5), 50, || {
        let world = World::new(2);
        let thief = spawn(&world, |w| {
            w.stack.rescue(|| true);
            w.steal();
        });
        world.begin(0);
        world.begin(1);
        world.end(1, || ());
        thief.join().unwrap();
        world.end(0, light);
        world.finish();
    });
}

fn owner_against_rescuer_with(bare: bool, barrier: fn() -> bool) -> impl Fn() + Send + Sync + 'static {
    let between = if bare { || () } else { light };
    move || {
        let world = World::new(3);
        if bare {
            world.stack.fence_pops();
        }
        let thief = {
            let world = world.clone();
            thread::spawn(move || {
                world.stack.rescue(barrier);
                world.steal();
            })
        };
        world.begin(0);
        world.end(0, between);
        world.begin(1);
        world.begin(2);
        world.end(2, between);
        world.end(1, between);
        thief.join().unwrap();
        world.finish();
    }
}

/// A thief publishes for an owner that forks and joins all the time. Membarrier mode.
#[test]
fn owner_against_rescuer() {
    let body = owner_against_rescuer_with(false, heavy);
    model("owner_against_rescuer", Some(4), 500, body);
}

fn thief_fence() -> bool {
    full_fence("thief_fence");
    true
}

/// The same where membarrier is refused: both sides are full fences.
#[test]
fn owner_against_rescuer_fenced() {
    let body = owner_against_rescuer_with(true, thief_fence);
    model("owner_against_rescuer_fenced", Some(4), 500, body);
}

/// The barrier is refused in mid-life: the intent is withdrawn, nothing is published on the strength of it.
#[test]
fn refused_barrier() {
    model("refused_barrier", Some(5), 50, || {
        let world = World::new(2);
        world.begin(0);
        world.begin(1);
        let thief = spawn(&world, |w| {
            w.stack.rescue(|| false);
            w.steal();
        });
        world.end(1, || ());
        world.end(0, || ());
        thief.join().unwrap();
        world.finish();
    });
}

/// The owner publishes by itself while a thief publishes for it and another steals.
#[test]
fn owner_publishes_against_rescuer() {
    model("owner_publishes_against_rescuer", Some(3), 500, || {
        let world = World::new(2);
        world.begin(0);
        world.begin(1);
        let rescuer = spawn(&world, |w| {
            w.stack.rescue(heavy);
        });
        let thief = spawn(&world, |w| {
            w.steal();
        });
        world.owner().publish();
        world.end(1, light);
        world.end(0, light);
        rescuer.join().unwrap();
        thief.join().unwrap();
        world.finish();
    });
}

/// A thief steals in the middle of another one's rescue: the intent is withdrawn, and must not be committed after that.
#[test]
fn steal_withdraws_an_intent() {
    model("steal_withdraws_an_intent", Some(3), 500, || {
        let world = World::new(2);
        world.begin(0);
        world.begin(1);
        world.owner().publish();
        let rescue = |w: &World| {
            w.stack.rescue(heavy);
        };
        let steal = |w: &World| {
            w.steal();
        };
        let (rescuer, thief) = (spawn(&world, rescue), spawn(&world, steal));
        world.end(1, light);
        world.end(0, light);
        rescuer.join().unwrap();
        thief.join().unwrap();
        world.finish();
    });
}

/// Two thieves rescue and steal while the owner joins: they may finish each other's intents.
#[test]
fn two_rescuers() {
    model("two_rescuers", Some(2), 300, || {
        let world = World::new(2);
        world.begin(0);
        world.begin(1);
        let rescue = |w: &World| {
            w.stack.rescue(heavy);
            w.steal();
        };
        let (a, b) = (spawn(&world, rescue), spawn(&world, rescue));
        world.end(1, light);
        world.end(0, light);
        a.join().unwrap();
        b.join().unwrap();
        world.finish();
    });
}

/// Announces and stands still for ever. `resume_unwind`, because it prints nothing.
fn abandon(world: &World) {
    let stop = || std::panic::resume_unwind(Box::new(()));
    let rescue = std::panic::AssertUnwindSafe(|| world.stack.rescue(stop));
    let _ = std::panic::catch_unwind(rescue);
}

/// A thief is preempted before its commit, the owner withdraws its intent, and another thief announces the same fork
/// again: the first must not commit the second one's intent. Both thieves are played by one thread: what it read of
/// `tail` may be as old as the barrier it has passed allows, and that stands for the preemption.
#[test]
fn stale_rescuer() {
    model("stale_rescuer", Some(4), 200, || {
        let world = World::new(2);
        world.begin(0);
        let thieves = spawn(&world, |w| {
            w.stack.rescue(|| {
                heavy();
                abandon(w);
                true
            });
            w.steal();
        });
        world.end(0, light);
        world.begin(1);
        world.end(1, light);
        thieves.join().unwrap();
        world.finish();
    });
}

/// The owner never comes back and one thief may stand still anywhere: the other settles everything in a bounded
/// number of steps, whatever the first has left behind.
#[test]
fn nothing_hides_behind_a_stuck_thief() {
    model("nothing_hides_behind_a_stuck_thief", Some(5), 200, || {
        let world = World::new(2);
        world.begin(0);
        world.begin(1);
        let stuck = spawn(&world, |w| {
            w.stack.rescue(heavy);
            w.steal();
        });
        // Two forks, and the first can spoil three of our compare-exchanges: intent, commit, steal.
        for _ in 0..5 {
            thief_step(&world);
        }
        assert_eq!(world.stack.private_len() + world.stack.public_len(), 0, "hidden");
        stuck.join().unwrap();
        world.end(1, light);
        world.end(0, light);
        world.finish();
    });
}

fn thief_step(world: &World) {
    world.stack.rescue(heavy);
    world.steal();
}

/// Every ordering, barrier side and planted bug is noticed by at least one model.
#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("third_party_steals_what_was_rescued", "LF1"),
        ("rescuer_reads_a_lowered_tail", "LF2"),
        ("third_party_steals_what_was_rescued", "LF3"),
        ("owner_against_thief", "LF4"),
        ("third_party_steals_what_was_rescued", "LF6"),
        ("owner_against_thief", "LF8"),
        ("owner_against_rescuer", "light"),
        ("owner_against_rescuer", "heavy"),
        ("owner_against_rescuer_fenced", "LF9"),
        ("owner_against_rescuer_fenced", "thief_fence"),
        ("owner_against_rescuer", "lf_no_recheck"),
        ("owner_against_rescuer", "lf_no_cancel"),
        ("owner_publishes_against_rescuer", "lf_publish_store"),
        ("slot_reuse", "lf_version"),
        ("stale_rescuer", "lf_version"),
        ("nothing_hides_behind_a_stuck_thief", "lf_own_intent_only"),
        ("refused_barrier", "lf_refused"),
    ]);
}
