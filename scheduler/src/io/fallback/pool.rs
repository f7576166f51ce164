//! Threads for operations that block. As many as there is work, up to a bound; each ends when it was idle for a while.

use crate::config::{BLOCKING_LOOK_MS, BLOCKING_LOOKS, BLOCKING_MAX, BLOCKING_MIN};
use crate::io::node::Right;
use crate::submit::purge;
use crate::sync::Relaxed;
use crate::sync::real::AtomicU32;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

struct Pool {
    /// The process that the threads are in; 0: there have been none.
    process: AtomicU32,
    inside: Mutex<Inside>,
    work: Condvar,
}

struct Inside {
    queue: VecDeque<Right>,
    /// Most threads; 0: nobody has counted.
    limit: usize,
    threads: usize,
    /// Threads that sleep, or have been woken and not yet taken anything.
    idle: usize,
    /// How many operations the threads have taken.
    taken: u64,
}

/// Made before the program begins: what the first thread to use it would make, a fork in that moment would leave half
/// made in the child, for ever.
static POOL: Pool = Pool {
    process: AtomicU32::new(0),
    inside: Mutex::new(Inside { queue: VecDeque::new(), limit: 0, threads: 0, idle: 0, taken: 0 }),
    work: Condvar::new(),
};

/// Queues an operation; completes it on the spot where there is no thread, so nothing may be locked or borrowed that
/// foreign code may want.
pub(in crate::io) fn send(right: Right) {
    // Before the lock, which may be held for ever in a child.
    if !POOL.is_here() {
        return right.complete(-libc::ECHILD);
    }
    let mut inside = POOL.lock();
    if inside.limit == 0 {
        inside.limit = (4 * thread::available_parallelism().map_or(1, usize::from)).clamp(BLOCKING_MIN, BLOCKING_MAX);
    }
    inside.queue.push_back(right);
    // Each idle thread will take one.
    if inside.queue.len() <= inside.idle {
        drop(inside);
        POOL.work.notify_one();
    } else if inside.threads < inside.limit {
        inside.threads += 1;
        let number = inside.threads;
        drop(inside);
        if let Err(refused) = thread::Builder::new().name(format!("io-blocking-{number}")).spawn(|| POOL.serve()) {
            POOL.go_on_without(&refused);
        }
    }
}

/// Threads now, and operations taken so far.
pub(in crate::io) fn counts() -> (usize, u64) {
    let inside = POOL.lock();
    (inside.threads, inside.taken)
}

impl Pool {
    /// The threads are in this process, or will be.
    fn is_here(&self) -> bool {
        let here = std::process::id();
        // Relaxed, both: one value, which the child of a fork has inherited.
        let first = self.process.compare_exchange(0, here, Relaxed, Relaxed);
        first.is_ok() || first == Err(here)
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The system refuses a thread: those that are there do it, and if there are none nobody will.
    fn go_on_without(&self, refused: &std::io::Error) {
        let mut inside = self.lock();
        inside.threads -= 1;
        let left = if inside.threads == 0 { std::mem::take(&mut inside.queue) } else { VecDeque::new() };
        drop(inside);
        let errno = refused.raw_os_error().unwrap_or(libc::EAGAIN);
        left.into_iter().for_each(|right| right.complete(-errno));
    }

    /// One thread.
    fn serve(&self) {
        let mut looks = 0;
        let mut inside = self.lock();
        loop {
            if let Some(right) = inside.queue.pop_front() {
                inside.taken += 1;
                looks = 0;
                drop(inside);
                right.run();
                inside = self.lock();
                continue;
            }
            inside.idle += 1;
            let limit = Duration::from_millis(BLOCKING_LOOK_MS);
            let (locked, waited) = self.work.wait_timeout(inside, limit).unwrap_or_else(PoisonError::into_inner);
            inside = locked;
            inside.idle -= 1;
            if waited.timed_out() && inside.queue.is_empty() {
                looks += 1;
                if looks == BLOCKING_LOOKS {
                    inside.threads -= 1;
                    return;
                }
                drop(inside);
                purge();
                inside = self.lock();
            }
        }
    }
}
