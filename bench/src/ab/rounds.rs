//! The rounds: one file per leg-run, written whole, so that an interrupted run goes on where it was.
use super::plan::{Leg, Plan};
use crate::{os, output};
use bench::aggregate::{self, Legs, ROUNDS, SAMPLES};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The arm that is compared.
const ARM: &str = "scheduler";

/// Why the rounds have stopped.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    /// By a signal.
    Interrupted,
    /// A leg-run lost tasks or did not end well.
    Failed(String),
}

/// Where a leg-run is written. `leg` is `a` or `b`, `round` counts from 1.
pub(super) fn file(folder: &Path, round: usize, leg: &str) -> PathBuf {
    folder.join("rounds").join(format!("round-{round:02}-{leg}.json"))
}

/// A leg-run that is there already and belongs to this plan.
fn done(path: &Path, leg: &Leg) -> bool {
    output::read_json(path).is_ok_and(|v| v["commit"] == leg.commit.as_str() && v["sha256"] == leg.sha256.as_str())
}

/// All rounds that are missing. `programs` are those of legs A and B; `progress` is told before each leg-run.
pub(super) fn run(
    folder: &Path,
    plan: &Plan,
    programs: [&Path; 2],
    mut progress: impl FnMut(usize, &str),
) -> Result<(), Stop> {
    for round in 1..=ROUNDS {
        for (leg, name, program) in [(&plan.baseline, "a", programs[0]), (&plan.candidate, "b", programs[1])] {
            let path = file(folder, round, name);
            if done(&path, leg) {
                continue;
            }
            progress(round, name);
            let others = Others::begin();
            let mut report = take(program, plan)?;
            // The program does not know: its worktree is gone.
            report["host"]["commit"] = json!(leg.commit);
            report["host"]["dirty"] = json!(false);
            report["host"]["commit_why"] = Value::Null;
            report["gate"] = leg.gate.clone();
            let whole = json!({
                "kind": "ab-round", "round": round, "leg": name, "commit": leg.commit, "sha256": leg.sha256,
                "foreign_cpus": others.cpus(), "report": report,
            });
            output::compact(&path, &whole).map_err(Stop::Failed)?;
        }
    }
    Ok(())
}

/// What other programs do during a leg-run: what no rule at the start of a run of an hour can promise.
struct Others {
    start: Instant,
    /// CPU time of the whole machine, and of our own programs, so far.
    busy: Option<Duration>,
    own: Duration,
}

impl Others {
    fn begin() -> Others {
        Others { start: Instant::now(), busy: os::busy(), own: os::own_and_children() }
    }

    /// How many CPUs others have kept busy since, on average; `None` where the kernel does not say.
    fn cpus(&self) -> Option<f64> {
        let busy = os::busy()?.saturating_sub(self.busy?);
        let own = os::own_and_children().saturating_sub(self.own);
        Some(busy.saturating_sub(own).as_secs_f64() / self.start.elapsed().as_secs_f64().max(1e-3))
    }
}

/// How many CPUs others kept busy in each leg-run.
pub(super) fn foreign(folder: &Path) -> Vec<f64> {
    let legs = (1..=ROUNDS).flat_map(|round| ["a", "b"].map(|leg| file(folder, round, leg)));
    legs.filter_map(|path| output::read_json(&path).ok()?["foreign_cpus"].as_f64()).collect()
}

/// One leg-run. The load is that of this very run, so the program is told not to look at it.
fn take(program: &Path, plan: &Plan) -> Result<Value, Stop> {
    let out = program.with_extension("json");
    let mut command = Command::new(program);
    command.args(["compare", "--arms", ARM, "--samples", &SAMPLES.to_string(), "--force-rates", "--no-wait"]);
    command.args(["--scenarios", &plan.scenarios.join(","), "--workers", &plan.workers.to_string()]);
    command.arg("--out").arg(&out);
    if plan.tiny {
        command.arg("--tiny");
    }
    wait(command)?;
    let report = output::read_json(&out).map_err(Stop::Failed)?;
    // It has been read; left behind it would only take up room.
    let _ = std::fs::remove_file(&out);
    Ok(report)
}

