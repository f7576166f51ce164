#![doc = include_str!("README.md")]

mod block;
mod claim;
mod directory;
mod head;
mod producer;
mod stock;

use crate::sync::{AtomicU64, Line, Racy};
use directory::Directories;
use head::Head;
use producer::Producer;
use stock::Stock;

/// One submitter's queue: a single producer (the *owner*), any number of claimers, no bound but the owner's own limit.
///
/// `S` is plain storage: tasks are moved in and out by bit copy and the lane never runs or drops one. `BLOCK`, a power
/// of two, is the number of tasks per block and so the most that one claim takes.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `tail` | owner | all |
/// | `head` | claimers, and the owner in [`Lane::withdraw`] | all |
/// | `end` | owner, in [`Lane::withdraw`] | claimers that found `head` cut |
/// | `producer` | owner | owner |
/// | `directories` | owner (new ones), the last claimer of a block (clearing, freeing) | owner and claimers |
/// | `stock` | owner, the last claimer of a block, whoever trims | the same |
pub struct Lane<S, const BLOCK: usize> {
    tail: Line<AtomicU64>,
    head: Line<AtomicU64>,
    producer: Line<Racy<Producer<S, BLOCK>>>,
    end: AtomicU64,
    directories: Directories<S, BLOCK>,
    stock: Stock<S, BLOCK>,
}

/// What a call of [`Lane::claim`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the tasks taken are gone from the lane"]
pub struct Claim {
    /// Tasks handed out; 0 if there were none.
    pub taken: u64,
    /// Tasks that stayed behind, as of the look that preceded the claim.
    pub left: u64,
    /// They were the last of their block, which this claim has sent home.
    pub emptied: bool,
}

impl<S, const BLOCK: usize> Lane<S, BLOCK> {
    /// An empty lane.
    pub fn new() -> Self {
        Self::new_at(0)
    }

    /// An empty lane whose first task gets `position`: for tests that cross a power of two.
    ///
    /// # Panics
    /// If the position is 2^56 or more.
    pub fn new_at(position: u64) -> Self {
        const { assert!(BLOCK.is_power_of_two() && size_of::<S>() > 0) };
        let number = position / BLOCK as u64;
        Lane {
            tail: Line(AtomicU64::new(position)),
            head: Line(AtomicU64::new(Head::open(position).bits())),
            producer: Line(Racy::new(Producer::new(position))),
            end: AtomicU64::new(u64::MAX),
            directories: Directories::new(number),
            stock: Stock::new(),
        }
    }
}

impl<S, const BLOCK: usize> Default for Lane<S, BLOCK> {
    fn default() -> Self {
        Self::new()
    }
}
