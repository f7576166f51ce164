//! What one worker takes, and when. There is no such record without the feature `measure`.
//!
//! Written by its worker alone, with plain stores into memory of a fixed size; what does not fit is counted.

use super::remote::Count;
use crate::sync::{AtomicU64, Relaxed, ticks, ticks_per_us};

/// Classes of queue lengths: 0, 1, 2 to 3, 4 to 7, and so on; the last one begins at 4,096, where the ring is full.
const CLASSES: usize = 14;
/// Times that are kept per worker: more than any run that is recorded has tasks, and 32 KiB.
const STAMPS: usize = 4_096;

/// The record of one worker.
pub struct Record {
    lengths: [Count; CLASSES],
    stamps: Box<[AtomicU64]>,
    taken: Count,
}

/// A reading of a [`Record`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Takes by the length of the queue they left behind: 0, 1, 2 to 3, 4 to 7, and so on.
    pub lengths: Vec<u64>,
    /// When the tasks first ran, in nanoseconds since some moment that all workers share.
    pub first_run_ns: Vec<u64>,
    /// Takes whose time did not fit.
    pub dropped: u64,
}

impl Default for Record {
    fn default() -> Self {
        Self::new()
    }
}

impl Record {
    /// An empty record.
    pub fn new() -> Self {
        Record {
            lengths: std::array::from_fn(|_| Count::default()),
            stamps: (0..STAMPS).map(|_| AtomicU64::new(0)).collect(),
            taken: Count::default(),
        }
    }

    /// Owner only. A task is about to run, and so many are left in the worker's own queue.
    #[inline]
    pub fn took(&self, left: u32) {
        let class = (u32::BITS - left.leading_zeros()) as usize;
        self.lengths[class.min(CLASSES - 1)].add(1);
        if let Some(stamp) = self.stamps.get(self.taken.get() as usize) {
            // Relaxed: read when nothing runs.
            stamp.store(ticks(), Relaxed);
        }
        self.taken.add(1);
    }

    /// Any thread, while the owner takes nothing.
    pub fn read(&self) -> Recorded {
        let taken = self.taken.get() as usize;
        // Relaxed: whoever reads has waited for the tasks.
        let ns = |stamp: &AtomicU64| (u128::from(stamp.load(Relaxed)) * 1_000 / u128::from(ticks_per_us())) as u64;
        Recorded {
            lengths: self.lengths.iter().map(Count::get).collect(),
            first_run_ns: self.stamps.iter().take(taken).map(ns).collect(),
            dropped: taken.saturating_sub(STAMPS) as u64,
        }
    }

    /// Any thread, while the owner takes nothing.
    pub fn clear(&self) {
        self.lengths.iter().chain([&self.taken]).for_each(Count::clear);
    }
}
