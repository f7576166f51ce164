//! The system calls of this crate. No policy here; every errno goes up unchanged.
//!
//! Masks are sized at run time: the fixed 128-byte `cpu_set_t` of the C library wrappers ends at CPU 1023, and a
//! kernel with more possible CPUs refuses to fill it.
#![expect(unsafe_code, reason = "raw system calls with masks of any length, which no safe wrapper offers")]

use std::io;

/// `sched_getaffinity(2)` of the calling thread into `words`; returns how many bytes the kernel wrote.
///
/// EINVAL: the buffer is smaller than the kernel's mask; the caller retries with a larger one.
pub(crate) fn get_affinity(words: &mut [u64]) -> io::Result<usize> {
    let bytes = size_of_val(words);
    // SAFETY: the kernel writes at most `bytes` bytes to `words`, which are that many and exclusively borrowed;
    // thread id 0 is the caller.
    let wrote = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, words.as_mut_ptr()) };
    usize::try_from(wrote).map_err(|_| io::Error::last_os_error())
}

/// `sched_setaffinity(2)` of the calling thread. A mask longer or shorter than the kernel's is accepted.
///
/// EINVAL: no CPU of the mask is online and in the cpuset. EPERM: forbidden by a sandbox. Both are the caller's to
/// report.
pub(crate) fn set_affinity(words: &[u64]) -> io::Result<()> {
    let bytes = size_of_val(words);
    // SAFETY: the kernel reads `bytes` bytes from `words`, which are that many; thread id 0 is the caller.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, words.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `getcpu(2)`: CPU and node of the calling thread, possibly outdated on return.
pub(crate) fn get_cpu() -> io::Result<(u32, u32)> {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    let no_cache: *const u8 = std::ptr::null();
    // SAFETY: both pointers are valid for a write of an unsigned int; the third argument is unused since Linux
    // 2.6.24.
    let result = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, no_cache) };
    if result == 0 { Ok((cpu, node)) } else { Err(io::Error::last_os_error()) }
}
