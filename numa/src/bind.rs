//! Binding the calling thread, and asking where it is.
//!
//! Nothing here touches another thread. A single CPU below 1024 goes through the `core_affinity` crate; above that it
//! aborts the process, and sets it cannot express at all, so those go to the kernel directly. `core_affinity` also
//! reduces errors to a `bool`, so after a refusal the call is repeated directly for the sake of its errno.

use crate::cpuset::CpuSet;
use crate::ids::{CpuId, NodeId};
use crate::sys;
use std::io;

/// First id `core_affinity` cannot express: the width of the C library's `cpu_set_t`.
const CORE_AFFINITY_LIMIT: u32 = 1024;

/// Words of the first try at reading a mask: 1024 CPUs, enough for nearly every kernel.
const FIRST_TRY: usize = 16;

/// Restricts the calling thread to `cpus`.
///
/// ```
/// let mine = numa::current_affinity()?;
/// numa::bind_current_thread(&mine)?; // changes nothing
/// assert_eq!(numa::current_affinity()?, mine);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The kernel's, errno kept. `EINVAL`: the set is empty, or no CPU of it is online and within the cpuset (CPUs
/// beyond those are ignored by the kernel). `EPERM`: a sandbox forbids it. The thread's mask is then unchanged.
pub fn bind_current_thread(cpus: &CpuSet) -> io::Result<()> {
    let Some(first) = cpus.first() else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    if cpus.len() == 1 && first.get() < CORE_AFFINITY_LIMIT {
        let id = first.get() as usize;
        if core_affinity::set_for_current(core_affinity::CoreId { id }) {
            return Ok(());
        }
    }
    sys::set_affinity(cpus.words())
}

/// Whether all CPUs that the calling thread may run on are among `cpus`. For those who ask often: it allocates nothing
/// unless the kernel's mask is longer than any that there is today.
///
/// # Errors
/// As for [`current_affinity`].
pub(crate) fn allowed_within(cpus: &CpuSet) -> io::Result<bool> {
    /// 8,192 CPUs, the most that a kernel for x86_64 can be built for.
    const WORDS: usize = 128;
    let mut mask = [0; WORDS];
    match sys::get_affinity(&mut mask) {
        Ok(bytes) => Ok(cpus.covers(&mask[..bytes.div_ceil(8).min(WORDS)])),
        Err(_) => current_affinity().map(|mask| mask.is_subset(cpus)),
    }
}

/// The CPUs the calling thread may run on, however many the kernel knows.
///
/// # Errors
/// The kernel's, errno kept. In practice only a sandbox that forbids the call.
pub fn current_affinity() -> io::Result<CpuSet> {
    read_mask(sys::get_affinity)
}

/// Offers `kernel` a larger buffer as long as it finds it too small.
fn read_mask(kernel: impl Fn(&mut [u64]) -> io::Result<usize>) -> io::Result<CpuSet> {
    let mut words = vec![0; FIRST_TRY];
    loop {
        match kernel(&mut words) {
            Ok(bytes) => {
                words.truncate(bytes.div_ceil(size_of::<u64>()));
                return Ok(CpuSet::from_words(words));
            }
            // A mask of twice our own limit would mean more CPUs than any kernel can have.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && words.len() <= CpuId::LIMIT as usize / 64 => {
                words = vec![0; words.len() * 2];
            }
            Err(error) => return Err(error),
        }
    }
}

/// The CPU the calling thread is running on. It may have moved by the time this returns. No system call on ordinary
/// hosts.
///
/// # Errors
/// `ENOSYS` where a sandbox hides the call; a number beyond [`CpuId::LIMIT`] is `InvalidData`.
///
/// ```
/// assert!(numa::current_affinity()?.contains(numa::current_cpu()?));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn current_cpu() -> io::Result<CpuId> {
    CpuId::try_new(sys::quick_cpu()?).ok_or_else(beyond_limit)
}

/// The node of the CPU the calling thread is running on. It may have moved by the time this returns.
///
/// # Errors
/// As [`current_cpu`].
pub fn current_node() -> io::Result<NodeId> {
    NodeId::try_new(sys::get_cpu()?.1).ok_or_else(beyond_limit)
}

fn beyond_limit() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel names an id beyond this crate's limit")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A kernel with this many possible CPUs, the last one allowed: what such a kernel answers, byte for byte.
    fn kernel(possible: usize) -> impl Fn(&mut [u64]) -> io::Result<usize> {
        move |words| {
            let needed = possible.div_ceil(64);
            if words.len() < needed {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            words[(possible - 1) / 64] = 1 << ((possible - 1) % 64);
            Ok(needed * 8)
        }
    }

    #[test]
    fn the_mask_of_a_kernel_of_any_size() {
        for possible in [1, 64, 1024, 1025, 1100, 8192] {
            let mask = read_mask(kernel(possible)).unwrap();
            assert_eq!(mask, CpuSet::single(CpuId::new(possible as u32 - 1)));
        }
    }

    #[test]
    fn a_kernel_that_is_never_content() {
        let error = read_mask(kernel(usize::MAX)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let denied = |_: &mut [u64]| Err(io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(read_mask(denied).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
}
