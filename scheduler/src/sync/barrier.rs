//! The asymmetric barrier: a light side that costs nothing and a heavy side that makes every running thread of the
//! process execute a full barrier (`membarrier(2)`, PRIVATE_EXPEDITED).
//!
//! A light side orders only against a heavy side. Under loom both go through one read-modify-write word, which gives
//! exactly that guarantee and no more: a light side and a plain fence do not pair, so the switch between the two modes
//! can be modelled. `WEAKEN=light` and `WEAKEN=heavy` remove a side.

#[cfg(loom)]
loom::lazy_static! {
    static ref WORD: loom::sync::atomic::AtomicU64 = loom::sync::atomic::AtomicU64::new(0);
}

#[cfg(loom)]
thread_local! {
    static LIGHTS_OUT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Light sides do nothing from now on, or do again. In a model whose mode is Fence from the beginning nothing may
/// depend on them, and they are most of its events. For the whole model: its threads are coroutines of one OS thread.
#[cfg(loom)]
pub fn lights_out(out: bool) {
    LIGHTS_OUT.set(out);
}

/// The cheap side: stops the compiler only.
#[cfg(not(loom))]
#[inline(always)]
pub fn light() {
    #[cfg(sched_chaos)]
    super::chaos::point();
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(sched_chaos)]
    super::chaos::point();
}

/// See the real twin.
#[cfg(loom)]
pub fn light() {
    if !super::planted("light") && !LIGHTS_OUT.get() {
        WORD.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    }
}

/// The dear side: when it returns true, every thread of the process has passed a full barrier since the call began.
/// False: the kernel refused; nothing may be concluded. Costs about 15 us when a peer runs on another virtual CPU.
#[cfg(not(loom))]
#[cold]
pub fn heavy() -> bool {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    crate::sys::membarrier().is_ok()
}

/// See the real twin.
#[cfg(loom)]
pub fn heavy() -> bool {
    if !super::planted("heavy") {
        WORD.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    }
    true
}
