//! A counting semaphore that sleeps at once, so that what waits on it never takes part in a pool's spinning, and that
//! counts its own system calls, so that those of the pool can be told apart.
use crate::os::{futex_wait, futex_wake};
use crate::run::PATIENCE;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Instant;

#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Semaphore {
    value: AtomicU32,
    /// Futex waits. Written by the one thread that waits.
    waits: AtomicU64,
}

impl Semaphore {
    /// One system call, whether somebody waits or not.
    pub(crate) fn post(&self) {
        self.value.fetch_add(1, AcqRel);
        futex_wake(&self.value, 1);
    }

    /// Takes one unit; one thread at a time. `false`: none came for a minute.
    pub(crate) fn wait(&self) -> bool {
        let mut start = None;
        loop {
            if self.try_wait() {
                return true;
            }
            if start.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return false;
            }
            self.waits.store(self.waits.load(Relaxed) + 1, Relaxed);
            // Returns at once if a unit has come meanwhile.
            futex_wait(&self.value, 0, PATIENCE);
        }
    }

    /// Takes a unit if one is there.
    pub(crate) fn try_wait(&self) -> bool {
        let mut seen = self.value.load(Acquire);
        while seen > 0 {
            match self.value.compare_exchange(seen, seen - 1, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// System calls of the waiting side so far.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_taken_once_and_sleeps_are_counted() {
        let sem = Semaphore::default();
        assert!(!sem.try_wait());
        sem.post();
        assert!(sem.wait());
        assert_eq!(sem.waits(), 0, "a unit that is there needs no sleep");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                sem.post();
            });
            assert!(sem.wait());
        });
        assert!(sem.waits() >= 1);
        assert!(!sem.try_wait());
    }
}
