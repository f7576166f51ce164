//! One quantity is varied, the others stay: the points of a sweep, and what each arm costs there.
use crate::arms::{Runner, Trouble};
use crate::os::Usage;
use crate::run::Sample;
use crate::scenario::{Job, Scenario};
use crate::session::Session;
use crate::stats::Spread;
use serde_json::{Value, json};
use std::time::Duration;

/// A pool that takes part.
pub(super) struct Player {
    pub(super) arm: &'static str,
    pub(super) runner: Box<dyn Runner>,
}

/// What one arm costs at one value of the quantity.
pub(super) struct Point {
    pub(super) x: u64,
    tasks: u64,
    /// Length of the body in nanoseconds.
    body_ns: u64,
    samples: Vec<(Usage, Duration)>,
    pub(super) trouble: Option<Trouble>,
    pub(super) instructions: Option<f64>,
}

impl Point {
    pub(super) fn new(x: u64, tasks: u64, body_ns: u64) -> Point {
        Point { x, tasks, body_ns, samples: vec![], trouble: None, instructions: None }
    }

    pub(super) fn take(&mut self, sample: Result<(Usage, Duration), Trouble>, warm_up: bool) {
        match sample {
            Err(trouble) => self.trouble = Some(trouble),
            Ok(_) if warm_up => {}
            Ok(sample) => self.samples.push(sample),
        }
    }

    pub(super) fn cpu(&self) -> Option<Spread> {
        Spread::of(self.samples.iter().map(|(used, _)| used.cpu_ns as f64 / self.tasks as f64).collect())
    }

    fn rate(&self) -> Option<Spread> {
        Spread::of(self.samples.iter().map(|(_, wall)| self.tasks as f64 / wall.as_secs_f64()).collect())
    }

    /// The part of the CPU time that is the body's.
    pub(super) fn share(&self) -> Option<f64> {
        let cpu = self.cpu()?.median;
        (self.body_ns > 0).then(|| self.body_ns as f64 / cpu)
    }

    fn json(&self, rates: bool) -> Value {
        let spread = |s: Option<Spread>| s.filter(|_| rates).map(|s| s.json());
        let why = match &self.trouble {
            Some(Trouble::Absent(why) | Trouble::Failed(why)) => Some(why.as_str()),
            None => (!rates && self.instructions.is_none()).then_some("NOT MEASURED: the machine was not quiet"),
        };
        json!({
            "x": self.x, "tasks": self.tasks, "cpu_ns_per_task": spread(self.cpu()),
            "tasks_per_sec": spread(self.rate()), "efficiency": self.share().filter(|_| rates),
            "instructions": self.instructions, "why": why.map_or(json!({}), |w| json!({ "cpu_ns_per_task": w })),
        })
    }
}

/// One line of a chart.
pub(super) struct Series {
    pub(super) sweep: &'static str,
    pub(super) unit: &'static str,
    pub(super) arm: &'static str,
    pub(super) points: Vec<Point>,
}

impl Series {
    pub(super) fn json(&self, rates: bool) -> Value {
        let points: Vec<Value> = self.points.iter().map(|p| p.json(rates)).collect();
        let failed = self.points.iter().find_map(|p| match &p.trouble {
            Some(Trouble::Failed(why)) => Some(format!("failed: {why}")),
            _ => None,
        });
        let y = if self.sweep.starts_with("instructions") { "instructions per task" } else { "CPU ns per task" };
        json!({
            "sweep": self.sweep, "arm": self.arm, "x_unit": self.unit, "y_unit": y, "points": points,
            "status": failed.unwrap_or_else(|| "ok".into()),
        })
    }

    pub(super) fn failed(&self) -> bool {
        self.points.iter().any(|p| matches!(p.trouble, Some(Trouble::Failed(_))))
    }

    /// Greatest by least median, less one; `None` with fewer than two points.
    pub(super) fn unevenness(&self, of: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
        let all: Vec<f64> = self.points.iter().filter_map(of).collect();
        let (least, most) = (all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?);
        (all.len() > 1).then_some(most / least - 1.0)
    }
}

