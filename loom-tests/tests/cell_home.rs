//! The way of a cell to its home: see `scheduler/src/task/cell/README.md`.
//!
//! Loom does not see the cells' memory, so every cell has a `Racy` value beside it that each holder touches: a cell
//! that reaches its next holder without the last one's accesses ordered before is a race. Memory comes from a source
//! that knows who holds what: a cell that is out twice, and memory freed under a cell, end the model at once.
#![cfg(loom)]
#![expect(unsafe_code, reason = "gives back cells, and is their source of memory")]

use loom::thread;
use loom_tests::model;
use scheduler::internals::sync::{Arc, Racy};
use scheduler::internals::task::cell::{Blank, Cache, Depot, Source};
use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::rc::Rc;

/// What the model knows. Loom's threads are coroutines of one system thread, so a thread-local is the truth of the
/// whole model, in the order of the interleaving, and is no event of it.
#[derive(Default)]
struct World {
    /// Live and freed memory; nothing is reused within one interleaving, so that an address is one thing.
    memory: Vec<(usize, Layout, bool)>,
    cells: HashMap<usize, Known>,
}

struct Known {
    token: Rc<Racy<u32>>,
    out: bool,
}

thread_local!(static WORLD: RefCell<World> = RefCell::default());

fn world<R>(look: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(look)
}

fn provide(layout: Layout) -> *mut u8 {
    // SAFETY: never of size zero.
    let memory = unsafe { alloc(layout) };
    world(|world| world.memory.push((memory.expose_provenance(), layout, true)));
    memory
}

/// # Safety
/// From `provide`; freed for good when the next interleaving begins.
unsafe fn release(memory: *mut u8, _: Layout) {
    let tokens: Vec<_> = world(|world| {
        let homes = world.memory.iter().filter(|entry| entry.1.size() < SLAB).count();
        let entry = world.memory.iter_mut().find(|entry| entry.0 == memory.addr()).unwrap();
        assert!(std::mem::take(&mut entry.2), "freed twice");
        let home = homes == 1 && entry.1.size() < SLAB;
        let range = memory.addr()..memory.addr() + entry.1.size();
        let lost = |(cell, known): (&usize, &Known)| known.out && (home || range.contains(cell));
        assert!(!world.cells.iter().any(lost), "memory freed under a cell");
        let inside = world.cells.iter().filter(|(cell, _)| range.contains(cell));
        inside.map(|(_, known)| known.token.clone()).collect()
    });
    // Freeing is a use as well: it comes after the last holder's.
    tokens.iter().for_each(use_token);
}

fn use_token(token: &Rc<Racy<u32>>) {
    // SAFETY: only who holds the cell gets here; loom checks it.
    token.with(|token| unsafe { *token += 1 });
}

/// Slabs of two cells: the smallest with a first, a last and a partly filled state.
const PER_SLAB: usize = 2;
const SLAB: usize = 256;
type Store = Depot<64, PER_SLAB>;
type Local<'d> = Cache<'d, 64, PER_SLAB>;

/// A cell that is out.
struct Out(NonNull<Blank>);
// SAFETY: whoever has the value holds the cell.
unsafe impl Send for Out {}

/// A new world and its depot.
fn begin() -> Arc<Store> {
    let old = world(std::mem::take);
    for (memory, layout, _) in old.memory {
        // SAFETY: allocated in `provide`; its interleaving is over.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(memory), layout) };
    }
    // SAFETY: the global allocator, which frees late.
    Arc::new(Depot::with_source(unsafe { Source::new(provide, release) }))
}

/// All cells were put and all caches are gone: so is all memory.
fn end(depot: &Store) {
    depot.sweep();
    assert_eq!(depot.abandoned(), 0, "a cell is lost");
    world(|world| assert!(world.memory.iter().all(|entry| !entry.2), "memory is lost"));
}

fn touch(cell: &Out) {
    use_token(&world(|world| world.cells[&cell.0.addr().get()].token.clone()));
}

fn take(cache: &Local) -> Out {
    let cell = Out(cache.take());
    let fresh = || Known { token: Rc::new(Racy::new(0)), out: false };
    let known = world(|world| {
        let known = world.cells.entry(cell.0.addr().get()).or_insert_with(fresh);
        !std::mem::replace(&mut known.out, true)
    });
    assert!(known, "a cell is out twice");
    touch(&cell);
    cell
}

fn put(cache: &Local, cell: Out) {
    touch(&cell);
    world(|world| world.cells.get_mut(&cell.0.addr().get()).unwrap().out = false);
    // SAFETY: out, used by nobody else, and never more than a dozen.
    unsafe { cache.put(cell.0) };
}

/// A thread that gives `cells` back one by one and ends.
fn giver(depot: &Arc<Store>, cells: impl IntoIterator<Item = Out> + 'static) -> thread::JoinHandle<()> {
    let depot = depot.clone();
    thread::spawn(move || {
        let cache = Cache::new(&depot);
        for cell in cells {
            put(&cache, cell);
            cache.settle();
        }
    })
}

