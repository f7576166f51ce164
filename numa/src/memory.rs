//! Memory that lies on one node, because the thread that uses it touched it first.
//!
//! The kernel allocates a page when it is first written to, from the node of the CPU that writes. So a worker binds
//! itself, then makes its own memory: that needs no permission and no call. Memory from the heap does not do: the
//! allocator hands out pages that somebody else touched and gave back. [`Local`] therefore maps pages of its own.
//!
//! [`Local::new_on`] adds a wish (`mbind`), for the case that the thread has been moved just then. Containers forbid
//! that call by default, so a refusal is an ordinary answer with a type of its own. The policy is *preferred*, never
//! *bind*: a full node must not kill the process.
#![expect(unsafe_code, reason = "values in pages of their own, behind a safe type")]

use crate::ids::NodeId;
use crate::sys::{self, NODE_WORDS};
use std::collections::BTreeMap;
use std::error::Error;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::{fmt, io, slice};

/// Pages asked about in one call: bounds the buffers, 4 MiB of memory at a time with small pages.
const PAGES_AT_ONCE: usize = 1024;

/// A value, or a slice of values, in pages of its own, all of them touched by the thread that makes it.
///
/// Behaves as a `Box`. Make it on the worker's thread after the worker was bound: its pages are then on the worker's
/// node. Costs a system call, and a page at least, so it is for what lives as long as a worker.
///
/// ```
/// let mut queue = numa::Local::from_fn(1000, |index| index as u64)?;
/// queue[3] = 7;
/// assert_eq!(queue.iter().sum::<u64>(), 999 * 1000 / 2 + 4);
/// assert_eq!(queue.as_ptr() as usize % 4096, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Local<T: ?Sized> {
    /// Start of a mapping of `bytes` that holds a valid `T`, owned by this value alone.
    value: NonNull<T>,
    /// Whole pages.
    bytes: usize,
    refusal: Option<MemoryError>,
    owns: PhantomData<T>,
}

// SAFETY: a `Local` owns its value as a `Box` does.
unsafe impl<T: ?Sized + Send> Send for Local<T> {}
// SAFETY: shared access to a `Local` is shared access to its value, as for a `Box`.
unsafe impl<T: ?Sized + Sync> Sync for Local<T> {}

impl<T> Local<T> {
    /// Puts `value` into fresh pages.
    ///
    /// # Errors
    /// The kernel's, when it has no memory or no mapping left. `value` is then dropped.
    ///
    /// # Panics
    /// When `T` wants an alignment of more than a page.
    pub fn new(value: T) -> io::Result<Local<T>> {
        Ok(Local::with(Pages::of::<T>(1, None)?, value))
    }

    /// As [`new`](Local::new), and asks the kernel to take the pages from `node`, wherever this thread is by now.
    /// Whether it agreed says [`refusal`](Local::refusal); without, first touch decides.
    ///
    /// ```
    /// let home = numa::current_node()?;
    /// let counters = numa::Local::new_on(home, [0_u64; 512])?;
    /// if let Some(why) = counters.refusal() {
    ///     println!("first touch must do: {why}"); // an ordinary thing in containers
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`new`](Local::new). A refusal is none.
    ///
    /// # Panics
    /// As [`new`](Local::new).
    pub fn new_on(node: NodeId, value: T) -> io::Result<Local<T>> {
        Ok(Local::with(Pages::of::<T>(1, Some(node))?, value))
    }

    fn with(mut pages: Pages, value: T) -> Local<T> {
        pages.room::<T>(1)[0].write(value);
        let (start, bytes, refusal) = pages.give_up();
        Local { value: start.cast(), bytes, refusal, owns: PhantomData }
    }
}

impl<T> Local<[T]> {
    /// Puts `count` values into fresh pages, in order; `value` is given the index.
    ///
    /// # Errors
    /// The kernel's, when it has no memory or no mapping left; `value` was not called then. More bytes than an
    /// address can count are `OutOfMemory`.
    ///
    /// # Panics
    /// When `T` wants an alignment of more than a page. When `value` panics, what was made is dropped.
    pub fn from_fn(count: usize, value: impl FnMut(usize) -> T) -> io::Result<Local<[T]>> {
        Ok(Local::slice(Pages::of::<T>(count, None)?, count, value))
    }

