//! The scenarios and what one sample of each consists of.
use crate::calib::Calibration;

/// How the tasks of a scenario come into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All tasks are submitted from outside.
    Flat,
    /// As flat, in two halves with a drain and a sleep of 10 ms between them.
    Burst,
    /// One task at a time: the next is submitted when the one before has ended. Asked only of programs in other
    /// languages, by `wakeup`.
    Serial,
    /// One task in five is submitted from outside and submits the other four.
    Nested,
    /// A tree of tasks in which every task submits four, down to `levels` below the root.
    Deep,
    /// Fork and join over a binary tree of data.
    Join,
}

/// One row group of the report.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// A second name under which the scenario is chosen together with its variants.
    pub(crate) family: &'static str,
    pub(crate) shape: Shape,
    /// Tasks, full and tiny. Of a tree these are its levels below the root.
    size: [u64; 2],
    /// How often a join tree is walked per sample, full and tiny.
    walks: [u64; 2],
    pub(crate) submitters: u64,
    /// Every worker counts on a line of its own instead of a shared one.
    pub(crate) own_counter: bool,
    /// Length of the body in nanoseconds, and of every `slow_every`-th body if that is not 0.
    fast_ns: u64,
    slow_ns: u64,
    slow_every: u64,
    /// Whether latencies are taken, in rounds of their own.
    pub(crate) latency: bool,
}

const NOTHING: Scenario = Scenario {
    name: "",
    family: "",
    shape: Shape::Flat,
    size: [0; 2],
    walks: [1; 2],
    submitters: 1,
    own_counter: false,
    fast_ns: 0,
    slow_ns: 0,
    slow_every: 0,
    latency: false,
};

/// All scenarios, in the order of the report.
pub(crate) static ALL: [Scenario; 15] = [
    Scenario { name: "flood_1m", size: [1_000_000, 2_000], ..NOTHING },
    Scenario {
        name: "flood_1m_own_counter",
        family: "own_counter",
        size: [1_000_000, 2_000],
        own_counter: true,
        ..NOTHING
    },
    Scenario { name: "contended_spawn_8x", size: [100_000, 800], submitters: 8, ..NOTHING },
    Scenario {
        name: "contended_spawn_8x_own_counter",
        family: "own_counter",
        size: [100_000, 800],
        submitters: 8,
        own_counter: true,
        ..NOTHING
    },
    Scenario { name: "cpu_work_10us", size: [10_000, 100], fast_ns: 10_000, latency: true, ..NOTHING },
    Scenario { name: "cpu_work_100us", size: [2_000, 20], fast_ns: 100_000, latency: true, ..NOTHING },
    Scenario {
        name: "contended_cpu_10us",
        size: [10_000, 100],
        submitters: 4,
        fast_ns: 10_000,
        latency: true,
        ..NOTHING
    },
    Scenario { name: "nested_fanout_4x", size: [10_000, 500], shape: Shape::Nested, ..NOTHING },
    Scenario {
        name: "burst_drain_burst",
        size: [4_000, 40],
        shape: Shape::Burst,
        fast_ns: 50_000,
        latency: true,
        ..NOTHING
    },
    Scenario {
        name: "mixed_fast_slow",
        size: [5_000, 50],
        slow_ns: 1_000_000,
        slow_every: 5,
        latency: true,
        ..NOTHING
    },
    Scenario { name: "deep_tree", size: [9, 4], shape: Shape::Deep, ..NOTHING },
    Scenario {
        name: "deep_tree_own_counter",
        family: "deep_tree",
        size: [9, 4],
        shape: Shape::Deep,
        own_counter: true,
        ..NOTHING
    },
    Scenario { name: "join_tree", size: [19, 7], walks: [4, 1], shape: Shape::Join, ..NOTHING },
    Scenario {
        name: "join_tree_1023",
        family: "join_tree",
        size: [9, 4],
        walks: [4_096, 4],
        shape: Shape::Join,
        ..NOTHING
    },
    Scenario { name: "join_tree_45ns", family: "join_tree", size: [19, 7], fast_ns: 45, shape: Shape::Join, ..NOTHING },
];

impl Scenario {
    /// A scenario that is not in the table.
    pub(crate) fn flat(name: &'static str, tasks: u64, submitters: u64, body_ns: u64) -> Scenario {
        Scenario { name, size: [tasks; 2], submitters, fast_ns: body_ns, ..NOTHING }
    }

    /// One task at a time.
    pub(crate) fn serial(name: &'static str, tasks: u64) -> Scenario {
        Scenario { shape: Shape::Serial, ..Scenario::flat(name, tasks, 1, 0) }
    }

    /// Whether `--scenarios` meant this one when it said `name`.
    pub(crate) fn answers_to(&self, name: &str) -> bool {
        !name.is_empty() && (self.name == name || self.family == name)
    }

    /// Tasks (nodes, for a join tree) of one sample.
    pub(crate) fn tasks(&self, tiny: bool) -> u64 {
        let size = self.size[usize::from(tiny)];
        match self.shape {
            Shape::Deep => (4_u64.pow(size as u32 + 1) - 1) / 3,
            Shape::Join => ((1 << (size + 1)) - 1) * self.walks[usize::from(tiny)],
            Shape::Flat | Shape::Burst | Shape::Nested | Shape::Serial => size,
        }
    }

