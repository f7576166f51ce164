//! Perturbation of schedules, only under `--cfg sched_chaos`: a short spin, a yield or a sleep, at random, before
//! atomic operations that have an id, before full fences and around the light side of the barrier. What a plain run
//! would need a preemption in the right place for happens all the time then.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Perhaps waits a moment. Each thread has a sequence of its own, begun with its stack's address and the clock.
pub(super) fn point() {
    let Ok(mut state) = STATE.try_with(Cell::get) else { return };
    if state == 0 {
        let here = 0u8;
        state = (&raw const here).addr() as u64 ^ crate::sys::time_stamp() | 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    let _ = STATE.try_with(|cell| cell.set(state));
    // The shares: most points pass, so that a run is some times slower and not a thousand times.
    match state >> 32 {
        r if r % 2048 == 0 => std::thread::sleep(Duration::from_micros(20)),
        r if r % 128 == 0 => std::thread::yield_now(),
        r if r % 16 == 0 => (0..r % 64).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}