    /// As [`from_fn`](Local::from_fn), on pages of `node` if the kernel agrees: see [`new_on`](Local::new_on).
    ///
    /// # Errors
    /// As for [`from_fn`](Local::from_fn). A refusal is none.
    ///
    /// # Panics
    /// As [`from_fn`](Local::from_fn).
    pub fn from_fn_on(node: NodeId, count: usize, value: impl FnMut(usize) -> T) -> io::Result<Local<[T]>> {
        Ok(Local::slice(Pages::of::<T>(count, Some(node))?, count, value))
    }

    fn slice(mut pages: Pages, count: usize, value: impl FnMut(usize) -> T) -> Local<[T]> {
        Made { room: pages.room(count), count: 0 }.fill(value);
        let (start, bytes, refusal) = pages.give_up();
        Local { value: NonNull::slice_from_raw_parts(start.cast(), count), bytes, refusal, owns: PhantomData }
    }
}

impl<T: ?Sized> Local<T> {
    /// Why the kernel did not promise to take the pages from the node that was asked for. `None`: it did, or none
    /// was asked for.
    #[must_use]
    pub fn refusal(&self) -> Option<&MemoryError> {
        self.refusal.as_ref()
    }

    /// On which nodes the pages are.
    ///
    /// ```
    /// let value = numa::Local::new([1_u8; 10_000])?;
    /// if let Ok(pages) = value.pages() { // a sandbox may forbid the question
    ///     assert_eq!(pages.total(), 3);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`MemoryError::NotPermitted`] and [`MemoryError::NotSupported`], from sandboxes and kernels without NUMA.
    pub fn pages(&self) -> Result<PageNodes, MemoryError> {
        page_nodes(self.value.as_ptr().cast(), self.bytes)
    }
}

impl<T: ?Sized> Deref for Local<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `value` holds a valid T for as long as `self` lives, and `self` is borrowed.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Local<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: `value` holds a valid T for as long as `self` lives, and `self` is borrowed exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Local<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized> Drop for Local<T> {
    fn drop(&mut self) {
        // Given back even when the value's own drop unwinds.
        let _pages = Pages { start: self.value.cast(), bytes: self.bytes, refusal: None };
        // SAFETY: the value is valid and nobody uses it after its owner's drop.
        unsafe { self.value.drop_in_place() };
    }
}

/// A mapping on its way to becoming a [`Local`].
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
    refusal: Option<MemoryError>,
}

impl Pages {
    /// Room for `count` values, every page of it allocated now and if possible on `node`.
    fn of<T>(count: usize, node: Option<NodeId>) -> io::Result<Pages> {
        let page = sys::page_size().get();
        assert!(align_of::<T>() <= page, "an alignment of more than a page");
        let bytes = size_of::<T>().checked_mul(count).and_then(|bytes| bytes.max(1).checked_next_multiple_of(page));
        // What a reference may span.
        let bytes = bytes.filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut pages = Pages { start: sys::map(bytes)?, bytes, refusal: None };
        pages.refusal = node.and_then(|node| prefer(pages.start.as_ptr(), bytes, node).err());
        pages.touch(page);
        Ok(pages)
    }

    /// Writes to every page. Filling the room would not do: values without content (a ring of empty places) write
    /// nothing, and their pages would be allocated by whoever comes first.
    fn touch(&mut self, page: usize) {
        for at in (0..self.bytes).step_by(page) {
            let byte = self.start.as_ptr().wrapping_add(at);
            // SAFETY: within the mapping, which `self` owns and nothing refers to yet. Volatile, because a zero into
            // fresh memory would otherwise be left out.
            unsafe { byte.write_volatile(0) };
        }
    }

