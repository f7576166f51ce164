//! What has to be reached on two cores, beside what was measured.
use super::Row;
use crate::stats::direction;
use serde_json::{Value, json};

/// How many times better than a peer, in tasks per second or in CPU time per task.
const FACTORS: [(&str, [(&str, f64); 5]); 5] = [
    ("flood_1m", [("tokio", 20.0), ("go", 18.0), ("rayon", 10.0), ("tbb", 15.0), ("channel", 8.0)]),
    ("contended_spawn_8x", [("tokio", 15.0), ("go", 20.0), ("rayon", 8.0), ("tbb", 8.0), ("channel", 3.0)]),
    ("nested_fanout_4x", [("tokio", 10.0), ("go", 8.0), ("rayon", 5.0), ("tbb", 3.0), ("channel", 2.0)]),
    ("deep_tree", [("tokio", 10.0), ("go", 8.0), ("rayon", 5.0), ("tbb", 1.5), ("channel", 5.0)]),
    ("deep_tree_own_counter", [("tokio", 80.0), ("go", 60.0), ("rayon", 15.0), ("tbb", 8.0), ("channel", 30.0)]),
];

/// CPU time in the 10 ms after the drain that still counts as none: the harness wakes up once itself.
const QUIET_US: f64 = 100.0;

/// One line of the verdict.
pub(super) struct Verdict {
    pub(super) scenario: &'static str,
    pub(super) target: String,
    pub(super) measured: String,
    pub(super) met: bool,
}

impl Verdict {
    pub(super) fn word(&self) -> &'static str {
        if self.met { "met" } else { "missed" }
    }

    fn json(&self) -> Value {
        json!({ "scenario": self.scenario, "target": self.target, "measured": self.measured, "met": self.met })
    }
}

/// The factor to be reached against one peer.
pub(super) fn factor(scenario: &str, arm: &str) -> Option<f64> {
    let (_, peers) = FACTORS.iter().find(|(name, _)| *name == scenario)?;
    peers.iter().find(|(name, _)| *name == arm).map(|(_, factor)| *factor)
}

/// Ours against a peer: (times faster, times cheaper), from medians.
pub(super) fn ratios(ours: &Row, peer: &Row) -> Option<(f64, f64)> {
    Some((ours.rate()?.median / peer.rate()?.median, peer.cpu()?.median / ours.cpu()?.median))
}

/// All verdicts of a run, for the JSON report.
pub(super) fn all(rows: &[Row], workers: usize, tiny: bool) -> Vec<Value> {
    let mut names: Vec<&str> = rows.iter().map(|r| r.scenario.name).collect();
    names.dedup();
    let groups = names.iter().map(|n| rows.iter().filter(|r| r.scenario.name == *n).collect::<Vec<_>>());
    groups.flat_map(|g| of(&g, workers, tiny)).map(|v| v.json()).collect()
}

/// The verdicts of one scenario; none if our arm has no numbers.
pub(super) fn of(rows: &[&Row], workers: usize, tiny: bool) -> Vec<Verdict> {
    let Some(ours) = rows.iter().find(|r| r.arm == "scheduler" && r.rate().is_some()) else {
        return vec![];
    };
    let group = Group { rows, ours, workers, tiny };
    match ours.scenario.name {
        "cpu_work_10us" | "contended_cpu_10us" => group.short_work(),
        "cpu_work_100us" | "burst_drain_burst" => group.long_work(0.99),
        "mixed_fast_slow" => group.long_work(0.98),
        "join_tree" | "join_tree_1023" => group.joins(),
        "join_tree_45ns" => group.speed_up(),
        _ => group.factors(),
    }
}

/// Tasks per second and CPU time per task, each with its direction.
fn in_words(faster: f64, cheaper: f64) -> String {
    let (rate, cpu) = (direction(faster, "faster", "slower"), direction(cheaper, "cheaper", "dearer"));
    format!("{rate}, {cpu} in CPU time")
}

struct Group<'a> {
    rows: &'a [&'a Row],
    ours: &'a Row,
    workers: usize,
    tiny: bool,
}

