//! The barrier mode gives way when it is asked for too often.
#![cfg(not(loom))]

use scheduler::internals::config::{HEAVIES_PER_LOOK, HEAVIES_PER_SECOND};
use scheduler::internals::idle::{Fences, idle_words};
use scheduler::internals::mode::{BarrierMode, Mode};
use std::time::Instant;

/// Three looks' worth of heavy sides; true if they came at more than twice the rate that is too much.
fn hurry(mode: &Mode) -> bool {
    let words = idle_words(1, Fences::None).unwrap();
    let began = Instant::now();
    for _ in 0..3 * HEAVIES_PER_LOOK {
        assert!(mode.heavy_side(&words));
    }
    began.elapsed().as_secs_f64() * (2 * HEAVIES_PER_SECOND) as f64 <= (3 * HEAVIES_PER_LOOK) as f64
}

/// A scheduler registers the process for `membarrier`; false where the kernel has none.
fn registered() -> bool {
    scheduler::Scheduler::builder().workers(1).barrier(scheduler::Barrier::Membarrier).build().is_ok()
}

#[test]
fn too_many_parks_change_to_fences() {
    if !registered() {
        return println!("skipped: the kernel refuses membarrier");
    }
    let mode = Mode::new(Fences::None);
    if hurry(&mode) {
        assert_eq!(mode.get(), BarrierMode::Fence);
    } else {
        println!("skipped: this machine is too slow to hurry");
    }
}

#[test]
fn a_mode_asked_for_by_name_stays() {
    if !registered() {
        return println!("skipped: the kernel refuses membarrier");
    }
    let mut mode = Mode::new(Fences::None);
    mode.pin();
    hurry(&mode);
    assert_eq!(mode.get(), BarrierMode::Membarrier);
}
