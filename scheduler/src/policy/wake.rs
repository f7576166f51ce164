//! Whom a submission wakes.

use super::Ring;
use crate::config::REMOTE_BACKLOG;

/// What a shard looks like to somebody who would wake one of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Somebody there looks for work.
    pub searching: bool,
    /// Somebody there is awake and proven to run short tasks only.
    pub fast: bool,
    /// Somebody there sleeps.
    pub idle: bool,
}

/// What to do about one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Somebody there will find the task: wake nobody.
    Rely,
    /// Wake one there.
    Wake,
    /// Nobody there can help: look further.
    Pass,
}

/// About one shard, met in order of distance. `despite_fast`: a fast worker is not enough.
#[inline]
pub fn consult(ring: Ring, look: Look, despite_fast: bool) -> Verdict {
    // A searcher looks everywhere before it gives up; a fast worker only where it is at home.
    if look.searching || look.fast && !despite_fast && ring != Ring::Remote {
        return Verdict::Rely;
    }
    if look.idle { Verdict::Wake } else { Verdict::Pass }
}

/// Whether workers of other nodes are woken for `backlog` tasks that nobody near is free for. `watched`: somebody
/// stands by, and will look soon.
#[inline]
pub fn reaches_out(backlog: u64, watched: bool) -> bool {
    backlog >= REMOTE_BACKLOG || !watched
}

/// The bits of a shard, the one that went to sleep last first: sixteen numbers of four bits.
///
/// Any value is a valid order as long as only [`Recent::now`] has changed it, also from an outdated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent(u64);

impl Recent {
    /// Ascending.
    pub const START: Recent = Recent(0xfedc_ba98_7654_3210);

    /// The word of an order.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The order in a word; zero, as found in wiped memory, is the first one.
    pub fn from_bits(bits: u64) -> Self {
        if bits == 0 { Self::START } else { Recent(bits) }
    }

    /// `bit` goes to sleep now.
    #[must_use]
    pub fn now(self, bit: usize) -> Self {
        let at = self.iter().position(|other| other == bit).unwrap_or(0) as u32 * 4;
        let before = self.0 & !(u64::MAX << at);
        let behind = if at == 60 { 0 } else { self.0 & (u64::MAX << (at + 4)) };
        Recent(behind | before << 4 | bit as u64)
    }

    /// Bits, latest first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..16).map(move |place| (self.0 >> (4 * place) & 15) as usize)
    }
}

/// Which of the sleepers `idle` (bits) to wake: one whose core nobody else uses before the sibling of a busy one, and
/// among equals the one that went to sleep last. `cores`: by bit, the bits of its core.
#[inline]
pub fn choose_idle(idle: u32, recent: Recent, cores: &[u32]) -> Option<usize> {
    let mut second = None;
    for bit in recent.iter().filter(|&bit| idle >> bit & 1 != 0) {
        if cores.get(bit).is_none_or(|mates| mates & !idle == 0) {
            return Some(bit);
        }
        second = second.or(Some(bit));
    }
    second
}