    /// The work of one sample on this machine.
    pub(crate) fn job(&'static self, tiny: bool, calibration: &Calibration) -> Job {
        Job {
            scenario: self,
            tasks: self.tasks(tiny),
            levels: self.size[usize::from(tiny)] as u32,
            walks: self.walks[usize::from(tiny)],
            fast: calibration.steps(self.fast_ns),
            slow: calibration.steps(self.slow_ns),
            slow_every: self.slow_every,
            pass: Pass::Rate,
        }
    }

    /// The length of all bodies together, in nanoseconds.
    pub(crate) fn work_ns(&self, tiny: bool) -> f64 {
        let tasks = self.tasks(tiny);
        let slow = tasks.checked_div(self.slow_every).unwrap_or(0);
        ((tasks - slow) * self.fast_ns + slow * self.slow_ns) as f64
    }

    /// Tasks per second that `workers` cores could do at most if the pool cost nothing, for the scenarios whose
    /// bodies take time.
    pub(crate) fn ceiling(&self, workers: usize, tiny: bool) -> Option<f64> {
        if self.shape == Shape::Join || self.work_ns(tiny) == 0.0 {
            return None;
        }
        let gap = if self.shape == Shape::Burst { GAP.as_secs_f64() } else { 0.0 };
        Some(self.tasks(tiny) as f64 / (gap + self.work_ns(tiny) / 1e9 / workers as f64))
    }
}

/// The sleep between the two bursts.
pub(crate) const GAP: std::time::Duration = std::time::Duration::from_millis(10);

/// What is taken in a round. Rates, allocations and latencies never in the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Wall and CPU time.
    Rate,
    /// Allocations.
    Allocations,
    /// Time from submit to the end of the body, per task.
    Latency,
}

/// One sample to be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) scenario: &'static Scenario,
    pub(crate) tasks: u64,
    /// Levels below the root, of trees.
    pub(crate) levels: u32,
    /// Walks over a join tree.
    pub(crate) walks: u64,
    /// Steps of the busy body.
    pub(crate) fast: u64,
    /// Steps of the slow body.
    pub(crate) slow: u64,
    /// One body in so many is slow; 0: none.
    pub(crate) slow_every: u64,
    pub(crate) pass: Pass,
}

impl Job {
    /// Whether the bodies take time at all.
    pub(crate) fn works(&self) -> bool {
        self.fast + self.slow > 0
    }

    /// Steps of the body of task `i`.
    #[inline(always)]
    pub(crate) fn steps(&self, i: u64) -> u64 {
        if self.slow_every != 0 && i % self.slow_every == self.slow_every - 1 { self.slow } else { self.fast }
    }

    /// The nodes of the join tree.
    pub(crate) fn nodes(&self) -> u64 {
        self.tasks / self.walks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Scenario {
        ALL.iter().find(|s| s.name == name).unwrap()
    }

    #[test]
    fn sizes_are_the_published_ones() {
        let size = |name| named(name).tasks(false);
        assert_eq!(size("flood_1m"), 1_000_000);
        assert_eq!(size("contended_spawn_8x"), 100_000);
        assert_eq!(size("nested_fanout_4x"), 10_000);
        assert_eq!(size("deep_tree"), 349_525);
        assert_eq!(size("deep_tree_own_counter"), 349_525);
        assert_eq!(size("join_tree"), 4 * ((1 << 20) - 1));
        assert_eq!(size("join_tree_1023"), 4_096 * 1_023);
        assert!(ALL.iter().all(|s| s.shape == Shape::Join || s.tasks(false) < crate::check::MAX_TASKS));
    }

    #[test]
    fn ceilings_are_the_published_ones() {
        let ceiling = |name, workers| named(name).ceiling(workers, false).unwrap().round();
        assert_eq!(ceiling("cpu_work_10us", 2), 200_000.0);
        assert_eq!(ceiling("cpu_work_100us", 2), 20_000.0);
        assert_eq!(ceiling("mixed_fast_slow", 2), 10_000.0);
        assert_eq!(ceiling("burst_drain_burst", 2), (4_000.0_f64 / 0.110).round());
        assert_eq!(named("flood_1m").ceiling(2, false), None);
    }

    #[test]
    fn every_fifth_task_of_the_mix_is_slow() {
        let job = named("mixed_fast_slow").job(false, &Calibration { ns_per_step: 1.0 });
        let slow: Vec<u64> = (0..11).filter(|&i| job.steps(i) == 1_000_000).collect();
        assert_eq!(slow, [4, 9]);
        assert_eq!(job.steps(3), 0);
    }

    #[test]
    fn a_family_is_chosen_as_one() {
        let chosen = ALL.iter().filter(|s| s.answers_to("join_tree")).count();
        assert_eq!(chosen, 3);
        for (family, scenarios) in [("flood_1m", 1), ("own_counter", 2), ("deep_tree", 2)] {
            assert_eq!(ALL.iter().filter(|s| s.answers_to(family)).count(), scenarios, "{family}");
        }
        assert_eq!(ALL.iter().filter(|s| s.answers_to("")).count(), 0, "an empty name must choose nothing");
    }
}
