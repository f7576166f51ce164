//! The rows of `wakeup`, as a table and as JSON.
use super::serial::{Player, Serial, Taken};
use crate::stats::{Sorted, direction};
use serde_json::{Map, Value, json};

/// What the pool itself did per submit, medians.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolCalls {
    pub(super) wakes: f64,
    /// Each of them is also a return from a wait.
    pub(super) waits: f64,
    pub(super) barriers: f64,
}

/// All that is known about one arm with one number of workers.
pub(super) struct Row {
    pub(super) arm: &'static str,
    pub(super) traced_as: Option<&'static str>,
    pub(super) workers: usize,
    tasks: u64,
    barrier: Value,
    pub(super) samples: Vec<Taken>,
    pub(super) traced: Result<f64, String>,
    /// Why there are no (more) samples, and whether that is a failure.
    pub(super) trouble: Option<String>,
    pub(super) failed: bool,
}

impl Row {
    pub(super) fn new(player: &Player, workers: usize, pool: &Result<Box<dyn Serial>, String>, tasks: u64) -> Row {
        let barrier = pool.as_ref().map_or(Value::Null, |p| p.facts()["barrier"].clone());
        let trouble = pool.as_ref().err().map(|why| format!("absent: {why}"));
        let traced = Err(String::new());
        let (arm, traced_as) = (player.name, player.traced_as);
        Row { arm, traced_as, workers, tasks, barrier, samples: vec![], traced, trouble, failed: false }
    }

    pub(super) fn take(&mut self, sample: Result<Taken, String>, warm_up: bool) {
        match sample {
            Ok(_) if warm_up => {}
            Ok(sample) => self.samples.push(sample),
            Err(why) => {
                self.trouble = Some(format!("failed: {why}"));
                self.failed = true;
            }
        }
    }

    /// A figure per submit, of every sample.
    fn each(&self, of: impl Fn(&Taken) -> Option<f64>) -> Option<Sorted> {
        let all: Option<Vec<f64>> = self.samples.iter().map(of).collect();
        Sorted::of(all?.into_iter().map(|sum| sum / self.tasks as f64).collect())
    }

    pub(super) fn switches(&self) -> Option<Sorted> {
        self.each(|s| Some(s.usage.switches as f64))
    }

    /// Those of them that were not by the threads' own will: somebody else was given the CPU. The programs in other
    /// languages do not tell.
    pub(super) fn involuntary(&self) -> Option<Sorted> {
        self.each(|s| s.tells_involuntary.then_some(s.usage.involuntary as f64))
    }

    /// Switches that the wake-ups themselves make, whoever else uses the CPUs.
    pub(super) fn voluntary(&self) -> Option<Sorted> {
        self.each(|s| s.tells_involuntary.then(|| (s.usage.switches - s.usage.involuntary) as f64))
    }

    /// System calls by the pool's and the semaphore's own account.
    pub(super) fn calls(&self) -> Option<Sorted> {
        self.each(|s| {
            let pool = s.pool?;
            Some((pool.wakes + pool.parks + pool.membarriers + s.harness_calls) as f64)
        })
    }

    pub(super) fn pool(&self) -> Option<PoolCalls> {
        let median = |of: fn(&crate::arms::Syscalls) -> u64| Some(self.each(|s| Some(of(&s.pool?) as f64))?.at(50));
        Some(PoolCalls {
            wakes: median(|p| p.wakes)?,
            waits: median(|p| p.parks)?,
            barriers: median(|p| p.membarriers)?,
        })
    }