    /// The pages as room for `count` values.
    fn room<T>(&mut self, count: usize) -> &mut [MaybeUninit<T>] {
        assert!(size_of::<T>() * count <= self.bytes);
        // SAFETY: the mapping is aligned to a page, which is enough for T, has room for `count` of them, is borrowed
        // exclusively through `self`, and MaybeUninit asks for no particular content.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), count) }
    }

    /// Start and size of the mapping, which now is the caller's to unmap, and what became of the wish for a node.
    fn give_up(self) -> (NonNull<u8>, usize, Option<MemoryError>) {
        let mut pages = ManuallyDrop::new(self);
        (pages.start, pages.bytes, pages.refusal.take())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: 1. `start` and `bytes` are those of a mapping that only `self` owns. 2. What was in it is dropped
        // or was never made.
        unsafe { sys::unmap(self.start, self.bytes) };
    }
}

/// The first `count` places of `room` hold values; they are dropped with it.
struct Made<'a, T> {
    room: &'a mut [MaybeUninit<T>],
    count: usize,
}

impl<T> Made<'_, T> {
    /// Writes every place; the values then belong to whoever owns the room.
    fn fill(mut self, mut value: impl FnMut(usize) -> T) {
        while self.count < self.room.len() {
            self.room[self.count].write(value(self.count));
            self.count += 1;
        }
        self.count = 0;
    }
}

impl<T> Drop for Made<'_, T> {
    fn drop(&mut self) {
        for place in &mut self.room[..self.count] {
            // SAFETY: the first `count` places were written, and are dropped only here, once.
            unsafe { place.assume_init_drop() };
        }
    }
}

/// Why the kernel did not help with memory. None of this is fatal: pages then are where they were first touched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// A sandbox forbids the call (EPERM), as most containers do.
    NotPermitted,
    /// The kernel has no such call (ENOSYS): built without NUMA, or not Linux proper.
    NotSupported,
    /// The node has no memory this process may use, or does not exist (EINVAL).
    NodeUnusable(NodeId),
    /// Anything else, with its errno.
    Failed(i32),
}

impl MemoryError {
    /// What an errno means; `node`: the one that was asked for, if any.
    fn from_errno(errno: i32, node: Option<NodeId>) -> MemoryError {
        match (errno, node) {
            (libc::EPERM | libc::EACCES, _) => MemoryError::NotPermitted,
            (libc::ENOSYS | libc::EOPNOTSUPP, _) => MemoryError::NotSupported,
            (libc::EINVAL, Some(node)) => MemoryError::NodeUnusable(node),
            _ => MemoryError::Failed(errno),
        }
    }

    fn of(error: &io::Error, node: Option<NodeId>) -> MemoryError {
        MemoryError::from_errno(error.raw_os_error().unwrap_or(libc::EIO), node)
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::NotPermitted => f.write_str("memory policy calls are forbidden here"),
            MemoryError::NotSupported => f.write_str("the kernel has no memory policy calls"),
            MemoryError::NodeUnusable(node) => write!(f, "node {node} has no memory this process may use"),
            MemoryError::Failed(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl Error for MemoryError {}

fn prefer(start: *const u8, bytes: usize, node: NodeId) -> Result<(), MemoryError> {
    let mut mask = [0; NODE_WORDS];
    let Some(word) = mask.get_mut(node.get() as usize / 64) else {
        return Err(MemoryError::NodeUnusable(node));
    };
    *word |= 1 << (node.get() % 64);
    sys::prefer_nodes(start, bytes, &mask).map_err(|error| MemoryError::of(&error, Some(node)))
}

/// How many pages of a piece of memory are on which node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageNodes {
    /// Pages per node, none of them 0.
    pub on: BTreeMap<NodeId, usize>,
    /// Pages that nobody has written to yet, so that they are nowhere.
    pub untouched: usize,
    /// Pages the kernel would not tell about.
    pub unknown: usize,
}

impl PageNodes {
    /// All pages.
    #[must_use]
    pub fn total(&self) -> usize {
        self.on.values().sum::<usize>() + self.untouched + self.unknown
    }

    /// Whether every page that exists is on `node`, and at least one does.
    ///
    /// ```
    /// use numa::NodeId;
    /// let mut pages = numa::PageNodes::default();
    /// assert!(!pages.all_on(NodeId::new(1)));
    /// pages.on.insert(NodeId::new(1), 64);
    /// assert!(pages.all_on(NodeId::new(1)));
    /// pages.on.insert(NodeId::new(0), 1);
    /// assert!(!pages.all_on(NodeId::new(1)));
    /// ```
    #[must_use]
    pub fn all_on(&self, node: NodeId) -> bool {
        self.unknown == 0 && self.on.len() == 1 && self.on.contains_key(&node)
    }

    fn count(&mut self, answer: i32) {
        match answer {
            // Absent, or the shared page of zeroes that stands in after a mere read.
            _ if answer == -libc::ENOENT || answer == -libc::EFAULT => self.untouched += 1,
            _ => match u32::try_from(answer).ok().and_then(NodeId::try_new) {
                Some(node) => *self.on.entry(node).or_default() += 1,
                None => self.unknown += 1,
            },
        }
    }
}

impl fmt::Display for PageNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (node, pages) in &self.on {
            write!(f, "node {node}: {pages}, ")?;
        }
        write!(f, "untouched: {}, unknown: {}", self.untouched, self.unknown)
    }
}

