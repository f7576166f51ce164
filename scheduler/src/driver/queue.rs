//! Operations that wait in user space, in order; any of them can be taken out at once.

use io_uring::squeue::Entry;
use std::collections::VecDeque;

/// The queue. Each operation has a *turn*, a number that counts pushes, by which it is found again.
#[derive(Default)]
pub(super) struct Queue {
    /// `None`: taken out.
    entries: VecDeque<Option<Entry>>,
    /// The turn of the first.
    first: u64,
    len: usize,
}

impl Queue {
    /// The turn of the next push.
    pub(super) fn turn(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push_back(Some(entry));
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Entry> {
        while let Some(entry) = self.entries.pop_front() {
            self.first += 1;
            if entry.is_some() {
                self.len -= 1;
                return entry;
            }
        }
        None
    }

    /// Takes out what was pushed with `tag` at `turn`. False: it is not there any more.
    pub(super) fn take_out(&mut self, turn: u64, tag: u64) -> bool {
        let place = turn.checked_sub(self.first).and_then(|at| self.entries.get_mut(at as usize));
        let out = place.and_then(|place| place.take_if(|entry| entry.get_user_data() == tag)).is_some();
        self.len -= usize::from(out);
        // Whoever pushes and cancels without end leaves nothing behind. The turns are used again: nobody asks for them.
        while self.entries.pop_back_if(|last| last.is_none()).is_some() {}
        out
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}
