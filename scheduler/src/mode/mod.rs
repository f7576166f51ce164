#![doc = include_str!("README.md")]

use crate::config::{HEAVIES_PER_LOOK, HEAVIES_PER_SECOND};
use crate::idle::{Fences, IdleWord};
use crate::sync::{AtomicU32, AtomicU64, Relaxed, Release, full_fence, heavy, ord, planted, ticks, ticks_per_us};

/// Which barrier stands between a submit's publication and its look at the idle word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BarrierMode {
    /// Nothing on the submitting side, `membarrier(2)` on the parking side.
    Membarrier = 0,
    /// On the way from Membarrier to Fence: fences on the submitting side, `membarrier` still on the parking side.
    Switching = 1,
    /// A full fence on both sides.
    Fence = 2,
}

/// The mode of one scheduler. It goes one way.
pub struct Mode {
    word: AtomicU32,
    heavies: AtomicU64,
    /// Time stamp of the last look at the rate.
    mark: AtomicU64,
    pinned: bool,
    /// There is no membarrier, and never was: owners fence.
    bare: bool,
}

impl Mode {
    /// A scheduler whose idle words start with these `fences`.
    pub fn new(fences: Fences) -> Self {
        let mode = if fences == Fences::None { BarrierMode::Membarrier } else { BarrierMode::Fence };
        let (heavies, mark) = (AtomicU64::new(0), AtomicU64::new(0));
        Mode { word: AtomicU32::new(mode as u32), heavies, mark, pinned: false, bare: fences == Fences::All }
    }

    /// The mode now.
    pub fn get(&self) -> BarrierMode {
        // Relaxed: whoever acts on Fence passes B2 first, which makes this an acquire load.
        match self.word.load(Relaxed) {
            0 => BarrierMode::Membarrier,
            1 => BarrierMode::Switching,
            _ => BarrierMode::Fence,
        }
    }

    /// There is no membarrier, and never was.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// Calls of `membarrier` so far.
    pub fn heavies(&self) -> u64 {
        self.heavies.load(Relaxed)
    }

    /// The heavy side: orders what the caller did before against every light side. False: nothing may be concluded, the
    /// caller must not sleep without a limit; the switch to fences has been asked for.
    #[inline]
    pub fn heavy_side(&self, words: &[IdleWord]) -> bool {
        if self.get() == BarrierMode::Fence || planted("switch-early") && self.get() == BarrierMode::Switching {
            full_fence("B2");
            return true;
        }
        // Relaxed: a statistic.
        let before = self.heavies.fetch_add(1, Relaxed);
        if (before + 1).is_multiple_of(HEAVIES_PER_LOOK) && self.too_many() {
            return self.give_up_membarrier(words);
        }
        heavy() || self.give_up_membarrier(words)
    }

    /// The heavy side of a rescue. Owners are many times as frequent as rescues, so it is membarrier in every mode as
    /// long as the kernel has one. False: nothing may be concluded.
    pub fn rescue_side(&self, words: &[IdleWord]) -> bool {
        if self.bare {
            full_fence("B7");
            return true;
        }
        // Relaxed: a statistic.
        self.heavies.fetch_add(1, Relaxed);
        if heavy() {
            return true;
        }
        // Refused in mid-life. The parkers can go over to fences, the owners cannot: that would take the barrier.
        self.give_up_membarrier(words);
        false
    }

    /// The mode was asked for by name: it does not change because of how often it is used.
    pub fn pin(&mut self) {
        self.pinned = true;
    }

    /// The last heavy sides came so fast that fences are cheaper.
    #[cold]
    fn too_many(&self) -> bool {
        let now = ticks();
        // Relaxed: two lookers at once make one of them see a short time, which takes as many calls again to confirm.
        let last = self.mark.swap(now, Relaxed);
        let micros = now.wrapping_sub(last) / ticks_per_us();
        !self.pinned && last != 0 && micros < HEAVIES_PER_LOOK * 1_000_000 / HEAVIES_PER_SECOND
    }

    /// Membarrier -> Switching -> Fence. True when the mode is Fence afterwards; then the caller is ordered, too.
    /// Any thread, any number of times. Where the kernel refuses the barrier in between, the mode stays Switching.
    #[cold]
    pub fn give_up_membarrier(&self, words: &[IdleWord]) -> bool {
        let (from, to) = (BarrierMode::Membarrier as u32, BarrierMode::Switching as u32);
        // Relaxed, both: the fenced bits and the barrier below do the work, for every caller by itself.
        let _ = self.word.compare_exchange(from, to, Relaxed, Relaxed);
        words.iter().for_each(IdleWord::set_fenced);
        if self.get() == BarrierMode::Fence {
            full_fence("B2");
            return true;
        }
        self.heavies.fetch_add(1, Relaxed);
        if !planted("switch-no-barrier") && !heavy() {
            return false;
        }
        // B3: who finds it and passes B2 is behind the barrier above.
        self.word.store(BarrierMode::Fence as u32, ord("B3", Release));
        true
    }
}
