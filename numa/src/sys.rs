//! The system calls of this crate. No policy here; every errno goes up unchanged.
//!
//! Masks are sized at run time: the fixed 128-byte `cpu_set_t` of the C library wrappers ends at CPU 1023, and a
//! kernel with more possible CPUs refuses to fill it.
#![expect(unsafe_code, reason = "raw system calls with masks of any length, which no safe wrapper offers")]

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// Words of a node mask: 1024 nodes, the kernel's `MAX_NUMNODES` at most.
pub(crate) const NODE_WORDS: usize = 16;

/// `maxnode` for a mask of [`NODE_WORDS`]: the kernel takes one off what it is given.
const MAXNODE: usize = NODE_WORDS * 64 + 1;

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

/// CPU of the calling thread as the C library knows it: from its restartable sequence or the vDSO, without a system
/// call on ordinary hosts. Possibly outdated on return. ENOSYS: a kernel without any of it.
pub(crate) fn quick_cpu() -> io::Result<u32> {
    // SAFETY: takes no argument and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).map_err(|_| io::Error::last_os_error())
}

/// Closes files whose numbers follow one another, ascending: by one call where the kernel has `close_range(2)`
/// (Linux 5.9) and nothing forbids it, by one for each otherwise.
pub(crate) fn close_together(files: Vec<OwnedFd>) {
    let [first, .., last] = &files[..] else { return };
    let (first, last) = (first.as_raw_fd() as u32, last.as_raw_fd() as u32);
    debug_assert_eq!((last - first) as usize, files.len() - 1);
    // SAFETY: every number from `first` to `last` is a file that we own, so nobody else can have one of them, and they
    // are forgotten below, so nobody closes them again. Closing touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 {
        files.into_iter().for_each(|file| _ = file.into_raw_fd());
    }
}

/// `sysconf(_SC_PAGESIZE)`. 4096 should the C library not know.
pub(crate) fn page_size() -> NonZeroUsize {
    // SAFETY: a query by number, without pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().and_then(NonZeroUsize::new).unwrap_or(const { NonZeroUsize::new(4096).unwrap() })
}

/// `mmap(2)` of private anonymous memory: zeroes, page-aligned, and no page of it allocated yet.
///
/// ENOMEM: no address space or too many mappings; EINVAL: `bytes` is 0. Both are the caller's to report.
pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice; it replaces nothing.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

/// `munmap(2)`. Cannot fail for a whole mapping; were it to, the memory would leak, so the result is ignored.
///
/// # Safety
/// 1. `start` and `bytes` are those of one [`map`].
/// 2. Nothing refers to that memory any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's obligations 1 and 2.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

/// `mbind(2)`: pages of `bytes` from `start` on that are not allocated yet will come from the nodes in `nodes` if
/// these have room, else from anywhere (`MPOL_PREFERRED`). What is allocated stays where it is.
///
/// EPERM: a sandbox (containers, by default). ENOSYS: no such call. EINVAL: no node of the mask has memory this
/// process may use, or `start` is not page-aligned. EFAULT: not mapped.
pub(crate) fn prefer_nodes(start: *const u8, bytes: usize, nodes: &[u64; NODE_WORDS]) -> io::Result<()> {
    let (mode, no_flags) = (libc::MPOL_PREFERRED, 0);
    // SAFETY: the kernel reads MAXNODE - 1 bits of `nodes`, which are that many, and changes where pages will come
    // from, not what is in them.
    let result = unsafe { libc::syscall(libc::SYS_mbind, start, bytes, mode, nodes.as_ptr(), MAXNODE, no_flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `move_pages(2)` as a question: for each page of this process the node it is on, or the negated errno (ENOENT and
/// EFAULT: not touched yet, or the page of zeroes).
///
/// EPERM: a sandbox. ENOSYS: no such call, as in kernels without NUMA.
pub(crate) fn nodes_of_pages(pages: &[*const u8], answers: &mut [i32]) -> io::Result<()> {
    assert_eq!(pages.len(), answers.len());
    let (nowhere, no_flags): (*const i32, i32) = (ptr::null(), 0);
    let (count, status) = (pages.len(), answers.as_mut_ptr());
    // SAFETY: `pages` and `answers` have `count` entries each; without target nodes nothing is moved, and the
    // addresses themselves are looked up, not followed.
    let result = unsafe { libc::syscall(libc::SYS_move_pages, 0, count, pages.as_ptr(), nowhere, status, no_flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
