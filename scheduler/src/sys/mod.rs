//! System calls without policy: the doc line names the call, every errno is ignored, retried or returned for a stated
//! reason.
#![expect(unsafe_code, reason = "raw system calls")]

pub mod epoll;
pub mod file;
pub mod uring;

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_int = 8;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 16;

/// `futex(FUTEX_WAIT | PRIVATE)`: sleeps while `*word == expected`. True only on ETIMEDOUT; EAGAIN (the word differed)
/// and EINTR (a signal) mean that the caller must look again.
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

/// `futex(FUTEX_WAKE | PRIVATE)`: wakes at most `count` sleepers of the address. The address need not be mapped any
/// more (EFAULT is ignored): nobody sleeps there then.
pub fn futex_wake(word: usize, count: u32) {
    let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // The kernel takes a signed number, and a negative one for 1.
    let count = count.min(i32::MAX as u32);
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

/// Values on pages of their own that the kernel zeroes in the child of a fork (`madvise(MADV_WIPEONFORK)`).
pub struct WipeMemory<T> {
    first: std::ptr::NonNull<T>,
    count: usize,
}

// SAFETY: owns its values.
unsafe impl<T: Send> Send for WipeMemory<T> {}
// SAFETY: gives shared references only.
unsafe impl<T: Sync> Sync for WipeMemory<T> {}

const PAGE: usize = 4096;

impl<T> WipeMemory<T> {
    /// `mmap` of anonymous pages, then `madvise(MADV_WIPEONFORK)`; a kernel that does not know the advice (EINVAL,
    /// before
    /// 4.14) leaves pages that do not detect forks. The values are not dropped.
    ///
    /// # Errors
    /// ENOMEM and what else `mmap` says.
    pub fn new(values: Vec<T>) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= PAGE) };
        let (count, bytes) = (values.len(), Self::bytes(values.len()));
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping touches nothing that exists.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0) };
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the pages are ours; the advice changes what a child sees of them, nothing else.
        unsafe { libc::madvise(pages, bytes, libc::MADV_WIPEONFORK) };
        let first = std::ptr::NonNull::new(pages.cast::<T>()).expect("mmap returned pages");
        for (i, value) in values.into_iter().enumerate() {
            // SAFETY: inside of the mapping, which has room for all of them.
            let place = unsafe { first.add(i) };
            // SAFETY: ours, aligned and empty.
            unsafe { place.write(value) };
        }
        Ok(WipeMemory { first, count })
    }

    fn bytes(count: usize) -> usize {
        (count * size_of::<T>()).next_multiple_of(PAGE).max(PAGE)
    }

    /// The values.
    #[inline(always)]
    pub fn values(&self) -> &[T] {
        // SAFETY: mapped and initialised until drop; all zeros (after a fork) are valid by the caller of `new`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl<T> Drop for WipeMemory<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` in this size, and nobody borrows the values any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), Self::bytes(self.count)) };
    }
}

/// `malloc_trim(0)` where the C library has it: pages of freed memory go back to the system. Other allocators decide
/// for themselves.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no precondition; touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lowest address of the calling thread's stack that may be used: `pthread_getattr_np`. Zero when it is unknown.
pub fn stack_floor() -> usize {
    let mut attr = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: no precondition.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: asks about the calling thread and fills `attr` when it returns 0.
    if unsafe { libc::pthread_getattr_np(own, attr.as_mut_ptr()) } != 0 {
        return 0;
    }
    let (mut base, mut size) = (std::ptr::null_mut(), 0usize);
    // SAFETY: `attr` was initialised above.
    let rc = unsafe { libc::pthread_attr_getstack(attr.as_ptr(), &mut base, &mut size) };
    // SAFETY: `attr` was initialised above and is not used again.
    unsafe { libc::pthread_attr_destroy(attr.as_mut_ptr()) };
    if rc == 0 { base as usize } else { 0 }
}

/// What is done around every `fork`, on the thread that forks.
pub struct AroundFork {
    /// Before it: takes the locks that a child could find held by a thread that it does not have.
    pub before: extern "C" fn(),
    /// After it in the parent: releases them.
    pub parent: extern "C" fn(),
    /// After it in the child: the same, and what else the child must forget.
    pub child: extern "C" fn(),
}

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// How many forks lie between the first scheduler of this process's line and now.
#[inline(always)]
pub fn fork_generation() -> u32 {
    FORKS.load(std::sync::atomic::Ordering::Relaxed)
}

/// Counts forks from now on, and does what is to be done around them.
pub fn watch_forks(around: &AroundFork) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers stay valid for ever; ENOMEM only loses the early notice, the wiped page remains.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
        // SAFETY: as above; without the locks a child may wait for one for ever, as it would have done anyway.
        unsafe { libc::pthread_atfork(Some(around.before), Some(around.parent), Some(around.child)) };
    });
}

/// Schedulers are told apart by numbers that are never used again; 0 is nobody.
pub fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// The result of a system call as a ring gives it: a number, or a negative `errno`. Interrupted calls are made again.
fn call(mut make: impl FnMut() -> i64) -> i32 {
    loop {
        let result = make();
        if result >= 0 {
            // The kernel transfers at most 2^31 - 4096 bytes at once.
            return i32::try_from(result).unwrap_or(i32::MAX);
        }
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        if errno != libc::EINTR {
            return -errno;
        }
    }
}

/// A result as Rust has it.
///
/// # Errors
/// The `errno`.
pub fn result(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg()))
}
