//! What must hold, and the policy that must fail it.
use super::Run;
use bench::model::{Load, Rules, Tally};
use serde_json::{Value, json};
use std::fmt;

/// One bound, the worst of ours and the best of the control over all hosts.
pub(super) struct Verdict {
    id: &'static str,
    what: &'static str,
    ours: f64,
    met: bool,
    control: &'static str,
    theirs: f64,
    caught: bool,
}

/// A number of which less is better.
type Figure = fn(&Tally, &Tally) -> f64;

/// Name, meaning, load, control, bound, and the figure of a run beside the uniform run of the same host and load.
struct Bound(&'static str, &'static str, Load, Rules, f64, Figure);

const BOUNDS: [Bound; 9] = [
    Bound("M1", "tasks off their node, %", Load::Balanced, Rules::Uniform, 2.0, |t, _| t.off_node_percent()),
    Bound("M2", "remote steals per 100 tasks", Load::Hot, Rules::OneTask, 5.0, |t, _| t.remote_per_100()),
    // More is better, so the inverse is bounded: 1/8.
    Bound("M2", "remote steals per task they bring", Load::Hot, Rules::OneTask, 0.125, |t, _| inverse(t)),
    Bound("M3", "span / optimum", Load::Hot, Rules::Strict, 1.15, |t, _| t.span()),
    Bound("M4", "looks out of order", Load::Hot, Rules::Uniform, 0.0, |t, _| t.out_of_order as f64),
    Bound("M5", "wakes away from home, %", Load::Balanced, Rules::Uniform, 0.0, |t, _| {
        100.0 - t.wakes_at_home_percent()
    }),
    Bound("M6", "most wakes per submission", Load::Balanced, Rules::Herd, 1.0, |t, _| t.most_wakes as f64),
    Bound("M6", "wakes while somebody searches", Load::Balanced, Rules::Herd, 0.0, |t, _| t.wakes_in_vain as f64),
    Bound("M14", "moved lines, of uniform (3+ nodes)", Load::Balanced, Rules::Uniform, 1.0 / 3.0, |t, uniform| {
        t.moved_per_task() / uniform.moved_per_task()
    }),
];

fn inverse(tally: &Tally) -> f64 {
    if tally.remote_taken == 0 { 0.0 } else { tally.remote_steals as f64 / tally.remote_taken as f64 }
}

pub(super) fn verdicts(runs: &[Run]) -> Vec<Verdict> {
    let uniform = |of: &Run| {
        let same = |run: &&Run| run.host.name == of.host.name && run.load == of.load && run.rules == Rules::Uniform;
        runs.iter().find(same).map(|run| run.tally)
    };
    let figures = |id: &str, load: Load, rules: Rules, figure: Figure| {
        // With two nodes a uniform choice is at home half of the time: a third of its cost is out of reach.
        let least = if id == "M14" { 3 } else { 2 };
        let of = move |run: &&Run| run.load == load && run.rules == rules && run.host.nodes >= least;
        runs.iter().filter(of).filter_map(move |run| Some(figure(&run.tally, &uniform(run)?)))
    };
    let judge = |&Bound(id, what, load, control, limit, figure): &Bound| {
        let ours = figures(id, load, Rules::Ours, figure).fold(0.0, f64::max);
        let theirs = figures(id, load, control, figure).fold(f64::INFINITY, f64::min);
        Verdict { id, what, ours, met: ours <= limit, control: control.name(), theirs, caught: theirs > limit }
    };
    BOUNDS.iter().map(judge).collect()
}

impl Verdict {
    pub(super) fn json(&self) -> Value {
        json!({
            "id": self.id, "what": self.what, "worst_of_ours": self.ours, "met": self.met,
            "control": self.control, "best_of_control": self.theirs, "control_fails": self.caught,
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = if self.met { "met" } else { "MISSED" };
        let caught = if self.caught { "fails it" } else { "PASSES IT" };
        write!(f, "{:<4} {:<34} {:>8.3} {met}; ", self.id, self.what, self.ours)?;
        write!(f, "the control {} {caught} with {:.3}", self.control, self.theirs)
    }
}