/// On which nodes the pages are that hold the `bytes` from `start` on, by a question to the kernel that moves
/// nothing. The memory is not read; addresses that are not mapped count as untouched.
///
/// ```
/// let stack = [1_u8; 100];
/// match numa::page_nodes(stack.as_ptr(), stack.len()) {
///     Ok(pages) => assert!(pages.total() >= 1),
///     Err(error) => println!("not told: {error}"), // for example in a container
/// }
/// ```
///
/// # Errors
/// [`MemoryError::NotPermitted`] and [`MemoryError::NotSupported`], from sandboxes and kernels without NUMA.
pub fn page_nodes(start: *const u8, bytes: usize) -> Result<PageNodes, MemoryError> {
    let page = sys::page_size().get();
    let skew = start.addr() % page;
    // What wraps around the end of memory is no piece of it.
    start.addr().checked_add(bytes).ok_or(MemoryError::Failed(libc::EFAULT))?;
    let count = if bytes == 0 { 0 } else { bytes.saturating_add(skew).div_ceil(page) };
    let first = start.wrapping_sub(skew);
    let mut nodes = PageNodes::default();
    let mut asked = 0;
    while asked < count {
        let batch = (count - asked).min(PAGES_AT_ONCE);
        let pages: Vec<*const u8> = (0..batch).map(|index| first.wrapping_add((asked + index) * page)).collect();
        let mut answers = vec![-libc::ENOENT; batch];
        sys::nodes_of_pages(&pages, &mut answers).map_err(|error| MemoryError::of(&error, None))?;
        answers.iter().for_each(|&answer| nodes.count(answer));
        asked += batch;
    }
    Ok(nodes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_types() {
        let node = NodeId::new(3);
        let of = |errno, node| MemoryError::from_errno(errno, node);
        assert_eq!(of(libc::EPERM, Some(node)), MemoryError::NotPermitted);
        assert_eq!(of(libc::ENOSYS, None), MemoryError::NotSupported);
        assert_eq!(of(libc::EINVAL, Some(node)), MemoryError::NodeUnusable(node));
        assert_eq!(of(libc::EINVAL, None), MemoryError::Failed(libc::EINVAL));
        assert_eq!(of(libc::EINVAL, Some(node)).to_string(), "node 3 has no memory this process may use");
    }

    #[test]
    fn answers_of_the_kernel_are_sorted() {
        let mut nodes = PageNodes::default();
        for answer in [0, 2, 2, -libc::ENOENT, -libc::EFAULT, -libc::EBUSY, i32::MAX] {
            nodes.count(answer);
        }
        assert_eq!(nodes.to_string(), "node 0: 1, node 2: 2, untouched: 2, unknown: 2");
        assert_eq!(nodes.total(), 7);
        assert!(!nodes.all_on(NodeId::new(2)));
    }
}
