//! What is done while the plugin counts line transfers between nodes (instrument of M9).

use super::Finding;
use super::crew::{Crew, SOON};
use super::look::PAGE;
use crate::line::Phase;
use numa::{CpuId, CpuSet, Pin, Placement, Topology};
use scheduler::{Handle, Scheduler};
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One thing to count.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) units: u64,
    /// Given the number of its phase.
    pub(super) run: fn(usize) -> Finding,
}

impl Scenario {
    pub(super) fn phase(&self, number: u32) -> Phase {
        Phase { number, units: self.units, name: self.name.to_owned() }
    }
}

/// Round trips of the instrument's own test.
const TRIPS: u64 = 5_000;
/// Tasks of each producer; a worker's ring holds 4,096.
const TASKS: u64 = 4_000;
/// Producers where every node has one.
const NODES: u64 = 4;
/// Tasks of one remote submission.
const BATCH: u64 = 32;
/// Remote submissions in flight before the submitter waits.
const WINDOW: u64 = 32;
/// Tasks submitted from another node.
const REMOTE: u64 = 256 * BATCH;

/// Workers, all of which produce.
const WORKERS: u64 = 8;

/// The position in the list, from 1, is the number of the phase.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "ping-pong within a node", units: TRIPS, run: |phase| counted(phase, || ping_pong(0, 1)) },
    Scenario { name: "ping-pong between nodes", units: TRIPS, run: |phase| counted(phase, || ping_pong(0, 2)) },
    Scenario { name: "local submit", units: WORKERS * TASKS, run: |phase| produce(phase, View::True, |_| true) },
    Scenario {
        name: "local submit, uniform",
        units: WORKERS * TASKS,
        run: |phase| produce(phase, View::Flat, |_| true),
    },
    Scenario { name: "half of them", units: NODES * TASKS, run: |phase| produce(phase, View::True, even) },
    Scenario { name: "half of them, uniform", units: NODES * TASKS, run: |phase| produce(phase, View::Flat, even) },
    Scenario { name: "hot node", units: 2 * TASKS, run: |phase| produce(phase, View::True, |cpu| cpu < 2) },
    Scenario { name: "hot node, uniform", units: 2 * TASKS, run: |phase| produce(phase, View::Flat, |cpu| cpu < 2) },
    Scenario { name: "remote submit, by 32", units: REMOTE, run: |phase| remote(phase, View::True, &[2, 3], BATCH) },
    Scenario { name: "remote submit, one by one", units: REMOTE, run: |phase| remote(phase, View::True, &[2, 3], 1) },
    Scenario { name: "remote submit, uniform", units: REMOTE, run: |phase| remote(phase, View::Flat, OTHERS, BATCH) },
];

/// The CPUs of all nodes but the first.
const OTHERS: &[u32] = &[2, 3, 4, 5, 6, 7];

/// One of the two CPUs of each node.
fn even(cpu: u32) -> bool {
    cpu.is_multiple_of(2)
}

/// Tells the plugin what is done now; 0: nothing.
fn tell(phase: usize) {
    const MAGIC: usize = 0x05ca_1ab1_e000;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let wanted = MAGIC as *mut libc::c_void;
    // SAFETY: a mapping at a place that nothing else uses; one that is there already is replaced by an equal one.
    let at = unsafe { libc::mmap(wanted, PAGE, protection, flags | libc::MAP_FIXED, -1, 0) };
    assert_eq!(at, wanted, "mmap: {}", std::io::Error::last_os_error());
    let word = at.wrapping_byte_add(8 * phase).cast::<u64>();
    // SAFETY: within the page just mapped.
    unsafe { word.write_volatile(1) };
}

/// Runs the body twice, the second time counted: whatever is created at first use exists then.
fn counted(phase: usize, body: impl Fn() -> Result<(), String>) -> Finding {
    body()?;
    tell(phase);
    let done = body();
    tell(0);
    done.map(|()| "done".into())
}

fn bind(cpu: u32) {
    numa::bind_current_thread(&CpuSet::single(CpuId::new(cpu))).expect("a CPU of this machine");
}

#[repr(align(64))]
struct Alone(AtomicU64);

