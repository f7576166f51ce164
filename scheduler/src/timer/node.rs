//! A timer: a node that stands in a slot of a wheel, inside of whatever waits for it.
#![expect(unsafe_code, reason = "shared between a lock and an owner")]

use crate::sync::{Acquire, AtomicU32, Racy, Release, ord};
use std::ptr::null;
use std::task::Waker;

const IDLE: u32 = 0;
const LINKED: u32 = 1;
const FIRED: u32 = 2;

/// What a node's owner sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In no wheel.
    Idle,
    /// In a wheel, which may touch it at any time.
    Linked,
    /// Out of its wheel again: the time has come, or the wheel has ended. Its owner has it alone.
    Fired,
}

/// One timer. While it is linked it must not move.
pub struct Node {
    stage: AtomicU32,
    /// Under the lock of the wheel while it is linked, else its owner's.
    pub(super) inner: Racy<Inner>,
}

pub(super) struct Inner {
    pub(super) previous: *const Node,
    pub(super) next: *const Node,
    pub(super) tick: u64,
    /// Level and slot where it stands.
    pub(super) level: u8,
    pub(super) slot: u8,
    pub(super) waker: Option<Waker>,
}

// SAFETY: `inner` is reached under a lock, or by the owner alone.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Node {
    /// In no wheel.
    pub fn new() -> Self {
        let inner = Inner { previous: null(), next: null(), tick: 0, level: 0, slot: 0, waker: None };
        Node { stage: AtomicU32::new(IDLE), inner: Racy::new(inner) }
    }

    /// Owner only.
    pub fn stage(&self) -> Stage {
        // TW2: whoever has fired it touches it no more (TW1), so it may be freed or used again without the lock.
        match self.stage.load(ord("TW2", Acquire)) {
            IDLE => Stage::Idle,
            LINKED => Stage::Linked,
            _ => Stage::Fired,
        }
    }

    /// The wheel, under its lock. The last access unless it is linked again.
    pub(super) fn set(&self, stage: Stage) {
        let stage = match stage {
            Stage::Idle => IDLE,
            Stage::Linked => LINKED,
            Stage::Fired => FIRED,
        };
        // TW1: pairs with TW2.
        self.stage.store(stage, ord("TW1", Release));
    }
}
