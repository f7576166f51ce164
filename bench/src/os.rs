//! The system calls of the harness: futex, resource use, affinity. No policy here.
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

/// Sleeps while `word` holds `value`, at most for `limit`. Returns on any wake, mismatch, signal or timeout: the
/// caller looks again.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, limit: Duration) {
    let limit = libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time outlive the call, and FUTEX_WAIT writes to neither. Every error means "look again".
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, value, &raw const limit) };
}

/// From now on the sleeps of this thread end when they should, and not up to 50 us later.
pub(crate) fn sharp_timer() {
    // SAFETY: the call only sets a number of this thread; an error leaves it as it was.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// Wakes up to `count` threads that sleep on `word`.
pub(crate) fn futex_wake(word: &AtomicU32, count: i32) {
    let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: FUTEX_WAKE only uses the address as a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, count) };
}

/// What the whole process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// User and system time of all threads, in nanoseconds (the kernel reports microseconds).
    pub(crate) cpu_ns: u64,
    /// The system part of it.
    pub(crate) system_ns: u64,
    /// Voluntary and involuntary context switches.
    pub(crate) switches: u64,
    /// The involuntary part of them: somebody else was given the CPU.
    pub(crate) involuntary: u64,
}

/// Reads `getrusage(RUSAGE_SELF)`.
pub(crate) fn usage() -> Usage {
    used_by(libc::RUSAGE_SELF)
}

fn used_by(who: libc::c_int) -> Usage {
    let mut out = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage`, which the kernel fills; the call cannot fail for a known `who`.
    unsafe { libc::getrusage(who, out.as_mut_ptr()) };
    // SAFETY: all-zero bytes are a valid `rusage`, so the value is initialised whatever the call did.
    let used = unsafe { out.assume_init() };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    let (user, system_ns) = (ns(used.ru_utime), ns(used.ru_stime));
    let (own_will, against_it) = (used.ru_nvcsw as u64, used.ru_nivcsw as u64);
    Usage { cpu_ns: user + system_ns, system_ns, switches: own_will + against_it, involuntary: against_it }
}

/// CPU time of this process and of all programs it has started and seen the end of.
pub(crate) fn own_and_children() -> Duration {
    Duration::from_nanos(usage().cpu_ns + used_by(libc::RUSAGE_CHILDREN).cpu_ns)
}

/// CPU time that all CPUs together have worked, or were kept from working, since the start of the machine; `None`
/// where the kernel does not say.
pub(crate) fn busy() -> Option<Duration> {
    // SAFETY: a question without side effects.
    let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|t| *t > 0)?;
    let busy = busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
    Some(Duration::from_nanos(busy * (1_000_000_000 / ticks)))
}

/// `cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ..`
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
    let parts: Vec<u64> = line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    match parts[..] {
        [user, nice, system, _idle, _waiting, irq, softirq, steal] => {
            Some(user + nice + system + irq + softirq + steal)
        }
        _ => None,
    }
}

impl std::ops::Sub for Usage {
    type Output = Usage;
    fn sub(self, before: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            // The kernel scales the two parts to a sum it knows exactly, so one of them may shrink for a moment.
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            switches: self.switches - before.switches,
            involuntary: self.involuntary - before.involuntary,
        }
    }
}

/// Set by the first SIGINT or SIGTERM.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Relaxed);
}

/// From now on SIGINT and SIGTERM are noted instead of ending the process: whoever calls this looks at
/// [`interrupted`] between its steps.
pub(crate) fn note_interrupts() {
    let handler = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which a signal handler may do.
        unsafe { libc::signal(signal, handler) };
    }
}

extern "C" fn leave(_signal: libc::c_int) {
    const TEXT: &str = "bench: interrupted; no report was written\n";
    // SAFETY: a signal handler may write; the text is a constant. What cannot be said changes nothing.
    unsafe { libc::write(2, TEXT.as_ptr().cast(), TEXT.len()) };
    // SAFETY: a signal handler may leave. A report is written beside its place and renamed, so none is half there.
    unsafe { libc::_exit(2) };
}

/// From now on SIGINT and SIGTERM end the process with a word and exit code 2.
pub(crate) fn leave_when_interrupted() {
    let handler = leave as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler does nothing but what a signal handler may do.
        unsafe { libc::signal(signal, handler) };
    }
}

/// From now on this process ends when the one that started it does: nobody would read what it says.
pub(crate) fn end_with_parent() {
    // SAFETY: the call only sets the signal that the kernel sends; an error leaves the process running longer.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Whether a signal has asked to stop.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_no_work() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 5 0\ncpu0 9 9 9 9 9 9 9 9\n"), Some(63));
        assert_eq!(busy_ticks("cpu  1 2 x\n"), None);
        assert_eq!(busy_ticks(""), None);
    }
}
