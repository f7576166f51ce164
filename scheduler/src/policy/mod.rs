#![doc = include_str!("README.md")]

mod grain;
mod layout;
mod place;
mod search;
mod wake;

pub use grain::{Grain, Hidden, first_nap, next_nap};
pub use layout::{Layout, Shard, Spot};
pub use place::Place;
pub use search::{Rounds, Victims, far_turn, share, spoken_for};
pub use wake::{Look, Recent, Verdict, choose_idle, consult, reaches_out};

/// How far it is from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ring {
    /// Same node and same last-level cache.
    Cache,
    /// Same node.
    Node,
    /// Another node.
    Remote,
}
