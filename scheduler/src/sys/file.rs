//! System calls on files, with the results of a ring.
#![expect(unsafe_code, reason = "raw system calls")]

use super::call;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `openat(AT_FDCWD)`: the descriptor, which is the caller's.
pub fn open(path: &CStr, flags: i32, mode: u32) -> i32 {
    // SAFETY: `path` outlives the call.
    call(|| i64::from(unsafe { libc::openat(libc::AT_FDCWD, path.as_ptr(), flags, mode) }))
}

/// `openat2(RESOLVE_CACHED)`: the same if it takes no look at the disk, else EAGAIN; ENOSYS and EINVAL before 5.12.
pub fn open_cached(path: &CStr, flags: i32, mode: u32) -> i32 {
    const RESOLVE_CACHED: u64 = 0x20;
    // SAFETY: plain numbers.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    (how.flags, how.mode, how.resolve) = (flags as u64, u64::from(mode), RESOLVE_CACHED);
    let size = size_of::<libc::open_how>();
    call(|| {
        // SAFETY: `path` and `how` outlive the call.
        unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), &raw const how, size) }
    })
}

/// `pread`.
///
/// # Safety
/// 1. `to` has room for `len` bytes.
pub unsafe fn read_at(fd: BorrowedFd<'_>, to: *mut u8, len: usize, offset: i64) -> i32 {
    // SAFETY: 1.
    call(|| unsafe { libc::pread64(fd.as_raw_fd(), to.cast(), len, offset) } as i64)
}

/// `preadv2(RWF_NOWAIT)`: what is in memory, else EAGAIN; EOPNOTSUPP where the file system cannot tell.
///
/// # Safety
/// 1. `to` has room for `len` bytes.
pub unsafe fn read_cached(fd: BorrowedFd<'_>, to: *mut u8, len: usize, offset: i64) -> i32 {
    let part = libc::iovec { iov_base: to.cast(), iov_len: len };
    // SAFETY: 1.
    call(|| unsafe { libc::preadv2(fd.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) } as i64)
}

/// `pwrite`.
///
/// # Safety
/// 1. `from` has `len` bytes.
pub unsafe fn write_at(fd: BorrowedFd<'_>, from: *const u8, len: usize, offset: i64) -> i32 {
    // SAFETY: 1.
    call(|| unsafe { libc::pwrite64(fd.as_raw_fd(), from.cast(), len, offset) } as i64)
}

/// `fsync`, or `fdatasync`.
pub fn sync(fd: BorrowedFd<'_>, data_only: bool) -> i32 {
    let fd = fd.as_raw_fd();
    // SAFETY: no memory is passed.
    call(|| i64::from(if data_only { unsafe { libc::fdatasync(fd) } } else { unsafe { libc::fsync(fd) } }))
}

/// `ftruncate`.
pub fn set_len(fd: BorrowedFd<'_>, len: i64) -> i32 {
    // SAFETY: no memory is passed.
    call(|| i64::from(unsafe { libc::ftruncate64(fd.as_raw_fd(), len) }))
}

/// What `statx` is asked for.
pub const STATX_MASK: u32 = libc::STATX_BASIC_STATS | libc::STATX_BTIME;

/// `statx`, of a descriptor (`path` is empty and AT_EMPTY_PATH set) or of a path.
pub fn statx(directory: i32, path: &CStr, flags: i32, to: &mut libc::statx) -> i32 {
    // SAFETY: `path` and `to` outlive the call.
    call(|| i64::from(unsafe { libc::statx(directory, path.as_ptr(), flags, STATX_MASK, std::ptr::from_mut(to)) }))
}

/// An empty answer.
pub fn blank_statx() -> libc::statx {
    // SAFETY: plain numbers.
    unsafe { std::mem::zeroed() }
}

/// `close` of a descriptor that arrived for nobody.
pub fn close(fd: i32) {
    // SAFETY: it is the caller's, and nobody has seen it.
    unsafe { libc::close(fd) };
}