/// A thread that takes some cells, puts them and ends.
fn taker(depot: &Arc<Store>, cells: usize) -> thread::JoinHandle<()> {
    let depot = depot.clone();
    thread::spawn(move || turn(&Cache::new(&depot), cells))
}

fn turn(cache: &Local, cells: usize) {
    let held: Vec<_> = (0..cells).map(|_| take(cache)).collect();
    held.into_iter().for_each(|cell| put(cache, cell));
}

/// A home whose owner has ended while two cells are out.
fn leave_two(depot: &Store) -> [Out; 2] {
    let cache = Cache::new(depot);
    [take(&cache), take(&cache)]
}

/// Two threads push, the owner collects: whatever comes back is one cell, once, after its last use.
#[test]
fn refill_while_two_return() {
    model("cell_home::refill_while_two_return", Some(3), 200, || {
        let depot = begin();
        let owner = Cache::new(&depot);
        let threads = [take(&owner), take(&owner)].map(|cell| giver(&depot, [cell]));
        turn(&owner, 3);
        for thread in threads {
            thread.join().unwrap();
        }
        turn(&owner, 3);
        drop(owner);
        end(&depot);
    });
}

/// Six slabs, one more than are kept with the one that has a cell out: `settle` frees what is complete and nothing
/// else.
#[test]
fn settle_while_returned() {
    model("cell_home::settle_while_returned", Some(6), 10, || {
        let depot = begin();
        let owner = Cache::new(&depot);
        let mut cells: Vec<_> = (0..12).map(|_| take(&owner)).collect();
        let thread = giver(&depot, cells.pop());
        cells.into_iter().for_each(|cell| put(&owner, cell));
        owner.settle();
        turn(&owner, 1);
        thread.join().unwrap();
        owner.settle();
        let slabs = world(|world| world.memory.iter().filter(|entry| entry.2 && entry.1.size() == SLAB).count());
        assert!(slabs <= 4, "{slabs} slabs kept");
        drop(owner);
        end(&depot);
    });
}

/// The owner ends while its cells come home: it sees them and frees everything, or leaves the home to the depot.
#[test]
fn exit_while_returned() {
    model("cell_home::exit_while_returned", Some(3), 50, || {
        let depot = begin();
        let owner = Cache::new(&depot);
        let threads = [take(&owner), take(&owner)].map(|cell| giver(&depot, [cell]));
        drop(owner);
        for thread in threads {
            thread.join().unwrap();
        }
        end(&depot);
    });
}

/// A new owner begins while cells come home.
#[test]
fn adoption_while_returned() {
    model("cell_home::adoption_while_returned", Some(3), 50, || {
        let depot = begin();
        let thread = giver(&depot, leave_two(&depot));
        turn(&Cache::new(&depot), 3);
        thread.join().unwrap();
        end(&depot);
    });
}

/// Two threads want the one home, which is swept, too: one gets it or none.
#[test]
fn two_adopt_while_swept() {
    model("cell_home::two_adopt_while_swept", Some(2), 100, || {
        let depot = begin();
        let cells = leave_two(&depot);
        let threads = [taker(&depot, 1), taker(&depot, 2)];
        depot.with_temporary(|cache| cells.into_iter().for_each(|cell| put(cache, cell)));
        depot.sweep();
        for thread in threads {
            thread.join().unwrap();
        }
        end(&depot);
    });
}

/// A foreign cell may be used again where it is, before it goes home.
#[test]
fn foreign_cells_are_used_on_their_way() {
    model("cell_home::foreign_cells_are_used_on_their_way", Some(6), 5, || {
        let depot = begin();
        let owner = Cache::new(&depot);
        let cell = take(&owner);
        let store = depot.clone();
        let thread = thread::spawn(move || {
            let cache = Cache::new(&store);
            put(&cache, cell);
            turn(&cache, 2);
        });
        turn(&owner, 3);
        thread.join().unwrap();
        drop(owner);
        end(&depot);
    });
}

#[test]
fn teeth() {
    loom_tests::teeth(&[
        ("refill_while_two_return", "CH1"),
        ("adoption_while_returned", "CH1"),
        ("exit_while_returned", "CH1"),
        ("settle_while_returned", "CH1"),
        ("two_adopt_while_swept", "CH1"),
        ("refill_while_two_return", "CH2"),
        ("exit_while_returned", "CH2"),
        ("settle_while_returned", "CH2"),
        ("two_adopt_while_swept", "CH2"),
        ("adoption_while_returned", "CH2"),
        ("refill_while_two_return", "cell-give-by-store"),
        ("refill_while_two_return", "cell-collect-by-store"),
        ("settle_while_returned", "cell-slab-early"),
        ("exit_while_returned", "cell-slab-early"),
        ("exit_while_returned", "cell-home-early"),
        ("foreign_cells_are_used_on_their_way", "cell-exit-keeps-foreign"),
    ]);
}
