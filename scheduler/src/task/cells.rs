//! The memory of tasks: one cache per size class and thread, and a way to it from any thread at any time.
//!
//! A worker keeps its [`Cells`] on its stack, any other thread gets some at first use; a thread whose locals are gone
//! already borrows some for the one call. What is larger than the largest class comes from the allocator.
#![expect(unsafe_code, reason = "typed use of raw cells, and the thread's current cells")]

use super::cell::{Blank, Cache, Depot, Lock};
use super::raw::RawTask;
use std::alloc::Layout;
use std::cell::{Cell, OnceCell, UnsafeCell};
use std::ptr::{NonNull, null};
use std::sync::OnceLock;

/// Cells per slab of 64 KiB: the header takes the first line.
const SMALL: usize = 1023;
const MEDIUM: usize = 255;
const LARGE: usize = 63;

/// Where the cells of all threads come from, and where those of ended threads wait.
#[derive(Default)]
pub struct Depots {
    small: Depot<64, SMALL>,
    medium: Depot<256, MEDIUM>,
    large: Depot<1024, LARGE>,
}

fn depots() -> &'static Depots {
    static DEPOTS: OnceLock<Depots> = OnceLock::new();
    DEPOTS.get_or_init(Depots::default)
}

/// The locks of the depots.
type Locks = (Lock<'static, 64, SMALL>, Lock<'static, 256, MEDIUM>, Lock<'static, 1024, LARGE>);

/// The locks of the depots while a thread forks.
struct Held(UnsafeCell<Option<Locks>>);

// SAFETY: written by whoever has taken the locks, and read by the same thread before it gives them back.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Before a fork: no other thread is inside of a depot when the child comes into being, where it would be for ever.
pub extern "C" fn lock() {
    let depots = depots();
    let locks = (depots.small.lock(), depots.medium.lock(), depots.large.lock());
    // SAFETY: this thread has the locks, and nobody else touches it without.
    unsafe { *HELD.0.get() = Some(locks) };
}

/// After a fork, in both processes, on the thread that forked.
pub extern "C" fn unlock() {
    // SAFETY: this thread has the locks since `lock`; they are dropped after they have left the place.
    let locks = unsafe { (*HELD.0.get()).take() };
    drop(locks);
}

/// One thread's cells.
pub struct Cells {
    small: Cache<'static, 64, SMALL>,
    medium: Cache<'static, 256, MEDIUM>,
    large: Cache<'static, 1024, LARGE>,
}

impl Cells {
    fn new() -> Self {
        Self::of(depots())
    }

    /// Cells of depots other than the process's; for models, whose statics cannot hold what a model checks.
    pub fn of(depots: &'static Depots) -> Self {
        Cells { small: Cache::new(&depots.small), medium: Cache::new(&depots.medium), large: Cache::new(&depots.large) }
    }

    /// An empty task cell.
    #[inline(always)]
    pub fn take(&self) -> *mut RawTask {
        self.small.take().as_ptr().cast()
    }

    /// Gives a task cell back.
    ///
    /// # Safety
    /// `task` came from [`Cells::take`] of any thread, is empty, and nobody uses it any more. Between two calls of
    /// [`Cells::trim`] at most 64 cells are given back.
    #[inline(always)]
    pub unsafe fn put(&self, task: *mut RawTask) {
        // SAFETY: never null.
        let cell = unsafe { NonNull::new_unchecked(task.cast()) };
        // SAFETY: the caller's promise.
        unsafe { self.small.put(cell) };
    }

    /// Makes sure that the next `n` calls of [`Cells::take`] are cheap.
    #[inline(always)]
    pub fn reserve(&self, n: usize) {
        self.small.reserve(n);
    }

    /// The next `n` cells that [`Cells::take`] would return, the next one last. They stay in the cache.
    ///
    /// # Panics
    /// When there are fewer: see [`Cells::reserve`].
    #[inline(always)]
    pub fn peek(&self, n: usize) -> &[Cell<*mut Blank>] {
        self.small.peek(n)
    }

    /// Takes the next `n` task cells at once: those that [`Cells::peek`] has shown.
    #[inline(always)]
    pub fn take_many(&self, n: usize) {
        self.small.take_many(n);
    }

    /// Between tasks: keeps room for what the next ones give back.
    #[inline(always)]
    pub fn trim(&self) {
        self.small.trim();
    }

    /// Before a sleep: foreign cells go home.
    pub fn settle(&self) {
        self.small.settle();
        self.medium.settle();
        self.large.settle();
    }

    /// How many foreign cells this thread has sent home, and in how many trips.
    pub fn sent_home(&self) -> (u64, u64) {
        let all = [self.small.sent_home(), self.medium.sent_home(), self.large.sent_home()];
        all.iter().fold((0, 0), |sum, sent| (sum.0 + sent.0, sum.1 + sent.1))
    }

    /// Memory for a value of `layout`: a cell of the smallest class that fits, else from the allocator. In place,
    /// because callers know the layout, and with it the class.
    #[inline(always)]
    pub fn allocate(&self, layout: Layout) -> NonNull<u8> {
        match class(layout) {
            Class::Small => self.small.take().cast(),
            Class::Medium => self.medium.take().cast(),
            Class::Large => self.large.take().cast(),
            Class::Huge => {
                // SAFETY: the layout is larger than any class, so not empty.
                let memory = unsafe { std::alloc::alloc(layout) };
                NonNull::new(memory).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
            }
        }
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// `memory` came from [`Cells::allocate`] of any thread with this layout, and nobody uses it any more.
    #[inline(always)]
    pub unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
        match class(layout) {
            Class::Small => {
                // SAFETY: the caller's promise; trimmed right below.
                unsafe { self.small.put(memory.cast()) };
                self.small.trim();
            }
            Class::Medium => {
                // SAFETY: as above.
                unsafe { self.medium.put(memory.cast()) };
                self.medium.trim();
            }
            Class::Large => {
                // SAFETY: as above.
                unsafe { self.large.put(memory.cast()) };
                self.large.trim();
            }
            // SAFETY: allocated by `allocate` in the same class.
            Class::Huge => unsafe { std::alloc::dealloc(memory.as_ptr(), layout) },
        }
    }

    /// Moves `value` into memory of its own.
    pub fn store<T>(&self, value: T) -> *mut T {
        let layout = Layout::new::<T>();
        if layout.size() == 0 {
            // A closure that captures nothing fits in place; this is for over-aligned empty types.
            let _moved = std::mem::ManuallyDrop::new(value);
            return NonNull::dangling().as_ptr();
        }
        let memory = self.allocate(layout).cast::<T>();
        // SAFETY: fresh memory of the right layout.
        unsafe { memory.write(value) };
        memory.as_ptr()
    }

    /// Moves a stored value out and gives its memory back.
    ///
    /// # Safety
    /// `at` came from [`Cells::store`] of any thread, and is not used again.
    pub unsafe fn load<T>(&self, at: *mut T) -> T {
        // SAFETY: stored, and read once.
        let value = unsafe { at.read() };
        let layout = Layout::new::<T>();
        if layout.size() != 0 {
            // SAFETY: never null.
            let memory = unsafe { NonNull::new_unchecked(at.cast()) };
            // SAFETY: from `store` with this layout.
            unsafe { self.release(memory, layout) };
        }
        value
    }
}

enum Class {
    Small,
    Medium,
    Large,
    Huge,
}

/// The class of a layout: cells are aligned to 64 bytes.
const fn class(layout: Layout) -> Class {
    match (layout.size(), layout.align() <= 64) {
        (0..=64, true) => Class::Small,
        (65..=256, true) => Class::Medium,
        (257..=1024, true) => Class::Large,
        _ => Class::Huge,
    }
}

thread_local! {
    static CURRENT: Cell<*const Cells> = const { Cell::new(null()) };
    static OWN: OnceCell<Exit> = const { OnceCell::new() };
}

/// A foreign thread's cells; no longer the current ones once the thread's locals are gone.
struct Exit(Box<Cells>);

impl Drop for Exit {
    fn drop(&mut self) {
        CURRENT.set(null());
    }
}

/// Calls `f` with the calling thread's cells.
#[inline]
pub fn with_cells<R>(f: impl FnOnce(&Cells) -> R) -> R {
    // SAFETY: set only while the cells live on this thread, by `enter` and `with_own`.
    match unsafe { CURRENT.get().as_ref() } {
        Some(cells) => f(cells),
        None => with_own(f),
    }
}

#[cold]
fn with_own<R>(f: impl FnOnce(&Cells) -> R) -> R {
    let made = OWN.try_with(|own| {
        let exit = own.get_or_init(|| Exit(Box::new(Cells::new())));
        CURRENT.set(&raw const *exit.0);
    });
    match made {
        // SAFETY: boxed, and dropped only together with CURRENT's reset.
        Ok(()) => f(unsafe { &*CURRENT.get() }),
        Err(_) => f(&Cells::new()),
    }
}

/// Gives a worker's thread its cells for the time of `f`.
pub fn enter(f: impl FnOnce(&Cells)) {
    let cells = Cells::new();
    let before = CURRENT.replace(&raw const cells);
    f(&cells);
    CURRENT.set(before);
}

/// Lends a worker's cells to a thread that stands in for it, for the time of `f`.
///
/// The lender waits meanwhile, and keeps the cells.
pub fn lend(cells: *const Cells, f: impl FnOnce()) {
    let before = CURRENT.replace(cells);
    f();
    CURRENT.set(before);
}

/// Frees what cells of ended threads have come home since; after a scheduler has ended.
pub fn sweep() {
    let depots = depots();
    depots.small.sweep();
    depots.medium.sweep();
    depots.large.sweep();
}
