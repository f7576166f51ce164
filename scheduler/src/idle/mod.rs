#![doc = include_str!("README.md")]
#![expect(unsafe_code, reason = "promises that a wiped word is a valid one")]

use crate::config::{RECENCY, SHARD_WORKERS};
use crate::policy::{Look, Recent, choose_idle};
use crate::sync::{Acquire, AtomicU64, Line, Relaxed, Release, Wiped, full_fence, ord, planted};
use std::fmt;

const IDLE: u64 = (1 << SHARD_WORKERS) - 1;
const STANDBY: u64 = 1 << 24;
const SIBLINGS: u64 = 1 << 25;
const SEARCHER: u64 = 1 << 26;
const FAST: u64 = 1 << 34;
const COUNT: u64 = 0xff;
const LOOK: u64 = 1 << 60;
const FENCED: u64 = 1 << 61;
const HUNGRY: u64 = 1 << 62;
const CLOSED: u64 = 1 << 59;
const BARE: u64 = 1 << 58;
/// Look, and nobody of this shard stands by.
const ALONE: u64 = 1 << 57;
/// A searcher of another shard asks owners of this one to publish.
const ASKED: u64 = 1 << 56;
/// None of the six above; the sign, so that a poll is one comparison with memory. Inverted, because the child of a
/// fork finds a wiped word, which must not look calm.
const CALM: u64 = 1 << 63;

/// One reading of a shard's idle word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// Anything that a submitter or an owner must attend to: a wake, a hungry thief, the fence mode, a closed
    /// scheduler, or a fork.
    #[inline(always)]
    pub fn attention(self) -> bool {
        (self.0 as i64) >= 0
    }
    /// Nobody of this shard searches or is fast, and somebody could be woken (here, or perhaps in another shard).
    #[inline(always)]
    pub fn look(self) -> bool {
        self.0 & LOOK != 0
    }
    /// A searcher, of this shard or another one, has found nothing takeable and asks owners to publish.
    pub fn hungry(self) -> bool {
        self.0 & (HUNGRY | ASKED) != 0
    }
    /// The light side of a submit against a park must be a full fence.
    #[inline(always)]
    pub fn fenced(self) -> bool {
        self.0 & FENCED != 0
    }
    /// The fence mode, and nothing else that a submitter must attend to. Not so in the child of a fork.
    pub fn merely_fenced(self) -> bool {
        self.0 & (FENCED | LOOK | CLOSED) == FENCED
    }
    /// Submitters and owners must look at the phase.
    pub fn closed(self) -> bool {
        self.0 & CLOSED != 0
    }
    /// The light side of an owner against a rescue must be a full fence, too: the scheduler has no membarrier.
    pub fn bare(self) -> bool {
        self.0 & BARE != 0
    }
    /// Anything that an owner who has pushed a fork must attend to.
    #[inline(always)]
    pub fn asks(self, heed: Heed) -> bool {
        self.0 & heed.0 != 0
    }
    /// Bit mask of the workers that sleep or are about to.
    pub fn idle(self) -> u32 {
        (self.0 & IDLE) as u32
    }
    /// Workers that look for work.
    pub fn searching(self) -> u64 {
        (self.0 / SEARCHER) & COUNT
    }
    /// Workers that are awake and proven to run short tasks only.
    pub fn fast(self) -> u64 {
        (self.0 / FAST) & COUNT
    }
    /// One of the idle workers sleeps with a timeout and watches the busy ones.
    pub fn standby(self) -> bool {
        self.0 & STANDBY != 0
    }
    /// What the policy of wakes wants to know.
    pub fn for_wake(self) -> Look {
        Look { searching: self.searching() != 0, fast: self.fast() != 0, idle: self.idle() != 0 }
    }

    /// Sets the bits that follow from the others.
    fn derive(self) -> State {
        let mut bits = self.0 & !(LOOK | ALONE | CALM);
        if self.searching() == 0 {
            bits &= !HUNGRY;
            if self.fast() == 0 && bits & (IDLE | SIBLINGS) != 0 {
                let alone = bits & STANDBY == 0 && !planted("fine-wakes-nobody");
                bits |= if alone { LOOK | ALONE } else { LOOK };
            }
        }
        // While somebody searches and others sleep, a submitter relies on the searcher to wake the next: that takes a
        // fence on both sides, as the searcher does not pass the heavy one.
        let relying = self.searching() != 0 && bits & (IDLE | SIBLINGS) != 0;
        if bits & (LOOK | FENCED | HUNGRY | ASKED | CLOSED | BARE) == 0 && !relying {
            bits |= CALM;
        }
        State(bits)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle")
            .field("idle", &format_args!("{:b}", self.idle()))
            .field("searching", &self.searching())
            .field("fast", &self.fast())
            .field("standby", &self.standby())
            .field("hungry", &self.hungry())
            .field("fenced", &self.fenced())
            .finish()
    }
}

