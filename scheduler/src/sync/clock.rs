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

/// Nanoseconds on the monotonic clock since the process first asked; 0 under loom.
pub fn nanos() -> u64 {
    #[cfg(loom)]
    return 0;
    #[cfg(not(loom))]
    nanos_at(std::time::Instant::now())
}

/// [`nanos`] at an instant: 0 for those before the first question.
pub fn nanos_at(instant: std::time::Instant) -> u64 {
    static BEGAN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let began = BEGAN.get_or_init(std::time::Instant::now);
    instant.saturating_duration_since(*began).as_nanos().min(u128::from(u64::MAX)) as u64
}
