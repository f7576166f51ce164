//! The only place that knows `cfg(loom)`: atomics, fences, cells, threads, the asymmetric barrier, the futex word, the
//! clock and deferred reclamation. Everything above is written once and runs under loom unchanged.
//!
//! Every atomic operation of the crate names its ordering through [`ord`] (and every full fence through [`full_fence`])
//! with an id that stands in the orderings table of its protocol's README. In a model run `WEAKEN=id` weakens exactly
//! that one, which is how the models are shown to have teeth.

mod barrier;
mod cell;
#[cfg(sched_chaos)]
mod chaos;
mod clock;
mod futex;
mod phase;
mod port;
#[cfg(loom)]
mod port_model;
mod reclaim;
mod wiped;

#[cfg(loom)]
pub use barrier::lights_out;
pub use barrier::{heavy, light};
pub use cell::{Line, Racy};
pub use clock::{nanos, nanos_at, pause, ticks, ticks_per_us, yield_now};
pub use futex::{FutexWord, Wait};
pub use phase::ForkWord;
pub use port::{Bell, Completion, Features, Port, Refused, Setup, Stay, Woken};
pub use reclaim::{Pin, Reclaimer, Registration};
pub use wiped::Wiped;

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(loom)]
pub use loom::sync::{Arc, Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(not(loom))]
pub use std::sync::{Arc, Mutex, MutexGuard};

pub use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

/// The ordering `order` under the name `id`. Outside of models this is the identity and costs nothing.
///
/// In a model run `WEAKEN` may hold a comma separated list: `id` turns the ordering into Relaxed, `id:acq` and `id:rel`
/// take away one half of an AcqRel.
#[cfg(not(any(loom, sched_chaos)))]
#[inline(always)]
pub const fn ord(_id: &'static str, order: Ordering) -> Ordering {
    order
}

/// See the real twin. A perturbation point.
#[cfg(all(sched_chaos, not(loom)))]
pub fn ord(_id: &'static str, order: Ordering) -> Ordering {
    chaos::point();
    order
}

/// See the real twin.
#[cfg(loom)]
pub fn ord(id: &'static str, order: Ordering) -> Ordering {
    match (weakened(id), order) {
        (Some(""), _) => Relaxed,
        (Some("acq"), AcqRel) => Release,
        (Some("rel"), AcqRel) => Acquire,
        _ => order,
    }
}

/// A sequentially consistent fence under the name `id`; `WEAKEN=id` removes it in a model run.
#[cfg(not(loom))]
#[inline(always)]
pub fn full_fence(_id: &'static str) {
    #[cfg(sched_chaos)]
    chaos::point();
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// See the real twin.
#[cfg(loom)]
pub fn full_fence(id: &'static str) {
    if weakened(id).is_none() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// An acquire fence under the name `id`; `WEAKEN=id` removes it in a model run.
#[inline(always)]
pub fn acquire_fence(_id: &'static str) {
    #[cfg(loom)]
    if weakened(_id).is_none() {
        loom::sync::atomic::fence(Acquire);
    }
    #[cfg(not(loom))]
    std::sync::atomic::fence(Acquire);
}

/// A planted bug under the name `id`: true only in a model run with `WEAKEN=id`, constant false otherwise.
#[cfg(not(loom))]
#[inline(always)]
pub const fn planted(_id: &'static str) -> bool {
    false
}

/// See the real twin.
#[cfg(loom)]
pub fn planted(id: &'static str) -> bool {
    weakened(id).is_some()
}

/// How `WEAKEN` names `id`: not at all, whole (`""`), or one half (`"acq"`, `"rel"`).
#[cfg(loom)]
fn weakened(id: &str) -> Option<&'static str> {
    static LIST: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let list = LIST.get_or_init(|| std::env::var("WEAKEN").unwrap_or_default());
    list.split(',').find_map(|item| {
        let (name, half) = item.split_once(':').unwrap_or((item, ""));
        (name == id).then_some(half)
    })
}

/// Real atomics in models, too: for what a process has one of, and no model touches.
pub mod real {
    pub use std::sync::atomic::{AtomicPtr, AtomicU32};
}
