//! System calls without policy: the doc line names the call, every errno is ignored, retried or returned for a stated
//! reason.
#![expect(unsafe_code, reason = "raw system calls")]

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_int = 8;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 16;

/// `futex(FUTEX_WAIT | PRIVATE)`: sleeps while `*word == expected`. True only on ETIMEDOUT; EAGAIN (the word differed) and
/// EINTR (a signal) mean that the caller must look again.
pub fn futex_wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
    let time = limit.map(|d| libc::timespec {
        tv_sec: d.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: i64::from(d.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` and `time` outlive the call; the kernel only reads them.
    let rc = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, expected, time) };
    rc == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
}

/// `futex(FUTEX_WAKE | PRIVATE)`: wakes at most `count` sleepers of the address. The address need not be mapped any more
/// (EFAULT is ignored): nobody sleeps there then.
pub fn futex_wake(word: *const u32, count: u32) {
    let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address as a key and does not dereference it for a private wake.
    unsafe { libc::syscall(libc::SYS_futex, word, op, count) };
}

/// `membarrier(PRIVATE_EXPEDITED)`.
///
/// # Errors
/// EPERM when the process is not registered, ENOSYS or EINVAL where the call is refused or unknown.
pub fn membarrier() -> io::Result<()> {
    // SAFETY: no memory is passed.
    let rc = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `membarrier(REGISTER_PRIVATE_EXPEDITED)`: must succeed once per process before [`membarrier`] may be used.
///
/// # Errors
/// ENOSYS, EINVAL or EPERM where the call is refused or unknown.
pub fn membarrier_register() -> io::Result<()> {
    // SAFETY: no memory is passed.
    let rc = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `rdtsc`.
#[inline(always)]
pub fn time_stamp() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}
