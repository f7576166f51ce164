//! Threads for operations that block. As many as there is work, up to a bound; each ends when it was idle for a while.

use crate::config::{BLOCKING_LOOK_MS, BLOCKING_LOOKS, BLOCKING_MAX, BLOCKING_MIN};
use crate::io::node::{Request, Right};
use crate::submit::purge;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

struct Pool {
    /// The process that the threads are in.
    process: u32,
    /// Most threads.
    limit: usize,
    inside: Mutex<Inside>,
    work: Condvar,
}

struct Inside {
    queue: VecDeque<Work>,
    threads: usize,
    /// Threads that sleep, or have been woken and not yet taken anything.
    idle: usize,
    /// How many operations the threads have taken.
    taken: u64,
}

/// What a thread does.
enum Work {
    /// An operation.
    Run(Right),
    /// What is left of one that has ended.
    End(Request),
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool {
        process: std::process::id(),
        limit: (4 * thread::available_parallelism().map_or(1, usize::from)).clamp(BLOCKING_MIN, BLOCKING_MAX),
        inside: Mutex::new(Inside { queue: VecDeque::new(), threads: 0, idle: 0, taken: 0 }),
        work: Condvar::new(),
    })
}

/// Queues an operation.
pub(in crate::io) fn send(right: Right) {
    // Before the lock, which may be held for ever in a child.
    if pool().process != std::process::id() {
        return right.complete(-libc::ECHILD);
    }
    enqueue(Work::Run(right));
}

/// Gives a request up, which may be the end of its operation, on one of the threads.
pub(in crate::io) fn send_end(request: Request) {
    if pool().process == std::process::id() {
        enqueue(Work::End(request));
    }
}

fn enqueue(work: Work) {
    let pool = pool();
    let mut inside = pool.lock();
    inside.queue.push_back(work);
    // Each idle thread will take one.
    if inside.queue.len() <= inside.idle {
        drop(inside);
        pool.work.notify_one();
    } else if inside.threads < pool.limit {
        inside.threads += 1;
        let number = inside.threads;
        drop(inside);
        if let Err(refused) = thread::Builder::new().name(format!("io-blocking-{number}")).spawn(|| pool.serve()) {
            pool.go_on_without(&refused);
        }
    }
}

/// Threads now, and operations taken so far.
pub(in crate::io) fn counts() -> (usize, u64) {
    let inside = pool().lock();
    (inside.threads, inside.taken)
}

impl Pool {
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
        for work in left {
            match work {
                Work::Run(right) => right.complete(-errno),
                Work::End(request) => drop(request),
            }
        }
    }

    /// One thread.
    fn serve(&self) {
        let mut looks = 0;
        let mut inside = self.lock();
        loop {
            if let Some(work) = inside.queue.pop_front() {
                inside.taken += 1;
                looks = 0;
                drop(inside);
                match work {
                    Work::Run(right) => right.run(),
                    Work::End(request) => drop(request),
                }
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
