//! In which order a searcher asks, when it may ask far away, and how much it takes.

use super::Ring;
use super::layout::{Layout, distance};
use crate::config::{FAR_STREAKS, REMOTE_AFTER, REMOTE_BACKLOG, REMOTE_PATIENCE, STEAL_MAX, STEP_ASKS};
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

    /// Those asked in this step, with their positions in [`Victims::all`]: the own cache, then the next few of the
    /// others within reach. For [`Rounds::ALL`] everybody.
    #[inline]
    pub fn asked(&self, rounds: Rounds) -> impl Iterator<Item = (usize, u32)> + '_ {
        let (cache, beyond) = (self.ends[0], self.beyond(rounds));
        let (start, count) = match rounds {
            Rounds::ALL => (0, beyond),
            _ if rounds.reach_far() => {
                let done = (rounds.step as usize * STEP_ASKS).min(beyond);
                (done, STEP_ASKS.min(beyond - done))
            }
            // Who is not asked in this round is asked in one of the next.
            _ => (rounds.empty as usize * STEP_ASKS, STEP_ASKS.min(beyond)),
        };
        let next = (start..start + count).map(move |place| cache + place % beyond);
        (0..cache).chain(next).map(|position| (position, self.order[position]))
    }

    /// After a step that found nothing.
    #[inline]
    pub fn empty(&self, rounds: Rounds) -> Rounds {
        let done = (rounds.step as usize + 1) * STEP_ASKS;
        if rounds != Rounds::ALL && rounds.reach_far() && done < self.beyond(rounds) {
            return Rounds { step: rounds.step + 1, ..rounds };
        }
        Rounds { empty: rounds.empty.saturating_add(1), step: 0 }
    }

    /// Everybody has been asked and had nothing: the searcher may give up. `apart`: there are other nodes.
    #[inline]
    pub fn exhausted(&self, rounds: Rounds, apart: bool) -> bool {
        let rounds_of_one_node = match self.near_at_once() {
            true if self.spans_caches() => u32::from(REMOTE_AFTER != 0),
            true => 0,
            false => REMOTE_AFTER,
        };
        rounds.empty > if apart { REMOTE_PATIENCE } else { rounds_of_one_node }
    }

    /// Some of the own node are in another cache.
    #[inline]
    pub fn spans_caches(&self) -> bool {
        self.ends[0] != self.ends[1]
    }

    /// A round without the other nodes asks everybody of the own one.
    #[inline]
    pub fn near_at_once(&self) -> bool {
        self.beyond(Rounds::FRESH) <= STEP_ASKS || REMOTE_AFTER == 0
    }

    /// How many are within reach beyond the own cache.
    fn beyond(&self, rounds: Rounds) -> usize {
        self.within(rounds).len() - self.ends[0]
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

/// How far a search has come: how many rounds in a row have found nothing, and how many steps of the present one.
///
/// A round is one step: the own cache and the next eight of the node. In between, ever more rarely, comes a round that
/// asks everybody there is, in as many steps as that takes. Between two steps a searcher looks again at what is near:
/// its own queue, the lanes, its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    empty: u32,
    step: u32,
}

impl Rounds {
    /// Nothing was looked for yet.
    pub const FRESH: Rounds = Rounds { empty: 0, step: 0 };

    /// Enough of them.
    pub const ALL: Rounds = Rounds { empty: if REMOTE_PATIENCE == 0 { 0 } else { 1 << 31 }, step: 0 };

    /// Everybody is asked in this round, other nodes too: the first time after [`REMOTE_AFTER`] empty ones, then ever
    /// more rarely, as a look at a queue takes the line from whoever works there.
    #[inline]
    pub fn reach_far(self) -> bool {
        self.empty == REMOTE_AFTER || self.empty > REMOTE_AFTER && self.empty.is_power_of_two()
    }

    /// Lanes of other caches of the node are left to those who are near them, for this one round.
    #[inline]
    pub fn stays_in_cache(self) -> bool {
        REMOTE_AFTER != 0 && self.empty == 0
    }

    /// The first step of a round.
    #[inline]
    pub fn begins(self) -> bool {
        self.step == 0
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
    backlog < REMOTE_BACKLOG && (searched || rounds.empty.checked_sub(REMOTE_PATIENCE).is_none())
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
