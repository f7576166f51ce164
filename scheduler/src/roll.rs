//! Who is pending: the futures that one worker has polled and that nobody has finished yet, so that its end finds
//! them. No lock and no shared counter: a place per entry, written by the worker and struck out by anybody.
//!
//! | what | who |
//! |---|---|
//! | places, the list of free ones | the owner: a worker, or who stands in for it |
//! | the word of a place | the owner enters and drains; whoever ends an entry strikes it, once |
//!
//! Both strike and drain exchange the word by null: one of the two gets the entry, and with it whatever the entry
//! stands for (a reference). Whoever gets nothing touches it no more. All of it is Relaxed: what an entry points to is
//! ordered by its own protocol, and a place is only ever looked up by who was given it.
#![expect(unsafe_code, reason = "one thread owns a roll: a promise the compiler cannot check")]

use crate::config::ROLL;
use crate::sync::{AtomicPtr, Racy, Relaxed, planted};
use std::ptr::{NonNull, null_mut};

/// One entry's place. It stays where it is until the roll goes.
pub struct Place<T>(AtomicPtr<T>);

impl<T> Place<T> {
    /// Takes the entry out. False: the drain was faster.
    #[inline]
    pub fn strike(&self) -> bool {
        if planted("roll-strike-by-store") {
            self.0.store(null_mut(), Relaxed);
            return true;
        }
        // Relaxed: see the module.
        !self.0.swap(null_mut(), Relaxed).is_null()
    }
}

/// What only the owner uses.
struct Own<T> {
    chunks: Vec<Box<[Place<T>]>>,
    places: usize,
    free: Vec<*const Place<T>>,
}

/// The entries of one worker.
pub struct Roll<T>(Racy<Own<T>>);

// SAFETY: `Own` is reached through the owner's methods only; places are atomics.
unsafe impl<T> Sync for Roll<T> {}
// SAFETY: as above; a roll does not own what it points to.
unsafe impl<T> Send for Roll<T> {}

impl<T> Default for Roll<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Roll<T> {
    /// Empty, and without memory.
    pub fn new() -> Self {
        Roll(Racy::new(Own { chunks: Vec::new(), places: 0, free: Vec::new() }))
    }

    /// Adds an entry; its place is where it is struck out.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn enter(&self, entry: NonNull<T>) -> *const Place<T> {
        self.0.with(|own| {
            // SAFETY: 1.
            let own = unsafe { &mut *own };
            let place = own.free.pop().unwrap_or_else(|| own.find());
            // SAFETY: places live as long as the roll.
            let word = unsafe { &(*place).0 };
            // Relaxed: see the module.
            word.store(entry.as_ptr(), Relaxed);
            place
        })
    }

    /// Takes out every entry that is left. `end` gets each of them.
    ///
    /// # Safety
    /// 1. The caller is the owner, and enters nothing from now on.
    pub unsafe fn drain(&self, mut end: impl FnMut(NonNull<T>)) {
        let mut at = 0;
        loop {
            let entry = self.0.with(|own| {
                // SAFETY: 1.
                let own = unsafe { &*own };
                let mut places = own.chunks.iter().flatten().skip(at);
                places.find_map(|place| {
                    at += 1;
                    // Relaxed: see the module.
                    NonNull::new(place.0.swap(null_mut(), Relaxed))
                })
            });
            match entry {
                Some(entry) => end(entry),
                None => return,
            }
        }
    }
}

impl<T> Own<T> {
    /// All known places are taken: those that were struck out since are free again. If that is less than half of
    /// them there are more places, so that the next look is at least as far away as this one is long.
    #[cold]
    fn find(&mut self) -> *const Place<T> {
        let free = |place: &&Place<T>| place.0.load(Relaxed).is_null();
        self.free.extend(self.chunks.iter().flatten().filter(free).map(std::ptr::from_ref));
        if self.free.len() * 2 <= self.places {
            let more = self.places.max(ROLL);
            let chunk: Box<[Place<T>]> = (0..more).map(|_| Place(AtomicPtr::new(null_mut()))).collect();
            self.free.extend(chunk.iter().map(std::ptr::from_ref));
            self.chunks.push(chunk);
            self.places += more;
        }
        self.free.pop().expect("there are places")
    }
}
