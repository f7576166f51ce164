//! The cell cache: no cell is out twice, none is lost, and memory follows the number of cells that are out.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "uses the memory of cells")]

use proptest::prelude::*;
use scheduler::internals::task::cell::{Blank, Cache, Depot, Source};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// What the product uses: 64 KiB slabs.
const REAL: usize = 1023;
const SLAB: usize = 65536;

/// Bytes provided and not released, and the most there were, per test.
static NOW: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];
static PEAK: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

/// Zeroed memory, counted under `TEST`.
fn counted<const TEST: usize>() -> Source {
    fn provide<const TEST: usize>(layout: Layout) -> *mut u8 {
        let now = NOW[TEST].fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK[TEST].fetch_max(now, Relaxed);
        // SAFETY: no slab or home has size zero.
        unsafe { alloc_zeroed(layout) }
    }
    /// # Safety
    /// From `provide`.
    unsafe fn release<const TEST: usize>(memory: *mut u8, layout: Layout) {
        NOW[TEST].fetch_sub(layout.size(), Relaxed);
        // SAFETY: from `provide` with this layout.
        unsafe { dealloc(memory, layout) }
    }
    // SAFETY: the global allocator under another name.
    unsafe { Source::new(provide::<TEST>, release::<TEST>) }
}

/// A cell that is out. Its second word says so; memory that was never used says no.
struct Out(NonNull<Blank>);
// SAFETY: a cell is used by whoever has the value.
unsafe impl Send for Out {}

impl Out {
    fn word(&self, number: usize) -> &AtomicU64 {
        // SAFETY: a cell has eight words.
        let word = unsafe { self.0.cast::<AtomicU64>().add(number) };
        // SAFETY: initialised (zeroed, or written as an atomic before), and the cell is out.
        unsafe { word.as_ref() }
    }
}

fn take<const P: usize>(cache: &Cache<'_, 64, P>) -> Out {
    let out = Out(cache.take());
    assert!(out.0.addr().get().is_multiple_of(64));
    assert_eq!(out.word(1).swap(1, Relaxed), 0, "a cell is out twice");
    out.word(7).store(out.0.addr().get() as u64, Relaxed);
    out
}

fn put<const P: usize>(cache: &Cache<'_, 64, P>, out: Out) {
    assert_eq!(out.word(7).load(Relaxed), out.0.addr().get() as u64, "somebody wrote to a cell that is out");
    assert_eq!(out.word(1).swap(0, Relaxed), 1, "a cell comes back twice");
    // SAFETY: out, and moved in here; the tests trim.
    unsafe { cache.put(out.0) }
}

fn put_all<const P: usize>(cache: &Cache<'_, 64, P>, cells: impl IntoIterator<Item = Out>) {
    for cell in cells {
        put(cache, cell);
        cache.trim();
    }
}

/// All cells were put and all caches are gone: so is all memory.
fn nothing_left<const P: usize, const TEST: usize>(depot: &Depot<64, P>) {
    depot.sweep();
    let left = (depot.abandoned(), NOW[TEST].load(Relaxed));
    assert_eq!(left, (0, 0), "homes and bytes left");
}

/// Tests that look at the memory of the process, or make much of it, run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the test `name` in a process of its own and returns how that went; None if this is that process.
fn elsewhere(name: &str) -> Option<std::process::Output> {
    if std::env::var_os("CELL_TEST_ALONE").is_some() {
        return None;
    }
    let mut run = std::process::Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", name, "--nocapture"]).env("CELL_TEST_ALONE", "1");
    Some(run.output().unwrap())
}

