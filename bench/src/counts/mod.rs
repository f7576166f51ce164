//! `counts`: what one task costs in allocations, instructions, locked instructions and system calls, per path and arm.
//!
//! These figures do not depend on how busy the machine is. Each is a slope: the difference between two sizes, divided
//! by the difference of their tasks, so that start, end and the harness around them cancel.
use crate::args::{self, CountChild};
use crate::gate::Gate;
use crate::host::{self, Cpus};
use crate::{arms, compare, output, paths, session};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

mod callgrind;
mod child;
mod objdump;
mod table;

pub(crate) fn child(options: &CountChild) -> Result<ExitCode, String> {
    child::main(options)
}

/// A child that takes longer is stopped: under the instruction counter everything is some fifty times slower.
const LIMIT: Duration = Duration::from_secs(600);

/// The kinds of system calls a pool may count.
const CALLS: [&str; 3] = ["wakes", "parks", "membarriers"];

/// A way through the pool.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) name: &'static str,
    arms: &'static [&'static str],
}

const POOLS: &[&str] = &["scheduler", "tokio", "rayon", "channel", "async-executor", "tbb", "go"];

/// All paths. Only ours is swept over depths and workers: whether it is flat is our question.
pub(crate) static PATHS: [Path; 5] = [
    Path { name: "external", arms: POOLS },
    Path { name: "external-flat", arms: &["scheduler"] },
    Path { name: "nested", arms: POOLS },
    Path { name: "join", arms: &["scheduler", "rayon", "chili", "tbb"] },
    Path { name: "wakeup", arms: &["scheduler", "tokio", "rayon", "channel", "async-executor"] },
];

/// One row to be measured.
#[derive(Clone, Debug)]
struct Line {
    path: &'static str,
    arm: &'static str,
    workers: usize,
    /// Tasks queued while they are measured; 0 where that is not the point.
    depth: u64,
    /// The two sizes.
    sizes: [u64; 2],
    /// How much larger the sizes are when nothing slows the program down.
    native: u64,
}

impl Path {
    fn lines(&self, chosen: &[&'static str], tiny: bool) -> Vec<Line> {
        let arms = self.arms.iter().copied().filter(|a| chosen.contains(a));
        arms.flat_map(|arm| self.lines_of(arm, tiny)).collect()
    }

    fn lines_of(&self, arm: &'static str, tiny: bool) -> Vec<Line> {
        let line = |workers, depth, sizes, native| Line { path: self.name, arm, workers, depth, sizes, native };
        // The instruction counter runs one thread at a time, for 100,000 jumps: a queue that one worker must not
        // empty meanwhile holds more than it can run in that time, which is more for pools that need less.
        let depth = if arm == "scheduler" { 65_536 } else { 8_192 };
        match (self.name, tiny) {
            ("external", true) => vec![line(1, 200, [400, 800], 1)],
            ("external", false) => vec![line(1, depth, [2 * depth, 6 * depth], 8)],
            ("external-flat", true) => vec![line(2, 200, [400, 800], 1)],
            ("external-flat", false) => {
                let flat = |(workers, depth)| line(workers, depth, [depth + 150_000, depth + 450_000], 1);
                [(2, 1_000), (2, 10_000), (2, 100_000), (2, 1_000_000), (1, 100_000), (4, 100_000), (8, 100_000)]
                    .map(flat)
                    .into()
            }
            ("nested", true) => vec![line(1, 0, [500, 1_000], 1)],
            ("nested", false) => vec![line(1, 0, [20_000, 60_000], 8)],
            ("join", true) => vec![line(1, 0, [8, 12], 1)],
            ("join", false) => vec![line(1, 0, [18, 23], 1)],
            ("wakeup", tiny) => [4, 16].map(|w| line(w, 0, [0, if tiny { 50 } else { 5_000 }], 1)).into(),
            _ => unreachable!("a path that is in the table but not here"),
        }
    }
}

/// What was measured, or why not.
#[derive(Clone, Debug, Default)]
struct Counted {
    instructions: Option<f64>,
    locked: Option<f64>,
    allocations: Option<f64>,
    syscalls: Option<f64>,
    /// Wakes, waits and barriers.
    calls: Option<[f64; 3]>,
    switches: Option<f64>,
    barrier: Option<String>,
    /// Field and reason.
    why: Vec<(&'static str, String)>,
    failed: bool,
}

struct Row {
    line: Line,
    counted: Counted,
}

impl Row {
    fn json(&self) -> Value {
        let (line, c) = (&self.line, &self.counted);
        let why: serde_json::Map<String, Value> = c.why.iter().map(|(f, w)| ((*f).to_owned(), json!(w))).collect();
        let [wakes, parks, membarriers] = c.calls.map_or([None; 3], |c| c.map(Some));
        json!({
            "path": line.path, "arm": line.arm, "workers": line.workers, "depth": line.depth, "sizes": line.sizes,
            "instructions": c.instructions, "locked": c.locked, "allocations": c.allocations, "syscalls": c.syscalls,
            "wakes": wakes, "parks": parks, "membarriers": membarriers, "ctx_switches": c.switches,
            "barrier": c.barrier, "why": why,
        })
    }
}

struct Profiled {
    instructions: f64,
    locked: f64,
    said: Value,
}

/// The programs that count.
struct Tools {
    valgrind: Result<PathBuf, String>,
    objdump: Result<PathBuf, String>,
    tbb: Result<PathBuf, String>,
    clock: Result<PathBuf, String>,
    folder: PathBuf,
}

impl Tools {
    fn find(tbb: bool) -> Result<Tools, String> {
        let need = |name: &str, package: &str| {
            paths::program(&[name]).ok_or_else(|| format!("no `{name}` in PATH (Debian: `apt-get install {package}`)"))
        };
        let folder = paths::target().join("bench");
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let tbb = if tbb { arms::tbb_program() } else { Err("not asked for".into()) };
        Ok(Tools {
            valgrind: need("valgrind", "valgrind"),
            objdump: need("objdump", "binutils"),
            tbb,
            clock: arms::slow_clock(),
            folder,
        })
    }