/// What is varied, and what is submitted at each value.
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// Value, tasks, submitters, length of the body in nanoseconds.
    pub(super) at: Vec<(u64, u64, u64, u64)>,
}

impl Plan {
    fn jobs(&self, session: &Session) -> Vec<Job> {
        let job = |&(_, tasks, submitters, body_ns): &(u64, u64, u64, u64)| {
            // A few dozen in the life of the program; everything else is made for those of a table.
            let scenario: &'static Scenario =
                Box::leak(Box::new(Scenario::flat(self.name, tasks, submitters, body_ns)));
            scenario.job(false, &session.calibration)
        };
        self.at.iter().map(job).collect()
    }

    /// Asks every player at every value, in turn, so that a disturbance meets all of them.
    pub(super) fn run(&self, session: &Session, players: &mut [Player], rounds: usize) -> Vec<Series> {
        let points = || self.at.iter().map(|&(x, tasks, _, body)| Point::new(x, tasks, body)).collect();
        let series = |p: &Player| Series { sweep: self.name, unit: self.unit, arm: p.arm, points: points() };
        let mut all: Vec<Series> = players.iter().map(series).collect();
        for (i, job) in self.jobs(session).iter().enumerate() {
            for round in 0..=rounds {
                for (player, series) in players.iter_mut().zip(&mut all) {
                    let point = &mut series.points[i];
                    session.step(format!("{} {} · {} · round {round}/{rounds}", self.name, point.x, player.arm));
                    if point.trouble.is_none() {
                        let sample = player.runner.sample(job).map(|s: Sample| (s.usage, s.wall));
                        point.take(sample, round == 0);
                    }
                }
            }
        }
        all
    }
}

/// A table with a column per arm.
pub(super) fn table(all: &[Series], rates: bool) -> String {
    let Some(first) = all.first() else { return String::new() };
    let mut out =
        format!("\n{}: {}\n", first.sweep, if rates { "CPU ns per task (efficiency)" } else { "NOT MEASURED" });
    if !rates {
        return out;
    }
    out += &format!("  {:>12}", first.unit);
    all.iter().for_each(|s| out += &format!(" {:>22}", s.arm));
    for (i, point) in first.points.iter().enumerate() {
        out += &format!("\n  {:>12}", point.x);
        for series in all {
            out += &format!(" {:>22}", cell(&series.points[i]));
        }
    }
    out + "\n"
}

fn cell(point: &Point) -> String {
    if let Some(Trouble::Absent(why) | Trouble::Failed(why)) = &point.trouble {
        return why.chars().take(22).collect();
    }
    let share = point.share().map_or(String::new(), |s| format!(" ({:.0} %)", s * 100.0));
    point.cpu().map_or_else(|| "-".into(), |s| format!("{:.1}{share}", s.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: u64, cpu_ns: u64) -> Point {
        let mut point = Point::new(x, 100, 50);
        point.take(Ok((Usage { cpu_ns: 100 * cpu_ns, ..Usage::default() }, Duration::from_secs(1))), false);
        point
    }

    #[test]
    fn unevenness_is_between_the_extremes() {
        let points = vec![point(1, 100), point(2, 121), point(4, 110)];
        let series = Series { sweep: "submitters", unit: "submitters", arm: "scheduler", points };
        let seen = series.unevenness(|p| p.cpu().map(|s| s.median)).unwrap();
        assert!((seen - 0.21).abs() < 1e-9, "{seen}");
        assert_eq!(series.unevenness(|p| p.instructions), None);
        assert_eq!(series.points[0].share(), Some(0.5));
    }

    #[test]
    fn a_warm_up_is_no_sample() {
        let mut point = Point::new(1, 1, 0);
        point.take(Ok((Usage::default(), Duration::from_secs(1))), true);
        assert_eq!(point.cpu(), None);
        assert_eq!(point.share(), None);
    }
}