/// Resident bytes of the process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[derive(Clone, Debug)]
enum Step {
    Take(usize, usize),
    Put(usize, usize),
    Reserve(usize, usize),
    Settle(usize),
    Exit(usize),
    Temporary(usize),
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..3usize;
    prop_oneof![
        8 => (who.clone(), 1..200usize).prop_map(|(who, n)| Step::Take(who, n)),
        8 => (who.clone(), 1..200usize).prop_map(|(who, n)| Step::Put(who, n)),
        2 => (who.clone(), 1..65usize).prop_map(|(who, n)| Step::Reserve(who, n)),
        2 => who.clone().prop_map(Step::Settle),
        1 => who.prop_map(Step::Exit),
        1 => (1..40usize).prop_map(Step::Temporary),
        1 => Just(Step::Sweep),
    ]
}

/// Three caches on one thread, any sequence of calls: whatever is taken is not out, and at the end all memory is back.
fn sequence<const P: usize, const TEST: usize>(steps: &[Step]) {
    NOW[TEST].store(0, Relaxed);
    let depot = Depot::<64, P>::with_source(counted::<TEST>());
    let mut caches = [const { None::<Cache<'_, 64, P>> }; 3].map(|_| Cache::new(&depot));
    let mut out = VecDeque::new();
    for step in steps {
        match *step {
            Step::Take(who, n) => out.extend((0..n).map(|_| take(&caches[who]))),
            Step::Put(who, n) => {
                for i in 0..n.min(out.len()) {
                    put(&caches[who], out.pop_front().unwrap());
                    if i % 64 == 63 {
                        caches[who].trim();
                    }
                }
                caches[who].trim();
            }
            Step::Reserve(who, n) => {
                caches[who].reserve(n);
                assert!(caches[who].ready() >= n);
            }
            Step::Settle(who) => caches[who].settle(),
            Step::Exit(who) => caches[who] = Cache::new(&depot),
            Step::Temporary(n) => depot.with_temporary(|cache| {
                out.push_back(take(cache));
                (0..n.min(out.len())).for_each(|_| put(cache, out.pop_back().unwrap()));
            }),
            Step::Sweep => depot.sweep(),
        }
        assert!(NOW[TEST].load(Relaxed) >= out.len() * 64);
    }
    put_all(&caches[0], out);
    drop(caches);
    nothing_left::<_, TEST>(&depot);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 64 } else { 400 }))]

    #[test]
    fn any_sequence_of_calls_conserves_small_slabs(steps in proptest::collection::vec(step(), 1..80)) {
        sequence::<5, 0>(&steps);
    }

    #[test]
    fn any_sequence_of_calls_conserves_slabs_of_one(steps in proptest::collection::vec(step(), 1..80)) {
        sequence::<1, 1>(&steps);
    }

    #[test]
    fn any_sequence_of_calls_conserves_real_slabs(steps in proptest::collection::vec(step(), 1..80)) {
        sequence::<REAL, 2>(&steps);
    }
}

#[test]
fn reserve_makes_the_next_takes_certain() {
    let depot = Depot::<64, 7>::with_source(counted::<3>());
    let cache = Cache::new(&depot);
    let mut out = Vec::new();
    for cells in [1, 64, 3, 64, 64] {
        cache.reserve(cells);
        let before = NOW[3].load(Relaxed);
        out.extend((0..cells).map(|_| take(&cache)));
        assert_eq!(NOW[3].load(Relaxed), before, "a reserved take asked for memory");
    }
    put_all(&cache, out);
}

#[test]
#[should_panic(expected = "at most 64")]
fn reserve_is_bounded() {
    let depot = Depot::<64, 7>::new();
    Cache::new(&depot).reserve(65);
}