/// What an owner heeds who has pushed a fork. (In the child of a fork, where the word is wiped, that is nothing: its
/// threads are gone.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heed(u64);

impl Heed {
    /// The forks are worth a wake.
    pub const COARSE: Heed = Heed(HUNGRY | ASKED | FENCED | LOOK);
    /// They are not as long as somebody stands by.
    pub const FINE: Heed = Heed(HUNGRY | ASKED | FENCED | ALONE);

    /// The number of a mask.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// The mask of a number that [`Heed::bits`] has returned.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Heed(bits)
    }
}

/// What a worker was counted as until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Counted as a searcher.
    pub searching: bool,
    /// Counted as a fast worker.
    pub fast: bool,
}

/// Which light sides are full fences from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fences {
    /// None.
    None,
    /// Those against a parker or the closer: it uses no membarrier.
    Submits,
    /// Those of an owner against a rescue as well: the kernel has no membarrier, and this stays so.
    All,
}

/// The idle words of a scheduler's shards, in memory that a fork wipes.
///
/// # Errors
/// When the memory cannot be mapped.
pub fn idle_words(shards: usize, fences: Fences) -> std::io::Result<Wiped<IdleWord>> {
    let words = (0..shards).map(|_| IdleWord::new(shards > 1, fences)).collect();
    // SAFETY: a word of zeros is valid, and atomics need no drop.
    unsafe { Wiped::new(words) }
}

/// The idle word of one shard, and beside it in which order its sleepers went to sleep. The order is a hint: written by
/// whoever announces, with plain stores, so that a lost update is an order that was true a moment ago.
pub struct IdleWord(Line<Words>);

struct Words {
    state: AtomicU64,
    recent: AtomicU64,
}

impl IdleWord {
    /// A shard in which everybody is busy. `siblings`: there are other shards.
    pub fn new(siblings: bool, fences: Fences) -> Self {
        let fences = match fences {
            Fences::None => 0,
            Fences::Submits => FENCED,
            Fences::All => FENCED | BARE,
        };
        let bits = if siblings { SIBLINGS } else { 0 } | fences;
        let (state, recent) = (State(bits).derive().0, Recent::START.bits());
        IdleWord(Line(Words { state: AtomicU64::new(state), recent: AtomicU64::new(recent) }))
    }

    /// A word that is never calm, for those who want to be called every time. It says nothing else.
    pub fn restless() -> Self {
        IdleWord(Line(Words { state: AtomicU64::new(0), recent: AtomicU64::new(0) }))
    }

    /// Any thread. Relaxed: the barrier that precedes every decisive read orders it.
    #[inline(always)]
    pub fn load(&self) -> State {
        State(self.0.0.state.load(Relaxed))
    }

    /// Any thread. For whoever concludes something from what the workers did before they went idle.
    pub fn load_acquire(&self) -> State {
        // I2: pairs with I1.
        State(self.0.0.state.load(ord("I2", Acquire)))
    }

    /// The look of the often side: behind a full fence where the mode asks for it or a searcher is relied on. The
    /// caller has passed the light side.
    pub fn settle(&self) -> State {
        // Acquire: who finds the shard closed must find the phase closed, too.
        let state = self.load_acquire();
        if !state.fenced() && state.searching() == 0 {
            return state;
        }
        full_fence("B5");
        self.load_acquire()
    }

    /// Applies `step` in one atomic step and returns the state before it; `None` when `step` declines.
    fn update(&self, step: impl Fn(State) -> Option<u64>) -> Option<State> {
        let mut old = self.0.0.state.load(Relaxed);
        loop {
            let new = State(step(State(old))?).derive();
            // I1: who concludes something from the new state (I2) sees what preceded it.
            match self.0.0.state.compare_exchange(old, new.0, ord("I1", Release), Relaxed) {
                Ok(_) => return Some(State(old)),
                Err(now) => old = now,
            }
        }
    }

    /// Busy -> searching, unless `limit` workers search already. False: declined.
    pub fn begin_search(&self, limit: u64) -> bool {
        self.update(|s| (s.searching() < limit).then_some(s.0 + SEARCHER)).is_some()
    }

    /// Searching -> busy. Returns the state before.
    pub fn end_search(&self) -> State {
        let old = self.update(|s| Some(s.0 - SEARCHER)).unwrap_or(State(0));
        debug_assert!(old.searching() != 0, "was not counted");
        // Whoever relied on this searcher has published before its own fence (B5), or sees that the search is over.
        full_fence("I3");
        old
    }