    /// Name and values of the four times.
    fn times(&self) -> [(&'static str, Option<Sorted>); 4] {
        let user = |s: &Taken| s.usage.cpu_ns.saturating_sub(s.usage.system_ns);
        [
            ("wall_ns", self.each(|s| Some(s.wall.as_nanos() as f64))),
            ("user_ns", self.each(|s| Some(user(s) as f64))),
            ("system_ns", self.each(|s| Some(s.usage.system_ns as f64))),
            ("cpu_ns", self.each(|s| Some(s.usage.cpu_ns as f64))),
        ]
    }

    fn status(&self) -> String {
        self.trouble.clone().unwrap_or_else(|| "ok".into())
    }

    pub(super) fn json(&self, rates: bool) -> Value {
        let mut why = Map::new();
        let mut row = Map::new();
        let mut put = |name: &str, values: Option<Sorted>, reason: &str| {
            if values.is_none() && self.trouble.is_none() {
                why.insert(name.into(), json!(reason));
            }
            row.insert(name.into(), values.map_or(Value::Null, |v| v.json()));
        };
        for (name, values) in self.times() {
            put(name, values.filter(|_| rates), "NOT MEASURED: the machine was not quiet");
        }
        put("switches", self.switches(), "no samples");
        put("switches_involuntary", self.involuntary(), "this arm does not tell the two kinds apart");
        put("syscalls", self.calls(), "this arm does not count its own system calls; see syscalls_traced");
        if let Err(reason) = &self.traced {
            why.insert("syscalls_traced".into(), json!(reason));
        }
        let spin = match self.arm {
            "scheduler" => json!("default"),
            _ if self.arm.starts_with("scheduler-spin0") => json!("0"),
            _ => Value::Null,
        };
        let pool = self
            .pool()
            .map(|p| json!({ "wakes": p.wakes, "waits": p.waits, "barriers": p.barriers, "returns": p.waits }));
        let fixed = json!({
            "arm": self.arm, "workers": self.workers, "spin": spin, "barrier": self.barrier, "tasks": self.tasks,
            "samples": self.samples.len(), "executed": self.samples.len() as u64 * self.tasks,
            "status": self.status(), "pool": pool, "syscalls_traced": self.traced.as_ref().ok(),
        });
        if let Value::Object(fixed) = fixed {
            row.extend(fixed);
        }
        row.insert("why".into(), Value::Object(why));
        Value::Object(row)
    }
}

fn micros(values: &Option<Sorted>) -> String {
    values.as_ref().map_or("-".into(), |v| format!("{:.2}", v.at(50) / 1e3))
}

fn range(values: &Option<Sorted>) -> String {
    values
        .as_ref()
        .map_or("-".into(), |v| format!("{:.2} ({:.2} .. {:.2})", v.at(50) / 1e3, v.at(0) / 1e3, v.at(100) / 1e3))
}

fn number(n: Option<f64>) -> String {
    n.map_or("-".into(), |n| format!("{n:.3}"))
}

/// How our default arm compares with another one of as many workers, in wall and CPU time.
fn against(rows: &[Row], row: &Row) -> Option<String> {
    let ours = rows.iter().find(|r| r.arm == "scheduler" && r.workers == row.workers)?;
    if row.arm.starts_with("scheduler") {
        return None;
    }
    let middle = |row: &Row| {
        let [wall, _, _, cpu] = row.times().map(|(_, values)| values.map(|v| v.at(50)));
        wall.zip(cpu)
    };
    let ((wall, cpu), (other_wall, other_cpu)) = middle(ours).zip(middle(row))?;
    let (faster, cheaper) =
        (direction(other_wall / wall, "faster", "slower"), direction(other_cpu / cpu, "cheaper", "dearer"));
    Some(format!("scheduler is {faster}, {cheaper} than {}", row.arm))
}

/// One table per number of workers; where times were not taken, the columns say so.
pub(super) fn table(rows: &[Row], rates: bool) -> String {
    let mut out = String::new();
    let mut workers = 0;
    for row in rows {
        if row.workers != workers {
            workers = row.workers;
            out += &format!("\nserial_wakeup({workers}), per submit; times in us, p50 (p0 .. p100)\n");
            if !rates {
                out += "  wall, user, system and CPU time: NOT MEASURED\n";
            }
            out += &format!(
                "  {:<22} {:>26} {:>7} {:>7} {:>26} {:>9} {:>11} {:>8} {:>7}  {}\n",
                "arm",
                "wall",
                "user",
                "system",
                "CPU",
                "switches",
                "involuntary",
                "syscalls",
                "traced",
                "pool: wakes + waits + barriers"
            );
        }
        if let Some(why) = &row.trouble {
            out += &format!("  {:<22} {why}\n", row.arm);
            continue;
        }
        let [wall, user, system, cpu] = row.times().map(|(_, values)| values.filter(|_| rates));
        let against = against(rows, row).filter(|_| rates).unwrap_or_default();
        let pool =
            row.pool().map_or(String::new(), |p| format!("{:.3} + {:.3} + {:.3}  ", p.wakes, p.waits, p.barriers));
        out += &format!(
            "  {:<22} {:>26} {:>7} {:>7} {:>26} {:>9} {:>11} {:>8} {:>7}  {pool}{against}\n",
            row.arm,
            range(&wall),
            micros(&user),
            micros(&system),
            range(&cpu),
            number(row.switches().map(|s| s.at(50))),
            number(row.involuntary().map(|s| s.at(50))),
            number(row.calls().map(|c| c.at(50))),
            number(row.traced.as_ref().ok().copied()),
        );
    }
    out
}
