//! One empty task every 10 ms: ours against boxed closures through one `crossbeam-channel`.
//!
//! Ours, channel, ours, channel; each pool exists only while it is measured.
use super::Size;
use super::report::{Row, Target, Verdict};
use super::tools::{cpu_ns, leak, wait_for};
use scheduler::Scheduler;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const WORKERS: usize = 2;
const PERIOD: Duration = Duration::from_millis(10);

type Boxed = Box<dyn FnOnce() + Send>;

/// The pool of the benchmark's arm `channel`, which can also be stopped.
struct Channel {
    sender: crossbeam_channel::Sender<Boxed>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Channel {
    fn new() -> Result<Channel, String> {
        let (sender, receiver) = crossbeam_channel::unbounded::<Boxed>();
        let start = |n| {
            let receiver = receiver.clone();
            let thread = thread::Builder::new().name(format!("channel-{n}"));
            thread.spawn(move || receiver.iter().for_each(|task| task())).map_err(|e| e.to_string())
        };
        let threads = (0..WORKERS).map(start).collect::<Result<_, _>>()?;
        Ok(Channel { sender, threads })
    }

    fn submit(&self, task: impl FnOnce() + Send + 'static) -> Result<(), String> {
        self.sender.send(Box::new(task)).map_err(|e| e.to_string())
    }

    fn stop(self) -> Result<(), String> {
        drop(self.sender);
        let joined: Result<Vec<()>, _> = self.threads.into_iter().map(thread::JoinHandle::join).collect();
        joined.map(drop).map_err(|_| String::from("a thread of the channel pool panicked"))
    }
}

pub(crate) fn measure(size: &Size) -> Result<Vec<Row>, String> {
    let tasks = size.pick(1_000, 100);
    let (mut ours, mut channel) = (Vec::new(), Vec::new());
    for _round in 0..2 {
        let pool = Scheduler::builder().workers(WORKERS).build().map_err(|e| e.to_string())?;
        let ran = leak(AtomicU64::new(0));
        let task = counting(ran);
        ours.push(trickle(tasks, ran, || pool.submit(task).map_err(|e| e.to_string()))?);
        drop(pool);
        let pool = Channel::new()?;
        let ran = leak(AtomicU64::new(0));
        let task = counting(ran);
        channel.push(trickle(tasks, ran, || pool.submit(task))?);
        pool.stop()?;
    }
    let (mine, theirs) = (mean_ms(&ours), mean_ms(&channel));
    let row = |case: &str, taken: &[u64], verdict| Row {
        case: case.into(),
        detail: format!("{} ms CPU", taken.iter().map(|ns| format!("{:.2}", ms(*ns))).collect::<Vec<_>>().join(", ")),
        verdict,
        facts: json!({ "cpu_ns": taken, "tasks": tasks, "workers": WORKERS }),
    };
    let target = Target::Below(theirs);
    let verdict = Verdict { what: "mean process CPU", value: mine, unit: "ms", target };
    Ok(vec![row("scheduler", &ours, Some(verdict)), row("channel", &channel, None)])
}

/// The task of both pools.
fn counting(ran: &'static AtomicU64) -> impl Fn() + Copy + Send + 'static {
    move || {
        ran.fetch_add(1, Release);
    }
}

/// CPU time of the process while `tasks` are submitted, one per period, the submitter's included.
fn trickle(tasks: u64, ran: &AtomicU64, submit: impl Fn() -> Result<(), String>) -> Result<u64, String> {
    const WARM_UP: u64 = 5;
    for _ in 0..WARM_UP {
        submit()?;
        sleep(PERIOD);
    }
    let (cpu, began) = (cpu_ns(), Instant::now());
    for n in 0..tasks {
        submit()?;
        let next = PERIOD * (n as u32 + 1);
        sleep(next.saturating_sub(began.elapsed()));
    }
    let used = cpu_ns() - cpu;
    wait_for("the last task of a trickle", || ran.load(Acquire) == WARM_UP + tasks);
    Ok(used)
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn mean_ms(taken: &[u64]) -> f64 {
    taken.iter().map(|ns| ms(*ns)).sum::<f64>() / taken.len() as f64
}
