//! The floor: workers that take the next entry of a prefilled array with one locked addition. No queue, no wake, no
//! submit.
//!
//! It bounds the others from below; no number from it describes a scheduler. For the join trees it is the serial walk.
use super::{Runner, Trouble};
use crate::alloc::Counted;
use crate::check::token;
use crate::os::{futex_wait, futex_wake, usage};
use crate::run::{self, Line, Run, Sample, own};
use crate::scenario::{GAP, Job, Pass, Shape};
use crate::tree::{repeat, serial, tree};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, RwLock};
use std::time::Instant;

struct Entry {
    body: fn(&'static Run, u64, u64),
    run: &'static Run,
    i: u64,
    word: u64,
}

#[derive(Default)]
struct Shared {
    entries: RwLock<Vec<Entry>>,
    next: Line<AtomicUsize>,
    /// Counts the phases; the workers sleep on it.
    phase: Line<AtomicU32>,
}

pub(crate) struct Floor(Arc<Shared>);

impl Floor {
    pub(crate) fn new(workers: usize) -> Floor {
        let shared = Arc::new(Shared::default());
        for _ in 0..workers {
            let mine = shared.clone();
            std::thread::spawn(move || mine.work());
        }
        Floor(shared)
    }
}

impl Shared {
    fn work(&self) {
        let mut seen = 0;
        loop {
            while self.phase.0.load(Acquire) == seen {
                futex_wait(&self.phase.0, seen, run::PATIENCE);
            }
            seen = self.phase.0.load(Acquire);
            let entries = self.entries.read().expect("no body panics");
            while let Some(e) = entries.get(self.next.0.fetch_add(1, AcqRel)) {
                (e.body)(e.run, e.i, e.word);
            }
        }
    }

    /// Prefills; the workers are asleep or about to be, and hold the lock no longer.
    fn fill(&self, run: &'static Run, job: &Job, range: std::ops::Range<u64>) {
        let mut entries = self.entries.write().expect("no body panics");
        // Past the end: a worker that is late for the phase before must not begin this one.
        self.next.0.store(usize::MAX / 2, Relaxed);
        entries.clear();
        let body = body(job);
        entries.extend(range.map(|i| Entry { body, run, i, word: token(i) }));
    }

    fn release(&self) {
        self.next.0.store(0, Release);
        self.phase.0.fetch_add(1, Release);
        futex_wake(&self.phase.0, i32::MAX);
    }
}

fn body(job: &Job) -> fn(&'static Run, u64, u64) {
    match job.scenario.shape {
        _ if job.scenario.own_counter => |_, _, t| own::hit(t),
        _ if job.works() => |run, i, t| {
            run.work(i);
            run.hit(t);
        },
        _ => |run, _, t| run.hit(t),
    }
}

impl Runner for Floor {
    fn sample(&mut self, job: &Job) -> Result<Sample, Trouble> {
        let failed = Trouble::Failed;
        match job.scenario.shape {
            Shape::Join => {
                let root = tree(job.levels);
                let go = || Some(repeat(job.walks, || serial(root, job.fast)));
                return run::walk(job, None, go, || None).map_err(failed);
            }
            _ if job.pass == Pass::Latency => {
                return Err(Trouble::Absent("nothing is submitted, so there is no latency".into()));
            }
            _ if job.scenario.own_counter => own::reset(),
            _ => {}
        }
        let run = Run::new(job);
        let phases = if job.scenario.shape == Shape::Burst { 2 } else { 1 };
        let each = job.tasks / phases;
        let counted = (job.pass == Pass::Allocations).then(Counted::start);
        let mut out = Sample::default();
        for phase in 0..phases {
            if phase > 0 {
                let slept = Instant::now();
                std::thread::sleep(GAP);
                out.gap += slept.elapsed();
            }
            run.expect((phase + 1) * each);
            self.0.fill(run, job, phase * each..(phase + 1) * each);
            let before = usage();
            let start = Instant::now();
            self.0.release();
            run.wait_for_all().map_err(failed)?;
            out.wall += start.elapsed();
            let used = usage() - before;
            out.usage.cpu_ns += used.cpu_ns;
            out.usage.switches += used.switches;
        }
        out.allocations = counted.map(Counted::stop);
        run::finish(run, out).map_err(failed)
    }
}