    /// The program and arguments that run `tasks` tasks of a line.
    fn command(&self, line: &Line, tasks: u64) -> Result<Vec<String>, String> {
        let text = |p: &std::path::Path| p.to_string_lossy().into_owned();
        if line.arm == "tbb" {
            let exe = self.tbb.as_ref().map_err(|e| format!("absent: {e}"))?;
            return Ok(vec![text(exe), "count".into(), line.path.into(), tasks.to_string()]);
        }
        if line.arm == "go" {
            return Err("Go programs do not run under the instruction counter".into());
        }
        let exe = std::env::current_exe().map_err(|e| e.to_string())?;
        let options = [("--path", line.path), ("--arm", line.arm)].map(|(k, v)| [k.to_owned(), v.to_owned()]);
        let numbers = [("--workers", line.workers as u64), ("--tasks", tasks), ("--depth", line.depth)];
        let numbers = numbers.map(|(k, v)| [k.to_owned(), v.to_string()]);
        let start = [text(&exe), "count-child".into()].into_iter();
        Ok(start.chain(options.into_iter().flatten()).chain(numbers.into_iter().flatten()).collect())
    }

    /// Instructions and locked instructions of one run, and what the run said about itself.
    fn profile(&self, line: &Line, tasks: u64, listings: &mut objdump::Listings<'_>) -> Result<Profiled, String> {
        let valgrind = self.valgrind.as_ref().map_err(Clone::clone)?;
        let out = self.folder.join(format!("callgrind.{}.out", std::process::id()));
        let mut command = Command::new(valgrind);
        command.args([
            "--tool=callgrind",
            "--dump-instr=yes",
            "--compress-strings=no",
            "--compress-pos=no",
            "--fair-sched=try",
        ]);
        command.arg(format!("--callgrind-out-file={}", out.display())).args(self.command(line, tasks)?);
        if line.arm == "scheduler" {
            // Its batches depend on how long its tasks take, and under the counter that depends on the machine.
            command.env("LD_PRELOAD", self.clock.as_ref().map_err(Clone::clone)?);
        }
        let said = run(command)?;
        let text = std::fs::read_to_string(&out).map_err(|e| format!("{}: {e}", out.display()))?;
        // Left behind it would only take up room.
        let _ = std::fs::remove_file(&out);
        let profile = callgrind::Profile::parse(&text, "uncounted")?;
        Ok(Profiled { instructions: profile.total as f64, locked: listings.locks(&profile)? as f64, said })
    }

    fn native(&self, line: &Line, tasks: u64) -> Result<Value, String> {
        let words = self.command(line, tasks)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        run(command)
    }

