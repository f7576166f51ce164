//! The scenarios with connections. Each arm serves in a process of its own; the clients are in this one, or `wrk`.
use super::arms::Trouble;
use super::scenario::{Scenario, Taken, What};
use crate::os::Usage;
use crate::paths;
use crate::run::PATIENCE;
use crate::stats::Latency;
use crate::wakeup::{STRACE, total_calls};
use load::Clients;
use serde_json::Value;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

mod load;
mod serve;
mod servers;
mod wrk;

pub(crate) use serve::{Serve, main as serve};

/// Messages that are sent and not timed before every sample, per connection.
const WARM_UP: u64 = 20;
/// Seconds of `wrk`, full and tiny.
const SECONDS: [f64; 2] = [3.0, 1.0];

/// The server of an arm, started when it is first needed and kept until something goes wrong.
pub(super) struct Remote {
    arm: &'static str,
    workers: usize,
    process: RefCell<Option<Process>>,
}

/// A server that runs.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    echo: SocketAddr,
    http: Result<SocketAddr, String>,
}

impl Remote {
    pub(super) fn new(arm: &'static str, workers: usize) -> Remote {
        Remote { arm, workers, process: RefCell::new(None) }
    }

    /// One sample.
    pub(super) fn take(&self, scenario: &Scenario, size: u64, tiny: bool) -> Result<Taken, Trouble> {
        if scenario.what == What::Http {
            wrk::present().map_err(Trouble::Absent)?;
        }
        let kept = self.process.borrow_mut().take();
        let mut process = match kept {
            Some(process) => process,
            None => Process::start(self.command(None)).map_err(Trouble::Absent)?,
        };
        let taken = process.sample(scenario, size, SECONDS[usize::from(tiny)])?;
        // Kept only after a sample that was right: anything else ends the server.
        *self.process.borrow_mut() = Some(process);
        Ok(taken)
    }

    /// System calls per operation: a server under `strace` with few operations and one with many, the difference
    /// divided.
    pub(super) fn traced(&self, scenario: &Scenario, size: u64) -> Result<f64, String> {
        let run = |size: u64| {
            let summary = std::env::temp_dir().join(format!("bench-strace-{}.txt", std::process::id()));
            let mut process = Process::start(self.command(Some(&summary)))?;
            let taken = process.sample(scenario, size, SECONDS[1]).map_err(|trouble| match trouble {
                Trouble::Absent(why) | Trouble::Failed(why) => why,
            });
            // The tracer writes its summary when the server has ended.
            let ended = process.end();
            let calls = total_calls(&summary);
            Ok::<_, String>((taken?.ops, ended.and(calls)?))
        };
        let (few, many) = match scenario.what {
            What::Http => ((0, 0), run(size)?),
            _ => (run(size / 8)?, run(size)?),
        };
        Ok((many.1 as f64 - few.1 as f64) / (many.0 - few.0) as f64)
    }

    fn command(&self, summary: Option<&PathBuf>) -> Result<Command, String> {
        let exe = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = match summary {
            None => Command::new(exe),
            Some(summary) => {
                let strace =
                    paths::program(&["strace"]).ok_or("no `strace` in PATH (Debian: `apt-get install strace`)")?;
                let mut command = Command::new(strace);
                command.args(STRACE).arg(summary).arg(exe);
                command
            }
        };
        if self.arm == "scheduler-epoll" {
            command.env("SCHEDULER_IO", "epoll");
        }
        command.args(["io-serve", "--arm", self.arm, "--workers", &self.workers.to_string()]);
        Ok(command)
    }
}

impl Process {
    fn start(command: Result<Command, String>) -> Result<Process, String> {
        let mut command = command?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut out = Process { child, stdin, lines, echo: nowhere, http: Err("not started".into()) };
        let said = out.line().map_err(|why| out.last_words().unwrap_or(why))?;
        let address = |port: &Value| Some(SocketAddr::from(([127, 0, 0, 1], u16::try_from(port.as_u64()?).ok()?)));
        out.echo = address(&said["echo"]).ok_or("a server without a port")?;
        out.http = address(&said["http"]).ok_or_else(|| said["why"].as_str().unwrap_or("no HTTP server").to_owned());
        Ok(out)
    }

    fn line(&self) -> Result<Value, String> {
        let line = self.lines.recv_timeout(PATIENCE).map_err(|_| "the server does not answer")?;
        serde_json::from_str(&line).map_err(|e| format!("the server said {line:?}: {e}"))
    }

    /// What a server that could not start has said.
    fn last_words(&mut self) -> Option<String> {
        drop(self.stdin.take());
        let mut first = String::new();
        BufReader::new(self.child.stderr.take()?).read_line(&mut first).ok()?;
        Some(first.trim().trim_start_matches("bench: ").to_owned()).filter(|words| !words.is_empty())
    }

    /// What the server has used so far.
    fn usage(&mut self) -> Result<Usage, String> {
        let stdin = self.stdin.as_mut().ok_or("no pipe")?;
        writeln!(stdin).map_err(|e| format!("the server is gone: {e}"))?;
        let said = self.line()?;
        let of = |field: &str| said[field].as_u64().ok_or("an answer without numbers");
        let (cpu_ns, system_ns, switches) = (of("cpu_ns")?, of("system_ns")?, of("switches")?);
        Ok(Usage { cpu_ns, system_ns, switches, ..Usage::default() })
    }

    fn sample(&mut self, scenario: &Scenario, size: u64, seconds: f64) -> Result<Taken, Trouble> {
        match scenario.what {
            What::Echo { connections, bytes } => self.echo(connections, bytes, size).map_err(Trouble::Failed),
            What::Http => {
                let address = self.http.clone().map_err(Trouble::Absent)?;
                self.http(address, seconds).map_err(Trouble::Failed)
            }
            _ => Err(Trouble::Absent("no connection in it".into())),
        }
    }

    fn echo(&mut self, connections: u64, bytes: usize, messages: u64) -> Result<Taken, String> {
        let said = |e: std::io::Error| e.to_string();
        let mut clients = Clients::connect(self.echo, connections, bytes).map_err(said)?;
        clients.run(WARM_UP.min(messages / connections).max(1) * connections).map_err(said)?;
        let before = self.usage()?;
        let load = clients.run(messages).map_err(said)?;
        let usage = self.usage()? - before;
        let ops = load.latencies.len() as u64;
        Ok(Taken { ops, wall: load.wall, usage, latency: Latency::of(load.latencies), ..Taken::default() })
    }

    fn http(&mut self, address: SocketAddr, seconds: f64) -> Result<Taken, String> {
        let before = self.usage()?;
        let said = wrk::run(address, 64, seconds)?;
        let usage = self.usage()? - before;
        let [p50, p99, max] = said.latency;
        // wrk has no p95 of its own; p99 bounds it.
        let latency = Some(Latency { p50, p95: p99, p99, max });
        Ok(Taken {
            ops: said.requests,
            wall: Duration::from_secs_f64(said.seconds),
            usage,
            latency,
            ..Taken::default()
        })
    }

    fn end(mut self) -> Result<(), String> {
        drop(self.stdin.take());
        let status = self.child.wait().map_err(|e| e.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the traced server ended with {status}")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of its input ends it; what does not end then is killed. Nothing is lost by either.
        drop(self.stdin.take());
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            std::thread::sleep(Duration::from_millis(50));
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