    /// A searcher asks owners to publish.
    pub fn raise_hungry(&self) {
        if !self.load().hungry() {
            self.update(|s| (s.searching() != 0).then_some(s.0 | HUNGRY));
        }
    }

    /// A searcher of another shard asks owners of this one to publish. It is not counted here, so the question does not
    /// end with its search, but with an owner that answers or has nothing, or with the next that goes to sleep.
    pub fn ask(&self) {
        if !self.load().hungry() {
            self.update(|s| Some(s.0 | ASKED));
        }
    }

    /// An owner has published.
    pub fn clear_hungry(&self) {
        self.update(|s| s.hungry().then_some(s.0 & !(HUNGRY | ASKED)));
    }

    /// An owner has nothing to publish. The others of its shard are asked again if the searcher still sees something.
    pub fn clear_asked(&self) {
        self.update(|s| (s.0 & ASKED != 0).then_some(s.0 & !ASKED));
    }

    /// Counts one more fast worker; returns the state after. Count first, then mark.
    pub fn count_fast(&self) -> State {
        let old = self.update(|s| Some(s.0 + FAST)).unwrap_or(State(0));
        State(old.0 + FAST).derive()
    }

    /// Uncounts a fast worker; only for whoever took its mark away.
    pub fn uncount_fast(&self) {
        self.update(|s| Some(s.0 - FAST));
    }

    /// Busy, searching or fast -> idle, in one step. The caller must pass the heavy side of the barrier and look at
    /// every source before it sleeps. True: it is the standby (nobody was, and there is somebody to watch).
    pub fn announce(&self, bit: usize, leave: Role, watch: bool) -> bool {
        self.note(bit);
        let leaving = if leave.searching { SEARCHER } else { 0 } + if leave.fast { FAST } else { 0 };
        let becomes = |s: State| !s.standby() && (watch || State(s.0 - leaving).fast() != 0);
        let old = self.update(|s| Some((s.0 - leaving) & !ASKED | 1 << bit | if becomes(s) { STANDBY } else { 0 }));
        old.is_some_and(becomes)
    }

    /// Idle -> searching, by the worker itself. False: a waker has chosen it already and counted it as a searcher.
    /// A standby gives up the role in the same step.
    pub fn retract(&self, bit: usize, standby: bool) -> bool {
        let role = if standby { STANDBY } else { 0 };
        self.update(|s| (s.idle() & 1 << bit != 0).then_some((s.0 & !(1 << bit | role)) + SEARCHER)).is_some()
    }

    /// A standby that a waker has chosen gives up the role.
    pub fn leave_standby(&self) {
        let left = if planted("standby-keeps-role") { 0 } else { STANDBY };
        self.update(|s| Some(s.0 & !left));
    }

    /// The order in which the members went to sleep, as far as it is known. Relaxed, here and below: it is a hint.
    fn recent(&self) -> Recent {
        if RECENCY { Recent::from_bits(self.0.0.recent.load(Relaxed)) } else { Recent::START }
    }

    /// `bit` goes to sleep.
    fn note(&self, bit: usize) {
        if RECENCY {
            self.0.0.recent.store(self.recent().now(bit).bits(), Relaxed);
        }
    }

    /// Idle -> searching for one worker, chosen by a waker, which must unpark it. `None`: nobody is idle, or somebody
    /// searches already, or (unless `despite_fast`) somebody is fast. `cores`: see [`choose_idle`].
    pub fn choose(&self, despite_fast: bool, cores: &[u32]) -> Option<usize> {
        let recent = self.recent();
        let fits = |s: State| s.idle() != 0 && s.searching() == 0 && (despite_fast || s.fast() == 0);
        let chosen = |s: State| choose_idle(s.idle(), recent, cores).filter(|_| fits(s));
        let old = self.update(|s| chosen(s).map(|bit| (s.0 & !(1 << bit)) + SEARCHER))?;
        chosen(old)
    }

    /// Idle -> searching for worker `bit` whatever the others do; shutdown's broadcast. False: it is not idle.
    pub fn choose_this(&self, bit: usize) -> bool {
        self.update(|s| (s.idle() & 1 << bit != 0).then_some((s.0 & !(1 << bit)) + SEARCHER)).is_some()
    }

    /// From now on every submitter looks at the phase.
    pub fn set_closed(&self) {
        self.update(|s| Some(s.0 | CLOSED));
    }

    /// From now on the light side of the barrier is a full fence in this shard.
    pub fn set_fenced(&self) {
        self.update(|s| Some(s.0 | FENCED));
    }
}