impl Group<'_> {
    fn arm(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|r| r.arm == name && r.rate().is_some()).copied()
    }

    fn peers(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().copied().filter(|r| !r.arm.starts_with("scheduler") && r.arm != "floor" && r.rate().is_some())
    }

    fn verdict(&self, target: String, measured: String, met: bool) -> Verdict {
        Verdict { scenario: self.ours.scenario.name, target, measured, met }
    }

    fn factors(&self) -> Vec<Verdict> {
        let one = |peer: &Row| {
            let wanted = factor(self.ours.scenario.name, peer.arm)?;
            let (faster, cheaper) = ratios(self.ours, peer)?;
            let met = faster >= wanted || cheaper >= wanted;
            Some(self.verdict(format!("{wanted}x {}", peer.arm), in_words(faster, cheaper), met))
        };
        self.peers().filter_map(one).collect()
    }

    /// CPU nanoseconds of one body: of the floor in this run if it was there, else as calibrated.
    fn body_ns(&self) -> f64 {
        let nominal = self.ours.scenario.work_ns(self.tiny) / self.ours.tasks as f64;
        self.arm("floor").and_then(|f| f.cpu()).map_or(nominal, |c| c.median)
    }

    fn rate(row: &Row) -> f64 {
        row.rate().map_or(f64::NAN, |r| r.median)
    }

    fn short_work(&self) -> Vec<Verdict> {
        let (rate, body) = (Self::rate(self.ours), self.body_ns());
        let mut out = vec![];
        if let Some(best) = self.peers().map(Self::rate).reduce(f64::max) {
            let share = 100.0 * rate / best;
            out.push(self.verdict(">= 99 % of the best peer".into(), format!("{share:.1} %"), share >= 99.0));
        }
        let share = 100.0 * rate / (self.workers as f64 * 1e9 / body);
        out.push(self.verdict(
            format!(">= 95 % of {} / body of {body:.0} ns", self.workers),
            format!("{share:.1} %"),
            share >= 95.0,
        ));
        if let Some(cpu) = self.ours.cpu() {
            let over = cpu.median - body;
            out.push(self.verdict("overhead <= 200 ns CPU per task".into(), format!("{over:.0} ns"), over <= 200.0));
        }
        out
    }

    fn long_work(&self, share: f64) -> Vec<Verdict> {
        let mut out = vec![];
        if let Some(ceiling) = self.ours.scenario.ceiling(self.workers, self.tiny) {
            let reached = Self::rate(self.ours) / ceiling;
            let target = format!(">= {:.0} % of the ceiling of {ceiling:.0}/s", 100.0 * share);
            out.push(self.verdict(target, format!("{:.1} %", 100.0 * reached), reached >= share));
        }
        let best = self.peers().filter_map(|p| Some((p.latency()?.p99, p.arm))).min();
        if let Some(((best, arm), ours)) = best.zip(self.ours.latency()) {
            let measured = format!("{:.1} us, {arm} {:.1} us", ours.p99 as f64 / 1e3, best as f64 / 1e3);
            out.push(self.verdict("p99 no worse than the best peer's".into(), measured, ours.p99 <= best));
        }
        if let Some(after) = self.ours.after() {
            let measured = format!("{after:.0} us of CPU in the 10 ms after it");
            out.push(self.verdict("CPU back to zero 1 ms after the drain".into(), measured, after <= QUIET_US));
        }
        out
    }

    fn joins(&self) -> Vec<Verdict> {
        let mut out = vec![];
        let cpu = |row: &Row| row.cpu().map_or(f64::NAN, |c| c.median);
        let ours = cpu(self.ours);
        if let Some((rayon, serial)) = self.arm("rayon").zip(self.arm("floor")) {
            let (mine, theirs) = (ours - cpu(serial), cpu(rayon) - cpu(serial));
            let measured = format!("{mine:.2} ns against {theirs:.2} ns per node");
            out.push(self.verdict("overhead above serial <= 1/5 of rayon's".into(), measured, mine <= theirs / 5.0));
        }
        if let Some(chili) = self.arm("chili") {
            let (faster, cheaper) = ratios(self.ours, chili).unwrap_or((f64::NAN, f64::NAN));
            let met = faster.max(cheaper) >= 1.0 / 1.1;
            out.push(self.verdict("within 10 % of chili".into(), in_words(faster, cheaper), met));
        }
        if let Some((faster, cheaper)) = self.arm("tbb").and_then(|t| ratios(self.ours, t)) {
            out.push(self.verdict("8x tbb".into(), in_words(faster, cheaper), faster >= 8.0 || cheaper >= 8.0));
        }
        out
    }

    fn speed_up(&self) -> Vec<Verdict> {
        let Some(serial) = self.arm("floor") else {
            return vec![];
        };
        let times = Self::rate(self.ours) / Self::rate(serial);
        vec![self.verdict(">= 1.8x over serial (two cores)".into(), format!("{times:.2}x"), times >= 1.8)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Rates;
    use crate::os::Usage;
    use crate::run::Sample;
    use crate::scenario;
    use std::time::Duration;

    fn row(scenario: &str, arm: &'static str, wall_us: u64, cpu_ns_per_task: u64) -> Row {
        let scenario = scenario::ALL.iter().find(|s| s.name == scenario).unwrap();
        let tasks = scenario.tasks(false);
        let usage = Usage { cpu_ns: cpu_ns_per_task * tasks, switches: 0, ..Usage::default() };
        let sample = Sample { wall: Duration::from_micros(wall_us), usage, ..Sample::default() };
        let (samples, rates) = (vec![sample; 3], Rates::Measured);
        Row { scenario, arm, tasks, samples, allocations: None, latencies: vec![], trouble: None, rates }
    }

    fn judged(rows: &[Row]) -> Vec<(String, bool)> {
        of(&rows.iter().collect::<Vec<_>>(), 2, false).into_iter().map(|v| (v.target, v.met)).collect()
    }

    #[test]
    fn one_of_rate_and_cpu_is_enough() {
        let ours = || row("flood_1m", "scheduler", 1_000, 20);
        assert_eq!(judged(&[ours(), row("flood_1m", "tokio", 19_000, 401)]), [("20x tokio".into(), true)]);
        assert_eq!(judged(&[ours(), row("flood_1m", "tokio", 20_001, 300)]), [("20x tokio".into(), true)]);
        assert_eq!(judged(&[ours(), row("flood_1m", "tokio", 19_000, 399)]), [("20x tokio".into(), false)]);
        assert_eq!(judged(&[ours(), row("flood_1m", "async-executor", 19_000, 399)]), []);
    }

    #[test]
    fn without_our_arm_there_is_no_verdict() {
        assert_eq!(judged(&[row("flood_1m", "tokio", 19_000, 401)]), []);
        let mut ours = row("flood_1m", "scheduler", 1_000, 20);
        ours.rates = Rates::NotMeasured;
        assert_eq!(judged(&[ours, row("flood_1m", "tokio", 19_000, 401)]), []);
    }

    #[test]
    fn short_work_is_held_against_the_floor() {
        let rows = |ours_cpu, wall_us| {
            let peer = row("cpu_work_10us", "rayon", 50_000, 10_400);
            [row("cpu_work_10us", "scheduler", wall_us, ours_cpu), peer, row("cpu_work_10us", "floor", 50_000, 10_000)]
        };
        assert!(judged(&rows(10_150, 50_400)).iter().all(|(_, met)| *met));
        let met: Vec<bool> = judged(&rows(10_250, 51_000)).iter().map(|(_, met)| *met).collect();
        assert_eq!(met, [false, true, false]);
    }

    #[test]
    fn join_overhead_is_measured_above_serial() {
        let rows = |ours| {
            let (rayon, floor) = (row("join_tree", "rayon", 10_000, 12), row("join_tree", "floor", 10_000, 2));
            judged(&[row("join_tree", "scheduler", 10_000, ours), rayon, floor])
        };
        assert!(rows(4)[0].1);
        assert!(!rows(5)[0].1);
    }
}
