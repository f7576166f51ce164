//! The scheduler of this workspace.
use super::{Arm, Syscalls};
use crate::scenario::Job;
use crate::tree::{Node, repeat, tree};
use scheduler::Scheduler;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) struct Ours(Scheduler);

impl Ours {
    pub(crate) fn new(workers: usize) -> Result<Ours, String> {
        Scheduler::builder().workers(workers).build().map(Ours).map_err(|e| e.to_string())
    }

    /// A scheduler whose workers park at once: counts taken from it do not depend on the clock.
    pub(crate) fn for_counts(workers: usize) -> Result<Ours, String> {
        Scheduler::builder().workers(workers).spin(Duration::ZERO).build().map(Ours).map_err(|e| e.to_string())
    }
}

#[cold]
fn refused() -> ! {
    panic!("an open scheduler without a capacity refused a task")
}

impl Arm for Ours {
    #[inline(always)]
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        if self.0.submit(task).is_err() {
            refused();
        }
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
