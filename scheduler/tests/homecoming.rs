//! M7: cells and blocks that end far from home go back there, all of them, many at once; and none is lost. Every count
//! has a control that fails it.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "uses the memory of cells, and produces into a lane")]

use scheduler::internals::queue::lane::Lane;
use scheduler::internals::sync::Reclaimer;
use scheduler::internals::task::cell::{Blank, Cache, Depot, Source};
use scheduler::internals::worker::Tuning;
use scheduler::{Handle, Metrics, Place, Scheduler, Topology};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
const CELLS: u64 = 5_000;

type Store = Depot<64, 1023>;
type Local<'d> = Cache<'d, 64, 1023>;

/// What came home of the cells that one thread made and another one ended, in percent; cells per trip; homes that still
/// wait for a cell when both are gone.
#[derive(Debug, PartialEq)]
struct Homecoming {
    percent: f64,
    per_trip: f64,
    lost: usize,
}

/// `ended` is called on the far cache after every cell, `over` when all are there; the far cache keeps `lose` cells.
fn homecoming(ended: impl Fn(&Local), over: impl Fn(&Local), lose: usize) -> Homecoming {
    let depot = Store::new();
    let (percent, per_trip);
    {
        let (home, far) = (Cache::new(&depot), Cache::new(&depot));
        let cells: Vec<_> = (0..CELLS).map(|_| home.take()).collect();
        for cell in cells.into_iter().skip(lose) {
            // SAFETY: taken above, put once, used by nobody; trimmed by `ended`, or here.
            unsafe { far.put(cell) };
            far.trim();
            ended(&far);
        }
        over(&far);
        let (sent, trips) = far.sent_home();
        (percent, per_trip) = (100.0 * sent as f64 / CELLS as f64, sent as f64 / trips.max(1) as f64);
    }
    depot.sweep();
    Homecoming { percent, per_trip, lost: depot.abandoned() }
}

impl Homecoming {
    fn holds(&self) -> bool {
        self.percent == 100.0 && self.per_trip >= 8.0 && self.lost == 0
    }
}

#[test]
fn all_cells_come_home_many_at_once() {
    let ours = homecoming(|_| (), |cache| cache.settle(), 0);
    println!("M7, cells: {ours:?}");
    assert!(ours.holds(), "{ours:?}");
    // Controls: who never settles keeps some; who settles after each sends each alone; who forgets a
    // cell leaves a home that waits for ever.
    let hoards = homecoming(|_| (), |_| (), 0);
    assert!(!hoards.holds() && hoards.percent < 100.0, "{hoards:?}");
    let hurries = homecoming(|cache| cache.settle(), |_| (), 0);
    assert!(!hurries.holds() && hurries.per_trip < 8.0, "{hurries:?}");
    let loses = homecoming(|_| (), |cache| cache.settle(), 1);
    assert!(!loses.holds() && loses.lost == 1, "{loses:?}");
}

/// Claims all tasks of a lane of `BLOCKS` blocks by `each`, and says how many of the blocks went home with it.
fn blocks_home(each: u64, all: bool) -> u64 {
    const BLOCKS: u64 = 100;
    let reclaimer = Reclaimer::new();
    let scanner = reclaimer.register();
    let lane = Lane::<[u64; 8], 64>::new();
    for _ in 0..BLOCKS * 64 {
        // SAFETY: this thread is the only producer.
        let slot = unsafe { lane.reserve() }.unwrap();
        // SAFETY: reserved just now.
        unsafe { slot.write([0; 8]) };
        // SAFETY: written just now.
        unsafe { lane.commit() };
    }
    // SAFETY: as above.
    unsafe { lane.publish() };
    let mut home = 0;
    let mut left = BLOCKS * 64 - u64::from(!all);
    while left != 0 {
        let claim = lane.claim(&scanner.pin(), each.min(left), |_| ());
        left -= claim.taken;
        home += u64::from(claim.emptied);
    }
    home
}

#[test]
fn all_blocks_come_home_whole() {
    for each in [1, 7, 32, 64] {
        assert_eq!(blocks_home(each, true), 100, "by {each}");
        // The control: a block with one task left in it stays.
        assert_eq!(blocks_home(each, false), 99, "by {each}");
    }
}

/// A home stays on its node: only a thread of that node adopts it.
#[test]
fn homes_are_adopted_on_their_node() {
    thread_local!(static NODE: Cell<u32> = const { Cell::new(0) });
    let depot = Depot::<64, 5>::with_source(Source::SYSTEM.on_nodes(|| NODE.get()));
    let on = |node: u32| {
        NODE.set(node);
        let cache = Cache::new(&depot);
        // Two cells, so that one can come back while the other keeps the home.
        (cache.take(), cache.take())
    };
    // SAFETY: taken by `on`, each put once, used by nobody.
    let back = |cell: NonNull<Blank>| depot.with_temporary(|cache| unsafe { cache.put(cell) });
    let slab = |cell: &NonNull<Blank>| cell.addr().get() / 512;
    let (kept, first) = on(0);
    back(first);
    assert_eq!(depot.abandoned(), 1);
    let (far, other) = on(1);
    assert_eq!(depot.abandoned(), 2, "a thread of node 1 has adopted the home of node 0");
    assert_ne!(slab(&far), slab(&kept), "and works on its memory");
    let (again, third) = on(0);
    assert_eq!((depot.abandoned(), slab(&again)), (2, slab(&kept)), "nobody of its node has adopted it");
    [kept, far, other, again, third].into_iter().for_each(back);
    depot.sweep();
    assert_eq!(depot.abandoned(), 0);
}