    fn measure(&self, line: &Line, listings: &mut objdump::Listings<'_>) -> Counted {
        let mut out = Counted::default();
        if let Err(why) = self.own_figures(line, &mut out) {
            out.failed |= why.starts_with("failed");
            out.why.push(("allocations", why.clone()));
            out.why.push(("syscalls", why));
        }
        if line.path == "wakeup" {
            out.why.push(("instructions", "this path is about system calls".into()));
        } else if let Err(why) = self.instructions(line, listings, &mut out) {
            out.failed |= why.starts_with("failed");
            out.why.push(("instructions", why.clone()));
            out.why.push(("locked", why));
        }
        out
    }

    fn instructions(&self, line: &Line, listings: &mut objdump::Listings<'_>, out: &mut Counted) -> Result<(), String> {
        self.objdump.as_ref().map_err(Clone::clone)?;
        let [small, large] = line.sizes;
        let (a, b) = (self.profile(line, small, listings)?, self.profile(line, large, listings)?);
        let per_task = |a: f64, b: f64| slope(a, b, line.tasks(small), line.tasks(large));
        out.instructions = Some(per_task(a.instructions, b.instructions));
        out.locked = Some(per_task(a.locked, b.locked));
        // Where one thread runs at a time the backlog really stands, so these replace what a run at full speed said:
        // there a neighbour that keeps the submitter from its CPU empties the queue.
        let said = |name: &str| Some(per_task(a.said[name].as_f64()?, b.said[name].as_f64()?));
        out.allocations = said("allocations").or(out.allocations);
        let calls =
            CALLS.map(|name| Some(per_task(a.said["syscalls"][name].as_f64()?, b.said["syscalls"][name].as_f64()?)));
        if let [Some(wakes), Some(parks), Some(membarriers)] = calls {
            out.calls = Some([wakes, parks, membarriers]);
            out.syscalls = Some(wakes + parks + membarriers);
        }
        Ok(())
    }

