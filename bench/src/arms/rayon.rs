//! rayon's thread pool (`rayon-core` is all of it that matters here).
use super::Arm;
use crate::scenario::Job;
use crate::tree::{Node, repeat, tree};

pub(crate) struct Rayon(rayon_core::ThreadPool);

impl Rayon {
    pub(crate) fn new(workers: usize) -> Result<Rayon, String> {
        let built = rayon_core::ThreadPoolBuilder::new().num_threads(workers).build();
        built.map(Rayon).map_err(|e| e.to_string())
    }
}

impl Arm for Rayon {
    #[inline(always)]
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        self.0.spawn(task);
    }

    #[inline(always)]
    fn submit_inside<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        rayon_core::spawn(task);
    }

    fn join_tree(&'static self, job: &Job) -> Option<u64> {
        let (root, steps, walks) = (tree(job.levels), job.fast, job.walks);
        Some(self.0.install(|| repeat(walks, || walk(root, steps))))
    }

    fn fib(&'static self, n: u64) -> Option<u64> {
        Some(self.0.install(|| fib(n)))
    }
}

fn walk(node: &Node, steps: u64) -> u64 {
    let (a, b) = node.kids.as_ref().map_or((0, 0), |(l, r)| rayon_core::join(|| walk(l, steps), || walk(r, steps)));
    a.wrapping_add(b).wrapping_add(node.visit(steps))
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon_core::join(|| fib(n - 1), || fib(n - 2));
    a + b
}
