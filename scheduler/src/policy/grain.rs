//! Which forks are worth a theft.

use crate::config::{FINE_NS, STANDBY_MAX_US, STANDBY_MIN_US};

/// The mean time of the forks that were stolen from one worker, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain(u32);

impl Grain {
    /// Nobody has tried yet: worth a try.
    pub const UNTRIED: Grain = Grain(16 * FINE_NS);
    /// Times above this count as this much.
    const MOST: u64 = 1 << 30;

    /// The number of a mean.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The mean of a number.
    pub const fn from_bits(bits: u32) -> Self {
        Grain(bits)
    }

    /// One more was stolen, and took `ns`.
    #[must_use]
    pub fn learn(self, ns: u64) -> Self {
        let mean = (u64::from(self.0) * 7 + ns.min(Self::MOST)) / 8;
        Grain(mean.min(Self::MOST) as u32)
    }

    /// Its forks have not been worth a theft lately.
    #[inline(always)]
    pub fn is_fine(self) -> bool {
        self.0 < FINE_NS
    }
}

/// What a worker has that only it, or a rescue, can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Tasks.
    pub tasks: u32,
    /// Latent forks.
    pub forks: u32,
    /// What they have been worth.
    pub grain: Grain,
}

impl Hidden {
    /// Anything at all.
    #[inline]
    pub fn any(self) -> bool {
        self.tasks != 0 || self.forks != 0
    }

    /// Worth asking for. With `insist` whatever it is: a standby has seen its owner not get on.
    #[inline]
    pub fn worth_asking(self, insist: bool) -> bool {
        self.tasks != 0 || self.forks != 0 && (insist || !self.grain.is_fine())
    }

    /// Worth waking somebody for. Fine forks are not as long as somebody stands by (`watched`), who looks at them in
    /// time.
    #[inline]
    pub fn worth_a_wake(self, watched: bool) -> bool {
        self.worth_asking(!watched)
    }
}

/// Microseconds that a standby sleeps at first: fine forks alone (`coarse`: there is more) are worth a look now and
/// then.
pub fn first_nap(coarse: bool) -> u64 {
    if coarse { STANDBY_MIN_US } else { STANDBY_MAX_US }
}

/// Microseconds that it sleeps after a nap of `nap` in which others got on.
pub fn next_nap(nap: u64) -> u64 {
    (nap * 2).min(STANDBY_MAX_US)
}
