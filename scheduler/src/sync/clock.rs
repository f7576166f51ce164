//! Time for policy (spin lengths, task means), and how a thread waits a moment.

/// Time stamp counter; 0 under loom, so that no interleaving depends on time.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(loom)]
    return 0;
    #[cfg(not(loom))]
    crate::sys::time_stamp()
}

/// Time stamp counts per microsecond, measured once per process (3 ms at first use).
pub fn ticks_per_us() -> u64 {
    #[cfg(loom)]
    return 1;
    #[cfg(not(loom))]
    {
        static RATE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
        *RATE.get_or_init(|| {
            let (began, first) = (std::time::Instant::now(), ticks());
            while began.elapsed().as_micros() < 3000 {
                std::hint::spin_loop();
            }
            ((ticks() - first) * 1000 / began.elapsed().as_nanos() as u64).max(1)
        })
    }
}

/// One pause of a bounded spin; a yield under loom.
#[inline(always)]
pub fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Lets another thread of this CPU run.
pub fn yield_now() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}
