//! A word that reads zero in the child of a fork. Under loom a plain atomic: there is no fork.

use super::{AtomicU32, Ordering};

/// The word.
pub struct ForkWord {
    #[cfg(not(loom))]
    page: crate::sys::WipeMemory<AtomicU32>,
    #[cfg(loom)]
    word: AtomicU32,
}

impl ForkWord {
    /// A word holding `value`, which must not be zero.
    ///
    /// # Errors
    /// When the page cannot be mapped.
    pub fn new(value: u32) -> std::io::Result<Self> {
        #[cfg(not(loom))]
        return Ok(ForkWord { page: crate::sys::WipeMemory::new(vec![AtomicU32::new(value)])? });
        #[cfg(loom)]
        return Ok(ForkWord { word: AtomicU32::new(value) });
    }

    #[inline(always)]
    fn word(&self) -> &AtomicU32 {
        #[cfg(not(loom))]
        return &self.page.values()[0];
        #[cfg(loom)]
        return &self.word;
    }

    /// Reads the word.
    #[inline(always)]
    pub fn load(&self, order: Ordering) -> u32 {
        self.word().load(order)
    }

    /// Moves `from` to `to`; false when the word holds something else.
    pub fn advance(&self, from: u32, to: u32, order: Ordering) -> bool {
        self.word().compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }
}
