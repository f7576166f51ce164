//! Clocks, waiting and random gaps.
use crate::all::stats::Latency;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// After this long a task that has not run is lost.
const LOST: Duration = Duration::from_secs(20);

/// CPU time of all threads of this process, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec` of ours; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The load averages over 1, 5 and 15 minutes.
pub(crate) fn load() -> [f64; 3] {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut parts = text.split(' ').map(|part| part.parse().unwrap_or(f64::NAN));
    std::array::from_fn(|_| parts.next().unwrap_or(f64::NAN))
}

/// A thing of which others keep a reference until the process ends.
pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Looks every 100 us whether `done`; ends the process after [`LOST`], because a scheduler that has lost a task may
/// not be able to end.
pub(crate) fn wait_for(what: &str, done: impl Fn() -> bool) {
    wait_between(what, done, || std::thread::sleep(Duration::from_micros(100)));
}

/// As [`wait_for`], with `pause` between two looks.
pub(crate) fn wait_between(what: &str, done: impl Fn() -> bool, pause: impl Fn()) {
    let began = Instant::now();
    while !done() {
        if began.elapsed() > LOST {
            eprintln!("figures: {what} did not happen within {} s", LOST.as_secs());
            std::process::exit(1);
        }
        pause();
    }
}

/// Keeps a CPU busy, by the clock: on a shared CPU it computes less, not longer.
pub(crate) fn busy(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Gaps between samples: long enough for everybody to sleep, never in step with anything. The same in every run.
pub(crate) struct Gaps(u64);

impl Gaps {
    pub(crate) fn new() -> Gaps {
        Gaps(0x9e37_79b9_7f4a_7c15)
    }

    /// Sleeps for 300 to 700 us.
    pub(crate) fn sleep(&mut self) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        std::thread::sleep(Duration::from_micros(300 + self.0 % 401));
    }
}

/// Nanoseconds as microseconds.
pub(crate) fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

/// p50, p99 and maximum, for people.
pub(crate) fn percentiles(latency: &Latency) -> String {
    let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(us);
    format!("p50 {p50:8.1}  p99 {p99:8.1}  max {max:8.1} us")
}

/// The same for programs.
pub(crate) fn percentiles_json(latency: &Latency) -> Value {
    json!({ "p50_ns": latency.p50, "p99_ns": latency.p99, "max_ns": latency.max })
}