/// The pipeline of a scheduler: some threads take, others put. Exact count, bounded memory, nothing left.
#[test]
fn producers_and_consumers_conserve_cells() {
    let _alone = alone();
    const PAIRS: usize = 3;
    let rounds = if cfg!(debug_assertions) { 300 } else { 3000 };
    let depot = Depot::<64, REAL>::with_source(counted::<4>());
    let (taken, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..PAIRS {
            let (send, receive) = mpsc::sync_channel::<Vec<Out>>(4);
            let (depot, taken, back) = (&depot, &taken, &back);
            scope.spawn(move || {
                let cache = Cache::new(depot);
                for round in 0..rounds {
                    cache.reserve(64);
                    let cells: Vec<_> = (0..64).map(|_| take(&cache)).collect();
                    taken.fetch_add(cells.len(), Relaxed);
                    send.send(cells).unwrap();
                    if round % 100 == 0 {
                        cache.settle();
                    }
                }
            });
            scope.spawn(move || {
                let cache = Cache::new(depot);
                for cells in receive {
                    back.fetch_add(cells.len(), Relaxed);
                    cells.into_iter().for_each(|cell| put(&cache, cell));
                    cache.trim();
                }
            });
        }
    });
    assert_eq!(taken.load(Relaxed), PAIRS * rounds * 64);
    assert_eq!(back.load(Relaxed), PAIRS * rounds * 64);
    let peak = PEAK[4].load(Relaxed);
    assert!(peak <= PAIRS * (2 * SLAB + 128), "{peak} bytes for {PAIRS} times 600 cells in flight");
    nothing_left::<_, 4>(&depot);
}

/// Every thread takes, puts what others took, settles, exits and starts again.
#[test]
fn everybody_swaps_cells_with_everybody() {
    let _alone = alone();
    let lives = if cfg!(debug_assertions) { 40 } else { 400 };
    let depot = Depot::<64, 9>::with_source(counted::<5>());
    let market = [const { AtomicPtr::<Vec<Out>>::new(std::ptr::null_mut()) }; 4];
    let fetch = |stall: &AtomicPtr<Vec<Out>>, new| {
        let old = stall.swap(new, AcqRel);
        // SAFETY: null or from `Box::into_raw` below, and swapped out once.
        (!old.is_null()).then(|| *unsafe { Box::from_raw(old) }).into_iter().flatten()
    };
    thread::scope(|scope| {
        for thread in 0..4usize {
            let (depot, market, fetch) = (&depot, &market, &fetch);
            scope.spawn(move || {
                for life in 0..lives {
                    let cache = Cache::new(depot);
                    for turn in 0..20usize {
                        let cells: Vec<_> = (0..(thread + turn) * 7 % 50).map(|_| take(&cache)).collect();
                        let stall = &market[(thread + turn) % 4];
                        let others = fetch(stall, Box::into_raw(Box::new(cells)));
                        others.for_each(|cell| put(&cache, cell));
                        if (life + turn) % 5 == 0 { cache.settle() } else { cache.trim() }
                    }
                }
            });
        }
    });
    depot.with_temporary(|cache| {
        put_all(cache, market.iter().flat_map(|stall| fetch(stall, std::ptr::null_mut())));
    });
    nothing_left::<_, 5>(&depot);
}

