//! chili: latent forks with a heartbeat. It has nothing but fork and join.
use super::Arm;
use crate::scenario::Job;
use crate::tree::{Node, repeat, tree};
use std::num::NonZero;

pub(crate) struct Chili(chili::ThreadPool);

impl Chili {
    /// The caller works too, and is one of the threads that the pool is told.
    pub(crate) fn new(workers: usize) -> Result<Chili, String> {
        let thread_count = NonZero::new(workers);
        Ok(Chili(chili::ThreadPool::with_config(chili::Config { thread_count, ..chili::Config::default() })))
    }
}

impl Arm for Chili {
    fn submit<F: FnOnce() + Send + 'static>(&'static self, _task: F) {
        unreachable!("the table of arms keeps this one to fork and join");
    }

    fn join_tree(&'static self, job: &Job) -> Option<u64> {
        let mut scope = self.0.scope();
        let root = tree(job.levels);
        Some(repeat(job.walks, || walk(&mut scope, root, job.fast)))
    }

    fn fib(&'static self, n: u64) -> Option<u64> {
        Some(fib(&mut self.0.scope(), n))
    }
}

fn walk(scope: &mut chili::Scope<'_>, node: &Node, steps: u64) -> u64 {
    let kids = node.kids.as_ref();
    let (a, b) = kids.map_or((0, 0), |(l, r)| scope.join(|s| walk(s, l, steps), |s| walk(s, r, steps)));
    a.wrapping_add(b).wrapping_add(node.visit(steps))
}

fn fib(scope: &mut chili::Scope<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = scope.join(|s| fib(s, n - 1), |s| fib(s, n - 2));
    a + b
}