    /// What the program says about itself, at full speed.
    fn own_figures(&self, line: &Line, out: &mut Counted) -> Result<(), String> {
        if line.arm == "tbb" {
            return Err("the counting allocator and counters are in this program, not in that one".into());
        }
        let [small, large] = line.sizes.map(|n| n * line.native);
        let b = self.native(line, large)?;
        let tasks = line.tasks(large);
        let per_task = |v: &Value| v.as_f64().map(|n| n / tasks);
        out.switches = per_task(&b["switches"]);
        out.barrier = b["facts"]["barrier"].as_str().map(str::to_owned);
        let calls = &b["syscalls"];
        if calls.is_null() {
            out.why.push(("syscalls", "this pool does not count its own system calls".into()));
        } else {
            let calls = CALLS.map(|name| per_task(&calls[name]).unwrap_or(f64::NAN));
            out.syscalls = Some(calls.iter().sum());
            out.calls = Some(calls);
        }
        let count = |v: &Value| v["allocations"].as_f64().unwrap_or(f64::NAN);
        out.allocations = Some(if small == 0 {
            count(&b) / tasks
        } else {
            slope(count(&self.native(line, small)?), count(&b), line.tasks(small), tasks)
        });
        Ok(())
    }
}

impl Line {
    /// Tasks (joins, for that path) of a run of this size.
    fn tasks(&self, size: u64) -> f64 {
        if self.path == "join" { child::joins(size) as f64 } else { size as f64 }
    }
}

fn slope(small: f64, large: f64, few: f64, many: f64) -> f64 {
    (large - small) / (many - few)
}

/// Runs a program to its end and reads the line it prints.
fn run(mut command: Command) -> Result<Value, String> {
    let mut started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    started = started.env_remove("SCHEDULER_SPIN_US");
    let mut process = started.spawn().map_err(|e| format!("{}: {e}", command.get_program().to_string_lossy()))?;
    let end = Instant::now() + LIMIT;
    while process.try_wait().map_err(|e| e.to_string())?.is_none() {
        if Instant::now() > end {
            // It is ours, and it hangs. An error means that it has just ended.
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("failed: no end within {LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let out = process.wait_with_output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&out.stdout);
    if !out.status.success() {
        return Err(format!("failed: {} after saying {:?}", out.status, said.trim()));
    }
    let line = said.lines().find(|l| l.starts_with('{')).unwrap_or_default();
    serde_json::from_str(line).map_err(|_| format!("failed: said {:?}", said.trim()))
}

/// Instructions of one task of ours with a standing queue.
pub(crate) struct Flat {
    pub(crate) workers: usize,
    pub(crate) depth: u64,
    pub(crate) instructions: Result<f64, String>,
}

/// The path `external-flat` alone, for `scale`; with `few` only its smaller sizes.
pub(crate) fn flat(tiny: bool, few: bool, mut step: impl FnMut(String)) -> Result<Vec<Flat>, String> {
    let tools = Tools::find(false)?;
    let nowhere = PathBuf::new();
    let mut listings = objdump::Listings::new(tools.objdump.as_ref().unwrap_or(&nowhere));
    let lines = PATHS.iter().filter(|p| p.name == "external-flat").flat_map(|p| p.lines(&["scheduler"], tiny));
    let lines = lines.filter(|l| !few || l.depth <= 100_000 && l.workers <= 2);
    let counted = |line: Line| {
        step(format!("instructions · {} queued · {} workers", line.depth, line.workers));
        let seen = tools.measure(&line, &mut listings);
        let why = seen.why.iter().find(|(field, _)| *field == "instructions");
        let why = why.map_or_else(|| "not counted".into(), |(_, why)| why.clone());
        Flat { workers: line.workers, depth: line.depth, instructions: seen.instructions.ok_or(why) }
    };
    Ok(lines.map(counted).collect())
}

fn progress(bar: &ProgressBar, line: &Line) {
    bar.set_message(format!("{} · {} · {} workers", line.path, line.arm, line.workers));
}

/// Runs the command.
pub(crate) fn main(options: &args::Counts) -> Result<ExitCode, String> {
    let chosen: Vec<&'static str> = if options.arms.is_empty() {
        arms::ALL.iter().map(|a| a.name).collect()
    } else {
        args::arms(&options.arms)?.iter().map(|a| a.name).collect()
    };
    let picked = args::paths(&options.paths)?;
    let out = options.output.place("counts")?;
    let lines: Vec<Line> = picked.iter().flat_map(|p| p.lines(&chosen, options.output.tiny)).collect();
    let tools = Tools::find(lines.iter().any(|l| l.arm == "tbb"))?;
    let nowhere = PathBuf::new();
    let mut listings = objdump::Listings::new(tools.objdump.as_ref().unwrap_or(&nowhere));
    let cpus = Cpus::read();
    let mut host = host::describe(&cpus, cpus.workers());
    let gate = Gate::read();
    table::head(&host, &gate, options.output.tiny);
    let bar = compare::bar(lines.len() as u64);
    let mut rows: Vec<Row> = vec![];
    for line in lines {
        progress(&bar, &line);
        let counted = tools.measure(&line, &mut listings);
        let row = Row { line, counted };
        bar.suspend(|| table::row(rows.last(), &row));
        rows.push(row);
        bar.inc(1);
    }
    bar.finish_and_clear();
    table::budgets(&rows);
    host["load_after"] = json!(host::load());
    let json: Vec<Value> = rows.iter().map(Row::json).collect();
    let whole = json!({
        "kind": "counts", "host": host, "gate": gate.json(), "tiny": options.output.tiny, "paths": json,
        "budgets": table::verdicts(&rows),
    });
    output::json(&out, &whole)?;
    println!("written: {}", out.display());
    let failed = rows.iter().filter(|r| r.counted.failed).count();
    Ok(session::ended(failed, rows.len(), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fill_whole_chunks() {
        for tiny in [false, true] {
            let lines = |path: usize| POOLS.iter().flat_map(move |arm| PATHS[path].lines_of(arm, tiny));
            let chunk = |line: &Line| if line.path == "external" { line.depth / 2 } else { child::swing(line.depth) };
            for line in lines(0).chain(lines(1)) {
                assert_eq!(line.depth % chunk(&line), 0, "{line:?}");
                for size in line.sizes {
                    assert_eq!(size * line.native % chunk(&line), 0, "{line:?}");
                    assert!(size * line.native >= line.depth, "{line:?}");
                }
            }
        }
        assert!(PATHS.iter().all(|p| !p.lines(&["scheduler"], false).is_empty()));
    }

    #[test]
    fn slopes_and_output() {
        assert_eq!(slope(1_100.0, 3_100.0, 10.0, 30.0), 100.0);
        let sh = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run(command)
        };
        assert_eq!(sh("echo noise; echo '{\"ran\":3}'").unwrap()["ran"], 3);
        assert!(sh("echo '{\"ran\":3}'; exit 1").unwrap_err().starts_with("failed: exit status: 1"));
        assert!(sh("echo hello").unwrap_err().starts_with("failed: said"));
    }
}
