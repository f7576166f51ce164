//! A process per test, and what the tests share.

use scheduler::Scheduler;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// Tells the test binary that it is the process of one test.
const CHILD: &str = "SCHEDULER_REGRESSION_CHILD";
/// The child's word that the body ran to its end: a wrong test name would run nothing, and succeed.
const RETURNED: &str = "the body of the test has returned";
/// A child that takes longer hangs; the longest takes a few seconds on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// What is not there after this time will never be: what is waited for takes milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Runs `body` in a process of its own; `test` is the path of the calling test in this binary.
pub(crate) fn in_a_process(test: &str, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        std::thread::spawn(|| {
            std::thread::sleep(LIMIT);
            eprintln!("still not over after {LIMIT:?}");
            std::process::abort();
        });
        body();
        return println!("{RETURNED}");
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(CHILD, "1").stdin(Stdio::null());
    let ended = child.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let good = ended.status.success() && said.contains(RETURNED);
    assert!(good, "{test}: {}\n{}\n{}", ended.status, tail(&said), tail(&errors));
}

/// The last lines: a program that breaks may say much before.
fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

pub(crate) fn scheduler(workers: usize) -> Scheduler {
    Scheduler::builder().workers(workers).build().unwrap()
}

/// Waits until `reached`.
pub(crate) fn eventually(what: &str, reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits until each of the workers has gone to sleep, and gives the last one time to fall asleep.
pub(crate) fn all_asleep(scheduler: &Scheduler) {
    eventually("all workers asleep", || scheduler.metrics().workers.iter().all(|worker| worker.parks != 0));
    std::thread::sleep(Duration::from_millis(20));
}

/// Opened once.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(true, Release);
    }
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Acquire)
    }
    /// Without a limit: the watchdog has one.
    pub(crate) fn wait(&self) {
        while !self.is_open() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Keeps one worker busy until the gate is opened; returns when the worker has begun.
pub(crate) fn occupy(scheduler: &Scheduler) -> Gate {
    let (begun, gate) = (Gate::default(), Gate::default());
    let (begin, wait) = (begun.clone(), gate.clone());
    let task = move || {
        begin.open();
        wait.wait();
    };
    scheduler.submit(task).unwrap();
    begun.wait();
    gate
}

/// Counts from any thread.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicU64>);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, AcqRel);
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Acquire)
    }
}

/// Panics when it is dropped, unless that would be the second panic of the thread.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the destructor of a bomb");
        }
    }
}

/// The panics of the scheduler's threads are part of the test: they go without a message.
pub(crate) fn quiet_workers() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let expected = thread.name().is_some_and(|name| name.starts_with("scheduler-") || name.starts_with("spare-"));
        if !expected {
            hook(info);
        }
    }));
}
