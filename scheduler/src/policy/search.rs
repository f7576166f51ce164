//! In which order a searcher asks, when it may ask far away, and how much it takes.

use super::Ring;
use super::layout::{Layout, distance};
use crate::config::{FAR_STREAKS, REMOTE_AFTER, REMOTE_BACKLOG, REMOTE_PATIENCE, STEAL_MAX};
use numa::Topology;

/// The other workers in the order in which one of them asks: by ring, remote ones by distance, equals shuffled.
///
/// The default is an order without anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Victims {
    order: Box<[u32]>,
    /// End of the ring `Cache`, and of `Node`.
    ends: [usize; 2],
}

impl Victims {
    /// The order of worker `index`.
    pub fn new(layout: &Layout, topology: &Topology, index: usize) -> Self {
        let from = &layout.spots[index];
        let mut order: Vec<usize> = (0..layout.spots.len()).filter(|&other| other != index).collect();
        shuffle(&mut order, index as u64);
        let far = |other: usize| match layout.ring(index, other) {
            Ring::Remote => distance(topology, from.node, layout.spots[other].node),
            _ => 0,
        };
        // Stable: the shuffle decides among equals.
        order.sort_by_key(|&other| (layout.ring(index, other), far(other)));
        let end = |ring: Ring| order.partition_point(|&other| layout.ring(index, other) <= ring);
        Victims { ends: [end(Ring::Cache), end(Ring::Node)], order: order.into_iter().map(|i| i as u32).collect() }
    }

    /// Everybody.
    #[inline]
    pub fn all(&self) -> &[u32] {
        &self.order
    }

    /// Those of the own node.
    #[inline]
    pub fn near(&self) -> &[u32] {
        &self.order[..self.ends[1]]
    }

    /// Those within reach after so many empty rounds.
    #[inline]
    pub fn within(&self, rounds: Rounds) -> &[u32] {
        if rounds.reach_far() { &self.order } else { self.near() }
    }

    /// The ring of the victim at `position` of [`Victims::all`].
    #[inline]
    pub fn ring(&self, position: usize) -> Ring {
        match (position < self.ends[0], position < self.ends[1]) {
            (true, _) => Ring::Cache,
            (_, true) => Ring::Node,
            _ => Ring::Remote,
        }
    }
}

/// How many rounds in a row have found nothing. On a host with one node the first round reaches everything there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds(u32);

impl Rounds {
    /// Nothing was looked for yet.
    pub const FRESH: Rounds = Rounds(0);

    /// Enough of them.
    pub const ALL: Rounds = Rounds(if REMOTE_PATIENCE == 0 { 0 } else { 1 << 31 });

    /// One more round that found nothing.
    #[must_use]
    pub fn empty(self) -> Rounds {
        Rounds(self.0.saturating_add(1))
    }

    /// Other nodes are asked in this round: the first time after [`REMOTE_AFTER`] empty ones, then ever more rarely, as
    /// a look at a queue takes the line from whoever works there.
    #[inline]
    pub fn reach_far(self) -> bool {
        self.0 == REMOTE_AFTER || self.0 > REMOTE_AFTER && self.0.is_power_of_two()
    }

    /// A round that reached everything has found nothing: the searcher may give up. `apart`: there are other nodes.
    #[inline]
    pub fn exhausted(self, apart: bool) -> bool {
        !apart || self.0 > REMOTE_PATIENCE
    }
}

/// How many of the `queued` tasks of one victim are taken at once.
#[inline]
pub fn share(queued: usize) -> usize {
    queued.div_ceil(2).min(STEAL_MAX)
}

/// Whether `backlog` tasks that are somebody else's first are left alone: they are few, and somebody there is looking
/// or this search is young.
#[inline]
pub fn spoken_for(backlog: u64, searched: bool, rounds: Rounds) -> bool {
    backlog < REMOTE_BACKLOG && (searched || rounds.0.checked_sub(REMOTE_PATIENCE).is_none())
}

/// A busy worker that has run `streaks` streaks looks at the lanes of other nodes first.
#[inline]
pub fn far_turn(streaks: u32) -> bool {
    streaks.is_multiple_of(FAR_STREAKS)
}

/// Fisher-Yates with xorshift: the same seed gives the same order everywhere.
fn shuffle(order: &mut [usize], seed: u64) {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for end in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(end, ((state >> 16) % (end as u64 + 1)) as usize);
    }
}
