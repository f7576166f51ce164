//! Exactly once, and none lost: every task carries a token with a number, and each number has exactly one fate.

use crate::watchdog::violation;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What became of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing yet.
    Pending,
    /// Its task ran.
    Ran,
    /// Its closure was dropped unrun.
    Dropped,
}

/// The fates of so many tokens.
pub struct Claims {
    fates: Vec<AtomicU8>,
}

/// Captured by a task: settles one fate, once. Two words and no allocation.
pub struct Token {
    claims: &'static Claims,
    id: u32,
}

impl Claims {
    /// All pending. Leaked: tokens may outlive anything, and a reference count per task would put locked
    /// instructions, which are fences, between the very accesses that are under test.
    pub fn new(tokens: usize) -> &'static Claims {
        Box::leak(Box::new(Claims { fates: (0..tokens).map(|_| AtomicU8::new(0)).collect() }))
    }

    /// The token `id`; to be made once.
    pub fn token(&'static self, id: usize) -> Token {
        Token { claims: self, id: id as u32 }
    }

    /// A task around token `id`.
    pub fn task(&'static self, id: usize) -> impl FnOnce() + Send + 'static {
        let token = self.token(id);
        move || token.run()
    }

    fn settle(&self, id: u32, fate: Fate) {
        let before = self.fates[id as usize].fetch_add(fate as u8 | 0x10, Relaxed);
        if before != 0 {
            // A panic would be isolated by the scheduler under test: end here.
            violation(&format!("token {id} {fate:?} again: it was {before:#x} already"));
        }
    }

    /// What became of token `id`.
    pub fn fate(&self, id: usize) -> Fate {
        match self.fates[id].load(Relaxed) & 0xf {
            0 => Fate::Pending,
            1 => Fate::Ran,
            _ => Fate::Dropped,
        }
    }

    /// Tokens with this fate.
    pub fn count(&self, fate: Fate) -> usize {
        (0..self.fates.len()).filter(|&id| self.fate(id) == fate).count()
    }

    /// Tokens there are.
    pub fn len(&self) -> usize {
        self.fates.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.fates.is_empty()
    }

    /// Every one of `ids` has this fate.
    ///
    /// # Panics
    /// With the first few that do not.
    #[track_caller]
    pub fn assert_all(&self, ids: impl IntoIterator<Item = usize>, fate: Fate) {
        let mut asked = 0;
        let other = |&id: &usize| self.fate(id) != fate;
        let wrong: Vec<_> = ids.into_iter().inspect(|_| asked += 1).filter(other).collect();
        let first: Vec<_> = wrong.iter().take(8).map(|&id| (id, self.fate(id))).collect();
        assert!(wrong.is_empty(), "{} of {asked} tokens are not {fate:?}, the first: {first:?}", wrong.len());
    }

    /// Every token ran.
    ///
    /// # Panics
    /// With the first few that did not.
    #[track_caller]
    pub fn assert_all_ran(&self) {
        self.assert_all(0..self.len(), Fate::Ran);
    }
}

impl Token {
    /// The task runs.
    pub fn run(self) {
        let token = ManuallyDrop::new(self);
        token.claims.settle(token.id, Fate::Ran);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.claims.settle(self.id, Fate::Dropped);
    }
}
