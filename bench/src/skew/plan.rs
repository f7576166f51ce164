//! The tasks of `skew`: fixed-iteration work, some of it sixteen times as long, placed where a static deal to the
//! workers would give all of it to one.

use crate::calib::opaque;

/// Iterations of a short task, full and tiny (chosen): some 0.4 ms, long beside a wake-up of some 25 us.
const SHORT: [u64; 2] = [200_000, 2_000];
/// How many times longer a long task is.
const LONG: u64 = 16;
/// Tasks per worker, and long ones among them.
const TASKS: usize = 16;
const LONG_TASKS: usize = 2;

/// The tasks for one number of workers.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) workers: usize,
    /// Iterations of each task.
    pub(super) iterations: Vec<u64>,
    /// The sum over the results of all tasks.
    pub(super) sum: u64,
}

impl Plan {
    pub(super) fn new(workers: usize, tiny: bool) -> Plan {
        let short = SHORT[usize::from(tiny)];
        let mut iterations = vec![short; TASKS * workers];
        long(workers).for_each(|i| iterations[i] = LONG * short);
        let sum = iterations.iter().enumerate().fold(0, |sum: u64, (i, &n)| sum.wrapping_add(work(i, n)));
        Plan { workers, iterations, sum }
    }

    pub(super) fn tasks(&self) -> usize {
        self.iterations.len()
    }

    pub(super) fn long_tasks(&self) -> usize {
        long(self.workers).count()
    }
}

/// The indices of the long tasks: `N - 1 - kW`, and from the seventeenth on the same one residue lower.
fn long(workers: usize) -> impl Iterator<Item = usize> {
    let last = TASKS * workers - 1;
    (0..LONG_TASKS * workers).map(move |k| last - (k % TASKS) * workers - k / TASKS)
}

/// The body of task `index`: a chain in which every step needs the one before.
#[inline(never)]
pub(super) fn work(index: usize, iterations: u64) -> u64 {
    let mut s = index as u64 + 1;
    for _ in 0..iterations {
        s = opaque(s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
    s >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn four_workers_have_the_published_placement() {
        let plan = Plan::new(4, true);
        assert_eq!((plan.tasks(), plan.long_tasks()), (64, 8));
        let expected: Vec<usize> = (0..8).map(|k| 63 - 4 * k).collect();
        assert_eq!(long(4).collect::<Vec<_>>(), expected);
        for (i, &n) in plan.iterations.iter().enumerate() {
            assert_eq!(n, if expected.contains(&i) { 32_000 } else { 2_000 }, "{i}");
        }
    }

    #[test]
    fn the_scaled_form_has_two_long_ones_per_worker() {
        for workers in [1, 2, 3, 8, 16, 40] {
            let all: BTreeSet<usize> = long(workers).collect();
            assert_eq!(all.len(), 2 * workers, "{workers} workers: no task twice");
            assert!(all.iter().all(|&i| i < 16 * workers));
        }
        // Sixteen of them fill a residue, the next ones take the one below.
        assert!(long(16).take(16).all(|i| i % 16 == 15) && long(16).skip(16).all(|i| i % 16 == 14));
    }

    #[test]
    fn results_are_those_of_the_formula() {
        let one = 7_u64.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        assert_eq!(work(6, 1), one >> 33);
        assert_eq!(work(6, 0), 0);
        assert_ne!(work(6, 2), work(7, 2));
    }
}
