//! Questions to the kernel: where a page is, where a thread may run.

use numa::CpuSet;
use std::collections::BTreeMap;
use std::io;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Pages that the looks at first touch and binding use: as many as one call can be asked about comfortably.
pub(crate) const PAGES: usize = 64;

/// How many pages are on which node; `None`: not there yet.
pub(crate) type Spread = BTreeMap<Option<u32>, usize>;

/// The nodes of the pages of `bytes` bytes from `address`, by `move_pages` without a destination.
pub(crate) fn nodes_of(address: usize, bytes: usize) -> io::Result<Spread> {
    let first = address / PAGE * PAGE;
    let pages: Vec<usize> = (first..address + bytes.max(1)).step_by(PAGE).collect();
    let mut status = vec![0_i32; pages.len()];
    let nowhere: *const i32 = std::ptr::null();
    // SAFETY: the kernel reads as many addresses and writes as many numbers as the vectors hold; it moves nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_move_pages, 0, pages.len(), pages.as_ptr(), nowhere, status.as_mut_ptr(), 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut spread = Spread::new();
    for status in status {
        *spread.entry(u32::try_from(status).ok()).or_insert(0) += 1;
    }
    Ok(spread)
}

/// `64 on node 2, 1 untouched`.
pub(crate) fn words(spread: &Spread) -> String {
    let part = |(node, count): (&Option<u32>, &usize)| match node {
        Some(node) => format!("{count} on node {node}"),
        None => format!("{count} untouched"),
    };
    spread.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Fresh memory that nobody has touched, for the rest of the process.
pub(crate) fn fresh(pages: usize) -> io::Result<&'static mut [u8]> {
    let (bytes, protection) = (pages * PAGE, libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, writable, ours alone, never unmapped.
    Ok(unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), bytes) })
}

/// Tells the kernel to take the pages of `memory` from `node` only.
pub(crate) fn bind_memory(memory: &mut [u8], node: u32) -> io::Result<()> {
    let mut mask = [0_u64; 16];
    mask[node as usize / 64] |= 1 << (node % 64);
    // The kernel counts the last bit out.
    let bits = size_of_val(&mask) * 8 + 1;
    let (at, bytes) = (memory.as_mut_ptr(), memory.len());
    // SAFETY: the range is the memory borrowed, the mask as long as said.
    let result = unsafe { libc::syscall(libc::SYS_mbind, at, bytes, libc::MPOL_BIND, mask.as_ptr(), bits, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes to every page.
pub(crate) fn touch(memory: &mut [u8]) {
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
}

/// The CPUs that a thread of this process may run on.
pub(crate) fn mask_of(thread: i32) -> Result<CpuSet, String> {
    let status = stress::os::read_thread(thread, "status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.ok_or_else(|| format!("thread {thread} is gone"))?.trim();
    list.parse().map_err(|error| format!("mask of thread {thread}, {list:?}: {error}"))
}

/// The set of these CPUs.
pub(crate) fn set(cpus: &[u32]) -> CpuSet {
    cpus.iter().map(|&cpu| numa::CpuId::new(cpu)).collect()
}
