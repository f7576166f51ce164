//! Tasks that wait for the same event, which may come again.

use crate::sync::{Mutex, MutexGuard, planted};
use crate::task::waiting::Waiting;
use std::mem::replace;
use std::sync::{Arc, PoisonError};
use std::task::{Wake, Waker};

/// Counts events as *ticks*, and tells whoever waits. Who waits reads the ticks before it looks for itself.
#[derive(Default)]
pub struct Edge(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    ticks: u64,
    /// Who waits, by number.
    waiters: Vec<(u64, Waker)>,
    last: u64,
}

impl Inside {
    fn count(&mut self) {
        self.ticks += u64::from(!planted("edge-no-tick"));
    }
}

/// A place among those who wait.
pub type Place = u64;

impl Edge {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events so far: to be read before the look that says that there is nothing.
    pub fn ticks(&self) -> u64 {
        self.lock().ticks
    }

    /// `waker` is told at the first event after `ticks`. False: there has been one.
    pub fn wait(&self, ticks: u64, place: &mut Option<Place>, waker: &Waker) -> bool {
        // A clone is foreign code: not under the lock.
        let waker = waker.clone();
        let mut inside = self.lock();
        if inside.ticks != ticks {
            return false;
        }
        let known = place.and_then(|place| inside.waiters.iter().position(|(number, _)| *number == place));
        let before = match known {
            Some(at) => Some(replace(&mut inside.waiters[at].1, waker)),
            None => {
                inside.last += 1;
                let number = inside.last;
                *place = Some(number);
                inside.waiters.push((number, waker));
                None
            }
        };
        drop(inside);
        drop(before);
        true
    }

    /// Nobody waits there any more.
    pub fn forget(&self, place: Place) {
        let mut inside = self.lock();
        let at = inside.waiters.iter().position(|(number, _)| *number == place);
        let gone = at.map(|at| inside.waiters.swap_remove(at));
        drop(inside);
        drop(gone);
    }

    /// It has come. `wakers` is empty, and is so afterwards: room that is used again.
    pub fn raise(&self, wakers: &mut Vec<Waker>) {
        let mut inside = self.lock();
        inside.count();
        wakers.extend(inside.waiters.drain(..).map(|(_, waker)| waker));
        drop(inside);
        // Foreign code: not under the lock.
        wakers.drain(..).for_each(|waker| Waiting::Task(waker).tell());
    }
}

impl Wake for Edge {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        let mut inside = self.lock();
        inside.count();
        // Most often there is one.
        let first = inside.waiters.pop();
        let others: Vec<_> = inside.waiters.drain(..).collect();
        drop(inside);
        // Foreign code: not under the lock.
        first.into_iter().chain(others).for_each(|(_, waker)| Waiting::Task(waker).tell());
    }
}