/// A million cells out and back, three times: at most one per cent of the peak stays after `settle`.
fn burst<const TEST: usize>(give_back: impl Fn(&Depot<64, REAL>, &Cache<'_, 64, REAL>, Vec<Out>)) {
    let _alone = alone();
    let depot = Depot::<64, REAL>::with_source(counted::<TEST>());
    let cache = Cache::new(&depot);
    let kept: Vec<_> = (0..10).map(|_| take(&cache)).collect();
    for round in 0..3 {
        give_back(&depot, &cache, (0..1_000_000).map(|_| take(&cache)).collect());
        cache.settle();
        let (peak, now) = (PEAK[TEST].load(Relaxed), NOW[TEST].load(Relaxed));
        assert!(peak >= 64_000_000 && now <= peak / 100, "round {round}: {now} of {peak} stay");
    }
    kept.into_iter().for_each(|cell| put(&cache, cell));
    drop(cache);
    assert_eq!(NOW[TEST].load(Relaxed), 0);
}

#[test]
fn a_burst_that_the_owner_ends_leaves_one_per_cent() {
    burst::<6>(|_, cache, cells| {
        put_all(cache, cells);
        let (peak, now) = (PEAK[6].load(Relaxed), NOW[6].load(Relaxed));
        assert!(now <= peak / 100 * 6, "busy: {now} of {peak} stay");
    });
}

#[test]
fn a_burst_that_another_thread_ends_leaves_one_per_cent() {
    burst::<7>(|depot, _, cells| {
        thread::scope(|scope| {
            scope.spawn(move || {
                let cache = Cache::new(depot);
                put_all(&cache, cells);
            });
        });
    });
}

/// The same with the memory of the system, measured as the system sees it, while other mappings are in the way of
/// aligned ones.
#[test]
fn a_burst_gives_its_pages_back_to_the_system() {
    if ["TSAN_OPTIONS", "ASAN_OPTIONS"].iter().any(|name| std::env::var_os(name).is_some()) {
        return; // The shadow memory of a sanitizer is resident, too.
    }
    if let Some(run) = elsewhere("a_burst_gives_its_pages_back_to_the_system") {
        let text = String::from_utf8_lossy(&run.stderr);
        return assert!(run.status.success(), "{text}");
    }
    let depot = Depot::<64, REAL>::new();
    let cache = Cache::new(&depot);
    let mut cells = vec![1; 1_000_000];
    let before = resident();
    let mut obstacles = Vec::new();
    for (i, place) in cells.iter_mut().enumerate() {
        if i % 10_000 == 0 {
            obstacles.push(odd_mapping());
        }
        let cell = cache.take();
        // SAFETY: ours, and a word fits.
        unsafe { cell.cast::<usize>().write(i) };
        *place = cell.as_ptr().expose_provenance();
    }
    let peak = resident() - before;
    assert!((64_000_000..=66_000_000).contains(&peak), "{peak} bytes for 64,000,000 in use");
    for &cell in &cells {
        let cell = NonNull::new(std::ptr::with_exposed_provenance_mut::<Blank>(cell));
        // SAFETY: taken above, put once, trimmed.
        unsafe { cache.put(cell.unwrap()) };
        cache.trim();
    }
    cells.sort_unstable();
    assert!(cells.windows(2).all(|pair| pair[1] - pair[0] >= 64), "cells overlap");
    cache.settle();
    let after = resident().saturating_sub(before);
    assert!(after <= 1_280_000, "{after} bytes stay (2 % of the peak, test harness and all)");
    for page in obstacles {
        // SAFETY: mapped below.
        unsafe { libc::munmap(page, 4096) };
    }
}

/// One page, so that the mapping that comes next does not lie on a slab boundary.
fn odd_mapping() -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page
}

/// Cells outlive the thread that made them; the next thread gets its home, and the last cell frees everything.
#[test]
fn a_home_waits_for_its_cells() {
    let depot = Depot::<64, 5>::with_source(counted::<8>());
    let leave = |cells: usize| {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let cache = Cache::new(&depot);
                let mut all: Vec<_> = (0..20).map(|_| take(&cache)).collect();
                let out = all.split_off(20 - cells);
                all.into_iter().for_each(|cell| put(&cache, cell));
                out
            });
            thread.join().unwrap()
        })
    };
    let first = leave(3);
    assert_eq!(depot.abandoned(), 1);
    let second = leave(2);
    assert_eq!(depot.abandoned(), 1, "the second thread did not adopt the home of the first");
    depot.sweep();
    assert_eq!(depot.abandoned(), 1, "swept away under its cells");
    assert!(leave(0).is_empty());
    depot.with_temporary(|cache| first.into_iter().for_each(|cell| put(cache, cell)));
    depot.sweep();
    assert_eq!(depot.abandoned(), 1);
    depot.with_temporary(|cache| second.into_iter().for_each(|cell| put(cache, cell)));
    nothing_left::<_, 8>(&depot);
}

