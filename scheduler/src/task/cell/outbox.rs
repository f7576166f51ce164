//! Foreign cells on their way home, sorted by home, so that each trip carries many.

#![expect(unsafe_code, reason = "links cells through their memory")]

use super::home::Home;
use super::slab::{Blank, Header, link};
use std::ptr::NonNull;

/// Cells of one home.
struct Chain {
    home: NonNull<Home>,
    first: NonNull<Blank>,
    last: NonNull<Blank>,
    len: usize,
}

/// One chain per home that cells are waiting for, found by the home's number. Owner only.
pub(super) struct Outbox {
    chains: Vec<Option<Chain>>,
    /// Numbers of the homes that have a chain.
    busy: Vec<u32>,
    /// Cells sent, and trips.
    sent: (u64, u64),
}

impl Outbox {
    pub(super) const fn new() -> Self {
        Outbox { chains: Vec::new(), busy: Vec::new(), sent: (0, 0) }
    }

    /// Adds a cell.
    ///
    /// # Safety The cell is the caller's alone, `header` is that of its slab, and all cells given to one outbox come
    /// from one depot.
    pub(super) unsafe fn add(&mut self, cell: NonNull<Blank>, header: Header) {
        let id = header.id as usize;
        if id >= self.chains.len() {
            self.chains.resize_with(id + 1, || None);
        }
        match &mut self.chains[id] {
            Some(chain) => {
                // SAFETY: the caller's alone.
                unsafe { link(cell, chain.first.as_ptr()) };
                chain.first = cell;
                chain.len += 1;
            }
            empty => {
                *empty = Some(Chain { home: header.home, first: cell, last: cell, len: 1 });
                self.busy.push(header.id);
            }
        }
    }

    /// How many cells were sent, and in how many trips.
    pub(super) fn sent(&self) -> (u64, u64) {
        self.sent
    }

    /// Sends home every chain of at least `least` cells.
    pub(super) fn send(&mut self, least: usize) {
        self.busy.retain(|&id| {
            let slot = &mut self.chains[id as usize];
            match slot.take_if(|chain| chain.len >= least) {
                Some(chain) => {
                    self.sent = (self.sent.0 + chain.len as u64, self.sent.1 + 1);
                    // SAFETY: 1. sorted by home, and ours since `add`; 2. linked by `add`; 3. taken out of the
                    // outbox.
                    unsafe { Home::give(chain.home, chain.first, chain.last) };
                    false
                }
                None => true,
            }
        });
    }
}
