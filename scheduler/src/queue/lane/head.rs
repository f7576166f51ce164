//! The claimers' word.

use std::fmt;

/// Where the next claim begins, and how often the owner has cut the lane. The only type that knows the layout.
///
/// | bits | field | changed by |
/// |---|---|---|
/// | 0..56 | position of the first unclaimed task, only grows | claimers, by compare-exchange |
/// | 56..64 | cuts: 0 while open; each cut takes the next value, 255 is followed by 1 | the owner, by compare-exchange |
///
/// 56 bits last 22 years at 10^8 tasks per second; the owner checks the end once per block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Head(u64);

impl Head {
    const POSITION_BITS: u32 = 56;
    const ONE_CUT: u64 = 1 << Self::POSITION_BITS;
    /// The first position that does not fit.
    pub(super) const POSITION_END: u64 = 1 << Self::POSITION_BITS;

    /// An open lane whose next claim begins at `position`.
    pub(super) fn open(position: u64) -> Self {
        assert!(position < Self::POSITION_END, "a lane's position has 56 bits");
        Head(position)
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Head(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn position(self) -> u64 {
        self.0 & (Self::POSITION_END - 1)
    }

    /// Whether the `end` word bounds the claims.
    pub(super) const fn is_cut(self) -> bool {
        self.0 >= Self::ONE_CUT
    }

    /// After a claim of `count` tasks. The owner keeps positions below their end, so this never carries into the cuts.
    pub(super) const fn claimed(self, count: u64) -> Self {
        Head(self.0 + count)
    }

    /// The same position, different bits: every claim in flight fails on it.
    pub(super) const fn cut(self) -> Self {
        let next = self.0.wrapping_add(Self::ONE_CUT);
        Head(if next < Self::ONE_CUT { next + Self::ONE_CUT } else { next })
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head")
            .field("position", &self.position())
            .field("cuts", &(self.0 >> Self::POSITION_BITS))
            .finish()
    }
}