/// Threads that ended together leave many homes; without new threads `sweep` frees them, with new ones exits do.
#[test]
fn abandoned_homes_are_freed_by_and_by() {
    let depot = Depot::<64, 5>::with_source(counted::<9>());
    let crowd = |threads: usize| -> Vec<Out> {
        let caches: Vec<_> = (0..threads).map(|_| Cache::new(&depot)).collect();
        caches.iter().map(take).collect()
    };
    let out = crowd(100);
    assert_eq!(depot.abandoned(), 100);
    depot.with_temporary(|cache| put_all(cache, out));
    assert_eq!(depot.abandoned(), 100, "a thread that only frees has no business here");
    for _ in 0..40 {
        depot.with_temporary(|cache| put(cache, take(cache)));
    }
    assert!(depot.abandoned() <= 20, "{} homes left", depot.abandoned());
    nothing_left::<_, 9>(&depot);
}

/// 10,000 threads, each leaves eight cells that end only 50 threads later.
#[test]
fn ten_thousand_short_threads_use_bounded_memory() {
    let _alone = alone();
    let threads = if cfg!(debug_assertions) { 1000 } else { 10_000 };
    let depot = Depot::<64, REAL>::with_source(counted::<10>());
    let mut flight = VecDeque::new();
    for _ in 0..threads {
        let old: Vec<Out> = if flight.len() == 400 { flight.drain(..8).collect() } else { Vec::new() };
        thread::scope(|scope| {
            let new = scope.spawn(|| {
                let cache = Cache::new(&depot);
                old.into_iter().for_each(|cell| put(&cache, cell));
                (0..8).map(|_| take(&cache)).collect::<Vec<_>>()
            });
            flight.extend(new.join().unwrap());
        });
    }
    let peak = PEAK[10].load(Relaxed);
    assert!(peak <= 8 * SLAB, "{peak} bytes for 400 cells");
    depot.with_temporary(|cache| put_all(cache, flight));
    nothing_left::<_, 10>(&depot);
}

/// A depot that is dropped while a cell is out leaves that cell alone, and frees what it can.
#[test]
fn a_dropped_depot_spares_cells_that_are_out() {
    let depot = Depot::<64, 1>::with_source(counted::<11>());
    let out = depot.with_temporary(|cache| {
        cache.reserve(10);
        take(cache)
    });
    let home = NOW[11].load(Relaxed);
    drop(depot);
    assert_eq!(NOW[11].load(Relaxed), home);
    assert!(home >= 128 && out.word(1).load(Relaxed) == 1);
    // Leak checkers shall find it.
    static KEPT: Mutex<Option<Out>> = Mutex::new(None);
    *KEPT.lock().unwrap() = Some(out);
}

/// From the destructor of a thread-local, when the thread's own cache may be gone.
#[test]
fn cells_come_home_from_thread_local_destructors() {
    static DEPOT: std::sync::OnceLock<Depot<64, 5>> = std::sync::OnceLock::new();
    struct Late(Option<Out>);
    impl Drop for Late {
        fn drop(&mut self) {
            let depot = DEPOT.get().unwrap();
            depot.with_temporary(|cache| put(cache, self.0.take().unwrap()));
        }
    }
    thread_local!(static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) });
    let depot = DEPOT.get_or_init(|| Depot::with_source(counted::<12>()));
    let thread = thread::spawn(|| {
        let cache = Cache::new(depot);
        LATE.set(Some(Late(Some(take(&cache)))));
    });
    thread.join().unwrap();
    nothing_left::<_, 12>(depot);
}

/// Out of memory ends the process through `handle_alloc_error`, not in a null pointer.
#[test]
fn no_memory_is_reported_as_such() {
    let Some(run) = elsewhere("no_memory_is_reported_as_such") else {
        // SAFETY: never provides anything.
        let source = unsafe { Source::new(|_| std::ptr::null_mut(), |_, _| ()) };
        Depot::<64, 5>::with_source(source).with_temporary(|cache| cache.take());
        return;
    };
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && text.contains("memory allocation of"), "{text}");
}
