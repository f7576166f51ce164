//! One task into an idle pool of two workers, against a raw futex hand-off to one waiting thread.
//!
//! The three arms take turns sample by sample, beginning with another one each time, and everybody sleeps in between.
use super::Size;
use super::os::{futex_wait, futex_wake};
use super::report::{Row, Target, Verdict};
use super::stats::Latency;
use super::tools::{Gaps, leak, percentiles, percentiles_json, wait_for};
use scheduler::internals::numa::{CpuSet, bind_current_thread, current_affinity};
use scheduler::{Pin, Placement, Scheduler};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::thread;
use std::time::{Duration, Instant};

const SAMPLES: usize = 2_000;
const RATIO: f64 = 1.5;

/// When the body of the current sample was entered: nanoseconds since `began`, 0 before.
struct Stamp {
    began: Instant,
    entered: AtomicU64,
}

impl Stamp {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// The body.
    fn enter(&self) {
        self.entered.store(self.now(), Release);
    }
}

/// A thread that waits on a futex and does nothing else.
struct Raw {
    word: AtomicU32,
    stop: AtomicBool,
}

impl Raw {
    fn start(stamp: &'static Stamp, cpu: Option<CpuSet>) -> Result<(&'static Raw, thread::JoinHandle<()>), String> {
        let raw = leak(Raw { word: AtomicU32::new(0), stop: AtomicBool::new(false) });
        let ready = leak(AtomicBool::new(false));
        let body = move || {
            if let Some(cpu) = cpu {
                bind_current_thread(&cpu).expect("the waiter can be bound");
            }
            ready.store(true, Release);
            let mut seen = 0;
            loop {
                while raw.word.load(Acquire) == seen {
                    futex_wait(&raw.word, seen, Duration::from_secs(3600));
                }
                seen = raw.word.load(Acquire);
                if raw.stop.load(Relaxed) {
                    return;
                }
                stamp.enter();
            }
        };
        let thread = thread::Builder::new().name("raw".into()).spawn(body).map_err(|e| e.to_string())?;
        wait_for("the start of the waiting thread", || ready.load(Acquire));
        Ok((raw, thread))
    }

    fn hand_off(&self) {
        self.word.fetch_add(1, Release);
        futex_wake(&self.word, 1);
    }

    fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.hand_off();
    }
}

/// Who runs where: the submitter and whoever it hands to.
#[derive(Clone)]
struct Pinning {
    name: &'static str,
    cpus: Option<(CpuSet, CpuSet)>,
}

pub(crate) fn measure(size: &Size) -> Result<Vec<Row>, String> {
    let samples = size.pick(SAMPLES, 100);
    let mut rows = Vec::new();
    let allowed: Vec<_> = current_affinity().map_err(|e| e.to_string())?.iter().collect();
    match allowed[..] {
        [first, second, ..] => {
            let cpus = Some((CpuSet::single(first), CpuSet::single(second)));
            rows.extend(compared(&Pinning { name: "pinned", cpus }, samples)?);
        }
        _ => rows.push(Row {
            case: "pinned".into(),
            detail: "absent: needs two CPUs".into(),
            verdict: None,
            facts: json!({ "why": "needs two CPUs" }),
        }),
    }
    rows.extend(compared(&Pinning { name: "unpinned", cpus: None }, samples)?);
    Ok(rows)
}

fn pool(pinning: &Pinning, spin: Option<Duration>) -> Result<Scheduler, String> {
    let mut builder = Scheduler::builder().workers(2);
    builder = match &pinning.cpus {
        Some((_, waiter)) => builder.placement(Placement::Cpus(waiter.clone())).pin(Pin::Cpu),
        None => builder.placement(Placement::Unpinned),
    };
    if let Some(spin) = spin {
        builder = builder.spin(spin);
    }
    let pool = builder.build().map_err(|e| e.to_string())?;
    match pool.metrics().unbound {
        0 => Ok(pool),
        unbound => Err(format!("{unbound} workers could not be bound")),
    }
}

/// All arms under one pinning; the last row is the raw hand-off.
fn compared(pinning: &Pinning, samples: usize) -> Result<Vec<Row>, String> {
    let stamp = leak(Stamp { began: Instant::now(), entered: AtomicU64::new(0) });
    let (default, zero) = (pool(pinning, None)?, pool(pinning, Some(Duration::ZERO))?);
    let (raw, waiter) = Raw::start(stamp, pinning.cpus.as_ref().map(|(_, waiter)| waiter.clone()))?;
    let submit = |pool: &Scheduler| pool.submit(|| stamp.enter()).map_err(|e| e.to_string());
    let fire = |arm: usize| match arm {
        0 => submit(&default),
        1 => submit(&zero),
        _ => {
            raw.hand_off();
            Ok(())
        }
    };
    // A thread of its own: the main thread stays unbound, and so do the pools it builds.
    let taken = thread::scope(|scope| {
        let submitter = scope.spawn(|| {
            if let Some((cpu, _)) = &pinning.cpus {
                bind_current_thread(cpu).map_err(|e| e.to_string())?;
            }
            interleaved(stamp, fire, samples)
        });
        submitter.join().map_err(|_| String::from("the submitter panicked"))
    });
    raw.stop();
    waiter.join().map_err(|_| String::from("the waiter panicked"))?;
    let taken = taken??;
    let reference = taken[2];
    let cases = ["scheduler, default spin", "scheduler, spin 0", "raw futex"];
    let row = |(arm, case): (usize, &str)| {
        let latency = &taken[arm];
        let ratio = latency.p99 as f64 / reference.p99 as f64;
        let verdict = Verdict { what: "p99 to raw", value: ratio, unit: "times", target: Target::AtMost(RATIO) };
        Row {
            case: format!("{}: {case}", pinning.name),
            detail: percentiles(latency),
            verdict: (arm != 2).then_some(verdict),
            facts: json!({ "latency": percentiles_json(latency), "samples": samples }),
        }
    };
    Ok(cases.into_iter().enumerate().map(row).collect())
}

/// From the call of submit (or of the hand-off) to the first line of the body.
fn interleaved(
    stamp: &Stamp,
    fire: impl Fn(usize) -> Result<(), String>,
    samples: usize,
) -> Result<[Latency; 3], String> {
    const WARM_UP: usize = 20;
    let mut gaps = Gaps::new();
    let mut taken: [Vec<u64>; 3] = std::array::from_fn(|_| Vec::with_capacity(samples));
    for round in 0..WARM_UP + samples {
        for turn in 0..3 {
            let arm = (round + turn) % 3;
            stamp.entered.store(0, Relaxed);
            let called = stamp.now();
            fire(arm)?;
            gaps.sleep();
            wait_for("a task handed to an idle pool", || stamp.entered.load(Acquire) != 0);
            if round >= WARM_UP {
                taken[arm].push(stamp.entered.load(Acquire) - called);
            }
        }
    }
    let [default, zero, raw] = taken.map(Latency::of);
    default.zip(zero).zip(raw).map(|((default, zero), raw)| [default, zero, raw]).ok_or_else(|| "no samples".into())
}