/// Keeps workers in a task until it is dropped.
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn keep(scheduler: &Scheduler, workers: &[usize]) -> Gate {
        let open = Arc::new(AtomicBool::new(false));
        workers.iter().for_each(|&worker| while !Self::keep_one(scheduler, worker, &open) {});
        Gate(open)
    }

    /// A place is a wish: somebody else may be faster, and goes on then.
    fn keep_one(scheduler: &Scheduler, worker: usize, open: &Arc<AtomicBool>) -> bool {
        let (open, (begun, begins)) = (open.clone(), channel());
        let wait = move || {
            let right = Handle::worker_index() == Some(worker);
            begun.send(right).unwrap();
            while right && !open.load(Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        scheduler.submit_on(Place::Worker(worker), wait).unwrap();
        begins.recv_timeout(LONG).unwrap()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

const TASKS: usize = 6_400;

/// Two nodes of two workers, 0 and 2 on the first; submitting threads are on the first.
fn two_nodes() -> Scheduler {
    let tuning = Tuning { cpu: Some(|| 0), ..Tuning::default() };
    let topology = Topology::from_spec("2*node cores=2").unwrap();
    let scheduler = Scheduler::builder().topology(topology).workers(4).tuning(tuning).build().unwrap();
    assert!(scheduler.wait_idle(LONG));
    scheduler
}

fn counting(done: &Arc<AtomicUsize>) -> impl FnOnce() + Send + use<> {
    let done = done.clone();
    move || {
        done.fetch_add(1, AcqRel);
    }
}

fn await_all(done: &AtomicUsize, tasks: usize) {
    while done.load(Acquire) < tasks {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// 6,400 tasks, a hundred blocks, from a thread of the first node while `kept` are kept from them.
fn blocks(kept: &[usize]) -> Metrics {
    let (scheduler, done) = (two_nodes(), Arc::new(AtomicUsize::new(0)));
    let gate = Gate::keep(&scheduler, kept);
    scheduler.submit_batch((0..TASKS).map(|_| counting(&done))).unwrap();
    await_all(&done, TASKS);
    drop(gate);
    assert!(scheduler.wait_idle(LONG));
    scheduler.metrics()
}

#[test]
fn blocks_across_nodes_are_counted() {
    let far = blocks(&[0, 2]);
    assert_eq!(far.blocks_returned, 100, "{far:?}");
    assert_eq!(far.workers.iter().map(|w| w.blocks_returned).sum::<u64>(), 100);
    // The control: emptied at home they make no trip.
    let near = blocks(&[1, 3]);
    assert_eq!(near.blocks_returned, 0, "{near:?}");
}

/// As many as a ring has room for: what spills into a lane leaves its cell at home.
const HELPED: usize = 3_200;

/// Tasks that worker 0 submits to itself. It runs them alone, or it waits until the others have.
fn cells(alone: bool) -> Metrics {
    let (scheduler, done) = (two_nodes(), Arc::new(AtomicUsize::new(0)));
    let gate = Gate::keep(&scheduler, if alone { &[1, 2, 3] } else { &[] });
    loop {
        let (sum, (right, is_right)) = (done.clone(), channel());
        let submit = move || {
            right.send(Handle::worker_index() == Some(0)).unwrap();
            if Handle::worker_index() != Some(0) {
                return;
            }
            (0..HELPED).for_each(|_| Handle::current().submit(counting(&sum)).unwrap());
            if !alone {
                await_all(&sum, HELPED);
            }
        };
        scheduler.submit_on(Place::Worker(0), submit).unwrap();
        if is_right.recv_timeout(LONG).unwrap() {
            break;
        }
    }
    await_all(&done, HELPED);
    drop(gate);
    // They go home before a long sleep, a moment after everybody is idle.
    let began = Instant::now();
    while !alone && scheduler.metrics().cells_returned < HELPED as u64 && began.elapsed() < LONG {
        assert!(scheduler.wait_idle(LONG));
        std::thread::sleep(Duration::from_millis(1));
    }
    scheduler.metrics()
}

#[test]
fn cells_of_a_helped_worker_come_home() {
    let helped = cells(false);
    let per_trip = helped.cells_returned as f64 / helped.cell_trips as f64;
    println!("M7, workers: {} of {HELPED} cells in {} trips", helped.cells_returned, helped.cell_trips);
    assert_eq!(helped.cells_returned, HELPED as u64, "{helped:?}");
    assert!(per_trip >= 8.0, "{helped:?}");
    // The control: what nobody takes makes no trip.
    let alone = cells(true);
    assert_eq!(alone.cells_returned, 0, "{alone:?}");
}
