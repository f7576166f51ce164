#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "pointers to lanes that an epoch keeps alive")]

use crate::config::BLOCK;
use crate::idle::IdleWord;
use crate::queue::lane::Lane;
use crate::sync::{
    Acquire, AtomicBool, AtomicPtr, AtomicUsize, Mutex, Pin, Reclaimer, Registration, Relaxed, Release, ord, planted,
};
use crate::task::raw::RawTask;
use std::ptr::null_mut;

/// Whom a lane's tasks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Whoever is near the submitting thread; the lane moves house with it.
    Thread,
    /// The workers of the lane's node, wherever the submitter is.
    Node,
    /// One worker. The others wait a while before they help.
    Worker(usize),
}

/// A lane with its bookkeeping.
pub struct Entry {
    /// The queue itself.
    pub lane: Lane<RawTask, BLOCK>,
    /// Whom its tasks are for.
    pub aim: Aim,
    /// The idle word its submitter looks at: that of the shard nearest to the submitting thread, or to where it aims.
    /// Written by the owner only, and read by it; others read it of lanes that nobody owns, under the table's lock.
    word: AtomicPtr<IdleWord>,
    /// Index of that shard: written by the owner, a hint for everybody else.
    shard: AtomicUsize,
    /// A thread submits here. Cleared once, by that thread; set again by an adopter under the table's lock.
    owned: AtomicBool,
}

// SAFETY: the lane's shared half is Sync, its producer half is used by the one owner only.
unsafe impl Send for Entry {}
// SAFETY: see Send.
unsafe impl Sync for Entry {}

impl Entry {
    fn new(word: *const IdleWord, shard: usize, aim: Aim) -> Self {
        let (word, shard) = (AtomicPtr::new(word.cast_mut()), AtomicUsize::new(shard));
        Entry { lane: Lane::new(), aim, word, shard, owned: AtomicBool::new(true) }
    }

    /// The idle word to look at after a publication. Relaxed, as all of these: any shard's word tells of everything
    /// that must not be missed, so which one is read is a matter of distance.
    #[inline(always)]
    pub fn word(&self) -> *const IdleWord {
        self.word.load(Relaxed)
    }

    /// The shard where this lane is at home.
    #[inline(always)]
    pub fn shard(&self) -> usize {
        self.shard.load(Relaxed)
    }

    /// The owner has moved.
    pub fn move_to(&self, word: *const IdleWord, shard: usize) {
        self.word.store(word.cast_mut(), Relaxed);
        self.shard.store(shard, Relaxed);
    }
}

struct Array {
    len: AtomicUsize,
    places: Box<[AtomicPtr<Entry>]>,
}

impl Array {
    fn new(size: usize) -> *mut Array {
        let places = (0..size).map(|_| AtomicPtr::new(null_mut())).collect();
        Box::into_raw(Box::new(Array { len: AtomicUsize::new(0), places }))
    }
}

/// The list. Lanes are freed with it at the latest.
pub struct LaneTable {
    array: AtomicPtr<Array>,
    /// Some lane aims at one worker; never taken back. Relaxed: who does not know it yet helps a little early.
    aimed: AtomicBool,
    registry: Mutex<usize>,
    reclaimer: Reclaimer,
}

impl LaneTable {
    /// An empty list with `size` places to begin with.
    pub fn new(size: usize) -> Self {
        LaneTable {
            array: AtomicPtr::new(Array::new(size)),
            aimed: AtomicBool::new(false),
            registry: Mutex::new(0),
            reclaimer: Reclaimer::new(),
        }
    }

    /// Registers the calling thread as a scanner.
    pub fn scanner(&self) -> Registration {
        self.reclaimer.register()
    }

