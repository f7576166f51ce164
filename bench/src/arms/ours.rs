//! The scheduler of this workspace.
use super::{Arm, Runner, Syscalls, Trouble};
use crate::check::token;
use crate::run::{self, Run, Sample, own};
use crate::scenario::{Job, Pass, Shape};
use crate::tree::{Node, repeat, tree};
use scheduler::{Builder, Scheduler};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Duration;

pub(crate) struct Ours(&'static Scheduler);

impl Ours {
    /// The scheduler with default settings; the variants of this arm use the same one.
    pub(crate) fn new(workers: usize) -> Result<Ours, String> {
        static BUILT: Mutex<Option<(usize, &'static Scheduler)>> = Mutex::new(None);
        let mut built = BUILT.lock().map_err(|e| e.to_string())?;
        match *built {
            Some((size, scheduler)) if size == workers => Ok(Ours(scheduler)),
            _ => {
                let scheduler = Ours::keep(Scheduler::builder().workers(workers).build())?;
                *built = Some((workers, scheduler));
                Ok(Ours(scheduler))
            }
        }
    }

    /// A scheduler whose workers park at once: counts taken from it do not depend on the clock.
    pub(crate) fn for_counts(workers: usize) -> Result<Ours, String> {
        Ours::with(workers, |builder| builder.spin(Duration::ZERO))
    }

    /// A scheduler of its own with other settings.
    pub(crate) fn with(workers: usize, set: impl FnOnce(Builder) -> Builder) -> Result<Ours, String> {
        Ours::keep(set(Scheduler::builder().workers(workers)).build()).map(Ours)
    }

    /// The scheduler itself.
    pub(crate) fn scheduler(&self) -> &'static Scheduler {
        self.0
    }

    fn keep(built: Result<Scheduler, scheduler::BuildError>) -> Result<&'static Scheduler, String> {
        built.map(|scheduler| &*Box::leak(Box::new(scheduler))).map_err(|e| e.to_string())
    }
}

/// Other ways to submit the same tasks, for the scenarios whose bodies do nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// A registered submitter per thread.
    Submitter,
    /// Batches of [`BATCH`].
    Batch,
    /// Every submitter is a task, as in pools that have no other submitters.
    Worker,
}

/// As many tasks as a server might read from a socket at once.
const BATCH: u64 = 100;

pub(crate) struct Variant {
    ours: &'static Ours,
    way: Way,
}

impl Variant {
    pub(crate) fn new(workers: usize, way: Way) -> Result<Variant, String> {
        Ours::new(workers).map(|ours| Variant { ours: Box::leak(Box::new(ours)), way })
    }
}

/// The task of the scenarios that only count: 24 bytes.
fn counting<const OWN: bool>(run: &'static Run, i: u64) -> impl FnOnce() + Send + 'static {
    let t = token(i);
    move || {
        let _captured = (run, i);
        if OWN { own::hit(t) } else { run.hit(t) }
    }
}

impl Variant {
    fn take<const OWN: bool>(&self, run: &'static Run, job: &Job) -> Result<Sample, String> {
        let scheduler = self.ours.0;
        match self.way {
            Way::Submitter => run::drive(
                run,
                job.tasks,
                || scheduler.register_submitter().unwrap_or_else(|_| refused()),
                |lane, mut range| {
                    if range.any(|i| lane.submit(counting::<OWN>(run, i)).is_err()) {
                        refused();
                    }
                },
            ),
            Way::Batch => run::drive(
                run,
                job.tasks,
                || (),
                |(), range| {
                    for from in range.clone().step_by(BATCH as usize) {
                        let tasks = from..range.end.min(from + BATCH);
                        if scheduler.submit_batch(tasks.map(|i| counting::<OWN>(run, i))).is_err() {
                            refused();
                        }
                    }
                },
            ),
            Way::Worker => run::drive(
                run,
                job.tasks,
                || (),
                |(), range| {
                    let all = move || range.clone().for_each(|i| submit(scheduler, counting::<OWN>(run, i)));
                    submit(scheduler, all);
                },
            ),
        }
    }
}

impl Runner for Variant {
    fn sample(&mut self, job: &Job) -> Result<Sample, Trouble> {
        if job.scenario.shape != Shape::Flat || job.works() || job.pass == Pass::Latency {
            return Err(Trouble::Absent("has only the scenarios that do nothing but submit".into()));
        }
        let run = Run::new(job);
        let before = self.ours.syscalls();
        let taken = if job.scenario.own_counter {
            own::reset();
            self.take::<true>(run, job)
        } else {
            self.take::<false>(run, job)
        };
        let mut out = taken.map_err(Trouble::Failed)?;
        out.syscalls = before.zip(self.ours.syscalls()).map(|(a, b)| b - a);
        run::finish(run, out).map_err(Trouble::Failed)
    }
}

#[inline(always)]
fn submit<F: FnOnce() + Send + 'static>(scheduler: &'static Scheduler, task: F) {
    if scheduler.submit(task).is_err() {
        refused();
    }
}

#[cold]
fn refused() -> ! {
    panic!("an open scheduler without a capacity refused a task")
}

impl Arm for Ours {
    #[inline(always)]
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        submit(self.0, task);
    }

    fn join_tree(&'static self, job: &Job) -> Option<u64> {
        let (root, steps, walks) = (tree(job.levels), job.fast, job.walks);
        self.0.spawn(move || repeat(walks, || walk(root, steps))).ok()?.join().ok()
    }

    fn fib(&'static self, n: u64) -> Option<u64> {
        self.0.spawn(move || fib(n)).ok()?.join().ok()
    }

    fn syscalls(&'static self) -> Option<Syscalls> {
        let seen = self.0.metrics();
        Some(Syscalls { wakes: seen.wakes, parks: seen.parks, membarriers: seen.membarriers })
    }

    fn facts(&'static self) -> Value {
        let seen = self.0.metrics();
        let cpus: Vec<Option<u32>> = seen.workers.iter().map(|w| w.cpu).collect();
        let barrier = format!("{:?}", seen.barrier);
        json!({ "barrier": barrier, "cpus": cpus, "steals": seen.steals, "rescues": seen.rescues })
    }
}

fn walk(node: &Node, steps: u64) -> u64 {
    let (a, b) = node.kids.as_ref().map_or((0, 0), |(l, r)| scheduler::join(|| walk(l, steps), || walk(r, steps)));
    a.wrapping_add(b).wrapping_add(node.visit(steps))
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = scheduler::join(|| fib(n - 1), || fib(n - 2));
    a + b
}