fn wait(mut command: Command) -> Result<(), Stop> {
    let failed = |what: &dyn std::fmt::Display| Stop::Failed(format!("a leg-run failed: {what}"));
    if os::interrupted() {
        return Err(Stop::Interrupted);
    }
    let mut child = start(&mut command).map_err(|e| failed(&e))?;
    let status = loop {
        if os::interrupted() {
            // It is ours; an error means that it has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Err(Stop::Interrupted);
        }
        if let Some(status) = child.try_wait().map_err(|e| failed(&e))? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if status.success() {
        return Ok(());
    }
    // A terminal interrupts both; the other may have been told first.
    std::thread::sleep(Duration::from_millis(200));
    if os::interrupted() {
        return Err(Stop::Interrupted);
    }
    let said = child.wait_with_output().map(|o| String::from_utf8_lossy(&o.stderr).trim().to_owned());
    Err(failed(&format!("{status}: {}", said.unwrap_or_default())))
}

/// A program that was just written may still be open in a process that is about to become another: that passes.
fn start(command: &mut Command) -> std::io::Result<Child> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    for _ in 0..100 {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
    command.spawn()
}

/// The values of all rounds, per scenario: tasks per second, and CPU nanoseconds per task.
pub(super) fn collect(folder: &Path, plan: &Plan) -> Result<(Vec<Legs>, Vec<Legs>), String> {
    let empty = |name: &String| Legs { name: name.clone(), baseline: vec![], candidate: vec![] };
    let mut rates: Vec<Legs> = plan.scenarios.iter().map(empty).collect();
    let mut cpu = rates.clone();
    for round in 1..=ROUNDS {
        for name in ["a", "b"] {
            let path = file(folder, round, name);
            let report = &output::read_json(&path)?["report"];
            for (rate, cpu) in rates.iter_mut().zip(&mut cpu) {
                let row = row(report, &rate.name)
                    .ok_or_else(|| format!("{}: {} of the scheduler is missing", path.display(), rate.name))?;
                for (legs, field) in [(rate, "tasks_per_sec"), (cpu, "cpu_ns_per_task")] {
                    let samples = row[field]["samples"].as_array();
                    let samples: Vec<f64> = samples.into_iter().flatten().filter_map(Value::as_f64).collect();
                    let leg = if name == "a" { &mut legs.baseline } else { &mut legs.candidate };
                    leg.push(kept(field, &legs.name, &samples).map_err(|e| format!("{}: {e}", path.display()))?);
                }
            }
        }
    }
    Ok((rates, cpu))
}

/// CPU time comes in steps of a scheduler tick on some hosts, so tiny samples may say 0: that is not a wrong rate.
fn kept(field: &str, name: &str, samples: &[f64]) -> Result<f64, aggregate::Error> {
    match (field, samples) {
        ("cpu_ns_per_task", [_, a, b]) => Ok((a + b) / 2.0),
        _ => aggregate::value(name, samples),
    }
}

fn row<'a>(report: &'a Value, scenario: &str) -> Option<&'a Value> {
    let rows = report["results"].as_array()?;
    rows.iter().find(|r| r["scenario"] == scenario && r["arm"] == ARM && r["status"] == "ok")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn leg(name: &str) -> Leg {
        Leg { rev: name.into(), commit: name.into(), sha256: name.into(), gate: Value::Null }
    }

    fn plan() -> Plan {
        Plan {
            name: "n".into(),
            date: "d".into(),
            baseline: leg("one"),
            candidate: leg("two"),
            targets: vec![("flood_1m".into(), 1.0)],
            scenarios: vec!["flood_1m".into()],
            workers: 1,
            tiny: true,
            ungated: true,
            aa: false,
            quiet: Value::Null,
        }
    }

    /// A program that says what it is told to, whatever its arguments, and counts how often it was asked.
    fn program(folder: &Path, name: &str, samples: &str) -> PathBuf {
        let path = folder.join(name);
        let row = format!(
            r#"{{"scenario":"flood_1m","arm":"scheduler","status":"ok","tasks_per_sec":{{"samples":{samples}}},
            "cpu_ns_per_task":{{"samples":[1,2,3]}}}}"#
        );
        let report = format!(r#"{{"host":{{"commit":"gone"}},"results":[{row}]}}"#);
        let script = format!("#!/bin/sh\necho x >>{0}.asked\ncat >{0}.json <<'EOF'\n{report}\nEOF\n", path.display());
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn asked(program: &Path) -> usize {
        fs::read_to_string(program.with_extension("asked")).map_or(0, |t| t.lines().count())
    }

    #[test]
    fn what_is_missing_is_taken_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("bench-rounds-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (a, b) = (program(&folder, "a", "[9,10,20]"), program(&folder, "b", "[1,30,30]"));
        let mut order = vec![];
        run(&folder, &plan(), [&a, &b], |round, leg| order.push(format!("{round}{leg}"))).unwrap();
        assert_eq!(order[..4], ["1a", "1b", "2a", "2b"]);
        assert_eq!((asked(&a), asked(&b)), (10, 10));
        // One is lost, one is half, one is of another program.
        fs::remove_file(file(&folder, 3, "a")).unwrap();
        fs::write(file(&folder, 4, "b"), "{\"kind\":").unwrap();
        let other = fs::read_to_string(file(&folder, 5, "b")).unwrap().replace("two", "three");
        fs::write(file(&folder, 5, "b"), other).unwrap();
        assert!(collect(&folder, &plan()).is_err(), "an incomplete run has no result");
        run(&folder, &plan(), [&a, &b], |_, _| ()).unwrap();
        assert_eq!((asked(&a), asked(&b)), (11, 12));
        let (rates, cpu) = collect(&folder, &plan()).unwrap();
        assert_eq!((&rates[0].baseline[..], &rates[0].candidate[..]), (&[15.0; 10][..], &[30.0; 10][..]));
        assert_eq!(cpu[0].baseline, [2.5; 10]);
        let first = output::read_json(&file(&folder, 1, "a")).unwrap();
        assert_eq!(first["report"]["host"]["commit"], "one");
        assert_eq!(first["report"]["gate"], leg("one").gate);
        assert!(foreign(&folder).len() <= 20 && foreign(&folder).iter().all(|cpus| *cpus >= 0.0));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_program_that_fails_stops_the_run() {
        let folder = std::env::temp_dir().join(format!("bench-rounds-fail-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let a = program(&folder, "a", "[1,1,1]");
        let crash = folder.join("b");
        fs::write(&crash, "#!/bin/sh\necho lost a task >&2\nexit 1\n").unwrap();
        fs::set_permissions(&crash, fs::Permissions::from_mode(0o755)).unwrap();
        let Err(Stop::Failed(why)) = run(&folder, &plan(), [&a, &crash], |_, _| ()) else { panic!("no failure") };
        assert!(why.contains("exit status: 1") && why.contains("lost a task"), "{why}");
        assert!(file(&folder, 1, "a").exists() && !file(&folder, 1, "b").exists());
        // Nonsense instead of a report.
        fs::write(&crash, format!("#!/bin/sh\necho hello >{}.json\n", crash.display())).unwrap();
        let Err(Stop::Failed(why)) = run(&folder, &plan(), [&a, &crash], |_, _| ()) else { panic!("no failure") };
        assert!(why.contains("not JSON"), "{why}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