/// Two threads hand a word to and fro: two transfers there and two back.
fn ping_pong(a: u32, b: u32) -> Result<(), String> {
    let word = Arc::new(Alone(AtomicU64::new(0)));
    let run = |cpu: u32, first: u64| {
        let word = word.clone();
        move || {
            bind(cpu);
            for trip in 0..TRIPS {
                while word.0.load(Relaxed) != 2 * trip + first {
                    spin_loop();
                }
                word.0.store(2 * trip + first + 1, Relaxed);
            }
        }
    };
    let threads = [std::thread::spawn(run(a, 0)), std::thread::spawn(run(b, 1))];
    threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "panicked".to_owned()))
}

/// What the scheduler believes of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// What it is.
    True,
    /// One node and one cache: every worker is as good a victim as any other. The workers are bound all the same.
    Flat,
}

/// A worker on each of `cpus`, in order of their index.
fn crew(view: View, cpus: &[u32]) -> Result<Crew, String> {
    let builder = Scheduler::builder().pin(Pin::Cpu).workers(cpus.len());
    match view {
        View::True => Crew::start(builder.placement(Placement::Cpus(super::look::set(cpus)))),
        View::Flat => {
            let flat = Topology::from_spec(&format!("node cores={}", cpus.len())).map_err(|e| e.to_string())?;
            let cpus = cpus.to_vec();
            Crew::start_with(builder.topology(flat), move |index| bind(cpus[index]))
        }
    }
}

/// Some work without memory. At a pause the emulator goes on to the next CPU: without any, one CPU would run for a
/// tenth of a second while the others stand still.
fn work() {
    for _ in 0..4 {
        for i in 0..50 {
            black_box(i);
        }
        spin_loop();
    }
}

/// The workers on the CPUs that `produces` says submit to themselves, all at once; everybody helps.
fn produce(phase: usize, view: View, produces: fn(u32) -> bool) -> Finding {
    let crew = crew(view, &[0, 1, 2, 3, 4, 5, 6, 7])?;
    bind(7);
    let result = counted(phase, || {
        let (workers, arrived) = (crew.len(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..workers {
            let arrived = arrived.clone();
            let task = move || {
                arrived.fetch_add(1, Relaxed);
                let end = Instant::now() + SOON;
                while arrived.load(Relaxed) < workers && Instant::now() < end {
                    std::thread::sleep(Duration::from_micros(500));
                }
                let cpu = numa::current_cpu().map_or(u32::MAX, CpuId::get);
                if produces(cpu) {
                    let handle = Handle::current();
                    (0..TASKS).for_each(|_| handle.submit(work).expect("open"));
                }
            };
            crew.scheduler.submit(task).map_err(|error| error.to_string())?;
        }
        if crew.scheduler.wait_idle(SOON) { Ok(()) } else { Err("does not come to rest".into()) }
    });
    result.map(|done| format!("{done}: {}", counters(&crew)))
}

/// What the scheduler itself has counted, both rounds together.
fn counters(crew: &Crew) -> String {
    let sum = crew.scheduler.metrics();
    let (searches, claims) = sum.workers.iter().fold((0, 0), |(s, c), worker| (s + worker.searches, c + worker.claims));
    let tasks: Vec<u64> = sum.workers.iter().map(|worker| worker.tasks).collect();
    format!(
        "tasks {tasks:?}, {} steals of {} tasks, {claims} claims, {searches} searches, {} wakes, {} parks",
        sum.steals, sum.stolen, sum.wakes, sum.parks
    )
}

/// A thread on node 0 submits to workers elsewhere.
fn remote(phase: usize, view: View, cpus: &[u32], size: u64) -> Finding {
    let crew = crew(view, cpus)?;
    bind(0);
    let handle = crew.scheduler.handle();
    let result = counted(phase, || {
        for batch in 0..REMOTE / size {
            handle.submit_batch((0..size).map(|_| work)).map_err(|error| error.reason.to_string())?;
            if (batch * size).is_multiple_of(WINDOW * BATCH) && !crew.scheduler.wait_idle(SOON) {
                return Err("does not come to rest".into());
            }
        }
        if crew.scheduler.wait_idle(SOON) { Ok(()) } else { Err("does not come to rest".into()) }
    });
    result.map(|done| format!("{done}: {}", counters(&crew)))
}