    /// Lanes in the list.
    pub fn count(&self) -> usize {
        *self.registry.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Some lane aims at one worker.
    #[inline(always)]
    pub fn has_aimed(&self) -> bool {
        self.aimed.load(Relaxed)
    }

    /// A lane for the calling thread: one that its thread gave up, or a new one. May lock, may allocate.
    pub fn acquire(&self, word: *const IdleWord, shard: usize, aim: Aim) -> *const Entry {
        let mut count = self.registry.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: arrays are replaced under the lock, which we hold.
        let array = unsafe { &*self.array.load(Relaxed) };
        let len = array.len.load(Relaxed);
        let mut hole = None;
        for (i, place) in array.places[..len].iter().enumerate() {
            let entry = place.load(Relaxed);
            if entry.is_null() {
                hole = hole.or(Some(i));
                continue;
            }
            // SAFETY: entries are unlinked under the lock, which we hold.
            let entry = unsafe { &*entry };
            // R2: pairs with R1, so that the producer's half is handed over whole.
            // A lane that was cut by a closing takes no more tasks.
            if !entry.owned.load(ord("R2", Acquire))
                && (entry.word(), entry.aim) == (word, aim)
                && (planted("adopt-cut") || !entry.lane.is_cut())
            {
                entry.owned.store(true, Relaxed);
                return entry;
            }
        }
        if matches!(aim, Aim::Worker(_)) {
            self.aimed.store(true, Relaxed);
        }
        let entry = Box::into_raw(Box::new(Entry::new(word, shard, aim)));
        *count += 1;
        self.link(array, hole, entry);
        entry
    }

    /// Puts `entry` into a hole, or behind the last, or into a larger array. The lock is held.
    fn link(&self, array: &Array, hole: Option<usize>, entry: *mut Entry) {
        let len = array.len.load(Relaxed);
        // R3: the lane is whole before a scanner can find it (R4).
        if let Some(i) = hole {
            return array.places[i].store(entry, ord("R3", Release));
        }
        if len < array.places.len() {
            array.places[len].store(entry, ord("R3", Release));
            // Relaxed: a length that is seen too early leads to a place that is seen empty, as if it were not there.
            return array.len.store(len + 1, Relaxed);
        }
        let larger = Array::new(len * 2);
        // SAFETY: just made, not shared yet.
        let fresh = unsafe { &*larger };
        for (to, from) in fresh.places.iter().zip(&array.places) {
            to.store(from.load(Relaxed), Relaxed);
        }
        fresh.places[len].store(entry, Relaxed);
        fresh.len.store(len + 1, Relaxed);
        // R6: the copied places are whole before a scanner can find the array (R7).
        let old = self.array.swap(larger, ord("R6", Release));
        let registration = self.reclaimer.register();
        // SAFETY: made by `Array::new`, just unlinked, once.
        unsafe { registration.pin().retire(old) };
    }

    /// The owner of `entry` leaves. Tasks that are still queued stay visible; the lane goes once it is drained.
    ///
    /// # Safety
    /// The caller is the lane's producer and does not touch it any more.
    pub unsafe fn release(&self, entry: *const Entry) {
        // SAFETY: owned until the next line by the caller's promise.
        let lane = unsafe { &*entry };
        // R1: what the producer did is seen by whoever adopts or frees the lane.
        lane.owned.store(false, ord("R1", Release));
        self.reap();
    }

    /// Unlinks and retires the lanes that nobody owns and that are drained. Skipped when somebody else registers just
    /// now.
    pub fn reap(&self) {
        let Ok(mut count) = self.registry.try_lock() else { return };
        let registration = self.reclaimer.register();
        let pin = registration.pin();
        // SAFETY: arrays are replaced under the lock, which we hold.
        let array = unsafe { &*self.array.load(Relaxed) };
        for place in &array.places[..array.len.load(Relaxed)] {
            let entry = place.load(Relaxed);
            // SAFETY: entries are unlinked under the lock, which we hold; null is `None`.
            let Some(lane) = (unsafe { entry.as_ref() }) else { continue };
            // R2: as in `acquire`.
            if (planted("reap-owned") || !lane.owned.load(ord("R2", Acquire))) && lane.lane.is_drained() {
                if planted("retire-first") {
                    // SAFETY: it is not unlinked: this is the bug.
                    unsafe { registration.pin().retire(entry) };
                    drop(pin);
                    return place.store(null_mut(), Relaxed);
                }
                place.store(null_mut(), Relaxed);
                *count -= 1;
                // SAFETY: made by `acquire`, unlinked just now, once; nobody owns it.
                unsafe { pin.retire(entry) };
            }
        }
        // Scans walk up to the last lane there is, not to the last there ever was.
        let len = array.len.load(Relaxed);
        let used = array.places[..len].iter().rposition(|place| !place.load(Relaxed).is_null()).map_or(0, |i| i + 1);
        if used != len {
            // Relaxed: as in `link`.
            array.len.store(used, Relaxed);
        }
    }

    /// Some lane has no owner: worth a `reap` before a long sleep.
    pub fn orphans(&self, pin: &Pin) -> bool {
        self.scan(pin, 0, |entry| (!entry.owned.load(Relaxed) && entry.lane.is_drained()).then_some(())).is_some()
    }

    /// Calls `visit` with every lane, starting at place `start` (any number), until it returns something. The second
    /// value is the place where it did.
    #[inline]
    pub fn scan<R>(&self, _pin: &Pin, start: usize, mut visit: impl FnMut(&Entry) -> Option<R>) -> Option<(R, usize)> {
        // R7: pairs with R6. SAFETY (below): a pinned scanner delays the retirement of arrays and lanes.
        let array = self.array.load(ord("R7", Acquire));
        // SAFETY: see R7.
        let array = unsafe { &*array };
        // Relaxed: a stale length hides only lanes younger than this scan.
        let len = array.len.load(Relaxed);
        for i in 0..len {
            let at = if start + i < len { start + i } else { (start + i) % len };
            // R4: pairs with R3.
            let entry = array.places[at].load(ord("R4", Acquire));
            // SAFETY: see R7.
            let Some(entry) = (unsafe { entry.as_ref() }) else { continue };
            if let Some(found) = visit(entry) {
                return Some((found, at));
            }
        }
        None
    }
}

impl Drop for LaneTable {
    fn drop(&mut self) {
        // SAFETY: no scanner is left, the array is ours.
        let array = unsafe { Box::from_raw(self.array.load(Acquire)) };
        for place in &array.places {
            let entry = place.load(Acquire);
            if !entry.is_null() {
                // SAFETY: made by `acquire`, still linked, so freed nowhere else.
                drop(unsafe { Box::from_raw(entry) });
            }
        }
    }
}
