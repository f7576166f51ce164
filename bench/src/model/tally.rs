//! What one run has counted.

/// The counts of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tasks run.
    pub tasks: u64,
    /// Of them on another node than their own.
    pub off_node: u64,
    /// Steals and claims from another node.
    pub remote_steals: u64,
    /// Tasks these brought.
    pub remote_taken: u64,
    /// Queues looked at, by ring.
    pub probes: [u64; 3],
    /// Looks out of order: a nearer ring after a farther one, or another node before two empty rounds.
    pub out_of_order: u64,
    /// Workers woken, by ring.
    pub wakes: [u64; 3],
    /// Wakes while somebody of the submitter's node slept, and those of them that stayed there.
    pub wakes_with_choice: u64,
    /// See `wakes_with_choice`.
    pub wakes_at_home: u64,
    /// Wakes while somebody of the submitter's shard searched.
    pub wakes_in_vain: u64,
    /// Most workers woken by one submission.
    pub most_wakes: u64,
    /// The longest row of empty rounds of one search while some queue held two tasks.
    pub rounds_beside: u64,
    /// Time until the last task was over, and the least that is possible at this load, in nanoseconds.
    pub span_ns: u64,
    /// See `span_ns`.
    pub optimum_ns: u64,
    /// What the lines that carried work have cost, in nanoseconds: every steal, every claim.
    pub moved_ns: u64,
    /// What the looks of searchers at others' queues have cost, in nanoseconds, if every one of them moved a line.
    pub looked_ns: u64,
}

impl Tally {
    /// M1: tasks run off their node, in percent.
    pub fn off_node_percent(&self) -> f64 {
        100.0 * ratio(self.off_node, self.tasks)
    }
    /// M2: remote steals per 100 tasks.
    pub fn remote_per_100(&self) -> f64 {
        100.0 * ratio(self.remote_steals, self.tasks)
    }
    /// M2: tasks per remote steal; 0 without any.
    pub fn tasks_per_remote(&self) -> f64 {
        ratio(self.remote_taken, self.remote_steals)
    }
    /// M3: span over optimum.
    pub fn span(&self) -> f64 {
        ratio(self.span_ns, self.optimum_ns)
    }
    /// M5: wakes within the node while somebody of it slept, in percent; 100 without any.
    pub fn wakes_at_home_percent(&self) -> f64 {
        if self.wakes_with_choice == 0 { 100.0 } else { 100.0 * ratio(self.wakes_at_home, self.wakes_with_choice) }
    }
    /// M6: wakes per submission.
    pub fn wakes_per_task(&self) -> f64 {
        ratio(self.wakes.iter().sum(), self.tasks)
    }
    /// Nanoseconds of looks per task.
    pub fn looked_per_task(&self) -> f64 {
        ratio(self.looked_ns, self.tasks)
    }
    /// M14: nanoseconds of lines that carried work, per task.
    pub fn moved_per_task(&self) -> f64 {
        ratio(self.moved_ns, self.tasks)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
